"""openai-agents against the server, by both APIs."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pydantic
import pytest

agents = pytest.importorskip("agents", reason="openai-agents is not installed: pip install -e '.[clients]'")

import openai  # noqa: E402

from tests.clients.scripts import (  # noqa: E402
    FINAL,
    QUESTION,
    RAN,
    check_enforced,
    check_round_trip,
    round_trip,
    structured,
    time_of,
    weather_of,
)
from tests.server.live import live  # noqa: E402
from tests.server.service import Service  # noqa: E402

pytestmark = pytest.mark.filterwarnings("ignore")


class City(pydantic.BaseModel):
    name: str
    people: int


@asynccontextmanager
async def _model(api: str, app: Any) -> AsyncIterator[Any]:
    agents.set_tracing_disabled(True)
    http = openai.DefaultAsyncHttpxClient(trust_env=False)
    with live(app) as address:
        async with openai.AsyncOpenAI(base_url=f"{address}/v1", api_key="any", http_client=http) as client:
            kind = agents.OpenAIChatCompletionsModel if api == "chat" else agents.OpenAIResponsesModel
            yield kind(model="m", openai_client=client)


def _tools(ran: list[Any]) -> list[Any]:
    def get_weather(city: str, days: int) -> str:
        """The weather of a city."""
        return weather_of(ran, city, days)

    def get_time() -> str:
        """The time."""
        return time_of(ran)

    return [agents.function_tool(get_weather), agents.function_tool(get_time)]


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("api", ["chat", "responses"])
@pytest.mark.anyio
async def test_a_tool_round_trip(api: str, stream: bool) -> None:
    service, ran = round_trip(), []
    async with _model(api, service.app) as model:
        agent = agents.Agent("helper", instructions="Be brief.", model=model, tools=_tools(ran))
        if stream:
            result = agents.Runner.run_streamed(agent, QUESTION)
            kinds = [event.type async for event in result.stream_events()]
            assert "raw_response_event" in kinds
        else:
            result = await agents.Runner.run(agent, QUESTION)
    assert result.final_output == FINAL
    assert sorted(ran) == sorted(RAN)
    check_round_trip(service)


@pytest.mark.parametrize("api", ["chat", "responses"])
@pytest.mark.anyio
async def test_a_structured_answer(api: str) -> None:
    service = structured()
    async with _model(api, service.app) as model:
        agent = agents.Agent("helper", model=model, output_type=City)
        result = await agents.Runner.run(agent, QUESTION)
    assert result.final_output == City(name="Rome", people=2_800_000)
    check_enforced(service)


@pytest.mark.anyio
async def test_a_hand_over_to_another_agent() -> None:
    call = '\n<do>\n{"name": "transfer_to_expert", "arguments": {}}\n</do>'
    service = Service([call, FINAL])
    async with _model("chat", service.app) as model:
        expert = agents.Agent("expert", model=model)
        result = await agents.Runner.run(agents.Agent("front", model=model, handoffs=[expert]), QUESTION)
    assert result.last_agent is expert
    assert result.final_output == FINAL
