"""Does a value validate? A small, plain validator of the enforced keywords, for values that a schema lists itself."""

from __future__ import annotations

import json
from decimal import Decimal
from typing import Any

from ...errors import LimitError
from ...limits import Limits
from .document import Document
from .goals import Goal, Parts, alternatives, dicts, item_goal, member_goal


def holds(document: Document, goal: Goal, value: Any, limits: Limits) -> bool:
    """Whether ``value`` validates against all schemas of ``goal``."""
    work: list[tuple[Goal, Any]] = [(goal, value)]
    # A disjunction needs a decision of its own; plain conjunctions just add to the work.
    while work:
        goal, value = work.pop()
        options = alternatives(document, goal, limits)
        if len(options) != 1:
            if not any(parts_hold(document, parts, value, limits) for parts in options):
                return False
            continue
        below = _own_keywords(document, options[0], value)
        if below is None:
            return False
        work.extend(below)
    return True


def parts_hold(document: Document, parts: Parts, value: Any, limits: Limits) -> bool:
    """Whether ``value`` validates against the own keywords of all ``parts``."""
    below = _own_keywords(document, parts, value)
    try:
        return below is not None and all(holds(document, goal, item, limits) for goal, item in below)
    except RecursionError:
        raise LimitError("a listed value is nested too deep", bound="schema_nodes", limit=limits.schema_nodes) from None


def _own_keywords(document: Document, parts: Parts, value: Any) -> list[tuple[Goal, Any]] | None:
    """None if ``value`` fails; else what is left to check of its items and members."""
    for place, schema in zip(parts, dicts(document, parts), strict=True):
        if type_name(value) not in document.types(schema) or not _sized(schema, value):
            return None
        if ("enum" in schema or "const" in schema) and canonical(value) not in _listed(document, place, schema):
            return None
    if isinstance(value, dict):
        return [(member_goal(document, parts, name), item) for name, item in value.items()]
    if isinstance(value, list):
        return [(item_goal(document, parts, index), item) for index, item in enumerate(value)]
    return []


def _listed(document: Document, place: int, schema: dict[str, Any]) -> frozenset[str]:
    """The canonical texts of the values that ``enum`` and ``const`` of one schema list together."""
    if place not in document.listed:
        values = [frozenset(map(canonical, schema["enum"]))] if "enum" in schema else []
        values += [frozenset([canonical(schema["const"])])] if "const" in schema else []
        document.listed[place] = frozenset.intersection(*values)
    return document.listed[place]


def _sized(schema: dict[str, Any], value: Any) -> bool:
    if isinstance(value, str):
        return _within(len(value), schema.get("minLength"), schema.get("maxLength"))
    if isinstance(value, list):
        return _within(len(value), schema.get("minItems"), schema.get("maxItems"))
    if isinstance(value, dict):
        return all(name in value for name in schema.get("required", ()))
    if isinstance(value, (int, float)) and not isinstance(value, bool):
        above = "exclusiveMinimum" not in schema or value > schema["exclusiveMinimum"]
        below = "exclusiveMaximum" not in schema or value < schema["exclusiveMaximum"]
        return above and below and _within(value, schema.get("minimum"), schema.get("maximum"))
    return True


def _within(value: float, low: float | None, high: float | None) -> bool:
    return (low is None or value >= low) and (high is None or value <= high)


def type_name(value: Any) -> str:
    """The narrowest JSON Schema type of a value."""
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "boolean"
    if isinstance(value, (int, float)):
        return "integer" if isinstance(value, int) or value.is_integer() else "number"
    return "string" if isinstance(value, str) else "array" if isinstance(value, list) else "object"


def canonical(value: Any) -> str:
    """A text that is equal for values that JSON Schema holds equal: 1 and 1.0, objects in any order; not 1 and true."""
    if isinstance(value, (dict, list)):
        return json.dumps(_plain(value), sort_keys=True)
    return json.dumps(_plain(value))


def _plain(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _plain(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_plain(item) for item in value]
    if isinstance(value, float) and value.is_integer():
        return int(value)
    return value


def decimal(value: float) -> Decimal:
    """The number as written, not as stored: 0.1 is one tenth."""
    return Decimal(repr(value)) if isinstance(value, float) else Decimal(value)
