"""No field is ignored without a word: it is read, harmless by name, refused by name, or told in the answer."""

from __future__ import annotations

import json
from typing import Any, get_type_hints

import pytest

from dragoman.engines.scripted import Scripted
from dragoman.format import ChatFormat
from dragoman.server.protocols import chat, completions, messages, responses
from dragoman.server.requests import harmless
from tests.server.service import CALL, INFO, MESSAGES, TEMPLATE, TOOLS, Service

CHAT, COMPLETIONS, ANTHROPIC, RESPONSES = "/v1/chat/completions", "/v1/completions", "/v1/messages", "/v1/responses"
LEAST: dict[str, dict[str, Any]] = {
    CHAT: {"messages": MESSAGES},
    COMPLETIONS: {"prompt": "one"},
    ANTHROPIC: {"messages": MESSAGES, "max_tokens": 9},
    RESPONSES: {"input": "one"},
}


def post(path: str, answer: str = "one", **fields: Any) -> Any:
    return Service(engine=Scripted(lambda _: answer, info=INFO)).post({**LEAST[path], **fields}, path)


def _clients() -> list[tuple[str, Any, dict[str, Any], tuple[Any, ...]]]:
    openai = pytest.importorskip("openai")
    anthropic = pytest.importorskip("anthropic")
    theirs = openai.types
    return [
        (CHAT, theirs.chat.completion_create_params, harmless.CHAT, chat.KNOWN),
        (COMPLETIONS, theirs.completion_create_params, harmless.COMPLETIONS, completions.KNOWN),
        (RESPONSES, theirs.responses.response_create_params, harmless.RESPONSES, responses.KNOWN),
        (ANTHROPIC, anthropic.types.message_create_params, harmless.MESSAGES, messages.KNOWN),
        (ANTHROPIC, anthropic.types.beta.message_create_params, harmless.MESSAGES, messages.KNOWN),
    ]


def test_every_field_of_the_clients_libraries_is_known_here() -> None:
    for path, params, free, known in _clients():
        [shape] = [getattr(params, name) for name in dir(params) if name.endswith("CreateParamsStreaming")]
        fields = dict.fromkeys(get_type_hints(shape), True)
        assert len(fields) > 15
        assert harmless.ignored(fields, dict.fromkeys(free, harmless.ANYTHING), *known) == (), path


REFUSED: list[tuple[str, dict[str, Any], str]] = [
    (CHAT, {"reasoning_effort": "huge"}, "reasoning_effort"),
    (CHAT, {"verbosity": "low"}, "verbosity"),
    (CHAT, {"verbosity": "bogus"}, "verbosity"),
    (CHAT, {"service_tier": "bogus"}, "service_tier"),
    (CHAT, {"prompt_cache_retention": "a week"}, "prompt_cache_retention"),
    (CHAT, {"moderation": {"model": "x"}}, "moderation"),
    (CHAT, {"stream_options": {"include_usage": True, "include_prices": True}}, "stream_options.include_prices"),
    (CHAT, {"stream_options": {"include_obfuscation": True}}, "stream_options.include_obfuscation"),
    (CHAT, {"include_reasoning": "no"}, "include_reasoning"),
    (CHAT, {"tools": TOOLS, "tool_choice": "always"}, "tool_choice"),
    (CHAT, {"tools": TOOLS, "tool_choice": {"type": "function"}}, "tool_choice"),
    (CHAT, {"tools": TOOLS, "tool_choice": {"type": "function", "function": {"name": None}}}, "tool_choice"),
    (CHAT, {"reasoning_format": "bogus"}, "reasoning_format"),
    (CHAT, {"response_format": {"type": "bogus"}}, "response_format.type"),
    (CHAT, {"input": "one"}, "input"),
    (COMPLETIONS, {"stream_options": {"bogus": 1}}, "stream_options.bogus"),
    (COMPLETIONS, {"prompt": []}, "prompt"),
    (COMPLETIONS, {"prompt": None}, "prompt"),
    (COMPLETIONS, {"messages": MESSAGES}, "messages"),
    (RESPONSES, {"text": {"verbosity": "high"}}, "text.verbosity"),
    (RESPONSES, {"text": {"bogus": 1}}, "text.bogus"),
    (RESPONSES, {"text": {"format": {"type": "json_schema", "schema": 5}}}, "text.format.json_schema.schema"),
    (RESPONSES, {"reasoning": {"effort": "huge"}}, "reasoning.effort"),
    (RESPONSES, {"reasoning": {"summary": "bogus"}}, "reasoning.summary"),
    (RESPONSES, {"reasoning": {"bogus": 1}}, "reasoning.bogus"),
    (RESPONSES, {"reasoning": {"mode": "pro"}}, "reasoning.mode"),
    (RESPONSES, {"include": ["bogus"]}, "include[0]"),
    (RESPONSES, {"include": [{}]}, "include[0]"),
    (RESPONSES, {"stream_options": {"include_usage": True}}, "stream_options.include_usage"),
    (RESPONSES, {"max_tokens": 5}, "max_tokens"),
    (ANTHROPIC, {"output_config": {"effort": "huge"}}, "output_config.effort"),
    (ANTHROPIC, {"output_config": {"task_budget": {"tokens": 5}}}, "output_config.task_budget"),
    (ANTHROPIC, {"thinking": {"type": "enabled", "budget": 5}}, "thinking.budget"),
    (ANTHROPIC, {"thinking": {"type": "enabled", "budget_tokens": -5}}, "thinking.budget_tokens"),
    (ANTHROPIC, {"thinking": {"type": "enabled", "display": "bogus"}}, "thinking.display"),
    (ANTHROPIC, {"service_tier": "priority"}, "service_tier"),
    (ANTHROPIC, {"inference_geo": "eu"}, "inference_geo"),
    (ANTHROPIC, {"compaction": {}}, "compaction"),
    (ANTHROPIC, {"stop": ["x"]}, "stop"),
]


@pytest.mark.parametrize(("path", "fields", "param"), REFUSED)
def test_what_is_not_supported_is_refused_by_name(path: str, fields: dict[str, Any], param: str) -> None:
    response = post(path, **fields)
    assert response.status_code == 400, response.text
    error = response.json()["error"]
    assert param in error["message"]
    assert len(error["message"]) < 260
    assert path == ANTHROPIC or error["param"] == param  # Anthropic's errors have no such field


@pytest.mark.parametrize(
    ("path", "fields"),
    [
        *((CHAT, {"reasoning_effort": word}) for word in ("none", "minimal", "low", "medium", "high", "xhigh", "max")),
        (CHAT, {"verbosity": "medium", "service_tier": "priority", "prompt_cache_retention": "24h"}),
        (CHAT, {"stream_options": {"include_usage": True, "include_obfuscation": False}}),
        (CHAT, {"user": "u", "safety_identifier": "s", "prompt_cache_key": "k", "store": True, "metadata": {}}),
        (COMPLETIONS, {"user": "u", "stream_options": {"include_usage": True}}),
        (RESPONSES, {"text": {"verbosity": "medium", "format": {"type": "text"}}, "max_tool_calls": 3}),
        (RESPONSES, {"include": ["reasoning.encrypted_content"], "context_management": [{"type": "compaction"}]}),
        (RESPONSES, {"reasoning": {"effort": "low", "summary": "auto", "context": "all_turns", "mode": "standard"}}),
        (ANTHROPIC, {"thinking": {"type": "adaptive", "display": "summarized"}, "output_config": {"effort": "max"}}),
        (ANTHROPIC, {"service_tier": "auto", "speed": "standard", "context_management": {"edits": []}}),
    ],
)
def test_what_changes_no_answer_is_accepted_and_not_told(path: str, fields: dict[str, Any]) -> None:
    response = post(path, **fields)
    assert response.status_code == 200, response.text
    assert "dragoman" not in response.json()


@pytest.mark.parametrize("path", LEAST)
def test_a_field_that_nobody_knows_is_told_at_the_end(path: str) -> None:
    whole = post(path, temprature=0.1)
    assert whole.json()["dragoman"] == {"ignored": ["temprature"]}
    stream = post(path, temprature=0.1, stream=True).text
    events = [json.loads(line[6:]) for line in stream.splitlines() if line.startswith("data: {")]
    told = [event.get("response", event).get("dragoman") for event in events]
    assert [each for each in told if each is not None] == [{"ignored": ["temprature"]}]


@pytest.mark.parametrize("name", ["max_tokens", "temperature", "n", "seed", "top_k", "top_logprobs", "logit_bias"])
@pytest.mark.parametrize("digits", [400, 4000, 5000])
def test_a_number_of_too_many_digits_is_refused_in_a_few_words(name: str, digits: int) -> None:
    number = "1" + "0" * digits
    value = f'{{"5": {number}}}' if name == "logit_bias" else number
    body = f'{{"messages": {json.dumps(MESSAGES)}, "logprobs": true, "{name}": {value}}}'
    response = Service(["one"]).post(body.encode())
    assert response.status_code == 400, response.text
    error = response.json()["error"]
    assert len(error["message"]) < 160
    assert "sys." not in error["message"]
    assert error["param"] == (name if digits < 4300 else None)


@pytest.mark.parametrize("field", ["sse_ping_interval", "reasoning_budget_tokens"])
def test_nor_is_one_a_failure_elsewhere(field: str) -> None:
    response = Service(["one"]).post(f'{{"messages": {json.dumps(MESSAGES)}, "{field}": 1{"0" * 400}}}'.encode())
    assert response.status_code in (200, 400)


WORDY = TEMPLATE.replace(
    "{%- if add_generation_prompt -%}",
    "{%- if reasoning_effort in ['huge', 'low'] -%}{{ '<|from|>system\\n' + reasoning_effort + '<|fin|>\\n' }}"
    "{%- endif -%}{%- if add_generation_prompt -%}",
)


def test_an_effort_may_be_any_word_that_the_template_compares_it_with() -> None:
    fmt = ChatFormat.from_template(WORDY, eos_token="<|fin|>")
    service = Service(["one"], fmt=fmt, info=INFO)
    prompt = service.post({"messages": MESSAGES, "reasoning_effort": "huge"}, "/apply-template").json()["prompt"]
    assert "system\nhuge" in prompt
    refused = service.chat(reasoning_effort="user")  # a word that the template compares something else with
    assert refused.status_code == 400
    assert "huge" in refused.json()["error"]["message"]


THOUGHT = "<muse>\nhm\n</muse>\n\nRome"


def test_reasoning_that_is_not_to_be_shown_is_not_told() -> None:
    message = post(CHAT, THOUGHT, include_reasoning=False).json()["choices"][0]["message"]
    assert message == {"role": "assistant", "content": "Rome"}
    assert "hm" not in post(CHAT, THOUGHT, include_reasoning=False, stream=True).text
    assert post(CHAT, THOUGHT).json()["choices"][0]["message"]["reasoning_content"] == "hm"
    hidden = post(ANTHROPIC, THOUGHT, thinking={"type": "enabled", "display": "omitted"}).json()
    assert [block["type"] for block in hidden["content"]] == ["text"]
    shown = post(ANTHROPIC, THOUGHT, thinking={"type": "enabled", "display": "summarized"}).json()
    assert [block["type"] for block in shown["content"]] == ["thinking", "text"]


def test_calls_are_told_all_the_same() -> None:
    choice = post(CHAT, "<muse>\nhm\n</muse>\n" + CALL, include_reasoning=False, tools=TOOLS).json()["choices"][0]
    assert choice["finish_reason"] == "tool_calls"
    assert choice["message"]["tool_calls"][0]["function"]["name"] == "get_weather"


def test_a_document_that_is_elsewhere_is_refused_in_words_of_the_request() -> None:
    schema = {"type": "object", "properties": {"a": {"$ref": "https://example.org/a.json"}}}
    response = post(CHAT, response_format={"type": "json_schema", "json_schema": {"name": "x", "schema": schema}})
    message = response.json()["error"]["message"]
    assert response.status_code == 400
    assert "$defs" in message
    assert "SchemaOptions" not in message


def test_which_turns_keep_their_reasoning_is_the_templates_switch() -> None:
    def variables(context: str) -> Any:
        return responses.turn_of({"input": "one", "reasoning": {"context": context}}).get("chat_template_kwargs")

    assert variables("auto") is None
    assert variables("all_turns") == {"preserve_reasoning": True}
    assert variables("current_turn") == {"preserve_reasoning": False}


def test_a_message_is_refused_by_its_place_in_the_request() -> None:
    """A system text comes in front of the messages of the chat, and is none of the request's."""
    picture = {"type": "image", "source": {"type": "url", "url": "http://x/y.png"}}
    asked = [*MESSAGES, {"role": "assistant", "content": "One."}, {"role": "user", "content": [picture]}]
    response = Service(["one"]).post({"max_tokens": 9, "system": "Be brief.", "messages": asked}, ANTHROPIC)
    assert response.status_code == 400, response.text
    assert response.json()["error"]["message"].startswith("messages[2].content[0] ")


BROKEN = '<do>\n{"name": "get_weather", "arguments": {"city": Rome}}\n</do>'


def test_a_broken_output_is_an_error_where_that_is_asked_for() -> None:
    told = post(CHAT, "So." + BROKEN, tools=TOOLS)
    assert told.status_code == 200
    assert told.json()["dragoman"]["problems"]
    strict = post(CHAT, "So." + BROKEN, tools=TOOLS, on_mismatch="strict")
    assert strict.status_code == 422
    assert strict.json()["error"]["type"] == "model_error"
    stream = post(CHAT, "So." + BROKEN, tools=TOOLS, on_mismatch="strict", stream=True).text
    assert '"content": "So."' in stream or '"content":"So."' in stream
    assert '"model_error"' in stream
    assert "[DONE]" not in stream
    assert post(CHAT, "So." + CALL, tools=TOOLS, on_mismatch="strict").status_code == 200
    assert post(CHAT, on_mismatch="bogus").json()["error"]["param"] == "on_mismatch"
