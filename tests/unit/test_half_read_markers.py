"""A marker that a call's output begins and does not end: the text is no marker, so it is the answer's or a new one."""

from __future__ import annotations

import json

import pytest

from dragoman.chat import Message
from dragoman.events import Text
from dragoman.format import ChatFormat
from dragoman.grammar.compile import compile_reader
from dragoman.grammar.lower import lower
from dragoman.grammar.nodes import AnyChar, Class, Commit, Grammar, Negate, Recovery, Repeat, Tag, seq
from dragoman.stream.reader import Reader
from tests import learned_templates as own
from tests.toolsets import tool

USER = [{"role": "user", "content": "Hi"}]
TOOLS = [tool("get_weather", {"city": {"type": "string"}, "days": {"type": "integer"}}), tool("ping", {})]
# Every marker of this format ends in the same tag and closes with the same tag.
NAMED_ENDS = own.wrap(
    own.CONTENT
    + """{% macro kind(v) %}{{ 'string' if v is string else ('number' if v is number else 'other') }}{% endmacro -%}
{%- if m.tool_calls %}{{ '<|o|>kuls<|s|>' }}{% for c in m.tool_calls %}{{ '<|o|>kul n="' + c.function.name + '"<|s|>' }}
{%- for k, v in c.function.arguments.items() -%}
{{ '<|o|>arg k="' + k + '" t="' + kind(v) }}{{ '"<|s|>' + (v if v is string else v | tojson) + '<|c|>arg<|s|>' }}
{%- endfor -%}
{{ '<|c|>kul<|s|>' }}{% endfor %}{{ '<|c|>kuls<|s|>' }}{% endif %}"""
)


def read(source: str, text: str) -> Message:
    """The message, the same in one piece and byte by byte."""
    fmt = ChatFormat.from_template(source)
    messages = []
    for size in (len(text.encode()), 1):
        turn = fmt.turn(USER, TOOLS, id_seed=1)
        data = text.encode()
        for at in range(0, len(data), size):
            turn.feed(data[at : at + size])
        turn.finish()
        messages.append(turn.message)
    assert messages[0] == messages[1]
    return messages[0]


@pytest.mark.parametrize(
    ("source", "before", "behind"),
    [
        (own.TAGGED_KEYS_AND_VALUES, "<kul>get_weather\n<ak>city</ak>", "<oops>x</oops>"),
        (own.TAGGED_KEYS_AND_VALUES, "<kul>get_weather\n<ak>city</ak>", "<av city"),
        (own.ID_BEFORE, "<kid>a<kname>get_weather<kargs>{}", "<kend of it"),
    ],
)
def test_its_text_is_the_answers(source: str, before: str, behind: str) -> None:
    message = read(source, before + behind)
    assert [call.name for call in message.tool_calls] == ["get_weather"]
    assert message.content.lstrip() == behind


@pytest.mark.parametrize(
    ("source", "text"),
    [
        (own.TAGGED, "<kul>\n<fun=get_weather>\n<para=city>x"),
        (own.TAGGED, "Hi\n<kul>\n<fun=get_weather>\n</funny>"),
        (own.TYPED_TAGS, '<kul n="get_weather"><Hello'),
        (own.JSON_IN_TAGS, '<qor>\n{"name": "get_weather", "argument\n'),
        (own.ID_BEFORE, "<kid>a<kname>get_weather<kargs>nothing<kend>"),
        (own.COUNTED_IN_SECTION, "Hi<|sek|><|kol|>fn.get_weather:0<|karg|>nothing<|/kol|><|/sek|>"),
    ],
)
def test_in_front_of_the_arguments_all_of_the_call_is(source: str, text: str) -> None:
    message = read(source, text)
    assert (message.content, message.tool_calls) == (text, ())
    assert [problem.code for problem in message.problems] == ["unexpected_text", "broken_call"]


@pytest.mark.parametrize(
    ("source", "before", "call"),
    [
        (own.TAGGED_KEYS_AND_VALUES, "<kul>get_weather\n<ak>city</ak>\n", "<kul>ping\n</kul>"),
        (own.TYPED_TAGS, '<kul n="get_weather"><a k="city"', '<kul n="ping"></kul>'),
    ],
)
def test_it_may_be_the_opener_of_a_call(source: str, before: str, call: str) -> None:
    assert [call.name for call in read(source, before + call).tool_calls] == ["get_weather", "ping"]


@pytest.mark.parametrize("value", ["<|c|>arg<|s|>", "a<|c|>arg<|s|>", "<|c|>", "<|c|>arg<|s|>b"])
def test_a_tag_that_closes_everything_closes_nothing_by_itself(value: str) -> None:
    days = '<|o|>arg k="days" t="number"<|s|>3<|c|>arg<|s|>'
    text = f'<|o|>kuls<|s|><|o|>kul n="get_weather"<|s|><|o|>arg k="city" t="string"<|s|>{value}<|c|>arg<|s|>{days}'
    message = read(NAMED_ENDS, text + "<|c|>kul<|s|><|c|>kuls<|s|>")
    assert json.loads(message.tool_calls[0].arguments) == {"city": value, "days": 3}
    assert (message.content, message.problems) == ("", ())


@pytest.mark.parametrize(
    ("source", "text"),
    [
        (own.TAGGED, "\n<kul>\n<fun=get_weather>\n<par=days>\n3\n</par>\n</par>\n</fun>\n</kul>"),
        (own.TAGGED_KEYS_AND_VALUES, "<kul>get_weather\n<ak>days</ak>\n<av>3</av></av>\n</kul>"),
        (own.TYPED_TAGS, '<kul n="get_weather"><a k="days" t="number">3</a></a></a></kul>'),
    ],
)
def test_the_closer_of_a_number_may_be_doubled(source: str, text: str) -> None:
    message = read(source, text)
    assert message.tool_calls[0].arguments == '{"days": 3}'
    assert message.content == ""
    assert [problem.code for problem in message.problems] == ["invalid_value"]
    assert "twice" in message.problems[0].message


@pytest.mark.parametrize("pieces", [["aü", "b"], ["a", "üb"], ["aüüb"]])
def test_reading_goes_on_where_no_way_takes_a_character_to_its_end(pieces: list[str]) -> None:
    """Whatever a grammar tells before it refuses: it is not asked for the same byte for ever."""
    refused = Negate(Class(((0xFC, 0xFC),)))
    text = Tag("content", Repeat(seq(refused, AnyChar()), min=1))
    grammar = Grammar({"root": seq(Commit("body"), text)}, recovery={"body": Recovery("root")})
    reader = Reader(compile_reader(lower(grammar, "reader")))
    events = [event for piece in pieces for event in reader.feed(piece.encode())] + reader.finish("stop")
    told = b"".join(event.data for event in events if isinstance(event, Text))
    assert told.decode() == "".join(pieces)


_BARE_NAME = own.wrap(
    own.CONTENT
    + """{% for c in m.tool_calls or [] %}{{ '<kul>' + c.function.name }}
{%- for k, v in c.function.arguments.items() %}{{ '\\n<k>' + k + '</k>' -}}
{{ '\\n<v>' + (v if v is string else v | tojson) + '</v>' }}
{%- endfor %}{{ '\\n</kul>' }}{% endfor %}"""
)


@pytest.mark.parametrize("choice", ["auto", "required"])
@pytest.mark.parametrize("strictness", ["lenient", "strict"])
def test_a_call_that_only_its_end_makes_whole_is_one(choice: str, strictness: str) -> None:
    """Everything of it is withheld until the end of the output; what is withheld need not be half a call."""
    turn = ChatFormat.from_template(_BARE_NAME).turn(USER, TOOLS, choice, on_mismatch=strictness)  # type: ignore[arg-type]
    turn.feed("<kul>ping</kul>")
    turn.finish()
    assert [(call.name, call.arguments) for call in turn.message.tool_calls] == [("ping", "{}")]
    assert turn.finish_reason == "tool_calls"
