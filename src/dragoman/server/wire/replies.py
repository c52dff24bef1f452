"""Answers on their way out: one ASGI response that is whole or streamed, and ends when its client goes away.

Rules of this file: the engine works only as long as somebody listens. Nothing is sent before the engine's first piece,
but for a sign of life, so that whatever fails until then is answered with a status of its own; later failures are an
error event.
"""

from __future__ import annotations

import logging
import traceback
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from contextlib import aclosing
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import anyio
from starlette.responses import JSONResponse
from starlette.types import Receive, Scope, Send

from dragoman.engine import Engine
from dragoman.errors import DragomanError, EngineError
from dragoman.server.answers.generate import follow
from dragoman.server.answers.jobs import Ended, Job, Said, Usage
from dragoman.server.answers.reading import Reading
from dragoman.server.wire import failures
from dragoman.server.wire.outgoing import Outgoing
from dragoman.server.wire.telling import Answer, Teller, usage_of

LOG = logging.getLogger("dragoman.server")


def failure(error: Exception, path: str = "") -> JSONResponse:
    """The answer to a request to ``path`` that failed before anything was sent."""
    if not isinstance(error, (DragomanError, RecursionError)):
        LOG.error("a request failed", exc_info=error)
    elif isinstance(error, EngineError):
        _log_engine(error)  # clients are not told all of it
    status = failures.status_of(error)
    body = failures.shaped(path, status, failures.error_body(error))
    return JSONResponse(body, status_code=status, headers=failures.headers_of(error))


def _log_engine(error: EngineError) -> None:
    """Engines quote the request in what they say, so their words are for a log that is to have texts (``failure``)."""
    frames = traceback.extract_tb(error.__traceback__)
    known = {
        "error": type(error).__name__,
        "cause": None if error.__cause__ is None else type(error.__cause__).__name__,
        "engine_status": error.status,
        "address": error.address,
        "place": f"{frames[-1].filename}:{frames[-1].lineno} {frames[-1].name}" if frames else None,
    }
    told = {name: value for name, value in known.items() if value is not None}
    refused = failures.status_of(error) == 400
    LOG.warning("the engine %s", "refused" if refused else "failed", extra={"known": told, "failure": error})


@dataclass(slots=True)
class Reply:
    """The ASGI response to one request for answers: one job for each of them, told by ``teller``.

    ping_seconds: of silence, after which a stream shows that it is alive; None: it never does.
    """

    jobs: Sequence[Job[Reading]]
    engine: Engine
    teller: Teller
    stream: bool
    ping_seconds: float | None = None
    _answers: list[Answer] = field(default_factory=list)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        sent = Outgoing(send)
        self._answers = [Answer() for _ in self.jobs]

        async def work() -> None:
            try:
                await (self._stream(sent) if self.stream else self._whole(scope, receive, sent))
            except Exception as error:
                await self._tell(error, scope, receive, sent)

        beat = partial(sent.keep_alive, self.ping_seconds) if self.stream and self.ping_seconds else None
        await while_connected(receive, work, beat)

    async def _whole(self, scope: Scope, receive: Receive, send: Send) -> None:
        async def keep(index: int, piece: Said | Ended) -> None:
            self._answers[index].add(piece)

        await self._each(keep)
        body = self.teller.whole(self._answers, self._usage())
        await JSONResponse(body)(scope, receive, send)

    async def _stream(self, sent: Outgoing) -> None:
        async def tell(index: int, piece: Said | Ended) -> None:
            if isinstance(piece, Ended):
                self._answers[index].add(piece)
                events = self.teller.ended(index, piece)
            else:
                events = self.teller.said(index, piece)
            await sent.events(events)

        lock = anyio.Lock()

        async def in_order(index: int, piece: Said | Ended) -> None:
            async with lock:  # what one answer says is sent before another says more
                await tell(index, piece)

        sent.opening = self.teller.begin
        await self._each(tell if len(self.jobs) == 1 else in_order)
        await sent.end(b"".join(self.teller.close(self._usage())))

    async def _each(self, take: Callable[[int, Said | Ended], Awaitable[None]]) -> None:
        """All jobs at once, their pieces as they come. The first failure ends them all and is raised."""
        broken: list[Exception] = []

        async def one(index: int) -> None:
            async with aclosing(follow(self.jobs[index], self.engine)) as pieces:
                async for piece in pieces:
                    await take(index, piece)

        if len(self.jobs) == 1:
            await one(0)
            return

        async def watched(index: int) -> None:
            try:
                await one(index)
            except Exception as error:
                broken.append(error)
                group.cancel_scope.cancel()

        async with anyio.create_task_group() as group:
            for index in range(len(self.jobs)):
                group.start_soon(watched, index)
        if broken:
            raise broken[0]

    def _usage(self) -> Usage:
        """Each prompt counts once; the jobs of one prompt stand together and share its ids."""
        prompts: dict[int, int] = {}
        for job, answer in zip(self.jobs, self._answers, strict=True):
            prompts.setdefault(id(job.generation.prompt_ids), answer.ended.usage.prompt_tokens)
        return usage_of([answer.ended.usage for answer in self._answers], sum(prompts.values()))

    async def _tell(self, error: Exception, scope: Scope, receive: Receive, sent: Outgoing) -> None:
        """As a status while that is possible, else as the last event."""
        response = failure(error, scope.get("path", ""))
        if not sent.begun:
            await response(scope, receive, sent)
        elif self.stream:
            await sent.events(self.teller.failed(error))  # behind the opening, where a sign of life was all there was
            await sent.end()


async def while_connected(
    receive: Receive, work: Callable[[], Awaitable[None]], beside: Callable[[], Coroutine[Any, Any, None]] | None = None
) -> None:
    """Run ``work``; cancel it when the client goes away, and ``beside`` when it is done.

    The request's body must have been read.
    """
    async with anyio.create_task_group() as group:

        async def watch() -> None:
            while (await receive())["type"] != "http.disconnect":
                pass
            group.cancel_scope.cancel()

        group.start_soon(watch)
        if beside is not None:
            group.start_soon(beside)
        await work()
        group.cancel_scope.cancel()
