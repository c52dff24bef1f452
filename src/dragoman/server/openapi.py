"""The OpenAPI document of the server, from the same table as its routes and the same tables as its requests."""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from importlib.metadata import version
from typing import Any

from starlette.requests import Request

_SHAPES = {
    "Error": {
        "type": "object",
        "description": "OpenAI's shape, or Anthropic's under /v1/messages.",
        "properties": {
            "error": {
                "type": "object",
                "properties": {"message": {"type": "string"}, "type": {"type": "string"}},
                "required": ["message", "type"],
            }
        },
        "required": ["error"],
    }
}
_ERROR = {"content": {"application/json": {"schema": {"$ref": "#/components/schemas/Error"}}}}
_PARAMETER = re.compile(r"\{(\w+)(?::\w+)?\}")


@dataclass(frozen=True, slots=True)
class Door:
    """One route. body: the JSON Schema of its request; none: it is a GET. streams: on ``stream: true``.

    text: what it answers is plain text, no JSON.
    """

    path: str
    handler: Callable[[Request], Awaitable[Any]]
    summary: str
    body: Mapping[str, Any] | None = None
    streams: bool = False
    text: bool = False

    @property
    def method(self) -> str:
        return "GET" if self.body is None else "POST"


def document(doors: Sequence[Door]) -> dict[str, Any]:
    """OpenAPI 3.1 of the routes."""
    paths: dict[str, Any] = {}
    for door in doors:
        paths.setdefault(_PARAMETER.sub(r"{\1}", door.path), {})[door.method.lower()] = _operation(door)
    return {
        "openapi": "3.1.0",
        "info": {"title": "dragoman", "version": version("dragoman")},
        "paths": paths,
        "components": {"schemas": _SHAPES},
    }


def _operation(door: Door) -> dict[str, Any]:
    content: dict[str, Any] = {"application/json": {"schema": {"type": "object"}}}
    if door.text:
        content = {"text/plain": {"schema": {"type": "string"}}}
    if door.streams:
        content["text/event-stream"] = {"schema": {"type": "string"}}
    responses = {
        "200": {"description": "The answer", "content": content},
        "4XX": {"description": "The request is wrong; the error says where", **_ERROR},
        "5XX": {"description": "The engine or the server failed", **_ERROR},
    }
    out: dict[str, Any] = {"summary": door.summary, "responses": responses}
    parameters = [
        {"name": name, "in": "path", "required": True, "schema": {"type": "string", "minLength": 1}}
        for name in _PARAMETER.findall(door.path)
    ]
    if parameters:
        out["parameters"] = parameters
    if door.body is not None:
        out["requestBody"] = {"required": True, "content": {"application/json": {"schema": door.body}}}
    return out
