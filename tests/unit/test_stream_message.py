"""From events to messages: the laws of the deltas and the rules of the wire."""

from __future__ import annotations

import itertools
import json
from collections.abc import Callable, Iterable
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dragoman.chat import Delta, Message
from dragoman.errors import StateError
from dragoman.events import Closed, Event, Failed, Opened, Text
from dragoman.stream.message import MessageBuilder

TOOLS: list[dict[str, Any]] = [
    {
        "type": "function",
        "function": {
            "name": "f",
            "parameters": {
                "type": "object",
                "properties": {
                    "s": {"type": "string"},
                    "n": {"type": "number"},
                    "b": {"type": "boolean"},
                    "o": {"type": "object", "properties": {"in": {"type": "integer"}}},
                    "l": {"type": "array", "items": {"type": "integer"}},
                    "u": {"type": ["string", "null"]},
                },
            },
        },
    }
]
# A region is (tag, text) or (tag, [regions]); what stands between two of them is a marker of the format.
Region = tuple[str, Any]
MARK = b"<|mark|>"


def events_of(regions: Iterable[Region]) -> list[Event]:
    """The events of complete regions, with the markers' text inside calls that a machine reports too."""
    out: list[Event] = []
    position = 0

    def emit(region: Region, inside: bool) -> None:
        nonlocal position
        tag, body = region
        if inside:
            out.append(Text(MARK, position))
        position += len(MARK)
        out.append(Opened(tag, position))
        if isinstance(body, str):
            out.append(Text(body.encode(), position))
            position += len(body.encode())
        else:
            for part in body:
                emit(part, True)
        out.append(Closed(tag, position))

    for region in regions:
        emit(region, False)
    return out


def builder(tools: Any = TOOLS, **options: Any) -> MessageBuilder:
    numbers = itertools.count(1)
    return MessageBuilder(tools, id_source=lambda: f"call{next(numbers):05d}", **options)


class Client:
    """Puts a message together from deltas as clients do, and checks the rules of the wire on the way."""

    def __init__(self) -> None:
        self.content = ""
        self.reasoning = ""
        self.calls: list[tuple[str, str, str]] = []

    def take(self, delta: Delta) -> None:
        assert [bool(delta.content), bool(delta.reasoning_content), bool(delta.tool_calls)].count(True) == 1
        self.content += delta.content
        self.reasoning += delta.reasoning_content
        for piece in delta.tool_calls:
            if piece.name is not None:
                assert piece.index == len(self.calls)
                assert piece.id
                assert piece.arguments == ""
                self.calls.append((piece.id, piece.name, ""))
            else:
                assert piece.index == len(self.calls) - 1
                assert piece.arguments
                id_, name, arguments = self.calls[-1]
                self.calls[-1] = (id_, name, arguments + piece.arguments)


def added(deltas: Iterable[Delta]) -> tuple[str, str, list[tuple[str, str, str]]]:
    client = Client()
    for delta in deltas:
        client.take(delta)
    return client.content, client.reasoning, client.calls


def summed(message: Message) -> tuple[str, str, list[tuple[str, str, str]]]:
    calls = [(call.id, call.name, call.arguments) for call in message.tool_calls]
    return message.content, message.reasoning_content, calls


def read(events: Iterable[Event], reason: Any = "stop", **options: Any) -> Message:
    """Push and finish; the deltas add up to the message after every event."""
    reader, client = builder(**options), Client()
    for event in [*events, None]:
        deltas = reader.finish(reason) if event is None else reader.push(event)
        for delta in deltas:
            client.take(delta)
        if deltas:
            assert (client.content, client.reasoning, client.calls) == summed(reader.message)
    return reader.message


def recut(events: Iterable[Event], cut: Callable[[int], list[int]]) -> list[Event]:
    """The same events with their text cut elsewhere."""
    out: list[Event] = []
    for event in events:
        if not isinstance(event, Text):
            out.append(event)
            continue
        points = [0, *sorted(cut(len(event.data))), len(event.data)]
        out += [Text(event.data[a:b], event.position + a) for a, b in itertools.pairwise(points)]
    return out


def codes(message: Message) -> list[str]:
    return [problem.code for problem in message.problems]


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)
# Of any type under any name, so names that the tools declare are left out: their values would have to be of that type.
DECLARED = frozenset(name for tool in TOOLS for name in tool["function"]["parameters"].get("properties", {}))
OBJECTS = st.dictionaries(st.text().filter(lambda name: name not in DECLARED), VALUES, max_size=4)


def as_json_call(arguments: dict[str, Any], ascii_only: bool, encoded: bool) -> Region:
    text = json.dumps(arguments, ensure_ascii=ascii_only)
    args = ("args.json", json.dumps(text, ensure_ascii=ascii_only)[1:-1]) if encoded else ("args", text)
    return ("call", [("name", "f"), args])


def as_tagged_value(value: Any, nested: bool) -> Region:
    """A value as a tagged format writes it."""
    if isinstance(value, str):
        return ("value.string", value)
    if nested and isinstance(value, dict):
        return ("value.object", [("arg", [("key", key), as_tagged_value(part, True)]) for key, part in value.items()])
    if nested and isinstance(value, list):
        return ("value.array", [as_tagged_value(part, True) for part in value])
    if isinstance(value, dict | list):
        return ("value.json", json.dumps(value, ensure_ascii=False))
    return ("value.typed", json.dumps(value))


def as_tagged_call(arguments: dict[str, Any], nested: bool) -> Region:
    parts = [("arg", [("key", key), as_tagged_value(value, nested)]) for key, value in arguments.items()]
    return ("call", [("name", "f"), *parts])


CALLS = st.one_of(
    st.builds(as_json_call, OBJECTS, st.booleans(), st.booleans()),
    st.builds(as_tagged_call, OBJECTS, st.booleans()),
)
TURNS = st.lists(
    st.one_of(
        st.tuples(st.sampled_from(["content", "reasoning"]), st.text() | st.sampled_from(["\n", " \n\n", "x ", " y"])),
        CALLS,
    ),
    max_size=6,
)
# Anything at all that nests, sense or not.
CALL_TAGS = ["id", "id.json", "name", "name.json", "args", "args.json", "arg", "key", "key.json"]
VALUE_TAGS = ["value.string", "value.json", "value.typed", "value.object", "value.array"]
TAGS = st.sampled_from(["content", "reasoning", "call", "stop", "@x", *CALL_TAGS, *VALUE_TAGS])
NOISE = st.lists(
    st.one_of(
        st.builds(Opened, TAGS, st.just(0)),
        st.builds(Closed, TAGS, st.just(0)),
        st.builds(Text, st.binary(max_size=8) | st.sampled_from([b'{"a": 1}', b"s", b"None", b'"\\ud800']), st.just(0)),
        st.builds(Failed, st.just("body"), st.just(0)),
    ),
    max_size=40,
)


@given(TURNS, st.data())
@settings(max_examples=60, deadline=None)
def test_cuts_do_not_change_the_message(regions: list[Region], data: st.DataObject) -> None:
    events = events_of(regions)
    whole = read(events)
    cut = recut(events, lambda size: data.draw(st.lists(st.integers(0, size), max_size=6)))
    assert summed(read(cut)) == summed(whole)
    assert codes(read(cut)) == codes(whole)
    assert summed(read(recut(events, lambda size: list(range(size))))) == summed(whole)


@given(TURNS)
@settings(max_examples=60, deadline=None)
def test_well_formed_calls_have_json_arguments_and_no_problem(regions: list[Region]) -> None:
    message = read(events_of(regions))
    for call in message.tool_calls:
        assert isinstance(json.loads(call.arguments), dict)
    assert message.problems == ()


@given(OBJECTS, st.booleans())
@settings(max_examples=60, deadline=None)
def test_tagged_arguments_are_what_json_dumps_writes(arguments: dict[str, Any], nested: bool) -> None:
    (call,) = read(events_of([as_tagged_call(arguments, nested)]), tools=None).tool_calls
    assert call.arguments == json.dumps(arguments, ensure_ascii=False)


@given(OBJECTS, st.booleans(), st.booleans())
@settings(max_examples=60, deadline=None)
def test_json_arguments_are_the_models_own_bytes(arguments: dict[str, Any], ascii_only: bool, encoded: bool) -> None:
    (call,) = read(events_of([as_json_call(arguments, ascii_only, encoded)])).tool_calls
    assert call.arguments == json.dumps(arguments, ensure_ascii=ascii_only)


@given(NOISE, st.sampled_from(["stop", "length"]))
@settings(max_examples=300, deadline=None)
def test_no_sequence_of_events_raises(events: list[Event], reason: str) -> None:
    read(events, reason)
    read(events, reason, ids_after_arguments=True, tools=None)


@given(TURNS, st.data())
@settings(max_examples=60, deadline=None)
def test_a_turn_cut_off_keeps_a_prefix(regions: list[Region], data: st.DataObject) -> None:
    events = recut(events_of(regions), lambda size: list(range(size)))
    whole = read(events)
    cut = read(events[: data.draw(st.integers(0, len(events)))], "length")
    for short, full in zip(cut.tool_calls, whole.tool_calls, strict=False):
        assert short.name == full.name
        assert full.arguments.startswith(short.arguments.rstrip("\ufffd"))
    assert whole.reasoning_content.startswith(cut.reasoning_content.rstrip("\ufffd"))


@pytest.mark.parametrize(
    ("regions", "content"),
    [
        ([("content", "\n\n"), ("call", [("name", "f")])], ""),
        ([("content", "Sure.\n"), ("call", [("name", "f")]), ("content", "\n"), ("call", [("name", "f")])], "Sure.\n"),
        ([("content", "\n"), ("reasoning", "so"), ("content", "\nHi")], "\nHi"),
        ([("content", " \n")], " \n"),
        ([("content", " \n"), ("stop", "<|end|>")], " \n"),
        ([("content", "\n"), ("content", "Hi")], "\nHi"),
        ([("call", [("name", "f")]), ("content", " done")], " done"),
        ([("content", "Hi"), ("stop", "<|end|>"), ("content", "more")], "Hi"),
    ],
)
def test_white_space_is_layout_before_calls_and_content_elsewhere(regions: list[Region], content: str) -> None:
    assert read(events_of(regions)).content == content


def test_content_streams_and_only_leading_white_space_waits() -> None:
    reader = builder()
    pushed = [reader.push(event) for event in [Opened("content", 0), Text(b"\n", 0), Text(b" a", 1), Text(b" \n", 3)]]
    assert pushed == [[], [], [Delta(content="\n a")], [Delta(content=" \n")]]


def test_a_character_cut_in_two_waits_for_its_rest() -> None:
    reader = builder()
    first, second = "é".encode()[:1], "é".encode()[1:]
    assert reader.push(Opened("content", 0)) + reader.push(Text(first, 0)) == []
    assert reader.push(Text(second, 1)) == [Delta(content="é")]


def test_reasoning_of_white_space_is_dropped() -> None:
    message = read(events_of([("reasoning", "\n\n"), ("reasoning", " a "), ("content", "b")]))
    assert (message.reasoning_content, message.content) == (" a ", "b")


def test_the_first_piece_of_a_call_goes_out_where_its_arguments_begin() -> None:
    events = events_of([("call", [("name", "f"), ("args", "{}")])])
    begun = next(at for at, event in enumerate(events) if isinstance(event, Opened) and event.tag == "args")
    reader = builder()
    assert reader.push_all(events[: begun + 1]) == []
    delta, behind = reader.push_all(events[begun + 1 : begun + 2])
    assert behind.tool_calls[0].arguments == "{}"
    assert delta.tool_calls[0].to_dict() == {
        "index": 0,
        "id": "call00001",
        "type": "function",
        "function": {"name": "f", "arguments": ""},
    }


def test_arguments_before_the_name_follow_it() -> None:
    reader = builder()
    events = events_of([("call", [("args", '{"s": "x"}'), ("name", "f")])])
    assert reader.push_all(events[:-2]) == []
    assert added(reader.push_all(events[-2:])) == ("", "", [("call00001", "f", '{"s": "x"}')])


@pytest.mark.parametrize(
    ("parts", "late", "expected"),
    [
        ([("id", "abc"), ("name", "f"), ("args", "{}")], False, "abc"),
        ([("name", "f"), ("id", "functions.f:0"), ("args", "{}")], True, "functions.f:0"),
        ([("name", "f"), ("args", "{}"), ("id.json", r"a\"b")], True, 'a"b'),
        ([("name", "f"), ("args", "{}"), ("id", "abc")], False, "call00001"),
        ([("name", "f"), ("args", "{}")], True, "call00001"),
        ([("id", ""), ("name", "f")], False, "call00001"),
    ],
)
def test_ids_are_the_models_where_they_come_in_time(parts: list[Region], late: bool, expected: str) -> None:
    (call,) = read(events_of([("call", parts)]), ids_after_arguments=late).tool_calls
    assert (call.id, call.arguments) == (expected, "{}")


@pytest.mark.parametrize(
    ("parts", "expected"),
    [
        ([("name", "f"), ("id", "abc"), ("args", "{}")], "abc"),
        ([("name", "f"), ("args", "{}")], "call00001"),
        ([("name", "f"), ("arg", [("key", "a"), ("value.string", "b")])], "call00001"),
    ],
)
def test_an_id_between_name_and_arguments_is_waited_for_until_the_arguments(parts: list[Any], expected: str) -> None:
    events = events_of([("call", parts)])
    reader = builder(None, ids_after_name=True)
    begun = next(at for at, event in enumerate(events) if isinstance(event, Opened) and event.tag in ("args", "arg"))
    assert reader.push_all(events[: begun + 1]) == []
    texts = (delta for event in events[begun + 1 :] for delta in reader.push(event))
    deltas = [next(texts)]
    assert [(piece.id, piece.name) for delta in deltas for piece in delta.tool_calls] == [(expected, "f")]


@pytest.mark.parametrize("parts", [[], [("args", "")], [("args", " \n")], [("args.json", "")]])
def test_absent_arguments_are_an_empty_object(parts: list[Region]) -> None:
    message = read(events_of([("call", [("name", "f"), *parts])]))
    assert json.loads(message.tool_calls[0].arguments) == {}
    assert message.problems == ()


@pytest.mark.parametrize("text", ['{"a": ', "[1]", '{"a": NaN}', '{"a": 1}}', "f(x)"])
def test_arguments_that_are_no_json_object_are_kept_and_noted(text: str) -> None:
    message = read(events_of([("call", [("name", "f"), ("args", text)])]))
    assert message.tool_calls[0].arguments == text
    assert codes(message) == ["invalid_arguments"]


def test_deeply_nested_arguments_are_fine() -> None:
    text = '{"a": ' + "[" * 20_000 + "]" * 20_000 + "}"
    assert read(events_of([("call", [("name", "f"), ("args", text)])])).problems == ()


def test_an_unknown_tool_is_delivered_and_noted() -> None:
    events = events_of([("call", [("name", "g"), ("args", "{}")])])
    assert codes(read(events)) == ["unknown_tool"]
    assert codes(read(events, tools=None)) == []
    assert read(events).tool_calls[0].name == "g"


def tagged(*pairs: tuple[str, str, str]) -> list[Event]:
    return events_of([("call", [("name", "f"), *(("arg", [("key", k), (tag, text)]) for k, tag, text in pairs)])])


def test_tagged_values_follow_the_declared_types() -> None:
    message = read(
        tagged(
            ("s", "value.typed", "42"),
            ("n", "value.typed", "48.40"),
            ("b", "value.typed", "True"),
            ("o", "value.json", "\n{'in': 1}\n"),
            ("u", "value.typed", "null"),
            ("l", "value.json", "[1, 2]"),
            ("x", "value.typed", "7"),
        )
    )
    assert message.tool_calls[0].arguments == (
        '{"s": "42", "n": 48.40, "b": true, "o": {"in": 1}, "u": null, "l": [1, 2], "x": 7}'
    )
    assert message.problems == ()


def test_types_reach_into_nested_regions() -> None:
    inner = ("value.object", [("arg", [("key", "in"), ("value.typed", "1")])])
    items = ("value.array", [("value.typed", "1"), ("value.typed", "x")])
    parts = [("arg", [("key", "o"), inner]), ("arg", [("key", "l"), items])]
    message = read(events_of([("call", [("name", "f"), *parts])]))
    assert message.tool_calls[0].arguments == '{"o": {"in": 1}, "l": [1, "x"]}'
    assert codes(message) == ["invalid_value"]


def test_the_first_of_two_equal_names_counts() -> None:
    message = read(tagged(("s", "value.string", "a"), ("s", "value.json", "{"), ("n", "value.typed", "1")))
    assert message.tool_calls[0].arguments == '{"s": "a", "n": 1}'
    assert codes(message) == ["duplicate_parameter"]


def test_an_argument_without_a_value_is_the_empty_text() -> None:
    message = read(events_of([("call", [("name", "f"), ("arg", [("key", "s")])])]))
    assert message.tool_calls[0].arguments == '{"s": ""}'


def test_a_string_value_streams_character_by_character() -> None:
    reader = builder()
    events = recut(tagged(("s", "value.string", 'a"\n')), lambda size: list(range(size)))
    pieces = [piece.arguments for delta in reader.push_all(events) for piece in delta.tool_calls]
    assert pieces == ["", '{"s": ', '"', "a", '\\"', "\\n", '"', "}"]


def test_a_call_cut_off_by_length_keeps_its_prefix() -> None:
    events = tagged(("s", "value.string", "abc"))[:-3]
    message = read(events, "length")
    assert message.tool_calls[0].arguments == '{"s": "abc'
    assert message.truncated
    assert codes(message) == ["truncated"]


def test_reasoning_cut_off_by_length_is_truncated_and_content_is_not() -> None:
    assert read([Opened("reasoning", 0), Text(b"so", 0)], "length").truncated
    assert not read([Opened("content", 0), Text(b"so", 0)], "length").truncated


def test_a_failed_call_stays_as_it_stands_and_reading_goes_on() -> None:
    events = tagged(("s", "value.string", "abc"))[:-3]
    after = [Failed("body", 9), Closed("value.string", 9), Closed("arg", 9), Closed("call", 9)]
    rest = [Opened("content", 9), Text(b" <rest>", 9), Closed("content", 16)]
    message = read([*events, *after, *rest])
    assert message.tool_calls[0].arguments == '{"s": "abc'
    assert message.content == " <rest>"
    assert codes(message) == ["unexpected_text", "broken_call"]
    # The closing events may be left out.
    assert summed(read([*events, after[0], *rest])) == summed(message)


@pytest.mark.parametrize("lead", ["", "\n<all>"])
@pytest.mark.parametrize("begun", [[], ["arg"]])
def test_a_call_that_breaks_in_front_of_its_arguments_is_content_as_it_was_written(lead: str, begun: list[str]) -> None:
    """The run had told more of the call than reading goes on behind; an argument had begun and said nothing yet."""
    opening = [Opened("opening", 2), Text(lead.encode(), 2), Closed("opening", 2 + len(lead))] if lead else []
    at = 2 + len(lead)
    call = [Opened("call", at), Text(b"<c>", at), Opened("name", at + 3), Text(b"f", at + 3), Closed("name", at + 4)]
    said = [Opened("content", 0), Text(b"Hi", 0), Closed("content", 2)]
    inside = [Opened(tag, at + 4) for tag in begun]
    broken = [*inside, Text(b", ", at + 4), Failed("body", at + 6), *(Closed(tag, at + 4) for tag in begun[::-1])]
    broken.append(Closed("call", at + 4))
    rest = [Opened("content", at + 4), Text(b", x</c>", at + 4), Closed("content", at + 11)]
    message = read([*said, *opening, *call, *broken, *rest])
    assert message.content == f"Hi{lead}<c>f, x</c>"
    assert message.tool_calls == ()
    assert codes(message) == ["unexpected_text", "broken_call"]
    # Where the output ends instead, the call is cut off.
    (cut,) = read([*said, *opening, *call, Failed("body", at + 4), Closed("call", at + 4)]).tool_calls
    assert (cut.name, cut.arguments) == ("f", "")


def test_broken_arguments_go_on_as_raw_text() -> None:
    events = events_of([("call", [("name", "f"), ("args", '{"a": x')])])[:-2]
    more = [Failed("args", 7), Text(b" y}", 7), Closed("args", 10), Closed("call", 10)]
    message = read([*events, *more])
    assert message.tool_calls[0].arguments == '{"a": x y}'
    assert codes(message) == ["unexpected_text", "broken_call"]


def test_an_unclosed_call_at_the_end_is_kept_and_noted() -> None:
    message = read(events_of([("call", [("name", "f"), ("args", '{"a": 1')])])[:-2])
    assert message.tool_calls[0].arguments == '{"a": 1'
    assert codes(message) == ["broken_call"]
    assert not message.truncated


def test_a_call_without_a_name_loses_no_text() -> None:
    message = read(events_of([("call", [("args", '{"a": 1}')]), ("call", [("name", "f")])]))
    assert message.content == '<|mark|>{"a": 1}'
    assert [call.name for call in message.tool_calls] == ["f"]
    assert "nameless_call" in codes(message)


def test_after_the_end_nothing_is_read_and_nothing_pushed() -> None:
    reader = builder()
    reader.push_all(events_of([("content", "a"), ("stop", "<|end|>"), ("content", "b")]))
    assert reader.ended
    reader.note("after_end", "text after the end of the turn", 9)
    reader.finish("stop")
    assert reader.message.content == "a"
    assert codes(reader.message) == ["after_end"]
    with pytest.raises(StateError):
        reader.push(Opened("content", 0))
    with pytest.raises(StateError):
        reader.finish("stop")
