"""Python literals as JSON, while they come in: models that learned from ``repr`` write them where JSON is due.

Rules of this file: JSON goes through as it is; what Python means alike is written as JSON; a bare word that is neither
becomes a string and a problem. What the next character decides waits for it: whether a word is over or a key, whether a
string goes on in another one, whether a comma is the last, whether a parenthesis opens a tuple.
"""

from __future__ import annotations

import re
from typing import Final

from dragoman.stream.json_pieces import (
    ALIKE,
    BEHIND,
    BEHIND_EMPTY,
    DELIMITERS,
    INSIDE,
    INSIDE_EMPTY,
    LONGEST,
    NUMBER,
    OUTSIDE,
    PENDING,
    SHORT,
    WHITE_MARK,
    read_piece,
    remembered_piece,
)
from dragoman.stream.json_text import escaped, quoted

_WORDS: Final = {"True": "true", "False": "false", "None": "null"}
_JSON_WORDS: Final = ("true", "false", "null")
_BLANKS: Final = re.compile(f"{WHITE_MARK}+")
_WORD: Final = re.compile(f"[^{DELIMITERS}]+")
_PREFIX: Final = re.compile(r"[rRbBfFuU]{1,2}")
# Numbers: the beginning of one of JSON's, Python's.
_BEGUN: Final = re.compile(r"-?(?:(?:0|[1-9][0-9]*)(?:\.[0-9]*)?|(?:0|[1-9][0-9]*)(?:\.[0-9]+)?[eE][-+]?[0-9]*)?")
_DIGITS: Final = r"[0-9](?:_?[0-9])*"
_DECIMAL: Final = re.compile(rf"([-+]?)((?:{_DIGITS})?)(?:(\.)((?:{_DIGITS})?))?((?:[eE][-+]?{_DIGITS})?)")
_BASED: Final = re.compile(r"[-+]?0(?:[xX](?:_?[0-9a-fA-F])+|[oO](?:_?[0-7])+|[bB](?:_?[01])+)")
# Runs inside strings that need no thought; the second where braces have a meaning.
_PLAIN: Final = re.compile(r"[^'\"\\\x00-\x1f]+")
_PLAIN_FORMAT: Final = re.compile(r"[^'\"\\\x00-\x1f{}]+")
_ESCAPE: Final = re.compile(r"\\(?:x([0-9a-fA-F]{2})|u([0-9a-fA-F]{4})|U([0-9a-fA-F]{8}))")
_UNFINISHED: Final = re.compile(r"\\(?:x[0-9a-fA-F]?|u[0-9a-fA-F]{0,3}|U[0-9a-fA-F]{0,7})?\Z")
_JSON_ESCAPES: Final = '"\\/bfnrt'
# Escapes that JSON does not know, of one character.
_ESCAPES: Final = {"\\'": "'", "\\a": "\\u0007", "\\v": "\\u000b", "\\0": "\\u0000", "\\\n": ""}
# Where what waits is told apart again: a comma in front of a word, the word, white space.
_WAITS: Final = re.compile(rf"(,{WHITE_MARK}*(?=[^ \t\r\n])|,|)(.*?)({WHITE_MARK}*)", re.DOTALL)


class _Paren:
    """An open parenthesis: whether it is a tuple, and where its bracket is due in the text that waits."""

    __slots__ = ("at", "empty", "is_tuple")

    def __init__(self, at: int) -> None:
        self.at = at
        self.empty = True
        self.is_tuple = False


class PythonToJson:
    """Text of a Python or JSON value, in any pieces -> JSON text. The identity on JSON; never raises.

    ``odd``: the first text that is neither JSON nor a literal of Python's, and went on as a string. Where a bracket or
    a comma is missing, what comes out is no JSON.
    """

    __slots__ = (
        "_fresh",
        "_held",
        "_open",
        "_place",
        "_prefix",
        "_quote",
        "_rest",
        "_undecided",
        "_unsure",
        "_waiting",
        "_white",
        "_word",
        "odd",
    )

    def __init__(self) -> None:
        self.odd: str | None = None
        # Of JSON: where we are and what waits. None: the text is read mark by mark, and the rest says where we are.
        self._place: int | None = OUTSIDE
        self._rest = ""
        self._waiting = ""  # a quote or comma that the next mark decides about, and white space behind it
        self._word: list[str] = []  # the bare word that we are in, or behind
        self._white = ""  # behind either
        self._quote = ""  # what ends the string that we are in; empty: outside
        self._prefix = ""  # the letters in front of it
        self._fresh = ""  # the quote of a string of which nothing has come yet
        self._held = ""  # the unfinished escape or quote inside it
        self._open: list[_Paren | str] = []  # the open brackets, from the first parenthesis on
        self._unsure = 0  # parentheses among them that may be a tuple or none,
        self._undecided: list[str] | None = None  # and the text from the first of these on

    def feed(self, text: str) -> str:
        if self._place is not None:
            read = remembered_piece if len(text) <= SHORT else read_piece
            piece = read(self._place, self._rest, text)
            if piece is not None:
                out, self._place, self._rest = piece
                return out
            self._read_by_marks()
        out = self._convert(text, final=False)
        if not (self._held or self._prefix or self._open):
            self._read_pieces()
        return out

    def _read_by_marks(self) -> None:
        """From here on mark by mark."""
        place, rest = self._place, self._rest
        if place is None:
            return
        self._place, self._rest = None, ""
        self._quote = '"' if place in (INSIDE, INSIDE_EMPTY) else ""
        self._fresh = '"' if place in (INSIDE_EMPTY, BEHIND_EMPTY) else ""
        if place in (BEHIND, BEHIND_EMPTY):
            self._waiting, self._word, self._white = '"', [], rest[1:]
        else:
            match = _WAITS.fullmatch(rest)
            assert match is not None
            self._waiting, word, self._white = match.groups()
            self._word = [word] if word else []

    def _read_pieces(self) -> None:
        """From here on piece by piece, if what waits allows it."""
        rest = "".join([self._waiting, *self._word, self._white])
        if len(rest) > PENDING:
            return
        if self._quote == '"':
            self._place = INSIDE_EMPTY if self._fresh else INSIDE
        elif not self._quote and not self._waiting.startswith('"'):
            self._place = OUTSIDE
        elif not self._quote and not self._word and self._fresh in ("", '"'):
            self._place = BEHIND_EMPTY if self._fresh else BEHIND
        else:
            return
        self._rest, self._waiting, self._word, self._white = rest, "", [], ""

    def finish(self) -> str:
        self._read_by_marks()
        out = [self._convert("", final=True)]
        self._put(out, self._settled())
        for paren in self._open:
            if isinstance(paren, _Paren) and not paren.is_tuple:
                self._decide(paren, "[", out)
        return "".join(out)

    def release(self) -> tuple[str, str]:
        """In place of finish: what is sure of the text that waits, and what is not."""
        self._read_by_marks()
        word = "".join(self._word)
        if self._undecided is not None:
            return "", "".join([*self._undecided, self._waiting, word, self._white, self._held])
        return (self._waiting + word, "") if word and begins_scalar(word) else (self._waiting, word or self._held)

    def _convert(self, text: str, *, final: bool) -> str:
        out: list[str] = []
        text, self._held = self._held + text, ""
        at = 0
        while at < len(text):
            if not self._quote:
                at = self._outside(text, at, out)
                continue
            end = self._inside(text, at, out, final)
            if end == at:
                self._held = text[at:]
                break
            at = end
        return "".join(out)

    def _put(self, out: list[str], text: str) -> None:
        if text:
            (out if self._undecided is None else self._undecided).append(text)

    def _outside(self, text: str, at: int, out: list[str]) -> int:
        """One step outside of strings; where it ends."""
        if self._word or self._waiting:
            if blanks := _BLANKS.match(text, at):
                self._white += blanks[0]
                return blanks.end()
        elif not self._open and (alike := ALIKE.match(text, at)):
            out.append(alike[0])
            return alike.end()
        if word := _WORD.match(text, at):
            if self._word and self._white:
                self._word.append(self._white)
            elif not self._word:
                self._waiting += self._white
                self._fill()
            self._white = ""
            self._word.append(word[0])
            return word.end()
        mark = text[at]
        if mark in "'\"":
            self._begin_string(mark, out)
        elif mark in ",:()[]{}":
            self._structure(mark, out)
        else:
            self._put(out, mark)
        return at + 1

    def _settled(self, *, key: bool = False) -> str:
        """What waits, now that it ends here. key: a colon follows."""
        text = self._waiting
        if self._word:
            text += self._spelled("".join(self._word), key=key)
        text += self._white
        self._waiting, self._word, self._white = "", [], ""
        return text

    def _spelled(self, word: str, *, key: bool) -> str:
        scalar = json_scalar(word)
        if scalar is None:
            self._note(word)
            return quoted(word)
        return quoted(scalar) if key else scalar  # as json.dumps writes a key that is no string

    def _note(self, text: str) -> None:
        if self.odd is None:
            self.odd = text

    def _fill(self) -> None:
        """Something stands in the innermost bracket."""
        if self._open and isinstance(paren := self._open[-1], _Paren):
            paren.empty = False

    def _begin_string(self, quote: str, out: list[str]) -> None:
        prefix = ""
        if len(self._word) <= 2 and not self._white and _PREFIX.fullmatch(word := "".join(self._word)):
            prefix, self._word = word.lower(), []
        elif self._word:
            self._put(out, self._settled())
        if self._waiting.startswith('"'):  # it goes on with the string before
            tripled = self._waiting == '"' and not (self._white or prefix) and quote == self._fresh
            self._waiting = self._white = ""
            if tripled:
                self._quote, self._fresh = quote * 3, ""
                return
        else:
            self._fill()
            self._put(out, self._settled() + '"')
        self._quote, self._prefix, self._fresh = quote, prefix, quote

    def _structure(self, mark: str, out: list[str]) -> None:
        if mark in ")]}" and self._waiting.startswith(",") and not self._word:
            self._waiting = self._waiting[1:]  # Python's comma behind the last item
        self._put(out, self._settled(key=mark == ":"))
        paren = self._open[-1] if self._open and isinstance(self._open[-1], _Paren) else None
        if mark == ",":
            self._waiting = mark
            if paren is not None and not paren.is_tuple:
                paren.is_tuple = True
                self._decide(paren, "[", out)
        elif mark == "(":
            self._fill()
            self._undecided = [] if self._undecided is None else self._undecided
            self._open.append(_Paren(len(self._undecided)))
            self._undecided.append("")
            self._unsure += 1
        elif mark == ")":
            self._end_paren(paren, out)
        elif mark == ":":
            self._put(out, mark)
        elif mark in "[{":
            self._fill()
            self._put(out, mark)
            if self._open:
                self._open.append(mark)
        else:
            self._put(out, mark)
            if self._open and paren is None:
                self._open.pop()

    def _end_paren(self, paren: _Paren | None, out: list[str]) -> None:
        if paren is None or paren.is_tuple or paren.empty:
            self._put(out, "]")
        if paren is None:
            return
        self._open.pop()
        if not paren.is_tuple:
            self._decide(paren, "[" if paren.empty else "", out)

    def _decide(self, paren: _Paren, bracket: str, out: list[str]) -> None:
        """What the parenthesis is, and with the last of them all that waited for it."""
        if self._undecided is None:
            return
        self._undecided[paren.at] = bracket
        self._unsure -= 1
        if not self._unsure:
            out += self._undecided
            self._undecided = None

    def _inside(self, text: str, at: int, out: list[str], final: bool) -> int:
        """One step inside a string; where it ends, ``at`` where more text has to tell."""
        formatted = "f" in self._prefix
        if plain := (_PLAIN_FORMAT if formatted else _PLAIN).match(text, at):
            self._fresh = ""
            self._put(out, plain[0])
            return plain.end()
        mark, last = text[at], at + 1 == len(text) and not final
        if mark == self._quote[0] and (len(self._quote) == 1 or text.startswith(self._quote, at)):
            end = at + len(self._quote)
            self._quote, self._waiting = "", '"'
            return end
        if mark == self._quote[0] and not final and self._quote.startswith(text[at:]):
            return at
        self._fresh = ""
        if mark == "\\" and "r" not in self._prefix:
            return self._escape(text, at, out, final)
        if mark == "\\" or (formatted and mark in "{}"):
            if last:
                return at
            pair = text[at : at + 2]
            if mark == "\\":
                self._put(out, escaped(pair))
                return at + len(pair)
            if pair != mark * 2:
                self._note(mark)  # what stands in its place nobody can tell
            self._put(out, mark)
            return at + (2 if pair == mark * 2 else 1)
        self._put(out, escaped(mark))
        return at + 1

    def _escape(self, text: str, at: int, out: list[str], final: bool) -> int:
        if not final and _UNFINISHED.match(text, at):
            return at
        piece = text[at : at + 2]
        if match := _ESCAPE.match(text, at):
            point = int(match[1] or match[2] or match[3], 16)
            if match[2] or 0xD800 <= point <= 0xDFFF:
                self._put(out, match[0] if match[2] else f"\\u{point:04x}")
                return match.end()
            if point <= 0x10FFFF:
                self._put(out, escaped(chr(point)))
                return match.end()
        if piece in _ESCAPES or piece[1:] in tuple(_JSON_ESCAPES):
            self._put(out, _ESCAPES.get(piece, piece))
            return at + 2
        # Python takes a backslash that escapes nothing for a backslash; x, u and U without digits are an error there.
        if piece[1:] in ("x", "u", "U"):
            self._note(piece)
        self._put(out, "\\\\")
        return at + 1


def python_to_json(text: str) -> str:
    """The whole text, converted."""
    reader = PythonToJson()
    return reader.feed(text) + reader.finish()


def json_scalar(word: str) -> str | None:
    """The JSON text of a number or word of JSON's or Python's; None for everything else."""
    if word in _JSON_WORDS or NUMBER.fullmatch(word):
        return word
    if word in _WORDS or len(word) > LONGEST:
        return _WORDS.get(word)
    if _BASED.fullmatch(word):
        return str(int(word.replace("_", ""), 0))
    match = _DECIMAL.fullmatch(word)
    if match is None or not (match[2] or match[4]):
        return None
    sign, whole, point, fraction, exponent = (part and part.replace("_", "") for part in match.groups())
    if not (point or exponent) and whole.startswith("0") and whole.strip("0"):
        return None  # an error in Python: rather the digits of an id than a number
    written = whole.lstrip("0") or "0"
    return f"{'-' if sign == '-' else ''}{written}{'.' + (fraction or '0') if point else ''}{exponent}"


def begins_scalar(word: str) -> bool:
    """True: a number or word of JSON's may begin so."""
    return bool(_BEGUN.fullmatch(word)) or any(known.startswith(word) for known in _JSON_WORDS)


def begins_string(text: str) -> bool | None:
    """True: a Python string with letters in front (``f"..."``) begins here; None: more text is needed."""
    letters = _PREFIX.match(text)
    if letters is None:
        return False
    behind = text[letters.end() : letters.end() + 1]
    return behind in "'\"" if behind else None
