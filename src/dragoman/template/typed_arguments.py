"""What one tagged argument of each JSON type shows: its pieces, how the value looks, the word that tells its type."""

from __future__ import annotations

import ast
import json
import re
import string
from dataclasses import dataclass
from typing import Any

from dragoman.template.escapes import undone
from dragoman.template.probe import Prober, Rung, Said
from dragoman.template.profile import Escapes, Marker, ObjectSyntax, Piece, Slot, ValueStyle
from dragoman.template.sentinels import FIRST, TYPED_VALUES, ProbeCall
from dragoman.template.written import NotLearned

_WORD = re.compile(r"\w+")
_LETTERS = string.ascii_letters + string.digits + "_"


@dataclass(frozen=True, slots=True)
class Around:
    """What stands in front of a string's key, between it and the value, behind the value, and in front of the next."""

    open: str
    middle: str
    close: str
    separator: str

    def end(self, words: dict[str, str], kind: str) -> str:
        """What stands between a value of this type and the key of a string."""
        return self.closed(words, kind) + self.separator + self.open

    def closed(self, words: dict[str, str], kind: str) -> str:
        """What stands behind a value of this type: the closer may repeat the word for the type."""
        return re.sub(rf"\b{words['string']}\b", words[kind], self.close) if kind in words else self.close


@dataclass(frozen=True, slots=True)
class Typed:
    """The pieces of one argument, the style of each JSON type's values, and the word that tells each type."""

    pieces: tuple[Piece, ...]
    styles: tuple[tuple[str, ValueStyle], ...]
    words: tuple[tuple[str, str], ...]


def typed_argument(prober: Prober, rung: Rung, around: Around, syntax: ObjectSyntax | None, escapes: Escapes) -> Typed:
    """What one argument of each type shows."""
    if any(key in around.end({}, "string") for key, _ in FIRST.calls[0].arguments):
        raise NotLearned("the end of an argument repeats its key")
    texts: dict[str, tuple[str, str]] = {}  # kind -> (up to the key, from behind it)
    for kind, key, value in TYPED_VALUES:
        call = ProbeCall(FIRST.calls[0].id, FIRST.calls[0].name, ((key, value), FIRST.calls[0].arguments[0]))
        text = prober.after_user(Said(None, (call,)), rung) or ""
        if key in text:
            texts[kind] = text[: text.rindex(key)], text[text.rindex(key) + len(key) :]
    lead, lead_words = _typed_opener(around.open, {kind: before for kind, (before, _) in texts.items()})
    words_of = lead_words or _words_around(around, {kind: behind for kind, (_, behind) in texts.items()})
    written: dict[str, str] = {}
    for kind, (_, text) in texts.items():
        stop = text.find(around.end(words_of, kind) + FIRST.calls[0].arguments[0][0])
        if stop > 0:
            spelled = kind == "string" or escapes.json
            written[kind] = undone(text[:stop], escapes.value) if spelled else text[:stop]
    refused = [kind for kind, _, _ in TYPED_VALUES if kind not in written]
    if refused and "string" not in refused and all(kind in ("null", "array", "object") for kind in refused):
        pass  # a template may refuse what it never expected; such values are unknown
    elif refused:
        raise NotLearned(f"values of type {', '.join(refused)} are not written as strings are")
    middle = around.middle
    middles = dict.fromkeys(written, middle)
    typed: list[Piece] = [Marker.of(middle)]
    words = tuple((kind, lead_words[kind]) for kind in written) if lead_words else ()
    if not all(text.startswith(middle) for text in written.values()):
        middles, typed, words = _typed_middles(middle, written)
    styles = []
    for kind, _, value in TYPED_VALUES:
        if kind in written:
            styles.append((kind, style_of(kind, value, written[kind][len(middles[kind]) :], syntax)))
        else:
            styles.append((kind, ValueStyle.UNKNOWN))
    pieces = [*lead, Slot.KEY, *typed, Slot.VALUE, *_typed_closer(around, words_of)]
    return Typed(tuple(piece for piece in pieces if not isinstance(piece, Marker) or piece), tuple(styles), words)


def _words_around(around: Around, behind: dict[str, str]) -> dict[str, str]:
    """Words for the value's type that stand in front of the value and behind it (``<i>1</i>``); none where none do."""
    parts: dict[str, tuple[str, str]] = {}
    for kind, _, value in TYPED_VALUES:
        if kind in behind:
            text = behind[kind].split(around.separator + around.open + FIRST.calls[0].arguments[0][0])[0]
            looks = [look for look in _looks(value) if look in text]
            if not looks or text == behind[kind]:
                return {}
            before, _, after = text.partition(max(looks, key=len))
            parts[kind] = before, after
    words = _words_apart({kind: before for kind, (before, _) in parts.items()})[2]
    if not all(map(_WORD.fullmatch, words.values())) or "string" not in words:
        return {}
    same = all(after == around.closed(words, kind) for kind, (_, after) in parts.items())
    return words if same and any(after != around.close for _, after in parts.values()) else {}


def _looks(value: Any) -> list[str]:
    """How templates write a value."""
    if isinstance(value, str):
        return [value]
    return [json.dumps(value), json.dumps(value, separators=(",", ":")), str(value)]


def _words_apart(texts: dict[str, str]) -> tuple[str, str, dict[str, str]]:
    """(what all texts begin with, what they end with, the words in which they differ between the two)."""
    head = _shared(list(texts.values())).rstrip(_LETTERS)
    tail = _shared([text[len(head) :][::-1] for text in texts.values()])[::-1].lstrip(_LETTERS)
    return head, tail, {kind: text[len(head) : len(text) - len(tail)] for kind, text in texts.items()}


def _shared(texts: list[str]) -> str:
    """The characters that all texts begin with."""
    first, last = min(texts), max(texts)
    size = next((at for at, char in enumerate(first) if last[at : at + 1] != char), len(first))
    return first[:size]


def _typed_opener(opened: str, before: dict[str, str]) -> tuple[list[Piece], dict[str, str]]:
    """The pieces of an argument up to its key, and the words in it that tell the value's type; none where none do."""
    _, tail, words = _words_apart(before)
    lead = opened.removesuffix(words.get("string", "") + tail)
    if len(set(words.values())) < 2 or not all(map(_WORD.fullmatch, words.values())) or lead == opened:
        return [Marker.of(opened)], {}
    return [Marker.of(lead), Slot.TYPE, Marker.of(tail)], words


def _typed_closer(around: Around, words: dict[str, str]) -> list[Piece]:
    """The pieces behind a value: a word for its type stands there where its opener has one."""
    if not words or around.closed(words, "boolean") == around.close:
        return [Marker.of(around.close)]
    before, after = re.split(rf"\b{words['string']}\b", around.close, maxsplit=1)
    return [Marker.of(before), Slot.TYPE, Marker.of(after)]


def _typed_middles(
    middle: str, written: dict[str, str]
) -> tuple[dict[str, str], list[Piece], tuple[tuple[str, str], ...]]:
    """What stands between key and value where one word of it tells the value's type."""
    middles = {"string": middle}
    for kind, _, value in TYPED_VALUES[1:]:
        if kind in written:
            ends = [look for look in _looks(value) if written[kind].endswith(look)]
            if not ends:
                raise NotLearned("the text between key and value depends on the value's type")
            middles[kind] = written[kind].removesuffix(max(ends, key=len))
    head, tail, words = _words_apart(middles)
    # A mark of any kind may say that a value is no string, or that it is one: <p name="k" json="1">.
    others = {word for kind, word in words.items() if kind != "string"}
    marked = bool(head.strip()) and len(others) == 1 and words["string"] not in others
    if not marked and not all(map(_WORD.fullmatch, words.values())):
        raise NotLearned("the text between key and value depends on the value's type")
    return middles, [Marker.of(head), Slot.TYPE, Marker.of(tail)], tuple(words.items())


def spelled(value: Any, written: str, syntax: ObjectSyntax) -> bool:
    """True: ``written`` is ``value`` in this notation, null spelled in either way."""
    return any(written == spell(value, syntax, null) for null in ("null", "None"))


def spell(value: Any, syntax: ObjectSyntax, null: str = "null") -> str:
    """``value`` in this notation."""
    if isinstance(value, str):
        return syntax.quote_open + value + syntax.quote_close
    if isinstance(value, dict):
        keys = {key: spell(key, syntax) if syntax.quoted_keys else key for key in value}
        members = [keys[key] + syntax.colon + spell(item, syntax, null) for key, item in value.items()]
        return "{" + syntax.comma.join(members) + "}"
    if isinstance(value, list):
        return "[" + syntax.comma.join(spell(item, syntax, null) for item in value) + "]"
    return null if value is None else json.dumps(value)


def style_of(kind: str, value: Any, written: str, syntax: ObjectSyntax | None = None) -> ValueStyle:
    """How ``written`` shows ``value``."""
    if syntax is not None and kind in ("string", "array", "object"):
        shown = ValueStyle.RAW if kind == "string" else ValueStyle.JSON
        return shown if spelled(value, written, syntax) else ValueStyle.UNKNOWN
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
