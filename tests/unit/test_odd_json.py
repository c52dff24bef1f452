"""Calls that are no JSON and can mean one thing only: the quotes of Python or none, another key for the arguments."""

from __future__ import annotations

import pytest

from dragoman.chat import Message
from dragoman.format import ChatFormat
from tests import learned_templates as own
from tests.toolsets import tool

USER = [{"role": "user", "content": "Hi"}]
TOOLS = [
    tool("go", {"city": {"type": "string"}, "n": {"type": "integer"}}),
    tool("ask", {"kwargs": {"type": "object"}}),
]
OBJECT = "<qor>\n%s\n</qor>"


def read(source: str, text: str, reason: str = "stop") -> Message:
    """The message, the same in one piece and byte by byte; its deltas add up to it."""
    fmt = ChatFormat.from_template(source)
    messages = []
    for size in (len(text.encode()), 1):
        turn = fmt.turn(USER, TOOLS, id_seed=1)
        data, told = text.encode(), ""
        for at in range(0, len(data), size):
            told += "".join(piece.arguments for delta in turn.feed(data[at : at + size]) for piece in delta.tool_calls)
        told += "".join(piece.arguments for delta in turn.finish(reason) for piece in delta.tool_calls)  # type: ignore[arg-type]
        assert told == "".join(call.arguments for call in turn.message.tool_calls)
        messages.append(turn.message)
    assert messages[0] == messages[1]
    return messages[0]


@pytest.mark.parametrize(
    ("written", "arguments"),
    [
        ("""{'name': 'go', 'arguments': {'city': 'Rome', 'n': None}}""", '{"city": "Rome", "n": null}'),
        ("""{'type': 'function', 'name': 'go', 'arguments': {'city': "it's"}}""", '{"city": "it\'s"}'),
        ("""{name: "go", arguments: {"city": "Rome"}}""", '{"city": "Rome"}'),
        ("""{"name": "go", arguments: {}}""", "{}"),
        ("""{"name": "go", "arguments": {city: "Rome", n: 1,}}""", '{"city": "Rome", "n": 1}'),
        ("""{"name": "go", "arguments": {\n  'city': ["a", {'b': True}]}}""", '{\n  "city": ["a", {"b": true}]}'),
        ("""{"name": "go", "args": {"city": "Rome"}}""", '{"city": "Rome"}'),
        ("""{'name': 'go', 'params': {'city': 'Rome'}}""", '{"city": "Rome"}'),
        ("""{"name": "go", "input": {"city": "Rome"}, "type": "function"}""", '{"city": "Rome"}'),
    ],
)
def test_a_call_that_is_no_json_is_read_as_meant(written: str, arguments: str) -> None:
    message = read(own.JSON_IN_TAGS, OBJECT % written)
    assert [(call.name, call.arguments) for call in message.tool_calls] == [("go", arguments)]
    assert [problem.code for problem in message.problems] == ["repaired_call"]
    assert message.content == ""


@pytest.mark.parametrize(
    ("source", "text", "call"),
    [
        (own.JSON_IN_TAGS, OBJECT % '{"name": "ask", "kwargs": {"a": 1}}', ("ask", '{"kwargs": {"a": 1}}')),  # declared
        (own.JSON_IN_TAGS, OBJECT % '{"name": "go", "arguments": {"city": \'x\'}}', ("go", "{\"city\": 'x'}")),
    ],
)
def test_what_may_mean_something_else_is_not(source: str, text: str, call: tuple[str, str]) -> None:
    message = read(source, text)
    assert [(call.name, call.arguments) for call in message.tool_calls] == [call]
    assert "repaired_call" not in {problem.code for problem in message.problems}


def test_an_object_in_an_answer_is_none_of_a_call() -> None:
    text = "{'name': 'go', 'arguments': {'city': 'Rome'}}"
    message = read(own.BARE_JSON_ONE_CALL, text)
    assert (message.content, message.tool_calls, message.problems) == (text, (), ())


@pytest.mark.parametrize(
    ("text", "arguments"),
    [("{'city': 'Ro", '{"city": "Ro'), ("{'city': Tr", '{"city": '), ("{", "{"), ("{city: 'a', n", '{"city": "a", n')],
)
def test_arguments_that_are_cut_off_keep_what_is_sure(text: str, arguments: str) -> None:
    message = read(own.JSON_IN_TAGS, '<qor>\n{"name": "go", "arguments": ' + text, "length")
    assert [call.arguments for call in message.tool_calls] == [arguments]
    assert message.truncated


def test_an_odd_key_that_breaks_off_is_told() -> None:
    message = read(own.JSON_IN_TAGS, """<qor>\n{"name": "go", "arguments": {}, 'odd" and more""")
    assert [call.arguments for call in message.tool_calls] == ["{}"]
    assert "'odd" in " ".join([message.content, *(problem.message for problem in message.problems)])
