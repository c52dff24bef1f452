"""An end of turn with which a call may begin too: what follows tells, as soon as it can be told."""

from __future__ import annotations

from typing import Any

import pytest

from dragoman import ChatFormat
from dragoman.turn import Turn

TEMPLATE = (
    "{{ tools and '' }}{% for m in messages %}{{ m.role }}<|is|>{{ m.content or '' }}"
    "{% for c in m.tool_calls or [] %}<|sep|>\n\ndo it<|is|>\n{{ c.function | tojson }}{% endfor %}<|sep|>\n\n"
    "{% endfor %}{% if add_generation_prompt %}assistant<|is|>{% endif %}"
)
TOOLS = [{"type": "function", "function": {"name": "ring", "parameters": {"type": "object", "properties": {}}}}]
CALL = '<|sep|>\n\ndo it<|is|>\n{"name": "ring", "arguments": {}}'


def turn(**arguments: Any) -> Turn:
    return ChatFormat.from_template(TEMPLATE).turn([{"role": "user", "content": "Hello"}], id_seed=1, **arguments)


def read(text: str, *, bytewise: bool, **arguments: Any) -> Turn:
    reading = turn(**arguments)
    for piece in [text[i : i + 1] for i in range(len(text))] if bytewise else [text]:
        reading.feed(piece)
    return reading


@pytest.mark.parametrize(
    "behind", ["", "\n\n", "\n\nuser<|is|>Hm", "<|sep|>", "do", "do its", "\n\ndo it<|", "\n \ndo x"]
)
@pytest.mark.parametrize("bytewise", [False, True])
def test_what_cannot_become_a_call_shows_that_the_turn_is_over(behind: str, bytewise: bool) -> None:
    reading = read(f"Done.<|sep|>{behind}", bytewise=bytewise, tools=TOOLS)
    # As long as it may still become a call, only the end of the output tells.
    assert reading.ended == (not "do it<|is|>".startswith(behind.strip()))
    reading.finish()
    assert (reading.message.content, reading.message.tool_calls) == ("Done.", ())


@pytest.mark.parametrize("bytewise", [False, True])
def test_a_call_behind_an_answer_is_read(bytewise: bool) -> None:
    reading = read(f"I ring.{CALL}{CALL}<|sep|>\n\nuser<|is|>", bytewise=bytewise, tools=TOOLS)
    assert reading.ended
    reading.finish()
    assert [call.name for call in reading.message.tool_calls] == ["ring", "ring"]
    assert reading.message.content == "I ring."


@pytest.mark.parametrize("behind", ["", "\n\n", " "])
@pytest.mark.parametrize("reason", ["stop", "length"])
@pytest.mark.parametrize("choice", ["auto", "required"])
def test_the_end_behind_a_call_is_no_half_call(behind: str, reason: Any, choice: str) -> None:
    for bytewise in (False, True):
        reading = read(f"{CALL}<|sep|>{behind}", bytewise=bytewise, tools=TOOLS, tool_choice=choice)
        reading.finish(reason)
        assert reading.finish_reason == "tool_calls"
        assert (reading.message.content, reading.message.problems) == ("", ())
        assert not reading.message.truncated


def test_an_engine_is_given_stops_only_behind_which_nothing_comes() -> None:
    assert "<|sep|>" not in turn(tools=TOOLS).stops
    assert "<|sep|>" in turn().stops
    plain = read("Done.<|sep|>", bytewise=True)
    assert plain.ended


@pytest.mark.parametrize("behind", ["\n", " more", "<|sep|>"])
@pytest.mark.parametrize("tools", [None, TOOLS])
def test_output_behind_the_end_is_noted_however_it_is_cut(behind: str, tools: Any) -> None:
    found = []
    for bytewise in (False, True):
        reading = read(f"Done.<|sep|>x{behind}", bytewise=bytewise, tools=tools)
        reading.finish()
        found.append(reading.message)
    assert found[0] == found[1]
    assert [problem.code for problem in found[0].problems] == ["after_end"]


@pytest.mark.parametrize(
    ("behind", "noted"), [("", False), ("\n", False), ("<|sep|>\n<|sep|>", False), ("<|se", True), ("<|sep|>x", True)]
)
def test_a_further_end_behind_the_end_is_no_output(behind: str, noted: bool) -> None:
    found = []
    for bytewise in (False, True):
        reading = read(f"Done.<|sep|>{behind}", bytewise=bytewise)
        reading.finish()
        found.append(reading.message)
    assert found[0] == found[1]
    assert [problem.code for problem in found[0].problems] == (["after_end"] if noted else [])
