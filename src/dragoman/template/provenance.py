"""Where each character of a rendered prompt comes from: strings that remember, and the operations that keep the memory.

Rules of this file:

- A plain ``str`` is the template's own text. A :class:`Marked` string holds text of the request ("input"), wholly
  (``_mask`` is None) or in places (``_mask`` is one byte for each character: 1 input, 0 template).
- Every operation does to the mask what it does to the text, so it costs what the text costs and a loop over
  characters stays as cheap as with plain strings. Runs are computed once, at the end.
- The text of a result is always the text that plain strings would give; where the marks of a result cannot be told,
  all of it is input. Calling template text input is safe, the reverse is not.
- Public names of :class:`Marked` are exactly those of ``str``: a template must not see a difference.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import repeat
from typing import Any, SupportsIndex

_ONE, _ZERO = b"\1", b"\0"


class Marked(str):
    """A string of which some characters are input. Equal to, and hashed as, the plain string of the same text."""

    __slots__ = ("_mask",)
    _mask: bytes | None  # one byte a character, None: all input

    def __new__(cls, text: str, mask: bytes | None = None) -> Marked:
        made = super().__new__(cls, text)
        made._mask = mask
        return made

    # What a subclass with escaping changes.

    def _like(self, text: str) -> str:
        """``text`` as a result of this string's own operations."""
        return text

    def _operand(self, value: Any) -> Any:
        """``value`` as it may be put into this string."""
        return value

    def __str__(self) -> str:
        return self

    def __getnewargs__(self) -> tuple[Any, ...]:
        return (str.__str__(self), self._mask)

    # Parts.

    def _slice(self, start: int, stop: int) -> str:
        mask = self._mask
        return type(self)(super().__getitem__(slice(start, stop)), None if mask is None else mask[start:stop])

    def _slices(self, pieces: Iterable[str], starts: Iterable[int]) -> list[str]:
        return [self._slice(start, start + len(piece)) for piece, start in zip(pieces, starts, strict=True)]

    def __getitem__(self, key: SupportsIndex | slice) -> str:
        mask = self._mask
        text = super().__getitem__(key)
        if mask is None:
            return type(self)(text)
        return type(self)(text, mask[key] if isinstance(key, slice) else mask[key : _after(key)])

    def __iter__(self) -> Iterator[str]:
        flags: Iterable[bytes | None] = repeat(None) if self._mask is None else (bytes((flag,)) for flag in self._mask)
        return map(type(self), super().__iter__(), flags)

    def strip(self, chars: str | None = None, /) -> str:
        start = len(self) - len(super().lstrip(chars))
        return self._slice(start, max(start, len(super().rstrip(chars))))

    def lstrip(self, chars: str | None = None, /) -> str:
        return self._slice(len(self) - len(super().lstrip(chars)), len(self))

    def rstrip(self, chars: str | None = None, /) -> str:
        return self._slice(0, len(super().rstrip(chars)))

    def removeprefix(self, prefix: str, /) -> str:
        return self._slice(len(self) - len(super().removeprefix(prefix)), len(self))

    def removesuffix(self, suffix: str, /) -> str:
        return self._slice(0, len(super().removesuffix(suffix)))

    def split(self, sep: str | None = None, maxsplit: SupportsIndex = -1) -> list[str]:
        return self._located(super().split(sep, maxsplit), sep)

    def rsplit(self, sep: str | None = None, maxsplit: SupportsIndex = -1) -> list[str]:
        return self._located(super().rsplit(sep, maxsplit), sep)

    def _located(self, pieces: list[str], sep: str | None) -> list[str]:
        """The pieces of a split, where they stand in this string."""
        starts, at = [], 0
        for piece in pieces:
            # Between two pieces of a split at white space there is only white space, which no piece starts with
            # (the first of an rsplit may, but stands at 0): the next occurrence is the piece itself.
            at = at if sep is not None else super().find(piece, at)
            starts.append(at)
            at += len(piece) + len(sep or "")
        return self._slices(pieces, starts)

    def splitlines(self, keepends: bool = False) -> list[str]:
        whole, pieces = super().splitlines(True), super().splitlines(keepends)
        starts, at = [], 0
        for line in whole:
            starts.append(at)
            at += len(line)
        return self._slices(pieces, starts)

    def partition(self, sep: str, /) -> tuple[str, str, str]:
        return self._three(super().partition(sep))

    def rpartition(self, sep: str, /) -> tuple[str, str, str]:
        return self._three(super().rpartition(sep))

    def _three(self, pieces: tuple[str, str, str]) -> tuple[str, str, str]:
        first, second = len(pieces[0]), len(pieces[0]) + len(pieces[1])
        return self._slice(0, first), self._slice(first, second), self._slice(second, len(self))

    # Sums.

    def __add__(self, other: str, /) -> str:
        if not isinstance(other, str):
            return NotImplemented
        return self._like(joined((self, self._operand(other))))

    def __radd__(self, other: str, /) -> str:
        if not isinstance(other, str):
            return NotImplemented
        return self._like(joined((self._operand(other), self)))

    def __mul__(self, times: SupportsIndex, /) -> str:
        mask = self._mask
        return type(self)(super().__mul__(times), None if mask is None else mask * times)

    __rmul__ = __mul__

    def join(self, items: Iterable[str], /) -> str:
        listed = list(items)
        for at, item in enumerate(listed):
            if not isinstance(item, str):
                raise TypeError(f"sequence item {at}: expected str instance, {type(item).__name__} found")
        pieces: list[str] = []
        for item in listed:
            pieces += (self, self._operand(item))
        return self._like(joined(pieces[1:]))

    def replace(self, old: str, new: str, count: SupportsIndex = -1, /) -> str:
        return self._like(joined(_replaced(self, old, self._operand(new), count.__index__())))

    def center(self, width: SupportsIndex, fillchar: str = " ", /) -> str:
        return self._padded(super().center(width, fillchar), fillchar)

    def ljust(self, width: SupportsIndex, fillchar: str = " ", /) -> str:
        return self._padded(super().ljust(width, fillchar), fillchar)

    def rjust(self, width: SupportsIndex, fillchar: str = " ", /) -> str:
        return self._padded(super().rjust(width, fillchar), fillchar)

    def _padded(self, text: str, fill: str) -> str:
        if isinstance(fill, Marked):
            return self._like(Marked(text))
        # Padding is the fill character on both sides: measured from the one place where this string can stand.
        left = (len(text) - len(self)) // 2
        for start in (left, left + 1, 0, len(text) - len(self)):
            if text[start : start + len(self)] == str.__str__(self) and not text[:start].strip(fill):
                return self._like(joined((text[:start], self, text[start + len(self) :])))
        return self._like(Marked(text))

    # One character to one or more: the mask is stretched.

    def _mapped(self, text: str, single: Callable[[str, str], str]) -> str:
        """``text``, made character by character: ``single(before, character)`` is what became of one."""
        mask = self._mask
        if mask is not None and len(text) != len(self):
            raw = str.__str__(self)
            trios = zip(" " + raw, raw, mask, strict=False)
            mask = b"".join([bytes((flag,)) * len(single(before, char)) for before, char, flag in trios])
            mask = mask if len(mask) == len(text) else None
        return type(self)(text, mask)

    def upper(self) -> str:
        return self._mapped(super().upper(), lambda before, char: char.upper())

    def lower(self) -> str:
        return self._mapped(super().lower(), lambda before, char: char.lower())

    def casefold(self) -> str:
        return self._mapped(super().casefold(), lambda before, char: char.casefold())

    def swapcase(self) -> str:
        return self._mapped(super().swapcase(), lambda before, char: char.swapcase())

    def title(self) -> str:
        return self._mapped(super().title(), lambda before, char: (before + char).title()[len(before.title()) :])

    def capitalize(self) -> str:
        head, tail = self[:1].title(), self[1:].lower()
        return type(self)(super().capitalize(), mask_of(head) + mask_of(tail))

    # Operations without a rule of their own: all input.

    def zfill(self, width: SupportsIndex, /) -> str:
        return type(self)(super().zfill(width))

    def expandtabs(self, tabsize: SupportsIndex = 8) -> str:
        return type(self)(super().expandtabs(tabsize))

    def translate(self, table: Any, /) -> str:
        return type(self)(super().translate(table))


class Safe(Marked):
    """The result of ``|safe`` and ``|escape``: text put into it is HTML-escaped, as ``markupsafe.Markup`` does."""

    __slots__ = ()

    def __html__(self) -> str:
        return self

    def __str__(self) -> str:
        return Marked(str.__str__(self), self._mask)

    def _like(self, text: str) -> str:
        return safe(text)

    def _operand(self, value: Any) -> Any:
        return escaped(value) if isinstance(value, str) else value

    def __iter__(self) -> Iterator[str]:
        return iter(Marked(str.__str__(self), self._mask))

    # Overridden, though equal, so that Python asks the right operand first, as it does for Markup.

    def __radd__(self, other: str, /) -> str:
        return super().__radd__(other)


def plain(text: str) -> Marked:
    """``text`` as a marked string with no input in it: its methods keep the marks of their arguments."""
    return text if isinstance(text, Marked) else Marked(text, bytes(len(text)))


def bare(text: str) -> str:
    """The text alone."""
    return str.__str__(text)


def mask_of(text: str) -> bytes:
    """One byte a character: 1 input, 0 template."""
    if not isinstance(text, Marked):
        return bytes(len(text))
    return _ONE * len(text) if text._mask is None else text._mask


def has_input(text: str) -> bool:
    return isinstance(text, Marked) and len(text) > 0 and (text._mask is None or _ONE in text._mask)


def joined(pieces: Iterable[str]) -> str:
    """The concatenation; a plain string where no piece is marked."""
    listed = pieces if isinstance(pieces, (list, tuple)) else list(pieces)
    text = "".join(listed)
    marked = [piece for piece in listed if isinstance(piece, Marked)]
    if not marked:
        return text
    if len(marked) == len(listed) and all(piece._mask is None for piece in marked):
        return Marked(text)
    return Marked(text, b"".join([mask_of(piece) for piece in listed]))


def safe(text: str) -> Safe:
    """``text`` as it stands, protected from escaping."""
    return Safe(bare(text), mask_of(text))


_ESCAPES = str.maketrans({"&": "&amp;", ">": "&gt;", "<": "&lt;", "'": "&#39;", '"': "&#34;"})


def escaped(text: str) -> Safe:
    """``text`` with the five HTML characters replaced, unless it is safe already."""
    if isinstance(text, Safe):
        return text
    return safe(joined([_with_flag(run.translate(_ESCAPES), flag) for run, flag in runs(text)]))


def runs(text: str) -> Iterator[tuple[str, bool]]:
    """The longest stretches of one origin: (plain text, is input). Nothing for the empty string."""
    raw = bare(text)
    if not isinstance(text, Marked) or text._mask is None:
        if raw:
            yield raw, isinstance(text, Marked)
        return
    mask, at = text._mask, 0
    while at < len(mask):
        flag = mask[at]
        end = mask.find(_ZERO if flag else _ONE, at)
        end = len(mask) if end < 0 else end
        yield raw[at:end], bool(flag)
        at = end


def merged(pieces: Iterable[str]) -> tuple[tuple[str, bool], ...]:
    """The runs of a sequence of strings, adjacent ones of one origin joined."""
    parts: list[tuple[list[str], bool]] = []
    for piece in pieces:
        for text, flag in runs(piece):
            if parts and parts[-1][1] == flag:
                parts[-1][0].append(text)
            else:
                parts.append(([text], flag))
    return tuple(("".join(texts), flag) for texts, flag in parts)


def marked_copy(value: Any) -> Any:
    """A deep copy of dicts and lists with every string in it marked as input, keys too. What is marked already, by a
    rewrite of the messages that adds markers of the format, stays as it is."""
    if isinstance(value, Marked):
        return value
    if isinstance(value, str):
        return Marked(value)
    if isinstance(value, Mapping):
        return {marked_copy(key): marked_copy(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [marked_copy(item) for item in value]
    return value


def plain_copy(value: Any) -> Any:
    """A deep copy of dicts and lists."""
    if isinstance(value, Mapping):
        return {key: plain_copy(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain_copy(item) for item in value]
    return value


def contains_input(value: Any, depth: int = 12) -> bool:
    """Some string in ``value`` holds input; True as well where ``value`` is nested too deep to tell."""
    if isinstance(value, str):
        return has_input(value)
    if value is None or isinstance(value, (int, float)):
        return False
    if isinstance(value, (list, tuple, dict)):
        if depth == 0:
            return True
        # Looking is no reading: a dict that notes what is read of it must not notice.
        inside = (*dict.keys(value), *dict.values(value)) if isinstance(value, dict) else value
        return any(contains_input(item, depth - 1) for item in inside)
    return False


def _with_flag(text: str, is_input: bool) -> str:
    return Marked(text) if is_input else text


def _after(key: SupportsIndex) -> int | None:
    """The end of the one-element slice that starts at ``key``."""
    return key.__index__() + 1 or None


def _replaced(text: Marked, old: str, new: str, count: int) -> list[str]:
    """The pieces of ``text.replace(old, new, count)``."""
    limit = count if count >= 0 else len(text) + 1
    if not old:
        gaps = min(limit, len(text) + 1)
        pieces = [piece for char in text[: max(gaps - 1, 0)] for piece in (new, char)]
        tail = text[max(gaps - 1, 0) :]
        return [*pieces, new, tail] if gaps else [text]
    pieces, at = [], 0
    while limit:
        found = str.find(text, old, at)
        if found < 0:
            break
        pieces += (text[at:found], new)
        at, limit = found + len(old), limit - 1
    pieces.append(text[at:])
    return pieces
