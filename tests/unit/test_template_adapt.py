"""Requests: what is refused, with the place; and what is rewritten for a template."""

from __future__ import annotations

import copy
from dataclasses import replace
from typing import Any

import pytest

from dragoman.errors import LimitError, UsageError
from dragoman.limits import DEFAULT
from dragoman.template.adapt import adapt, normalise
from dragoman.template.capabilities import Capabilities, find_capabilities
from dragoman.template.render import Template
from tests.template_corpus import shared_rows, template_source

ALL = Capabilities(True, True, True, True, True, True, True, True, True)
CALL = {"id": "a", "type": "function", "function": {"name": "f", "arguments": '{"x": "é"}'}}


def message(**fields: Any) -> list[dict[str, Any]]:
    return [{"role": "user", "content": "hi"}, {"role": "assistant", **fields}]


def adapted(messages: list[Any], capabilities: Capabilities, **arguments: Any) -> list[dict[str, Any]]:
    return adapt(normalise(messages)[0], capabilities, **arguments)


@pytest.mark.parametrize(
    ("messages", "path", "reason"),
    [
        ("hi", "messages", "must be a list, not a string"),
        ([], "messages", "is empty"),
        (None, "messages", "must be a list, not null"),
        (["hi"], "messages[0]", "must be an object, not a string"),
        ([{"content": "hi"}], "messages[0].role", "is missing"),
        ([{"role": 1, "content": "hi"}], "messages[0].role", "must be a string, not a number"),
        ([{"role": "", "content": "hi"}], "messages[0].role", "is empty"),
        ([{"role": "user"}], "messages[0].content", "is missing"),
        ([{"role": "user", "content": 1}], "messages[0].content", "must be a string, null or a list"),
        ([{"role": "user", "content": {"type": "text"}}], "messages[0].content", "not an object"),
        ([{"role": "user", "content": [1]}], "messages[0].content[0]", "must be an object"),
        ([{"role": "user", "content": [{"text": "a"}]}], "messages[0].content[0].type", "is missing"),
        ([{"role": "user", "content": [{"type": "text"}]}], "messages[0].content[0].text", "is missing"),
        ([{"role": "user", "content": "a\ud800"}], "messages[0].content", "half a surrogate pair at character 1"),
        ([{"role": "tool", "content": "a", "tool_call_id": 1}], "messages[0].tool_call_id", "must be a string"),
        (message(tool_calls={}), "messages[1].tool_calls", "must be a list"),
        (message(tool_calls=[1]), "messages[1].tool_calls[0]", "must be an object"),
        (message(tool_calls=[{"type": "custom"}]), "messages[1].tool_calls[0].type", "must be 'function'"),
        (message(tool_calls=[{"id": 1, **CALL, "id": 1}]), "messages[1].tool_calls[0].id", "must be a string"),  # noqa: F601
        (message(tool_calls=[{}]), "messages[1].tool_calls[0].function", "is missing"),
        (message(tool_calls=[{"function": {}}]), "messages[1].tool_calls[0].function.name", "is missing"),
        (message(tool_calls=[{"function": {"name": ""}}]), "messages[1].tool_calls[0].function.name", "is empty"),
        (
            message(tool_calls=[CALL, {"function": {"name": "f", "arguments": [1]}}]),
            "messages[1].tool_calls[1].function.arguments",
            "must be JSON text or an object, not a list",
        ),
    ],
)
def test_a_wrong_message_is_refused_with_its_place(messages: Any, path: str, reason: str) -> None:
    with pytest.raises(UsageError, match=reason) as caught:
        normalise(messages)
    assert caught.value.param == path
    assert str(caught.value).startswith(path)


@pytest.mark.parametrize(
    ("tools", "path", "reason"),
    [
        ({}, "tools", "must be a list, not an object"),
        ([1], "tools[0]", "must be an object"),
        ([{"type": "web_search"}], "tools[0].type", "must be 'function', not 'web_search'"),
        ([{"type": "function"}], "tools[0].function", "is missing"),
        ([{"type": "function", "function": {"name": 1}}], "tools[0].function.name", "must be a string"),
        ([{"function": {"name": "f", "parameters": "x"}}], "tools[0].function.parameters", "must be a JSON Schema"),
        (
            [{"name": "f"}, {"name": "g"}, {"name": "f"}],
            "tools[2].function.name",
            "is the name of tools\\[0\\] already",
        ),
    ],
)
def test_a_wrong_tool_is_refused_with_its_place(tools: Any, path: str, reason: str) -> None:
    with pytest.raises(UsageError, match=reason) as caught:
        normalise([{"role": "user", "content": "hi"}], tools)
    assert caught.value.param == path


def test_too_many_tools() -> None:
    with pytest.raises(LimitError, match="tools = 2, here 3"):
        normalise([{"role": "user", "content": "hi"}], [{"name": c} for c in "abc"], limits=replace(DEFAULT, tools=2))


def test_nothing_of_the_callers_is_changed() -> None:
    messages = message(content=None, tool_calls=[CALL], reasoning="why", refusal=None)
    before = copy.deepcopy(messages)
    adapted(messages, ALL)
    assert messages == before


def test_null_keys_are_dropped_and_unknown_ones_kept() -> None:
    messages, tools = normalise(
        [{"role": "user", "content": "hi", "name": None, "tool_calls": None, "mood": "good"}],
        [{"name": "f", "description": None, "strict": True}],
    )
    assert messages == [{"role": "user", "content": "hi", "mood": "good"}]
    assert tools == [{"type": "function", "function": {"name": "f", "strict": True}}]


def test_developer_is_system() -> None:
    assert adapted([{"role": "developer", "content": "x"}], ALL) == [{"role": "system", "content": "x"}]


@pytest.mark.parametrize(
    ("given", "as_object", "as_text"),
    [
        ('{"x": "é"}', {"x": "é"}, '{"x": "é"}'),
        ({"x": "é"}, {"x": "é"}, '{"x": "é"}'),
        (None, {}, "{}"),
        ("", {}, ""),
        ('{"x": ', '{"x": ', '{"x": '),
        ("[1]", "[1]", "[1]"),
        ("[" * 100_000, "[" * 100_000, "[" * 100_000),
    ],
)
def test_arguments_as_object_or_text(given: Any, as_object: Any, as_text: Any) -> None:
    messages = message(tool_calls=[{"function": {"name": "f", "arguments": given}}])
    for flag, expected in ((True, as_object), (False, as_text)):
        call = adapted(messages, replace(ALL, supports_object_arguments=flag))[1]["tool_calls"][0]
        assert call["function"]["arguments"] == expected


def test_content_as_text_or_parts() -> None:
    text_only = replace(ALL, supports_typed_content=False)
    parts_only = replace(ALL, supports_string_content=False)
    parts = [{"type": "text", "text": "a"}, {"type": "input_text", "text": "b"}]
    assert adapted([{"role": "user", "content": parts}], text_only)[0]["content"] == "a\nb"
    assert adapted([{"role": "user", "content": "a"}], parts_only)[0]["content"] == [{"type": "text", "text": "a"}]
    assert adapted([{"role": "user", "content": "a"}], ALL)[0]["content"] == "a"
    assert [part["type"] for part in adapted([{"role": "user", "content": parts}], ALL)[0]["content"]] == ["text"] * 2
    assert adapted(message(tool_calls=[CALL]), text_only)[1]["content"] == ""
    assert adapted(message(content=None), text_only)[1]["content"] == ""


def test_an_image_for_a_text_template_is_refused() -> None:
    content = [{"type": "text", "text": "a"}, {"type": "image_url", "image_url": {"url": "data:"}}]
    with pytest.raises(UsageError, match=r"messages\[0\].content\[1\] is of type 'image_url'"):
        adapted([{"role": "user", "content": content}], replace(ALL, supports_typed_content=False))
    assert adapted([{"role": "user", "content": content}], ALL, keys={"image_url"})[0]["content"] == content


IMAGE = {"type": "image_url", "image_url": {"url": "data:"}}


def test_a_picture_goes_under_the_name_that_the_template_knows() -> None:
    user = [{"role": "user", "content": [IMAGE]}]
    assert adapted(user, ALL, keys={"image", "text"})[0]["content"] == [{**IMAGE, "type": "image"}]
    with pytest.raises(UsageError, match="does not know; give media_placeholder"):
        adapted(user, ALL, keys={"audio", "text"})


@pytest.mark.parametrize("kind", ["image_url", "input_image", "input_audio", "input_video"])
def test_a_placeholder_stands_for_a_picture_a_sound_or_a_film(kind: str) -> None:
    content = [
        {"type": "text", "text": "a"},
        {"type": "text", "text": "b"},
        {"type": kind},
        {"type": "text", "text": "c"},
    ]
    user = [{"role": "user", "content": content}]
    text_only = replace(ALL, supports_typed_content=False)
    assert adapted(user, text_only, media_placeholder="<M>")[0]["content"] == "a\nb<M>c"
    assert adapted(user, ALL, media_placeholder="<M>")[0]["content"][2] == {"type": "text", "text": "<M>"}


def call(id: str, name: str) -> dict[str, Any]:
    return {"id": id, "type": "function", "function": {"name": name, "arguments": {}}}


CALLS = {"role": "assistant", "content": "", "tool_calls": [call("a", "f"), call("b", "g")]}


def result(content: str, **more: Any) -> dict[str, Any]:
    return {"role": "tool", "content": content, **more}


def test_results_get_the_name_of_their_call_and_its_place_where_no_id_is_written() -> None:
    asked = [{"role": "user", "content": "hi"}, CALLS]
    given = [*asked, result("of b", tool_call_id="b"), result("of a", tool_call_id="a", name="own")]
    of_a = {**result("of a", tool_call_id="a"), "name": "own"}
    of_b = {**result("of b", tool_call_id="b"), "name": "g"}
    assert adapted(given, ALL)[2:] == [of_a, of_b]
    assert adapted(given, ALL, keys={"tool_call_id"})[2:] == [of_b, of_a]
    foreign = [*asked, result("x", tool_call_id="z"), result("of a", tool_call_id="a")]
    assert [message["content"] for message in adapted(foreign, ALL)[2:]] == ["x", "of a"]


def test_results_without_ids_answer_the_calls_one_by_one() -> None:
    given = [{"role": "user", "content": "hi"}, CALLS, result("1"), result("2"), result("3")]
    told = [(m.get("name"), m.get("tool_call_id")) for m in adapted(given, ALL)[2:]]
    assert told == [("f", "a"), ("g", "b"), (None, None)]


def test_reasoning_goes_into_the_content_where_the_template_looks_for_it_there() -> None:
    messages = adapted(message(content="x", reasoning="why"), ALL, reasoning_key="content.thinking")
    assert messages[1]["content"] == [{"type": "thinking", "thinking": "why"}, {"type": "text", "text": "x"}]
    assert "reasoning_content" not in messages[1]


@pytest.mark.parametrize("key", ["reasoning_content", "reasoning", "thinking"])
def test_reasoning_under_the_keys_that_the_template_reads(key: str) -> None:
    messages = message(content="x", **{key: "why"})
    assert adapted(messages, ALL)[1] == {"role": "assistant", "content": "x", "reasoning_content": "why"}
    assert adapted(messages, ALL, keys={"thinking", "content"})[1]["thinking"] == "why"


def test_system_is_merged_into_the_next_user_message() -> None:
    none = replace(ALL, supports_system_role=False)
    system, user = {"role": "system", "content": "S"}, {"role": "user", "content": "U"}
    assert adapted([system, user, user], none) == [{"role": "user", "content": "S\nU"}, user]
    assert adapted([system, system, user], none) == [{"role": "user", "content": "S\nS\nU"}]
    assert adapted([user, system], none) == [user, {"role": "user", "content": "S"}]
    parts = [{"type": "text", "text": "P"}]
    merged = adapted([system, {"role": "user", "content": parts}], none)
    assert merged == [{"role": "user", "content": [{"type": "text", "text": "S"}, *parts]}]


@pytest.mark.parametrize(
    "row", [pytest.param(row, id=row["name"]) for row in shared_rows("template_goldens.jsonl") if row["expect"]]
)
def test_shared_goldens(row: dict[str, Any]) -> None:
    template = Template(template_source(row["template"]), bos_token=row["bos_token"], eos_token=row["eos_token"])
    messages = adapted(row["messages"], find_capabilities(template), keys=template.keys)
    assert template.render(messages, add_generation_prompt=row["add_generation_prompt"]).text == row["expect"]
