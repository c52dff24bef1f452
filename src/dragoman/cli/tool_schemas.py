"""Tools from Python functions: their type hints become JSON Schemas, their docstrings descriptions."""

from __future__ import annotations

import dataclasses
import enum
import inspect
import re
import types
import typing
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from dragoman.errors import UsageError

_PLAIN: Mapping[Any, dict[str, Any]] = {
    str: {"type": "string"},
    int: {"type": "integer"},
    float: {"type": "number"},
    bool: {"type": "boolean"},
    type(None): {"type": "null"},
    list: {"type": "array"},
    tuple: {"type": "array"},
    set: {"type": "array", "uniqueItems": True},
    dict: {"type": "object"},
    object: {},
    Any: {},
    inspect.Parameter.empty: {},
}
# How docstrings tell of parameters: ``Args:`` and ``name (type): text`` (Google), ``Parameters`` and ``name : type``
# with the text below (NumPy), ``:param name: text`` (Sphinx).
_SECTION = re.compile(r"^(Args|Arguments|Parameters):?$")
_ENTRY = re.compile(r"^\*{0,2}(\w+)(?:(\s+:\s*.*)|(?:\s*\([^)]*\))?:\s*(.*))$")
_FIELD = re.compile(r"^:param\s+(?:\S+\s+)?(\w+):\s*(.*)$")


def tool_of(function: Callable[..., Any]) -> dict[str, Any]:
    """The OpenAI tool of ``function``. Raises UsageError for a signature that no JSON object can be given to."""
    name = function.__name__
    try:
        hints = typing.get_type_hints(function)
    except Exception as error:  # whatever evaluating a user's annotations may raise
        raise UsageError(f"the type hints of {name} cannot be read: {error}", param="--tools") from error
    summary, described = _documented(inspect.getdoc(function) or "")
    properties: dict[str, Any] = {}
    required: list[str] = []
    for parameter in inspect.signature(function).parameters.values():
        if parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD, parameter.POSITIONAL_ONLY):
            raise UsageError(
                f"{name} takes {parameter}, which has no name that a call could give; write it as a named parameter",
                param="--tools",
            )
        schema = schema_of(hints.get(parameter.name, parameter.annotation), f"{name}({parameter.name})")
        if parameter.name in described:
            schema = {**schema, "description": described[parameter.name]}
        properties[parameter.name] = schema
        if parameter.default is parameter.empty:
            required.append(parameter.name)
    parameters = {"type": "object", "properties": properties, "required": required, "additionalProperties": False}
    told = {"name": name, **({"description": summary} if summary else {}), "parameters": parameters}
    return {"type": "function", "function": told}


def schema_of(hint: Any, where: str) -> dict[str, Any]:
    """The JSON Schema of a type. Raises UsageError, which names ``where``."""
    if isinstance(hint, typing.Hashable) and hint in _PLAIN:
        return dict(_PLAIN[hint])
    origin, inner = typing.get_origin(hint), typing.get_args(hint)
    if origin is typing.Annotated:
        schema = schema_of(inner[0], where)
        text = next((each for each in inner[1:] if isinstance(each, str)), None)
        return {**schema, "description": text} if text else schema
    if origin is typing.Literal:
        return {"enum": list(inner)}
    if origin in (typing.Union, types.UnionType):
        return {"anyOf": [schema_of(each, where) for each in inner]}
    if isinstance(hint, type) and issubclass(hint, enum.Enum):
        return {"enum": [member.value for member in hint]}
    if typing.is_typeddict(hint):
        return _object(typing.get_type_hints(hint), hint.__required_keys__, where)
    if dataclasses.is_dataclass(hint) and isinstance(hint, type):
        needed = [each.name for each in dataclasses.fields(hint) if _has_no_default(each)]
        return _object(typing.get_type_hints(hint), needed, where)
    return _container(hint, origin, inner, where)


def _container(hint: Any, origin: Any, inner: Sequence[Any], where: str) -> dict[str, Any]:
    if isinstance(origin, type) and issubclass(origin, Mapping):
        return {"type": "object", "additionalProperties": schema_of(inner[1], where)}
    if origin is tuple and inner[-1] is not ...:
        items = [schema_of(each, where) for each in inner]
        return {"type": "array", "prefixItems": items, "minItems": len(items), "maxItems": len(items)}
    if isinstance(origin, type) and issubclass(origin, Sequence | set | frozenset):
        return {"type": "array", "items": schema_of(inner[0], where)}
    raise UsageError(
        f"{where} is of type {getattr(hint, '__name__', hint)!s}, which has no form in JSON; use str, int, float, "
        "bool, list, dict, Literal, an Enum, a dataclass or a TypedDict",
        param="--tools",
    )


def _object(hints: Mapping[str, Any], required: typing.Iterable[str], where: str) -> dict[str, Any]:
    properties = {name: schema_of(hint, f"{where}.{name}") for name, hint in hints.items()}
    needed = [name for name in hints if name in set(required)]
    return {"type": "object", "properties": properties, "required": needed, "additionalProperties": False}


def _has_no_default(field: dataclasses.Field[Any]) -> bool:
    return field.default is dataclasses.MISSING and field.default_factory is dataclasses.MISSING


def given(value: Any, hint: Any) -> Any:
    """``value``, as JSON gives it, as the type that the function asks for; left as it is where that says nothing."""
    origin, inner = typing.get_origin(hint), typing.get_args(hint)
    if origin is typing.Annotated:
        return given(value, inner[0])
    if isinstance(hint, type) and issubclass(hint, enum.Enum):
        return hint(value)
    if dataclasses.is_dataclass(hint) and isinstance(hint, type) and isinstance(value, dict):
        hints = typing.get_type_hints(hint)
        return hint(**{name: given(each, hints.get(name)) for name, each in value.items()})
    if hint is float and isinstance(value, int) and not isinstance(value, bool):
        return float(value)
    if isinstance(value, list):
        kind = hint if hint in (tuple, set) else origin
        items = [given(each, inner[0] if inner else None) for each in value]
        return kind(items) if kind in (tuple, set, frozenset) else items
    if origin in (typing.Union, types.UnionType):
        return _one_of(value, inner)
    return value


def _one_of(value: Any, hints: Sequence[Any]) -> Any:
    """The value as the first of the types that takes it."""
    for hint in hints:
        try:
            made = given(value, hint)
        except (TypeError, ValueError):
            continue
        if made is not value:
            return made
    return value


def _documented(text: str) -> tuple[str, dict[str, str]]:
    """(what stands before the parameters, parameter -> what is said of it)."""
    lines = text.splitlines()
    first = next((at for at, line in enumerate(lines) if _SECTION.match(line) or line.startswith(":")), len(lines))
    summary = " ".join(line.strip() for line in lines[:first] if line.strip())
    found: dict[str, list[str]] = {}
    rest = lines[first:]
    entries = [line for line in rest[1:] if line.strip() and set(line.strip()) != {"-"}]
    indent = _indent(entries[0]) if entries else 0
    inside, last = False, ""
    for line in rest:
        bare = line.strip()
        if field := _FIELD.match(bare):
            inside, last = False, field[1]
            found[last] = [field[2]]
        elif _SECTION.match(line):
            inside, last = True, ""
        elif inside and _indent(line) == indent and (entry := _ENTRY.match(bare)):
            last = entry[1]
            found[last] = [entry[3] or ""]
        elif last and bare and _indent(line) > (indent if inside else 0):
            found[last].append(bare)
        elif bare and set(bare) != {"-"}:
            inside, last = False, ""  # another section
    said = {name: " ".join(filter(None, pieces)) for name, pieces in found.items()}
    return summary, {name: each for name, each in said.items() if each}


def _indent(line: str) -> int:
    return len(line) - len(line.lstrip())
