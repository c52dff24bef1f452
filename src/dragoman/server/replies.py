"""Answers on their way out: one ASGI response that is whole or streamed, and ends when its client goes away.

Rules of this file: the engine works only as long as somebody listens. Nothing is sent before the engine's first piece,
so that whatever fails until then is answered with a status of its own; later failures are an error event.
"""

from __future__ import annotations

import logging
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import aclosing
from dataclasses import dataclass
from typing import Any

import anyio
from starlette.responses import JSONResponse
from starlette.types import Receive, Scope, Send

from dragoman.chat import Delta
from dragoman.engine import Engine
from dragoman.errors import DragomanError
from dragoman.server import sse, wire
from dragoman.server.generate import Ended, Job, Piece, Sum, answer

LOG = logging.getLogger("dragoman.server")


def failure(error: Exception) -> JSONResponse:
    """The answer to a request that failed before anything was sent."""
    if not isinstance(error, DragomanError):
        LOG.error("a request failed", exc_info=error)
        return JSONResponse(wire.error_body(error), status_code=500)
    return JSONResponse(wire.error_body(error), status_code=error.status_hint)


@dataclass(frozen=True, slots=True)
class Reply:
    """The ASGI response to one chat request."""

    job: Job
    engine: Engine
    head: wire.Head
    stream: bool
    include_usage: bool

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        sent = _Sent(send)

        async def work() -> None:
            try:
                await (self._stream(sent) if self.stream else self._whole(scope, receive, sent))
            except Exception as error:
                await self._tell(error, scope, receive, sent)

        await while_connected(receive, work)

    async def _whole(self, scope: Scope, receive: Receive, send: Send) -> None:
        total = Sum()
        async with aclosing(self._pieces()) as pieces:
            async for piece in pieces:
                if isinstance(piece, Ended):
                    body = wire.completion(self.head, total.message, piece.finish_reason, piece.usage)
                    body |= wire.notes(piece.problems, self.job.unconstrained)
                    await JSONResponse(body)(scope, receive, send)
                    return
                total.add([piece])

    async def _stream(self, sent: _Sent) -> None:
        async with aclosing(self._pieces()) as pieces:
            async for piece in pieces:
                if not sent.begun:
                    await sent.start()
                    await sent.event(self._chunk(wire.first_delta()))
                if isinstance(piece, Delta):
                    await sent.event(self._chunk(wire.delta_fields(piece)))
                    continue
                last = self._chunk({}, finish_reason=piece.finish_reason)
                await sent.event(last | wire.notes(piece.problems, self.job.unconstrained))
                if self.include_usage:
                    await sent.event(wire.usage_chunk(self.head, piece.usage))
        await sent.end(sse.DONE)

    def _pieces(self) -> AsyncGenerator[Piece, None]:
        return answer(self.job, self.engine)

    def _chunk(self, delta: dict[str, Any], *, finish_reason: str | None = None) -> dict[str, Any]:
        return wire.chunk(self.head, delta, finish_reason=finish_reason, usage_follows=self.include_usage)

    async def _tell(self, error: Exception, scope: Scope, receive: Receive, sent: _Sent) -> None:
        """As a status while that is possible, else as the last event."""
        response = failure(error)
        if not sent.begun:
            await response(scope, receive, sent)
        elif self.stream:
            await sent.event(wire.error_body(error))
            await sent.end()


class _Sent:
    """The way out, which knows whether anything has been sent."""

    def __init__(self, send: Send) -> None:
        self._send = send
        self.begun = False

    async def __call__(self, message: Any) -> None:
        self.begun = True
        await self._send(message)

    async def start(self) -> None:
        headers = [(name.encode(), value.encode()) for name, value in sse.HEADERS.items()]
        await self({"type": "http.response.start", "status": 200, "headers": headers})

    async def event(self, data: dict[str, Any]) -> None:
        await self({"type": "http.response.body", "body": sse.event(data), "more_body": True})

    async def end(self, data: bytes = b"") -> None:
        await self({"type": "http.response.body", "body": data, "more_body": False})


async def while_connected(receive: Receive, work: Callable[[], Awaitable[None]]) -> None:
    """Run ``work``; cancel it when the client goes away. The request's body must have been read."""
    async with anyio.create_task_group() as group:

        async def watch() -> None:
            while (await receive())["type"] != "http.disconnect":
                pass
            group.cancel_scope.cancel()

        group.start_soon(watch)
        await work()
        group.cancel_scope.cancel()
