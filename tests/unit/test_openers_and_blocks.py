"""Turns whose borders are not where a first look says: numbered tags of calls, shorter headers, several blocks."""

from __future__ import annotations

from typing import Any

import pytest

from dragoman import ChatFormat
from dragoman.proof import Status
from dragoman.template.profile import Marker, Slot
from tests.learned_templates import CONTENT, REASONING, wrap
from tests.toolsets import STRINGS

USER = {"role": "user", "content": "Hi"}
FUNCTION = {"name": "get_weather", "parameters": {"type": "object", "properties": {"city": {"type": "string"}}}}
TOOLS = [{"type": "function", "function": FUNCTION}]
CALLS = [{"id": id, "type": "function", "function": {"name": "get_weather", "arguments": {"city": id}}} for id in "ab"]


def _read(fmt: ChatFormat, text: str) -> Any:
    turn = fmt.turn([USER], TOOLS)
    turn.feed(text)
    turn.finish("stop")
    return turn.message


@pytest.mark.parametrize(
    ("opens", "pieces"),
    [
        ("'<kul ' ~ loop.index ~ '>'", (Marker("", "<kul", " "), Slot.INDEX, Marker("", ">", ""))),
        ("'<kul ' ~ loop.index0 ~ '>'", (Marker("", "<kul", " "), Slot.INDEX, Marker("", ">", ""))),
        ("'<|kul_' ~ loop.index ~ '|>'", (Marker("", "<|kul_", ""), Slot.INDEX, Marker("", "|>", ""))),
    ],
)
def test_a_number_in_the_tag_of_a_call_counts(opens: str, pieces: tuple[Any, ...]) -> None:
    call = f"{{{{ {opens} ~ c.function.name ~ ' ' ~ (c.function.arguments | tojson) ~ '</kul>' }}}}"
    fmt = ChatFormat.from_template(wrap(CONTENT + "{% for c in m.tool_calls or [] %}" + call + "{% endfor %}"))
    assert fmt.profile.tools is not None
    assert fmt.profile.tools.call[:3] == pieces
    assert not fmt.profile.tools.section_open
    assert {fmt.proof[claim] for claim in ("content", "tool_calls", "parallel_tool_calls")} == {Status.PROVEN}
    prose = 'Markup <b>bold</b>, {"json": [1, 2]}, x'
    assert (_read(fmt, prose).content, _read(fmt, prose).tool_calls) == (prose, ())
    said = {"role": "assistant", "content": "", "tool_calls": CALLS}
    history = fmt.turn([USER, said], TOOLS, add_generation_prompt=False).prompt.text
    message = _read(fmt, history[history.rindex("<|zon|>assistant\n") + len("<|zon|>assistant\n") :])
    assert [call.arguments for call in message.tool_calls] == ['{"city": "a"}', '{"city": "b"}']
    assert not message.content


SHORT = """{% for m in messages %}<|start|><|{{ m.role }}|>
{%- if m.reasoning_content %}{{ '<mull>\\n' + m.reasoning_content + '\\n</mull>\\n' }}{% endif %}
{{- m.content }}<|fin|>{% endfor %}
{%- if add_generation_prompt %}{{ '<|assistant|><mull>\\n' }}{% else %}<|done|>{% endif %}"""


def test_a_prompt_that_leaves_away_what_turns_begin_with_opens_reasoning_all_the_same() -> None:
    fmt = ChatFormat.from_template(SHORT)
    assert fmt.turn([USER]).generation_prompt == "<|assistant|><mull>\n"
    message = _read(fmt, "hm\n</mull>\nHello<|fin|>")
    assert (message.reasoning_content, message.content) == ("hm", "Hello")


BLOCKS = """{%- for m in messages %}
{%- if m.role != 'assistant' %}{{ '<|on|>' + m.role + '\\n' + m.content + '<|off|>\\n' }}
{%- else %}
{%- if m.reasoning_content %}{{ '<|on|>assistant/mull\\n' + m.reasoning_content + '<|off|>\\n' }}{% endif %}
{%- if m.content %}{{ '<|on|>assistant\\n' + m.content + '<|off|>' }}
{{- '\\n' if m.tool_calls else '<|over|>\\n' }}{% endif %}
{%- if m.tool_calls %}{{ '<|on|>assistant -> tool\\n[' }}
{%- for c in m.tool_calls %}{{ (c.function | tojson) + (', ' if not loop.last else '') }}{% endfor %}
{{- ']<|off|><|over|>\\n' }}{% endif %}
{%- endif %}{% endfor %}
{%- if add_generation_prompt %}{{ '<|on|>assistant' }}{% if mull %}{{ '/mull\\n' }}{% endif %}{% endif %}"""


def test_reasoning_answer_and_calls_in_messages_of_their_own_leave_no_marker_in_the_answer() -> None:
    fmt = ChatFormat.from_template(BLOCKS)
    call = ' -> tool\n[{"name": "get_weather", "arguments": {"city": "a"}}]<|off|><|over|>'
    thought, answer, header = "/mull\nhm<|off|>\n", "\nHello<|off|>", "<|on|>assistant"
    for text, reasoning, content, calls in (
        (answer + "<|over|>", "", "Hello", 0),
        (thought + header + answer + "<|over|>", "hm", "Hello", 0),
        (answer + "\n" + header + call, "", "Hello", 1),
        (thought + header + call, "hm", "", 1),
        (thought + header + answer + "\n" + header + call, "hm", "Hello", 1),
    ):
        message = _read(fmt, text)
        found = (message.reasoning_content.strip(), message.content.strip(), len(message.tool_calls))
        assert found == (reasoning, content, calls)


KEEPS_ANSWERS = """{% set said = m.content or '' %}{% if not loop.last %}
{%- if '\\n</reply>' in said %}{% set said = said.split('<reply>\\n')[-1].split('\\n</reply>')[0] %}
{%- else %}{% set said = said.split('</mull>')[-1] %}{% endif %}{% endif %}{{ said }}"""


def test_the_block_that_the_history_keeps_alone_is_the_answers_no_reasoning() -> None:
    fmt = ChatFormat.from_template(wrap(KEEPS_ANSWERS))
    assert (fmt.profile.reasoning.open.text, fmt.profile.reasoning.close.text) == ("<mull>", "</mull>")
    assert "<reply>" in _read(fmt, "<mull>hm</mull><reply>\nHello\n</reply>").content


JUDGED = wrap(
    "{{ (m.content or '').split('</mull>')[-1] }}",
    tail="{{ '<|zoff|>\\n' }}{% endif %}{% endfor %}"
    "{% if add_generation_prompt %}{{ '<|zon|>assistant\\n<weigh>\\n' }}{% endif %}",
)


@pytest.mark.parametrize("size", [1, 5, 1000])
@pytest.mark.parametrize("between", ["", "\n", "\n\n"])
def test_a_block_that_the_prompt_opens_may_be_followed_by_the_one_that_the_template_knows(
    between: str, size: int
) -> None:
    fmt = ChatFormat.from_template(JUDGED)
    text = f"Hard.\n</weigh>{between}<mull>\nSo it is.\n</mull>\n\nYes."
    turn = fmt.turn([{"role": "user", "content": "Well?"}])
    for at in range(0, len(text), size):
        turn.feed(text[at : at + size])
    turn.finish()
    assert "Hard." in turn.message.reasoning_content
    assert "So it is." in turn.message.reasoning_content
    assert "<" not in turn.message.reasoning_content
    assert turn.message.content.strip() == "Yes."
    short = fmt.turn([{"role": "user", "content": "Well?"}])
    short.feed("Easy.\n</weigh>\nYes.")
    short.finish()
    assert (short.message.content.strip(), short.message.reasoning_content.strip()) == ("Yes.", "Easy.")


@pytest.mark.parametrize("size", [1, 5, 500])
@pytest.mark.parametrize("behind", ["", "Done.", "<kul>{call}</kul>"])
def test_the_closer_of_reasoning_behind_a_call_inside_it_is_no_text(behind: str, size: int) -> None:
    call = '{"name": "get_weather", "arguments": {"city": "x"}}'
    text = f"<mull>\nLet me see.\n<kul>{call}</kul>\n</mull>\n\n" + behind.replace("{call}", call)
    turn = ChatFormat.from_template(REASONING).turn([{"role": "user", "content": "Hi"}], STRINGS)
    for at in range(0, len(text), size):
        turn.feed(text[at : at + size])
    turn.finish()
    message = turn.message
    assert (message.reasoning_content.strip(), message.content) == ("Let me see.", "Done." if behind == "Done." else "")
    assert len(message.tool_calls) == 1 + behind.count("{call}")


def test_arguments_stream_where_a_forced_call_may_be_a_plain_list_behind_the_same_opener() -> None:
    """``functools[`` opens this template's own section: only one way to read what follows it."""
    source = wrap(
        CONTENT
        + """{% if m.tool_calls %}{{ ' functools[' }}{% for c in m.tool_calls -%}
{{ '{"name": "' + c.function.name + '", "arguments": ' + (c.function.arguments | tojson) + '}' -}}
{{ ', ' if not loop.last else '' }}
{%- endfor %}{{ ']' }}{% endif %}"""
    )
    turn = ChatFormat.from_template(source).turn([{"role": "user", "content": "Hi"}], STRINGS, "required")
    turn.feed(' functools[{"name": "get_weather", "arguments": {"city": "Rom')
    assert [(call.name, call.arguments) for call in turn.message.tool_calls] == [("get_weather", '{"city": "Rom')]
