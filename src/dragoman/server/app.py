"""The HTTP server: an ASGI app over one chat format and one engine. The table of routes is in :func:`create_app`."""

from __future__ import annotations

import datetime
import secrets
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from functools import partial
from typing import Any, TypeVar

import anyio.to_thread
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from dragoman.engine import NO_SETTINGS, Engine, EngineInfo, ModelSettings
from dragoman.errors import DragomanError, LimitError, UsageError
from dragoman.format import ChatFormat
from dragoman.server import wire
from dragoman.server.generate import make_turn, prepare
from dragoman.server.props import props
from dragoman.server.replies import Reply, failure

BODY_BYTES_MAX = 64 << 20  # a conversation with pictures in it; the text of the largest contexts has under 10 MB

T = TypeVar("T")


class Service:
    """What the routes share. Nothing in it changes after the first request but the cached word of the engine."""

    def __init__(
        self,
        fmt: ChatFormat,
        engine: Engine,
        *,
        model: str | None,
        settings: ModelSettings,
        clock: Callable[[], float],
        new_id: Callable[[], str],
    ) -> None:
        self.format = fmt
        self.engine = engine
        self.settings = settings
        self._model = model
        self._clock = clock
        self._new_id = new_id
        self._started = int(clock())
        self._info: EngineInfo | None = None

    async def info(self) -> EngineInfo:
        """What the engine says of itself; asked once. Raises EngineError."""
        if self._info is None:
            self._info = await self.engine.info()
        return self._info

    async def model(self) -> str:
        return self._model or (await self.info()).model

    async def chat(self, request: Request) -> Reply:
        """``POST /v1/chat/completions``"""
        chat = wire.read_chat_request(wire.read_body(await _body(request)), self.settings)
        info = await self.info()
        head = wire.Head(self._new_id(), int(self._clock()), await self.model())
        work = partial(prepare, self.format, chat, info, self.settings, now=self._now(), id_seed=head.id)
        job = await _in_thread(work)
        return Reply(job, self.engine, head, chat.stream, chat.include_usage)

    async def apply_template(self, request: Request) -> Response:
        """``POST /apply-template``: the prompt of a chat request, and which of its parts came with the request."""
        chat = wire.read_chat_request(wire.read_body(await _body(request)), self.settings)

        def render() -> dict[str, Any]:
            turn = make_turn(self.format, chat, self.settings, now=self._now())
            parts = [{"text": text, "input": is_input} for text, is_input in turn.prompt.parts]
            shown: dict[str, Any] = {"prompt": turn.prompt.text, "parts": parts}
            if self.format.vocab is not None:
                shown["token_ids"] = list(turn.prompt.token_ids)
            return shown

        return JSONResponse(await _in_thread(render))

    async def tokenize(self, request: Request) -> Response:
        """``POST /tokenize``: ids of ``content`` as text of a message, where no control token can be written."""
        content = wire.read_body(await _body(request)).get("content")
        if not isinstance(content, str):
            raise UsageError("content must be a string", param="content")
        vocab = self.format.vocab
        if vocab is None:
            raise UsageError("this server has no vocabulary; start it with one to tokenise")
        return JSONResponse({"tokens": await _in_thread(partial(vocab.encode, content))})

    async def models(self, request: Request) -> Response:
        """``GET /v1/models``"""
        return JSONResponse(wire.models(await self.model(), self._started))

    async def health(self, request: Request) -> Response:
        """``GET /health``: 200 when the engine answers too."""
        await self.engine.info()
        return JSONResponse({"status": "ok"})

    async def props(self, request: Request) -> Response:
        """``GET /props``: the template, what was learned from it and what was proven."""
        known = await _in_thread(partial(props, self.format))
        return JSONResponse({"model": await self.model(), **known})

    def _now(self) -> datetime.datetime:
        return datetime.datetime.fromtimestamp(self._clock())


def create_app(
    fmt: ChatFormat,
    engine: Engine,
    *,
    model: str | None = None,
    settings: ModelSettings = NO_SETTINGS,
    clock: Callable[[], float] = time.time,
    new_id: Callable[[], str] = lambda: f"chatcmpl-{secrets.token_hex(12)}",
) -> Starlette:
    """The server as an ASGI app. The app closes ``engine`` when it shuts down.

    model: the name that clients see; None: the engine's own. clock: seconds since 1970, also for templates that write
    the date.
    """
    service = Service(fmt, engine, model=model, settings=settings, clock=clock, new_id=new_id)

    @asynccontextmanager
    async def lifespan(_: Starlette) -> AsyncIterator[None]:
        try:
            yield
        finally:
            await engine.aclose()

    routes = [
        Route("/v1/chat/completions", service.chat, methods=["POST"]),
        Route("/chat/completions", service.chat, methods=["POST"]),
        Route("/v1/models", service.models),
        Route("/models", service.models),
        Route("/health", service.health),
        Route("/props", service.props),
        Route("/apply-template", service.apply_template, methods=["POST"]),
        Route("/tokenize", service.tokenize, methods=["POST"]),
    ]
    handlers: dict[Any, Any] = {DragomanError: _failed, HTTPException: _refused, Exception: _failed}
    return Starlette(routes=routes, exception_handlers=handlers, lifespan=lifespan)


async def _in_thread(work: Callable[[], T]) -> T:
    """``work`` outside of the event loop: templates, grammars and encoding may take long."""
    return await anyio.to_thread.run_sync(work)


async def _body(request: Request) -> bytes:
    data = bytearray()
    async for piece in request.stream():
        data += piece
        if len(data) > BODY_BYTES_MAX:
            raise LimitError("the request is too large", bound="body_bytes", limit=BODY_BYTES_MAX)
    return bytes(data)


async def _failed(_: Request, error: Exception) -> Response:
    return failure(error)


async def _refused(request: Request, error: Exception) -> Response:
    """No such route, or not with this method."""
    assert isinstance(error, HTTPException)
    message = f"{request.method} {request.url.path}: {error.detail}"
    body = wire.error_of(message, kind="invalid_request_error")
    return JSONResponse(body, status_code=error.status_code, headers=error.headers)
