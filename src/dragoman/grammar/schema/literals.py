"""What the keywords of one schema say, as atoms; and what it takes to deny each of them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

from dragoman.grammar.schema.atoms import (
    Among,
    Atom,
    Count,
    Except,
    Items,
    Keys,
    Member,
    Members,
    Multiple,
    Name,
    Not,
    Pattern,
    Range,
    Size,
    Text,
    Texts,
    Unique,
)
from dragoman.grammar.schema.document import Document
from dragoman.grammar.schema.formats import FORMATS, UNDECIDED
from dragoman.grammar.schema.keywords import FRACTION, INTEGER, KINDS, TYPES

ALL_KINDS = frozenset(KINDS)
NUMBERS = frozenset((INTEGER, FRACTION))
SIZES = (
    ("string", "minLength", "maxLength"),
    ("array", "minItems", "maxItems"),
    ("object", "minProperties", "maxProperties"),
)


_KINDS_OF = {name: NUMBERS if name == "number" else frozenset((name,)) for name in TYPES}


@dataclass(frozen=True, slots=True)
class Option:
    """A value of these kinds, for which the atoms and signed places hold."""

    kinds: frozenset[str] = ALL_KINDS
    atoms: tuple[Atom, ...] = ()
    signed: tuple[int, ...] = ()


def kinds_of(schema: dict[str, Any]) -> frozenset[str]:
    """The kinds that the schema's own ``type`` allows."""
    if "type" not in schema:
        return ALL_KINDS
    names = schema["type"]
    if isinstance(names, str):
        return _KINDS_OF[names]
    return frozenset(names) - {"number"} | (NUMBERS if "number" in names else frozenset())


def present(name: str, place: int) -> Atom:
    return Member(Name(name), (), place)


def absent(document: Document, name: str) -> Atom:
    return Members(Name(name), nothing(document))


def nothing(document: Document) -> tuple[int, ...]:
    """The goal that no value satisfies."""
    return (document.made({"not": {}}, "nothing"),)


def facts(document: Document, place: int, schema: dict[str, Any]) -> tuple[Option, list[tuple[Option, ...]]]:
    """What the schema's own keywords assert: one option that holds, and clauses of which one option holds each."""
    if len(schema) == 1 and "type" in schema:
        return Option(kinds_of(schema)), []
    atoms: list[Atom] = [Among(place, keyword) for keyword in ("enum", "const") if keyword in schema]
    for kind, least, most in SIZES:
        if schema.get(least, 0) or most in schema:
            atoms.append(Size(kind, int(schema.get(least, 0)), int(schema[most]) if most in schema else None))
    atoms += _texts(document, place, schema)
    atoms += [Range(*pair) for pair in bounds(schema)]
    if "multipleOf" in schema:
        atoms.append(Multiple(decimal(schema["multipleOf"]), place))
    atoms += _items(document, place, schema)
    contained = _contains(document, place, schema)
    atoms += [contained] if contained else []
    if schema.get("uniqueItems"):
        atoms.append(Unique(place))
    atoms += _members(document, place, schema)
    atoms += [present(name, place) for name in dict.fromkeys(schema.get("required", ()))]
    clauses: list[tuple[Option, ...]] = [
        (Option(atoms=(absent(document, name),)), Option(atoms=tuple(present(other, place) for other in needed)))
        for name, needed in _dependent_required(schema)
        if needed
    ]
    return Option(kinds_of(schema), tuple(atoms)), clauses


def denied(document: Document, place: int, schema: dict[str, Any]) -> Iterator[Option]:
    """The ways in which the schema's own keywords may fail; combinators and references are not looked at."""
    if "type" in schema:
        yield Option(ALL_KINDS - kinds_of(schema))
    for keyword in ("enum", "const"):
        if keyword in schema:
            values = schema["enum"] if keyword == "enum" else [schema["const"]]
            compound = [value for value in values if isinstance(value, (list, dict))]
            yield Option(
                atoms=(Not(place, keyword),),
                signed=tuple(~constant_place(document, place, keyword, value) for value in compound),
            )
    for kind, least, most in SIZES:
        if schema.get(least, 0):
            yield Option(frozenset((kind,)), (Size(kind, 0, int(schema[least]) - 1),))
        if most in schema:
            yield Option(frozenset((kind,)), (Size(kind, int(schema[most]) + 1, None),))
    for text in _texts(document, place, schema):
        assert isinstance(text, Text)
        yield Option(frozenset(("string",)), (Text(text.keyword, text.source, place, True),))
    for low, high in bounds(schema):
        if low is not None:
            yield Option(NUMBERS, (Range(None, (low[0], not low[1])),))
        if high is not None:
            yield Option(NUMBERS, (Range((high[0], not high[1]), None),))
    if "multipleOf" in schema:
        yield Option(NUMBERS, (Multiple(decimal(schema["multipleOf"]), place, True),))
    yield from _denied_items(document, place, schema)
    yield from _denied_members(document, place, schema)


def _denied_items(document: Document, place: int, schema: dict[str, Any]) -> Iterator[Option]:
    array = frozenset(("array",))
    for item in _items(document, place, schema):
        assert isinstance(item, Items)
        (below,) = item.goal
        if item.stop is None:
            yield Option(array, (Count(item.start, (~below,), 1, None, place),))
        else:
            yield Option(array, (Size("array", item.stop, None), Items(item.start, item.stop, (~below,))))
    contained = _contains(document, place, schema)
    if contained is not None:
        if contained.least:
            yield Option(array, (Count(0, contained.goal, 0, contained.least - 1, place),))
        if contained.most is not None:
            yield Option(array, (Count(0, contained.goal, contained.most + 1, None, place),))
    if schema.get("uniqueItems"):
        yield Option(array, (Unique(place, True),))


def _denied_members(document: Document, place: int, schema: dict[str, Any]) -> Iterator[Option]:
    object_ = frozenset(("object",))
    for members in _members(document, place, schema):
        assert isinstance(members, Members)
        (below,) = members.goal
        yield Option(object_, (Member(members.keys, (~below,), place),))
    for name in dict.fromkeys(schema.get("required", ())):
        yield Option(object_, (absent(document, name),))
    for name, needed in _dependent_required(schema):
        for other in needed:
            yield Option(object_, (present(name, place), absent(document, other)))


def _dependent_required(schema: dict[str, Any]) -> Iterator[tuple[str, list[str]]]:
    for keyword in ("dependentRequired", "dependencies"):
        for name, needed in schema.get(keyword, {}).items():
            if isinstance(needed, list):
                yield name, needed


def _texts(document: Document, place: int, schema: dict[str, Any]) -> list[Atom]:
    out: list[Atom] = []
    if "pattern" in schema:
        out.append(Text("pattern", schema["pattern"], place))
    name = schema.get("format")
    if name in FORMATS:
        out.append(Text("format", name, place))
    elif name in UNDECIDED and "string" in kinds_of(schema):
        raise document.error(place, f"the format {name} is not supported: it needs the tables of IDNA", "format")
    return out


def bounds(schema: dict[str, Any]) -> Iterator[tuple[tuple[Decimal, bool] | None, tuple[Decimal, bool] | None]]:
    for keyword, strict in (("minimum", False), ("exclusiveMinimum", True)):
        if keyword in schema:
            yield (decimal(schema[keyword]), strict), None
    for keyword, strict in (("maximum", False), ("exclusiveMaximum", True)):
        if keyword in schema:
            yield None, (decimal(schema[keyword]), strict)


def _items(document: Document, place: int, schema: dict[str, Any]) -> list[Atom]:
    prefix, rest = "prefixItems", "items"
    if not isinstance(schema.get("prefixItems"), list) and isinstance(schema.get("items"), list):
        prefix, rest = "items", "additionalItems"
    listed = schema.get(prefix)
    count = len(listed) if isinstance(listed, list) else 0
    out: list[Atom] = [Items(i, i + 1, (document.child(place, prefix, i),)) for i in range(count)]
    if isinstance(listed, dict) and prefix == "prefixItems":
        out.append(Items(0, None, (document.child(place, prefix),)))
    if rest in schema:
        out.append(Items(count, None, (document.child(place, rest),)))
    return out


def _contains(document: Document, place: int, schema: dict[str, Any]) -> Count | None:
    if "contains" not in schema:
        return None
    least, most = int(schema.get("minContains", 1)), schema.get("maxContains")
    most = None if most is None else int(most)
    return Count(0, (document.child(place, "contains"),), least, most, place)


def _members(document: Document, place: int, schema: dict[str, Any]) -> list[Atom]:
    keys: list[Keys] = []
    out: list[Atom] = []
    for name in schema.get("properties", ()):
        keys.append(Name(name))
        out.append(Members(keys[-1], (document.child(place, "properties", name),)))
    for source in schema.get("patternProperties", ()):
        keys.append(Pattern(source, place))
        out.append(Members(keys[-1], (document.child(place, "patternProperties", source),)))
    if "additionalProperties" in schema:
        out.append(Members(Except(tuple(keys)), (document.child(place, "additionalProperties"),)))
    if "propertyNames" in schema and schema["propertyNames"] is not True:
        below = document.child(place, "propertyNames")
        out.append(Members(Texts((~below,), place), nothing(document)))
    return out


def constant_place(document: Document, place: int, keyword: str, value: Any) -> int:
    """A place whose schema holds for exactly the array or object ``value``, without ``const`` of a compound."""
    if isinstance(value, list):
        schema: dict[str, Any] = {"type": "array", "minItems": len(value), "maxItems": len(value)}
        if value:
            schema["prefixItems"] = [_constant(item) for item in value]
    else:
        schema = {"type": "object", "required": list(value), "additionalProperties": False}
        schema["properties"] = {key: _constant(item) for key, item in value.items()}
    return document.made(schema, (place, keyword, id(value)))


def _constant(value: Any) -> dict[str, Any]:
    return {"const": value}


def decimal(value: float) -> Decimal:
    """The number as written, not as stored: 0.1 is one tenth."""
    return Decimal(repr(value)) if isinstance(value, float) else Decimal(value)
