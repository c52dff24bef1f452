"""JSON of which more may come: how far a text is the beginning of a JSON object, and what a cut-off one says."""

from __future__ import annotations

import json
import re
from typing import Any

_SPACE = re.compile(r"[ \t\r\n]*")
_STRING = re.compile(r'"[^"\\\x00-\x1f]*(?:\\(?:["\\/bfnrt]|u[0-9a-fA-F]{4})[^"\\\x00-\x1f]*)*')
_STRING_END = re.compile(r"\\(?:u[0-9a-fA-F]{0,3})?\Z")
_SCALAR = re.compile(r"-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][-+]?[0-9]+)?|true|false|null")
_SCALAR_PART = re.compile(
    r"(?:-?(?:0|[1-9][0-9]*)\.|-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?[eE][-+]?|-|t|tr|tru|f|fa|fal|fals|n|nu|nul)\Z"
)

_CLOSER = {"{": "}", "[": "]"}
_CLOSABLE = frozenset({"first key", "first value", "comma"})
# States in which closing marks alone are missing.
_WHOLE = frozenset({"first key", "first value", "comma", "end"})


class ObjectPrefix:
    """Text in pieces; lets through what keeps the whole the beginning of one JSON object, and nothing after a fault.

    whole: where in the text that came last an object could be closed; ``closing`` does that there.
    """

    def __init__(self) -> None:
        self._stack: list[str] = []
        self._state = "start"  # start, first key, key, colon, first value, value, comma, end
        self._open = ""  # the beginning of a token that has been let through
        self.broken = False
        self.whole = 0

    @property
    def closing(self) -> str:
        """The marks that close what is open. Brackets open and close in whole places only, so they fit the last."""
        return "".join(_CLOSER[mark] for mark in reversed(self._stack))

    def push(self, piece: str) -> str:
        """The part of the piece that may be sent."""
        if self.broken:
            return ""
        text, skip, at = self._open + piece, len(self._open), 0
        while True:
            at = _end(_SPACE, text, at)
            if at >= len(text):
                self._open = ""
                return piece
            after = self._token(text, at)
            if after is None:
                self.broken = True
                return text[skip:at]
            if after < 0:  # the text ends inside a token
                self._open = _tail(text[at:])
                return piece
            at = after
            if self._state in _WHOLE:
                self.whole = at

    def _token(self, text: str, at: int) -> int | None:
        """Where the token ends that begins at ``at``; -1: it does not end in this text; None: none may begin here."""
        mark, state = text[at], self._state
        if state in ("key", "first key") and mark == '"':
            return self._string(text, at, "colon")
        if state in ("value", "first value"):
            if mark == '"':
                return self._string(text, at, "comma")
            if mark in "{[":
                return self._nest(mark, at)
            if not (mark == "]" and state == "first value"):
                return self._scalar(text, at)
        if state == "start" and mark == "{":
            return self._nest(mark, at)
        return self._mark(mark, at)

    def _mark(self, mark: str, at: int) -> int | None:
        state = self._state
        if state == "colon" and mark == ":":
            self._state = "value"
        elif state == "comma" and mark == ",":
            self._state = "key" if self._stack[-1] == "{" else "value"
        elif state in _CLOSABLE and mark == _CLOSER[self._stack[-1]]:
            self._stack.pop()
            self._state = "comma" if self._stack else "end"
        else:
            return None
        return at + 1

    def _nest(self, mark: str, at: int) -> int:
        self._stack.append(mark)
        self._state = "first key" if mark == "{" else "first value"
        return at + 1

    def _string(self, text: str, at: int, then: str) -> int | None:
        end = _end(_STRING, text, at)
        if end < len(text) and text[end] == '"':
            self._state = then
            return end + 1
        return -1 if end == len(text) or _STRING_END.fullmatch(text, end) else None

    def _scalar(self, text: str, at: int) -> int | None:
        found = _SCALAR.match(text, at)
        end = found.end() if found else at
        if end == len(text) or _SCALAR_PART.fullmatch(text, at):
            return -1
        if found is None or text[end] not in ",]} \t\r\n":
            return None
        self._state = "comma"
        return end


def _end(pattern: re.Pattern[str], text: str, at: int) -> int:
    found = pattern.match(text, at)
    return found.end() if found else at


def _tail(token: str) -> str:
    """Enough of an open token to go on with: of a string the opening quote and an open escape."""
    if not token.startswith('"'):
        return token
    found = _STRING_END.search(token)
    return '"' + (found.group() if found and _is_open_escape(token, found.start()) else "")


def _is_open_escape(token: str, at: int) -> bool:
    """True: the backslash at ``at`` is not itself escaped."""
    return (len(token[: at + 1]) - len(token[: at + 1].rstrip("\\"))) % 2 == 1


def read_object(text: str) -> dict[str, Any]:
    """The object that the text writes; of one that was cut off or broken the members that are whole."""
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        value = _whole_members(text)
    return value if isinstance(value, dict) else {}


def _whole_members(text: str) -> Any:
    prefix = ObjectPrefix()
    prefix.push(text)
    try:
        return json.loads(text[: prefix.whole] + prefix.closing)
    except (ValueError, RecursionError):
        return None
