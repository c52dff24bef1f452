"""langchain-openai against the server."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pydantic
import pytest

langchain_openai = pytest.importorskip(
    "langchain_openai", reason="langchain-openai is not installed: pip install -e '.[clients]'"
)

import openai  # noqa: E402
from langchain_core.messages import HumanMessage, ToolMessage  # noqa: E402

from tests.clients.scripts import (  # noqa: E402
    BOTH_CALLS,
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
from tests.server.service import TOOLS, Service  # noqa: E402

pytestmark = pytest.mark.filterwarnings("ignore")
RESULTS = {"get_weather": WEATHER, "get_time": TIME}


class City(pydantic.BaseModel):
    """A city."""

    name: str
    people: int


@contextmanager
def _model(app: Any, **options: Any) -> Iterator[Any]:
    with live(app) as address, openai.DefaultHttpxClient(trust_env=False) as http:
        place: dict[str, Any] = {"base_url": f"{address}/v1", "api_key": "any", "http_client": http}
        yield langchain_openai.ChatOpenAI(model="m", max_retries=0, **place, **options)


@pytest.mark.parametrize("responses", [False, True])
@pytest.mark.parametrize("stream", [False, True])
def test_a_tool_round_trip(stream: bool, responses: bool) -> None:
    service = round_trip()
    with _model(service.app, use_responses_api=responses, stream_usage=True) as plain:
        model = plain.bind_tools(TOOLS)
        history: list[Any] = [HumanMessage(QUESTION)]
        message = _ask(model, history, stream)
        assert [call["name"] for call in message.tool_calls] == ["get_weather", "get_time"]
        assert message.tool_calls[0]["args"] == {"city": "Rome", "days": 2}
        history.append(message)
        history += [ToolMessage(RESULTS[call["name"]], tool_call_id=call["id"]) for call in message.tool_calls]
        final = _ask(model, history, stream)
    assert final.text == FINAL
    assert final.usage_metadata["input_tokens"] == len(service.engine.record.requests[1].prompt_ids)
    check_round_trip(service)


def _ask(model: Any, history: list[Any], stream: bool) -> Any:
    if not stream:
        return model.invoke(history)
    first, *more = list(model.stream(history))
    for piece in more:
        first += piece
    return first


@pytest.mark.parametrize("method", ["json_schema", "function_calling", "json_mode"])
def test_a_structured_answer(method: str) -> None:
    call = '\n<do>\n{"name": "City", "arguments": {"name": "Rome", "people": 2800000}}\n</do>'
    service = Service([call]) if method == "function_calling" else structured()
    with _model(service.app) as model:
        answer = model.with_structured_output(City, method=method).invoke(QUESTION + " As JSON.")
    assert answer == City(name="Rome", people=2_800_000)
    check_enforced(service)


def test_finish_reason_and_names_come_once() -> None:
    service = Service([BOTH_CALLS], size=1)
    with _model(service.app) as model:
        message = _ask(model.bind_tools(TOOLS), [HumanMessage(QUESTION)], True)
    assert message.response_metadata["finish_reason"] == "tool_calls"
    assert [call["name"] for call in message.tool_calls] == ["get_weather", "get_time"]


def test_log_probabilities() -> None:
    service = Service([FINAL], size=4)
    with _model(service.app, logprobs=True, top_logprobs=1) as model:
        message = model.invoke(QUESTION)
    told = message.response_metadata["logprobs"]["content"]
    assert "".join(entry["token"] for entry in told) == FINAL
