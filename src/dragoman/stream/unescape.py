"""Escapes undone as the text comes: those inside a JSON string, and spellings such as ``&amp;``."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Final

_SHORT: Final = {'"': '"', "\\": "\\", "/": "/", "b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t"}
_ESCAPE: Final = re.compile(r"\\(?:u([0-9a-fA-F]{4})|(.))", re.DOTALL)
# An escape that more text may complete.
_UNFINISHED: Final = re.compile(r"\\(?:u[0-9a-fA-F]{0,3})?\Z")
_REPLACEMENT: Final = "\ufffd"


class JsonUnescaper:
    """Text between the quotes of a JSON string, in any pieces -> the string. Never raises.

    Escapes that JSON does not know stay as they are written; half a surrogate pair becomes U+FFFD.
    Held: an unfinished escape, and a high surrogate until what follows is known.
    """

    __slots__ = ("_held", "_high")

    def __init__(self) -> None:
        self._held = ""
        self._high = 0  # a high surrogate that waits for its low one; 0: none

    def feed(self, text: str) -> str:
        text = self._held + text
        cut = _unfinished_at(text)
        self._held = text[cut:]
        return self._decode(text[:cut])

    def finish(self) -> str:
        """What is held, as well as it can be read: half an escape stays as it is written."""
        held, self._held = self._held, ""
        rest = self._decode(held) + (_REPLACEMENT if self._high else "")
        self._high = 0
        return rest

    def _decode(self, text: str) -> str:
        out: list[str] = []
        at = 0
        for match in _ESCAPE.finditer(text):
            self._plain(text[at : match.start()], out)
            at = match.end()
            if match[1]:
                self._unit(int(match[1], 16), out)
            else:
                self._plain(_SHORT.get(match[2], match[0]), out)
        self._plain(text[at:], out)
        return "".join(out)

    def _plain(self, text: str, out: list[str]) -> None:
        if text and self._high:
            out.append(_REPLACEMENT)
            self._high = 0
        out.append(text)

    def _unit(self, unit: int, out: list[str]) -> None:
        """One UTF-16 code unit that was written as ``\\uXXXX``."""
        high, self._high = self._high, 0
        if 0xDC00 <= unit <= 0xDFFF:
            out.append(chr(0x10000 + (high - 0xD800) * 0x400 + (unit - 0xDC00)) if high else _REPLACEMENT)
            return
        if high:
            out.append(_REPLACEMENT)
        if 0xD800 <= unit <= 0xDBFF:
            self._high = unit
        else:
            out.append(chr(unit))


def _unfinished_at(text: str) -> int:
    """Where an escape starts that the end of the text leaves unfinished; the length where there is none."""
    match = _UNFINISHED.search(text, max(0, len(text) - 5))
    if match is None:
        return len(text)
    # A backslash that an odd run of backslashes precedes is itself escaped.
    start = match.start()
    run = start
    while run and text[run - 1] == "\\":
        run -= 1
    return len(text) if (start - run) % 2 else start


def unescape(text: str) -> str:
    """The whole inside of a JSON string, decoded."""
    reader = JsonUnescaper()
    return reader.feed(text) + reader.finish()


class SpellingUnescaper:
    """Text in which some characters are spelled otherwise, in any pieces -> the text that is meant. Never raises.

    pairs: (character, its spelling); what is none of the spellings stays as it is. except_json: text that begins like
    an object, array or quoted string has none. Held: what may be the beginning of one.
    """

    __slots__ = ("_except_json", "_held", "_longest", "_meant", "_pattern")

    def __init__(self, pairs: Iterable[tuple[str, str]], *, except_json: bool = False) -> None:
        self._meant = {written: char for char, written in pairs}
        spellings = sorted(self._meant, key=len, reverse=True)
        self._longest = len(spellings[0]) if spellings else 0
        self._pattern = re.compile("|".join(map(re.escape, spellings)) or r"(?!)")
        self._except_json = except_json
        self._held = ""

    def feed(self, text: str) -> str:
        text = self._held + text
        self._held = ""
        if self._except_json:
            start = text.lstrip()
            if not start:
                self._held = text
                return ""
            if start[0] in '{["':
                self._longest, self._pattern = 0, re.compile(r"(?!)")
            self._except_json = False
        out: list[str] = []
        at = 0
        for found in self._pattern.finditer(text):
            if self._may_grow(text, found.start()):
                break
            out += (text[at : found.start()], self._meant[found[0]])
            at = found.end()
        cut = max(at, len(text) - self._longest + 1)
        while cut < len(text) and not self._may_grow(text, cut):
            cut += 1
        self._held = text[cut:]
        return "".join([*out, text[at:cut]])

    def finish(self) -> str:
        """What is held: a whole spelling that a longer one might have followed, or text."""
        held, self._held = self._held, ""
        return self._pattern.sub(lambda found: self._meant[found[0]], held)

    def _may_grow(self, text: str, at: int) -> bool:
        """True: what follows the text may make a longer spelling of its end from ``at`` on."""
        rest = text[at:]
        return any(len(rest) < len(written) and written.startswith(rest) for written in self._meant)


def respelled(text: str, pairs: Iterable[tuple[str, str]]) -> str:
    """The whole of ``text`` with its spellings undone."""
    reader = SpellingUnescaper(pairs)
    return reader.feed(text) + reader.finish()
