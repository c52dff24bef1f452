"""Who is let in: bodies, places, the queue, keys; each layer around a small app of its own."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

import pytest
from starlette.types import Message, Receive, Scope, Send

from dragoman.errors import UsageError
from dragoman.server.operations.access import ApiKeys
from dragoman.server.operations.admission import Admission, AdmissionSettings

LONG = 30.0  # seconds after which a test has failed


class App:
    """Counts who is inside, holds everybody until ``open`` is set, and answers with what it was sent."""

    def __init__(self) -> None:
        self.open = asyncio.Event()
        self.order: list[bytes] = []
        self.inside = 0
        self.most = 0

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        self.inside += 1
        self.most = max(self.most, self.inside)
        try:
            message = await receive()
            self.order.append(message.get("body", b""))
            await self.open.wait()
            await send({"type": "http.response.start", "status": 200, "headers": []})
            await send({"type": "http.response.body", "body": message.get("body", b"")})
        finally:
            self.inside -= 1


@dataclass
class Call:
    """One request to an ASGI app, with its client at hand."""

    method: str = "POST"
    path: str = "/v1/chat/completions"
    body: bytes = b""
    headers: list[tuple[bytes, bytes]] = field(default_factory=list)
    pieces: list[bytes] | None = None  # the body in these pieces; the last is followed by silence where ``stuck``
    stuck: bool = False
    sent: list[Message] = field(default_factory=list)
    left: asyncio.Event = field(default_factory=asyncio.Event)

    async def to(self, app: Any) -> Call:
        waiting = list(self.pieces if self.pieces is not None else [self.body])

        async def receive() -> Message:
            if waiting:
                piece = waiting.pop(0)
                return {"type": "http.request", "body": piece, "more_body": bool(waiting) or self.stuck}
            await self.left.wait()
            return {"type": "http.disconnect"}

        async def send(message: Message) -> None:
            self.sent.append(message)

        scope = {"type": "http", "method": self.method, "path": self.path, "headers": self.headers}
        await app(scope, receive, send)
        return self

    @property
    def status(self) -> int:
        return int(self.sent[0]["status"]) if self.sent else 0

    @property
    def error(self) -> Any:
        return json.loads(b"".join(message.get("body", b"") for message in self.sent[1:]))["error"]

    def header(self, name: str) -> str:
        return dict(self.sent[0]["headers"])[name.encode()].decode()


def run(work: Callable[[], Any]) -> Any:
    return asyncio.run(asyncio.wait_for(work(), LONG))


async def until(condition: Callable[[], bool]) -> None:
    while not condition():  # noqa: ASYNC110 - of objects that tell nobody
        await asyncio.sleep(0)


def test_so_many_at_once_the_rest_in_order_and_no_more() -> None:
    async def work() -> None:
        app = App()
        refused: list[str] = []
        door = Admission(app, AdmissionSettings(concurrency=2, queue=3), on_refused=refused.append)
        calls = [Call(body=b"%d" % number) for number in range(6)]
        tasks = []
        for call in calls[:5]:
            tasks.append(asyncio.create_task(call.to(door)))
            await asyncio.sleep(0)
        await until(lambda: (app.inside, door.places.waiting) == (2, 3))
        await calls[5].to(door)
        assert calls[5].status == 429
        assert 1 <= int(calls[5].header("retry-after")) <= 60
        assert calls[5].error["code"] == "queue_full"
        assert calls[5].error["type"] == "rate_limit_error"
        app.open.set()
        await asyncio.gather(*tasks)
        assert [call.status for call in calls[:5]] == [200] * 5
        assert app.order == [b"0", b"1", b"2", b"3", b"4"]
        assert app.most == 2
        assert refused == ["queue_full"]
        assert (door.places.taken, door.places.waiting) == (0, 0)

    run(work)


def test_who_leaves_the_queue_is_forgotten() -> None:
    async def work() -> None:
        app = App()
        door = Admission(app, AdmissionSettings(concurrency=1, queue=5))
        first, gone, second = Call(body=b"first"), Call(body=b"gone"), Call(body=b"second")
        tasks = [asyncio.create_task(call.to(door)) for call in (first, gone, second)]
        await until(lambda: door.places.waiting == 2)
        gone.left.set()
        await until(lambda: door.places.waiting == 1)
        app.open.set()
        await asyncio.gather(*tasks)
        assert app.order == [b"first", b"second"]
        assert gone.sent == []
        assert door.places.taken == 0

    run(work)


def test_a_cancelled_request_gives_its_place_back_wherever_it_was() -> None:
    """Cancelled inside, in the queue, and in the moment in which it was given a place."""

    async def work() -> None:
        app = App()
        door = Admission(app, AdmissionSettings(concurrency=1, queue=5))
        tasks = [asyncio.create_task(Call(body=b"%d" % number).to(door)) for number in range(4)]
        await until(lambda: door.places.waiting == 3)
        tasks[2].cancel()  # in the queue
        tasks[0].cancel()  # inside; its place goes to the next,
        tasks[1].cancel()  # who is cancelled before it can use it
        for task in tasks[:3]:
            with suppress(asyncio.CancelledError):
                await task
        app.open.set()
        assert (await tasks[3]).status == 200
        assert (door.places.taken, door.places.waiting) == (0, 0)

    run(work)


def test_nobody_waits_for_ever() -> None:
    async def work() -> None:
        app = App()
        door = Admission(app, AdmissionSettings(concurrency=1, queue=5, queue_seconds=0.02))
        first = asyncio.create_task(Call().to(door))
        await until(lambda: app.inside == 1)
        late = await Call().to(door)
        assert (late.status, late.error["code"]) == (429, "queue_timeout")
        app.open.set()
        await first
        assert (door.places.taken, door.places.waiting) == (0, 0)

    run(work)


def test_reading_takes_no_place_and_has_its_time() -> None:
    async def work() -> None:
        app = App()
        app.open.set()
        door = Admission(app, AdmissionSettings(concurrency=1, queue=0, body_seconds=0.05))
        slow = asyncio.create_task(Call(pieces=[b"{"], stuck=True).to(door))
        await asyncio.sleep(0)
        assert (await Call(body=b"quick").to(door)).status == 200
        assert (await slow).status == 408
        assert app.order == [b"quick"]

    run(work)


@pytest.mark.parametrize(
    "call",
    [
        {"headers": [(b"content-length", b"11")], "body": b"x" * 11},
        {"pieces": [b"x" * 6, b"x" * 5]},  # says nothing of its length
        {"pieces": [b"x" * 20], "headers": [(b"content-length", b"5")]},  # lies about it
    ],
)
def test_a_body_beyond_its_bound_is_refused(call: dict[str, Any]) -> None:
    async def work() -> None:
        app = App()
        app.open.set()
        door = Admission(app, AdmissionSettings(body_bytes=10))
        answered = await Call(**call).to(door)
        assert answered.status == 413
        assert "body_bytes = 10" in answered.error["message"]
        assert answered.header("connection") == "close"
        assert app.order == []
        assert (await Call(pieces=[b"x" * 6, b"y" * 4]).to(door)).status == 200
        assert app.order == [b"x" * 6 + b"y" * 4]

    run(work)


def test_a_client_that_leaves_while_it_sends_is_no_request() -> None:
    async def work() -> None:
        app = App()
        door = Admission(app, AdmissionSettings())
        call = Call(pieces=[b"{"], stuck=True)
        call.left.set()
        await call.to(door)
        assert (call.sent, app.order, door.places.taken) == ([], [], 0)

    run(work)


def test_looking_costs_no_place_and_draining_refuses_work_only() -> None:
    async def work() -> None:
        app = App()
        app.open.set()
        door = Admission(app, AdmissionSettings(concurrency=1, queue=0))
        door.draining = True
        assert (await Call(method="GET", path="/health").to(door)).status == 200
        refused = await Call().to(door)
        assert (refused.status, refused.error["code"]) == (503, "draining")
        assert refused.header("retry-after") == "1"

    run(work)


def test_an_error_has_the_shape_of_its_protocol() -> None:
    async def work() -> None:
        door = Admission(App(), AdmissionSettings(body_bytes=1))
        call = await Call(path="/v1/messages", body=b"xx").to(door)
        body = json.loads(call.sent[1]["body"])
        assert body["type"] == "error"
        assert body["error"]["type"] == "request_too_large"

    run(work)


def test_keys_open_the_door_under_either_header() -> None:
    async def work() -> None:
        app = App()
        app.open.set()
        door = ApiKeys(app, ["first-key", "second-key"])

        async def status(*headers: tuple[bytes, bytes], path: str = "/v1/models", method: str = "GET") -> int:
            return (await Call(method, path, headers=list(headers)).to(door)).status

        for key in (b"first-key", b"second-key"):
            assert await status((b"authorization", b"Bearer " + key)) == 200
            assert await status((b"authorization", b"bearer  " + key + b" ")) == 200
            assert await status((b"x-api-key", key)) == 200
        for wrong in (b"first-ke", b"first-key2", b"", b"first-key,second-key"):
            assert await status((b"authorization", b"Bearer " + wrong)) == 401
            assert await status((b"x-api-key", wrong)) == 401
        assert await status((b"authorization", b"Basic first-key")) == 401
        assert await status() == 401
        for sent in ((b"first-key", b"no"), (b"no", b"first-key"), (b"first-key", b"")):  # SDKs may send two
            assert await status((b"authorization", b"Bearer " + sent[0]), (b"x-api-key", sent[1])) == 200
        assert await status((b"authorization", b"Bearer no"), (b"x-api-key", b"first-key2")) == 401
        for path in ("/health", "/ready", "/"):
            assert await status(path=path) == 200
            assert await status(path=path, method="POST") == 401
        for path in ("/health/", "//health", "/metrics", "/props", "/v1/messages"):
            assert await status(path=path) == 401
        refused = await Call(headers=[(b"x-api-key", b"no")]).to(door)
        assert refused.header("www-authenticate") == "Bearer"
        assert refused.error["code"] == "invalid_api_key"
        assert "first-key" not in json.dumps(refused.error)

    run(work)


@pytest.mark.parametrize("key", ["", "with blank", "tab\t", "schlüssel", "line\n"])
def test_a_key_that_no_header_can_carry_is_refused_at_the_start(key: str) -> None:
    with pytest.raises(UsageError, match="API key"):
        ApiKeys(App(), [key])
