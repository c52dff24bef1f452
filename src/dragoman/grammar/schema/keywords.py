"""The keywords of JSON Schema that assert something, and each one's form.

All others are annotations: the standard says so of keywords that it does not define.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

NEWEST = 2020
DRAFTS: Mapping[str, int] = {
    f"http{secure}://json-schema.org/{name}/schema": number
    for name, number in (
        ("draft-03", 3), ("draft-04", 4), ("draft-05", 4), ("draft-06", 6), ("draft-07", 7),
        ("draft/2019-09", 2019), ("draft/2020-12", 2020),
    )
    for secure in ("", "s")
}  # fmt: skip

# The kinds of values. ``number`` in a schema is both kinds of numbers.
INTEGER, FRACTION = "integer", "fraction"
KINDS = ("object", "array", "string", FRACTION, INTEGER, "boolean", "null")
TYPES = ("object", "array", "string", "number", "integer", "boolean", "null")

# Where schemas stand inside a schema.
SINGLES = frozenset(
    {"not", "if", "then", "else", "contains", "items", "additionalItems", "unevaluatedItems"}
    | {"additionalProperties", "propertyNames", "unevaluatedProperties"}
)  # fmt: skip
LISTS = frozenset(("allOf", "anyOf", "oneOf", "prefixItems", "items"))
MAPS = frozenset(("properties", "patternProperties", "$defs", "definitions", "dependentSchemas", "dependencies"))


def is_count(value: Any) -> bool:
    """A non-negative whole number; JSON has no separate integers, so 2.0 is one."""
    return is_number(value) and value >= 0 and value == int(value)


def is_number(value: Any) -> bool:
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return False
    return isinstance(value, int) or abs(value) < float("inf")


def is_schema(value: Any) -> bool:
    return isinstance(value, (dict, bool))


def _types(value: Any) -> bool:
    if isinstance(value, str):
        return value in TYPES
    names = value if isinstance(value, list) else [value]
    return bool(names) and all(isinstance(name, str) and name in TYPES for name in names)


def _schemas(value: Any) -> bool:
    return isinstance(value, list) and bool(value) and all(map(is_schema, value))


def _names(value: Any) -> bool:
    return isinstance(value, list) and all(isinstance(name, str) for name in value)


def _schema_map(value: Any) -> bool:
    return isinstance(value, dict)


def _dependencies(value: Any) -> bool:
    return isinstance(value, dict) and all(is_schema(entry) or _names(entry) for entry in value.values())


def _text(value: Any) -> bool:
    return isinstance(value, str)


def _limit(value: Any) -> bool:
    return is_number(value) or isinstance(value, bool)


_COUNT = (is_count, "a non-negative integer")
_SCHEMA = (is_schema, "a schema")
_MAP = (_schema_map, "an object of schemas")
_LIST = (_schemas, "a non-empty list of schemas")

# keyword -> (its form holds, what the form is)
FORMS: Mapping[str, tuple[Callable[[Any], bool], str]] = {
    "type": (_types, f"one or a list of {', '.join(TYPES)}"),
    "enum": (lambda value: isinstance(value, list), "an array of values"),
    "const": (lambda value: True, "a value"),
    "minimum": (is_number, "a number"),
    "maximum": (is_number, "a number"),
    "exclusiveMinimum": (_limit, "a number"),
    "exclusiveMaximum": (_limit, "a number"),
    "multipleOf": (lambda value: is_number(value) and value > 0, "a number above 0"),
    "minLength": _COUNT,
    "maxLength": _COUNT,
    "pattern": (_text, "a regular expression"),
    "format": (_text, "a string"),
    "minItems": _COUNT,
    "maxItems": _COUNT,
    "uniqueItems": (lambda value: isinstance(value, bool), "true or false"),
    "contains": _SCHEMA,
    "minContains": _COUNT,
    "maxContains": _COUNT,
    "items": (lambda value: is_schema(value) or isinstance(value, list), "a schema"),
    # A schema instead of a list is found in the wild; it is read as ``items``, which is what its writers mean.
    "prefixItems": (lambda value: isinstance(value, dict) or _schemas(value), "a list of schemas"),
    "additionalItems": _SCHEMA,
    "unevaluatedItems": _SCHEMA,
    "properties": _MAP,
    "patternProperties": _MAP,
    "additionalProperties": _SCHEMA,
    "unevaluatedProperties": _SCHEMA,
    "propertyNames": _SCHEMA,
    "required": (_names, "a list of property names"),
    "minProperties": _COUNT,
    "maxProperties": _COUNT,
    "dependentRequired": (
        lambda value: isinstance(value, dict) and all(map(_names, value.values())),
        "an object of lists of property names",
    ),
    "dependentSchemas": _MAP,
    "dependencies": (_dependencies, "an object of schemas and lists of property names"),
    "$ref": (_text, "a string"),
    "$dynamicRef": (_text, "a string"),
    "$recursiveRef": (_text, "a string"),
    "allOf": _LIST,
    "anyOf": _LIST,
    "oneOf": _LIST,
    "not": _SCHEMA,
    "if": _SCHEMA,
    "then": _SCHEMA,
    "else": _SCHEMA,
}
