"""What of a chat request changes nothing: switches that its template does not read, keys that nobody knows.

Rules of this file: templates read keys that no API knows of, and many write a tool as it is. So a strange key of a
message or a tool is one that changes nothing only if the prompt is the same without it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from typing import Any

from dragoman.errors import DragomanError
from dragoman.server.requests.shapes import Shape, shape, strange, without
from dragoman.template.adapt import REASONING_KEYS
from dragoman.template.profile import ReasoningMode
from dragoman.template.variables import unread_switches
from dragoman.turn import Turn

_TRIED_MAX = 16  # strange keys for which a prompt is written once more

# What clients hand back of an answer, or mark for a cache.
_ECHOED = ("annotations", "parsed", "cache_control", "index", "status", "id")
_TEXT_KINDS = ("text", "input_text", "output_text", "refusal")
_PART = shape("type", "text", "refusal", *_ECHOED, kinds=_TEXT_KINDS)
_CALL = shape("type", *_ECHOED, function=shape("name", "arguments", "parsed_arguments"))
_MESSAGE_KEYS = ("role", "tool_call_id", *REASONING_KEYS, *_ECHOED)
_MESSAGE = shape(*_MESSAGE_KEYS, content=_PART, tool_calls=_CALL)
_RESULT = shape("name", *_MESSAGE_KEYS, content=_PART)  # the name of its tool, which the id tells as well
_FUNCTION_KEYS = ("name", "description", "parameters", "strict")
_TOOL = shape("type", "cache_control", function=shape(*_FUNCTION_KEYS))
_FLAT_TOOL = shape("type", "cache_control", *_FUNCTION_KEYS)

_SCHEMA_KEYS = ("name", "description", "schema", "strict")
_FORMATS: Mapping[Any, Shape] = {
    "text": shape("type"),
    "json_object": shape("type", "schema"),
    "json_schema": shape("type", json_schema=shape(*_SCHEMA_KEYS)),
}
_FLAT_FORMAT = shape("type", *_SCHEMA_KEYS)
_NAMED = shape("type", "name", function=shape("name"))
_CHOICE = shape("type", "name", "mode", function=shape("name"), tools=_NAMED, allowed_tools=shape("mode", tools=_NAMED))


def unread(turn: Turn, arguments: Mapping[str, Any]) -> tuple[str, ...]:
    """Places in the arguments of ``ChatFormat.turn``, which gave ``turn``, that change nothing of it."""
    return (*_switches(turn, arguments), *_forms(turn, arguments), *_keys(turn, arguments))


def _switches(turn: Turn, arguments: Mapping[str, Any]) -> Iterator[str]:
    """Switches that the template does not read, and whose word would not be kept without them."""
    profile = turn.format.profile
    thinks = profile.reasoning.mode is not ReasoningMode.NONE or turn.request.reasoning is not None
    given = {name: arguments.get(name) for name in ("enable_thinking", "reasoning_effort")}
    own = arguments.get("chat_template_kwargs") or {}
    for name, value in unread_switches(turn.format.template, profile, **given, own=own):
        off = value is False or value == "none"
        if name.endswith("enable_thinking") or off:
            # A model that thinks does so unasked, and a grammar keeps one from it that is not to.
            if thinks and (value is True or (off and turn.grammar.constrains)):
                continue
        yield name


def _forms(turn: Turn, arguments: Mapping[str, Any]) -> Iterator[str]:
    form = arguments.get("response_format")
    if isinstance(form, Mapping) and "response_format" not in turn.format.template.undeclared:
        flat = form.get("type") == "json_schema" and "json_schema" not in form
        known = _FLAT_FORMAT if flat else _FORMATS.get(form.get("type"))
        if known is not None:
            yield from (place for place, _, _ in strange(form, known, "response_format"))
    yield from (place for place, _, _ in strange(arguments.get("tool_choice"), _CHOICE, "tool_choice"))


def _keys(turn: Turn, arguments: Mapping[str, Any]) -> list[str]:
    """Strange keys of messages and tools without which the prompt is the same; of each the first place."""
    found: dict[tuple[int, str], str] = {}
    for name, choose in (("messages", _of_message), ("tools", _of_tool)):
        for at, item in enumerate(arguments.get(name) or ()):
            for place, owner, key in strange(item, choose(item), f"{name}[{at}]"):
                found.setdefault((id(owner), key), place)
    if not found:
        return []
    if _same(turn, arguments, found):
        return list(found.values())
    return [place for at, (key, place) in enumerate(found.items()) if at < _TRIED_MAX and _same(turn, arguments, [key])]


def _same(
    turn: Turn, arguments: Mapping[str, Any], keys: Sequence[tuple[int, str]] | Mapping[tuple[int, str], str]
) -> bool:
    left_out = frozenset(keys)
    less = {
        "messages": [without(item, _of_message(item), left_out) for item in arguments["messages"]],
        "tools": [without(item, _of_tool(item), left_out) for item in arguments.get("tools") or ()],
    }
    with suppress(DragomanError):
        return turn.format.turn(**{**arguments, **less}).prompt.text == turn.prompt.text
    return False


def _of_message(message: Any) -> Shape:
    return _RESULT if isinstance(message, Mapping) and message.get("role") in ("tool", "function") else _MESSAGE


def _of_tool(tool: Any) -> Shape:
    return _TOOL if isinstance(tool, Mapping) and "function" in tool else _FLAT_TOOL
