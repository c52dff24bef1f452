"""Stops, triggers, preserved tokens, thinking tags; and the instructions of the generic dialect."""

from __future__ import annotations

from typing import Any

import pytest

from dragoman.dialect.facts import ids_after_name, preserved_tokens, stops, thinking_tags, triggers
from dragoman.dialect.generic import generic_profile, with_tool_instructions
from dragoman.dialect.markers import opening_words, overlaps_itself, words
from dragoman.dialect.request import DialectRequest
from dragoman.format import ChatFormat
from dragoman.template.profile import Profile, ReasoningProfile
from tests.dialects import FORMATS, TOOLS, can_write, openai_tools, profile, read, writer_program

REQUEST = DialectRequest(tools=TOOLS)
TOOL = {
    "type": "function",
    "function": {
        "name": "get_weather",
        "description": "what it does",
        "parameters": {
            "type": "object",
            "properties": {"city": {"type": "string"}, "unit": {"enum": ["celsius", "fahrenheit"]}},
            "required": ["city", "unit"],
        },
    },
}


def test_stops_and_thinking_tags() -> None:
    assert stops(profile(None), DialectRequest()) == ("<|fin|>", "<|eot|>")
    assert thinking_tags(profile(None)) == ("<muse>", "</muse>")
    assert thinking_tags(profile(None, reasoning=ReasoningProfile())) is None


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("native", ("<zq7>",)),
        ("array", ("[CALLS][",)),
        ("fenced", ("<|calls|>", "<|call|>")),
        ("tagged", ("<tool>", "<fn=")),
        ("bare", ('{"name":',)),
    ],
)
def test_triggers_are_what_calls_begin_with(name: str, expected: tuple[str, ...]) -> None:
    found = triggers(profile(FORMATS[name]), REQUEST)
    assert tuple(word.rstrip("[") for word in found) == tuple(word.rstrip("[") for word in expected)
    assert triggers(profile(FORMATS[name]), DialectRequest(tools=TOOLS, choice="required")) == ()
    assert triggers(profile(FORMATS[name]), DialectRequest()) == ()


def test_ids_behind_the_name() -> None:
    late = {name for name in FORMATS if ids_after_name(profile(FORMATS[name]))}
    assert late == {"array", "headed"}


def test_preserved_tokens_are_those_in_markers() -> None:
    controls = {"<zq7>", "</zq7>", "<muse>", "<|fin|>", "<|unused|>"}
    assert preserved_tokens(profile(FORMATS["native"]), controls) == ("</zq7>", "<muse>", "<zq7>", "<|fin|>")


def test_words_of_markers() -> None:
    assert words("<a>\n  <b=") == ("<a>", "<b=")
    assert words("<a>x<b>") == ("<a>", "x<b>")
    assert words('" type="') == ('" type="',)
    assert opening_words("<a>\n<b=") == (("<a>", "<b="), ("<b=",))
    assert opening_words("Action:\n```json") == (("Action:", "```json"),)
    assert overlaps_itself("```") == "`"
    assert overlaps_itself("</a>") == ""


def test_generic_instructions_show_signatures_and_one_form_per_tool() -> None:
    messages = [{"role": "system", "content": "Be kind."}, {"role": "user", "content": "Hi"}]
    out = with_tool_instructions(messages, [TOOL], choice="required")
    assert out[1] == messages[1]
    assert out[0]["content"] == (
        "Be kind.\n\n"
        "You answer by calling one of these functions:\n"
        '- get_weather(city: string, unit: "celsius" or "fahrenheit") - what it does\n\n'
        "Reply in one of these forms, with the values from the user's question:\n"
        '<tool_call>\n{"name": "get_weather", "arguments": {"city": "<city>", "unit": "celsius|fahrenheit"}}\n'
        "</tool_call>"
    )
    auto = with_tool_instructions(messages[1:], [TOOL])
    assert auto[0]["role"] == "system"
    assert "plain text" in auto[0]["content"]
    assert with_tool_instructions(messages, [TOOL], choice="none") == messages
    assert with_tool_instructions(messages) == messages


def test_generic_history_keeps_calls_and_results() -> None:
    history: list[dict[str, Any]] = [
        {"role": "user", "content": "Hi"},
        {"role": "assistant", "content": "So", "tool_calls": [{"function": {"name": "f", "arguments": '{"a": 1}'}}]},
        {"role": "tool", "content": "1"},
        {"role": "tool", "content": [{"type": "text", "text": "2"}]},
    ]
    out = with_tool_instructions(history)
    assert [message["role"] for message in out] == ["user", "assistant", "user"]
    assert out[1]["content"] == 'So\n<tool_call>\n{"name": "f", "arguments": {"a": 1}}\n</tool_call>'
    assert out[2]["content"] == '<tool_response name="f">\n1\n</tool_response>\n<tool_response>\n2\n</tool_response>'


def test_generic_results_stand_in_the_order_of_the_calls_and_say_their_names() -> None:
    calls = [{"id": id, "function": {"name": name, "arguments": "{}"}} for id, name in (("a", "f"), ("b", 'g"'))]
    results = [{"role": "tool", "tool_call_id": id, "content": f"of {id}"} for id in ("b", "a")]
    out = with_tool_instructions([{"role": "assistant", "content": None, "tool_calls": calls}, *results])
    assert out[1]["content"] == (
        '<tool_response name="f">\nof a\n</tool_response>\n<tool_response name="g\\"">\nof b\n</tool_response>'
    )
    foreign = [{"role": "tool", "tool_call_id": "z", "content": "1"}, {"role": "tool", "name": "h", "content": "2"}]
    out = with_tool_instructions([{"role": "user", "content": "Hi"}, *foreign])
    assert out[1]["content"] == '<tool_response>\n1\n</tool_response>\n<tool_response name="h">\n2\n</tool_response>'


def test_a_template_without_tools_shows_results_in_order_and_named() -> None:
    source = "{% for m in messages %}<|{{ m.role }}|>{{ m.content }}<|end|>{% endfor %}<|assistant|>"
    calls = [{"id": id, "function": {"name": name, "arguments": "{}"}} for id, name in (("a", "f"), ("b", "g"))]
    results = [{"role": "tool", "tool_call_id": id, "content": f"of {id}"} for id in ("b", "a")]
    messages = [{"role": "user", "content": "Hi"}, {"role": "assistant", "content": "", "tool_calls": calls}, *results]
    text = ChatFormat.from_template(source).turn(messages, [TOOL]).prompt.text
    shown = ('name="f"', "of a", 'name="g"', "of b")
    assert sorted(shown, key=text.index) == list(shown)


def test_generic_answer_form() -> None:
    items = {"type": "array", "items": {"type": "string"}}
    schema = {"type": "object", "properties": {"a": {"type": "integer"}, "b": items}}
    out = with_tool_instructions([{"role": "user", "content": "Hi"}], answer_schema=schema)
    assert out[0]["content"].endswith('{"a": <a>, "b": ["<b>"]}')


def test_generic_calls_are_read_and_written() -> None:
    given = generic_profile(Profile(end_of_turn=("<|fin|>",)))
    assert given.generic_tools
    assert generic_profile(given) == given
    message = read(given, REQUEST, '<tool_call>\n{"name": "get_weather", "arguments": {"city": "Paris"}}\n</tool_call>')
    assert message.tool_calls[0].name == "get_weather"
    writer = writer_program(given, DialectRequest(tools=TOOLS, choice="required"))
    assert can_write(writer, '<tool_call>\n{"name": "get_weather", "arguments": {"city": "Paris"}}\n</tool_call>')
    assert openai_tools(TOOLS)


def test_a_form_in_which_no_call_came_back_gives_way_to_the_generic_one() -> None:
    source = (
        "{% for m in messages %}<|{{ m.role }}|>{{ m.content or '' }}"
        "{% for c in m.tool_calls or [] %}<do>{{ c.function.name | replace('harbour', 'port') }}|"
        "{{ c.function.arguments | tojson }}</do>{% endfor %}<|fin|>{% endfor %}"
        "{% if add_generation_prompt %}<|assistant|>{% endif %}{# tools #}"
    )
    fmt = ChatFormat.from_template(source)
    assert fmt.proof["tool_calls"] == "refuted"
    assert fmt.profile.generic_tools
    assert fmt.profile.failure is not None
    assert fmt.profile.failure.startswith("refuted: calls ")
    turn = fmt.turn([{"role": "user", "content": "Hi"}], tools=openai_tools(TOOLS))
    assert "You can call these functions:" in turn.prompt.text
    turn.feed('<tool_call>\n{"name": "get_weather", "arguments": {"city": "Ulm"}}\n</tool_call>')
    turn.finish()
    assert [call.name for call in turn.message.tool_calls] == ["get_weather"]


def test_a_form_that_some_calls_come_back_in_is_kept() -> None:
    source = (
        "{% for m in messages %}<|{{ m.role }}|>{{ m.content or '' }}"
        "{% for c in m.tool_calls or [] %}<do>{{ c.function.name }}|"
        "{{ c.function.arguments | tojson | replace('\"', '') }}</do>{% endfor %}<|fin|>{% endfor %}"
        "{% if add_generation_prompt %}<|assistant|>{% endif %}"
    )
    fmt = ChatFormat.from_template(source)
    assert fmt.proof["tool_calls"] == "refuted"
    assert not fmt.profile.generic_tools
    assert fmt.profile.tools is not None
