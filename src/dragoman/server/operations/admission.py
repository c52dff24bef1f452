"""Who is let in: bodies up to a size, so many requests at once, a bounded queue behind them, nobody while it drains.

Rules of this file: a request is read whole before it takes a place, so a slow sender holds none; it waits in the
order of arrival; one whose client leaves the queue is forgotten at once. Answers pass through untouched.
"""

from __future__ import annotations

import asyncio
import math
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from dragoman.server.operations.context import CURRENT
from dragoman.server.operations.refusal import refuse

BODY_BYTES_MAX = 64 << 20  # a conversation with pictures in it; the text of the largest contexts has under 10 MB


@dataclass(frozen=True, slots=True)
class AdmissionSettings:
    """Bounds. concurrency: requests that are worked on at once; None: any number. queue: those that wait behind them.

    queue_seconds: the longest wait.  body_bytes, body_seconds: of one request's body.
    """

    concurrency: int | None = None
    queue: int = 64
    queue_seconds: float = 60.0
    body_bytes: int = BODY_BYTES_MAX
    body_seconds: float = 60.0


class Places:
    """So many places, given in the order in which they were asked for."""

    def __init__(self, settings: AdmissionSettings) -> None:
        self._limit = math.inf if settings.concurrency is None else settings.concurrency
        self._queue = settings.queue
        self._waiters: deque[asyncio.Future[None]] = deque()
        self._mean_seconds = 1.0  # of late, how long a place was held
        self.taken = 0

    @property
    def waiting(self) -> int:
        return len(self._waiters)

    @property
    def full(self) -> bool:
        """Whoever comes now is neither served nor queued."""
        return self.taken >= self._limit and len(self._waiters) >= self._queue

    @property
    def retry_after(self) -> int:
        """Seconds, 1 to 60, after which a place is likely."""
        seconds = self._mean_seconds * (len(self._waiters) + 1) / max(self._limit, 1)
        return max(1, min(60, math.ceil(seconds)))

    def try_take(self) -> bool:
        """A place without waiting, if there is one. Nobody waits then: what is given back goes to the first in line."""
        if self.taken >= self._limit:
            return False
        self.taken += 1
        return True

    async def take(self) -> None:
        """Wait for a place. Cancelling it leaves the queue."""
        if self.try_take():
            return
        waiter = asyncio.get_running_loop().create_future()
        self._waiters.append(waiter)
        try:
            await waiter
        except asyncio.CancelledError:
            if waiter.done() and not waiter.cancelled():  # it was given one in the same moment
                self.give_back()
            else:
                with suppress(ValueError):
                    self._waiters.remove(waiter)
            raise

    def give_back(self, held_seconds: float | None = None) -> None:
        """held_seconds: how long the work took, where there was any."""
        if held_seconds is not None:
            self._mean_seconds += 0.1 * (held_seconds - self._mean_seconds)
        self._pass_on()

    def _pass_on(self) -> None:
        while self._waiters:
            waiter = self._waiters.popleft()
            if not waiter.done():
                waiter.set_result(None)
                return
        self.taken -= 1


class Admission:
    """ASGI: every request that has work to do (each POST) takes a place, or is refused with a word when to come back.

    on_refused: told why (``body``, ``slow_body``, ``queue_full``, ``queue_timeout``, ``draining``).
    on_waited: told the seconds that a request waited.
    """

    def __init__(
        self,
        app: ASGIApp,
        settings: AdmissionSettings,
        *,
        on_refused: Callable[[str], None] = lambda _: None,
        on_waited: Callable[[float], None] = lambda _: None,
    ) -> None:
        self._app = app
        self._settings = settings
        self._on_refused = on_refused
        self._on_waited = on_waited
        self.places = Places(settings)
        self.draining = False

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or scope["method"] != "POST":
            await self._app(scope, receive, send)
            return
        if self.draining:
            await self._refuse(scope, receive, send, 503, "draining", "the server is shutting down", after=1)
            return
        body = await self._body(scope, receive, send)
        if body is not None:
            await self._admit(body, scope, receive, send)

    async def _body(self, scope: Scope, receive: Receive, send: Send) -> bytes | None:
        """The request's body; None: it was refused, or its client went away."""
        bound = self._settings.body_bytes
        declared = dict(scope["headers"]).get(b"content-length", b"")
        if declared.isdigit() and int(declared) > bound:
            await self._too_large(scope, receive, send)
            return None
        try:
            data = await asyncio.wait_for(_read(receive, bound), self._settings.body_seconds)
        except (TimeoutError, asyncio.TimeoutError):
            message = f"the request's body did not come within {self._settings.body_seconds:g} s"
            await self._refuse(scope, receive, send, 408, "slow_body", message)
            return None
        if isinstance(data, int):
            await self._too_large(scope, receive, send)
            return None
        return data

    async def _too_large(self, scope: Scope, receive: Receive, send: Send) -> None:
        message = f"the request is too large (limit body_bytes = {self._settings.body_bytes})"
        await self._refuse(scope, receive, send, 413, "body", message)

    async def _admit(self, body: bytes, scope: Scope, receive: Receive, send: Send) -> None:
        if self.places.full:
            message = "the server is busy and its queue is full; try again later"
            await self._refuse(scope, receive, send, 429, "queue_full", message, after=self.places.retry_after)
            return
        client = _Client(body, receive)
        loop = asyncio.get_running_loop()
        came = loop.time()
        placed = await self._placed(client)
        waited = loop.time() - came
        if placed is None:  # nobody is there to be told
            return
        if not placed:
            message = f"no place was free within {self._settings.queue_seconds:g} s; try again later"
            await self._refuse(
                scope, client.receive, send, 429, "queue_timeout", message, after=self.places.retry_after
            )
            return
        self._on_waited(waited)
        context = CURRENT.get()
        if context is not None:
            context.waited = waited
        began = loop.time()
        try:
            await self._app(scope, client.receive, send)
        finally:
            self.places.give_back(loop.time() - began)
            await client.close()

    async def _placed(self, client: _Client) -> bool | None:
        """True: it has a place; False: it waited too long; None: its client went away meanwhile."""
        if self.places.try_take():
            return True
        taking = asyncio.ensure_future(self.places.take())
        gone = client.watch()
        try:
            await asyncio.wait({taking, gone}, timeout=self._settings.queue_seconds, return_when="FIRST_COMPLETED")
        except asyncio.CancelledError:
            await self._leave(taking)
            await client.close()
            raise
        if taking.done() and not gone.done():
            return True
        await self._leave(taking)
        return None if gone.done() else False

    async def _leave(self, taking: asyncio.Future[None]) -> None:
        if taking.done():
            self.places.give_back()
            return
        taking.cancel()
        with suppress(asyncio.CancelledError):
            await taking

    async def _refuse(
        self,
        scope: Scope,
        receive: Receive,
        send: Send,
        status: int,
        reason: str,
        message: str,
        *,
        after: int | None = None,
    ) -> None:
        self._on_refused(reason)
        headers = {} if after is None else {"retry-after": str(after)}
        kind = {429: "rate_limit_error", 503: "server_error"}.get(status, "invalid_request_error")
        await refuse(scope, receive, send, status, message, kind=kind, code=reason, headers=headers)


class _Client:
    """A request whose body has been read: it is given to the app once, and then whatever the client does next."""

    def __init__(self, body: bytes, receive: Receive) -> None:
        self._body: bytes | None = body
        self._receive = receive
        self._watching: asyncio.Task[Message] | None = None

    def watch(self) -> asyncio.Task[Message]:
        """Done when the client goes away."""
        if self._watching is None:
            self._watching = asyncio.ensure_future(self._gone())
        return self._watching

    async def receive(self) -> Message:
        if self._body is not None:
            body, self._body = self._body, None
            return {"type": "http.request", "body": body, "more_body": False}
        if self._watching is not None:
            return await asyncio.shield(self._watching)
        return await self._receive()

    async def close(self) -> None:
        if self._watching is not None:
            self._watching.cancel()
            with suppress(asyncio.CancelledError):
                await self._watching

    async def _gone(self) -> Message:
        while (message := await self._receive())["type"] != "http.disconnect":
            pass
        return message


async def _read(receive: Receive, bound: int) -> bytes | int | None:
    """The body; its size so far where it grows past ``bound``; None where the client goes away."""
    pieces: list[bytes] = []
    size = 0
    while True:
        message = await receive()
        if message["type"] == "http.disconnect":
            return None
        piece: bytes = message.get("body", b"")
        pieces.append(piece)
        size += len(piece)
        if size > bound:
            return size
        if not message.get("more_body", False):
            return pieces[0] if len(pieces) == 1 else b"".join(pieces)
