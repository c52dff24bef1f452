"""How errors are told: the status, the headers and the body, in the shape that the path's protocol has for them."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from dragoman.errors import DragomanError, EngineError, LimitError, OutputError, TemplateError, UsageError

# Statuses of an engine that say that the request was wrong, and not the engine.
_REFUSALS = frozenset({400, 413, 422})


def status_of(error: Exception) -> int:
    """The HTTP status for an error. An engine that refuses a request says that the request is wrong; one that has too
    much to do says when to ask again."""
    if isinstance(error, EngineError):
        return 400 if error.status in _REFUSALS else 429 if error.status == 429 else error.status_hint
    if isinstance(error, RecursionError):
        return 400
    return error.status_hint if isinstance(error, DragomanError) else 500


def headers_of(error: Exception) -> dict[str, str]:
    """What the head of an answer says of an error."""
    after = error.retry_after if isinstance(error, EngineError) else None
    return {"retry-after": after} if after and after.isascii() and after.isprintable() else {}


def message_of(error: Exception) -> str:
    """What an error says to the outside. Of what is no DragomanError nothing is told but that it happened, and an
    engine's address is the operator's business."""
    if isinstance(error, EngineError) and error.address:
        return str(error).replace(error.address, "the engine's address")
    if isinstance(error, RecursionError):
        return "the request is nested too deep"
    return str(error) if isinstance(error, DragomanError) else "the server failed; its log says why"


def error_body(error: Exception) -> dict[str, Any]:
    """``{"error": ...}`` as OpenAI's clients read it."""
    param = error.param if isinstance(error, (UsageError, EngineError)) else None
    code = None
    if isinstance(error, LimitError):
        code = "context_length_exceeded" if error.bound == "context_tokens" else f"limit_{error.bound}"
    return error_of(message_of(error), kind=_error_kind(error), param=param, code=code)


def error_of(message: str, *, kind: str, param: str | None = None, code: str | None = None) -> dict[str, Any]:
    return {"error": {"message": message, "type": kind, "param": param, "code": code}}


# The path of a request -> how its errors look; OpenAI's shape where a protocol has none of its own.
_ANTHROPIC = re.compile(r"/messages(/count_tokens)?$")
_ANTHROPIC_TYPES: Mapping[int, str] = {
    400: "invalid_request_error",
    401: "authentication_error",
    403: "permission_error",
    404: "not_found_error",
    413: "request_too_large",
    429: "rate_limit_error",
    503: "overloaded_error",
    504: "timeout_error",
    529: "overloaded_error",
}


def shaped(path: str, status: int, body: Mapping[str, Any]) -> dict[str, Any]:
    """An error in OpenAI's shape as the protocol at ``path`` tells it."""
    if not _ANTHROPIC.search(path):
        return dict(body)
    return anthropic_error(status, body["error"]["message"])


def anthropic_error(status: int, message: str) -> dict[str, Any]:
    kind = _ANTHROPIC_TYPES.get(status, "invalid_request_error" if 400 <= status < 500 else "api_error")
    return {"type": "error", "error": {"type": kind, "message": message}}


def _error_kind(error: Exception) -> str:
    if isinstance(error, EngineError) and error.status in (*_REFUSALS, 429):
        return "rate_limit_error" if error.status == 429 else "invalid_request_error"
    kinds: dict[type[Exception], str] = {
        EngineError: "engine_error",
        OutputError: "model_error",
        TemplateError: "template_error",
        DragomanError: "invalid_request_error",
        RecursionError: "invalid_request_error",
    }
    return next((kind for each, kind in kinds.items() if isinstance(error, each)), "server_error")
