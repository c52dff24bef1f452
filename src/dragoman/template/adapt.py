"""Requests checked once, then rewritten to what a template takes. Decided by its capabilities, never by a model's name.

    normalise   any caller's messages and tools -> plain dicts and lists of the known shape, or a UsageError with a path
    adapt       those messages -> the forms (text or parts, object or text, system role or none) that a template takes

Unknown keys are kept: templates read keys that no API knows of. Keys whose value is null are dropped, as templates
ask whether a key is there. Nothing of the caller's is changed; all results are copies.
"""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from dragoman.errors import LimitError, UsageError
from dragoman.limits import DEFAULT, Limits
from dragoman.template.capabilities import Capabilities
from dragoman.template.history import merged_system, with_content_beside_calls, with_results_told
from dragoman.template.profile import BESIDE_CALLS

Message = dict[str, Any]

# The names that APIs and templates give to the text that a model thinks; the first is what is stored.
REASONING_KEYS = ("reasoning_content", "reasoning", "thinking")
# Where some templates look for it: in a part of the content, {"type": "thinking", "thinking": text}.
THINKING_PART = "content.thinking"
# Names for one kind of picture, sound or film; the first that a template knows is used.
_MEDIA = (
    ("image", "image_url", "input_image"),
    ("audio", "input_audio", "audio_url"),
    ("video", "input_video", "video_url"),
)
# An escape of JSON text; the group is half a surrogate pair.
_ESCAPE = re.compile(
    r"\\u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}|(\\u[dD][89a-fA-F][0-9a-fA-F]{2})|\\.", re.DOTALL
)
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
        arguments = _with_whole_characters(_text(arguments, f"{path}.function.arguments"))
    elif arguments is None:
        arguments = {}
    elif not isinstance(arguments, Mapping):
        _fail(f"{path}.function.arguments", f"must be JSON text or an object, not {_kind(arguments)}")
    call["function"] = {**function, "arguments": arguments}
    return call


def _with_whole_characters(text: str) -> str:
    """JSON text in which half a surrogate pair, which a model may have written, is the replacement character: no
    prompt could hold the string, and what a model wrote must not end its conversation."""
    return _ESCAPE.sub(lambda found: r"\ufffd" if found[1] else found[0], text) if "\\" in text else text


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
    if "description" in function:
        _text(function["description"], f"{path}.function.description")
    if not isinstance(function.get("strict", False), bool):
        _fail(f"{path}.function.strict", f"must be a boolean, not {_kind(function['strict'])}")
    if "parameters" in function and not isinstance(function["parameters"], (Mapping, bool)):
        _fail(f"{path}.function.parameters", f"must be a JSON Schema, not {_kind(function['parameters'])}")
    if function.get("parameters") is True:  # the schema of anything, so any object
        function["parameters"] = {"type": "object"}
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
    messages: Sequence[Message],
    capabilities: Capabilities,
    *,
    keys: Collection[str] = (REASONING_KEYS[0],),
    reasoning_key: str | None = None,
    media_placeholder: str | None = None,
    beside_calls: Collection[str] = BESIDE_CALLS,
) -> list[Message]:
    """Normalised ``messages`` in the forms that a template of these ``capabilities`` takes.

    ``keys`` are the names that the template reads (:attr:`Template.keys`): reasoning is given under each of its names
    among them, pictures and sounds under the name that is among them. ``reasoning_key``: where reasoning goes if not
    there. ``media_placeholder``: the text that stands for each picture, sound or film. ``beside_calls``: the forms of
    content with which the template writes the calls of a message (:attr:`ToolProfile.beside_calls`); text that is not
    among them becomes a message of its own in front of the calls.
    Arguments in the history that are no JSON object are passed on as text.
    Raises UsageError where a message holds what the template cannot take (an image in a text-only one).
    """
    form = _Form(capabilities, frozenset(keys), reasoning_key, media_placeholder)
    formed = [form.message(message, f"messages[{at}]") for at, message in enumerate(messages)]
    formed = [each for message in formed for each in with_content_beside_calls(message, beside_calls)]
    adapted = with_results_told(formed, sort="tool_call_id" not in keys)
    return adapted if capabilities.supports_system_role else merged_system(adapted)


@dataclass(frozen=True, slots=True)
class _Form:
    """The form of one template's messages; see :func:`adapt`."""

    capabilities: Capabilities
    keys: frozenset[str]
    reasoning_key: str | None
    media_placeholder: str | None

    def message(self, message: Message, path: str) -> Message:
        message = dict(message)
        if message["role"] == "developer":
            message["role"] = "system"
        message["content"] = self.content(message.get("content"), f"{path}.content")
        reasoning = message.get(REASONING_KEYS[0])
        if reasoning is not None and self.reasoning_key == THINKING_PART:
            del message[REASONING_KEYS[0]]
            message["content"] = _with_thinking(reasoning, message["content"])
        elif reasoning is not None:
            message.update({key: reasoning for key in REASONING_KEYS if key in self.keys})
        if "tool_calls" in message:
            as_object = self.capabilities.supports_object_arguments
            message["tool_calls"] = [_adapted_call(call, as_object) for call in message["tool_calls"]]
        return message

    def content(self, content: Any, path: str) -> Any:
        typed, plain = self.capabilities.supports_typed_content, self.capabilities.supports_string_content
        if content is None:
            content = ""
        if isinstance(content, str):
            return [{"type": "text", "text": content}] if typed and not plain else content
        parts = [self.part(part, f"{path}[{at}]") for at, part in enumerate(content)]
        if not typed:
            return _joined(parts)
        return [{key: value for key, value in part.items() if key != _PLACEHOLDER} for part in parts]

    def part(self, part: dict[str, Any], path: str) -> dict[str, Any]:
        """A part that the template knows: text as it is, a picture under the template's name for it or as text."""
        kind = part["type"]
        names = next((names for names in _MEDIA if kind in names), None)
        if names is not None and self.media_placeholder is not None:
            return {"type": "text", "text": self.media_placeholder, _PLACEHOLDER: True}
        if kind == "text":
            return part
        if not self.capabilities.supports_typed_content:
            advice = "; give media_placeholder, the text that stands for it" if names else ""
            _fail(path, f"is of type {kind!r}, but this chat template takes text only{advice}")
        if names is None or kind in self.keys:
            return part
        known = next((name for name in names if name in self.keys), None)
        if known is None:
            _fail(
                path,
                f"is of type {kind!r}, which this chat template does not know; "
                "give media_placeholder, the text that stands for it",
            )
        return {**part, "type": known}


# The key that tells a placeholder from other text; taken away again.
_PLACEHOLDER = "\0placeholder"


def _joined(parts: Sequence[Mapping[str, Any]]) -> str:
    """The parts as one text, a line each; none is begun or ended for a placeholder."""
    out: list[str] = []
    for at, part in enumerate(parts):
        marked = _PLACEHOLDER in part or (at and _PLACEHOLDER in parts[at - 1])
        if at and not marked:
            out.append("\n")
        out.append(part["text"])
    return "".join(out)


def _with_thinking(reasoning: str, content: Any) -> list[Any]:
    """The content as parts, the reasoning in front of them."""
    parts = [{"type": "text", "text": content}] if isinstance(content, str) and content else content or []
    return [{"type": "thinking", "thinking": reasoning}, *parts]


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
