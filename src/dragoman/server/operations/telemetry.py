"""What can be known of a running server: numbers for Prometheus, and one log line for each request.

Rules of this file: nothing of a message's text, in numbers or lines. Labels come from closed sets: a path that is no
route counts as ``other``.
"""

from __future__ import annotations

import asyncio
import logging
import re
import secrets
from collections.abc import Collection

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, ProcessCollector, generate_latest
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from dragoman.engine import Chunk
from dragoman.format import ChatFormat
from dragoman.server.operations.context import CURRENT, RequestContext
from dragoman.server.operations.watched import Ending

ACCESS_LOG = logging.getLogger("dragoman.access")
METRICS_TYPE = "text/plain; version=0.0.4; charset=utf-8"

_ID = re.compile(rb"[A-Za-z0-9._:/+=-]{1,128}")
_QUIET = frozenset(("/health", "/ready", "/metrics"))  # asked every few seconds by machines
_REQUEST_SECONDS = (0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 120, 300)
_FIRST_SECONDS = (0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60)
_PIECE_SECONDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 5)


class Metrics:
    """The server's numbers, in a registry of their own. Is told of generations by :class:`WatchedEngine`."""

    def __init__(self) -> None:
        self.registry = own = CollectorRegistry()
        ProcessCollector(registry=own)
        self.requests = Counter(
            "dragoman_requests", "Requests that were answered", ["path", "method", "status"], registry=own
        )
        self.seconds = Histogram(
            "dragoman_request_seconds",
            "From a request's arrival to the end of its answer",
            ["path"],
            buckets=_REQUEST_SECONDS,
            registry=own,
        )
        self.in_flight = Gauge("dragoman_requests_in_flight", "Requests that have no complete answer", registry=own)
        self.refused = Counter("dragoman_refused", "Requests that were not let in", ["reason"], registry=own)
        self.queued = Histogram(
            "dragoman_queue_seconds", "How long a request waited for a place", buckets=_FIRST_SECONDS, registry=own
        )
        self.waiting = Gauge("dragoman_queue_waiting", "Requests in the queue", registry=own)
        self.places = Gauge("dragoman_places_taken", "Requests that are worked on", registry=own)
        self.running = Gauge("dragoman_generations_running", "Answers that the engine is writing", registry=own)
        self.generations = Counter("dragoman_generations", "Answers of the engine, by end", ["end"], registry=own)
        self.first = Histogram(
            "dragoman_first_token_seconds",
            "From a request's arrival to the first piece of its answer",
            buckets=_FIRST_SECONDS,
            registry=own,
        )
        self.interval = Histogram(
            "dragoman_token_interval_seconds", "Between two pieces of an answer", buckets=_PIECE_SECONDS, registry=own
        )
        self.prompt_tokens = Counter("dragoman_prompt_tokens", "Tokens of prompts", registry=own)
        self.completion_tokens = Counter("dragoman_completion_tokens", "Tokens that were written", registry=own)
        self.ready = Gauge("dragoman_ready", "1 while new requests are welcome", registry=own)
        self.proof = Gauge(
            "dragoman_proof",
            "1 for what is known of each property of the template",
            ["property", "state"],
            registry=own,
        )
        self.info = Gauge("dragoman_info", "1 for what is served", ["model", "template"], registry=own)

    def describe(self, fmt: ChatFormat, model: str) -> None:
        """What is served, and what its template's proof says."""
        self.info.labels(model, fmt.template_hash).set(1)
        for name, status in fmt.proof.items():
            self.proof.labels(name, status.value).set(1)

    def exposition(self) -> bytes:
        """The numbers in Prometheus' text format."""
        return generate_latest(self.registry)

    # Observer of generations.

    def began(self, context: RequestContext | None, now: float) -> None:
        self.running.inc()
        if context is not None:
            context.generations += 1

    def piece(self, chunk: Chunk, now: float, last: float, *, first: bool) -> None:
        if not first:
            self.interval.observe(now - last)
            return
        context = CURRENT.get()
        self.first.observe(now - (last if context is None else context.arrived))
        if context is not None and context.first_token is None:
            context.first_token = now - context.arrived

    def ended(self, ending: Ending, prompt_tokens: int, completion_tokens: int) -> None:
        self.running.dec()
        self.generations.labels(ending).inc()
        self.prompt_tokens.inc(prompt_tokens)
        self.completion_tokens.inc(completion_tokens)


class Telemetry:
    """ASGI: gives each request an id and its context, counts it, and logs it when it is over."""

    def __init__(
        self, app: ASGIApp, metrics: Metrics, paths: Collection[str], *, deadline_seconds: float | None = None
    ) -> None:
        """paths: the routes, by which requests are counted."""
        self._app = app
        self._metrics = metrics
        self._paths = frozenset(paths)
        self._deadline = deadline_seconds

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        now = asyncio.get_running_loop().time
        arrived = now()
        deadline = None if self._deadline is None else arrived + self._deadline
        context = RequestContext(_request_id(scope), arrived, deadline)
        name = (b"x-request-id", context.id.encode())
        status = 0
        complete = False

        async def sending(message: Message) -> None:
            nonlocal status, complete
            if message["type"] == "http.response.start":
                status = message["status"]
                message["headers"] = [*message.get("headers", ()), name]
            elif message["type"] == "http.response.body":
                complete = not message.get("more_body", False)
            await send(message)

        token = CURRENT.set(context)
        self._metrics.in_flight.inc()
        failed = False
        try:
            await self._app(scope, receive, sending)
        except Exception:
            failed = True
            raise
        finally:
            CURRENT.reset(token)
            self._metrics.in_flight.dec()
            left = not complete and not failed
            self._note(scope, context, status, now() - arrived, left=left)

    def _note(self, scope: Scope, context: RequestContext, status: int, seconds: float, *, left: bool) -> None:
        path: str = scope["path"]
        label = path if path in self._paths else "other"
        # 499 is what proxies write of a client that did not wait.
        shown = status or (499 if left else 500)
        self._metrics.requests.labels(label, scope["method"], str(shown)).inc()
        self._metrics.seconds.labels(label).observe(seconds)
        level = logging.DEBUG if path in _QUIET and shown < 400 else logging.INFO
        if not ACCESS_LOG.isEnabledFor(level):
            return
        known = {
            "request_id": context.id,
            "method": scope["method"],
            "path": path,
            "status": shown,
            "seconds": round(seconds, 4),
            "waited_seconds": round(context.waited, 4) or None,
            "first_token_seconds": None if context.first_token is None else round(context.first_token, 4),
            "prompt_tokens": context.prompt_tokens or None,
            "completion_tokens": context.completion_tokens or None,
            "client": context.client,
            "address": (scope.get("client") or [None])[0],
            "left": left or None,
        }
        ACCESS_LOG.log(
            level, "request", extra={"known": {name: value for name, value in known.items() if value is not None}}
        )


def _request_id(scope: Scope) -> str:
    """The client's own, where it is short and plain, so that nobody writes into a log through it."""
    given = dict(scope["headers"]).get(b"x-request-id", b"")
    return given.decode() if _ID.fullmatch(given) else secrets.token_hex(8)
