"""``on_mismatch="strict"`` at the end of the output: a call that the model leaves open is no call of its format."""

from __future__ import annotations

import pytest

from dragoman.errors import OutputError
from dragoman.format import ChatFormat
from dragoman.turn import Turn
from tests import learned_templates as own
from tests.toolsets import STRINGS

USER = [{"role": "user", "content": "Hi"}]
OPEN = [
    (own.JSON_IN_TAGS, '<qor>\n{"name": "get_weather", "arguments": {"city": "x'),
    (own.JSON_IN_TAGS, 'Hi <qor>\n{"name": "get_weather", "arguments": {"city": "x"}'),
    (own.TAGGED, "\n<kul>\n<fun=get_weather>\n<par=city>\nx"),
    (own.TAGGED_KEYS_AND_VALUES, "<kul>get_weather\n<ak>city</ak>"),
    (own.KEYS_AS_TAGS, '@]<kuls>\n@]<kul n="get_weather">@]<city>x'),
    (own.PYTHON_LIKE, '<|on|>[get_weather(city="x'),
]
WHOLE = [
    (own.JSON_IN_TAGS, '<qor>\n{"name": "get_weather", "arguments": {"city": "x"}}'),
    (own.JSON_IN_TAGS, "An answer that ends in <qor>"),
    (own.TAGGED, "\n<kul>\n<fun=get_weather>\n<par=city>\nx\n</par>\n</fun>\n</kul>"),
    (own.TAGGED_KEYS_AND_VALUES, "<kul>get_weather\n<ak>city</ak>\n<av>x</av>"),
    (own.REASONING, "<mull>\nWithout an end"),
    (own.REASONING, "Done.\n<mul"),
]


def turn_of(source: str, text: str) -> Turn:
    turn = ChatFormat.from_template(source).turn(USER, STRINGS, on_mismatch="strict")
    turn.feed(text)
    return turn


@pytest.mark.parametrize(("source", "text"), OPEN)
def test_an_open_call_at_the_end_is_a_mismatch(source: str, text: str) -> None:
    turn = turn_of(source, text)
    before = turn.message
    with pytest.raises(OutputError, match="the output ends at byte"):
        turn.finish()
    assert turn.message == before


@pytest.mark.parametrize(("source", "text"), OPEN)
def test_the_length_limit_is_none(source: str, text: str) -> None:
    turn = turn_of(source, text)
    turn.finish("length")
    assert turn.message.truncated


@pytest.mark.parametrize(("source", "text"), WHOLE)
def test_a_missing_closer_or_half_a_marker_is_none(source: str, text: str) -> None:
    turn_of(source, text).finish()
