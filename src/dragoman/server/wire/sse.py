"""Server-sent events, written: each event is one ``data:`` line of ASCII JSON and an empty line, a name before it
where the protocol names its events."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

HEADERS = {
    "content-type": "text/event-stream; charset=utf-8",
    "cache-control": "no-cache",
    "x-accel-buffering": "no",  # nginx would collect the pieces otherwise
}
DONE = b"data: [DONE]\n\n"
PING = b": ping\n\n"  # a comment: clients skip it

# One encoder for all events: json.dumps makes a new one for each call with options.
_encode = json.JSONEncoder(ensure_ascii=True, separators=(",", ":")).encode


def event(data: Mapping[str, Any]) -> bytes:
    """One event. ASCII, since some clients end lines at U+2028 and U+0085 too."""
    return b"data: " + _encode(data).encode("ascii") + b"\n\n"


def named(data: Mapping[str, Any]) -> bytes:
    """One event under the name that its ``type`` gives."""
    name: str = data["type"]
    return b"event: " + name.encode("ascii") + b"\n" + event(data)
