"""JSON as grammar rules (RFC 8259), written so that every text has one parse and few alternatives live at a time.

Rules of this file: white space belongs to the token before it, never to the token after it; the first byte of a value
decides its kind; an escape is one character, so that a repeat over characters counts code points.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Literal as OneOf
from typing import TypeAlias

from dragoman.grammar.nodes import EMPTY, Choice, Class, Node, Ref, Repeat, Without, alt, chars, lit, opt, seq

Whitespace = OneOf["free", "bounded", "compact"]
Escapes = OneOf["any", "paired", "canonical"]
Ranges: TypeAlias = "tuple[tuple[int, int], ...]"

DIGIT = Class(((0x30, 0x39),))
NONZERO = Class(((0x31, 0x39),))
HEX = chars("0123456789abcdefABCDEF")
SHORT_ESCAPES = {'"': '"', "\\": "\\", "\b": "b", "\f": "f", "\n": "n", "\r": "r", "\t": "t"}
PLAIN = ((0x20, 0x21), (0x23, 0x5B), (0x5D, 0xD7FF), (0xE000, 0x10FFFF))


@dataclass(frozen=True, slots=True)
class Layout:
    """White space of one style. pad: inside brackets and before ``,`` and ``:``; colon, comma: what may follow them."""

    pad: Node
    colon: Node
    comma: Node


@dataclass(frozen=True, slots=True)
class JsonStyle:
    """How JSON is spelled.

    whitespace: ``free`` as the RFC; ``bounded`` at most one blank after ``:`` and one blank or newline after ``,``;
    ``compact`` none. escapes: ``any`` as the RFC; ``paired`` without lone surrogates; ``canonical`` only where needed,
    so that a string has one spelling. string_max: characters of a string. items_max: items of an array and members of
    an object at the top, see :func:`room`. integer_digits, fraction_digits: digits of a number, with an exponent of at
    most two. banned: texts that no string may hold as written.
    """

    whitespace: Whitespace = "free"
    escapes: Escapes = "any"
    string_max: int | None = None
    items_max: int | None = None
    integer_digits: int | None = None
    fraction_digits: int | None = None
    banned: tuple[bytes, ...] = ()


FREE = JsonStyle()
# Kinds of values that hold others.
NESTED = ("array", "object")


def room(items_max: int | None, level: int) -> int | None:
    """Items that an array may have at ``level`` of nesting: half as many every two levels, 0 at the last one.

    Two levels, since an array of objects is one list to people. None: any number.
    """
    return None if items_max is None else items_max >> level // 2


def text_room(string_max: int | None, level: int) -> int | None:
    """Characters of a string at ``level`` of nesting: all up to the items of one list, then half as many every two."""
    return None if string_max is None else max(string_max >> max(level - 2, 0) // 2, min(string_max, 8))


def last_level(items_max: int | None) -> int:
    """The level from which on there is no :func:`room`; 0 where levels are not told apart."""
    return 0 if items_max is None else 2 * items_max.bit_length()


def json_name(prefix: str, kind: str, level: int) -> str:
    """The rule for any JSON of a kind at a level of nesting."""
    return f"{prefix}.{level}.{kind}" if level and kind in ("value", "string", *NESTED) else f"{prefix}.{kind}"


def json_rules(
    *, prefix: str = "json", whitespace: Whitespace = "free", style: JsonStyle | None = None
) -> dict[str, Node]:
    """Rules ``{prefix}.value``, ``.object``, ``.array``, ``.string``, ``.number``, ``.literal`` and ``.ws``.

    ``style`` says more than ``whitespace`` and wins over it; with its ``items_max`` there are the rules of further
    levels, see :func:`json_name`. No rule takes white space before or after itself.
    """
    return dict(_json_rules(prefix, style or JsonStyle(whitespace=whitespace)))


# Nodes are immutable, and every schema of a style asks for the same ones.
@lru_cache(maxsize=64)
def _json_rules(prefix: str, style: JsonStyle) -> dict[str, Node]:
    layout = json_layout(style.whitespace, prefix)
    rules: dict[str, Node] = {}
    last = last_level(style.items_max)
    for level in range(last + 1):
        value = Ref(json_name(prefix, "value", min(level + 1, last)))
        member = seq(Ref(json_name(prefix, "string", level)), layout.pad, lit(":"), layout.colon, value, layout.pad)
        most = room(style.items_max, level)
        text = replace(style, string_max=text_room(style.string_max, level))
        scalars = ("string", "number", "literal")
        rules |= {
            json_name(prefix, "value", level): Choice(
                tuple(
                    Ref(json_name(prefix, kind, level))
                    for kind in (scalars if most == 0 else ("object", "array", *scalars))
                )
            ),
            json_name(prefix, "string", level): json_string(text),
            json_name(prefix, "object", level): seq(lit("{"), layout.pad, _listed(member, layout, "}", most)),
            json_name(prefix, "array", level): seq(
                lit("["), layout.pad, _listed(seq(value, layout.pad), layout, "]", most)
            ),
        }
    return rules | {
        f"{prefix}.number": json_number(style),
        f"{prefix}.literal": Choice((lit("true"), lit("false"), lit("null"))),
        f"{prefix}.ws": json_whitespace(style.whitespace),
    }


def _listed(item: Node, layout: Layout, close: str, most: int | None) -> Node:
    """The rest of an object or array of up to ``most`` items behind its opening bracket and padding."""
    if most == 0:
        return lit(close)
    more = EMPTY if most == 1 else Repeat(seq(lit(","), layout.comma, item), 0, None if most is None else most - 1)
    return alt(lit(close), seq(item, more, lit(close)))


def json_whitespace(whitespace: Whitespace) -> Node:
    """The white space of ``{prefix}.ws``: any, at most one blank, none."""
    if whitespace == "free":
        return Repeat(chars(" \t\n\r"))
    return opt(lit(" ")) if whitespace == "bounded" else EMPTY


@lru_cache(maxsize=64)
def json_layout(whitespace: Whitespace, prefix: str) -> Layout:
    """Where white space may stand; ``free`` refers to the rule ``{prefix}.ws``."""
    if whitespace == "free":
        space = Ref(f"{prefix}.ws")
        return Layout(space, space, space)
    if whitespace == "bounded":
        return Layout(EMPTY, opt(lit(" ")), opt(chars(" \n")))
    return Layout(EMPTY, EMPTY, EMPTY)


@lru_cache(maxsize=256)
def json_string(style: JsonStyle, *, minimum: int = 0, maximum: int | None = None) -> Node:
    """A string of ``minimum`` to ``maximum`` characters (the style's cap where None), quotes included."""
    if maximum is None and style.string_max is not None:
        maximum = max(style.string_max, minimum)
    if maximum == 0:
        return lit('""')
    return seq(lit('"'), free_of(Repeat(json_char(style), minimum, maximum), style), lit('"'))


def free_of(body: Node, style: JsonStyle) -> Node:
    """``body`` without the banned texts of more than one character; :func:`json_char` leaves out the others."""
    forbidden = tuple(text for text in style.banned if len(_decoded(text)) > 1)
    return Without(body, forbidden) if forbidden else body


def json_char(style: JsonStyle, *, without: Iterable[str] = ()) -> Node:
    """One character of a string as written, except those in ``without`` and those that the style bans."""
    banned = {text for text in map(_decoded, style.banned) if len(text) == 1}
    left_out = banned | set(without)
    plain = subtract(PLAIN, left_out)
    if style.escapes == "canonical":
        return alt(plain, *_canonical_escapes(left_out))
    short = [c for c in '"\\/bfnrt' if c not in banned]
    return alt(plain, seq(lit("\\"), alt(chars("".join(short)), _unicode_escape(style.escapes))))


@lru_cache(maxsize=256)
def json_class(ranges: Ranges, style: JsonStyle) -> Node:
    """One character of ``ranges`` (ascending, disjoint) in its canonical spelling, except what the style bans."""
    left_out = {text for text in map(_decoded, style.banned) if len(text) == 1}
    plain = subtract(_met(ranges, PLAIN), left_out)
    escaped = {chr(c) for c in (*range(0x20), 0x22, 0x5C) if not any(low <= c <= high for low, high in ranges)}
    options = _canonical_escapes(left_out | escaped)
    return alt(plain, *options) if plain.ranges or not options else options[0]


def _met(a: Ranges, b: Ranges) -> Ranges:
    return tuple(
        (max(low, first), min(high, last)) for low, high in a for first, last in b if low <= last and high >= first
    )


def _canonical_escapes(left_out: set[str]) -> list[Node]:
    """Escapes of exactly the characters that cannot stand as they are, one spelling each."""
    short = "".join(letter for char, letter in SHORT_ESCAPES.items() if char not in left_out)
    rest: dict[str, str] = {}
    for code in range(0x20):
        if chr(code) not in SHORT_ESCAPES and chr(code) not in left_out:
            digits = f"{code:02x}"
            rest[digits[0]] = rest.get(digits[0], "") + digits[1]
    options: list[Node] = [chars(short)] if short else []
    if rest:
        options.append(seq(lit("u00"), alt(*(seq(lit(high), chars(low)) for high, low in sorted(rest.items())))))
    return [seq(lit("\\"), alt(*options))] if options else []


def _unicode_escape(escapes: Escapes) -> Node:
    if escapes == "any":
        return seq(lit("u"), Repeat(HEX, 4, 4))
    two, three = Repeat(HEX, 2, 2), Repeat(HEX, 3, 3)
    single = alt(seq(chars("0123456789abcefABCEF"), three), seq(chars("dD"), chars("01234567"), two))
    pair = seq(chars("dD"), chars("89abAB"), two, lit("\\u"), chars("dD"), chars("cdefCDEF"), two)
    return seq(lit("u"), alt(single, pair))


@lru_cache(maxsize=64)
def json_number(style: JsonStyle) -> Node:
    """A number; its digits are bounded where the style says so, its exponent then has at most two."""
    bounded = style.integer_digits is not None
    digits_more = None if style.integer_digits is None else max(style.integer_digits - 1, 0)
    integer = alt(lit("0"), seq(NONZERO, Repeat(DIGIT, 0, digits_more)))
    fraction = seq(lit("."), Repeat(DIGIT, 1, style.fraction_digits)) if style.fraction_digits != 0 else EMPTY
    exponent = seq(chars("eE"), opt(chars("+-")), Repeat(DIGIT, 1, 2 if bounded else None))
    return seq(opt(lit("-")), integer, opt(fraction), opt(exponent))


_ESCAPED = re.compile(r'["\\\x00-\x1f\ud800-\udfff]')


def json_text(text: str, banned: tuple[bytes, ...] = ()) -> str:
    """The canonical spelling of a string, quotes included; a banned text inside is broken by one ``\\u`` escape."""
    if not banned and not _ESCAPED.search(text):
        return f'"{text}"'
    written = [_spelled(char) for char in text]
    plain = "".join(written)
    starts = _offsets(written)
    for word in filter(None, map(_decoded, banned)):
        at = plain.find(word)
        while at >= 0:
            inside = next((i for i in range(len(text)) if at <= starts[i] and len(written[i]) == 1), None)
            if inside is not None and starts[inside] < at + len(word):
                written[inside] = _escaped(text[inside])
                plain, starts = "".join(written), _offsets(written)
                at = plain.find(word)
            else:
                at = plain.find(word, at + 1)
    return f'"{plain}"'


def _spelled(char: str) -> str:
    if char in SHORT_ESCAPES:
        return "\\" + SHORT_ESCAPES[char]
    return _escaped(char) if ord(char) < 0x20 or 0xD800 <= ord(char) <= 0xDFFF else char


def _escaped(char: str) -> str:
    code = ord(char)
    if code < 0x10000:
        return f"\\u{code:04x}"
    return f"\\u{0xD800 + (code - 0x10000 >> 10):04x}\\u{0xDC00 + (code - 0x10000 & 0x3FF):04x}"


def _offsets(pieces: list[str]) -> list[int]:
    at, out = 0, []
    for piece in pieces:
        out.append(at)
        at += len(piece)
    return out


def _decoded(text: bytes) -> str:
    return text.decode("utf-8", "replace")


def subtract(ranges: tuple[tuple[int, int], ...], left_out: Iterable[str]) -> Class:
    """The characters of ``ranges`` except those in ``left_out``."""
    points = sorted({ord(char) for char in left_out})
    out: list[tuple[int, int]] = []
    for low, high in ranges:
        for point in points:
            if low <= point <= high:
                if low < point:
                    out.append((low, point - 1))
                low = point + 1
        if low <= high:
            out.append((low, high))
    return Class(tuple(out))
