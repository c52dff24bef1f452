"""Tools for the laws: what parameters of every kind can look like, the harmless and the awkward."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import jsonschema  # type: ignore[import-untyped]


def tool(name: str, properties: dict[str, Any], required: Sequence[str] = (), **more: Any) -> dict[str, Any]:
    parameters = {"type": "object", "properties": properties, "required": list(required), **more}
    return {"type": "function", "function": {"name": name, "description": f"{name}.", "parameters": parameters}}


STRINGS = [
    tool("get_weather", {"city": {"type": "string"}, "note": {"type": "string"}}, ["city"]),
    tool("get_weather_2", {"place": {"type": "string", "minLength": 1, "maxLength": 12}}, ["place"]),
]
MARKUP = [
    tool(
        "set-mode.v2",
        {"mode": {"enum": ["<b>on</b>", "{off}", 'a "c"', "</x>", "[1]"]}, "why": {"type": "string"}},
        ["mode"],
    ),
    tool("ping", {}),
]
NUMBERS = [
    tool(
        "roll",
        {
            "sides": {"type": "integer", "minimum": 2, "maximum": 120},
            "weight": {"type": "number"},
            "fair": {"type": "boolean"},
            "seed": {"type": ["integer", "null"]},
        },
        ["sides"],
        additionalProperties=False,
    ),
    tool("stop", {}),
]
NESTED = [
    tool(
        "plan_route",
        {
            "from": {
                "type": "object",
                "properties": {"name": {"type": "string"}, "at": {"type": "array", "items": {"type": "number"}}},
                "required": ["name"],
                "additionalProperties": False,
            },
            "via": {"type": "array", "items": {"type": "string"}, "maxItems": 3},
            "legs": {"type": "array", "items": {"$ref": "#/$defs/leg"}, "maxItems": 2},
        },
        ["from"],
        **{"$defs": {"leg": {"type": "object", "properties": {"km": {"type": "integer"}}, "required": ["km"]}}},
    )
]
ODD_KEYS = [
    tool("odd", {"a b": {"type": "string"}, "naïve-ключ": {"type": "integer"}, "x.y[0]": {"type": "string"}}, ["a b"]),
    tool("name", {"name": {"type": "string"}, "arguments": {"type": "string"}}, ["name", "arguments"]),
]
UNIONS = [
    tool(
        "store",
        {
            "value": {"type": ["string", "integer"]},
            "other": {"anyOf": [{"type": "string"}, {"type": "null"}]},
            "any": {},
            "mixed": {"type": ["string", "boolean", "number"]},
        },
        ["value"],
    )
]
SETS: dict[str, list[dict[str, Any]]] = {
    "strings": STRINGS,
    "markup": MARKUP,
    "numbers": NUMBERS,
    "nested": NESTED,
    "odd_keys": ODD_KEYS,
    "unions": UNIONS,
}
ANSWER: dict[str, Any] = {
    "type": "object",
    "properties": {
        "title": {"type": "string"},
        "count": {"type": "integer"},
        "tags": {"type": "array", "items": {"enum": ["a", "b"]}, "maxItems": 3},
    },
    "required": ["title"],
    "additionalProperties": False,
}
ANSWER_FORMAT = {"type": "json_schema", "json_schema": {"name": "answer", "schema": ANSWER}}


def names(tools: Sequence[dict[str, Any]]) -> list[str]:
    return [str(one["function"]["name"]) for one in tools]


def keys(tools: Sequence[dict[str, Any]]) -> list[str]:
    return [str(key) for one in tools for key in one["function"]["parameters"]["properties"]]


def parameters_of(tools: Sequence[dict[str, Any]], name: str) -> dict[str, Any]:
    found: dict[str, Any] = next(one["function"]["parameters"] for one in tools if one["function"]["name"] == name)
    return found


def schema_flaw(value: Any, schema: Any) -> str | None:
    """Why ``value`` does not validate."""
    errors = jsonschema.Draft202012Validator(schema).iter_errors(value)
    return next((f"{value!r}: {error.message}" for error in errors), None)
