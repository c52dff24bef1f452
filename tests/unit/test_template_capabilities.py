"""Capabilities are found by running templates, each flag on and off."""

from __future__ import annotations

import pytest

from dragoman.template.capabilities import Capabilities, find_capabilities
from dragoman.template.render import Template

LOOP = "{% for m in messages %}"
END = "{% endfor %}"


def flags(source: str) -> set[str]:
    found = find_capabilities(Template(source)).to_dict()
    return {name.removeprefix("supports_") for name, value in found.items() if value}


def test_nine_flags() -> None:
    assert len(Capabilities().to_dict()) == 9
    assert all(name.startswith("supports_") for name in Capabilities().to_dict())


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        # content
        (LOOP + "{{ m.content }}" + END, {"string_content", "system_role"}),
        (LOOP + "{{ m.content | trim }}" + END, {"string_content", "system_role"}),
        (LOOP + "{{ m.content + '' }}" + END, {"string_content", "system_role"}),
        (LOOP + "{{ m.content | tojson }}" + END, {"string_content", "system_role"}),
        (LOOP + "{% for p in m.content %}{{ p.text }}{% endfor %}" + END, {"typed_content", "system_role"}),
        (LOOP + "{{ m.content[0].text }}" + END, {"typed_content", "system_role"}),
        (
            LOOP + "{{ m.content | selectattr('type', 'equalto', 'text') | map(attribute='text') | join }}" + END,
            {"typed_content", "system_role"},
        ),
        (
            LOOP + "{% if m.content is string %}{{ m.content }}{% else %}{{ m.content[0]['text'] }}{% endif %}" + END,
            {"string_content", "typed_content", "system_role"},
        ),
        # system
        (LOOP + "{% if m.role != 'system' %}{{ m.content }}{% endif %}" + END, {"string_content"}),
        (
            LOOP + "{% if m.role == 'system' %}{{ raise_exception('no') }}{% endif %}{{ m.content }}" + END,
            {"string_content"},
        ),
        # tools
        ("{{ tools | tojson }}" + LOOP + "{{ m.content }}" + END, {"string_content", "system_role", "tools"}),
        (
            "{% for t in tools %}{{ t.function.name }}{% endfor %}" + LOOP + "{{ m.content }}" + END,
            {"string_content", "system_role", "tools"},
        ),
        ("{% if tools %}has tools{% endif %}" + LOOP + "{{ m.content }}" + END, {"string_content", "system_role"}),
        ("{{ tools }}" + LOOP + "{{ m.content }}" + END, {"string_content", "system_role"}),
    ],
)
def test_content_system_and_tools(source: str, expected: set[str]) -> None:
    assert flags(source) == expected


ONE_ONLY = "{% if m.tool_calls | length > 1 %}{{ raise_exception('one call only') }}{% endif %}"
CALLS = LOOP + "{{ m.content or '' }}{% if m.tool_calls %}{BODY}{% endif %}" + END


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        ("{% for c in m.tool_calls %}{{ c.function.name }}{{ c.function.arguments | tojson }}{% endfor %}", "TOP"),
        ("{% for c in m.tool_calls %}{{ c.function.name ~ c.function.arguments }}{% endfor %}", "TP"),
        ("{% for c in m.tool_calls %}{{ c.function.name + c.function.arguments }}{% endfor %}", "TP"),
        ("{% set c = m.tool_calls[0].function %}{{ c.name }}{{ c.arguments | items | list }}", "TO"),
        (ONE_ONLY + "{% set c = m.tool_calls[0].function %}{{ c.name }}{{ c.arguments | dictsort }}", "TO"),
        ("{{ raise_exception('no calls') }}", ""),
        ("a call", ""),
        ("{% if m.content is none %}{{ m.tool_calls | tojson }}{% else %}{{ raise_exception('') }}{% endif %}", "TOP"),
        ("{% if not tools %}{{ raise_exception('') }}{% endif %}{{ m.tool_calls[0].function.name }}", "T"),
    ],
)
def test_calls(body: str, expected: str) -> None:
    found = flags(CALLS.replace("{BODY}", body))
    for letter, name in (("T", "tool_calls"), ("O", "object_arguments"), ("P", "parallel_tool_calls")):
        assert (name in found) == (letter in expected), name


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        (LOOP + "{{ m.reasoning_content }}{{ m.content }}" + END, True),
        (LOOP + "{{ m.thinking }}{{ m.content }}" + END, True),
        (LOOP + "{% if preserve_thinking %}{{ m.reasoning_content }}{% endif %}{{ m.content }}" + END, True),
        (LOOP + "{% if not clear_thinking %}{{ m.reasoning_content }}{% endif %}{{ m.content }}" + END, True),
        (LOOP + "{% if keep_past_thinking %}{{ m.reasoning_content }}{% endif %}{{ m.content }}" + END, True),
        (LOOP + "{% if loop.last %}{{ m.reasoning_content }}{% endif %}{{ m.content }}" + END, False),
        (LOOP + "{{ m.content }}" + END, False),
    ],
)
def test_preserve_reasoning(source: str, expected: bool) -> None:
    assert ("preserve_reasoning" in flags(source)) == expected


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ("{{ reasoning_effort }}", True),
        ("{% if not reasoning_effort %}{% set reasoning_effort = 'a' %}{% endif %}{{ reasoning_effort }}", True),
        ("{% set reasoning_effort = 'high' %}{{ reasoning_effort }}", False),
        ("{{ reasoning_strength }}", True),
        ("{{ thinking_effort }}", True),
        ("reasoning_effort", False),
    ],
)
def test_reasoning_effort(source: str, expected: bool) -> None:
    assert ("reasoning_effort" in flags(source)) == expected


def test_a_template_that_refuses_everything_still_has_capabilities() -> None:
    assert flags("{{ raise_exception('never') }}") == {"string_content"}
