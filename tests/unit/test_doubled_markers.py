"""Markers of calls that a model writes twice: no text of the answer, wherever they stand beside a call."""

from __future__ import annotations

import json

import pytest

from dragoman.format import ChatFormat
from tests import learned_templates as own
from tests.toolsets import STRINGS

USER = [{"role": "user", "content": "Hi"}]
OBJECT = '<qor>\n{"name": "get_weather", "arguments": {"city": "x"}}\n</qor>'
TAGGED = "\n<kul>\n<fun=get_weather>\n<par=city>\nx\n</par>\n</fun>\n</kul>"
PAIRS = "<kul>get_weather\n<ak>city</ak>\n<av>x</av>\n</kul>"
COUNTED = '<|sek|><|kol|>fn.get_weather:0<|karg|>{"city": "x"}<|/kol|><|/sek|>'


@pytest.mark.parametrize("behind", ["", " Done."])
@pytest.mark.parametrize(
    ("source", "text"),
    [
        (own.JSON_IN_TAGS, OBJECT + "\n</qor>"),
        (own.JSON_IN_TAGS, OBJECT + "</qor></qor>"),
        (own.JSON_IN_TAGS, OBJECT.replace("\n</qor>", "}\n</qor>")),
        (own.JSON_IN_TAGS, "<qor>\n" + OBJECT),
        (own.TAGGED, TAGGED + "\n</kul>"),
        (own.TAGGED, TAGGED.replace("</fun>", "</fun>\n</fun>")),
        (own.TAGGED, "<kul>" + TAGGED),
        (own.TAGGED_KEYS_AND_VALUES, PAIRS + "\n</kul>"),
        (own.COUNTED_IN_SECTION, COUNTED.replace("<|/kol|>", "<|/kol|><|/kol|>")),
        (own.COUNTED_IN_SECTION, COUNTED + "<|/sek|>"),
        (own.COUNTED_IN_SECTION, "<|sek|>\n" + COUNTED),
    ],
)
def test_a_doubled_marker_is_no_text(source: str, text: str, behind: str) -> None:
    turn = ChatFormat.from_template(source).turn(USER, STRINGS)
    for char in text + behind:
        turn.feed(char)
    turn.finish()
    message = turn.message
    assert [(call.name, json.loads(call.arguments)) for call in message.tool_calls] == [("get_weather", {"city": "x"})]
    assert message.content == behind


def test_a_call_behind_a_doubled_closer_is_read() -> None:
    turn = ChatFormat.from_template(own.JSON_IN_TAGS).turn(USER, STRINGS)
    turn.feed(f"{OBJECT}\n</qor>\n{OBJECT}")
    turn.finish()
    assert (len(turn.message.tool_calls), turn.message.content) == (2, "")


def test_a_closer_in_an_answer_is_text() -> None:
    turn = ChatFormat.from_template(own.JSON_IN_TAGS).turn(USER, STRINGS)
    turn.feed("It ends with </qor>.")
    turn.finish()
    assert turn.message.content == "It ends with </qor>."
