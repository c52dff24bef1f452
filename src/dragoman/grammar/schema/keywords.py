"""The keywords of JSON Schema: what is enforced, what only describes, what is refused, and each one's form.

A keyword that is in no table is refused by name: an unknown assertion that is skipped would be a broken promise.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

TYPES = ("object", "array", "string", "number", "integer", "boolean", "null")

# Say nothing about the value. ``$id``, ``id`` and ``$schema`` only at the root, see document.py.
ANNOTATIONS = frozenset(
    {"title", "description", "default", "examples", "$comment", "deprecated", "readOnly", "writeOnly"}
    | {"$defs", "definitions"}  # looked at where a $ref leads to them
)
ROOT_ONLY = frozenset(("$schema", "$id", "id"))

# Lead to other schemas that hold for the same value.
APPLICATORS = frozenset(("$ref", "allOf", "anyOf", "oneOf"))

# Enforced on values of one type, and silent on all others.
ENFORCED: Mapping[str, str] = {
    "minLength": "string",
    "maxLength": "string",
    "minimum": "number",
    "maximum": "number",
    "exclusiveMinimum": "number",
    "exclusiveMaximum": "number",
    "items": "array",
    "prefixItems": "array",
    "additionalItems": "array",
    "minItems": "array",
    "maxItems": "array",
    "properties": "object",
    "required": "object",
    "additionalProperties": "object",
}
VALUES = frozenset(("type", "enum", "const"))

# Known, not enforced: refused where values of their type are possible. ``format`` is here because an engine that skips
# it would write dates that are none; the standard's formats all speak of strings.
REFUSED: Mapping[str, str] = {
    "pattern": "string",
    "format": "string",
    "contentEncoding": "string",
    "contentMediaType": "string",
    "contentSchema": "string",
    "multipleOf": "number",
    "contains": "array",
    "minContains": "array",
    "maxContains": "array",
    "uniqueItems": "array",
    "unevaluatedItems": "array",
    "patternProperties": "object",
    "propertyNames": "object",
    "minProperties": "object",
    "maxProperties": "object",
    "dependencies": "object",
    "dependentRequired": "object",
    "dependentSchemas": "object",
    "unevaluatedProperties": "object",
}

# These values of a refused keyword assert nothing.
EMPTY_ASSERTIONS: Mapping[str, Any] = {
    "uniqueItems": False,
    "minProperties": 0,
    "patternProperties": {},
    "dependencies": {},
    "dependentRequired": {},
    "dependentSchemas": {},
}

STRING_FORMATS = frozenset(
    {"date-time", "time", "date", "duration", "email", "idn-email", "hostname", "idn-hostname", "ipv4", "ipv6"}
    | {"uri", "uri-reference", "iri", "iri-reference", "uuid", "uri-template", "regex"}
    | {"json-pointer", "relative-json-pointer"}
)


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
    names = value if isinstance(value, list) else [value]
    return bool(names) and all(isinstance(name, str) and name in TYPES for name in names)


def _schemas(value: Any) -> bool:
    return isinstance(value, list) and bool(value) and all(map(is_schema, value))


# keyword -> (its form holds, what the form is)
FORMS: Mapping[str, tuple[Callable[[Any], bool], str]] = {
    "type": (_types, f"one or a list of {', '.join(TYPES)}"),
    "enum": (lambda value: isinstance(value, list), "an array of values"),
    "minimum": (is_number, "a number"),
    "maximum": (is_number, "a number"),
    "exclusiveMinimum": (is_number, "a number (the boolean form of draft 4 is not supported)"),
    "exclusiveMaximum": (is_number, "a number (the boolean form of draft 4 is not supported)"),
    "minLength": (is_count, "a non-negative integer"),
    "maxLength": (is_count, "a non-negative integer"),
    "minItems": (is_count, "a non-negative integer"),
    "maxItems": (is_count, "a non-negative integer"),
    "items": (lambda value: is_schema(value) or isinstance(value, list), "a schema"),
    # A schema instead of a list is found in the wild; it is read as ``items``, which is what its writers mean.
    "prefixItems": (lambda value: isinstance(value, dict) or _schemas(value), "a list of schemas"),
    "additionalItems": (is_schema, "a schema"),
    "properties": (lambda value: isinstance(value, dict), "an object of schemas"),
    "required": (
        lambda value: isinstance(value, list) and all(isinstance(name, str) for name in value),
        "a list of property names",
    ),
    "additionalProperties": (is_schema, "a schema"),
    "$ref": (lambda value: isinstance(value, str), "a string"),
    "allOf": (_schemas, "a non-empty list of schemas"),
    "anyOf": (_schemas, "a non-empty list of schemas"),
    "oneOf": (_schemas, "a non-empty list of schemas"),
}
