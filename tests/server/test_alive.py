"""Signs of life: a stream whose engine is silent sends comments, which no client sees."""

from __future__ import annotations

import json
from typing import Any

import anyio
import httpx
import openai
import pytest

from dragoman.engines.scripted import Scripted
from dragoman.server.wire import sse
from tests.server.live import live
from tests.server.service import INFO, MESSAGES, Service, chunks_of

PATIENCE: dict[str, Any] = {"stream": True, "sse_ping_interval": 0.02}


def test_comments_come_before_and_between_events() -> None:
    service = Service([["one ", "two"]], delay=0.15)
    body = service.chat(**PATIENCE).content
    assert body.startswith(sse.PING)
    assert body.endswith(sse.DONE)
    first, last = body.index(b'"one "'), body.index(b'"two"')
    assert sse.PING in body[first:last]
    chunks = chunks_of(body.replace(sse.PING, b""))
    assert chunks[0]["choices"][0]["delta"] == {"role": "assistant", "content": None}
    plain = Service([["one ", "two"]]).chat(stream=True).content
    assert body.replace(sse.PING, b"") == plain


def test_none_where_none_are_wanted_or_needed() -> None:
    assert sse.PING not in Service(["one"], delay=0.1).chat(stream=True, sse_ping_interval=-1).content
    assert sse.PING not in Service(["one"] * 9).chat(stream=True).content
    assert Service(["one"], delay=0.1).chat(sse_ping_interval=0.01).json()["object"] == "chat.completion"


def test_what_fails_after_a_sign_of_life_is_an_event() -> None:
    class Broken(Scripted):
        async def generate(self, request: Any) -> Any:
            await anyio.sleep(0.1)
            raise RuntimeError("a secret")
            yield

    response = Service(engine=Broken([], info=INFO)).chat(**PATIENCE)
    assert response.status_code == 200
    events = [json.loads(line[6:]) for line in response.text.split("\n\n") if line.startswith("data: ")]
    assert events[0]["choices"][0]["delta"]["role"] == "assistant"
    assert events[-1]["error"]["type"] == "server_error"
    assert len(events) == 2
    assert "secret" not in response.text


@pytest.mark.parametrize("n", [1, 3])
def test_clients_do_not_see_them(n: int) -> None:
    service = Service([["one ", "two"]] * n, delay=0.08)
    with live(service.app) as address, httpx.Client(trust_env=False) as http:
        client = openai.OpenAI(base_url=f"{address}/v1", api_key="any", http_client=http)
        asked: Any = {"model": "m", "messages": MESSAGES, "n": n, "extra_body": {"sse_ping_interval": 0.01}}
        with client.chat.completions.stream(**asked) as stream:
            final = stream.get_final_completion()
    assert [choice.message.content for choice in final.choices] == ["one two"] * n
