"""Calls of the history stand in the prompt, whatever content their message has and its template wants."""

from __future__ import annotations

import json
from typing import Any

import pytest

from dragoman import ChatFormat
from tests.template_corpus import templates

_TOOLS_SHOWN = "{%- for t in tools or [] %}{{ t.function.name }}{% endfor %}"
_CALLS = """{%- for c in m.tool_calls %}{{ '<call>' + c.function.name + '\\n' + c.function.arguments + '</call>' }}
{%- endfor %}"""


def _source(condition: str, otherwise: str = "m.content") -> str:
    """A template that writes the calls of a message under ``condition``, else its content alone."""
    return (
        _TOOLS_SHOWN
        + "{%- for m in messages %}{{ '<|' + m.role + '|>' }}"
        + f"{{%- if m.role == 'assistant' and ({condition}) %}}{_CALLS}{{%- else %}}{{{{ {otherwise} }}}}{{% endif %}}"
        + "{{- '<|end|>' }}{% endfor %}{% if add_generation_prompt %}<|assistant|>{% endif %}"
    )


SOURCES = {
    "null": _source("m.content is none"),
    "absent": _source("m.content is not defined"),
    "empty": _source("m.content is string and not m.content and m.tool_calls", "m.content or ''"),
    "no text": _source("not m.content and m.tool_calls"),
}
# Public templates of both kinds: content must be null, and content must be no text.
PUBLIC = (
    "deepseek-ai-DeepSeek-R1-Distill-Llama-8B.jinja",
    "deepseek-ai-DeepSeek-V2.5.jinja",
    "llama-cpp-deepseek-r1.jinja",
    "tool_chat_template_phi4_mini.jinja",
)
TOOLS = [{"type": "function", "function": {"name": "get_weather", "parameters": {"type": "object", "properties": {}}}}]


def _messages(**content: Any) -> list[dict[str, Any]]:
    function = {"name": "get_weather", "arguments": json.dumps({"city": "Brestqz"})}
    call = {"id": "aaaaaaaa1", "type": "function", "function": function}
    result = {"role": "tool", "tool_call_id": "aaaaaaaa1", "content": "sunny"}
    return [{"role": "user", "content": "Hi"}, {"role": "assistant", "tool_calls": [call], **content}, result]


def _all() -> list[Any]:
    public = {name: source for name, source in templates() if name in PUBLIC}
    return [pytest.param(source, id=name) for name, source in (SOURCES | public).items()]


@pytest.mark.parametrize("source", _all())
@pytest.mark.parametrize(
    "content", [{}, {"content": None}, {"content": ""}, {"content": []}, {"content": "Let me look."}]
)
def test_the_call_is_in_the_prompt(source: str, content: dict[str, Any]) -> None:
    fmt = ChatFormat.from_template(source, bos_token="<s>", eos_token="</s>")
    text = fmt.turn(_messages(**content), TOOLS).prompt.text
    assert text.count("Brestqz") == 1
    assert "None" not in text
    assert text.index("Brestqz") < text.index("sunny")
    if content.get("content"):
        assert text.index("Let me look.") < text.index("Brestqz")


def test_the_prompt_is_that_of_content_null() -> None:
    fmt = ChatFormat.from_template(SOURCES["null"])
    wanted = (
        'get_weather<|user|>Hi<|end|><|assistant|><call>get_weather\n{"city": "Brestqz"}</call><|end|>'
        "<|tool|>sunny<|end|><|assistant|>"
    )
    for content in (None, ""):
        assert fmt.turn(_messages(content=content), TOOLS).prompt.text == wanted


def test_reasoning_stays_with_the_text_that_was_parted_from_its_calls() -> None:
    source = SOURCES["null"].replace("{{ m.content }}", "{{ '(' + (m.reasoning_content or '') + ')' + m.content }}")
    messages = _messages(content="Let me look.", reasoning_content="Hm.")
    text = ChatFormat.from_template(source).turn(messages, TOOLS).prompt.text
    assert "<|assistant|>(Hm.)Let me look.<|end|><|assistant|><call>" in text
    assert text.count("Hm.") == 1


def test_a_template_that_takes_any_content_gets_the_message_as_it_is() -> None:
    calls = "{{ m.content or '' }}" + _CALLS
    source = SOURCES["null"].replace("m.content is none", "m.tool_calls").replace(_CALLS, calls)
    text = ChatFormat.from_template(source).turn(_messages(content="Let me look."), TOOLS).prompt.text
    assert "<|assistant|>Let me look.<call>" in text
