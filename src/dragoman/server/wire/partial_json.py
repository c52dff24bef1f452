"""JSON of which more may come: how far a text is the beginning of a JSON object, and what a cut-off one says."""

from __future__ import annotations

import json
import math
import re
from typing import Any, Final

# Levels of an object: clients' parsers give up behind 200.
DEPTH_MAX: Final = 128
# Characters of one number, which is read anew with every piece of it.
NUMBER_MAX: Final = 1_000

_WHITE = " \t\r\n"
_SPACE = re.compile(r"[ \t\r\n]*")
# Half a surrogate pair is no character: strict parsers refuse it, and no answer could be written with it.
_STRING = re.compile(
    r'"[^"\\\x00-\x1f]*(?:\\(?:["\\/bfnrt]|u(?![dD][89a-fA-F])[0-9a-fA-F]{4}'
    r'|u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2})[^"\\\x00-\x1f]*)*'
)
_STRING_END = re.compile(
    r"\\(?:u(?:[0-9a-fA-F]{0,3}|[dD][89abAB][0-9a-fA-F]{2}(?:\\(?:u(?:[dD](?:[c-fC-F][0-9a-fA-F]?)?)?)?)?))?\Z"
)
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

    A fault is also what readers of JSON differ about: half a surrogate pair, a number that no double holds, more than
    ``DEPTH_MAX`` levels. A number waits for what follows it, and an escape for its end, as a part of one says another
    thing or none.
    whole: where in the text that came last, white space in front of the object not counted, an object could be closed;
    ``closing`` does that there.
    """

    def __init__(self) -> None:
        self._stack: list[str] = []
        self._state = "start"  # start, first key, key, colon, first value, value, comma, end
        self._open = ""  # the beginning of a token that goes on
        self._held = 0  # characters at the end of ``_open`` that have not been let through
        self.broken = False
        self.whole = 0

    @property
    def closing(self) -> str:
        """The marks that close what is open. Brackets open and close in whole places only, so they fit the last."""
        return "".join(_CLOSER[mark] for mark in reversed(self._stack))

    @property
    def complete(self) -> bool:
        """One whole object came, and nothing else."""
        return self._state == "end" and not self.broken

    def push(self, piece: str) -> str:
        """What may be sent now."""
        if self._state == "start":  # white space alone begins nothing that clients could read
            piece = piece.lstrip(_WHITE)
        if self.broken or not piece:
            return ""
        text, sent, at = self._open + piece, len(self._open) - self._held, 0
        while True:
            at = _end(_SPACE, text, at)
            if at >= len(text):
                self._open, self._held = "", 0
                return text[sent:]
            after = self._token(text, at)
            if after is None:
                self.broken = True
                return text[sent:at]
            if after < 0:  # the text ends inside a token
                self._open, self._held = _tail(text[at:])
                return text[sent : len(text) - self._held]
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

    def _nest(self, mark: str, at: int) -> int | None:
        if len(self._stack) == DEPTH_MAX:
            return None
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
        if end - at > NUMBER_MAX:
            return None
        if end == len(text) or _SCALAR_PART.fullmatch(text, at):
            return -1
        if found is None or text[end] not in ",]} \t\r\n" or _is_too_large(found.group()):
            return None
        self._state = "comma"
        return end


def _end(pattern: re.Pattern[str], text: str, at: int) -> int:
    found = pattern.match(text, at)
    return found.end() if found else at


def _is_too_large(scalar: str) -> bool:
    return scalar[0] not in "tfn" and math.isinf(float(scalar))


def _tail(token: str) -> tuple[str, int]:
    """Enough of an open token to go on with, of a string the opening quote and an open escape; and how much of its
    end has to wait."""
    if not token.startswith('"'):
        return token, len(token)
    end = _end(_STRING, token, 0)
    return '"' + token[end:], len(token) - end


def is_object(text: str) -> bool:
    """True: the text is one whole object, and ``ObjectPrefix`` lets all of it through."""
    prefix = ObjectPrefix()
    prefix.push(text)
    return prefix.complete


def read_object(text: str) -> dict[str, Any]:
    """The object that the text writes; of one that was cut off or broken the members that are whole."""
    text = text.lstrip(_WHITE)
    prefix = ObjectPrefix()
    prefix.push(text)
    value = json.loads((text[: prefix.whole] + prefix.closing) or "{}")
    return value if isinstance(value, dict) else {}
