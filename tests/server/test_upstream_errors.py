"""What an engine behind HTTP answers in place of an answer, as this server's clients see it."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import httpx
import pytest

from dragoman.engines.llama_server import LlamaServer
from dragoman.server.operations.logs import LineFormatter
from tests.server.service import MESSAGES, Service

ADDRESS = "http://engine.internal:8080"
PROPS = {"default_generation_settings": {"n_ctx": 4096}, "model_path": "m.gguf"}
BODIES: dict[str, dict[str, Any]] = {
    "/v1/chat/completions": {"messages": MESSAGES},
    "/v1/responses": {"input": "Hi"},
    "/v1/messages": {"messages": MESSAGES, "max_tokens": 5},
    "/v1/completions": {"prompt": "Hi"},
}


def _service(answer: Callable[[httpx.Request], httpx.Response]) -> Service:
    def handle(request: httpx.Request) -> httpx.Response:
        return httpx.Response(200, json=PROPS) if request.method == "GET" else answer(request)

    return Service(engine=LlamaServer(ADDRESS, transport=httpx.MockTransport(handle)))


@pytest.mark.parametrize("path", BODIES)
@pytest.mark.parametrize("stream", [False, True])
def test_an_engine_that_is_busy_says_when_to_ask_again(path: str, stream: bool) -> None:
    busy = httpx.Response(429, json={"error": {"message": "busy"}}, headers={"retry-after": "7"})
    response = _service(lambda _: busy).post({**BODIES[path], "stream": stream}, path)
    assert response.status_code == 429
    assert response.headers["retry-after"] == "7"
    error = response.json()["error"]
    assert "busy" in error["message"]
    assert error["type"] == "rate_limit_error"


@pytest.mark.parametrize("header", ["", "7\u00e9"])
def test_a_strange_header_is_left_out(header: str) -> None:
    busy = httpx.Response(429, json={}, headers={"retry-after": header.encode("latin-1")})
    response = _service(lambda _: busy).chat()
    assert response.status_code == 429
    assert "retry-after" not in response.headers


def test_a_request_that_the_engine_refuses_is_the_requests_fault() -> None:
    told = {"error": {"message": "bad thing", "param": "temperature", "type": "BadRequestError"}}
    response = _service(lambda _: httpx.Response(400, json=told)).chat(temperature=0.5)
    assert response.status_code == 400
    error = response.json()["error"]
    assert (error["param"], error["type"]) == ("temperature", "invalid_request_error")


@pytest.mark.parametrize("status", [401, 404, 500, 503])
def test_other_failures_are_the_engines(status: int) -> None:
    response = _service(lambda _: httpx.Response(status, json={"error": {"message": "no"}})).chat()
    assert response.status_code == 502
    assert response.json()["error"]["type"] == "engine_error"


def test_what_is_no_stream_is_said_to_be_none(caplog: pytest.LogCaptureFixture) -> None:
    service = _service(lambda _: httpx.Response(200, html="<html>Sign in</html>"))
    response = service.chat()
    assert response.status_code == 502
    message = response.json()["error"]["message"]
    assert "text/html" in message
    assert "<html>Sign in" in message
    assert "engine.internal" not in response.text
    [record] = [record for record in caplog.records if record.name == "dragoman.server"]
    assert ADDRESS in record.__dict__["known"]["address"]
    assert ADDRESS in LineFormatter("text", messages=True).format(record)


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("status", [200, 400, 429, 500])
def test_the_log_has_no_word_of_an_engine_that_quotes_the_request(
    stream: bool, status: int, caplog: pytest.LogCaptureFixture
) -> None:
    def quotes(request: httpx.Request) -> httpx.Response:
        told = {"error": {"message": "failed on " + request.content.decode(), "code": status}}
        if status != 200:
            return httpx.Response(status, json=told)
        events = 'data: {"content": "Hi", "tokens": []}\n\ndata: ' + json.dumps(told) + "\n\n"
        return httpx.Response(200, text=events, headers={"content-type": "text/event-stream"})

    service = _service(quotes)
    answer = service.chat(stream=stream)
    assert "failed on" in answer.text
    records = [record for record in caplog.records if record.name.startswith("dragoman")]
    assert len(records) == 1
    for form in ("json", "text"):
        line = LineFormatter(form).format(records[0])
        assert "failed on" not in line
        assert "EngineError" in line
        assert "http.py" in line
        assert f"{status}" in line
        assert "failed on" in LineFormatter(form, messages=True).format(records[0])
    assert "failed on" not in caplog.text


def _lost(request: httpx.Request) -> httpx.Response:
    raise httpx.ConnectError("refused", request=request)


@pytest.mark.parametrize("answer", [_lost, lambda _: httpx.Response(200, text='data: {"content": "Hi"}\n\n')])
def test_an_address_is_the_operators_business(answer: Any) -> None:
    for stream in (False, True):
        response = _service(answer).chat(stream=stream)
        assert "error" in response.text
        assert "engine.internal" not in response.text
