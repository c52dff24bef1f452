"""An engine under watch: its work ends at the request's deadline or when the server shuts down, and is measured.

Both ends are errors of the engine, so every protocol tells them as it tells any other: as a status before the first
piece, as an event afterwards. Pieces pass through one by one.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator
from typing import Literal, Protocol

from dragoman.engine import Chunk, Engine, EngineInfo, Generation
from dragoman.errors import DragomanError, EngineError
from dragoman.server.operations.context import CURRENT, RequestContext

Ending = Literal["stop", "length", "content_filter", "cancelled", "failed", "deadline", "shutdown"]


class DeadlineError(EngineError):
    """The request took longer than it may."""

    status_hint = 504


class ShutdownError(EngineError):
    """The server is going away."""

    status_hint = 503


class Observer(Protocol):
    """Who is told of generations. Times are seconds of the event loop's clock."""

    def began(self, context: RequestContext | None, now: float) -> None: ...
    def piece(self, chunk: Chunk, now: float, last: float, *, first: bool) -> None: ...
    def ended(self, ending: Ending, prompt_tokens: int, completion_tokens: int) -> None: ...


class WatchedEngine:
    """The Engine protocol around another engine."""

    def __init__(self, engine: Engine, observer: Observer, *, deadline_seconds: float | None = None) -> None:
        """deadline_seconds: for work that no request with a deadline of its own asked for."""
        self._engine = engine
        self._observer = observer
        self._deadline_seconds = deadline_seconds
        self._running: set[_Guard] = set()
        self._closed: ShutdownError | None = None

    @property
    def running(self) -> int:
        return len(self._running)

    async def info(self) -> EngineInfo:
        return await self._engine.info()

    async def aclose(self) -> None:
        await self._engine.aclose()

    def abort(self, message: str) -> None:
        """End all that runs, and all that comes, with this error."""
        self._closed = ShutdownError(message)
        for guard in tuple(self._running):
            guard.interrupt(self._closed)

    async def generate(self, request: Generation) -> AsyncGenerator[Chunk, None]:
        if self._closed is not None:
            raise self._closed
        loop = asyncio.get_running_loop()
        context = CURRENT.get()
        now = began = loop.time()
        guard = _Guard()
        deadline = self._deadline(context, began)
        timer = None if deadline is None else loop.call_at(deadline[0], guard.interrupt, deadline[1])
        pieces = self._engine.generate(request)
        self._running.add(guard)
        self._observer.began(context, began)
        ending: Ending = "cancelled"
        prompt_tokens, written, first = 0, 0, True  # what failed before its first piece has cost nothing
        try:
            while True:
                try:
                    chunk = await guard.next(pieces)
                except StopAsyncIteration:
                    return
                last, now = now, loop.time()
                self._observer.piece(chunk, now, last, first=first)
                prompt_tokens, first = prompt_tokens or len(request.prompt_ids), False
                written += len(chunk.token_ids) or bool(chunk.text)
                if chunk.finish is not None:
                    ending = chunk.finish
                    prompt_tokens = chunk.prompt_tokens or prompt_tokens
                    written = written if chunk.completion_tokens is None else chunk.completion_tokens
                yield chunk
        except DeadlineError:
            ending = "deadline"
            raise
        except ShutdownError:
            ending = "shutdown"
            raise
        except Exception:
            ending = "failed"
            raise
        finally:
            if timer is not None:
                timer.cancel()
            self._running.discard(guard)
            self._observer.ended(ending, prompt_tokens, written)
            if context is not None:
                context.prompt_tokens += prompt_tokens
                context.completion_tokens += written
            close = getattr(pieces, "aclose", None)
            if close is not None:
                await close()

    def _deadline(self, context: RequestContext | None, began: float) -> tuple[float, DeadlineError] | None:
        """When, and the error to be raised then."""
        if context is not None and context.deadline is not None:
            seconds = context.deadline - context.arrived
            return context.deadline, DeadlineError(f"the request was given up after {seconds:g} s")
        if context is None and self._deadline_seconds is not None:
            seconds = self._deadline_seconds
            return began + seconds, DeadlineError(f"the request was given up after {seconds:g} s")
        return None


class _Guard:
    """Waits for pieces, and can be made to stop waiting by somebody else. Costs no task and no timer for a piece."""

    def __init__(self) -> None:
        self._task: asyncio.Task[object] | None = None
        self._error: DragomanError | None = None
        self._cancelled = False

    def interrupt(self, error: DragomanError) -> None:
        """The piece that is waited for, or the next one, is this error."""
        if self._error is None:
            self._error = error
            if self._task is not None:
                self._cancelled = True
                self._task.cancel()

    def _own_error(self) -> DragomanError | None:
        """The error for which the task was cancelled, if it was cancelled here."""
        error, self._cancelled = self._error if self._cancelled else None, False
        return error

    async def next(self, pieces: AsyncIterator[Chunk]) -> Chunk:
        if self._error is not None:
            raise self._error
        self._task = task = asyncio.current_task()
        try:
            return await pieces.__anext__()
        except asyncio.CancelledError:
            error = self._own_error()
            # Where somebody else cancelled the task too, his word counts. (Python 3.10 cannot tell.)
            if error is None or _also_cancelled(task):
                raise
            raise error from None
        finally:
            self._task = None


def _also_cancelled(task: asyncio.Task[object] | None) -> bool:
    """Takes back the one cancellation that was ours; True: there was another."""
    uncancel = getattr(task, "uncancel", None)
    return uncancel is not None and uncancel() > 0
