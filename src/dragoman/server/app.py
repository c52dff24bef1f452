"""The HTTP server: an ASGI app over one chat format and one engine. The table of routes is :func:`doors`."""

from __future__ import annotations

import secrets
import time
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from typing import Any

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from dragoman.engine import NO_SETTINGS, Engine, ModelSettings
from dragoman.errors import DragomanError
from dragoman.format import ChatFormat
from dragoman.server import bodies
from dragoman.server.openapi import Door, document
from dragoman.server.operations.layers import Operations
from dragoman.server.service import Service
from dragoman.server.wire import failures
from dragoman.server.wire.replies import failure


def doors(service: Service) -> list[Door]:
    """Every route that clients use, as it is served and as the OpenAPI document tells of it."""
    return [
        Door("/v1/chat/completions", service.chat, "Answer a chat", bodies.CHAT, streams=True),
        Door("/chat/completions", service.chat, "Answer a chat", bodies.CHAT, streams=True),
        Door("/v1/chat/completions/input_tokens", service.count_chat, "Count a chat's tokens", bodies.CHAT),
        Door("/v1/responses", service.responses, "Answer input items", bodies.RESPONSES, streams=True),
        Door("/v1/responses/input_tokens", service.count_responses, "Count the input's tokens", bodies.RESPONSES),
        Door("/v1/messages", service.messages, "Answer messages", bodies.MESSAGES, streams=True),
        Door("/v1/messages/count_tokens", service.count_messages, "Count the messages' tokens", bodies.MESSAGES),
        Door("/v1/completions", service.completions, "Write on from a raw prompt", bodies.COMPLETIONS, streams=True),
        Door("/v1/models", service.models, "The model"),
        Door("/v1/models/{model:path}", service.one_model, "The model, if it has this name"),
        Door("/models", service.models, "The model"),
        Door("/health", service.health, "Does the engine answer"),
        Door("/props", service.props, "The template, what was learned from it and what was proven"),
        Door("/apply-template", service.apply_template, "The prompt of a chat, and its parts", bodies.CHAT),
        Door("/tokenize", service.tokenize, "Token ids of a text", bodies.TOKENIZE),
        Door("/detokenize", service.detokenize, "The text of token ids", bodies.DETOKENIZE),
    ]


def doors_of(operations: Operations) -> list[Door]:
    """The routes that the operating side serves around the app, as the document tells of them."""
    return [
        Door("/ready", operations.ready, "Is new work welcome"),
        Door("/metrics", operations.exposition, "Numbers for Prometheus", text=True),
    ]


def create_app(
    fmt: ChatFormat,
    engine: Engine,
    *,
    model: str | None = None,
    settings: ModelSettings = NO_SETTINGS,
    clock: Callable[[], float] = time.time,
    new_id: Callable[[], str] = lambda: secrets.token_hex(12),
    beside: Sequence[Door] = (),
) -> Starlette:
    """The server as an ASGI app. The app closes ``engine`` when it shuts down.

    model: the name that clients see; None: the engine's own. clock: seconds since 1970, also for templates that write
    the date. new_id: what makes an answer's id unique; its protocol writes ``chatcmpl-`` and the like in front.
    beside: routes that somebody else serves around this app, for the OpenAPI document.
    """
    service = Service(fmt, engine, model=model, settings=settings, clock=clock, new_id=new_id)

    @asynccontextmanager
    async def lifespan(_: Starlette) -> AsyncIterator[None]:
        try:
            yield
        finally:
            await engine.aclose()

    table = doors(service)
    told = document((*table, *beside))

    async def openapi(_: Request) -> Response:
        return JSONResponse(told)

    routes = [Route(door.path, door.handler, methods=[door.method]) for door in table]
    routes.append(Route("/openapi.json", openapi))
    handlers: dict[Any, Any] = {
        DragomanError: _failed,
        RecursionError: _failed,
        HTTPException: _refused,
        Exception: _failed,
    }
    return Starlette(routes=routes, exception_handlers=handlers, lifespan=lifespan)


async def _failed(request: Request, error: Exception) -> Response:
    return failure(error, request.url.path)


async def _refused(request: Request, error: Exception) -> Response:
    """No such route, or not with this method."""
    assert isinstance(error, HTTPException)
    message = f"{request.method} {request.url.path}: {error.detail}"
    body = failures.error_of(message, kind="invalid_request_error")
    shaped = failures.shaped(request.url.path, error.status_code, body)
    return JSONResponse(shaped, status_code=error.status_code, headers=error.headers)
