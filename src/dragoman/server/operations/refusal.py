"""Answers of the layers in front of the app: an error in the shape that the path's protocol has for it."""

from __future__ import annotations

from collections.abc import Mapping

from starlette.responses import JSONResponse
from starlette.types import Receive, Scope, Send

from dragoman.server.wire import failures


async def refuse(
    scope: Scope,
    receive: Receive,
    send: Send,
    status: int,
    message: str,
    *,
    kind: str = "invalid_request_error",
    code: str | None = None,
    headers: Mapping[str, str] | None = None,
) -> None:
    """Answer with ``status`` and end it. What the client still sends is not read, so the connection is closed."""
    body = failures.shaped(scope["path"], status, failures.error_of(message, kind=kind, code=code))
    closed = {"connection": "close"} if status in (408, 413, 503) else {}
    await JSONResponse(body, status_code=status, headers={**closed, **(headers or {})})(scope, receive, send)
