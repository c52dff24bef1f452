"""No field is ignored without a word: it is read, harmless by name, refused by name, or told in the answer."""

from __future__ import annotations

import json
from typing import Any, get_type_hints

import pytest

from dragoman.engine import EngineInfo, ModelSettings
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


NO_IDS = EngineInfo(model="scripted", grammar_forms=("gbnf",), takes_token_ids=False)


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


_FORM = {"type": "json_schema", "schema": {"type": "object"}}
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
    (RESPONSES, {"text": {"format": {"type": "json_schema", "schema": 5}}}, "text.format.schema"),
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
    (ANTHROPIC, {"stop_sequences": "x"}, "stop_sequences"),
    (ANTHROPIC, {"stop_sequences": ["x", 5]}, "stop_sequences"),
    (ANTHROPIC, {"output_format": {"type": "text"}}, "output_format.type"),
    (ANTHROPIC, {"output_format": {"type": "json_schema"}}, "output_format.schema"),
    (ANTHROPIC, {"output_format": {"type": "json_schema", "schema": {"type": "bogus"}}}, "output_format"),
    (ANTHROPIC, {"output_format": _FORM, "output_config": {"format": _FORM}}, "output_format"),
    *((path, {"model": 5}, "model") for path in LEAST),
    (CHAT, {"user": 5}, "user"),
    *(
        (CHAT, {name: value}, name)
        for name in ("on_mismatch", "service_tier")
        for value in (["strict"], {"a": 1}, True, 1)
    ),
    (CHAT, {"metadata": "x"}, "metadata"),
    (CHAT, {"store": "yes"}, "store"),
    (COMPLETIONS, {"user": ["u"]}, "user"),
    (RESPONSES, {"prompt_cache_key": 5}, "prompt_cache_key"),
    (RESPONSES, {"max_tool_calls": "3"}, "max_tool_calls"),
    (ANTHROPIC, {"metadata": [1]}, "metadata"),
    (CHAT, {"messages": [{"role": "king", "content": "one"}]}, "messages[0].role"),
    (RESPONSES, {"instructions": "two", "input": [{"role": "king", "content": "one"}]}, "input[0].role"),
    (CHAT, {"tools": [*TOOLS, {"type": "function", "function": {"name": "a b"}}]}, "tools[2].function.name"),
    (CHAT, {"functions": [{"name": "a\nb"}]}, "functions[0].name"),
    (CHAT, {"functions": [{"name": "a"}], "function_call": {"name": "b"}}, "function_call"),
    (RESPONSES, {"tools": [{"type": "function", "name": "a" * 129}]}, "tools[0].name"),
    (ANTHROPIC, {"tools": [{"name": "a!", "input_schema": {"type": "object"}}]}, "tools[0].name"),
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
        (CHAT, {"verbosity": "medium", "service_tier": "priority", "prompt_cache_retention": "24h"}),
        (CHAT, {"stream_options": {"include_usage": True, "include_obfuscation": False}}),
        (CHAT, {"user": "u", "safety_identifier": "s", "prompt_cache_key": "k", "store": True, "metadata": {}}),
        (COMPLETIONS, {"user": "u", "stream_options": {"include_usage": True}}),
        (RESPONSES, {"text": {"verbosity": "medium", "format": {"type": "text"}}, "max_tool_calls": 3}),
        (RESPONSES, {"include": ["reasoning.encrypted_content"], "context_management": [{"type": "compaction"}]}),
        (RESPONSES, {"reasoning": {"summary": "auto", "context": "auto", "mode": "standard"}}),
        (ANTHROPIC, {"thinking": {"type": "adaptive", "display": "summarized"}}),
        (ANTHROPIC, {"thinking": {"type": "enabled", "budget_tokens": 100}}),  # it thinks anyway
        (CHAT, {"tools": [{**TOOLS[0], "x": 1}]}),  # the template writes tools as they are
        (
            ANTHROPIC,
            {
                "messages": [
                    *MESSAGES,
                    {"role": "assistant", "content": [{"type": "tool_use", "id": "c", "name": "f", "input": {}}]},
                    {
                        "role": "user",
                        "content": [{"type": "tool_result", "tool_use_id": "c", "content": "a", "is_error": False}],
                    },
                ]
            },
        ),
        (CHAT, {"messages": [{**MESSAGES[0], "x": None, "annotations": []}], "response_format": {"type": "text"}}),
        (ANTHROPIC, {"service_tier": "auto", "speed": "standard", "context_management": {"edits": []}}),
    ],
)
def test_what_changes_no_answer_is_accepted_and_not_told(path: str, fields: dict[str, Any]) -> None:
    response = post(path, **fields)
    assert response.status_code == 200, response.text
    assert "dragoman" not in response.json()


PLAIN = ChatFormat.from_template(
    "{% for tool in tools or [] %}{{ '<|t|>' + tool.function.name }}{% endfor %}"
    "{% for m in messages %}{{ '<|' + m.role + '|>' + m.content + m.tone | default('') + '<|fin|>' }}{% endfor %}"
    "{% if add_generation_prompt %}{{ '<|assistant|>' }}{% endif %}",
    eos_token="<|fin|>",
)
THEIR_RESULT = {"type": "tool_result", "tool_use_id": "c", "content": "no", "is_error": True, "cache_control": {}}
THEIR_CALL = {"type": "tool_use", "id": "c", "name": "get_time", "input": {}, "caller": {"type": "direct"}}
THEIR_TOOL = {"name": "get_time", "input_schema": {"type": "object"}, "defer_loading": True}
ITEM = {"role": "user", "content": [{"type": "input_text", "text": "one", "y": 1}], "x": 1, "id": "i"}
FORM = {"name": "f", "schema": {"type": "object"}, "x": 1}
SAID = {"role": "user", "content": "one"}


@pytest.mark.parametrize(
    ("path", "fields", "told"),
    [
        *((CHAT, {"reasoning_effort": word}, ["reasoning_effort"]) for word in ("none", "minimal", "high", "max")),
        *((CHAT, {"enable_thinking": flag}, ["enable_thinking"]) for flag in (True, False)),
        (
            CHAT,
            {"chat_template_kwargs": {"a": 1, "enable_thinking": True}, "b": 2},
            ["b", *map("chat_template_kwargs.{}".format, ("a", "enable_thinking"))],
        ),
        (CHAT, {"response_format": {"type": "text", "x": 1}}, ["response_format.x"]),
        (CHAT, {"response_format": {"type": "json_schema", "json_schema": FORM}}, ["response_format.json_schema.x"]),
        (
            CHAT,
            {"tools": TOOLS, "tool_choice": {"type": "function", "function": {"name": "get_time", "x": 1}}},
            ["tool_choice.function.x"],
        ),
        (
            CHAT,
            {"tools": [{**TOOLS[0], "x": 1}, {"type": "function", "function": {"name": "f", "y": 1}}]},
            ["tools[0].x", "tools[1].function.y"],
        ),
        (CHAT, {"functions": [{"name": "f", "y": 1}]}, ["functions[0].y"]),
        (CHAT, {"stop": ["", "x"]}, ["stop"]),
        (CHAT, {"stop": ""}, ["stop"]),
        (
            CHAT,
            {"messages": [{**SAID, "name": "Ann", "tone": "!"}, {**SAID, "x": 1}]},
            ["messages[0].name", "messages[1].x"],
        ),
        (
            CHAT,
            {"messages": [{"role": "user", "content": [{"type": "text", "text": "one", "x": 1}]}]},
            ["messages[0].content[0].x"],
        ),
        (RESPONSES, {"input": [ITEM], "instructions": "two"}, ["input[0].content[0].y", "input[0].x"]),
        (RESPONSES, {"text": {"format": {"type": "json_schema", **FORM}}}, ["text.format.x"]),
        (
            RESPONSES,
            {"reasoning": {"effort": "low", "context": "all_turns"}},
            ["reasoning.effort", "reasoning.context"],
        ),
        (RESPONSES, {"tools": [{"type": "function", "name": "f", "y": 1}]}, ["tools[0].y"]),
        (ANTHROPIC, {"thinking": {"type": "enabled", "budget_tokens": 1024}}, ["thinking"]),
        (ANTHROPIC, {"output_config": {"effort": "max"}}, ["output_config.effort"]),
        (
            ANTHROPIC,
            {
                "tools": [THEIR_TOOL],
                "messages": [
                    SAID,
                    {"role": "assistant", "content": [THEIR_CALL]},
                    {"role": "user", "content": [THEIR_RESULT]},
                ],
            },
            ["messages[1].content[0].caller", "messages[2].content[0].is_error", "tools[0].defer_loading"],
        ),
    ],
)
def test_what_changes_nothing_is_told(path: str, fields: dict[str, Any], told: list[str]) -> None:
    """Switches that the template does not read, and keys without which the prompt is the same."""
    service = Service(engine=Scripted(lambda _: "{}", info=NO_IDS), fmt=PLAIN, info=NO_IDS)
    answer = service.post({**LEAST[path], **fields}, path)
    assert answer.status_code == 200, answer.text
    said = answer.json()["dragoman"]
    # The engine writes {} whatever is asked, a call too.
    problems = [problem["code"] for problem in said.pop("problems", [])]
    assert problems == (["missing_call"] if "tool_choice" in fields else [])
    assert said == {"ignored": told}


def test_counts_and_prompts_tell_it_too() -> None:
    """And their errors name the request's fields as the answers' do."""
    service = Service()
    for path in (CHAT + "/input_tokens", RESPONSES + "/input_tokens", ANTHROPIC + "/count_tokens", "/apply-template"):
        body = {"input": "one", "messages": MESSAGES} if path == RESPONSES + "/input_tokens" else {"messages": MESSAGES}
        body = {
            name: value for name, value in body.items() if name in LEAST.get(path.rsplit("/", 1)[0], {"messages": 1})
        }
        assert "dragoman" not in service.post(body, path).json()
        odd = service.post({**body, "chat_template_kwargs": {"a": 1}, "temprature": 1}, path)
        assert odd.json()["dragoman"] == {"ignored": ["temprature", "chat_template_kwargs.a"]}, odd.text
    tools = [{"name": "f", "input_schema": {"type": "object"}, "description": 5}]
    for wrong, place in (
        ({"messages": MESSAGES, "output_config": {"effort": "huge"}}, "output_config.effort"),
        ({"messages": MESSAGES, "tools": tools}, "tools[0].description"),
    ):
        error = service.post(wrong, ANTHROPIC + "/count_tokens").json()["error"]
        assert error["message"].startswith(place)
    assert (
        service.post({"input": "one", "reasoning": {"effort": "huge"}}, RESPONSES + "/input_tokens").json()["error"][
            "param"
        ]
        == "reasoning.effort"
    )


@pytest.mark.parametrize(
    ("name", "wrong", "right"),
    [
        ("mirostat", "zzz", 2),
        ("mirostat", 7, 0),
        ("repeat_penalty", "1.1", 1.1),
        ("stop_token_ids", [-1], [1, 2]),
        ("ignore_eos", 1, True),
        ("min_tokens", 10**12, 3),
        ("dry_sequence_breakers", [5], ["x"]),
    ],
)
def test_a_sampler_that_the_engine_takes_is_checked_here(name: str, wrong: Any, right: Any) -> None:
    service = Service(["one"], settings=ModelSettings(engine_fields=frozenset((name,))))
    refused = service.chat(**{name: wrong})
    assert (refused.status_code, refused.json()["error"]["param"]) == (400, name)
    assert service.chat(**{name: right}).status_code == 200
    assert service.engine.record.requests[-1].sampling.extra == {name: right}


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


def test_an_effort_that_the_template_reads_is_not_told() -> None:
    fmt = ChatFormat.from_template(WORDY, eos_token="<|fin|>")
    service = Service(["one"] * 2, fmt=fmt, info=NO_IDS)
    assert "dragoman" not in service.chat(reasoning_effort="high").json()
    assert "dragoman" not in service.chat(chat_template_kwargs={"reasoning_effort": "low"}).json()


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


def test_an_answer_is_not_gone_on_with_where_the_request_says_so() -> None:
    said = [*MESSAGES, {"role": "assistant", "content": "It is"}]
    service = Service(fmt=PLAIN.with_defaults(prefill_assistant=True), info=NO_IDS)

    def prompt(**fields: Any) -> str:
        told: str = service.post({"messages": said, **fields}, "/apply-template").json()["prompt"]
        return told

    assert prompt().endswith("It is")
    assert prompt(continue_final_message=False).endswith("<|assistant|>")
    assert prompt(continue_final_message=False, prefill_assistant=True).endswith("It is")


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
