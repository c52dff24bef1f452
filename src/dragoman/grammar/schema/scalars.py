"""The values inside a value: scalars that most schemas are made of at once, everything else as a goal in the queue.

A schema of one type and the keywords that bound it needs no branches: what holds beside something else, is denied or is
one of several is for expand.py. Where both ways are open they mean the same.
"""

from __future__ import annotations

from typing import Any

from dragoman.grammar.json import json_string
from dragoman.grammar.nodes import NOTHING, Choice, Literal, Node, Ref, alt, lit
from dragoman.grammar.schema.atoms import Branch, Goal, Range
from dragoman.grammar.schema.expand import COMBINING
from dragoman.grammar.schema.formats import FORMATS, UNDECIDED
from dragoman.grammar.schema.literals import bounds, kinds_of
from dragoman.grammar.schema.number_sets import numbers
from dragoman.grammar.schema.rules import Rules
from dragoman.grammar.schema.strings import one_of

_SCALARS = ("string", "integer", "number", "boolean", "null")
_LENGTHS = frozenset(("type", "minLength", "maxLength", "format"))
_RANGES = frozenset(("type", "minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "format"))
# Formats that say something, or that are refused; others are annotations.
_MEANT = UNDECIDED.union(FORMATS)
# What makes no scalar.
_HOLDING = frozenset(("properties", "additionalProperties", "items", "anyOf", "$ref"))
_BOUNDS = _LENGTHS | _RANGES
_LIMITS = _RANGES - {"type", "format"}
_CONSTANTS: dict[str, Node] = {"boolean": Choice((lit("true"), lit("false"))), "null": lit("null")}


def value(rules: Rules, goal: Goal) -> Node:
    """A value that satisfies ``goal``, inside of the one that is being compiled."""
    if len(goal) != 1 or goal[0] < 0:
        return rules.goal(goal)
    key = (goal[0], rules.level)
    known = rules.inner.get(key)
    if known is None:
        place = rules.document.led_to(goal[0])
        known = rules.inner[key] = _at(rules, place, rules.document.schema(place))
    return known


def possible_value(rules: Rules, goal: Goal) -> Node:
    """The same; NOTHING where there is none."""
    if len(goal) == 1:
        key = (goal[0], rules.level)
        known = rules.inner.get(key)
        if known is not None:
            return known
        view = rules.document.schema(goal[0])
        if not isinstance(view, bool) and COMBINING.isdisjoint(view):
            known = rules.inner[key] = _at(rules, goal[0], view)
            return known
    return NOTHING if rules.impossible(goal) else value(rules, goal)


def _at(rules: Rules, place: int, view: dict[str, Any] | bool) -> Node:
    if isinstance(view, bool) or not view or not _HOLDING.isdisjoint(view):
        return rules.goal((place,))
    if rules.sound and ("enum" in view or not _LIMITS.isdisjoint(view)) and rules.waits(place):
        said = _said(view)
        if said is None:
            return rules.goal((place,))
        if said not in rules.shared:
            rules.shared[said] = rules.goal((place,))
        return rules.shared[said]
    outer, rules.level = rules.level, rules.inner_level
    key = ("scalar", rules.level, *view.items()) if _BOUNDS.issuperset(view) and type(view.get("type")) is str else None
    node = rules.shared.get(key)
    if node is None:
        node = scalar(rules, view)
        if node is not None and key is not None:
            node = rules.shared[key] = node if isinstance(node, (Ref, Literal)) else rules.named(node)
    rules.level = outer
    return rules.goal((place,)) if node is None else rules.rule(node)


def _said(view: dict[str, Any]) -> tuple[object, ...] | None:
    """What a schema of listed strings or of numbers says, to know it again; None of all others."""
    if "enum" in view:
        return ("listed", *view["enum"]) if set(map(type, view["enum"])) == {str} else None
    return ("limits", *view.items()) if type(view.get("type")) is str and _BOUNDS.issuperset(view) else None


def scalar(rules: Rules, view: dict[str, Any]) -> Node | None:
    """The values of a schema of scalars; None for other schemas, and for those with an automaton of their own."""
    kinds = view.get("type")
    if "enum" in view or "const" in view:
        return _listed(rules, view, kinds)
    if kinds == "string":
        return _string(rules, view)
    if kinds in ("integer", "number"):
        # A format speaks of strings; of numbers it is an annotation.
        if not _RANGES.issuperset(view):
            return None
        return numbers(rules, Branch(kinds_of(view), tuple(Range(*pair) for pair in bounds(view))))
    if len(view) > 1 or kinds is None:
        return None
    if isinstance(kinds, str):
        return _CONSTANTS.get(kinds)
    if not all(kind in _SCALARS for kind in kinds):
        return None
    wide = [kind for kind in kinds if kind != "integer" or "number" not in kinds]
    return alt(*(scalar(rules, {"type": kind}) or NOTHING for kind in dict.fromkeys(wide)))


def _listed(rules: Rules, view: dict[str, Any], kinds: Any) -> Node | None:
    """Strings that are listed."""
    if len(view) > (1 if kinds is None else 2) or kinds not in (None, "string"):
        return None
    values = view["enum"] if "enum" in view else [view["const"]]
    if not values or set(map(type, values)) != {str}:
        return None
    return one_of(map(rules.constant, values), rules.rule)


def _string(rules: Rules, view: dict[str, Any]) -> Node | None:
    if len(view) == 1:
        return rules.any("string")
    if not _LENGTHS.issuperset(view) or ("format" in view and view["format"] in _MEANT):
        return None
    least, most = int(view.get("minLength", 0)), view.get("maxLength")
    if least == 0 and most is None:
        return rules.any("string")
    if most is not None and least > most:
        return NOTHING
    return json_string(rules.style, minimum=least, maximum=None if most is None else int(most))
