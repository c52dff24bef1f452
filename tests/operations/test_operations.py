"""The operated server: numbers, log lines, request ids, deadlines, CORS, and its end."""

from __future__ import annotations

import asyncio
import io
import json
import logging
import re
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from starlette.testclient import TestClient

from dragoman.engine import Chunk, EngineInfo, Generation
from dragoman.engines.scripted import Scripted
from dragoman.errors import EngineError
from dragoman.server.app import create_app, doors_of
from dragoman.server.operations.admission import AdmissionSettings
from dragoman.server.operations.context import CURRENT, RequestContext
from dragoman.server.operations.layers import Operations, OperationsSettings
from dragoman.server.operations.logs import LineFormatter
from dragoman.server.operations.watched import DeadlineError, WatchedEngine
from tests.server.live import live, wait_until
from tests.server.service import CALL, INFO, MESSAGES, TOOLS, chat_format

ENDLESS = "word " * 20_000
CHAT = "/v1/chat/completions"
ROOT = Path(__file__).parents[2]
SECRET = "a-word-that-no-log-may-hold"


class Operated:
    """An operated server over a scripted engine."""

    def __init__(self, *answers: Any, settings: OperationsSettings | None = None, **scripted: Any) -> None:
        self.engine = Scripted(list(answers), info=INFO, **scripted)
        self.operations = Operations(settings)
        watched, beside = self.operations.watch(self.engine), doors_of(self.operations)
        inner = create_app(chat_format(), watched, model="m", beside=beside)
        self.app = self.operations.wrap(inner, fmt=chat_format(), model="m")
        self.client = TestClient(self.app, raise_server_exceptions=False)

    def number(self, name: str) -> float:
        """One sample of /metrics; -1 where it is not there."""
        text = self.client.get("/metrics").text
        found = re.search(rf"^{re.escape(name)} (\S+)$", text, re.MULTILINE)
        return float(found[1]) if found else -1.0


@pytest.fixture
def lines() -> Iterator[list[dict[str, Any]]]:
    """What is logged while the test runs, as the JSON form has it."""
    stream, seen = io.StringIO(), list[dict[str, Any]]()
    handler = logging.StreamHandler(stream)
    handler.setFormatter(LineFormatter("json"))

    class Reader(list[dict[str, Any]]):
        def __iter__(self) -> Iterator[dict[str, Any]]:
            return iter([json.loads(line) for line in stream.getvalue().splitlines()])

    logger = logging.getLogger("dragoman")
    level = logger.level
    logger.addHandler(handler)
    logger.setLevel(logging.INFO)
    yield Reader(seen)
    logger.removeHandler(handler)
    logger.setLevel(level)


def test_requests_tokens_and_ends_are_counted() -> None:
    server = Operated("One two three.", f"So.{CALL}")
    assert server.client.post(CHAT, json={"messages": MESSAGES}).status_code == 200
    with server.client.stream("POST", CHAT, json={"messages": MESSAGES, "tools": TOOLS, "stream": True}) as answer:
        answer.read()
    assert server.client.post(CHAT, json={}).status_code == 400
    assert server.client.get("/no/such/path").status_code == 404
    assert server.client.post(CHAT, json={"messages": MESSAGES}).status_code == 502  # the script is over
    ok = 'dragoman_requests_total{method="POST",path="/v1/chat/completions",status="%d"}'
    assert [server.number(ok % status) for status in (200, 400, 502)] == [2, 1, 1]
    assert server.number('dragoman_requests_total{method="GET",path="other",status="404"}') == 1
    assert server.number('dragoman_generations_total{end="stop"}') == 2
    assert server.number('dragoman_generations_total{end="failed"}') == 1
    asked = sum(len(request.prompt_ids) for request in server.engine.record.requests)
    assert server.number("dragoman_prompt_tokens_total") == asked
    assert server.number("dragoman_completion_tokens_total") > 5
    assert server.number("dragoman_first_token_seconds_count") == 2
    assert server.number("dragoman_token_interval_seconds_count") > 3
    assert server.number("dragoman_queue_seconds_count") == 4
    assert server.number("dragoman_generations_running") == 0
    assert server.number("dragoman_places_taken") == 0
    assert server.number("dragoman_requests_in_flight") == 1  # the one that asks
    assert server.number('dragoman_proof{property="content",state="proven"}') == 1
    assert server.number(f'dragoman_info{{model="m",template="{chat_format().template_hash}"}}') == 1


def test_metrics_are_what_prometheus_reads() -> None:
    from prometheus_client.parser import text_string_to_metric_families

    answer = Operated("Hi.").client.get("/metrics")
    assert answer.headers["content-type"].startswith("text/plain; version=0.0.4")
    families = {family.name: family for family in text_string_to_metric_families(answer.text)}
    assert families["dragoman_ready"].samples[0].value == 1
    assert families["dragoman_request_seconds"].type == "histogram"


def test_the_document_tells_of_its_routes() -> None:
    client = Operated("Hi.").client
    paths = client.get("/openapi.json").json()["paths"]
    for path, kind in (("/ready", "application/json"), ("/metrics", "text/plain")):
        assert list(paths[path]["get"]["responses"]["200"]["content"]) == [kind]
        assert client.get(path).headers["content-type"].startswith(kind)


def test_a_request_is_one_line_without_its_text(lines: list[dict[str, Any]]) -> None:
    server = Operated(f"{SECRET} too.", settings=OperationsSettings(api_keys=("key-1",)))
    headers = {"x-request-id": "trace-7", "authorization": "Bearer key-1"}
    body = {"messages": [{"role": "user", "content": SECRET}]}
    answer = server.client.post(CHAT, json=body, headers=headers)
    assert SECRET in answer.text
    assert answer.headers["x-request-id"] == "trace-7"
    [line] = list(lines)
    assert SECRET not in json.dumps(line)
    assert "key-1" not in json.dumps(line)
    assert (line["event"], line["logger"], line["level"]) == ("request", "dragoman.access", "info")
    assert (line["request_id"], line["path"], line["status"], line["method"]) == ("trace-7", CHAT, 200, "POST")
    assert line["completion_tokens"] > 1
    assert line["prompt_tokens"] > 1
    assert 0 <= line["first_token_seconds"] <= line["seconds"]
    assert len(line["client"]) == 8


def test_a_failure_is_logged_without_what_it_says(lines: list[dict[str, Any]], monkeypatch: Any) -> None:
    server = Operated("x")

    async def broken() -> Any:
        raise KeyError(SECRET)

    monkeypatch.setattr(server.engine, "info", broken)
    answer = server.client.post(CHAT, json={"messages": MESSAGES}, headers={"x-request-id": "r-1"})
    assert answer.status_code == 500
    failed = [line for line in lines if line["level"] == "error"]
    assert failed
    assert {(line["error"], line["request_id"]) for line in failed} == {("KeyError", "r-1")}
    assert any("broken" in frame for frame in failed[0]["trace"])
    assert SECRET not in json.dumps(list(lines))
    assert SECRET not in answer.text


@pytest.mark.parametrize("given", ["", "x" * 129, "two words", "line\\n", "é", "<b>"])
def test_a_request_id_that_could_forge_a_log_is_not_taken(given: str) -> None:
    answer = Operated("Hi.").client.get("/health", headers={b"x-request-id": given.encode()})
    assert re.fullmatch(r"[0-9a-f]{16}", answer.headers["x-request-id"])


def test_the_form_for_people_is_one_line_too() -> None:
    record = logging.LogRecord("dragoman.access", logging.INFO, "", 0, "request", (), None)
    record.known = {"path": "/a b", "status": 200}
    line = LineFormatter("text").format(record)
    assert line.endswith('Z info dragoman.access: request path="/a b" status=200')
    token = CURRENT.set(RequestContext("r-9", 0.0))
    try:
        assert "request_id=r-9" in LineFormatter("text").format(record)
    finally:
        CURRENT.reset(token)


@pytest.mark.parametrize("stream", [False, True])
def test_a_deadline_before_the_first_piece_is_a_status(stream: bool) -> None:
    server = Operated(ENDLESS, delay=30.0, settings=OperationsSettings(deadline_seconds=0.05))
    answer = server.client.post(CHAT, json={"messages": MESSAGES, "stream": stream})
    assert answer.status_code == 504
    assert "given up after 0.05 s" in answer.json()["error"]["message"]
    assert server.engine.record.running == 0
    assert server.engine.record.endings == ["cancelled"]
    assert server.number('dragoman_generations_total{end="deadline"}') == 1


def test_a_deadline_in_the_middle_is_an_event_and_the_last() -> None:
    _ = chat_format().turn(MESSAGES).reader  # made before the clock runs
    server = Operated(ENDLESS, delay=0.005, settings=OperationsSettings(deadline_seconds=1.0))
    answer = server.client.post(CHAT, json={"messages": MESSAGES, "stream": True})
    assert answer.status_code == 200
    *_, last, rest = answer.content.split(b"\n\n")
    assert rest == b""
    assert "given up" in json.loads(last.removeprefix(b"data: "))["error"]["message"]
    assert b"word" in answer.content
    assert server.engine.record.endings == ["cancelled"]


def test_pieces_wait_for_nobody() -> None:
    """A stream goes through all layers piece by piece: the first is here while the engine writes."""
    server = Operated(ENDLESS, delay=0.002, settings=OperationsSettings(api_keys=("k",), cors_origins=("*",)))
    with live(server.app) as address:
        headers = {"x-api-key": "k", "origin": "http://page.test"}
        body = {"messages": MESSAGES, "stream": True}
        with httpx.stream("POST", address + CHAT, json=body, headers=headers, trust_env=False) as response:
            assert response.headers["access-control-allow-origin"] == "*"
            coming = response.iter_lines()
            first = next(line for line in coming if "word" in line)
            assert server.engine.record.running == 1
        assert json.loads(first.removeprefix("data: "))["choices"][0]["delta"]["content"]
        wait_until(lambda: server.engine.record.endings == ["cancelled"])
        wait_until(lambda: server.operations.busy == 0)
        ended = httpx.get(address + "/metrics", headers=headers, trust_env=False).text
    assert 'dragoman_generations_total{end="cancelled"} 1.0' in ended


def test_other_pages_may_ask_only_where_it_was_said() -> None:
    asked = {"origin": "http://page.test", "access-control-request-method": "POST"}
    closed = Operated("Hi.").client
    assert "access-control-allow-origin" not in closed.get("/health", headers=asked).headers
    assert closed.options(CHAT, headers=asked).status_code == 405
    open_to = Operated("Hi.", settings=OperationsSettings(cors_origins=("http://page.test",), api_keys=("k",))).client
    allowed = open_to.options(CHAT, headers=asked)  # a browser asks this without a key
    assert allowed.status_code == 200
    assert allowed.headers["access-control-allow-origin"] == "http://page.test"
    other = open_to.options(CHAT, headers={**asked, "origin": "http://evil.test"})
    assert "access-control-allow-origin" not in other.headers


def test_ready_says_whether_work_is_welcome(monkeypatch: Any) -> None:
    server = Operated("Hi.")
    assert server.client.get("/ready").json() == {"status": "ready"}

    async def gone() -> EngineInfo:
        raise EngineError("it is not there")

    with monkeypatch.context() as patch:
        patch.setattr(server.engine, "info", gone)
        answer = server.client.get("/ready")
        assert (answer.status_code, answer.json()["reason"]) == (503, "it is not there")
    server.operations.drain()
    assert server.client.get("/ready").json() == {"status": "draining"}
    assert server.number("dragoman_ready") == 0
    assert server.client.post(CHAT, json={"messages": MESSAGES}).status_code == 503


def test_the_end_waits_for_what_was_begun() -> None:
    server = Operated("One two three four five six.", delay=0.02)

    async def work() -> tuple[httpx.Response, httpx.Response, bool]:
        transport = httpx.ASGITransport(app=server.app)
        async with httpx.AsyncClient(transport=transport, base_url="http://test") as client:
            begun = asyncio.create_task(client.post(CHAT, json={"messages": MESSAGES, "stream": True}))
            while not server.engine.record.running:  # noqa: ASYNC110
                await asyncio.sleep(0)
            ending = asyncio.create_task(server.operations.drained(20.0))
            await asyncio.sleep(0)
            late = await client.post(CHAT, json={"messages": MESSAGES})
            return await begun, late, await ending

    begun, late, whole = asyncio.run(asyncio.wait_for(work(), 30.0))
    assert begun.content.endswith(b"data: [DONE]\n\n")
    assert late.status_code == 503
    assert whole


def test_what_outlasts_the_end_is_told_so() -> None:
    server = Operated(ENDLESS, delay=0.005)

    async def work() -> tuple[httpx.Response, bool]:
        transport = httpx.ASGITransport(app=server.app)
        async with httpx.AsyncClient(transport=transport, base_url="http://test") as client:
            begun = asyncio.create_task(client.post(CHAT, json={"messages": MESSAGES, "stream": True}))
            while not server.engine.record.running:  # noqa: ASYNC110
                await asyncio.sleep(0)
            await asyncio.sleep(0.1)
            whole = await server.operations.drained(0.05)
            return await begun, whole

    begun, whole = asyncio.run(asyncio.wait_for(work(), 30.0))
    assert not whole
    last = begun.content.rstrip().rsplit(b"data: ", 1)[1]
    assert "shutting down" in json.loads(last)["error"]["message"]
    assert server.number('dragoman_generations_total{end="shutdown"}') == 1


class Nobody:
    def began(self, *_: Any) -> None: ...
    def piece(self, *_: Any, **__: Any) -> None: ...
    def ended(self, *_: Any) -> None: ...


class Slow:
    """Two pieces, each after a wait; tells how it was left."""

    def __init__(self) -> None:
        self.left = ""

    async def info(self) -> EngineInfo:
        return INFO

    async def aclose(self) -> None: ...

    async def generate(self, _: Generation) -> AsyncIterator[Chunk]:
        try:
            yield Chunk("a")
            await asyncio.sleep(0.05)
            yield Chunk("b", finish="stop")
        except BaseException as error:
            self.left = type(error).__name__
            raise


def test_a_deadline_does_not_touch_who_reads() -> None:
    """It passes while the reader is busy with a piece: the reader is not cancelled, the next piece is the error."""

    async def work() -> list[str]:
        inner = Slow()
        watched = WatchedEngine(inner, Nobody(), deadline_seconds=0.02)
        seen = []
        with pytest.raises(DeadlineError):
            async for chunk in watched.generate(Generation((), "")):
                seen.append(chunk.text)
                await asyncio.sleep(0.05)
                seen.append("and on")
        assert inner.left == "GeneratorExit"
        task = asyncio.current_task()
        assert task is not None
        assert not getattr(task, "cancelling", int)()
        return seen

    assert asyncio.run(work()) == ["a", "and on"]


def test_a_deadline_and_a_cancel_at_once_are_a_cancel() -> None:
    async def work() -> None:
        watched = WatchedEngine(Slow(), Nobody(), deadline_seconds=0.02)

        async def read() -> None:
            async for _ in watched.generate(Generation((), "")):
                pass

        task = asyncio.create_task(read())
        await asyncio.sleep(0)
        asyncio.get_running_loop().call_later(0.02, task.cancel)
        with pytest.raises((asyncio.CancelledError, DeadlineError)):
            await task
        assert watched.running == 0

    asyncio.run(work())


def test_the_queue_counts_to_the_deadline() -> None:
    admission = AdmissionSettings(concurrency=1, queue=2)
    settings = OperationsSettings(admission=admission, deadline_seconds=0.4)
    server = Operated(ENDLESS, "Never.", delay=0.01, settings=settings)

    async def work() -> list[httpx.Response]:
        transport = httpx.ASGITransport(app=server.app)
        async with httpx.AsyncClient(transport=transport, base_url="http://test") as client:
            return await asyncio.gather(*(client.post(CHAT, json={"messages": MESSAGES}) for _ in range(2)))

    assert [answer.status_code for answer in asyncio.run(asyncio.wait_for(work(), 30.0))] == [504, 504]


def test_the_documentation_knows_every_number() -> None:
    told = set(re.findall(r"`(dragoman_\w+)`", (ROOT / "docs" / "serving.md").read_text()))
    shown = set(re.findall(r"^# TYPE (dragoman_\w+) ", Operated("x").client.get("/metrics").text, re.MULTILINE))
    assert told == {name for name in shown if not name.endswith("_created")}
