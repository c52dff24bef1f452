"""litellm against the server. It wants an environment of its own: ``make test-clients``."""

from __future__ import annotations

import os
from typing import Any

import pytest

os.environ.setdefault("LITELLM_LOCAL_MODEL_COST_MAP", "True")  # it asks the network for prices otherwise
litellm = pytest.importorskip("litellm", reason="litellm is not installed: make test-clients")

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
from tests.server.service import TOOLS, Service  # noqa: E402

pytestmark = pytest.mark.filterwarnings("ignore")
RESULTS = {"get_weather": WEATHER, "get_time": TIME}
SCHEMA = {
    "type": "object",
    "properties": {"name": {"type": "string"}, "people": {"type": "integer"}},
    "required": ["name", "people"],
}


def _ask(address: str, messages: list[Any], *, stream: bool, **options: Any) -> Any:
    answer = litellm.completion(
        model="openai/m", api_base=f"{address}/v1", api_key="any", messages=messages, stream=stream, **options
    )
    return litellm.stream_chunk_builder(list(answer), messages=messages) if stream else answer


@pytest.mark.parametrize("stream", [False, True])
def test_a_tool_round_trip(stream: bool) -> None:
    service = round_trip()
    with live(service.app) as address:
        messages: list[Any] = [{"role": "user", "content": QUESTION}]
        choice = _ask(address, messages, stream=stream, tools=TOOLS).choices[0]
        assert choice.finish_reason == "tool_calls"
        messages.append({"role": "assistant", "content": None, "tool_calls": choice.message.tool_calls})
        messages += [
            {"role": "tool", "tool_call_id": call.id, "content": RESULTS[call.function.name]}
            for call in choice.message.tool_calls
        ]
        final = _ask(address, messages, stream=stream, tools=TOOLS)
    assert final.choices[0].message.content == FINAL
    check_round_trip(service)


def test_a_structured_answer() -> None:
    service = structured()
    form = {"type": "json_schema", "json_schema": {"name": "city", "schema": SCHEMA, "strict": True}}
    with live(service.app) as address:
        answer = _ask(address, [{"role": "user", "content": QUESTION}], stream=False, response_format=form)
    assert answer.choices[0].message.content == CITY
    check_enforced(service)


def test_a_long_run_of_equal_pieces_is_no_broken_server() -> None:
    service = Service([["ha "] * 300])
    with live(service.app) as address:
        answer = _ask(address, [{"role": "user", "content": QUESTION}], stream=True)
    assert answer.choices[0].message.content == "ha " * 300
