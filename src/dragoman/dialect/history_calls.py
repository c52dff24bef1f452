"""Calls of earlier turns as text of their messages, for templates that ask for calls and do not render them.

The prompt would show results of calls that nobody made; so the calls are written as the format has them. Names and
values stay input of the request, the markers between them are the format's own and may be control tokens.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from dragoman.template.profile import JsonShape, Marker, Piece, Profile, Slot, ToolFormat, ToolProfile, ValueStyle
from dragoman.template.provenance import Marked, joined

Message = Mapping[str, Any]


def calls_left_out(profile: Profile) -> bool:
    """True: the format of calls was declared, as the template leaves them out of the history."""
    return profile.tools is not None and any(one.source == "family" for one in profile.evidence.get("tools", ()))


def with_calls_in_content(messages: Sequence[Message], tools: ToolProfile) -> list[Message]:
    """The messages with each call written behind the content of its message."""
    out: list[Message] = []
    for message in messages:
        calls = message.get("tool_calls")
        if calls:
            text = calls_text(tools, [call.get("function", call) for call in calls])
            kept = {key: value for key, value in message.items() if key != "tool_calls"}
            message = {**kept, "content": _joined(message.get("content"), text)}
        out.append(message)
    return out


def calls_text(tools: ToolProfile, calls: Iterable[Mapping[str, Any]]) -> str:
    """The calls of one message, as a model writes them."""
    written = [_call(tools, str(call.get("name", "")), _arguments(call.get("arguments"))) for call in calls]
    inside = _between(tools.separator.written, written)
    opened = tools.section_open.written
    if tools.section_count:
        opened += f"{len(written)}{tools.section_count.written}"
    return joined([opened, inside, tools.section_close.written]).strip()


def _between(separator: str, items: Sequence[str]) -> str:
    return joined([part for item in items for part in (separator, item)][1:])


def _call(tools: ToolProfile, name: str, arguments: Any) -> str:
    values: dict[Slot, str] = {Slot.NAME: Marked(name)}
    if tools.format is ToolFormat.JSON_NATIVE:
        values[Slot.OBJECT] = _object(tools.object or JsonShape(), name, arguments)
    elif tools.format is ToolFormat.TAG_WITH_JSON or not isinstance(arguments, Mapping):
        values[Slot.ARGS] = _json(arguments)
    else:
        members = [_filled(tools.argument, _member(tools, key, value)) for key, value in arguments.items()]
        values[Slot.ARGS] = _between(tools.argument_separator.written, members)
    return _filled(tools.call, values)


def _filled(pieces: Iterable[Piece], values: Mapping[Slot, str]) -> str:
    return joined([piece.written if isinstance(piece, Marker) else values.get(piece, "") for piece in pieces])


def _member(tools: ToolProfile, key: str, value: Any) -> dict[Slot, str]:
    raw = isinstance(value, str) and dict(tools.value_styles).get("string") is ValueStyle.RAW
    word = dict(tools.type_words).get(_type(value), "")
    return {Slot.KEY: Marked(key), Slot.TYPE: word, Slot.VALUE: Marked(value) if raw else _json(value)}


def _type(value: Any) -> str:
    """The JSON type of a value."""
    kinds = {str: "string", bool: "boolean", int: "integer", float: "number", type(None): "null", list: "array"}
    return kinds.get(type(value), "object")


def _object(shape: JsonShape, name: str, arguments: Any) -> str:
    """The object of one call: name and arguments at their paths."""
    if shape.name_is_key:
        return _json({name: arguments})
    out: dict[str, Any] = {}
    for path, value in ((shape.name_path, name), (shape.args_path, arguments)):
        place = out
        for key in path[:-1]:
            place = place.setdefault(key, {})
        place[path[-1]] = value
    return _json(out)


def _arguments(given: Any) -> Any:
    """Arguments as a value; text that is no JSON stays text."""
    if not isinstance(given, str):
        return {} if given is None else given
    try:
        return json.loads(given) if given.strip() else {}
    except ValueError:
        return given


def _joined(content: Any, text: str) -> Any:
    if isinstance(content, Sequence) and not isinstance(content, str):
        return [*content, {"type": "text", "text": text}]
    return joined([Marked(content), text]) if content else text


def _json(value: Any) -> str:
    return Marked(json.dumps(value, ensure_ascii=False))
