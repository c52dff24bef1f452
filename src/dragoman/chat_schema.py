"""What a tool's JSON Schema says of one parameter, as far as reading its value from text needs it.

This is no validator: it looks at types, ``enum`` and ``const`` through ``$ref``, ``anyOf``, ``oneOf`` and ``allOf``
and takes everything else as permitted. Malformed schemas are read as saying nothing; nothing here raises.

    declared_types   which JSON types may the value have
    admits           may it be this value
    value_kind       how its text is read: as a string, as JSON, or by the declared types at its closer
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal, TypeAlias

ValueKind: TypeAlias = Literal["string", "typed", "json"]

JSON_TYPES: Final = frozenset({"string", "number", "integer", "boolean", "null", "object", "array"})
_CONTAINERS: Final = frozenset({"object", "array"})
# Type words of Python and of other schema languages that tool lists really hold.
_ALIASES: Final = {
    "str": "string",
    "int": "integer",
    "float": "number",
    "double": "number",
    "bool": "boolean",
    "dict": "object",
    "list": "array",
    "tuple": "array",
    "none": "null",
}
# Keywords that only make sense for one type: authors leave the type out beside them.
_IMPLIED: Final = {
    "properties": "object",
    "additionalProperties": "object",
    "patternProperties": "object",
    "items": "array",
    "prefixItems": "array",
    "minLength": "string",
    "maxLength": "string",
    "pattern": "string",
}
# Subschemas visited for one question; past it a part counts as saying nothing (recursive definitions, schema bombs).
_VISITS: Final = 2_000
_DEPTH: Final = 64


@dataclass(frozen=True, slots=True)
class Declared:
    """The schema of one parameter and the schema that its ``$ref`` pointers start from."""

    schema: Any
    root: Any


def tool_names(tools: Sequence[Any]) -> frozenset[str]:
    """The names of the declared functions (OpenAI's list, or bare functions)."""
    return frozenset(name for name in (_function(tool).get("name") for tool in tools) if isinstance(name, str))


def declared_name(tools: Sequence[Any], written: str) -> str:
    """The declared name that ``written`` means: itself, else the only one behind its namespaces (``a.b.f``)."""
    names = tool_names(tools)
    if written in names:
        return written
    meant = [name for name in names if name and written.endswith("." + name)]
    return meant[0] if len(meant) == 1 else written


def tool_parameters(tools: Sequence[Any], name: str) -> Any:
    """The parameter schema of the first tool of this name; None where there is none."""
    for tool in tools:
        function = _function(tool)
        if function.get("name") == name:
            return function.get("parameters")
    return None


def schema_for(tools: Sequence[Any], name: str, key: str) -> Declared | None:
    """What tool ``name`` declares of parameter ``key``; None where it declares nothing."""
    root = tool_parameters(tools, name)
    schema = parameter_schema(root, key, root)
    return None if schema is None else Declared(schema, root)


def parameter_schema(schema: Any, key: str, root: Any) -> Any:
    """The schema of property ``key`` of an object schema; None where nothing is declared."""
    return _property(schema, key, root, _Budget(), 0)


def item_schema(schema: Any, root: Any) -> Any:
    """The schema of the items of an array schema; None where nothing is declared."""
    return _items(schema, root, _Budget(), 0)


def declared_types(schema: Any, root: Any) -> frozenset[str]:
    """The JSON types that the schema allows; empty: it says nothing of types. ``number`` stands for integers too."""
    types = _types(schema, root, _Budget(), 0)
    if types is None:
        return frozenset()
    return types - {"integer"} if "number" in types else types


def admits(schema: Any, root: Any, value: Any) -> bool:
    """False: type, ``enum`` or ``const`` exclude this JSON value. True says that they do not."""
    return _admits(schema, root, value, _Budget(), 0)


def value_kind(schema: Any, root: Any) -> ValueKind:
    """How the raw text of a tagged value is read.

    ``string``: only strings are allowed, the text is the value. ``json``: only objects, arrays and null.
    ``typed``: everything else, also nothing declared; decided at the closer.
    """
    types = declared_types(schema, root)
    if types == {"string"}:
        return "string"
    if types & _CONTAINERS and types <= _CONTAINERS | {"null"}:
        return "json"
    return "typed"


def resolve(schema: Any, root: Any) -> Any:
    """The schema that a local ``$ref`` (``#``, ``#/...``) points to; None where it points nowhere or in a circle."""
    for _ in range(_DEPTH):
        if not (isinstance(schema, Mapping) and isinstance(schema.get("$ref"), str)):
            return schema
        schema = _follow(schema["$ref"], root)
    return None


class _Budget:
    """Counts the subschemas visited for one question."""

    __slots__ = ("left",)

    def __init__(self) -> None:
        self.left = _VISITS

    def spend(self, depth: int) -> bool:
        self.left -= 1
        return self.left >= 0 and depth <= _DEPTH


def _function(tool: Any) -> Mapping[str, Any]:
    if not isinstance(tool, Mapping):
        return {}
    function = tool.get("function", tool)
    return function if isinstance(function, Mapping) else {}


def _follow(pointer: str, root: Any) -> Any:
    if pointer == "#":
        return root
    if not pointer.startswith("#/"):
        return None
    here = root
    for part in pointer[2:].split("/"):
        step = part.replace("~1", "/").replace("~0", "~")
        if isinstance(here, Mapping) and step in here:
            here = here[step]
        elif isinstance(here, Sequence) and not isinstance(here, str) and step.isdecimal() and int(step) < len(here):
            here = here[int(step)]
        else:
            return None
    return here


def _branches(schema: Mapping[str, Any], keyword: str) -> Sequence[Any]:
    found = schema.get(keyword)
    return found if isinstance(found, Sequence) and not isinstance(found, str) else ()


def _types(schema: Any, root: Any, budget: _Budget, depth: int) -> frozenset[str] | None:
    """The allowed types, ``integer`` spelled out beside ``number``; None: not restricted."""
    if schema is False:
        return frozenset()
    if not isinstance(schema, Mapping) or not budget.spend(depth):
        return None
    parts = [_own_types(schema)]
    if isinstance(schema.get("$ref"), str):
        parts.append(_types(resolve(schema, root), root, budget, depth + 1))
    for keyword in ("anyOf", "oneOf"):
        branches = _branches(schema, keyword)
        if branches:
            parts.append(_union([_types(branch, root, budget, depth + 1) for branch in branches]))
    parts += [_types(branch, root, budget, depth + 1) for branch in _branches(schema, "allOf")]
    found = None
    for part in parts:
        found = part if found is None else found if part is None else found & part
    if found is None:
        found = next((frozenset({kind}) for keyword, kind in _IMPLIED.items() if keyword in schema), None)
    if found is not None and schema.get("nullable") is True:
        found |= {"null"}
    return found


def _named_types(schema: Mapping[str, Any]) -> frozenset[str]:
    """The types that ``type`` names; empty: none that we know."""
    named = schema.get("type")
    words = [named] if isinstance(named, str) else named if isinstance(named, Sequence) else []
    lower = [word.lower() for word in words if isinstance(word, str)]
    return frozenset(_ALIASES.get(word, word) for word in lower) & JSON_TYPES


def _own_types(schema: Mapping[str, Any]) -> frozenset[str] | None:
    types = _named_types(schema)
    if "number" in types:
        types |= {"integer"}
    values = _listed(schema)
    if values is None:
        return types or None
    listed = frozenset(kind for value in values for kind in _types_of(value))
    return listed & types if types else listed


def _union(parts: Sequence[frozenset[str] | None]) -> frozenset[str] | None:
    known = [part for part in parts if part is not None]
    return frozenset().union(*known) if len(known) == len(parts) else None


def _listed(schema: Mapping[str, Any]) -> Sequence[Any] | None:
    """The values that ``const`` and ``enum`` leave; None: they say nothing."""
    values = _branches(schema, "enum") if "enum" in schema else None
    if "const" not in schema:
        return values
    const = schema["const"]
    return [const] if values is None or any(same_value(const, value) for value in values) else []


def _types_of(value: Any) -> frozenset[str]:
    """The schema types that describe a JSON value: an integral number is both number and integer."""
    if value is None:
        return frozenset({"null"})
    if isinstance(value, bool):
        return frozenset({"boolean"})
    if isinstance(value, str):
        return frozenset({"string"})
    if isinstance(value, Mapping):
        return frozenset({"object"})
    if isinstance(value, Sequence):
        return frozenset({"array"})
    integral = isinstance(value, int) or value == value // 1
    return frozenset({"number", "integer"}) if integral else frozenset({"number"})


def same_value(left: Any, right: Any) -> bool:
    """Equality of JSON values: true is not 1, 1 is 1.0."""
    if isinstance(left, bool) or isinstance(right, bool):
        return left is right
    return bool(left == right)


def _admits(schema: Any, root: Any, value: Any, budget: _Budget, depth: int) -> bool:
    if schema is False:
        return False
    if not isinstance(schema, Mapping) or not budget.spend(depth):
        return True
    if value is None and schema.get("nullable") is True:
        return True
    types = _named_types(schema)
    if types and not types & _types_of(value):
        return False
    values = _listed(schema)
    if values is not None and not any(same_value(value, listed) for listed in values):
        return False
    if isinstance(schema.get("$ref"), str) and not _admits(resolve(schema, root), root, value, budget, depth + 1):
        return False
    if not all(_admits(branch, root, value, budget, depth + 1) for branch in _branches(schema, "allOf")):
        return False
    choices = [branches for branches in (_branches(schema, "anyOf"), _branches(schema, "oneOf")) if branches]
    return all(any(_admits(branch, root, value, budget, depth + 1) for branch in branches) for branches in choices)


def _property(schema: Any, key: str, root: Any, budget: _Budget, depth: int) -> Any:
    schema = resolve(schema, root)
    if not isinstance(schema, Mapping) or not budget.spend(depth):
        return None
    properties = schema.get("properties")
    if isinstance(properties, Mapping) and key in properties:
        return properties[key]
    for keyword in ("allOf", "anyOf", "oneOf"):
        found = [_property(branch, key, root, budget, depth + 1) for branch in _branches(schema, keyword)]
        found = [part for part in found if part is not None]
        if found:
            return found[0] if len(found) == 1 else {"allOf" if keyword == "allOf" else "anyOf": found}
    rest = schema.get("additionalProperties")
    return rest if isinstance(rest, Mapping) else None


def _items(schema: Any, root: Any, budget: _Budget, depth: int) -> Any:
    schema = resolve(schema, root)
    if not isinstance(schema, Mapping) or not budget.spend(depth):
        return None
    if isinstance(schema.get("items"), Mapping):
        return schema["items"]
    for keyword in ("allOf", "anyOf", "oneOf"):
        for branch in _branches(schema, keyword):
            found = _items(branch, root, budget, depth + 1)
            if found is not None:
                return found
    return None
