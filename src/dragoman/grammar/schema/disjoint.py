"""Can two alternatives share a value? Only a proof counts: False here lets ``oneOf`` be written as a plain choice."""

from __future__ import annotations

from typing import Any

from ...limits import Limits
from .check import canonical, parts_hold
from .document import Document
from .goals import Parts, alternatives, dicts, has_own_keywords, member_goal, types_of
from .ranges import bounds, counts

# Discriminators sit at most this deep below the alternatives: {"kind": {"type": {"const": ...}}}.
DEPTH = 4


def check_one_of(document: Document, limits: Limits) -> None:
    """Raises SchemaError unless each ``oneOf`` that the document has met is provably a plain choice."""
    done: set[int] = set()
    while document.one_of - done:  # a look at one may lead to others
        for place in sorted(document.one_of - done):
            _check(document, place, limits)
            done.add(place)


def _check(document: Document, place: int, limits: Limits) -> None:
    schema = document.schema(place)
    assert isinstance(schema, dict)
    own: Parts = (place,) if has_own_keywords(schema) else ()
    branches = []
    for index in range(len(schema["oneOf"])):
        options = alternatives(document, (document.child(place, "oneOf", index),), limits)
        branches.append([tuple(dict.fromkeys((*own, *parts))) for parts in options])
    for index, branch in enumerate(branches):
        for before in range(index):
            if any(may_overlap(document, a, b, limits) for a in branches[before] for b in branch):
                raise document.error(
                    place,
                    f"oneOf is supported only where its branches cannot overlap; {before} and {index} may: tell them "
                    "apart by type or by a required property with different constants, or write anyOf",
                    "oneOf",
                )


def may_overlap(document: Document, a: Parts, b: Parts, limits: Limits, depth: int = DEPTH) -> bool:
    """False: no value satisfies both. True says nothing."""
    both = tuple(dict.fromkeys((*a, *b)))
    values = listed_values(document, both)
    if values is not None:
        return any(parts_hold(document, both, value, limits) for value in values)
    return any(_may_share(document, kind, a, b, both, limits, depth) for kind in types_of(document, both))


def listed_values(document: Document, parts: Parts) -> list[Any] | None:
    """The values that some part lists by const or enum, shortest list first; None if no part does."""
    lists = []
    for schema in dicts(document, parts):
        if "const" in schema:
            lists.append([schema["const"]])
        if "enum" in schema:
            lists.append(list({canonical(value): value for value in schema["enum"]}.values()))
    return min(lists, key=len) if lists else None


def _may_share(document: Document, kind: str, a: Parts, b: Parts, both: Parts, limits: Limits, depth: int) -> bool:
    schemas = dicts(document, both)
    if kind in ("number", "integer"):
        low, high = bounds(schemas)
        return low is None or high is None or low[0] < high[0] or (low[0] == high[0] and not low[1] and not high[1])
    if kind in ("string", "array"):
        least, most = counts(schemas, *(("minLength", "maxLength") if kind == "string" else ("minItems", "maxItems")))
        return most is None or least <= most
    if kind != "object":
        return True
    required = dict.fromkeys(name for schema in schemas for name in schema.get("required", ()))
    return not any(_told_apart(document, name, a, b, limits, depth) for name in required)


def _told_apart(document: Document, name: str, a: Parts, b: Parts, limits: Limits, depth: int) -> bool:
    """True: property ``name``, which one side demands, cannot have a value that suits both."""
    if depth == 0:
        return False
    goals = [member_goal(document, a, name), member_goal(document, b, name)]
    ours, theirs = (alternatives(document, goal, limits) for goal in goals)
    return not any(may_overlap(document, x, y, limits, depth - 1) for x in ours for y in theirs)
