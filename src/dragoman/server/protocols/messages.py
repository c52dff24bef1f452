"""``/v1/messages`` and ``/v1/messages/count_tokens``: the request's fields, and its blocks as the messages of a chat.

How answers are told: :mod:`dragoman.server.protocols.messages_replies`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from dragoman.engine import NO_SETTINGS, ModelSettings
from dragoman.errors import UsageError
from dragoman.server.requests import harmless
from dragoman.server.requests.ask import Ask, Words
from dragoman.server.requests.harmless import ignored
from dragoman.server.requests.kinds import (
    FLAG,
    INTEGER,
    LIST,
    OBJECT,
    OBJECTS,
    TEXT,
    TEXT_LIST,
    TEXT_OR_LIST,
    Kind,
    given,
    integer,
    needed,
    one_of,
    options,
    shown,
    texts,
)
from dragoman.server.requests.refusals import SAMPLER_REFUSALS, Refusal, refuse
from dragoman.server.requests.sampling import SAMPLERS, sampling
from dragoman.server.requests.shapes import shape, strange

SAMPLING = ("max_tokens", *SAMPLERS)
FIELDS: Mapping[str, Kind] = {
    "messages": Kind("a list", LIST.check, OBJECTS),
    "system": TEXT_OR_LIST,
    "tools": Kind("a list", LIST.check, OBJECTS),
    "tool_choice": OBJECT,
    "thinking": OBJECT,
    "output_config": OBJECT,
    "output_format": OBJECT,
    "stop_sequences": TEXT_LIST,
    "stream": FLAG,
    "metadata": OBJECT,
    "chat_template_kwargs": OBJECT,
}
REFUSED: Mapping[str, Refusal] = {
    "container": Refusal((), "there are no containers here"),
    "mcp_servers": Refusal(([],), "declare the server's tools as tools of your own"),
    "compaction": Refusal((), "ask for a summary in the conversation"),
    "fallbacks": Refusal(([],), "there is one model here"),
    "inference_geo": Refusal((), "the engine runs where its operator put it"),
    "thread": Refusal((), "nothing is kept between requests; send the whole conversation"),
    "n": Refusal((1,), "ask once for each answer"),
    "stop": Refusal((), "give stop_sequences"),
    "response_format": Refusal((), "give output_config.format"),
    "reasoning_effort": Refusal((), "give output_config.effort"),
    "max_completion_tokens": Refusal((), "give max_tokens"),
}
KNOWN = (FIELDS, SAMPLING, REFUSED, SAMPLER_REFUSALS)
# The kinds of tool choice -> ours; a named tool is that tool and no other.
_CHOICES = {"auto": "auto", "any": "required", "none": "none"}
_CONFIG = {"effort": TEXT, "format": OBJECT}
_THINKING_FIELDS = {
    "type": TEXT,
    "budget_tokens": INTEGER,
    "display": one_of("summarized", "omitted"),  # shown as it was thought: nobody here could sum it up
}
_FORMAT = "output_config.format"
# The arguments of a turn that are told by other names here.
_NAMES = {
    "reasoning_effort": "output_config.effort",
    "response_format.json_schema": _FORMAT,
    "response_format": _FORMAT,
    ".function.parameters": ".input_schema",
    ".function.": ".",
    "enable_thinking": "thinking",
    "'image_url'": "'image'",
    "give media_placeholder, the text that stands for it": "send text in its place",
}
# What objects of the request may hold; a tool's result that failed (``is_error``) is told by its text alone.
_BLOCK_KEYS = ("type", "text", "thinking", "signature", "data", "id", "name", "input", "tool_use_id", "source")
_BLOCK = shape(*_BLOCK_KEYS, "cache_control")
_SHAPES = {
    "system": _BLOCK,
    "messages": shape("role", content=shape(*_BLOCK_KEYS, "cache_control", content=_BLOCK)),
    "tools": shape("type", "name", "description", "input_schema", "strict", "cache_control"),
    "tool_choice": shape("type", "name", "disable_parallel_tool_use"),
    "output_config": shape("effort", format=shape("type", "schema")),
    "output_format": shape("type", "schema"),
}
_THINKING = {"enabled": True, "disabled": False, "adaptive": None, "between_tools": None}


def read(body: Mapping[str, Any], settings: ModelSettings = NO_SETTINGS) -> Ask:
    """Raises UsageError that names the field."""
    thinking = options(body, "thinking", _THINKING_FIELDS)
    return Ask(
        turn=turn_of(body),
        sampling=sampling(body, settings, SAMPLING),
        stop=texts(body, "stop_sequences", TEXT_LIST),
        stream=bool(given(body, "stream", FLAG)),
        reasoning_budget=integer(thinking, "budget_tokens", 0, 2**31 - 1, path="thinking."),
        tell_reasoning=thinking.get("display") != "omitted",
        ignored=(*ignored(body, harmless.MESSAGES, *KNOWN, settings.engine_fields), *_strange(body)),
        words=Words(_names(body), lambda: [place for _, place in _messages(body)]),
    )


def _names(body: Mapping[str, Any]) -> Mapping[str, str]:
    _, place = _asked_format(body)
    return {name: place if theirs == _FORMAT else theirs for name, theirs in _NAMES.items()}


def _strange(body: Mapping[str, Any]) -> list[str]:
    return [place for name, known in _SHAPES.items() for place, _, _ in strange(body.get(name), known, name)]


def turn_of(body: Mapping[str, Any]) -> dict[str, Any]:
    """The arguments of ``ChatFormat.turn``. Raises UsageError that names the field."""
    refuse(body, REFUSED)
    messages = [message for message, _ in _messages(body)]
    config = options(body, "output_config", _CONFIG)
    choice = given(body, "tool_choice", OBJECT)
    turn = {
        "messages": messages,
        "tools": _tools(given(body, "tools", LIST)),
        "tool_choice": None if choice is None else _choice(choice),
        "parallel_tool_calls": False if _one_call(choice or {}) else None,
        "response_format": _format(*_asked_format(body)),
        "reasoning_effort": config.get("effort"),
        "enable_thinking": _thinking(given(body, "thinking", OBJECT)),
        "chat_template_kwargs": given(body, "chat_template_kwargs", OBJECT),
        # A last message of the assistant is the beginning of the answer.
        "continue_final_message": True if _is_prefill(messages[-1]) else None,
    }
    return {name: value for name, value in turn.items() if value is not None}


def _is_prefill(message: Mapping[str, Any]) -> bool:
    return message["role"] == "assistant" and not message.get("tool_calls")


def _one_call(choice: Mapping[str, Any]) -> bool:
    return bool(given(choice, "disable_parallel_tool_use", FLAG, path="tool_choice."))


def _choice(choice: Mapping[str, Any]) -> Any:
    kind = needed(choice, "type", TEXT, path="tool_choice.")
    if kind == "tool":
        name = needed(choice, "name", TEXT, path="tool_choice.")
        return {"type": "function", "function": {"name": name}}
    if kind not in _CHOICES:
        raise UsageError(f"tool_choice.type must be auto, any, tool or none, not {kind!r}", param="tool_choice.type")
    return _CHOICES[kind]


def _thinking(value: Mapping[str, Any] | None) -> bool | None:
    if value is None:
        return None
    kind = needed(value, "type", TEXT, path="thinking.")
    if kind not in _THINKING:
        raise UsageError(f"thinking.type must be one of {', '.join(_THINKING)}, not {kind!r}", param="thinking.type")
    return _THINKING[kind]


def _asked_format(body: Mapping[str, Any]) -> tuple[Mapping[str, Any] | None, str]:
    """The form of the answer and its place in the request, which was another one while the field was new."""
    old = given(body, "output_format", OBJECT)
    new = options(body, "output_config", _CONFIG).get("format")
    if old is not None and new is not None:
        raise UsageError(f"give {_FORMAT} or the older output_format, not both", param="output_format")
    return (new, _FORMAT) if old is None else (old, "output_format")


def _format(value: Mapping[str, Any] | None, place: str) -> dict[str, Any] | None:
    if value is None:
        return None
    if value.get("type") != "json_schema":
        message = f"{place}.type must be json_schema, not {shown(value.get('type'))}"
        raise UsageError(message, param=f"{place}.type")
    schema = needed(value, "schema", OBJECT, path=f"{place}.")
    return {"type": "json_schema", "json_schema": {"schema": schema}}


def _tools(tools: list[Any] | None) -> list[dict[str, Any]] | None:
    return None if tools is None else [_tool(tool, f"tools[{at}]") for at, tool in enumerate(tools)]


def _tool(tool: Any, path: str) -> dict[str, Any]:
    if not isinstance(tool, Mapping):
        raise UsageError(f"{path} must be an object, not {shown(tool)}", param=path)
    if tool.get("type") not in (None, "custom"):
        message = f"{path}.type is {shown(tool['type'])}: only tools of your own can be called here"
        raise UsageError(message, param=f"{path}.type")
    function: dict[str, Any] = {"name": needed(tool, "name", TEXT, path=f"{path}.")}
    description = given(tool, "description", TEXT, path=f"{path}.")
    if description is not None:
        function["description"] = description
    schema = given(tool, "input_schema", OBJECT, path=f"{path}.")
    if schema is not None:
        function["parameters"] = schema
    if given(tool, "strict", FLAG, path=f"{path}."):
        function["strict"] = True
    return {"type": "function", "function": function}


# -- messages ----------------------------------------------------------------------------------------------------------


def _messages(body: Mapping[str, Any]) -> list[tuple[dict[str, Any], str]]:
    """The messages of the chat, each with its place in the request."""
    listed = needed(body, "messages", LIST)
    if not listed:
        raise UsageError("messages is empty: a conversation needs at least one message", param="messages")
    system = given(body, "system", TEXT_OR_LIST)
    out = [({"role": "system", "content": _text(system, "system")}, "system")] if system else []
    for at, message in enumerate(listed):
        path = f"messages[{at}]"
        if not isinstance(message, Mapping):
            raise UsageError(f"{path} must be an object, not {shown(message)}", param=path)
        role = needed(message, "role", TEXT, path=f"{path}.")
        content = needed(message, "content", TEXT_OR_LIST, path=f"{path}.")
        if role not in _READERS:
            raise UsageError(f"{path}.role must be user, assistant or system, not {role!r}", param=f"{path}.role")
        out += [(read, path) for read in _READERS[role](content, f"{path}.content")]
    return out


def _text(content: Any, path: str) -> str:
    """The text of a string or of blocks of text."""
    if isinstance(content, str):
        return content
    texts = []
    for at, block in enumerate(content):
        kind = _kind(block, f"{path}[{at}]")
        if kind != "text":
            raise UsageError(f"{path}[{at}].type must be text here, not {kind!r}", param=f"{path}[{at}].type")
        texts.append(needed(block, "text", TEXT, path=f"{path}[{at}]."))
    return "\n".join(texts)


def _kind(block: Any, path: str) -> str:
    if not isinstance(block, Mapping):
        raise UsageError(f"{path} must be an object, not {shown(block)}", param=path)
    kind: str = needed(block, "type", TEXT, path=f"{path}.")
    return kind


def _system(content: Any, path: str) -> list[dict[str, Any]]:
    return [{"role": "system", "content": _text(content, path)}]


def _user(content: Any, path: str) -> list[dict[str, Any]]:
    """Text and pictures as the user's message, results of tools as messages of their own; all in their order."""
    if isinstance(content, str):
        return [{"role": "user", "content": content}]
    out: list[dict[str, Any]] = []
    parts: list[dict[str, Any]] = []
    for at, block in enumerate(content):
        place = f"{path}[{at}]"
        if _kind(block, place) != "tool_result":
            parts.append(_part(block, place))
            continue
        if parts:
            out.append({"role": "user", "content": parts})
            parts = []
        out.append(_result(block, place))
    if parts or not out:
        out.append({"role": "user", "content": parts or ""})
    return out


def _result(block: Mapping[str, Any], path: str) -> dict[str, Any]:
    content = given(block, "content", TEXT_OR_LIST, path=f"{path}.") or ""
    if not isinstance(content, str):
        content = [_part(part, f"{path}.content[{at}]") for at, part in enumerate(content)]
    return {
        "role": "tool",
        "tool_call_id": needed(block, "tool_use_id", TEXT, path=f"{path}."),
        "content": content,
    }


def _part(block: Any, path: str) -> dict[str, Any]:
    kind = _kind(block, path)
    if kind == "text":
        return {"type": "text", "text": needed(block, "text", TEXT, path=f"{path}.")}
    if kind == "image":
        source = needed(block, "source", OBJECT, path=f"{path}.")
        if source.get("type") == "base64":
            url = f"data:{source.get('media_type')};base64,{source.get('data')}"
        else:
            url = needed(source, "url", TEXT, path=f"{path}.source.")
        return {"type": "image_url", "image_url": {"url": url}}
    raise UsageError(f"{path}.type is {kind!r}; text, image and tool_result can be read here", param=f"{path}.type")


def _assistant(content: Any, path: str) -> list[dict[str, Any]]:
    if isinstance(content, str):
        return [{"role": "assistant", "content": content}]
    said: list[str] = []
    thought: list[str] = []
    calls: list[dict[str, Any]] = []
    for at, block in enumerate(content):
        place = f"{path}[{at}]"
        kind = _kind(block, place)
        if kind == "text":
            said.append(needed(block, "text", TEXT, path=f"{place}."))
        elif kind == "thinking":
            thought.append(needed(block, "thinking", TEXT, path=f"{place}."))
        elif kind == "tool_use":
            function = {
                "name": needed(block, "name", TEXT, path=f"{place}."),
                "arguments": needed(block, "input", OBJECT, path=f"{place}."),
            }
            call_id = needed(block, "id", TEXT, path=f"{place}.")
            calls.append({"id": call_id, "type": "function", "function": function})
        elif kind != "redacted_thinking":  # what nobody can read stays unread
            raise UsageError(
                f"{place}.type is {kind!r}; text, thinking and tool_use can be read here", param=f"{place}.type"
            )
    message: dict[str, Any] = {"role": "assistant", "content": "".join(said)}
    if thought:
        message["reasoning_content"] = "\n".join(thought)
    if calls:
        message["tool_calls"] = calls
    return [message]


_READERS = {"user": _user, "assistant": _assistant, "system": _system}
