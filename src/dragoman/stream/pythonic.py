"""Python literals as JSON, while they come in: models that learned from ``repr`` write them where JSON is due."""

from __future__ import annotations

import re
from typing import Final

from dragoman.stream.json_text import escaped

_WORDS: Final = {"True": "true", "False": "false", "None": "null"}
_LONGEST: Final = max(map(len, _WORDS))
_BRACKETS: Final = {"(": "[", ")": "]"}
# Outside strings: a run that JSON and Python write alike, or a word.
_OUTSIDE: Final = re.compile(r"(?P<run>[^'\"()A-Za-z_]+)|(?P<word>[A-Za-z_][A-Za-z_0-9]*)|(?P<other>.)", re.DOTALL)
_WORD_REST: Final = re.compile(r"[A-Za-z_0-9]*")
_INSIDE: Final = re.compile(r"(?P<run>[^'\"\\\x00-\x1f]+)|(?P<escape>\\[^xU])|(?P<other>.)", re.DOTALL)
_LONG_ESCAPE: Final = re.compile(r"\\(?:x([0-9a-fA-F]{2})|U([0-9a-fA-F]{8}))")
_UNFINISHED: Final = re.compile(r"\\(?:x[0-9a-fA-F]{0,1}|U[0-9a-fA-F]{0,7})?\Z")
# What JSON and Python write alike: marks, numbers, words that begin small, double-quoted strings without escapes. The
# last string or word may go on in the next piece.
_STRING: Final = r'[^"\\\x00-\x1f]*'
_WORD: Final = "[a-z_][A-Za-z_0-9]*"
_MARKS: Final = rf"""(?:[^'"()A-Za-z_]+|{_WORD}(?=[^A-Za-z_0-9]))*"""
_ALIKE: Final = rf"""{_MARKS}(?:"{_STRING}"{_MARKS})*(?:(?P<word>{_WORD})|(?P<open>"{_STRING}))?"""
_PLAIN: Final = re.compile(_ALIKE)
_PLAIN_IN_WORD: Final = re.compile(rf"(?P<more>[A-Za-z_0-9]+\Z)|[A-Za-z_0-9]*{_ALIKE}")
_PLAIN_IN_STRING: Final = re.compile(rf'{_STRING}(?:"{_ALIKE}|(?P<inside>))')
_JSON_ESCAPES: Final = '"\\/bfnrtu'
# Escapes that JSON does not know, of one character.
_ESCAPES: Final = {"\\'": "'", "\\a": "\\u0007", "\\v": "\\u000b", "\\0": "\\u0000", "\\\n": ""}


class PythonToJson:
    """Text of a Python or JSON value, in any pieces -> JSON text. The identity on JSON; never raises.

    Done: single quotes, True/False/None, tuples, Python's escapes, raw control characters in strings. Whatever else is
    no JSON goes through as it is. Held: an unfinished short word or escape.
    """

    __slots__ = ("_held", "_in_word", "_quote")

    def __init__(self) -> None:
        self._held = ""
        self._quote = ""  # the quote that ends the string we are in; empty: outside
        self._in_word = False  # inside a word too long to be one of Python's

    def feed(self, text: str) -> str:
        if self._held:
            text = self._held + text
        at = self._plain(text) if text and self._quote != "'" else 0
        if at < len(text):
            return text[:at] + self._convert(text, at, final=False)
        self._held = ""
        return text

    def finish(self) -> str:
        return self._convert(self._held, 0, final=True)

    def release(self) -> tuple[str, str]:
        """In place of finish: what is sure of the text that is held, and what is not."""
        held, self._held = self._held, ""
        # No word of Python's begins so: whether it was held depends on how the text was cut.
        sure = not self._quote and held[:1].islower()
        return (held, "") if sure else ("", held)

    def _convert(self, text: str, at: int, *, final: bool) -> str:
        self._held = ""
        out: list[str] = []
        while at < len(text):
            step = self._inside if self._quote else self._outside
            end = step(text, at, out, final)
            if end == at:
                self._held = text[at:]
                break
            at = end
        return "".join(out)

    def _plain(self, text: str) -> int:
        """How much of the text, from its start, is JSON already: most of it, and much faster than mark by mark."""
        match = (_PLAIN_IN_STRING if self._quote else _PLAIN_IN_WORD if self._in_word else _PLAIN).match(text)
        assert match is not None
        left = match.lastgroup
        self._in_word = left in ("word", "more")
        self._quote = '"' if left in ("open", "inside") else ""
        return match.end()

    def _outside(self, text: str, at: int, out: list[str], final: bool) -> int:
        if self._in_word:
            rest = _WORD_REST.match(text, at)
            assert rest is not None
            self._in_word = rest.end() == len(text)
            if rest[0]:
                out.append(rest[0])
                return rest.end()
        match = _OUTSIDE.match(text, at)
        assert match is not None
        piece = match[0]
        if match.lastgroup == "run":
            out.append(piece)
            return match.end()
        if match.lastgroup == "word":
            if match.end() == len(text) and not final:
                if len(piece) <= _LONGEST:
                    return at  # the word may go on
                self._in_word = True
            piece = _WORDS.get(piece, piece)
        elif piece in ("'", '"'):
            self._quote = piece
            piece = '"'
        out.append(_BRACKETS.get(piece, piece))
        return match.end()

    def _inside(self, text: str, at: int, out: list[str], final: bool) -> int:
        match = _INSIDE.match(text, at)
        assert match is not None
        piece = match[0]
        if match.lastgroup == "run":
            out.append(piece)
        elif match.lastgroup == "escape":
            # Python takes a backslash that escapes nothing for a backslash.
            known = piece in _ESCAPES or piece[1] in _JSON_ESCAPES
            out.append(_ESCAPES.get(piece, piece) if known else "\\\\" + escaped(piece[1]))
        elif piece == "\\":
            if not final and _UNFINISHED.match(text, at):
                return at
            return self._long_escape(text, at, out)
        elif piece == self._quote:
            self._quote = ""
            out.append('"')
        else:
            out.append(escaped(piece))
        return match.end()

    def _long_escape(self, text: str, at: int, out: list[str]) -> int:
        match = _LONG_ESCAPE.match(text, at)
        point = int(match[1] or match[2], 16) if match else -1
        if match is None or point > 0x10FFFF:
            out.append("\\")
            return at + 1
        out.append(f"\\u{point:04x}" if 0xD800 <= point <= 0xDFFF else escaped(chr(point)))
        return match.end()


def python_to_json(text: str) -> str:
    """The whole text, converted."""
    reader = PythonToJson()
    return reader.feed(text) + reader.finish()
