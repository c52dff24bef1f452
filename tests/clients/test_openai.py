"""The openai client against the server: both APIs, whole and streamed."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from typing import Any

import openai
import pydantic
import pytest

from tests.clients.scripts import (
    BOTH_CALLS,
    CITY,
    FINAL,
    QUESTION,
    TIME,
    WEATHER,
    check_enforced,
    check_round_trip,
    round_trip,
    structured,
)
from tests.server.live import live
from tests.server.service import TOOLS, Service

MESSAGES: list[Any] = [{"role": "user", "content": QUESTION}]
RESULTS = {"get_weather": WEATHER, "get_time": TIME}
FLAT_TOOLS: list[Any] = [{"type": "function", **tool["function"]} for tool in TOOLS]


class City(pydantic.BaseModel):
    name: str
    people: int


ROME = City(name="Rome", people=2_800_000)


@pytest.fixture
def client_of() -> Iterator[Callable[[str], openai.OpenAI]]:
    opened: list[openai.OpenAI] = []

    def make(address: str) -> openai.OpenAI:
        http = openai.DefaultHttpxClient(trust_env=False)
        opened.append(openai.OpenAI(base_url=f"{address}/v1", api_key="any", max_retries=0, http_client=http))
        return opened[-1]

    yield make
    for client in opened:
        client.close()


def _ask_chat(client: openai.OpenAI, messages: list[Any], *, stream: bool) -> Any:
    options: Any = {"model": "m", "messages": messages, "tools": TOOLS}
    if not stream:
        return client.chat.completions.create(**options)
    with client.chat.completions.stream(**options, stream_options={"include_usage": True}) as events:
        return events.get_final_completion()


@pytest.mark.parametrize("stream", [False, True])
def test_a_tool_round_trip_by_chat_completions(client_of: Any, stream: bool) -> None:
    service = round_trip()
    with live(service.app) as address:
        client = client_of(address)
        [choice] = _ask_chat(client, MESSAGES, stream=stream).choices
        assert choice.finish_reason == "tool_calls"
        calls = choice.message.tool_calls
        assert json.loads(calls[0].function.arguments) == {"city": "Rome", "days": 2}
        history = [*MESSAGES, {"role": "assistant", "content": None, "tool_calls": [c.model_dump() for c in calls]}]
        history += [{"role": "tool", "tool_call_id": call.id, "content": RESULTS[call.function.name]} for call in calls]
        final = _ask_chat(client, history, stream=stream)
    assert final.choices[0].message.content == FINAL
    assert final.usage.total_tokens > 0
    check_round_trip(service)


def test_a_structured_answer_by_chat_completions(client_of: Any) -> None:
    service = structured(2)
    with live(service.app) as address:
        client = client_of(address)
        whole = client.chat.completions.parse(model="m", messages=MESSAGES, response_format=City)
        with client.chat.completions.stream(model="m", messages=MESSAGES, response_format=City) as stream:
            streamed = stream.get_final_completion()
    assert whole.choices[0].message.parsed == streamed.choices[0].message.parsed == ROME
    check_enforced(service)


def _ask_responses(client: openai.OpenAI, items: Any, *, stream: bool) -> Any:
    options: Any = {"model": "m", "input": items, "tools": FLAT_TOOLS, "instructions": "Be brief."}
    if not stream:
        return client.responses.create(**options)
    with client.responses.stream(**options) as events:
        return events.get_final_response()


@pytest.mark.parametrize("stream", [False, True])
def test_a_tool_round_trip_by_responses(client_of: Any, stream: bool) -> None:
    service = round_trip()
    with live(service.app) as address:
        client = client_of(address)
        first = _ask_responses(client, QUESTION, stream=stream)
        assert [item.type for item in first.output] == ["reasoning", "function_call", "function_call"]
        assert first.output[0].content[0].text == "Two questions, two tools."
        items: list[Any] = [{"role": "user", "content": QUESTION}]
        items += [item.model_dump(exclude_none=True) for item in first.output]
        for call in first.output[1:]:
            items.append({"type": "function_call_output", "call_id": call.call_id, "output": RESULTS[call.name]})
        final = _ask_responses(client, items, stream=stream)
    assert final.status == "completed"
    assert final.output_text == FINAL
    assert final.usage.total_tokens == final.usage.input_tokens + final.usage.output_tokens
    check_round_trip(service)
    prompt = service.engine.record.requests[1].prompt_text
    assert "Two questions, two tools." in prompt, "the reasoning of the turn goes back with its calls"


def test_a_structured_answer_by_responses(client_of: Any) -> None:
    service = structured(2)
    with live(service.app) as address:
        client = client_of(address)
        whole = client.responses.parse(model="m", input=QUESTION, text_format=City)
        with client.responses.stream(model="m", input=QUESTION, text_format=City) as stream:
            streamed = stream.get_final_response()
    assert whole.output_parsed == streamed.output_parsed == ROME
    check_enforced(service)


def test_raw_completions(client_of: Any) -> None:
    service = Service(["one", "two", "three"])
    with live(service.app) as address:
        client = client_of(address)
        both = client.completions.create(model="m", prompt=["a", "b"], max_tokens=9)
        text = "".join(c.choices[0].text for c in client.completions.create(model="m", prompt="c", stream=True))
    assert {choice.text for choice in both.choices} == {"one", "two"}
    assert text == "three"


def test_several_choices_in_one_stream(client_of: Any) -> None:
    service = Service([BOTH_CALLS, CITY, FINAL], size=2)
    asked: Any = {"model": "m", "messages": MESSAGES, "tools": TOOLS, "n": 3}
    with live(service.app) as address, client_of(address).chat.completions.stream(**asked) as stream:
        final = stream.get_final_completion()
    reasons = [choice.finish_reason for choice in final.choices]
    assert reasons == ["tool_calls", "stop", "stop"]
    assert [choice.message.content for choice in final.choices[1:]] == [CITY, FINAL]


@pytest.mark.parametrize("api", ["chat", "responses"])
def test_an_engine_that_breaks_in_the_middle_is_an_error(client_of: Any, api: str) -> None:
    with live(Service(["It is"], failure="it broke").app) as address:
        client = client_of(address)
        if api == "chat":
            with pytest.raises(openai.APIError, match="it broke"):
                list(client.chat.completions.create(model="m", messages=MESSAGES, stream=True))
        else:
            events = list(client.responses.create(model="m", input=QUESTION, stream=True))
            assert [event.type for event in events[-2:]] == ["error", "response.failed"]
            assert events[-1].response.error.message == "it broke"
