"""Formats with one text in front of every block, answer or call: ``###everyone\\nHi###get_weather\\n{...}``."""

from __future__ import annotations

import json
from functools import lru_cache
from typing import Any

import pytest

from dragoman.format import ChatFormat
from dragoman.grammar.compile import compile_writer
from tests import learned_templates as own
from tests.dialects import can_write
from tests.template_corpus import shared
from tests.toolsets import STRINGS

USER = [{"role": "user", "content": "Hi"}]
CALL = 'get_weather\n{"city": "x"}'


@lru_cache(maxsize=1)
def recipients() -> ChatFormat:
    return ChatFormat.from_template(own.RECIPIENTS)


def read(fmt: ChatFormat, text: str, *, tools: Any = STRINGS) -> tuple[str, list[Any]]:
    turn = fmt.turn(USER, tools)
    for char in text:
        turn.feed(char)
    turn.finish()
    assert turn.message.problems == ()
    return turn.message.content, [json.loads(call.arguments) for call in turn.message.tool_calls]


@pytest.mark.parametrize(
    ("text", "content", "calls"),
    [
        (f"everyone\nHello###{CALL}", "Hello", 1),
        (f"everyone\nHello\n###{CALL}", "Hello", 1),
        (f"{CALL}###everyone\nBye", "Bye", 1),
        (f"{CALL}###{CALL}", "", 2),
        (f"everyone\nHello###{CALL}###{CALL}", "Hello", 2),
        (f"Hello###{CALL}", "Hello", 1),
        ("everyone\nHello everyone\nand ### all", "Hello everyone\nand ### all", 0),
        ("everyone\n", "", 0),
        ("Hello", "Hello", 0),
    ],
)
def test_the_joint_is_in_no_answer(text: str, content: str, calls: int) -> None:
    assert read(recipients(), text) == (content, [{"city": "x"}] * calls)
    path = shared("templates/meetkai-functionary-medium-v3.2.jinja")
    if path is not None:
        fmt = ChatFormat.from_template(path.read_text("utf-8"))
        written = text.replace("everyone\n", "all\n").replace("everyone", "all").replace("###", ">>>")
        expected = content.replace("everyone", "all").replace("###", ">>>")
        assert read(fmt, written) == (expected, [{"city": "x"}] * calls)


def test_an_answer_may_hold_the_word_that_opens_one() -> None:
    assert read(recipients(), "everyone\nTo everyone: hi", tools=None) == ("To everyone: hi", [])


def test_the_joint_is_written_between_answer_and_call() -> None:
    turn = recipients().turn(USER, STRINGS)
    program = compile_writer(turn.format.writer(turn.request))
    for text in (f"everyone\nTo everyone###{CALL}", CALL, f"{CALL}###{CALL}", "everyone\nHi", ""):
        assert can_write(program, text), text
    for text in (f"everyone\nHi{CALL}", f"everyone\nHi###everyone\n{CALL}", f"###{CALL}"):
        assert not can_write(program, text), text
