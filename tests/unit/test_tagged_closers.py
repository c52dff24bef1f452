"""Closers inside tagged values: in the strings of objects and arrays, and in raw text."""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import pairwise

import pytest

from dragoman.chat import Message
from dragoman.dialect.request import DialectRequest, Tool
from dragoman.errors import OutputError
from dragoman.format import ChatFormat
from tests import learned_templates
from tests.dialects import FORMATS, Reading, can_write, openai_tools, profile, reader_program, writer_program

_TYPES = {
    "obj": {"type": "object"},
    "list": {"type": "array"},
    "text": {"type": "string"},
    "either": {"anyOf": [{"type": "string"}, {"type": "object"}]},
    "count": {"type": "integer"},
}
_TOOLS = (
    Tool("file", {"type": "object", "properties": _TYPES}),
    Tool("next", {"type": "object", "properties": {"text": {"type": "string"}}}),
)
REQUEST = DialectRequest(tools=_TOOLS)
Arguments = Sequence[tuple[str, str]]


def _tagged(calls: Sequence[tuple[str, Arguments]]) -> str:
    return "".join(
        f"<tool>\n<fn={name}>\n" + "".join(f"<par={k}>\n{v}\n</par>\n" for k, v in given) + "</fn>\n</tool>"
        for name, given in calls
    )


def _is_text(value: str) -> str:
    """The word beside a value: is it a string?"""
    return "false" if value.startswith(("{", "[")) else "true"


def _invoke(calls: Sequence[tuple[str, Arguments]]) -> str:
    return (
        "<x:calls>\n"
        + "\n".join(
            f'<invoke name="{name}">\n'
            + "".join(f'<parameter name="{k}" string="{_is_text(v)}">{v}</parameter>\n' for k, v in given)
            + "</invoke>"
            for name, given in calls
        )
        + "\n</x:calls>"
    )


def _pairs(calls: Sequence[tuple[str, Arguments]]) -> str:
    return "".join(
        f"<call>{name}\n" + "".join(f"<key>{k}</key>\n<val>{v}</val>\n" for k, v in given) + "</call>"
        for name, given in calls
    )


# format -> how its calls are written; a value's closer and the call's, without the layout between them
WRITE: dict[str, tuple[Callable[[Sequence[tuple[str, Arguments]]], str], str]] = {
    "tagged": (_tagged, "</par></fn>"),
    "invoke": (_invoke, "</parameter></invoke>"),
    "pairs": (_pairs, "</val></call>"),
}
_PROGRAMS = {name: reader_program(profile(FORMATS[name]), REQUEST) for name in WRITE}


def read(name: str, text: str, *, reason: str = "stop", strict: bool = False) -> Message:
    """The message, the same whole, byte by byte and in random pieces."""
    data = text.encode()
    pick = random.Random(text)
    cuts = [0, *sorted(pick.choices(range(len(data) + 1), k=6)), len(data)]
    ways = [[data], [data[i : i + 1] for i in range(len(data))], [data[a:b] for a, b in pairwise(cuts)]]
    found = []
    for pieces in ways:
        reading = Reading(_PROGRAMS[name], REQUEST, strict=strict)
        for piece in pieces:
            reading.feed(piece)
        found.append(reading.finish(reason))
    assert found[0] == found[1] == found[2]
    return found[0]


def arguments(message: Message) -> list[tuple[str, object]]:
    return [(call.name, json.loads(call.arguments)) for call in message.tool_calls]


@pytest.mark.parametrize("key", ["obj", "either", "undeclared"])
@pytest.mark.parametrize("name", sorted(WRITE))
def test_a_closer_inside_a_string_of_an_object_is_text(name: str, key: str) -> None:
    write, closers = WRITE[name]
    value = {"x": f"{closers} tail", "y": [1, {"z": f'"{closers}'}], closers: None}
    text = write([("file", [(key, json.dumps(value)), ("text", "t")]), ("next", [("text", "n")])])
    message = read(name, text, strict=True)
    assert arguments(message) == [("file", {key: value, "text": "t"}), ("next", {"text": "n"})]
    assert message.problems == ()


@pytest.mark.parametrize("name", sorted(WRITE))
def test_a_whole_call_inside_a_string_of_an_array_is_text(name: str) -> None:
    write, _ = WRITE[name]
    inner = write([("next", [("text", "n")])]).replace("\n", " ")
    text = write([("file", [("list", json.dumps([inner, inner]))])])
    assert arguments(read(name, text)) == [("file", {"list": [inner, inner]})]


@pytest.mark.parametrize("name", sorted(WRITE))
def test_closers_in_python_strings_and_behind_line_breaks_are_text(name: str) -> None:
    write, closers = WRITE[name]
    text = write([("file", [("obj", f"{{'x': 'it{closers}', \"y\": \"a\nb {closers} c\", 'z': True}}")])])
    expected = {"x": f"it{closers}", "y": f"a\nb {closers} c", "z": True}
    assert arguments(read(name, text)) == [("file", {"obj": expected})]


@pytest.mark.parametrize("value", ['{"x: 1}', '{"x: 1', '["a" 1', '{"x": 1}}', "{'x", "[1,,2]", '{"x"'])
@pytest.mark.parametrize("name", sorted(WRITE))
def test_a_broken_object_ends_at_its_closer_and_is_kept(name: str, value: str) -> None:
    """The string that nothing closes reaches over the closer at first: the other arguments and calls are read all the
    same, in strict reading too, as the call itself keeps its form."""
    write, _ = WRITE[name]
    text = write([("file", [("obj", value), ("text", "t")]), ("next", [("text", "n")])])
    message = read(name, text, strict=True)
    first, second = message.tool_calls
    assert first.arguments == f'{{"obj": {value}, "text": "t"}}'.replace("'", '"')
    assert json.loads(second.arguments) == {"text": "n"}
    assert [problem.code for problem in message.problems] == ["invalid_value", "invalid_arguments"]


@pytest.mark.parametrize("value", ["{x} of y", '{"x" of', "[see below]", "[1](http://x)", "{}{}"])
@pytest.mark.parametrize("name", sorted(WRITE))
def test_a_string_that_only_begins_like_an_object_is_a_string(name: str, value: str) -> None:
    write, closers = WRITE[name]
    told = f"{value} {closers} b"
    message = read(name, write([("file", [("either", told), ("undeclared", told)])]), strict=True)
    assert arguments(message) == [("file", {"either": told, "undeclared": told})]
    assert message.problems == ()


@pytest.mark.parametrize("name", sorted(WRITE))
def test_closers_in_raw_text_without_the_layout_between_them_are_text(name: str) -> None:
    write, closers = WRITE[name]
    told = f"a {closers} b"
    text = write([("file", [("text", told), ("count", "3")]), ("next", [("text", told)])])
    message = read(name, text)
    assert arguments(message) == [("file", {"text": told, "count": 3}), ("next", {"text": told})]
    assert message.problems == ()


@pytest.mark.parametrize("behind", ["", "\n", "Done.", "<|fin|>", "NEXT"])
@pytest.mark.parametrize("name", sorted(WRITE))
def test_a_call_that_leaves_the_layout_out_is_read(name: str, behind: str) -> None:
    """Where no other end of the value comes, the one without layout was it."""
    write, _ = WRITE[name]
    one = write([("file", [("text", "t")])]).replace(">\n<", "><")
    text = one + (write([("next", [("text", "n")])]) if behind == "NEXT" else behind)
    message = read(name, text)
    assert arguments(message)[0] == ("file", {"text": "t"})
    assert len(message.tool_calls) == (2 if behind == "NEXT" else 1)
    assert message.content.strip() == ("Done." if behind == "Done." else "")
    assert message.problems == ()


@pytest.mark.parametrize("name", sorted(WRITE))
def test_a_cut_inside_a_string_that_holds_a_closer_keeps_the_text(name: str) -> None:
    write, closers = WRITE[name]
    whole = write([("file", [("obj", json.dumps({"x": f"{closers} tail"}))])])
    cut = whole[: whole.index(" tail")]
    message = read(name, cut, reason="length")
    assert message.tool_calls[0].arguments == f'{{"obj": {{"x": "{closers}'
    assert message.truncated


# The end of all calls, as the template writes it.
ENDS = {"tagged": "</fn>\n</tool>", "invoke": "</invoke>\n</x:calls>"}


def unclosed(name: str, key: str, value: str) -> str:
    """A call whose last argument lacks its closer."""
    written = WRITE[name][0]([("file", [(key, value)])])
    closer = "</par>\n" if name == "tagged" else "</parameter>\n"
    assert closer in written
    return "".join(written.rsplit(closer, 1))


@pytest.mark.parametrize("behind", ["", "\n", "\nDone.", "<|fin|>", "NEXT"])
@pytest.mark.parametrize(
    ("key", "value", "read_as"),
    [("text", "Rome", "Rome"), ("count", "3", 3), ("obj", '{"a": [1]}', {"a": [1]}), ("other", "x", "x")],
)
@pytest.mark.parametrize("name", sorted(ENDS))
def test_a_value_without_its_closer_ends_where_all_calls_do(
    name: str, key: str, value: str, read_as: object, behind: str
) -> None:
    following = WRITE[name][0]([("next", [("text", "b")])])
    message = read(name, unclosed(name, key, value) + behind.replace("NEXT", following))
    calls = [json.loads(call.arguments) for call in message.tool_calls]
    assert calls == [{key: read_as}, *([{"text": "b"}] if behind == "NEXT" else [])]
    assert message.content.strip() == behind.strip().replace("NEXT", "").replace("<|fin|>", "")
    assert [problem.code for problem in message.problems] == ["stray_text"]


@pytest.mark.parametrize("between", ["", "\n", "\nand more", "</x>", "\nA call:\nNEXT\n"])
@pytest.mark.parametrize("name", sorted(ENDS))
def test_a_value_that_holds_the_end_of_all_calls_ends_at_its_closer(name: str, between: str) -> None:
    """Its closer comes all the same; without another call inside, whose name would settle it."""
    value = f"a\n{ENDS[name]}{between.replace('NEXT', ENDS[name])}"
    (call,) = read(name, WRITE[name][0]([("file", [("text", value)])])).tool_calls
    assert json.loads(call.arguments) == {"text": value}


@pytest.mark.parametrize("name", sorted(ENDS))
def test_no_value_is_written_that_holds_the_end_of_all_calls(name: str) -> None:
    """So nothing that may be written is read as a call whose closer is missing."""
    program = writer_program(profile(FORMATS[name]), replace(REQUEST, choice="required"))
    values = {"a\n" + ENDS[name]: False, "a\n" + ENDS[name][:-1]: True, ENDS[name][1:]: True}
    for value, writable in values.items():
        text = WRITE[name][0]([("next", [("text", value)])])
        assert can_write(program, text) is writable, value


def test_strict_reading_still_refuses_a_call_that_leaves_its_format() -> None:
    with pytest.raises(OutputError):
        read("tagged", "<tool>\n<fn=file>\nno argument\n</fn>\n</tool>", strict=True)


def test_an_answer_that_holds_a_closer_again_is_a_problem() -> None:
    """Here the template writes nothing between the two closers, so nothing tells that the value goes on."""
    fmt = ChatFormat.from_template(learned_templates.TYPED_TAGS)
    turn = fmt.turn([{"role": "user", "content": "Hi"}], tools=openai_tools(_TOOLS))
    for byte in b'<kul n="next"><a k="text" t="string">a</a></kul> b</a></kul>':
        turn.feed(bytes([byte]))
    turn.finish()
    assert arguments(turn.message) == [("next", {"text": "a"})]
    assert turn.message.content == " b</a></kul>"
    assert [problem.code for problem in turn.message.problems] == ["stray_closer"]


@pytest.mark.parametrize("name", sorted(WRITE))
@pytest.mark.parametrize("text", ["x", "ü", "漢", "😀", "ü and more"])
def test_what_breaks_a_call_off_is_text_whatever_its_characters(name: str, text: str) -> None:
    """Characters of several bytes were read for ever there: told in part, refused at their last byte."""
    write, closers = WRITE[name]
    opened = write([("file", [])]).partition(closers.rpartition("</")[1] + closers.rpartition("</")[2])[0]
    plain, message = read(name, opened + "x"), read(name, opened + text)
    assert message.content == plain.content.removesuffix("x") + text == opened + text
    assert message.tool_calls == ()
    assert [problem.code for problem in message.problems] == [problem.code for problem in plain.problems]
