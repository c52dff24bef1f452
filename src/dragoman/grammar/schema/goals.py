"""Goals: sets of places whose schemas hold for one value, and their alternatives without ``$ref``, allOf and anyOf.

Conjunction is done by collecting, never by merging: an alternative is a tuple of *parts*, places whose own keywords
hold together. So ``$ref`` with siblings, ``allOf`` and ``anyOf`` beside other keywords need no case of their own.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, TypeAlias

from ...errors import LimitError
from ...limits import Limits
from .document import Document
from .keywords import ENFORCED, TYPES, VALUES

Goal: TypeAlias = tuple[int, ...]
Parts: TypeAlias = tuple[int, ...]


@dataclass(frozen=True, slots=True)
class _Step:
    """A place still to be looked at, with the places that led to it; a choice if there are several."""

    options: tuple[int, ...]
    via: _Chain | None


@dataclass(frozen=True, slots=True)
class _Chain:
    place: int
    via: _Chain | None

    def __iter__(self) -> Iterator[int]:
        at: _Chain | None = self
        while at is not None:
            yield at.place
            at = at.via


@dataclass(frozen=True, slots=True)
class _Branch:
    """One alternative under construction: what is left to do, parts found, places seen."""

    todo: tuple[_Step, ...]
    parts: Parts
    seen: frozenset[int]


def alternatives(document: Document, goal: Goal, limits: Limits) -> list[Parts]:
    """The parts of each alternative, in the order of the schema. No alternative: no value; ``()``: any value.

    ``oneOf`` is taken for ``anyOf``; the document keeps the places that have one, to be checked in the end.

    Raises SchemaError for a schema that refers to itself with nothing in between, LimitError for too many alternatives.
    """
    done: dict[Parts, None] = {}
    work = [_Branch(tuple(_Step((place,), None) for place in goal), (), frozenset())]
    while work:
        if len(work) + len(done) > limits.schema_nodes:
            raise LimitError("anyOf multiplies out too far", bound="schema_nodes", limit=limits.schema_nodes)
        branch = work.pop()
        if not branch.todo:
            done[branch.parts] = None
            continue
        step, rest = branch.todo[0], branch.todo[1:]
        for place in reversed(step.options):
            following = _visit(document, place, step.via, rest, branch)
            if following is not None:
                work.append(following)
    return list(done)


def _visit(
    document: Document, place: int, via: _Chain | None, rest: tuple[_Step, ...], branch: _Branch
) -> _Branch | None:
    """The branch with the schema at ``place`` added; None if no value is left."""
    if via is not None and place in via:
        raise document.error(place, "the schema refers to itself with nothing in between")
    schema = document.schema(place)
    if schema is False:
        return None
    if schema is True or place in branch.seen:
        return _Branch(rest, branch.parts, branch.seen)
    assert isinstance(schema, dict)
    chain = _Chain(place, via)
    new: list[_Step] = []
    if "$ref" in schema:
        new.append(_Step((document.target(place),), chain))
    new.extend(_Step((document.child(place, "allOf", index),), chain) for index in range(len(schema.get("allOf", ()))))
    for keyword in ("anyOf", "oneOf"):
        if keyword in schema:
            options = tuple(document.child(place, keyword, index) for index in range(len(schema[keyword])))
            new.append(_Step(options, chain))
            if keyword == "oneOf":
                document.one_of.add(place)
    parts = (*branch.parts, place) if has_own_keywords(schema) else branch.parts
    return _Branch((*new, *rest), parts, branch.seen | {place})


def has_own_keywords(schema: dict[str, Any]) -> bool:
    """Whether the schema itself, its applicators apart, asserts anything."""
    return any(keyword in ENFORCED or keyword in VALUES for keyword in schema)


def asserts_nothing(document: Document, place: int) -> bool:
    """True: every value validates. False says nothing."""
    schema = document.schema(place)
    if isinstance(schema, bool):
        return schema
    return not has_own_keywords(schema) and not any(key in schema for key in ("$ref", "allOf", "anyOf", "oneOf"))


def dicts(document: Document, parts: Parts) -> list[dict[str, Any]]:
    """The schemas of the parts."""
    return [schema for schema in (document.schema(place) for place in parts) if isinstance(schema, dict)]


def types_of(document: Document, parts: Parts) -> frozenset[str]:
    """The types that all parts allow; ``number`` and ``integer`` overlap, ``integer`` alone is whole numbers."""
    types = frozenset(TYPES)
    for schema in dicts(document, parts):
        types &= document.types(schema)
    return types


def member_goal(document: Document, parts: Parts, name: str) -> Goal:
    """What holds for the value of property ``name``."""
    goal: list[int] = []
    for place in parts:
        schema = document.schema(place)
        assert isinstance(schema, dict)
        if name in schema.get("properties", ()):
            goal.append(document.child(place, "properties", name))
        elif "additionalProperties" in schema:
            goal.append(document.child(place, "additionalProperties"))
    return tuple(goal)


def extra_goal(document: Document, parts: Parts) -> Goal:
    """What holds for the values of properties that no part declares."""
    return tuple(
        document.child(place, "additionalProperties")
        for place in parts
        if "additionalProperties" in dicts(document, (place,))[0]
    )


def item_goal(document: Document, parts: Parts, index: int | None) -> Goal:
    """What holds for the item at ``index``; None: for the items behind every declared prefix."""
    goal: list[int] = []
    for place in parts:
        schema = document.schema(place)
        assert isinstance(schema, dict)
        prefix = prefix_keyword(schema)
        if prefix and index is not None and index < len(schema[prefix]):
            goal.append(document.child(place, prefix, index))
        elif prefix == "items":
            goal.extend([document.child(place, "additionalItems")] if "additionalItems" in schema else [])
        elif "items" in schema:
            goal.append(document.child(place, "items"))
        if isinstance(schema.get("prefixItems"), dict):
            goal.append(document.child(place, "prefixItems"))
    return tuple(goal)


def prefix_keyword(schema: dict[str, Any]) -> str | None:
    """The keyword that lists items one by one: ``prefixItems``, or ``items`` in the manner of drafts up to 2019-09."""
    if isinstance(schema.get("prefixItems"), list):
        return "prefixItems"
    return "items" if isinstance(schema.get("items"), list) else None


def prefix_length(document: Document, parts: Parts) -> int:
    lengths = [0]
    for schema in dicts(document, parts):
        prefix = prefix_keyword(schema)
        lengths.append(len(schema[prefix]) if prefix else 0)
    return max(lengths)
