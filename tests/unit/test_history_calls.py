"""Calls of earlier turns where the template leaves them out: written as the format has them, read back as they were."""

from __future__ import annotations

import json
from typing import Any

import pytest

from dragoman.dialect.families import FAMILIES, Family
from dragoman.dialect.history_calls import calls_text
from dragoman.dialect.request import DialectRequest
from dragoman.format import ChatFormat
from tests.dialects import FORMATS, TOOLS, openai_tools, profile, read

CALLS: list[tuple[str, dict[str, Any]]] = [
    ("get_weather", {"city": 'Brest "sur" Mer', "days": 2, "tags": ["a", "b"]}),
    ("get_weather", {"city": "Ülm"}),
]
DECLARING = [family for family in FAMILIES if family.tools is not None]


def of_client(calls: list[tuple[str, dict[str, Any]]]) -> list[dict[str, Any]]:
    return [{"name": name, "arguments": json.dumps(arguments)} for name, arguments in calls]


@pytest.mark.parametrize("form", sorted(set(FORMATS) - {"headed"}))  # that one needs ids
def test_what_is_written_is_read_back(form: str) -> None:
    tools = FORMATS[form]
    text = calls_text(tools, of_client(CALLS if tools.parallel else CALLS[:1]))
    message = read(profile(tools), DialectRequest(tools=TOOLS), str(text))
    assert [(call.name, json.loads(call.arguments)) for call in message.tool_calls] == CALLS[: len(message.tool_calls)]
    assert len(message.tool_calls) == (2 if tools.parallel else 1)
    assert (message.content, message.problems) == ("", ())


@pytest.mark.parametrize("family", DECLARING, ids=[family.name for family in DECLARING])
def test_the_prompt_of_a_family_holds_the_calls_of_earlier_turns(family: Family) -> None:
    source = (
        "{# " + " ".join(family.evidence).replace("#}", "") + " #}"
        "{% if tools %}{{ tools | tojson }}{% endif %}{% for m in messages %}<|{{ m.role }}|>{{ m.content }}<|fin|>"
        "{% endfor %}{% if add_generation_prompt %}<|assistant|>{% endif %}"
    )
    fmt = ChatFormat.from_template(source)
    calls = [
        {"id": f"abcdefgh{at}", "type": "function", "function": function}
        for at, function in enumerate(of_client(CALLS[:1]))
    ]
    messages = [
        {"role": "user", "content": "And?"},
        {"role": "assistant", "content": None, "tool_calls": calls},
        {"role": "tool", "tool_call_id": "abcdefgh0", "content": "rain"},
    ]
    turn = fmt.turn(messages, tools=openai_tools(TOOLS))
    written = turn.prompt.text.rpartition("And?<|fin|><|assistant|>")[2].partition("<|fin|>")[0]
    reading = fmt.turn(messages[:1], tools=openai_tools(TOOLS))
    reading.feed(written)
    reading.finish()
    assert [(call.name, json.loads(call.arguments)) for call in reading.message.tool_calls] == CALLS[:1]
    own = "".join(text for text, is_input in turn.prompt.parts if not is_input)
    assert "Brest" not in own
    assert family.tools is not None
    assert family.tools.section_open.text in own


_MEMBERS = (
    "{% for m in messages %}<|{{ m.role }}|>{{ m.content }}{% for c in m.tool_calls or [] %}"
    "[{{ c.function.name }}({% for key in c.function.arguments %}{{ key }}={{ VALUE }}"
    "{% if not loop.last %}, {% endif %}{% endfor %})]{% endfor %}<|end|>{% endfor %}"
    "{% if add_generation_prompt %}<|assistant|>{% endif %}{{ '' if tools else '' }}"
)


@pytest.mark.parametrize("value", ["c.function.arguments[key]", "c.function.arguments[key] | tojson"])
@pytest.mark.parametrize("broken", ['{"city": "Bre', '["Brest"]', "Brest", '"Brest"', "{'city': 1}"])
def test_arguments_that_are_no_object_are_told_where_the_template_writes_members(value: str, broken: str) -> None:
    """Such a template would write them character by character, or nothing of them."""
    fmt = ChatFormat.from_template(_MEMBERS.replace("VALUE", value))
    call = {"id": "aaaaaaaa1", "type": "function", "function": {"name": "get_weather", "arguments": broken}}
    user = {"role": "user", "content": "Well?"}
    text = fmt.turn([user, {"role": "assistant", "content": "", "tool_calls": [call]}], openai_tools(TOOLS)).prompt.text
    # As text, or as the value that it is.
    assert any(f"[get_weather(arguments={form})]" in text for form in (broken, json.dumps(broken, ensure_ascii=False)))
