"""The page and what it asks for, as routes of the server: ``GET /`` and JSON below ``/inspector/``.

Rules of this file: it answers with what ``shown``, ``watch`` and ``run`` of this package give, as the command line does
under ``--json``. Nothing is fetched from elsewhere, nothing inline is run (see the Content-Security-Policy below).
Requests must be JSON by their Content-Type: a page of another origin cannot send that unasked.
"""

from __future__ import annotations

import datetime
import json
import secrets
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import aclosing
from functools import partial
from importlib.resources import files
from typing import Any, TypeVar

import anyio
import anyio.to_thread
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import JSONResponse, Response, StreamingResponse
from starlette.routing import BaseRoute, Route

from dragoman.engine import NO_SETTINGS, Engine, ModelSettings
from dragoman.errors import DragomanError, LimitError, UsageError
from dragoman.format import ChatFormat
from dragoman.inspector import asked
from dragoman.inspector.example import QUESTION, TOOLS
from dragoman.inspector.run import run_steps
from dragoman.inspector.shown import (
    NOTATIONS,
    RESPONSE_TEMPLATE,
    grammar_shown,
    prompt_shown,
    rules_shown,
    template_shown,
)
from dragoman.inspector.watch import pieces_of, replay
from dragoman.server.answers.jobs import Job
from dragoman.server.protocols.chat import read_chat_request
from dragoman.server.requests.prepare import make_turn, prepare
from dragoman.server.wire import failures
from dragoman.server.wire.body import read_body
from dragoman.turn import Turn

T = TypeVar("T")

RUNS_MAX = 2  # turns that are watched at the same time
_STATIC = files("dragoman.inspector") / "static"
_PAGE = "index.html"
_TYPES = {"html": "text/html", "css": "text/css", "js": "text/javascript", "svg": "image/svg+xml"}
_HEADERS = {
    "Content-Security-Policy": "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; "
    "img-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cache-Control": "no-cache",
}


def inspector_routes(
    fmt: ChatFormat,
    engine: Engine,
    *,
    clock: Callable[[], float],
    model: str | None = None,
    settings: ModelSettings = NO_SETTINGS,
) -> list[BaseRoute]:
    """The routes of the inspector, for the app of a server. clock: seconds since 1970, for templates with a date."""
    page = _Inspector(fmt, engine, model, settings, clock)
    asking = {
        "template": page.template,
        "prompt": page.prompt,
        "grammar": page.grammar,
        "replay": page.replay,
        "run": page.run,
    }
    return [
        Route("/", _static),
        Route("/inspector/served", page.served),
        *(Route(f"/inspector/{name}", handle, methods=["POST"]) for name, handle in asking.items()),
        Route("/inspector/static/{file}", _static),
    ]


async def _static(request: Request) -> Response:
    """A file of the page. Only names that are there can be asked for, so no path leads elsewhere."""
    name = request.path_params.get("file", _PAGE)
    suffix = name.rpartition(".")[2]
    if suffix not in _TYPES or "/" in name or not (_STATIC / name).is_file():
        raise HTTPException(404, "Not Found")
    return Response((_STATIC / name).read_bytes(), media_type=_TYPES[suffix], headers=_HEADERS)


class _Inspector:
    def __init__(
        self,
        fmt: ChatFormat,
        engine: Engine,
        model: str | None,
        settings: ModelSettings,
        clock: Callable[[], float],
    ) -> None:
        self._format = fmt
        self._engine = engine
        self._model = model
        self._settings = settings
        self._clock = clock
        self._running = 0
        self._learning = anyio.Lock()  # one template at a time: a slow one must not take every thread

    async def served(self, request: Request) -> Response:
        """``GET /inspector/served``: what is served, and what can be picked."""
        info = await self._engine.info()
        vocab = self._format.vocab
        return JSONResponse(
            {
                "model": self._model or info.model,
                "context_tokens": info.context_tokens,
                "vocabulary": None if vocab is None else vocab.size,
                "gives_logprobs": info.gives_logprobs,
                "formats": asked.names(),
                "notations": [*NOTATIONS, RESPONSE_TEMPLATE],
                "example": {"question": QUESTION, "tools": TOOLS},
            }
        )

    async def template(self, request: Request) -> Response:
        """``POST /inspector/template``: what ``dragoman inspect --json`` prints."""
        fmt = await self._format_of(await _body(request))
        return JSONResponse(await _in_thread(partial(template_shown, fmt)))

    async def prompt(self, request: Request) -> Response:
        """``POST /inspector/prompt``: what ``dragoman render --json`` prints."""
        body = await _body(request)
        fmt = await self._format_of(body)
        return JSONResponse(await _in_thread(lambda: prompt_shown(self._turn(fmt, body))))

    async def grammar(self, request: Request) -> Response:
        """``POST /inspector/grammar``: what ``dragoman grammar --json`` prints; ``to`` names the notation."""
        body = await _body(request)
        fmt = await self._format_of(body)
        notation = body.get("to", "listing")
        if notation not in ("listing", RESPONSE_TEMPLATE, *NOTATIONS):
            raise UsageError(f"to must be listing, {', '.join(NOTATIONS)} or {RESPONSE_TEMPLATE}", param="to")

        def work() -> dict[str, Any]:
            turn = self._turn(fmt, body)
            return rules_shown(turn) if notation == "listing" else grammar_shown(turn, notation)

        return JSONResponse(await _in_thread(work))

    async def replay(self, request: Request) -> Response:
        """``POST /inspector/replay``: what ``dragoman parse --steps --json`` prints as ``steps``."""
        body = await _body(request)
        output, size = asked.output_asked(body)
        reason = "length" if body.get("cut_off") else "stop"
        fmt = await self._format_of(body)

        def work() -> list[dict[str, Any]]:
            return list(
                replay(self._turn(fmt, body), pieces_of(output, size), "length" if reason == "length" else "stop")
            )

        return JSONResponse({"steps": await _in_thread(work)})

    async def run(self, request: Request) -> Response:
        """``POST /inspector/run``: a turn of the served engine, one JSON line for each piece."""
        body = await _body(request)
        fmt = await self._format_of(body)
        chat = read_chat_request(asked.request_asked(body), self._settings)
        info = await self._engine.info()
        if self._running >= RUNS_MAX:
            raise HTTPException(429, f"{RUNS_MAX} turns are being watched already; stop one of them or wait")
        work = partial(prepare, fmt, chat, info, self._settings, now=self._now(), id_seed=secrets.token_hex(8))
        job = await _in_thread(work)
        return StreamingResponse(self._lines(job), media_type="application/x-ndjson", headers=_HEADERS)

    async def _lines(self, job: Job[Turn]) -> AsyncIterator[str]:
        """Steps as lines; an error after the start is one too."""
        self._running += 1
        try:
            steps = run_steps(job.turn, job.generation, self._engine, await self._engine.info())
            async with aclosing(steps):
                async for step in steps:
                    yield json.dumps(step) + "\n"
        except DragomanError as error:
            yield json.dumps(failures.error_body(error)) + "\n"
        finally:
            self._running -= 1

    async def _format_of(self, body: Mapping[str, Any]) -> ChatFormat:
        if body.get("template") is None:
            return self._format
        async with self._learning:
            return await _in_thread(partial(asked.format_asked, body, self._format))

    def _turn(self, fmt: ChatFormat, body: Mapping[str, Any]) -> Turn:
        chat = read_chat_request(asked.request_asked(body), self._settings)
        return make_turn(fmt, chat, self._settings, now=self._now(), id_seed="inspector")

    def _now(self) -> datetime.datetime:
        return datetime.datetime.fromtimestamp(self._clock())


async def _body(request: Request) -> dict[str, Any]:
    """The JSON of a request. Raises HTTPException, UsageError, LimitError."""
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if kind != "application/json":
        raise HTTPException(415, "Content-Type must be application/json")
    data = bytearray()
    async for piece in request.stream():
        data += piece
        if len(data) > asked.BODY_BYTES_MAX:
            raise LimitError("the request is too large", bound="body_bytes", limit=asked.BODY_BYTES_MAX)
    return read_body(bytes(data))


async def _in_thread(work: Callable[[], T]) -> T:
    """``work`` outside of the event loop."""
    return await anyio.to_thread.run_sync(work)
