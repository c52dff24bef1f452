"""What may be written: the template's layout, and nothing that reads back as something else."""

from __future__ import annotations

import json
from typing import Any

import jsonschema  # type: ignore[import-untyped]
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dragoman.dialect.build import build
from dragoman.dialect.request import DialectRequest, GbnfAnswer, JsonAnswer, Tool
from dragoman.errors import SchemaError
from dragoman.grammar.lower import lower
from dragoman.grammar.program import Program
from dragoman.template.profile import ContentMode, ContentProfile, Marker
from tests.dialects import FORMATS, NATIVE, TAGGED, TOOLS, Reading, can_write, profile, reader_program, writer_program
from tests.oracles.sample import NoSample, sample

RICH = Tool(
    "set.it",
    {
        "type": "object",
        "properties": {
            "a": {"type": ["string", "null"]},
            "b": {"anyOf": [{"type": "integer"}, {"type": "string"}]},
            "c": {"type": "object", "properties": {"x": {"type": "string"}}, "required": ["x"]},
            "d": {"type": "boolean"},
            "e": {"enum": ["on", "off", 3]},
            "f": {"$ref": "#/$defs/t"},
            "g": {"type": "number"},
            "h": {},
        },
        "required": ["a", "b"],
        "$defs": {"t": {"type": "string", "minLength": 2, "maxLength": 5}},
    },
)
ALL = (*TOOLS, RICH)
WEATHER = {
    "native": '<zq7>\n{"name": "get_weather", "arguments": {"city": "Paris"}}\n</zq7>',
    "array": '[CALLS][{"name": "get_weather", "arguments": {"city": "Paris"}, "id": "abc123XYZ"}]',
    "nested": '<calls>[{"id": "abc123XYZ", "type": "function", "function": {"name": "get_weather", '
    '"arguments": {"city": "Paris"}}}]</calls>',
    "name_as_key": '<|tools|>[{"get_weather": {"city": "Paris"}}]<|/tools|>',
    "bare": '{"name": "get_weather", "parameters": {"city": "Paris"}}',
    "headed": '[CALL]get_weather[ID]abc123XYZ[ARGS]{"city": "Paris"}',
    "fenced": '<|calls|><|call|>function<|sep|>get_weather\n```json\n{"city": "Paris"}\n```<|/call|><|/calls|>',
    "tagged": "<tool>\n<fn=get_weather>\n<par=city>\nParis\n</par>\n</fn>\n</tool>",
    "invoke": '<x:calls>\n<invoke name="get_weather">\n<parameter name="city" string="true">Paris</parameter>\n'
    "</invoke>\n</x:calls>",
    "pairs": "<call>get_weather\n<key>city</key>\n<val>Paris</val>\n</call>",
}


def program(name: str, **request: Any) -> Program:
    return writer_program(profile(FORMATS[name]), DialectRequest(**{"tools": TOOLS, **request}))


@pytest.mark.parametrize("name", sorted(FORMATS))
@pytest.mark.parametrize("choice", ["auto", "required"])
def test_samples_are_read_back_without_a_problem_and_validate(name: str, choice: Any) -> None:
    request = DialectRequest(tools=ALL, choice=choice)
    given_profile = profile(FORMATS[name])
    lowered = lower(build(given_profile, request), "writer")
    writer = writer_program(given_profile, request)
    reader = reader_program(given_profile, request)
    called = tried = 0
    for seed in range(25):
        try:
            text = sample(lowered, seed)
        except NoSample:
            continue
        if not can_write(writer, text.decode()):
            continue  # the sampler does not know look-ahead
        message = Reading(reader, request, strict=True).feed(text).finish()
        tried += 1
        assert message.problems == ()
        assert choice == "auto" or (message.tool_calls and not message.content)
        for call in message.tool_calls:
            tool = next(tool for tool in ALL if tool.name == call.name)
            jsonschema.validate(json.loads(call.arguments), tool.parameters)
            called += 1
    assert tried > 12
    assert called > 5


FRAGMENTS = [
    "<", "<zq", "zq7>", "</zq7>", "\n", "\n\n", "a", "é", "<muse", ">", "</muse", "<tool>", "<fn=", "<par=", "</par>",
    "</par", "</fn>", "[CALL]", "[CALLS][", "]", "{", "}", '"', '"name": ', '"get_weather"', "<|fin|>", "<|fin",
    "get_weather", "<call>", "</val>", "<|calls|>", "<x:calls>", "```",
]  # fmt: skip


@pytest.mark.parametrize("name", sorted(FORMATS))
@settings(max_examples=40, deadline=None)
@given(data=st.data())
def test_free_text_and_strings_come_back_as_they_were_written(name: str, data: st.DataObject) -> None:
    """Texts put together from pieces of markers: what the writer lets through is read back to the letter."""
    piece = st.lists(st.sampled_from(FRAGMENTS), max_size=5).map("".join)
    reasoning, content, value = data.draw(piece), data.draw(piece), data.draw(piece)
    written = json.dumps(value, ensure_ascii=False)[1:-1] if '"Paris"' in WEATHER[name] else value
    text = f"<muse>\n{reasoning}\n</muse>\n\n{content}{WEATHER[name].replace('Paris', written)}"
    writer = _WRITERS.setdefault(name, program(name))
    if not can_write(writer, text):
        return
    reader = _READERS.setdefault(name, reader_program(profile(FORMATS[name]), _AUTO))
    message = Reading(reader, _AUTO, strict=True).feed(text.encode()).finish()
    assert (message.reasoning_content.strip(), message.content.strip()) == (reasoning.strip(), content.strip())
    assert [json.loads(call.arguments) for call in message.tool_calls] == [{"city": value}]


_AUTO = DialectRequest(tools=TOOLS)
_WRITERS: dict[str, Program] = {}
_READERS: dict[str, Program] = {}


@pytest.mark.parametrize("name", sorted(FORMATS))
def test_choices(name: str) -> None:
    call = WEATHER[name]
    auto, none, required = program(name), program(name, choice="none"), program(name, choice="required")
    named = program(name, choice="named", allowed=("ping-pong.v2",))
    assert can_write(auto, "Hi" + call)
    assert can_write(auto, "Hi")
    assert can_write(none, "Hi")
    assert not can_write(none, "Hi" + call)
    assert can_write(required, call)
    assert can_write(required, "<muse>\nhm\n</muse>\n\n" + call)
    assert not can_write(required, "Hi" + call)
    assert not can_write(required, "Hi")
    assert not can_write(named, call)


@pytest.mark.parametrize("name", sorted(name for name in FORMATS if FORMATS[name].parallel))
def test_one_call_unless_several_are_allowed(name: str) -> None:
    given_profile = profile(FORMATS[name])
    lowered = lower(build(given_profile, DialectRequest(tools=TOOLS, choice="required")), "writer")
    reader = reader_program(given_profile, _AUTO)
    several = [
        text
        for text in (sample(lowered, seed) for seed in range(30))
        if len(Reading(reader, _AUTO).feed(text).finish().tool_calls) > 1
    ]
    single = program(name, choice="required", parallel=False)
    assert several
    assert not any(can_write(single, text.decode()) for text in several)
    assert can_write(single, WEATHER[name])


def test_required_arguments_order_and_names() -> None:
    writer = program("tagged", choice="required")
    days = "<par=days>\n3\n</par>\n"
    city = "<par=city>\nParis\n</par>\n"
    assert can_write(writer, WEATHER["tagged"].replace(city, city + days))
    for wrong in (days, days + city, city + city, city + "<par=other>\n1\n</par>\n", city + "<par=days>\n21\n</par>\n"):
        assert not can_write(writer, WEATHER["tagged"].replace(city, wrong))
    assert not can_write(writer, WEATHER["tagged"].replace("get_weather", "other"))


def test_a_string_beside_other_types_is_never_taken_for_them() -> None:
    union = {"type": ["string", "integer", "null"]}
    tool = Tool("f", {"type": "object", "properties": {"v": union}, "required": ["v"]})
    writer = writer_program(profile(TAGGED), DialectRequest(tools=(tool,), choice="required"))
    frame = "<tool>\n<fn=f>\n<par=v>\n{}\n</par>\n</fn>\n</tool>"
    for text in ("42", "null", "some words", "nothing"):
        assert can_write(writer, frame.format(text))
    for text in ("42 apples", "None", "NULL", " 42", "-x"):
        assert not can_write(writer, frame.format(text))


def test_prefix_of_the_prompt() -> None:
    inside = program("native", prefix="<muse>\n", choice="required")
    assert can_write(inside, "<muse>\nhm\n</muse>\n\n" + WEATHER["native"])
    assert not can_write(inside, "<muse>\n" + WEATHER["native"])
    after = program("native", prefix="<muse>\n\n</muse>\n\n", choice="required")
    assert can_write(after, "<muse>\n\n</muse>\n\n" + WEATHER["native"])
    assert not can_write(after, "<muse>\n\n</muse>\n\n<muse>\nhm\n</muse>\n\n" + WEATHER["native"])


def test_thinking_may_be_off() -> None:
    off = program("native", thinking=False)
    assert can_write(off, "Hi")
    assert not can_write(off, "<muse>\nhm\n</muse>\n\nHi")
    assert can_write(off, "<muse>\n\n</muse>\n\nHi")


def test_answers_in_a_form() -> None:
    schema = {
        "type": "object",
        "properties": {"a": {"type": "integer"}},
        "required": ["a"],
        "additionalProperties": False,
    }
    answer = program("native", answer=JsonAnswer(schema))
    assert can_write(answer, '{"a": 1}')
    assert can_write(answer, WEATHER["native"])
    assert not can_write(answer, '{"a": "x"}')
    assert not can_write(answer, "Hi")
    assert not can_write(program("native", answer=JsonAnswer(schema), choice="required"), '{"a": 1}')
    anything = program("native", answer=JsonAnswer(), tools=())
    assert can_write(anything, '{"b": [1]}')
    assert not can_write(anything, '{"b": "<|fin|>"}')
    own = program("native", answer=GbnfAnswer('root ::= "yes" | "no"'), tools=())
    assert can_write(own, "yes")
    assert not can_write(own, "maybe")


def test_wrapped_answers() -> None:
    content = ContentProfile(mode=ContentMode.WRAPPED, open=Marker("", "[[", ""), close=Marker("", "]]", "\n"))
    writer = writer_program(profile(NATIVE, content=content), _AUTO)
    assert can_write(writer, "[[Hi]]\n" + WEATHER["native"])
    assert not can_write(writer, "Hi")
    assert not can_write(writer, "[[Hi")


def test_control_tokens_are_written_as_tokens() -> None:
    controls = {"<zq7>": 7, "</zq7>": 8, "<muse>": 9, "</muse>": 10}
    writer = writer_program(profile(NATIVE), DialectRequest(tools=TOOLS, choice="required"), controls)
    assert set(writer.symbols) == set(controls.values())
    assert not can_write(writer, WEATHER["native"])


@pytest.mark.parametrize(
    ("parameters", "pointer"),
    [
        ({"properties": {"a>b": {"type": "string"}}}, "/properties/a>b"),
        ({"properties": {"a": {"enum": ["x</par>y"]}}}, "/properties/a"),
        ({"properties": {"a": {"type": "string", "pattern": "x+"}}}, "/properties/a/pattern"),
        ({"properties": {"a": {"enum": ["1", 1]}}}, "/properties/a"),
        ({"properties": {}, "required": ["q"]}, "/required/0"),
        ({"properties": {}, "minProperties": 1}, "/minProperties"),
        ({"type": "array"}, "/type"),
    ],
)
def test_what_the_format_cannot_carry_is_refused_by_its_pointer(parameters: dict[str, Any], pointer: str) -> None:
    request = DialectRequest(tools=(Tool("f", {"type": "object", **parameters}),))
    with pytest.raises(SchemaError) as error:
        build(profile(TAGGED), request)
    assert error.value.pointer == pointer
    reader_program(profile(TAGGED), request)  # it is still read


def test_the_size_grows_with_the_tools_only() -> None:
    def size(count: int) -> int:
        parameters = {"type": "object", "properties": {"a": {"type": "string"}}}
        tools = tuple(Tool(f"tool_{i}", parameters) for i in range(count))
        return len(writer_program(profile(TAGGED), DialectRequest(tools=tools)))

    assert size(200) - size(100) < 2.2 * (size(100) - size(50))
