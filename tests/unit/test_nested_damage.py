"""Damage inside calls whose keys are tags: nothing is lost, what does not belong is told, the rest is read."""

from __future__ import annotations

import json
from typing import Any

import pytest

from dragoman import ChatFormat
from dragoman.chat import Message
from tests import learned_templates

_TYPES: dict[str, Any] = {
    "city": {"type": "string"},
    "days": {"type": "integer"},
    "names": {"type": "array", "items": {"type": "string"}},
    "sizes": {"type": "array", "items": {"type": "number"}},
    "where": {"type": "object", "properties": {"x": {"type": "integer"}, "at": {"type": "string"}}},
}
_TOOL = {"type": "function", "function": {"name": "go", "parameters": {"type": "object", "properties": _TYPES}}}
OPEN, CLOSE = '@]<kuls>\n@]<kul n="go">', "@]</kul>\n@]</kuls>"
DAYS, NAMES = "@]<days>2@]</days>", "@]<names>@]<one>B@]</one>@]</names>"
SIZES, WHERE = "@]<sizes>@]<one>1@]</one>@]<one>2.5@]</one>@]</sizes>", "@]<where>@]<x>1@]</x>@]<at>C@]</at>@]</where>"
CITY = "@]<city>A@]</city>"
VALUES = {DAYS: ("days", 2), NAMES: ("names", ["B"]), SIZES: ("sizes", [1, 2.5]), WHERE: ("where", {"x": 1, "at": "C"})}


def read(text: str, reason: str = "stop") -> Message:
    """The message, the same whole and byte by byte."""
    fmt = ChatFormat.from_template(learned_templates.KEYS_AS_TAGS)
    found = []
    for pieces in ([text.encode()], [bytes([byte]) for byte in text.encode()]):
        turn = fmt.turn([{"role": "user", "content": "Hi"}], tools=[_TOOL], id_seed=1)
        for piece in pieces:
            turn.feed(piece)
        turn.finish("length" if reason == "length" else "stop")
        found.append(turn.message)
    assert found[0] == found[1]
    return found[0]


def told(message: Message) -> list[str]:
    assert {problem.code for problem in message.problems} <= {"stray_text", "truncated"}
    return [problem.message.partition("'go' ")[2] for problem in message.problems if problem.code == "stray_text"]


@pytest.mark.parametrize("written", VALUES)
@pytest.mark.parametrize("behind", ["closer", "words", "@]</other>"])
@pytest.mark.parametrize("last", [False, True])
def test_what_is_stray_behind_a_value_is_told(written: str, behind: str, last: bool) -> None:
    key, value = VALUES[written]
    stray = {"closer": f"@]</{key}>", "words": " Wqinsx\n"}.get(behind, behind)
    message = read(OPEN + written + stray + ("" if last else CITY) + CLOSE)
    assert json.loads(message.tool_calls[0].arguments) == {key: value, **({} if last else {"city": "A"})}
    assert told(message) == [f"holds text that belongs to no argument: {stray.strip()!r}"]
    assert message.content == ""


@pytest.mark.parametrize("written", [DAYS, SIZES])
@pytest.mark.parametrize("instead", ["", "@]</dayz>", "@]</names> "])
def test_a_closer_that_is_missing_or_anothers_is_told(written: str, instead: str) -> None:
    key, value = VALUES[written]
    message = read(OPEN + written.removesuffix(f"@]</{key}>") + instead + CITY + NAMES + CLOSE)
    assert json.loads(message.tool_calls[0].arguments) == {key: value, "city": "A", "names": ["B"]}
    stray = f"holds text that belongs to no argument: {instead.strip()!r}"
    assert told(message) == [stray if instead else "lacks a closer"]


def test_stray_text_among_numbers_is_told() -> None:
    text = OPEN + "@]<sizes>@]<one>1@]</one> x @]<one>2@]</one>@]</one>@]</sizes>" + CITY + CLOSE
    message = read(text)
    assert json.loads(message.tool_calls[0].arguments) == {"sizes": [1, 2], "city": "A"}
    assert [line.rpartition(": ")[2] for line in told(message)] == ["'x'", "'@]</one>'"]


def test_the_end_of_the_calls_ends_a_call_that_nothing_closes() -> None:
    message = read(OPEN + DAYS + "@]</kuls>Bye.")
    assert json.loads(message.tool_calls[0].arguments) == {"days": 2}
    assert (message.content, told(message)) == ("Bye.", ["lacks a closer"])


def test_stray_text_that_the_output_ends_in_is_told() -> None:
    for reason, arguments in (("stop", '{"days": 2}'), ("length", '{"days": 2')):
        message = read(OPEN + DAYS + " Wqinsx", reason)
        assert message.tool_calls[0].arguments == arguments
        assert told(message) == ["holds text that belongs to no argument: 'Wqinsx'"]


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("city", "A@]</city>@]</city> and on"),
        ("names", ["B@]</one> and on", "@]</names>", "@]<x>"]),
        ("where", {"at": "C@]</at> and on"}),
    ],
)
def test_closers_in_text_are_still_text(key: str, value: Any) -> None:
    fmt = ChatFormat.from_template(learned_templates.KEYS_AS_TAGS)
    call = {"type": "function", "function": {"name": "go", "arguments": {key: value, "days": 2}}}
    ask = {"role": "user", "content": "Hi"}
    said = {"role": "assistant", "content": "", "tool_calls": [call]}
    before = fmt.turn([ask], tools=[_TOOL]).prompt.text
    whole = fmt.turn([ask, said], tools=[_TOOL], add_generation_prompt=False).prompt.text
    message = read(whole.removeprefix(before).partition(CLOSE)[0] + CLOSE)
    assert json.loads(message.tool_calls[0].arguments) == {key: value, "days": 2}
    assert message.problems == ()
