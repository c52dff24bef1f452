"""Templates that put the answer's text between markers beside calls only: the markers are no opener of calls."""

from __future__ import annotations

from typing import Any

import pytest

from dragoman import ChatFormat
from dragoman.dialect.request import DialectRequest
from dragoman.proof import Status
from dragoman.template.profile import ContentMode
from tests.dialects import TOOLS, can_write, openai_tools, writer_program
from tests.learned_templates import wrap
from tests.template_corpus import templates

ASKED = [{"role": "user", "content": "Hi"}]
AROUND = """{% if m.tool_calls %}{{ '<|note_start|>' + (m.content or '') + '<|note_end|>' }}
{%- for c in m.tool_calls %}CALL{% endfor %}{% else %}{{ m.content }}{% endif %}"""
BARE = wrap(
    AROUND.replace(
        "CALL", """{{ '{"name": "' + c.function.name + '", "parameters": ' + (c.function.arguments | tojson) + '}' }}"""
    )
)
TAGGED = wrap(AROUND.replace("CALL", "{{ '<kul>' + (c.function | tojson) + '</kul>' }}"))
PUBLIC = [
    pytest.param(
        source, "<|python_start|>", "<|python_end|>", '{"name": "get_weather", "parameters": {"city": "x"}}', id=name
    )
    for name, source in templates()
    if name == "trl-internal-testing-tiny-Llama4ForCausalLM.jinja"
]
CASES = [
    pytest.param(
        BARE, "<|note_start|>", "<|note_end|>", '{"name": "get_weather", "parameters": {"city": "x"}}', id="bare"
    ),
    pytest.param(
        TAGGED,
        "<|note_start|>",
        "<|note_end|>",
        '<kul>{"name": "get_weather", "arguments": {"city": "x"}}</kul>',
        id="tagged",
    ),
    *PUBLIC,
]


def _read(fmt: ChatFormat, text: str) -> Any:
    turn = fmt.turn(ASKED, openai_tools(TOOLS))
    turn.feed(text)
    turn.finish("stop")
    return turn.message


@pytest.mark.parametrize(("source", "opens", "closes", "call"), CASES)
def test_calls_are_read_with_and_without_a_text_in_the_markers(source: str, opens: str, closes: str, call: str) -> None:
    fmt = ChatFormat.from_template(source)
    assert fmt.profile.content.mode is ContentMode.WRAPPED_WITH_CALLS
    assert (fmt.profile.content.open.text, fmt.profile.content.close.text) == (opens, closes)
    assert fmt.proof["tool_calls"] is Status.PROVEN
    for text, content in (
        (call, ""),
        (opens + closes + call, ""),
        (f"{opens}Let me look.{closes}{call}", "Let me look."),
        (f"Let me look. {call}", "Let me look."),
    ):
        message = _read(fmt, text)
        assert (message.content.rstrip(), [(c.name, c.arguments) for c in message.tool_calls], message.problems) == (
            content,
            [("get_weather", '{"city": "x"}')],
            (),
        )
    assert _read(fmt, "A plain answer.").content == "A plain answer."


@pytest.mark.parametrize(("source", "opens", "closes", "call"), CASES)
def test_they_are_written_as_the_template_writes_them(source: str, opens: str, closes: str, call: str) -> None:
    fmt = ChatFormat.from_template(source)
    call = {"id": "a", "type": "function", "function": {"name": "get_weather", "arguments": {"city": "x"}}}
    said = {"role": "assistant", "content": "Let me look.", "tool_calls": [call]}
    history = fmt.turn([*ASKED, said], openai_tools(TOOLS), add_generation_prompt=False).prompt.text
    written = history[history.index(opens + "Let me") :]
    written = written[: written.index(fmt.profile.end_of_turn[0])]
    program = writer_program(fmt.profile, DialectRequest(tools=TOOLS))
    assert can_write(program, written)
    assert can_write(program, written.removeprefix(f"{opens}Let me look.{closes}"))
    assert can_write(program, "A plain answer.")
    assert not can_write(program, f"{opens}A plain answer.")
    message = _read(fmt, written)
    assert (message.content, len(message.tool_calls)) == ("Let me look.", 1)
