"""pydantic-ai against the server."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pydantic
import pytest

pydantic_ai = pytest.importorskip("pydantic_ai", reason="pydantic-ai is not installed: pip install -e '.[clients]'")

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

pytestmark = [pytest.mark.filterwarnings("ignore"), pytest.mark.anyio]


class City(pydantic.BaseModel):
    name: str
    people: int


@asynccontextmanager
async def _agent(api: str, app: Any, ran: list[Any], **options: Any) -> AsyncIterator[Any]:
    from pydantic_ai.models.openai import OpenAIChatModel, OpenAIResponsesModel
    from pydantic_ai.providers.openai import OpenAIProvider

    kind = OpenAIChatModel if api == "chat" else OpenAIResponsesModel
    http = openai.DefaultAsyncHttpxClient(trust_env=False)

    def get_weather(city: str, days: int) -> str:
        """The weather of a city."""
        return weather_of(ran, city, days)

    def get_time() -> str:
        """The time."""
        return time_of(ran)

    with live(app) as address:
        async with openai.AsyncOpenAI(base_url=f"{address}/v1", api_key="any", http_client=http) as client:
            agent = pydantic_ai.Agent(kind("m", provider=OpenAIProvider(openai_client=client)), **options)
            if "output_type" not in options:
                agent.tool_plain(get_weather)
                agent.tool_plain(get_time)
            yield agent


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("api", ["chat", "responses"])
async def test_a_tool_round_trip(api: str, stream: bool) -> None:
    service, ran = round_trip(), []
    async with _agent(api, service.app, ran) as agent:
        if stream:
            async with agent.run_stream(QUESTION) as result:
                pieces = [piece async for piece in result.stream_text(delta=True, debounce_by=None)]
            assert "".join(pieces) == FINAL
            assert len(pieces) > 1
            usage = result.usage
        else:
            answer = await agent.run(QUESTION)
            assert answer.output == FINAL
            usage = answer.usage
    usage = usage() if callable(usage) else usage
    told = [len(request.prompt_ids) for request in service.engine.record.requests]
    assert usage.input_tokens == sum(told), "each request's usage comes once"
    assert sorted(ran) == sorted(RAN)
    check_round_trip(service)


@pytest.mark.parametrize("api", ["chat", "responses"])
async def test_a_structured_answer(api: str) -> None:
    service = structured()
    async with _agent(api, service.app, [], output_type=pydantic_ai.NativeOutput(City)) as agent:
        answer = await agent.run(QUESTION)
    assert answer.output == City(name="Rome", people=2_800_000)
    check_enforced(service)


async def test_an_answer_by_an_output_tool() -> None:
    call = '\n<do>\n{"name": "final_result", "arguments": {"name": "Rome", "people": 2800000}}\n</do>'
    service = Service([call])
    async with _agent("chat", service.app, [], output_type=City) as agent:
        answer = await agent.run(QUESTION)
    assert answer.output == City(name="Rome", people=2_800_000)
    check_enforced(service)
