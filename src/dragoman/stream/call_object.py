"""The members of a call's object that are neither name nor arguments nor id: what a model wrote beside them.

They are the call region's own text: it is kept with a hole for each region inside, and looked at when the call is over.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Collection
from typing import Final

from dragoman.stream.json_text import WHITE, quoted

# JSON text for a region inside the object: no model writes it, as it is no JSON inside a string.
_HOLE: Final = "\x00"
_IN_QUOTES: Final = frozenset({"name.json", "id.json", "args.json"})
_REGIONS: Final = frozenset({"name.json", "id", "id.json", "args", "args.json"})
# Objects inside objects that are followed to the name; formats have at most two.
_DEPTH: Final = 8
_DECODER: Final = json.JSONDecoder(strict=False)

Member = tuple[str, str]  # key, JSON text as written


class CallObject:
    """The object of one call. constants: keys that the format writes itself, of which nothing need be said."""

    def __init__(self, constants: Collection[str]) -> None:
        self._constants = frozenset(constants)
        self._text: list[str] = []
        self._named = False
        self._around: list[Member] | None = None  # members of outer objects
        self._beside: list[Member] = []  # members of the object that holds the name

    def open(self, tag: str) -> None:
        """A region inside the call starts."""
        if tag in _REGIONS:
            self._named |= tag == "name.json"
            self._text.append(_HOLE if tag in _IN_QUOTES else f'"{_HOLE}"')

    def text(self, text: str) -> None:
        """Text of the call outside of all regions."""
        self._text.append(text)

    def take(self, declared: Callable[[str], bool]) -> str:
        """The members beside the name that are ``declared``, as the JSON text of one object; empty where none is.

        What was taken is no longer unread.
        """
        self._look()
        found = {key: value for key, value in reversed(self._beside) if declared(key)}
        taken = [(key, value) for key, value in self._beside if found.get(key) is value]
        self._beside = [member for member in self._beside if member not in taken]
        written = ", ".join(f"{quoted(key)}: {value}" for key, value in taken)
        return f"{{{written}}}" if taken else ""

    def unread(self) -> list[Member]:
        """The members that say nothing of the call, the last one perhaps cut off. null says nothing anyway."""
        self._look()
        members = (*(self._around or ()), *self._beside)
        return [
            (key, value)
            for key, value in members
            if key not in self._constants and value != "null" and (key, value) != ("type", '"function"')
        ]

    def _look(self) -> None:
        if self._around is None:
            self._around = []
            text = "".join(self._text)
            if self._named:
                at = text.find("{", 0, text.find(_HOLE))
                if at >= 0:
                    self._descend(text, at, 0)

    def _descend(self, text: str, at: int, depth: int) -> None:
        """Sort the members of the object at ``at``; one that holds the name below is looked into."""
        members, rest = _members(text, at)
        spans = [(start, end) for _, start, end in members] + ([] if rest is None else [(rest[1], len(text))])
        below = next((start for start, end in spans if text[start] == "{" and _HOLE in text[start:end]), None)
        others = [(key, text[start:end]) for key, start, end in members if _HOLE not in text[start:end]]
        if rest is not None and _HOLE not in text[rest[1] :]:
            others.append((rest[0], text[rest[1] :]))
        if below is None or depth >= _DEPTH:
            self._beside = others
        else:
            assert self._around is not None
            self._around += others
            self._descend(text, below, depth + 1)


def _members(text: str, at: int) -> tuple[list[tuple[str, int, int]], tuple[str, int] | None]:
    """(key, first character of the value, character behind it) of the object at ``at``, as far as it is one; and
    the key of a value that is not whole, with its first character."""
    found: list[tuple[str, int, int]] = []
    rest: tuple[str, int] | None = None
    try:
        at = _next(text, at + 1)
        while text[at] == '"':
            key, at = _DECODER.raw_decode(text, at)
            start = _next(text, _next(text, at) + 1)
            rest = (key, start) if start < len(text) else None
            _, end = _DECODER.raw_decode(text, start)
            rest = None
            found.append((key, start, end))
            at = _next(text, end)
            if text[at] == ",":
                at = _next(text, at + 1)
    except (ValueError, IndexError, RecursionError):
        return found, rest
    return found, rest


def _next(text: str, at: int) -> int:
    """The next character that is no white space."""
    while at < len(text) and text[at] in WHITE:
        at += 1
    return at
