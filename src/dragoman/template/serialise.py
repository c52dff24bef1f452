"""Values as text with provenance: ``str``, ``repr`` and JSON of what a template prints, strings in them still marked.

The texts are exactly those of ``str()``, ``repr()``, ``json.dumps()`` and ``pprint.pformat()``. Only what stands
between the quotes is input; brackets, quotes, commas and numbers are the template's.
"""

from __future__ import annotations

import json
import pprint
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from types import GeneratorType
from typing import Any, Protocol

from jinja2 import Undefined

from dragoman.template.provenance import Marked, bare, contains_input, joined, mask_of, runs


class Meter(Protocol):
    """Counts work and refuses too much of it (see :class:`dragoman.template.budget.Budget`)."""

    def step(self, count: int = 1) -> None: ...
    def grow(self, size: int) -> None: ...


def text_of(value: Any, meter: Meter) -> str:
    """``str(value)``, marked. Never a safe string: printing ends the protection."""
    if isinstance(value, Marked):
        return str(value)
    if value is None or isinstance(value, (str, int, float, Undefined)):
        return str(value)
    if isinstance(value, _CONTAINERS):
        return joined(_bounded(_repr_pieces(value, frozenset()), meter))
    # Something that a template should not print (a macro, a generator, bytes): what is in it is anybody's guess.
    return Marked(str(value))


def repr_of(value: Any, meter: Meter) -> str:
    """``repr(value)``, marked."""
    return joined(_bounded(_repr_pieces(value, frozenset()), meter))


_VIEWS: tuple[type[Any], ...] = (type({}.keys()), type({}.values()), type({}.items()))
_CONTAINERS: tuple[type[Any], ...] = (list, tuple, dict, *_VIEWS)


def _bounded(pieces: Iterable[str], meter: Meter) -> list[str]:
    """The pieces as a list, charged one by one: a value shared many times over can print as an endless text."""
    out, size = [], 0
    for piece in pieces:
        out.append(piece)
        size += len(piece)
        meter.step()
        meter.grow(size)
    return out


def _repr_pieces(value: Any, above: frozenset[int]) -> Iterator[str]:
    if isinstance(value, Marked):
        yield _repr_of_marked(value)
        return
    if not isinstance(value, _CONTAINERS):
        text = repr(value)
        yield text if value is None or isinstance(value, (str, int, float, Undefined)) else Marked(text)
        return
    yield from _container_pieces(value, above)


def _container_pieces(value: Any, above: frozenset[int]) -> Iterator[str]:
    left, right = _brackets(value)
    if id(value) in above:
        yield left + "..." + right
        return
    above = above | {id(value)}
    if isinstance(value, _VIEWS):
        yield type(value).__name__ + "("
        yield from _repr_pieces(list(value), above)
        yield ")"
        return
    yield left
    for at, item in enumerate(value):
        if at:
            yield ", "
        yield from _repr_pieces(item, above)
        if isinstance(value, dict):
            yield ": "
            yield from _repr_pieces(dict.__getitem__(value, item), above)
    yield ",)" if isinstance(value, tuple) and len(value) == 1 else right


def _brackets(value: Any) -> tuple[str, str]:
    if isinstance(value, dict):
        return "{", "}"
    return ("(", ")") if isinstance(value, tuple) else ("[", "]")


def _repr_of_marked(value: Marked) -> str:
    text = repr(bare(value))
    quote = text[0]
    if value._mask is None:
        return joined((quote, Marked(text[1:-1]), quote))
    # The quote is chosen by the whole text, so each character is written as it is next to that quote.
    other = "" if quote == '"' else '"'
    pairs = zip(bare(value), mask_of(value), strict=True)
    inside = b"".join([bytes((flag,)) * (len(repr(char + other)) - 2 - len(other)) for char, flag in pairs])
    return Marked(text, b"\0" + inside + b"\0") if len(inside) + 2 == len(text) else Marked(text)


def json_of(
    value: Any,
    meter: Meter,
    *,
    ensure_ascii: bool = False,
    indent: int | str | None = None,
    separators: tuple[str, str] | None = None,
    sort_keys: bool = False,
) -> str:
    """``json.dumps(value, ...)``, marked; generators are written as arrays."""
    if separators is None:
        separators = (", " if indent is None else ",", ": ")
    item_separator, key_separator = separators
    if indent is not None and not isinstance(indent, str):
        meter.grow(int(indent))
        indent = " " * int(indent)
    writer = _JsonWriter(_string_writer(bool(ensure_ascii)), indent, item_separator, key_separator, bool(sort_keys))
    return joined(_bounded(writer.pieces(value, "\n", frozenset()), meter))


def _string_writer(ensure_ascii: bool) -> Callable[[str], str]:
    encode = json.JSONEncoder(ensure_ascii=ensure_ascii).encode

    def write(text: str) -> str:
        if not isinstance(text, Marked):
            return encode(text)
        inside = [Marked(encode(run)[1:-1]) if flag else encode(run)[1:-1] for run, flag in runs(text)]
        return joined(('"', *inside, '"'))

    return write


# A generator is what ``|map`` and ``|select`` give.
_ARRAYS: tuple[type[Any], ...] = (list, tuple, GeneratorType, *_VIEWS)


class _JsonWriter:
    """The pieces of one JSON text, in the layout of :func:`json.dumps`."""

    def __init__(
        self, string: Callable[[str], str], indent: str | None, item_separator: str, key_separator: str, sort_keys: bool
    ) -> None:
        self.string = string
        self.indent = indent
        self.item_separator = item_separator
        self.key_separator = key_separator
        self.sort_keys = sort_keys

    def pieces(self, value: Any, newline: str, above: frozenset[int]) -> Iterator[str]:
        if isinstance(value, str):
            yield self.string(value)
        elif isinstance(value, _ARRAYS):
            yield from self.array(value, newline, self._inside(value, above))
        elif isinstance(value, dict):
            yield from self.object(value, newline, self._inside(value, above))
        else:
            yield json.dumps(value)  # numbers, constants, and the error for everything else

    @staticmethod
    def _inside(value: Any, above: frozenset[int]) -> frozenset[int]:
        if id(value) in above:
            raise ValueError("Circular reference detected")
        return above | {id(value)}

    def array(self, items: Iterable[Any], newline: str, above: frozenset[int]) -> Iterator[str]:
        inner = newline + (self.indent or "")
        empty = True
        for item in items:
            yield from self._before("[" if empty else None, inner)
            empty = False
            yield from self.pieces(item, inner, above)
        yield "[]" if empty else (newline if self.indent is not None else "") + "]"

    def object(self, value: Mapping[Any, Any], newline: str, above: frozenset[int]) -> Iterator[str]:
        inner = newline + (self.indent or "")
        empty = True
        for key, item in sorted(value.items()) if self.sort_keys else value.items():
            yield from self._before("{" if empty else None, inner)
            empty = False
            yield self.string(_json_key(key))
            yield self.key_separator
            yield from self.pieces(item, inner, above)
        yield "{}" if empty else (newline if self.indent is not None else "") + "}"

    def _before(self, opener: str | None, inner: str) -> Iterator[str]:
        yield opener or self.item_separator
        if self.indent is not None:
            yield inner


def _json_key(key: Any) -> str:
    if isinstance(key, str):
        return key
    if key is None or isinstance(key, (bool, int, float)):
        return json.dumps(key)
    raise TypeError(f"keys must be str, int, float, bool or None, not {type(key).__name__}")


_QUOTED = re.compile(r"'(?:[^'\\]|\\.)*'|\"(?:[^\"\\]|\\.)*\"")


def pprint_of(value: Any) -> str:
    """``pprint.pformat(value)``; the insides of all its quotes are input where ``value`` holds any."""
    text = pprint.pformat(value)
    if not contains_input(value):
        return text
    pieces: list[str] = []
    at = 0
    for quoted in _QUOTED.finditer(text):
        pieces += (text[at : quoted.start() + 1], Marked(text[quoted.start() + 1 : quoted.end() - 1]))
        at = quoted.end() - 1
    pieces.append(text[at:])
    return joined(pieces)


_PERCENT = re.compile(
    r"%(?:\((?P<key>[^()]*)\))?(?P<flags>[#0\- +]*(?:\*|\d+)?(?:\.(?:\*|\d+)?)?[hlL]?)(?P<type>.)", re.DOTALL
)


def percent_format(form: str, values: Any, meter: Meter) -> str:
    """``form % values``, marked: literal text as in ``form``, each conversion as its value."""
    for found in _PERCENT.finditer(form):
        for digits in re.findall(r"\d+", found["flags"]):
            meter.grow(int(digits[:12]))
        if "*" in found["flags"]:
            meter.grow(max([abs(item) for item in _tuple(values) if isinstance(item, int)], default=0))
    plain_form = bare(form)
    text: str = plain_form % values  # raises what is wrong with form or values
    meter.grow(len(text))
    if not (contains_input(form) or contains_input(values) or "%c" in plain_form):
        return text
    try:
        marked = joined(_percent_pieces(form, values, meter))
    except (TypeError, ValueError, LookupError):
        return Marked(text)
    return marked if bare(marked) == text else Marked(text)


def _tuple(values: Any) -> tuple[Any, ...]:
    return values if isinstance(values, tuple) else (values,)


def _percent_pieces(form: str, values: Any, meter: Meter) -> Iterator[str]:
    queue, at = iter(_tuple(values)), 0
    for found in _PERCENT.finditer(form):
        yield form[at : found.start()]
        at = found.end()
        if found["type"] == "%":
            yield "%"
            continue
        value = values[found["key"]] if found["key"] is not None else next(queue)
        if found["type"] == "s" and not found["flags"]:
            yield text_of(value, meter)
        else:
            # A character made of a number is input too: no template writes its markers that way.
            piece = "%" + found["flags"] + found["type"]
            flagged = found["type"] == "c" or contains_input(value)
            yield Marked(piece % (value,)) if flagged else piece % (value,)
    yield form[at:]
