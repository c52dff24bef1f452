"""``on_mismatch="strict"`` at the end of the output: a call that the model leaves open is no call of its format."""

from __future__ import annotations

from typing import Any

import pytest

from dragoman.errors import OutputError
from dragoman.format import ChatFormat
from dragoman.server.answers.jobs import Sum
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
    (own.JSON_IN_TAGS, "Hi.\n<qor>"),
    (own.JSON_IN_TAGS, '<qor>\n{"name": "get_we'),
]
WHOLE = [
    (own.JSON_IN_TAGS, '<qor>\n{"name": "get_weather", "arguments": {"city": "x"}}'),
    (own.JSON_IN_TAGS, "An answer that ends in <qor>"),
    (own.TAGGED, "\n<kul>\n<fun=get_weather>\n<par=city>\nx\n</par>\n</fun>\n</kul>"),
    (own.TAGGED_KEYS_AND_VALUES, "<kul>get_weather\n<ak>city</ak>\n<av>x</av>"),
    (own.REASONING, "Done.\n<mul"),
    (own.REASONING, "Say `</mull>` then."),
    (own.REASONING, "```\n<mull>a</mull>b</mull>\n```"),
    (own.JSON_IN_TAGS, "A <qor> and a </qor> of prose"),
    (own.JSON_IN_TAGS, "Like so:\n```\n<qor>\n{}\n</qor>\n```"),
]
# What is read as something else than it is written, or as text, and the problem that a lenient reading tells of it.
ODD = [
    (own.JSON_IN_TAGS, "<qor>\n{'name': 'get_weather', 'arguments': {'city': 'x'}}\n</qor>", "repaired_call"),
    (own.JSON_IN_TAGS, '<qor>\n{"name": "get_weather", "args": {"city": "x"}}\n</qor>', "repaired_call"),
    (own.JSON_IN_TAGS, '<qor>\n{"name": "get_weather", "arguments": {city: "x"}}\n</qor>', "repaired_call"),
    (own.COUNTED_IN_SECTION, "<|sek|><|kol|>fn.get_weather:0<|karg|>{'city': 'x'}<|/kol|><|/sek|>", "repaired_call"),
    (own.JSON_IN_TAGS, '<qor>\n{"name": "", "arguments": {}}\n</qor>', "nameless_call"),
    (own.JSON_IN_TAGS, 'Hi.\n<qor>\n{"nom": "get_weather"}\n</qor>', "unread_call"),
    (own.JSON_IN_TAGS, '<qor>\nget_weather(city="x")\n</qor>', "unread_call"),
    (own.JSON_IN_TAGS, '<qor>\n{"name": "get_weather", "arguments": {}}\n{"name": "f"}\n</qor>', "unread_call"),
    (own.JSON_IN_TAGS, '<qor>\n{"name": "get_weather", "arguments": {}} // so\n</qor>', "unread_call"),
    (own.JSON_IN_TAGS, "<qor>\n\n</qor>", "empty_call"),
    (own.JSON_IN_TAGS, "<qor></qor>Hi.", "empty_call"),
    (own.JSON_IN_TAGS, '<qor>\n{"name": "get_weather", "arguments": {}, "more": 1}\n</qor>', "unread_members"),
    (own.REASONING, "<mull>\nWithout an end", "unclosed_reasoning"),
    (own.REASONING, "<mull>\nWithout an end<|zoff|>", "unclosed_reasoning"),
    (own.REASONING, "Hi</mull>there", "stray_closer"),
    (own.REASONING, "<mull>\na\n</mull>\n\nb</mull>c", "stray_closer"),
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


# Behind an opener alone a tail would make all of it text.
TAILS = [(source, text + tail) for source, text in OPEN[:-2] for tail in ("\x00</", "</x>\n")]


@pytest.mark.parametrize(("source", "text"), [*OPEN, *TAILS])
def test_what_stands_in_front_of_a_break_is_told_however_it_is_cut(source: str, text: str) -> None:
    told = []
    for size in (1, 4, 1000):
        turn = ChatFormat.from_template(source).turn(USER, STRINGS, on_mismatch="strict", id_seed=1)
        builder = Sum()
        with pytest.raises(OutputError) as caught:
            for at in range(0, len(text), size):
                builder.add(turn.feed(text[at : at + size]))
            builder.add(turn.finish())
        builder.add(caught.value.deltas)
        told.append((builder.message, caught.value.position))
    assert told[1:] == told[:1] * 2


@pytest.mark.parametrize(("source", "text", "code"), ODD)
@pytest.mark.parametrize("size", [1, 1000])
def test_what_a_lenient_reading_has_a_problem_with_is_a_mismatch(source: str, text: str, code: str, size: int) -> None:
    fmt = ChatFormat.from_template(source)
    lenient = fmt.turn(USER, STRINGS, id_seed=1)
    lenient.feed(text)
    lenient.finish()
    (problem,) = lenient.message.problems
    strict = fmt.turn(USER, STRINGS, on_mismatch="strict", id_seed=1)
    with pytest.raises(OutputError) as caught:
        for at in range(0, len(text), size):
            strict.feed(text[at : at + size])
        strict.finish()
    assert (problem.code, caught.value.position) == (code, problem.position)
    assert problem.message in str(caught.value)


UNMET = [
    ({"tool_choice": "required"}, "Hi.", "missing_call"),
    ({"tool_choice": {"type": "function", "function": {"name": "get_weather"}}}, "", "missing_call"),
    ({"tools": None, "response_format": {"type": "json_object"}}, "Hi.", "invalid_answer"),
    ({"tools": None, "response_format": {"type": "json_object"}}, '{"a": 1} so', "invalid_answer"),
    ({"tools": None, "response_format": {"type": "json_object"}}, '{"a": 1}', None),
]


@pytest.mark.parametrize(("asked", "text", "code"), UNMET)
def test_an_answer_that_is_not_what_was_asked_for_is_told(asked: dict[str, Any], text: str, code: str | None) -> None:
    fmt = ChatFormat.from_template(own.JSON_IN_TAGS)
    for reason in ("stop", "length"):
        turn = fmt.turn(USER, **{"tools": STRINGS, **asked})
        turn.feed(text)
        turn.finish(reason)
        told = [problem.code for problem in turn.message.problems]
        assert told == ([code] if code and reason == "stop" else [])
    strict = fmt.turn(USER, **{"tools": STRINGS, **asked}, on_mismatch="strict")
    strict.feed(text)
    if code:
        with pytest.raises(OutputError):
            strict.finish()


@pytest.mark.parametrize(("source", "text"), OPEN)
def test_the_length_limit_is_none(source: str, text: str) -> None:
    turn = turn_of(source, text)
    turn.finish("length")
    assert turn.message.truncated


@pytest.mark.parametrize(("source", "text"), WHOLE)
def test_a_missing_closer_or_half_a_marker_is_none(source: str, text: str) -> None:
    turn_of(source, text).finish()


@pytest.mark.parametrize("mismatch", ["lenient", "strict"])
def test_a_call_that_only_the_end_tells_from_an_unfinished_one_is_a_call(mismatch: str) -> None:
    """A name closed without the layout behind it (``<kul>go</kul>``) may go on until the output ends."""
    source = own.wrap(
        own.CONTENT + "{% for c in m.tool_calls or [] %}{{ '<kul>' + c.function.name + '\\n' }}"
        "{% for k, v in c.function.arguments.items() -%}"
        "{{ '<k>' + k + '</k><v>' + (v if v is string else v | tojson) + '</v>\\n' }}{% endfor %}</kul>{% endfor %}"
    )
    tools = [{"type": "function", "function": {"name": "go", "parameters": {"type": "object", "properties": {}}}}]
    turn = ChatFormat.from_template(source).turn([{"role": "user", "content": "Hi"}], tools, on_mismatch=mismatch)
    turn.feed("<kul>go</kul>")
    turn.finish()
    assert [call.name for call in turn.message.tool_calls] == ["go"]
    assert turn.finish_reason == "tool_calls"
