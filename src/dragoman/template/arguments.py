"""How a template writes tagged arguments: the pieces of one argument, what stands between two, how values look."""

from __future__ import annotations

import ast
import json
import re
from dataclasses import dataclass, replace
from typing import Any

from dragoman.template.atoms import common_prefix, common_suffix
from dragoman.template.probe import Prober, Rung, Said
from dragoman.template.profile import Marker, Piece, Slot, ValueStyle
from dragoman.template.sentinels import FIRST, TYPED_VALUES, ProbeCall
from dragoman.template.written import CallText

_WORD = re.compile(r"\w+")
_QUOTES = ('"', "'")


class NotLearned(Exception):
    """A format that the profile cannot express; the text says why. Never leaves this package."""


@dataclass(frozen=True, slots=True)
class Arguments:
    """Tagged arguments. ``quoted``: the quotes around a string belong to its value, not to the markers."""

    open: str
    close: str
    separator: str
    pieces: tuple[Piece, ...]
    styles: tuple[tuple[str, ValueStyle], ...]
    type_words: tuple[tuple[str, str], ...]
    quoted: bool


def learn_arguments(prober: Prober, rung: Rung, body: str, call: CallText) -> Arguments:
    """What ``body``, which holds one call with two arguments, and calls with others show."""
    quoted = _quoted(prober, rung, body, call)
    marks = [
        m if m.slot is not Slot.VALUE or not quoted else replace(m, start=m.start - 1, end=m.end + 1)
        for m in call.marks
    ]
    at = [mark.slot for mark in marks].index(Slot.KEY)
    if at == 0:
        raise NotLearned("the arguments stand before the tool's name")
    key, value, second_key, second_value = marks[at : at + 4]
    if len(marks) != at + 4:
        raise NotLearned("something stands after the arguments of a call")
    middle = body[key.end : value.start]
    if middle != body[second_key.end : second_value.start]:
        raise NotLearned("the text between a key and its value differs from argument to argument")
    head = body[marks[at - 1].end : key.start]
    between = body[value.end : second_key.start]
    tail = body[second_value.end :]
    opened, closed = _around(head, between, tail, _without(prober, rung, body))
    separator = between[len(closed) : len(between) - len(opened)]
    typed, styles, words = _styles(prober, rung, middle, between)
    pieces = [Marker.of(opened), Slot.KEY, *typed, Slot.VALUE, Marker.of(closed)]
    kept = tuple(piece for piece in pieces if not isinstance(piece, Marker) or piece)
    return Arguments(opened, closed, separator, kept, styles, words, quoted)


def _without(prober: Prober, rung: Rung, body: str) -> str | None:
    """What follows the last slot of a call that has no arguments."""
    call = replace(FIRST.calls[0], arguments=())
    text = prober.after_user(Said(None, (call,)), rung)
    full = prober.after_user(Said(None, FIRST.calls[:1]), rung)
    if text is None or full is None or body not in full:
        return None
    end = full[full.rindex(body) + len(body) :]  # the end of the turn, which ``body`` is without
    last = max((text.rfind(word) + len(word) for word in (call.name, call.id) if word in text), default=-1)
    return text[last:].removesuffix(end) if last >= 0 and text.endswith(end) else None


def _around(head: str, between: str, tail: str, empty: str | None) -> tuple[str, str]:
    """(opener, closer) of one argument.

    head: from the name to the first key; between: from a value to the next key; tail: after the last value;
    empty: after the name of a call without arguments, which tells what belongs to the call and not to an argument.
    """
    if empty is not None:
        name_end = common_prefix([head, empty])
        rest, opened = empty[len(name_end) :], head[len(name_end) :]
        if rest.strip() and tail.endswith(rest):
            closed = tail[: len(tail) - len(rest)]
            fits = between.startswith(closed) and between.endswith(opened)
            if fits and len(closed) + len(opened) <= len(between):
                return opened, closed
    opened = common_suffix([head, between])
    closed = common_prefix([tail, between])
    over = len(opened) + len(closed) - len(between)
    return opened[over:] if over > 0 else opened, closed


def _quoted(prober: Prober, rung: Rung, body: str, call: CallText) -> bool:
    """True: strings stand in quotes of their own, which other values are written without."""
    values = [mark for mark in call.marks if mark.slot is Slot.VALUE]
    quotes = {(body[m.start - 1], body[m.end : m.end + 1]) for m in values}
    if len(quotes) != 1 or (pair := quotes.pop())[0] not in _QUOTES or pair[0] != pair[1]:
        return False
    _, name, number = TYPED_VALUES[1]
    text = prober.after_user(Said(None, (replace(FIRST.calls[0], arguments=((name, number),)),)), rung)
    at = text.rfind(str(number)) if text else -1
    return text is not None and at > 0 and text[at - 1] not in _QUOTES


def _styles(
    prober: Prober, rung: Rung, middle: str, between: str
) -> tuple[list[Piece], tuple[tuple[str, ValueStyle], ...], tuple[tuple[str, str], ...]]:
    """What stands between key and value, the style of each JSON type's values, and the word that tells each type."""
    if any(key in between for key, _ in FIRST.calls[0].arguments):
        raise NotLearned("the end of an argument repeats its key")
    refused: list[str] = []
    written: dict[str, str] = {}
    for kind, key, value in TYPED_VALUES:
        filler = FIRST.calls[0].arguments[0]
        call = ProbeCall(FIRST.calls[0].id, FIRST.calls[0].name, ((key, value), filler))
        text = prober.after_user(Said(None, (call,)), rung)
        found = _between(text, key, between + filler[0]) if text is not None else None
        if found is None:
            refused.append(kind)
        else:
            written[kind] = found
    if refused and "string" not in refused and all(kind in ("null", "array", "object") for kind in refused):
        pass  # a template may refuse what it never expected; such values are unknown
    elif refused:
        raise NotLearned(f"values of type {', '.join(refused)} are not written as strings are")
    middles = dict.fromkeys(written, middle)
    typed: list[Piece] = [Marker.of(middle)] if middle else []
    words: tuple[tuple[str, str], ...] = ()
    if not all(text.startswith(middle) for text in written.values()):
        middles, typed, words = _typed_middles(middle, written)
    styles = []
    for kind, _, value in TYPED_VALUES:
        if kind in written:
            styles.append((kind, style_of(kind, value, written[kind][len(middles[kind]) :])))
        else:
            styles.append((kind, ValueStyle.UNKNOWN))
    return typed, tuple(styles), words


def _typed_middles(
    middle: str, written: dict[str, str]
) -> tuple[dict[str, str], list[Piece], tuple[tuple[str, str], ...]]:
    """What stands between key and value where one word of it tells the value's type."""
    middles = {"string": middle}
    for kind, _, value in TYPED_VALUES[1:]:
        if kind in written:
            looks = [json.dumps(value), json.dumps(value, separators=(",", ":")), str(value)]
            ends = [look for look in looks if written[kind].endswith(look)]
            if not ends:
                raise NotLearned("the text between key and value depends on the value's type")
            middles[kind] = written[kind].removesuffix(max(ends, key=len))
    head = common_prefix(middles.values())
    tail = common_suffix([text[len(head) :] for text in middles.values()])
    words = tuple((kind, text[len(head) : len(text) - len(tail)]) for kind, text in middles.items())
    if not all(_WORD.fullmatch(word) for _, word in words):
        raise NotLearned("the text between key and value depends on the value's type")
    pieces: list[Piece] = [Marker.of(head), Slot.TYPE, Marker.of(tail)]
    return middles, [piece for piece in pieces if not isinstance(piece, Marker) or piece], words


def _between(text: str, key: str, end: str) -> str | None:
    at = text.rfind(key)
    stop = text.find(end, at)
    return text[at + len(key) : stop] if 0 <= at < stop else None


def style_of(kind: str, value: Any, written: str) -> ValueStyle:
    """How ``written`` shows ``value``."""
    if kind == "string" and written == value:
        return ValueStyle.RAW
    if kind == "string" and written == f'"{value}"':
        return ValueStyle.JSON  # quotes without escapes: the template's loss, what is meant is a quoted string
    if kind == "string" and written == f"'{value}'":
        return ValueStyle.PYTHON
    try:
        parsed = json.loads(written)
        if parsed == value and type(parsed) is type(value):
            return ValueStyle.JSON
    except ValueError:
        pass
    try:
        if ast.literal_eval(written) == value:
            return ValueStyle.PYTHON
    except (ValueError, SyntaxError):
        pass
    return ValueStyle.UNKNOWN
