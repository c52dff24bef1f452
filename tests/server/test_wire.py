"""Requests as they come in: what is accepted, what it means, what is refused and under which name."""

from __future__ import annotations

import math
from typing import Any

import pytest

from dragoman.engine import ModelSettings, Sampling
from dragoman.errors import EngineError, LimitError, SchemaError, UsageError
from dragoman.server.protocols.chat import read_chat_request
from dragoman.server.requests.ask import Ask
from dragoman.server.wire import failures
from tests.server.service import MESSAGES, TOOLS, Service


def read(**fields: Any) -> Ask:
    return read_chat_request({"messages": MESSAGES, **fields})


def test_sampling_fields_arrive_under_our_names() -> None:
    request = read(
        max_tokens=5,
        temperature=0.5,
        top_p=0.9,
        top_k=40,
        min_p=0.1,
        seed=7,
        presence_penalty=-1,
        frequency_penalty=1.5,
    )
    assert request.sampling == Sampling(
        max_tokens=5,
        temperature=0.5,
        top_p=0.9,
        top_k=40,
        min_p=0.1,
        seed=7,
        presence_penalty=-1,
        frequency_penalty=1.5,
    )
    assert read(max_tokens=-1, max_completion_tokens=6).sampling.max_tokens == 6
    assert read(max_tokens=6.0, max_completion_tokens=6).sampling.max_tokens == 6
    with pytest.raises(UsageError, match="max_completion_tokens and max_tokens") as caught:
        read(max_tokens=5, max_completion_tokens=6)
    assert caught.value.param == "max_completion_tokens"
    assert read(max_tokens=-1).sampling.max_tokens is None
    assert read(logit_bias={"5": -100, "6": 1}).sampling.logit_bias == {5: -math.inf, 6: 1.0}


def test_the_models_settings_fill_what_a_request_leaves_open() -> None:
    settings = ModelSettings(
        sampling=Sampling(max_tokens=9, temperature=0.0, extra={"dry_multiplier": 0.8}),
        engine_fields=frozenset({"repeat_penalty", "dry_multiplier"}),
    )
    body = {"messages": MESSAGES, "temperature": 1, "repeat_penalty": 1.1, "mirostat_tau": 2}
    sampling = read_chat_request(body, settings).sampling
    assert sampling == Sampling(max_tokens=9, temperature=1, extra={"dry_multiplier": 0.8, "repeat_penalty": 1.1})
    assert read_chat_request({**body, "dry_multiplier": 0}, settings).sampling.extra["dry_multiplier"] == 0


def test_fields_that_change_nothing_here_are_accepted() -> None:
    request = read(
        model="any",
        user="u",
        store=True,
        metadata={"a": "b"},
        service_tier="auto",
        n=1,
        logprobs=False,
        top_logprobs=None,
        modalities=["text"],
        stop=None,
        repetition_penalty=1.0,
        mirostat=0,
        mirostat_tau=5,
        ignore_eos=False,
        typ_p=1.0,
        min_keep=0,
        lora=[],
        return_token_ids=False,
        skip_special_tokens=True,
        grammar_lazy=False,
        parse_tool_calls=True,
        thinking_budget=-1,
        stop_sequences=[],
        timings_per_token=True,
        cache_prompt=True,
    )
    assert request == read()


def test_a_field_that_nobody_knows_is_left_out_and_told() -> None:
    assert read(some_field_of_tomorrow=[1, 2], temprature=1, another=None).ignored == (
        "some_field_of_tomorrow",
        "temprature",
    )


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("n", True),
        ("n", 0),
        ("n", 129),
        ("best_of", 2),
        ("logprobs", 3),
        ("functions", {}),
        ("function_call", 3),
        ("top_logprobs", 3),
        ("audio", {"voice": "x"}),
        ("modalities", ["text", "audio"]),
        ("web_search_options", {}),
        ("messages", "hi"),
        ("messages", None),
        ("tools", {}),
        ("tool_choice", 1),
        ("parallel_tool_calls", "yes"),
        ("response_format", "json_object"),
        ("chat_template_kwargs", []),
        ("reasoning_effort", 3),
        ("stream", "true"),
        ("stream_options", True),
        ("prediction", {"type": "content"}),
        ("mirostat", 2),
        ("repetition_penalty", 1.2),
        ("min_tokens", 5),
        ("ignore_eos", True),
        ("n_predict", 5),
        ("guided_json", {}),
        ("guided_choice", ["a"]),
        ("regex", "a+"),
        ("structured_outputs", {"choice": ["a"]}),
        ("chat_template", "{{ messages }}"),
        ("max_tokens", 2**40),
        ("temperature", 1e9),
        ("stop", 5),
        ("stop", ["a", 5]),
        ("temperature", -0.1),
        ("temperature", "hot"),
        ("temperature", float("nan")),
        ("top_p", 1.5),
        ("max_tokens", 1.5),
        ("max_tokens", -2),
        ("max_tokens", True),
        ("seed", "x"),
        ("logit_bias", {"a": 1}),
        ("logit_bias", {"1": "x"}),
        ("logit_bias", {"1": 101}),
        ("logit_bias", {"1": -100.5}),
        ("presence_penalty", 2.5),
        ("frequency_penalty", -2.5),
        ("typ_p", 0.5),
        ("tfs_z", 0.5),
        ("min_new_tokens", 4),
        ("min_keep", 3),
        ("t_max_predict_ms", 10),
        ("adaptive_target", 0.4),
        ("early_stopping", True),
        ("logits_processors", ["x"]),
        ("lora", [{"id": 0, "scale": 1}]),
        ("samplers", ["top_k"]),
        ("custom_logit_processor", "x"),
        ("sampling_seed", 3),
        ("return_token_ids", True),
        ("return_hidden_states", True),
        ("prompt_logprobs", 1),
        ("n_probs", 5),
        ("include_stop_str_in_output", True),
        ("skip_special_tokens", False),
        ("truncate_prompt_tokens", 3),
        ("grammar_lazy", True),
        ("grammar_triggers", [{"type": 1, "value": "x"}]),
        ("parse_tool_calls", False),
        ("reasoning_in_content", True),
        ("separate_reasoning", False),
        ("thinking", {"type": "disabled"}),
        ("reasoning", {"effort": "low"}),
        ("thinking_budget", 10),
        ("max_output_tokens", 3),
        ("stop_sequences", ["x"]),
    ],
)
def test_what_is_wrong_is_refused_by_name(name: str, value: Any) -> None:
    with pytest.raises(UsageError, match=name) as caught:
        read(**{name: value})
    assert caught.value.param == name


def test_thinking_must_be_a_boolean() -> None:
    with pytest.raises(UsageError, match="enable_thinking"):
        read(chat_template_kwargs={"enable_thinking": "false"})
    assert read(chat_template_kwargs={"enable_thinking": False}).turn["chat_template_kwargs"] == {
        "enable_thinking": False
    }


def test_the_short_name_of_a_json_schema() -> None:
    request = read(json_schema={"type": "object"})
    assert request.turn["response_format"] == {"type": "json_schema", "json_schema": {"schema": {"type": "object"}}}


@pytest.mark.parametrize("body", [b"", b"{", b"[]", b"null", b'"x"', b"\xff", b"[" * 200_000])
def test_a_body_that_is_no_request(body: bytes) -> None:
    response = Service().post(body)
    assert response.status_code == 400
    assert response.json()["error"]["type"] == "invalid_request_error"


@pytest.mark.parametrize(
    ("fields", "param"),
    [
        ({"messages": []}, "messages"),
        ({"messages": [{"role": "user"}]}, "messages[0].content"),
        (
            {"messages": [{"role": "assistant", "tool_calls": [{"function": {}}]}]},
            "messages[0].tool_calls[0].function.name",
        ),
        ({"tools": [{"type": "function"}]}, "tools[0].function"),
        ({"tool_choice": "required"}, "tool_choice"),
        ({"tools": TOOLS, "tool_choice": {"type": "function", "function": {"name": "nobody"}}}, "tool_choice"),
        ({"response_format": {"type": "yaml"}}, "response_format.type"),
    ],
)
def test_what_the_turn_refuses_names_its_place(fields: dict[str, Any], param: str) -> None:
    response = Service().chat(**fields)
    assert response.status_code == 400
    error = response.json()["error"]
    assert error["param"] == param
    assert set(error) == {"message", "type", "param", "code"}


@pytest.mark.parametrize(
    ("choice", "called", "lazy"),
    [
        ("auto", {"get_weather", "get_time"}, True),
        ("required", {"get_weather", "get_time"}, False),
        ({"type": "function", "function": {"name": "get_time"}}, {"get_time"}, False),
        (
            {
                "type": "allowed_tools",
                "allowed_tools": {
                    "mode": "required",
                    "tools": [{"type": "function", "function": {"name": "get_time"}}],
                },
            },
            {"get_time"},
            False,
        ),
        ("none", set(), None),
    ],
)
def test_tool_choice_reaches_the_engine_as_a_grammar(choice: Any, called: set[str], lazy: bool | None) -> None:
    service = Service(["Hi."])
    assert service.chat(tools=TOOLS, tool_choice=choice).status_code == 200
    [request] = service.engine.record.requests
    if lazy is None:
        assert request.grammar is None
        return
    assert request.grammar is not None
    assert request.grammar.lazy == lazy
    assert bool(request.grammar.triggers) == lazy
    assert {name for name in ("get_weather", "get_time") if name in request.grammar.text} == called
    banned = {token for token, added in request.sampling.logit_bias.items() if added == -math.inf}
    assert banned, "control tokens that no answer needs are banned under a grammar"


def test_a_form_of_answer_reaches_the_engine_as_a_grammar() -> None:
    service = Service(['{"a": 1}', "{}", "hi"])
    schema = {"type": "object", "properties": {"a": {"type": "integer"}}, "required": ["a"]}
    forms = [{"type": "json_schema", "json_schema": {"name": "x", "schema": schema}}, {"type": "json_object"}]
    for form in forms:
        assert service.chat(response_format=form).status_code == 200
    assert service.chat(response_format={"type": "text"}).status_code == 200
    first, second, third = service.engine.record.requests
    assert first.grammar is not None
    assert "a" in first.grammar.text
    assert second.grammar is not None
    assert third.grammar is None


@pytest.mark.parametrize(
    "messages",
    [
        [{"role": "developer", "content": "Be brief."}, {"role": "user", "content": [{"type": "text", "text": "Hi"}]}],
        [
            {"role": "user", "content": "Hi"},
            {
                "role": "assistant",
                "content": None,
                "tool_calls": [
                    {"id": "call_1", "type": "function", "function": {"name": "get_time", "arguments": "{}"}}
                ],
            },
            {"role": "tool", "tool_call_id": "call_1", "content": [{"type": "text", "text": "noon"}]},
        ],
    ],
)
def test_messages_as_clients_write_them(messages: list[dict[str, Any]]) -> None:
    response = Service(["Ok."]).chat(messages=messages, tools=TOOLS)
    assert response.status_code == 200, response.text


def test_errors_say_whose_fault_it_is() -> None:
    assert failures.error_body(UsageError("no", param="x"))["error"] == {
        "message": "no",
        "type": "invalid_request_error",
        "param": "x",
        "code": None,
    }
    assert failures.error_body(EngineError("gone"))["error"]["type"] == "engine_error"
    assert failures.error_body(SchemaError("no", pointer="/a"))["error"]["message"].endswith("(at /a of the schema)")
    assert failures.error_body(LimitError("no", bound="tools", limit=1))["error"]["code"] == "limit_tools"
    hidden = failures.error_body(RuntimeError("a path, a secret"))["error"]
    assert "secret" not in hidden["message"]
    assert hidden["type"] == "server_error"


@pytest.mark.parametrize(
    "choice",
    [
        5,
        True,
        [],
        "get_time",
        "any",
        {},
        {"type": "function"},
        {"type": "function", "function": None},
        {"type": "function", "function": "get_time"},
        {"type": "function", "function": {"name": None}},
        {"type": "function", "function": {"name": ["get_time"]}},
        {"type": ["function"]},
        {"function": {"name": "get_time"}},
        {"type": "custom", "custom": {"name": "get_time"}},
        {"type": "allowed_tools"},
        {"type": "allowed_tools", "allowed_tools": None},
        {"type": "allowed_tools", "allowed_tools": []},
        {"type": "allowed_tools", "allowed_tools": {"mode": "auto"}},
        {"type": "allowed_tools", "allowed_tools": {"mode": "auto", "tools": []}},
        {"type": "allowed_tools", "allowed_tools": {"mode": "auto", "tools": [None]}},
        {"type": "allowed_tools", "allowed_tools": {"mode": "auto", "tools": ["get_time"]}},
        {"type": "allowed_tools", "allowed_tools": {"mode": "auto", "tools": [{"type": "function"}]}},
        {"type": "allowed_tools", "allowed_tools": {"mode": ["auto"], "tools": [{"name": "get_time"}]}},
        {"type": "allowed_tools", "allowed_tools": {"mode": "auto", "tools": [{"function": {"name": {}}}]}},
    ],
)
def test_a_malformed_tool_choice_is_refused_by_name(choice: Any) -> None:
    for path, body in (
        ("/v1/chat/completions", {"messages": MESSAGES, "tools": TOOLS}),
        ("/v1/responses", {"input": "Hi", "tools": [{"type": "function", **tool["function"]} for tool in TOOLS]}),
    ):
        response = Service(["Hi."]).post({**body, "tool_choice": choice}, path)
        assert response.status_code == 400, choice
        assert response.json()["error"]["param"].startswith("tool_choice")


@pytest.mark.parametrize("choice", ["auto", "required"])
@pytest.mark.parametrize("strict", [False, True])
def test_parameters_that_allow_anything_are_any_object(choice: str, strict: bool) -> None:
    tool = {"name": "f", "parameters": True, "strict": strict}
    service = Service(["Hi."] * 2)
    answer = service.chat(tools=[{"type": "function", "function": tool}], tool_choice=choice)
    assert answer.status_code == 200, answer.text
    flat = [{"type": "function", **tool}]
    assert service.post({"input": "Hi", "tools": flat, "tool_choice": choice}, "/v1/responses").status_code == 200


def test_a_message_is_continued_as_clients_of_other_servers_ask_for_it() -> None:
    messages = [*MESSAGES, {"role": "assistant", "content": "The weather in Rome is"}]
    service = Service([" fine."] * 2)
    for fields in ({}, {"add_generation_prompt": False}):
        answer = service.chat(messages=messages, continue_final_message=True, **fields)
        assert answer.status_code == 200, answer.text
        assert answer.json()["choices"][0]["message"]["content"] == " fine."
    first, second = service.engine.record.requests
    assert first.prompt_text == second.prompt_text
    assert first.prompt_text.endswith("The weather in Rome is")


@pytest.mark.parametrize(
    ("fields", "param", "words"),
    [
        (
            {"response_format": {"type": "json_schema", "json_schema": {"name": "x", "schema": {"type": "banana"}}}},
            None,
            "",
        ),
        ({"json_schema": False}, None, ""),
        ({"tools": [*TOOLS, {"function": {"name": "far", "parameters": {"$ref": "http://x/y"}}}]}, 2, "'far'"),
        ({"tools": [*TOOLS, {"function": {"name": "odd", "parameters": {"type": "array"}}}]}, 2, "'odd'"),
    ],
)
def test_a_schema_that_cannot_be_enforced_is_refused_by_its_place(
    fields: dict[str, Any], param: int | None, words: str
) -> None:
    response = Service(["Hi."]).chat(**fields, **({} if param is None else {"tool_choice": "required"}))
    assert response.status_code == 400
    error = response.json()["error"]
    assert error["param"] == ("response_format" if param is None else f"tools[{param}].function.parameters")
    assert words in error["message"]
    assert error["message"].count("of the schema") <= 1
