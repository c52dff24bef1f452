"""How the server logs: one line for each event, as JSON for machines or as words for people."""

from __future__ import annotations

import json
import logging
import time
import traceback
from typing import Any, Literal

from dragoman.server.operations.context import CURRENT

LogFormat = Literal["json", "text"]


class LineFormatter(logging.Formatter):
    """A record as one line. ``known``: the fields of a record made with ``extra={"known": {...}}``; ``failure``, in
    the same way: an error of which the fields tell all but its text.

    An exception is told by its type and where it was raised. Its text may hold what a user wrote, so it is told with
    ``messages`` only.
    """

    def __init__(self, form: LogFormat, *, messages: bool = False) -> None:
        super().__init__()
        self._form = form
        self._messages = messages

    def format(self, record: logging.LogRecord) -> str:
        fields = self._fields(record)
        if self._form == "json":
            return json.dumps(fields, ensure_ascii=True, default=str)
        head = f"{fields.pop('time')} {fields.pop('level')} {fields.pop('logger')}: {fields.pop('event')}"
        trace = fields.pop("trace", None)
        words = [head, *(f"{name}={_word(value)}" for name, value in fields.items())]
        return " ".join(words) + ("" if trace is None else "\n  " + "\n  ".join(trace))

    def _fields(self, record: logging.LogRecord) -> dict[str, Any]:
        stamp = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(record.created))
        fields: dict[str, Any] = {
            "time": f"{stamp}.{int(record.msecs):03d}Z",
            "level": record.levelname.lower(),
            "logger": record.name,
            "event": record.getMessage(),
        }
        context = CURRENT.get()
        if context is not None:
            fields["request_id"] = context.id
        known = getattr(record, "known", None)
        if isinstance(known, dict):
            fields |= known
        failure = getattr(record, "failure", None)
        if self._messages and failure is not None:
            fields["error_text"] = str(failure)
        error = record.exc_info[1] if record.exc_info else None
        if error is not None:
            fields["error"] = type(error).__name__
            if self._messages:
                fields["error_text"] = str(error)
            frames = traceback.extract_tb(error.__traceback__)
            fields["trace"] = [f"{frame.filename}:{frame.lineno} {frame.name}" for frame in frames]
        return fields


def configure(form: LogFormat, level: str, *, messages: bool = False) -> None:
    """Set the process's logging to one handler on stderr. For programs, not for libraries."""
    handler = logging.StreamHandler()
    handler.setFormatter(LineFormatter(form, messages=messages))
    logging.basicConfig(level=level.upper(), handlers=[handler], force=True)
    # Its lines are about bytes on the wire, and uvicorn's access lines are ours told twice.
    for name in ("httpx", "httpcore", "uvicorn.access", "asyncio"):
        logging.getLogger(name).setLevel(logging.WARNING)


def _word(value: Any) -> str:
    text = str(value)
    return json.dumps(text) if not text or any(char.isspace() or char in '"=' for char in text) else text
