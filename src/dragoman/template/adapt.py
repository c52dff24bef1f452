"""Requests checked once, then rewritten to what a template takes. Decided by its capabilities, never by a model's name.

    normalise   any caller's messages and tools -> plain dicts and lists of the known shape, or a UsageError with a path
    adapt       those messages -> the forms (text or parts, object or text, system role or none) that a template takes

Unknown keys are kept: templates read keys that no API knows of. Keys whose value is null are dropped, as templates
ask whether a key is there. Nothing of the caller's is changed; all results are copies.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping, Sequence
from typing import Any

from ..errors import LimitError, UsageError
from ..limits import DEFAULT, Limits
from .capabilities import Capabilities

Message = dict[str, Any]

# The names that APIs and templates give to the text that a model thinks; the first is what is stored.
REASONING_KEYS = ("reasoning_content", "reasoning", "thinking")
# Part type -> the key of its text.
_TEXT_PARTS = {"text": "text", "input_text": "text", "output_text": "text", "refusal": "refusal"}


def normalise(
    messages: Any, tools: Any = None, *, limits: Limits = DEFAULT
) -> tuple[list[Message], list[dict[str, Any]]]:
    """Checked copies of ``messages`` and ``tools``.

    Raises UsageError that names the place (``messages[2].tool_calls[0].function.name``), LimitError on too many tools.
    """
    listed = _sequence(messages, "messages")
    if not listed:
        raise UsageError("messages is empty: a conversation needs at least one message", param="messages")
    return [_message(item, f"messages[{at}]") for at, item in enumerate(listed)], _tools(tools, limits)


def _message(value: Any, path: str) -> Message:
    message = _object(value, path)
    role = _text(message.get("role"), f"{path}.role")
    if not role:
        _fail(f"{path}.role", "is empty")
    content = message.get("content")
    message = {key: item for key, item in message.items() if item is not None or key == "content"}
    if "content" in message:
        message["content"] = _content(content, f"{path}.content")
    elif role != "assistant":
        _fail(f"{path}.content", f"is missing: a message of role {role!r} needs content")
    for key in ("name", "tool_call_id"):
        if key in message:
            _text(message[key], f"{path}.{key}")
    if "tool_calls" in message:
        calls = _sequence(message["tool_calls"], f"{path}.tool_calls")
        message["tool_calls"] = [_call(call, f"{path}.tool_calls[{at}]") for at, call in enumerate(calls)]
        if not calls:
            del message["tool_calls"]
    return _with_one_reasoning_key(message, path)


def _with_one_reasoning_key(message: Message, path: str) -> Message:
    """The message with its reasoning under the first of :data:`REASONING_KEYS` only."""
    for key in REASONING_KEYS:
        if isinstance(message.get(key), str):
            reasoning = _text(message[key], f"{path}.{key}")
            kept = {name: item for name, item in message.items() if name not in REASONING_KEYS}
            return {**kept, REASONING_KEYS[0]: reasoning} if reasoning else kept
    return message


def _content(value: Any, path: str) -> str | list[Any] | None:
    if value is None:
        return None
    if isinstance(value, str):
        return _text(value, path)
    if not isinstance(value, Sequence):
        _fail(path, f"must be a string, null or a list of parts, not {_kind(value)}")
    return [_part(part, f"{path}[{at}]") for at, part in enumerate(value)]


def _part(value: Any, path: str) -> dict[str, Any]:
    if isinstance(value, str):
        return {"type": "text", "text": _text(value, path)}
    part = _object(value, path)
    kind = _text(part.get("type"), f"{path}.type")
    if kind in _TEXT_PARTS:
        text = _text(part.get(_TEXT_PARTS[kind]), f"{path}.{_TEXT_PARTS[kind]}")
        # The other names of a text part are an API's business; templates know this one.
        return {**part, "type": "text", "text": text}
    return part


def _call(value: Any, path: str) -> dict[str, Any]:
    call = {key: item for key, item in _object(value, path).items() if item is not None}
    kind = call.setdefault("type", "function")
    if kind != "function":
        _fail(f"{path}.type", f"must be 'function', not {kind!r}")
    if "id" in call:
        _text(call["id"], f"{path}.id")
    function = _object(call.get("function"), f"{path}.function")
    if not _text(function.get("name"), f"{path}.function.name"):
        _fail(f"{path}.function.name", "is empty")
    arguments = function.get("arguments")
    if isinstance(arguments, str):
        _text(arguments, f"{path}.function.arguments")
    elif arguments is None:
        arguments = {}
    elif not isinstance(arguments, Mapping):
        _fail(f"{path}.function.arguments", f"must be JSON text or an object, not {_kind(arguments)}")
    call["function"] = {**function, "arguments": arguments}
    return call


def _tools(value: Any, limits: Limits) -> list[dict[str, Any]]:
    if value is None:
        return []
    listed = _sequence(value, "tools")
    if len(listed) > limits.tools:
        raise LimitError("too many tools in one request", bound="tools", limit=limits.tools, size=len(listed))
    tools = [_tool(tool, f"tools[{at}]") for at, tool in enumerate(listed)]
    seen: dict[str, int] = {}
    for at, tool in enumerate(tools):
        name = tool["function"]["name"]
        if name in seen:
            _fail(f"tools[{at}].function.name", f"{name!r} is the name of tools[{seen[name]}] already")
        seen[name] = at
    return tools


def _tool(value: Any, path: str) -> dict[str, Any]:
    tool = _object(value, path)
    if "function" not in tool and "name" in tool and tool.get("type", "function") == "function":
        # The flat form of the Responses API.
        tool = {"type": "function", "function": {key: item for key, item in tool.items() if key != "type"}}
    kind = tool.setdefault("type", "function")
    if kind != "function":
        _fail(f"{path}.type", f"must be 'function', not {kind!r}")
    function = _object(tool.get("function"), f"{path}.function")
    function = {key: item for key, item in function.items() if item is not None}
    if not _text(function.get("name"), f"{path}.function.name"):
        _fail(f"{path}.function.name", "is empty")
    if "parameters" in function and not isinstance(function["parameters"], (Mapping, bool)):
        _fail(f"{path}.function.parameters", f"must be a JSON Schema, not {_kind(function['parameters'])}")
    return {**tool, "function": function}


def _fail(path: str, message: str) -> None:
    raise UsageError(f"{path} {message}", param=path)


def _kind(value: Any) -> str:
    names = {type(None): "null", bool: "a boolean", int: "a number", float: "a number", str: "a string", list: "a list"}
    return "an object" if isinstance(value, Mapping) else names.get(type(value), type(value).__name__)


def _sequence(value: Any, path: str) -> list[Any]:
    if not isinstance(value, (list, tuple)):
        _fail(path, f"must be a list, not {_kind(value)}")
    return list(value)


def _object(value: Any, path: str) -> dict[str, Any]:
    """A deep copy of a JSON object."""
    if not isinstance(value, Mapping):
        _fail(path, "is missing" if value is None else f"must be an object, not {_kind(value)}")
    try:
        copied: dict[str, Any] = _copy(value)
    except RecursionError:
        raise UsageError(f"{path} is nested too deep", param=path) from None
    return copied


def _copy(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {str(key): _copy(item) for key, item in value.items()}
    return [_copy(item) for item in value] if isinstance(value, (list, tuple)) else value


def _text(value: Any, path: str) -> str:
    if not isinstance(value, str):
        _fail(path, "is missing" if value is None else f"must be a string, not {_kind(value)}")
    try:
        value.encode()
    except UnicodeEncodeError as error:
        raise UsageError(f"{path} has half a surrogate pair at character {error.start}", param=path) from None
    return str(value)


def adapt(
    messages: Sequence[Message], capabilities: Capabilities, *, keys: Collection[str] = (REASONING_KEYS[0],)
) -> list[Message]:
    """Normalised ``messages`` in the forms that a template of these ``capabilities`` takes.

    ``keys`` are the names that the template reads (:attr:`Template.keys`): reasoning is given under each of its names
    among them. Arguments in the history that are no JSON object are passed on as text.
    Raises UsageError where a message holds what the template cannot take (an image in a text-only one).
    """
    adapted = [_adapted(message, capabilities, keys, f"messages[{at}]") for at, message in enumerate(messages)]
    return adapted if capabilities.supports_system_role else _merge_system(adapted)


def _adapted(message: Message, capabilities: Capabilities, keys: Collection[str], path: str) -> Message:
    message = dict(message)
    if message["role"] == "developer":
        message["role"] = "system"
    message["content"] = _adapted_content(message.get("content"), capabilities, f"{path}.content")
    if REASONING_KEYS[0] in message:
        message.update({key: message[REASONING_KEYS[0]] for key in REASONING_KEYS if key in keys})
    if "tool_calls" in message:
        as_object = capabilities.supports_object_arguments
        message["tool_calls"] = [_adapted_call(call, as_object) for call in message["tool_calls"]]
    return message


def _adapted_call(call: Mapping[str, Any], as_object: bool) -> dict[str, Any]:
    function = dict(call["function"])
    arguments = function["arguments"]
    if as_object and isinstance(arguments, str):
        function["arguments"] = _parsed(arguments)
    elif not as_object and not isinstance(arguments, str):
        function["arguments"] = json.dumps(arguments, ensure_ascii=False)
    return {**call, "function": function}


def _parsed(arguments: str) -> Any:
    """The object that the text holds; the text itself where it holds none."""
    if not arguments.strip():
        return {}
    try:
        value = json.loads(arguments)
    except (ValueError, RecursionError):
        return arguments
    return value if isinstance(value, dict) else arguments


def _adapted_content(content: Any, capabilities: Capabilities, path: str) -> Any:
    if content is None:
        content = ""
    if isinstance(content, str):
        wrap = capabilities.supports_typed_content and not capabilities.supports_string_content
        return [{"type": "text", "text": content}] if wrap else content
    if capabilities.supports_typed_content:
        return content
    texts = []
    for at, part in enumerate(content):
        if part["type"] != "text":
            _fail(f"{path}[{at}]", f"is of type {part['type']!r}, but this chat template takes text only")
        texts.append(part["text"])
    return "\n".join(texts)


def _merge_system(messages: list[Message]) -> list[Message]:
    """Each system message put in front of the next user message; at the end, or where none follows, made one."""
    out: list[Message] = []
    waiting: list[Any] = []
    for message in messages:
        if message["role"] == "system":
            waiting.append(message["content"])
        elif message["role"] == "user" and waiting:
            out.append({**message, "content": _together([*waiting, message["content"]])})
            waiting = []
        else:
            out.append(message)
    if waiting:
        out.append({"role": "user", "content": _together(waiting)})
    return out


def _together(contents: Sequence[Any]) -> Any:
    if all(isinstance(content, str) for content in contents):
        return "\n".join([content for content in contents if content])
    parts: list[Any] = []
    for content in contents:
        parts += [{"type": "text", "text": content}] if isinstance(content, str) else content
    return parts
