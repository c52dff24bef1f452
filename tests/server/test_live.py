"""Through a real socket: clients that go away, and the openai client with its own parsing."""

from __future__ import annotations

import json
import socket
from collections.abc import Iterator
from typing import Any
from urllib.parse import urlsplit

import httpx
import openai
import pytest

from tests.server.live import live, wait_until
from tests.server.service import CALL, MESSAGES, SECOND_CALL, TOOLS, Service

ENDLESS = "word " * 20_000


@pytest.fixture
def client_of() -> Iterator[Any]:
    opened: list[openai.OpenAI] = []

    def make(address: str) -> openai.OpenAI:
        http = openai.DefaultHttpxClient(trust_env=False)
        opened.append(openai.OpenAI(base_url=f"{address}/v1", api_key="any", max_retries=0, http_client=http))
        return opened[-1]

    yield make
    for client in opened:
        client.close()


@pytest.mark.parametrize(
    ("path", "fields", "answers"),
    [
        ("chat/completions", {"messages": MESSAGES}, 1),
        ("chat/completions", {"messages": MESSAGES, "n": 3}, 3),
        ("responses", {"input": "Hi"}, 1),
        ("messages", {"messages": MESSAGES, "max_tokens": 10**6}, 1),
        ("completions", {"prompt": ["a", "b"], "max_tokens": 10**6}, 2),
    ],
)
def test_a_client_that_leaves_a_stream_stops_the_engine(path: str, fields: dict[str, Any], answers: int) -> None:
    service = Service([ENDLESS] * answers, delay=0.002)
    with live(service.app) as address:
        body = {**fields, "stream": True}
        with httpx.stream("POST", f"{address}/v1/{path}", json=body, trust_env=False) as response:
            for line in response.iter_lines():
                if "word" in line:
                    break
        wait_until(lambda: service.engine.record.endings == ["cancelled"] * answers)
        assert httpx.get(f"{address}/health", trust_env=False).status_code == 200


@pytest.mark.parametrize("stream", [False, True])
def test_a_client_that_leaves_before_the_first_word_stops_the_engine(stream: bool) -> None:
    """It hangs up while the engine still reads the prompt: nothing has been written that could fail."""
    service = Service([ENDLESS], delay=30.0)
    with live(service.app) as address:
        data = json.dumps({"messages": MESSAGES, "stream": stream}).encode()
        place = urlsplit(address)
        with socket.create_connection((place.hostname, place.port)) as connection:
            head = f"POST /v1/chat/completions HTTP/1.1\r\nHost: x\r\nContent-Length: {len(data)}\r\n\r\n"
            connection.sendall(head.encode() + data)
            wait_until(lambda: service.engine.record.running == 1)
        wait_until(lambda: service.engine.record.endings == ["cancelled"])


def test_a_client_that_leaves_a_whole_answer_stops_the_engine() -> None:
    service = Service([ENDLESS], delay=0.002)
    with live(service.app) as address:
        with pytest.raises(httpx.ReadTimeout):
            httpx.post(f"{address}/v1/chat/completions", json={"messages": MESSAGES}, timeout=0.5, trust_env=False)
        wait_until(lambda: service.engine.record.endings == ["cancelled"])


def test_one_slow_answer_keeps_nobody_waiting() -> None:
    service = Service([ENDLESS, "Quick."], delay=0.002)
    with live(service.app) as address:
        body = {"messages": MESSAGES, "stream": True}
        with httpx.stream("POST", f"{address}/v1/chat/completions", json=body, trust_env=False) as slow:
            next(slow.iter_lines())
            quick = httpx.post(f"{address}/v1/chat/completions", json={"messages": MESSAGES}, trust_env=False)
            assert quick.json()["choices"][0]["message"]["content"] == "Quick."


def test_the_openai_clients_stream_helper(client_of: Any) -> None:
    service = Service([f"<muse>\nhm\n</muse>\n\nSo.{CALL}{SECOND_CALL}"])
    with live(service.app) as address:
        client = client_of(address)
        tools = [{**tool, "function": {**tool["function"], "strict": True}} for tool in TOOLS[:1]] + TOOLS[1:]
        with client.chat.completions.stream(
            model="m", messages=MESSAGES, tools=tools, stream_options={"include_usage": True}
        ) as stream:
            kinds = [event.type for event in stream]
            final = stream.get_final_completion()
    [choice] = final.choices
    assert choice.finish_reason == "tool_calls"
    assert choice.message.content == "So."
    names = [call.function.name for call in choice.message.tool_calls]
    assert names == ["get_weather", "get_time"]
    assert choice.message.tool_calls[0].function.parsed_arguments == {"city": "Rome", "days": 2}
    assert final.usage.total_tokens == final.usage.prompt_tokens + final.usage.completion_tokens
    assert kinds.count("tool_calls.function.arguments.done") == 2


def test_the_openai_client_parses_a_form_of_answer(client_of: Any) -> None:
    import pydantic

    class City(pydantic.BaseModel):
        name: str
        people: int

    service = Service(['{"name": "Rome", "people": 3}'] * 2)
    with live(service.app) as address:
        client = client_of(address)
        parsed = client.chat.completions.parse(model="m", messages=MESSAGES, response_format=City)
        with client.chat.completions.stream(model="m", messages=MESSAGES, response_format=City) as stream:
            streamed = stream.get_final_completion()
    assert parsed.choices[0].message.parsed == City(name="Rome", people=3)
    assert streamed.choices[0].message.parsed == City(name="Rome", people=3)
    assert all(request.grammar is not None for request in service.engine.record.requests)


def test_the_openai_client_sees_errors_as_errors(client_of: Any) -> None:
    with live(Service(["It is"], failure="it broke").app) as address:
        client = client_of(address)
        with pytest.raises(openai.BadRequestError, match="n must be from 1 to 128"):
            client.chat.completions.create(model="m", messages=MESSAGES, n=0)
        with pytest.raises(openai.APIError, match="it broke"):
            list(client.chat.completions.create(model="m", messages=MESSAGES, stream=True))
