"""What is read with profiles of every shape: the same whether it comes whole or byte by byte, and never too late."""

from __future__ import annotations

import json
from typing import Any

import pytest

from dragoman.chat import Message
from dragoman.dialect.build import build
from dragoman.dialect.facts import ids_after_name
from dragoman.dialect.request import DialectRequest, JsonAnswer, Tool
from dragoman.grammar.compile import compile_reader
from dragoman.grammar.lower import lower
from dragoman.stream.reader import ControlToken, Reader
from dragoman.template.profile import ContentMode, ContentProfile, Marker, ReasoningMode, ReasoningProfile
from tests.dialects import BARE, FORMATS, HEADED, NATIVE, THINK, TOOLS, Reading, profile, read, reader_program

REQUEST = DialectRequest(tools=TOOLS)
CITY = {"city": "Paris"}

# format -> (what the model wrote, content, calls)
WRITTEN: dict[str, tuple[str, str, list[tuple[str, Any]]]] = {
    "native": (
        (
            'Hi.\n<zq7>\n{"name": "get_weather", "arguments": {"city": "a</zq7>b"}}\n</zq7>\n'
            '<zq7>{"type": "function", "x": null, "name": "ping-pong.v2"}</zq7>'
        ),
        "Hi.",
        [("get_weather", {"city": "a</zq7>b"}), ("ping-pong.v2", {})],
    ),
    "array": (
        (
            'Hi[CALLS] [{"name": "get_weather", "arguments": {"city": "Paris"}, "id": "123456789"},\n'
            '{"id": "abcdefghi", "name": "ping-pong.v2", "arguments": {}}]'
        ),
        "Hi",
        [("get_weather", CITY), ("ping-pong.v2", {})],
    ),
    "nested": (
        (
            '<calls>[{"id": "a", "type": "function", "function": {"name": "get_weather", '
            '"arguments": {"city": "Paris"}}}]'
            "</calls>"
        ),
        "",
        [("get_weather", CITY)],
    ),
    "name_as_key": (
        '<|tools|>[{"get_weather": {"city": "Paris"}}, {"ping-pong.v2": {}}]<|/tools|>after',
        "after",
        [("get_weather", CITY), ("ping-pong.v2", {})],
    ),
    "bare": (
        'See {"name": "Bob", "parameters": {}}. {"name": "get_weather", "parameters": {"city": "Paris"}}',
        'See {"name": "Bob", "parameters": {}}.',
        [("get_weather", CITY)],
    ),
    "headed": (
        'Hi[CALL]get_weather[ID]123456789[ARGS]{"city": "Paris"}[CALL]ping-pong.v2[ID]x[ARGS] {}',
        "Hi",
        [("get_weather", CITY), ("ping-pong.v2", {})],
    ),
    "fenced": (
        (
            'Hi<|calls|><|call|>function<|sep|>get_weather\n```json\n{"city": "Paris"}\n```<|/call|>\n'
            "<|call|>function<|sep|>ping-pong.v2\n```json\n{}\n```<|/call|><|/calls|>"
        ),
        "Hi",
        [("get_weather", CITY), ("ping-pong.v2", {})],
    ),
    "tagged": (
        (
            "Hi\n<tool>\n<fn=get_weather>\n<par=city>\nNew </par> York\n\n</par>\n"
            "<par=days>\n3\n</par>\n</fn>\n</tool>\n"
            "<fn=ping-pong.v2>\n</fn>"
        ),
        "Hi",
        [("get_weather", {"city": "New </par> York\n", "days": 3}), ("ping-pong.v2", {})],
    ),
    "invoke": (
        (
            'Hi\n\n<x:calls>\n<invoke name="get_weather">\n<parameter name="city" string="true">'
            "Paris</parameter>\n"
            '<parameter name="tags" string="false">["</invoke>"]</parameter>\n</invoke>\n</x:calls>'
        ),
        "Hi",
        [("get_weather", {"city": "Paris", "tags": ["</invoke>"]})],
    ),
    "pairs": (
        (
            "<call>get_weather\n<key>city</key>\n<val> Paris\n</val>\n<key>days</key><val>2</val>\n</call>"
            "<call>ping-pong.v2</call>"
        ),
        "",
        [("get_weather", {"city": " Paris\n", "days": 2}), ("ping-pong.v2", {})],
    ),
}


def calls(message: Message) -> list[tuple[str, object]]:
    return [(call.name, json.loads(call.arguments)) for call in message.tool_calls]


@pytest.mark.parametrize("name", sorted(FORMATS))
def test_every_format_is_read_whole_and_byte_by_byte(name: str) -> None:
    text, content, expected = WRITTEN[name]
    text = "<muse>\nhm\n</muse>\n\n" + text + "<|fin|>"
    program = reader_program(profile(FORMATS[name]), REQUEST)
    whole = read(profile(FORMATS[name]), REQUEST, text, program=program)
    reading = Reading(program, REQUEST, late_ids=ids_after_name(profile(FORMATS[name])))
    withheld = 0
    for byte in text.encode():
        reading.feed(bytes([byte]))
        withheld = max(withheld, len(reading.reader.run.withheld))
    assert reading.finish() == whole
    assert (whole.content.strip(), whole.reasoning_content, calls(whole)) == (content, "hm", expected)
    assert whole.problems == ()
    # The longest opener of these formats with its header; arguments before the name are held until the name.
    assert withheld <= 80


@pytest.mark.parametrize("name", sorted(FORMATS))
def test_without_tools_call_markup_is_text(name: str) -> None:
    text = WRITTEN[name][0]
    message = read(profile(FORMATS[name]), DialectRequest(), text)
    assert (message.content, message.tool_calls) == (text, ())
    silent = read(profile(FORMATS[name]), DialectRequest(tools=TOOLS, choice="none"), text)
    assert silent.tool_calls == ()


@pytest.mark.parametrize("name", sorted(FORMATS))
def test_undeclared_calls_are_read_when_asked_for(name: str) -> None:
    message = read(profile(FORMATS[name]), DialectRequest(undeclared="call"), WRITTEN[name][0])
    expected = [called for called, _ in WRITTEN[name][2]]
    assert [call.name for call in message.tool_calls][-len(expected) :] == expected


@pytest.mark.parametrize("name", sorted(set(FORMATS) - {"bare"}))
def test_an_unknown_name_is_a_call_with_a_problem(name: str) -> None:
    text = WRITTEN[name][0].replace("get_weather", "other:tool-1.ü")
    message = read(profile(FORMATS[name]), REQUEST, text)
    assert message.tool_calls[0].name == "other:tool-1.ü"
    assert [problem.code for problem in message.problems] == ["unknown_tool"]


@pytest.mark.parametrize("name", sorted(FORMATS))
def test_what_is_delivered_so_far_is_a_prefix_and_a_cut_loses_no_text(name: str) -> None:
    text, _, _ = WRITTEN[name]
    program = reader_program(profile(FORMATS[name]), REQUEST)
    whole = read(profile(FORMATS[name]), REQUEST, text, program=program)
    for end in range(0, len(text), 3):
        reading = Reading(program, REQUEST, late_ids=ids_after_name(profile(FORMATS[name]))).feed(text[:end].encode())
        so_far = reading.builder.message
        names = [call.name for call in so_far.tool_calls]
        assert names == [call.name for call in whole.tool_calls][: len(names)]
        assert whole.content.startswith(so_far.content)
        for mine, full in zip(so_far.tool_calls, whole.tool_calls, strict=False):
            assert full.arguments.startswith(mine.arguments)
        if not names and "call" not in reading.reader.path:
            assert reading.finish("length").content == text[:end]


@pytest.mark.parametrize("half", ["<", "<zq7", "<zq7>", '<zq7>\n{"name"', '<zq7>\n{"name": 3}', "<zq7>\nnot json"])
def test_a_half_or_failed_opener_is_text(half: str) -> None:
    for text in (f"a\n{half}", f"a\n{half} and on"):
        assert read(profile(NATIVE), REQUEST, text).content == text


def test_broken_arguments_end_at_the_closer_and_reading_goes_on() -> None:
    text = '<zq7>\n{"name": "get_weather", "arguments": {"city": Paris}}\n</zq7>\nmore'
    message = read(profile(NATIVE), REQUEST, text)
    assert [(call.name, call.arguments) for call in message.tool_calls] == [("get_weather", '{"city": Paris}')]
    assert message.content.strip() == "more"
    assert "broken_call" in {problem.code for problem in message.problems}


def test_a_missing_closer_is_forgiven() -> None:
    text = '<zq7>\n{"name": "get_weather", "arguments": {"city": "Paris"}}\n<zq7>\n{"name": "ping-pong.v2"}'
    message = read(profile(NATIVE), REQUEST, text)
    assert calls(message) == [("get_weather", CITY), ("ping-pong.v2", {})]
    assert message.problems == ()


def test_arguments_as_a_string_are_undone() -> None:
    text = '<zq7>\n{"name": "get_weather", "arguments": "{\\"city\\": \\"Paris\\"}"}\n</zq7>'
    assert read(profile(NATIVE), REQUEST, text).tool_calls[0].arguments == '{"city": "Paris"}'


def test_arguments_before_the_name_are_read() -> None:
    text = '<calls>[{"id": "a", "function": {"arguments": {"city": "Paris"}, "name": "get_weather"}}]</calls>'
    assert calls(read(profile(FORMATS["nested"]), REQUEST, text)) == [("get_weather", CITY)]


def test_ids_are_read_before_and_after_the_name() -> None:
    assert read(profile(HEADED), REQUEST, "[CALL]ping-pong.v2[ID]ab1[ARGS]{}").tool_calls[0].id == "ab1"
    text = '<calls>[{"id": "q\\u0041", "type": "function", "function": {"name": "ping-pong.v2"}}]</calls>'
    assert read(profile(FORMATS["nested"]), REQUEST, text).tool_calls[0].id == "qA"


class TestReasoning:
    def test_the_prompt_may_have_opened_or_emptied_it(self) -> None:
        opened = DialectRequest(prefix="<muse>\n")
        message = read(profile(None), opened, "thinking\n</muse>\n\nanswer")
        assert (message.reasoning_content, message.content) == ("thinking", "answer")
        empty = DialectRequest(prefix="<muse>\n\n</muse>\n\n")
        message = read(profile(None), empty, "answer")
        assert (message.reasoning_content, message.content) == ("", "answer")

    def test_a_leading_close_is_dropped_and_a_later_one_is_text(self) -> None:
        assert read(profile(None), DialectRequest(), "</muse>answer").content == "answer"
        assert read(profile(None), DialectRequest(), "so </muse> answer").content == "so </muse> answer"

    def test_implicit_reasoning_begins_inside(self) -> None:
        pre = ReasoningProfile(mode=ReasoningMode.PREOPENED, open=THINK.open, close=THINK.close)
        inside = DialectRequest(implicit_reasoning=True)
        for text in ("hm\n</muse>\n\nyes", "<muse>\nhm\n</muse>\n\nyes"):
            message = read(profile(None, reasoning=pre), inside, text)
            assert (message.reasoning_content, message.content) == ("hm", "yes")

    def test_unread_reasoning_stays_in_the_answer(self) -> None:
        text = "<muse>\nhm\n</muse>\n\nyes"
        assert read(profile(None), DialectRequest(read_reasoning=False), text).content == text

    def test_a_call_or_the_stop_ends_open_reasoning(self) -> None:
        message = read(profile(NATIVE), REQUEST, '<muse>\nhm\n<zq7>\n{"name": "ping-pong.v2"}\n</zq7>')
        assert (message.reasoning_content, calls(message)) == ("hm", [("ping-pong.v2", {})])
        message = read(profile(NATIVE), REQUEST, "<muse>\nhm<|eot|>")
        assert (message.reasoning_content, message.content) == ("hm", "")

    def test_tags_that_the_template_does_not_show_are_read_at_the_start_only(self) -> None:
        plain = profile(None, reasoning=ReasoningProfile())
        message = read(plain, DialectRequest(), "<think>hm</think>yes")
        assert (message.reasoning_content, message.content) == ("hm", "yes")
        text = "the tag <think>x</think>"
        assert read(plain, DialectRequest(), text).content == text


def test_wrapped_answers_lose_their_wrapper_wherever_the_model_forgets_half_of_it() -> None:
    content = ContentProfile(mode=ContentMode.WRAPPED, open=Marker("", "[[", ""), close=Marker("", "]]", ""))
    for text in ("[[Hello]]", "Hello]]", "[[Hello", "Hello"):
        assert read(profile(None, content=content), DialectRequest(), text).content == "Hello"


@pytest.mark.parametrize("word", ["said", " said", "said ", " said\n"])
def test_a_word_between_two_tags_may_have_space_around_it(word: str) -> None:
    opened, closed = Marker("", "<|on|>said<|mid|>", ""), Marker("", "<|off|>said<|mid|>", "")
    content = ContentProfile(mode=ContentMode.WRAPPED, open=opened, close=closed)
    text = f"<|on|>{word}<|mid|>Hello<|off|>{word}<|mid|>"
    assert read(profile(None, content=content), DialectRequest(), text).content == "Hello"


def test_a_block_that_says_nothing_is_no_text_where_reasoning_stays_in_the_answer() -> None:
    content = ContentProfile(mode=ContentMode.WRAPPED, open=Marker("", "[[", ""), close=Marker("", "]]", ""))
    kept = DialectRequest(read_reasoning=False)
    for text in ("<muse>\n[[Hello]]", "<muse></muse>[[Hello]]", "<muse>\n\n</muse>\n\n[[Hello", "[[Hello]]"):
        assert read(profile(None, content=content), kept, text).content == "Hello"
    assert read(profile(None, content=content), kept, "<muse>hm</muse>[[Hello]]").content == "<muse>hm</muse>Hello"


def test_a_json_answer_comes_out_of_its_fence() -> None:
    request = DialectRequest(answer=JsonAnswer())
    assert read(profile(None), request, '```json\n{"a": "```"}\n```').content == '{"a": "```"}'
    assert read(profile(None), request, '{"a": 1}').content == '{"a": 1}'
    fenced = "```json\n{}\n```"
    assert read(profile(None), DialectRequest(), fenced).content == fenced


def test_a_stop_ends_the_turn_outside_values_only() -> None:
    assert read(profile(NATIVE), REQUEST, "a<|fin|>b").content == "a"
    text = '<zq7>\n{"name": "get_weather", "arguments": {"city": "<|fin|>"}}\n</zq7>'
    assert calls(read(profile(NATIVE), REQUEST, text)) == [("get_weather", {"city": "<|fin|>"})]


def test_control_tokens_are_markers_by_id_only() -> None:
    controls = {"<zq7>": 7, "</zq7>": 8, "<|fin|>": 9}
    grammar = build(profile(NATIVE), REQUEST, controls=frozenset(controls))
    program = compile_reader(lower(grammar, "reader"), controls=controls)
    reader = Reader(program)

    def token(text: str) -> ControlToken:
        return ControlToken(program.symbols[controls[text]], text.encode())

    body = b'\n{"name": "ping-pong.v2"}\n'
    tags = [event.tag for event in reader.feed(b"<zq7>" + body) if hasattr(event, "tag")]
    assert tags == ["content"]
    items = (token("<zq7>"), body, token("</zq7>"))
    tags = [event.tag for item in items for event in reader.feed(item) if hasattr(event, "tag")]
    assert tags == ["content", "opening", "opening", "call", "name.json", "name.json", "call"]
    reader.feed(token("<|fin|>"))
    assert reader.ended


def test_names_in_a_bare_format_have_to_be_declared() -> None:
    text = '{"name": "other", "parameters": {}}'
    assert read(profile(BARE), REQUEST, text).content == text
    assert read(profile(BARE), DialectRequest(undeclared="call"), text).tool_calls[0].name == "other"
    assert read(profile(BARE), DialectRequest(undeclared="call"), '{"name": "Bob"}').tool_calls == ()


def test_values_are_read_by_their_declared_type() -> None:
    tool = Tool(
        "f",
        {
            "type": "object",
            "properties": {
                "s": {"$ref": "#/$defs/text"},
                "n": {"type": ["string", "null"]},
                "o": {"type": "object"},
            },
            "$defs": {"text": {"type": "string"}},
        },
    )
    values = {"s": "12", "n": "null", "o": "{'a': True}", "q": "1.5"}
    written = "".join(f"<par={key}>\n{value}\n</par>\n" for key, value in values.items())
    text = f"<tool>\n<fn=f>\n{written}</fn>\n</tool>"
    message = read(profile(FORMATS["tagged"]), DialectRequest(tools=(tool,)), text)
    assert calls(message) == [("f", {"s": "12", "n": None, "o": {"a": True}, "q": 1.5})]
