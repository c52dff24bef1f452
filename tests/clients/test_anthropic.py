"""The anthropic client against the server."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

anthropic = pytest.importorskip("anthropic", reason="anthropic is not installed: pip install -e '.[clients]'")

from tests.clients.scripts import (  # noqa: E402
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
from tests.server.live import live  # noqa: E402
from tests.server.service import SECOND_CALL, TOOLS, Service  # noqa: E402

pytestmark = pytest.mark.filterwarnings("ignore")
RESULTS = {"get_weather": WEATHER, "get_time": TIME}
THEIR_TOOLS: list[Any] = [
    {
        "name": tool["function"]["name"],
        "input_schema": tool["function"].get("parameters", {"type": "object", "properties": {}}),
    }
    for tool in TOOLS
]


@pytest.fixture
def client_of() -> Iterator[Callable[[str], Any]]:
    opened: list[Any] = []

    def make(address: str) -> Any:
        http = anthropic.DefaultHttpxClient(trust_env=False)
        opened.append(anthropic.Anthropic(base_url=address, api_key="any", max_retries=0, http_client=http))
        return opened[-1]

    yield make
    for client in opened:
        client.close()


def _ask(client: Any, messages: list[Any], *, stream: bool, **options: Any) -> Any:
    options = {"model": "m", "max_tokens": 200, "messages": messages, "tools": THEIR_TOOLS, **options}
    if not stream:
        return client.messages.create(**options)
    with client.messages.stream(**options) as events:
        return events.get_final_message()


@pytest.mark.parametrize("stream", [False, True])
def test_a_tool_round_trip(client_of: Any, stream: bool) -> None:
    service = round_trip()
    with live(service.app) as address:
        client = client_of(address)
        messages: list[Any] = [{"role": "user", "content": QUESTION}]
        first = _ask(client, messages, stream=stream, system="Be brief.")
        assert first.stop_reason == "tool_use"
        assert [block.type for block in first.content] == ["thinking", "tool_use", "tool_use"]
        assert first.content[1].input == {"city": "Rome", "days": 2}
        messages.append({"role": "assistant", "content": [block.model_dump() for block in first.content]})
        results = [
            {"type": "tool_result", "tool_use_id": block.id, "content": RESULTS[block.name]}
            for block in first.content
            if block.type == "tool_use"
        ]
        messages.append({"role": "user", "content": results})
        final = _ask(client, messages, stream=stream)
    assert final.content[0].text == FINAL
    assert final.stop_reason == "end_turn"
    assert final.usage.input_tokens == len(service.engine.record.requests[1].prompt_ids)
    check_round_trip(service)


def test_the_tool_that_is_named_is_the_tool_that_is_meant(client_of: Any) -> None:
    service = Service([SECOND_CALL])
    with live(service.app) as address:
        client = client_of(address)
        choice = {"type": "tool", "name": "get_time", "disable_parallel_tool_use": True}
        message = _ask(client, [{"role": "user", "content": QUESTION}], stream=False, tool_choice=choice)
    assert [block.name for block in message.content] == ["get_time"]
    [request] = service.engine.record.requests
    assert "get_time" in request.grammar.text
    assert "get_weather" not in request.grammar.text


def test_a_structured_answer(client_of: Any) -> None:
    service = structured()
    schema = {
        "type": "object",
        "properties": {"name": {"type": "string"}, "people": {"type": "integer"}},
        "required": ["name", "people"],
        "additionalProperties": False,
    }
    with live(service.app) as address:
        message = client_of(address).messages.create(
            model="m",
            max_tokens=100,
            messages=[{"role": "user", "content": QUESTION}],
            output_config={"format": {"type": "json_schema", "schema": schema}},
        )
    assert message.content[0].text == CITY
    check_enforced(service)


def test_tokens_are_counted(client_of: Any) -> None:
    service = Service([FINAL])
    messages: list[Any] = [{"role": "user", "content": QUESTION}]
    with live(service.app) as address:
        client = client_of(address)
        counted = client.messages.count_tokens(model="m", messages=messages, tools=THEIR_TOOLS).input_tokens
        assert _ask(client, messages, stream=False).usage.input_tokens == counted


def test_stop_sequences_and_a_begun_answer(client_of: Any) -> None:
    service = Service(["s sunny. END of it"])
    messages: list[Any] = [{"role": "user", "content": QUESTION}, {"role": "assistant", "content": "It i"}]
    with live(service.app) as address:
        message = client_of(address).messages.create(
            model="m", max_tokens=100, messages=messages, stop_sequences=["END"]
        )
    assert (message.stop_reason, message.stop_sequence) == ("stop_sequence", "END")
    assert message.content[0].text == "s sunny. "
    assert service.engine.record.requests[0].prompt_text.endswith("It i")


def test_errors_are_the_clients_own(client_of: Any) -> None:
    with live(Service(["It is"], failure="it broke").app) as address:
        client = client_of(address)
        with pytest.raises(anthropic.BadRequestError, match="messages is empty"):
            client.messages.create(model="m", max_tokens=5, messages=[])
        with pytest.raises(anthropic.APIError, match="it broke"):
            _ask(client, [{"role": "user", "content": QUESTION}], stream=True)
