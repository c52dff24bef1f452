"""Other forms of a request's tools, for templates that do not take them as they are."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

Tool = Mapping[str, Any]

# Keywords whose members, keyed by anything, are schemas.
_KEYED = ("properties", "patternProperties", "$defs", "definitions")


def tool_forms(tools: Sequence[Tool]) -> Iterator[list[Tool]]:
    """The closest first: completed, without the type "null", both. Only forms that differ from ``tools``.

    A tool keeps its name and parameters, so that the prompt still says how it is called.
    """
    seen = [list(tools)]
    completed = [_completed(tool) for tool in tools]
    for form in (completed, [_without_null(tool) for tool in tools], [_without_null(tool) for tool in completed]):
        if form not in seen:
            seen.append(list(form))
            yield list(form)


def _completed(tool: Tool) -> dict[str, Any]:
    """The tool with a description and parameters, empty where it has none."""
    function = tool.get("function", tool)
    parameters = {"type": "object", "properties": {}, **(function.get("parameters") or {})}
    properties = {
        key: {"description": "", **value} if isinstance(value, Mapping) else value
        for key, value in (parameters["properties"] or {}).items()
    }
    full = {"description": "", **function, "parameters": {**parameters, "properties": properties}}
    return {**tool, "function": full} if "function" in tool else full


def _without_null(tool: Tool) -> dict[str, Any]:
    """The tool with the type "null" taken out of its schema: macros that name types may not know it, and never end."""
    function = tool.get("function", tool)
    full = {**function, "parameters": _plain(function.get("parameters"))}
    return {**tool, "function": full} if "function" in tool else full


def _plain(schema: Any) -> Any:
    if not isinstance(schema, Mapping):
        return [_plain(each) for each in schema] if isinstance(schema, list) else schema
    plain: dict[str, Any] = {}
    for key, value in schema.items():
        if key == "type":
            kinds = [kind for kind in (value if isinstance(value, list) else [value]) if kind != "null"]
            if kinds:
                plain[key] = kinds if isinstance(value, list) and len(kinds) > 1 else kinds[0]
        elif key in _KEYED and isinstance(value, Mapping):
            plain[key] = {name: _plain(each) for name, each in value.items()}
        else:
            plain[key] = value if key in ("enum", "const", "default", "examples") else _plain(value)
    return plain
