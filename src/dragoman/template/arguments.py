"""How a template writes tagged arguments: the pieces of one argument, what stands between two, how values look."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from dragoman.template.atoms import common_prefix, common_suffix
from dragoman.template.probe import Prober, Rung, Said
from dragoman.template.profile import Escapes, Marker, NestedTags, ObjectSyntax, Piece, Slot, ValueStyle
from dragoman.template.sentinels import FIRST, TYPED_VALUES
from dragoman.template.typed_arguments import Around, spelled, style_of, typed_argument
from dragoman.template.written import CallText, Mark, NotLearned

_QUOTES = ('"', "'")


@dataclass(frozen=True, slots=True)
class Arguments:
    """Tagged arguments. ``quotes``: what stands around a string and belongs to its value, not to the markers."""

    open: str
    close: str
    separator: str
    pieces: tuple[Piece, ...]
    styles: tuple[tuple[str, ValueStyle], ...]
    type_words: tuple[tuple[str, str], ...]
    quotes: tuple[str, str]
    syntax: ObjectSyntax | None = None
    nested: NestedTags | None = None


def learn_arguments(
    prober: Prober,
    rung: Rung,
    body: str,
    call: CallText,
    escapes: Escapes = Escapes(),  # noqa: B008
) -> Arguments:
    """What ``body``, which holds one call with two arguments, and calls with others show."""
    quotes = _quotes(prober, rung)
    marks = [widened(mark, quotes) for mark in call.marks]
    at = [mark.slot for mark in marks].index(Slot.KEY)
    if [mark.slot for mark in marks[at : at + 6]] == [Slot.KEY, Slot.VALUE, Slot.KEY] * 2:
        return _learn_nested(prober, rung, body, marks, at)
    key, value, second_key, second_value = marks[at : at + 4]
    behind = marks[at + 4 :]
    if any(mark.slot not in (Slot.NAME, Slot.ID) for mark in behind):
        raise NotLearned("something stands after the arguments of a call")
    middle = body[key.end : value.start]
    if middle != body[second_key.end : second_value.start]:
        raise NotLearned("the text between a key and its value differs from argument to argument")
    head = body[marks[at - 1].end if at else 0 : key.start]
    between = body[value.end : second_key.start]
    tail = body[second_value.end : behind[0].start if behind else len(body)]
    opened, closed = _around(head, between, tail, _without(prober, rung, body, marks[:at], behind))
    separator = between[len(closed) : len(between) - len(opened)]
    syntax = None
    if quotes[0] and quotes[0] not in _QUOTES:
        syntax = _syntax(prober, rung, middle, between, quotes)
    typed = typed_argument(prober, rung, Around(opened, middle, closed, separator), syntax, escapes)
    return Arguments(opened, closed, separator, typed.pieces, typed.styles, typed.words, quotes, syntax)


def _learn_nested(prober: Prober, rung: Rung, body: str, marks: list[Mark], at: int) -> Arguments:
    """Arguments whose tag is their key, on both ends."""
    if any(mark.slot not in (Slot.NAME, Slot.ID) for mark in marks[at + 6 :]):
        raise NotLearned("something stands after the arguments of a call")
    key, value, again, second, second_value, second_again = marks[at : at + 6]
    close, end_open = body[key.end : value.start], body[value.end : again.start]
    between = body[again.end : second.start]
    same = (close, end_open) == (body[second.end : second_value.start], body[second_value.end : second_again.start])
    if not same or not close or not between.startswith(close) or not body[second_again.end :].startswith(close):
        raise NotLearned("the end of an argument repeats its key in another form")
    opened = common_suffix([body[marks[at - 1].end if at else 0 : key.start], between[len(close) :]]).lstrip()
    if not opened or not end_open:
        raise NotLearned("the end of an argument repeats its key")
    separator = between[len(close) : len(between) - len(opened)]
    tags = NestedTags(opened, close, end_open, close, item="")
    written = {kind: _nested_value(prober, rung, tags, name, value) for kind, name, value in TYPED_VALUES}
    if written["string"] is None:
        raise NotLearned("strings are not written as other strings are")
    array = written["array"] or ""
    inner = array.find(close, len(opened))
    if array.startswith(opened) and inner > 0:
        tags = replace(tags, item=array[: inner + len(close)])
    styles = [
        (kind, ValueStyle.UNKNOWN if (text := written[kind]) is None else style_of(kind, value, text))
        for kind, _, value in TYPED_VALUES
    ]
    if tags.item:
        nested = ValueStyle.JSON  # what is written as tags is read as JSON
        styles = [(kind, nested if kind in ("array", "object") else style) for kind, style in styles]
    end = (Marker.of(end_open), Slot.KEY, Marker.of(close))
    pieces = (Marker.of(opened), Slot.KEY, Marker.of(close), Slot.VALUE, *end)
    return Arguments(opened, close, separator, pieces, tuple(styles), (), ("", ""), nested=tags)


def _nested_value(prober: Prober, rung: Rung, tags: NestedTags, key: str, value: Any) -> str | None:
    """How ``value`` stands between the tags of ``key``; None: it is refused, left out or written otherwise."""
    call = replace(FIRST.calls[0], arguments=((key, value), FIRST.calls[0].arguments[0]))
    text = prober.after_user(Said(None, (call,)), rung) or ""
    start, end = tags.open + key + tags.close, tags.end_open + key + tags.end_close
    at = text.rfind(start)
    stop = text.find(end, at)
    return text[at + len(start) : stop] if 0 <= at < stop else None


def _without(prober: Prober, rung: Rung, body: str, before: Sequence[Mark], behind: Sequence[Mark]) -> str | None:
    """What stands between the slots in front of the arguments and those behind them in a call that has none."""
    text = prober.after_user(Said(None, (replace(FIRST.calls[0], arguments=()),)), rung)
    full = prober.after_user(Said(None, FIRST.calls[:1]), rung)
    if text is None or full is None or body not in full:
        return None
    at = full.rindex(body)
    start, end = full[:at], full[at + len(body) :]  # the end of the turn, which ``body`` is without
    if not text.startswith(start) or not text.endswith(end):
        return None
    text, at = text[len(start) : len(text) - len(end)], 0
    for mark in before:
        found = text.find(body[mark.start : mark.end], at)
        if found < 0:
            return None
        at = found + mark.end - mark.start
    stop = text.find(body[behind[0].start : behind[0].end], at) if behind else len(text)
    return text[at:stop] if stop >= 0 else None


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


def widened(mark: Mark, quotes: tuple[str, str]) -> Mark:
    """``mark`` with the quotes around it where it is a value."""
    if mark.slot is not Slot.VALUE:
        return mark
    return replace(mark, start=mark.start - len(quotes[0]), end=mark.end + len(quotes[1]))


def _quotes(prober: Prober, rung: Rung) -> tuple[str, str]:
    """What strings stand between and other values do not; empty where there is no difference of this kind."""
    string = _around_value(prober, rung, TYPED_VALUES[0][1], FIRST.content)
    number = _around_value(prober, rung, TYPED_VALUES[1][1], TYPED_VALUES[1][2])
    if string is None or number is None or not (string[0].startswith(number[0]) and string[1].endswith(number[1])):
        return "", ""
    opened, closed = string[0][len(number[0]) :], string[1].removesuffix(number[1])
    return (opened, closed) if opened.strip() and closed.strip() else ("", "")


def _around_value(prober: Prober, rung: Rung, key: str, value: Any) -> tuple[str, str] | None:
    """(from the key to the value, from the value to the next key) of one argument."""
    filler = FIRST.calls[0].arguments[0]
    text = prober.after_user(Said(None, (replace(FIRST.calls[0], arguments=((key, value), filler)),)), rung)
    at = text.rfind(key) if text else -1
    if text is None or at < 0:
        return None
    start = text.find(str(value), at + len(key))
    stop = text.find(filler[0], start)
    if start < 0 or stop < 0:
        return None
    return text[at + len(key) : start], text[start + len(str(value)) : stop]


def _syntax(prober: Prober, rung: Rung, middle: str, between: str, quotes: tuple[str, str]) -> ObjectSyntax:
    """The notation of values whose strings stand between these quotes, as an object inside the arguments shows it."""
    plain = ObjectSyntax(*quotes, colon=middle.strip(), comma=between.strip())
    as_written = replace(plain, colon=middle, comma=between)  # with the layout that the arguments have too
    _, key, value = TYPED_VALUES[-1]
    written = _around_nested(prober, rung, key, value, between)
    ways = [replace(way, quoted_keys=quoted) for way in (plain, as_written) for quoted in (False, True)]
    shown = (way for way in ways if written is not None and spelled(value, written.removeprefix(middle), way))
    return next(shown, plain)


def _around_nested(prober: Prober, rung: Rung, key: str, value: Any, between: str) -> str | None:
    filler = FIRST.calls[0].arguments[0]
    text = prober.after_user(Said(None, (replace(FIRST.calls[0], arguments=((key, value), filler)),)), rung)
    return None if text is None else _between(text, key, between + filler[0])


def _between(text: str, key: str, end: str) -> str | None:
    at = text.rfind(key)
    stop = text.find(end, at)
    return text[at + len(key) : stop] if 0 <= at < stop else None
