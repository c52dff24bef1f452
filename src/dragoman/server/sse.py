"""Server-sent events, written: each event is one ``data:`` line of ASCII JSON and an empty line."""

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


def event(data: Mapping[str, Any]) -> bytes:
    """One event. ASCII, since some clients end lines at U+2028 and U+0085 too."""
    return b"data: " + json.dumps(data, ensure_ascii=True, separators=(",", ":")).encode("ascii") + b"\n\n"
