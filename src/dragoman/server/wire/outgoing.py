"""The way out of one answer: what has been sent, in which order, and a sign of life where nothing is."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import anyio
from starlette.types import Send

from dragoman.server.wire import sse


class Outgoing:
    """ASGI messages of one answer. ``begun``: a status has been sent. ``opening``: the events in front of all others.

    One task sends the answer; another may send comments, never in the middle of a message of the first.
    """

    def __init__(self, send: Send) -> None:
        self._send = send
        self._opened = False
        self._over = False
        self._count = 0
        self._comment: anyio.Event | None = None  # set when the comment that is being sent is out
        self.begun = False
        self.opening: Callable[[], Iterable[bytes]] = tuple

    async def __call__(self, message: Any) -> None:
        if self._comment is not None:
            await self._comment.wait()
        self.begun = True
        self._count += 1
        self._over = not message.get("more_body", message["type"] == "http.response.start")
        await self._send(message)

    async def events(self, events: Iterable[bytes]) -> None:
        """In one message, the first time behind the head of the answer."""
        opening = b""
        if not self._opened:
            self._opened = True
            if not self.begun:
                await self(_start())
            opening = b"".join(self.opening())
        data = opening + b"".join(events)
        if data:
            await self(_body(data))

    async def end(self, data: bytes = b"") -> None:
        await self({"type": "http.response.body", "body": data, "more_body": False})

    async def keep_alive(self, seconds: float) -> None:
        """Send a comment whenever nothing was sent for so long; until it is cancelled.

        Before the first event too: proxies give up on answers whose prompt takes long to read. The status is then
        out, and what fails later is told as an event.
        """
        seen = -1
        while not self._over:
            if self._count == seen:
                await self._ping()
            seen = self._count
            await anyio.sleep(seconds)

    async def _ping(self) -> None:
        self._comment = anyio.Event()
        try:
            if not self.begun:
                self.begun = True
                await self._send(_start())
            await self._send(_body(sse.PING))
        finally:
            self._comment.set()
            self._comment = None


def _start() -> dict[str, Any]:
    headers = [(name.encode(), value.encode()) for name, value in sse.HEADERS.items()]
    return {"type": "http.response.start", "status": 200, "headers": headers}


def _body(data: bytes) -> dict[str, Any]:
    return {"type": "http.response.body", "body": data, "more_body": True}
