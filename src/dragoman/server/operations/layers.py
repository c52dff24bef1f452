"""What a server needs beside its answers: keys, bounds, a queue, deadlines, numbers, and a graceful end.

:class:`Operations` puts layers around the app and a watch around the engine. From outside to inside: telemetry, CORS
(off unless asked for), keys, admission. All are plain ASGI, so no stream is held back.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field

from starlette.applications import Starlette
from starlette.middleware.cors import CORSMiddleware
from starlette.responses import JSONResponse, Response
from starlette.routing import Route
from starlette.types import ASGIApp, Receive, Scope, Send

from dragoman.engine import Engine
from dragoman.errors import EngineError
from dragoman.format import ChatFormat
from dragoman.server.operations.access import ApiKeys
from dragoman.server.operations.admission import Admission, AdmissionSettings
from dragoman.server.operations.telemetry import METRICS_TYPE, Metrics, Telemetry
from dragoman.server.operations.watched import WatchedEngine

_POLL_SECONDS = 0.02


@dataclass(frozen=True, slots=True)
class OperationsSettings:
    """api_keys: who may ask; empty: anybody.  deadline_seconds: of one request, its waiting included; None: none.

    cors_origins: web pages of these origins may ask; ``*``: of any.
    """

    api_keys: tuple[str, ...] = ()
    admission: AdmissionSettings = field(default_factory=AdmissionSettings)
    deadline_seconds: float | None = None
    cors_origins: tuple[str, ...] = ()


class Operations:
    """The operating side of one server. Make it, watch the engine, wrap the app that serves the watched engine."""

    def __init__(self, settings: OperationsSettings | None = None) -> None:
        self.settings = settings or OperationsSettings()
        self.metrics = Metrics()
        self._admission: Admission | None = None
        self._engine: WatchedEngine | None = None
        self._draining = False
        self._hurried = False

    def watch(self, engine: Engine) -> WatchedEngine:
        self._engine = WatchedEngine(engine, self.metrics, deadline_seconds=self.settings.deadline_seconds)
        return self._engine

    def wrap(self, app: Starlette, *, fmt: ChatFormat | None = None, model: str = "") -> ASGIApp:
        """The app with all layers, and the routes ``/metrics`` and ``/ready``. Raises UsageError for a bad key.

        fmt, model: what is served, for the numbers.
        """
        if fmt is not None:
            self.metrics.describe(fmt, model)
        self.metrics.ready.set_function(lambda: float(not self._draining))
        routes = [Route("/metrics", self.exposition), Route("/ready", self.ready)]
        inner: ASGIApp = _Beside(Starlette(routes=routes), app, ("/metrics", "/ready"))
        self._admission = admission = Admission(
            inner,
            self.settings.admission,
            on_refused=lambda reason: self.metrics.refused.labels(reason).inc(),
            on_waited=self.metrics.queued.observe,
        )
        self.metrics.waiting.set_function(lambda: float(admission.places.waiting))
        self.metrics.places.set_function(lambda: float(admission.places.taken))
        outer: ASGIApp = admission
        if self.settings.api_keys:
            outer = ApiKeys(outer, self.settings.api_keys)
        if self.settings.cors_origins:
            outer = CORSMiddleware(
                outer,
                allow_origins=self.settings.cors_origins,
                allow_methods=("GET", "POST"),
                allow_headers=("*",),
                expose_headers=("x-request-id", "retry-after"),
            )
        known = {route.path for route in (*app.routes, *routes) if isinstance(route, Route) and "{" not in route.path}
        return Telemetry(outer, self.metrics, known, deadline_seconds=self.settings.deadline_seconds)

    @property
    def busy(self) -> int:
        """Requests that are worked on or wait."""
        return 0 if self._admission is None else self._admission.places.taken + self._admission.places.waiting

    def drain(self) -> None:
        """From now on ``/ready`` says no and new work is refused with 503; what was begun goes on."""
        self._draining = True
        if self._admission is not None:
            self._admission.draining = True

    def hurry(self) -> None:
        """What was begun is not waited for any longer."""
        self._hurried = True

    async def drained(self, seconds: float) -> bool:
        """Wait until all that was begun is done, at most so long; what is left then ends with an error of its own.

        True: nothing had to be ended.
        """
        self.drain()
        end = asyncio.get_running_loop().time() + seconds
        while self.busy and not self._hurried and asyncio.get_running_loop().time() < end:  # noqa: ASYNC110 - once
            await asyncio.sleep(_POLL_SECONDS)
        whole = not self.busy
        if self._engine is not None:
            self._engine.abort("the server is shutting down")
        return whole

    async def exposition(self, _: object) -> Response:
        """``GET /metrics``: the numbers, for Prometheus."""
        return Response(self.metrics.exposition(), headers={"content-type": METRICS_TYPE})

    async def ready(self, _: object) -> Response:
        """``GET /ready``: 200 while new work is welcome and the engine answers."""
        if self._draining:
            return JSONResponse({"status": "draining"}, status_code=503)
        try:
            if self._engine is not None:
                await self._engine.info()
        except EngineError as error:
            return JSONResponse({"status": "no engine", "reason": str(error)}, status_code=503)
        return JSONResponse({"status": "ready"})


class _Beside:
    """Two apps as one: ``paths`` go to the first, all else to the second, the lifespan included."""

    def __init__(self, first: ASGIApp, second: ASGIApp, paths: tuple[str, ...]) -> None:
        self._first = first
        self._second = second
        self._paths = paths

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        beside = scope["type"] == "http" and scope["path"] in self._paths
        await (self._first if beside else self._second)(scope, receive, send)
