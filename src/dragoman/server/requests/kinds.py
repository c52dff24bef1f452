"""What a value of a request must be, and how a field is read. The OpenAPI document comes from the same kinds.

Null means "not given".
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from dragoman.errors import UsageError


@dataclass(frozen=True, slots=True)
class Kind:
    """What a value must be: in words, as a check, and as a JSON Schema."""

    words: str
    check: Callable[[Any], bool]
    schema: Mapping[str, Any]


def _is_integer(value: Any) -> bool:
    return type(value) is int or (type(value) is float and value.is_integer())


def is_number(value: Any) -> bool:
    return type(value) is int or (type(value) is float and math.isfinite(value))


_LONG = 10**30  # a number that nobody reads
_COUNT_MAX = 2**31 - 1  # engines keep counts in 32 bits


def is_text_or(kind: type) -> Callable[[Any], bool]:
    return lambda value: isinstance(value, (str, kind))


TEXT = Kind("a string", lambda value: isinstance(value, str), {"type": "string"})
FLAG = Kind("a boolean", lambda value: isinstance(value, bool), {"type": "boolean"})
OBJECT = Kind("an object", lambda value: isinstance(value, Mapping), {"type": "object"})
LIST = Kind("a list", lambda value: isinstance(value, list), {"type": "array"})
INTEGER = Kind("an integer", _is_integer, {"type": "integer"})
NUMBER = Kind("a number", is_number, {"type": "number"})
TEXT_OR_OBJECT = Kind("a string or an object", is_text_or(dict), {"type": ["string", "object"]})
TEXT_OR_LIST = Kind("a string or a list", is_text_or(list), {"type": ["string", "array"]})
TEXTS = Kind(
    "a string or a list of strings",
    lambda value: isinstance(value, str) or (isinstance(value, list) and all(isinstance(each, str) for each in value)),
    {"anyOf": [{"type": "string"}, {"type": "array", "items": {"type": "string"}}]},
)
TEXT_LIST = Kind(
    "a list of strings",
    lambda value: isinstance(value, list) and all(isinstance(each, str) for each in value),
    {"type": "array", "items": {"type": "string"}},
)
COUNT = Kind(
    "a whole number from 0 on",
    lambda value: _is_integer(value) and 0 <= value <= _COUNT_MAX,
    {"type": "integer", "minimum": 0, "maximum": _COUNT_MAX},
)
IDS = Kind(
    "a list of token ids",
    lambda value: isinstance(value, list) and all(COUNT.check(each) for each in value),
    {"type": "array", "items": COUNT.schema},
)
ANYTHING = Kind("anything", lambda value: True, {})
BIAS = Kind("an object of token ids and numbers", OBJECT.check, {"type": "object"})
OBJECTS = {"type": "array", "items": {"type": "object"}}


def one_of(*words: str | int) -> Kind:
    """A field that has a list of words, or of numbers."""
    listed = f"one of {', '.join(map(str, words))}"
    return Kind(
        listed, lambda value: any(type(value) is type(word) and value == word for word in words), {"enum": list(words)}
    )


def given(body: Mapping[str, Any], name: str, kind: Kind, *, path: str = "") -> Any:
    """The field's value, None where it is not given. Raises UsageError."""
    value = body.get(name)
    if value is not None and not kind.check(value):
        raise UsageError(f"{path}{name} must be {kind.words}, not {shown(value)}", param=path + name)
    return value


def needed(body: Mapping[str, Any], name: str, kind: Kind, *, path: str = "") -> Any:
    """The field's value. Raises UsageError where it is not given."""
    value = given(body, name, kind, path=path)
    if value is None:
        raise UsageError(f"{path}{name} is missing: {kind.words}", param=path + name)
    return value


def integer(body: Mapping[str, Any], name: str, low: int, high: int, *, path: str = "") -> int | None:
    """The field as an int between two bounds, None where it is not given. Raises UsageError."""
    value = given(body, name, INTEGER, path=path)
    if value is None:
        return None
    if not low <= value <= high:
        raise UsageError(f"{path}{name} must be from {low} to {high}, not {shown(value)}", param=path + name)
    return int(value)


def options(body: Mapping[str, Any], name: str, fields: Mapping[str, Kind], *, path: str = "") -> dict[str, Any]:
    """The fields that are given of an object that has these and no others. Raises UsageError."""
    value = given(body, name, OBJECT, path=path) or {}
    place = f"{path}{name}."
    strange = next((key for key in value if key not in fields), None)
    if strange is not None:
        message = f"{place}{strange[:60]} is not known here; {path}{name} may hold {', '.join(fields)}"
        raise UsageError(message, param=place + strange[:60])
    every = {key: given(value, key, kind, path=place) for key, kind in fields.items()}
    return {key: item for key, item in every.items() if item is not None}


def shown(value: Any) -> str:
    """A value for people, cut where it is long."""
    if type(value) is int and abs(value) >= _LONG:
        return f"a number of {len(str(abs(value)))} digits"
    text = json.dumps(value)
    return text if len(text) <= 60 else text[:57] + "..."


def texts(body: Mapping[str, Any], name: str, kind: Kind = TEXTS) -> tuple[str, ...]:
    """A string or a list of strings as a tuple; empty ones are left out. Raises UsageError."""
    value = given(body, name, kind)
    return tuple(text for text in ([value] if isinstance(value, str) else value or ()) if text)
