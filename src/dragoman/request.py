"""The arguments of one turn, checked and turned into what the dialect asks for."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from dragoman.dialect.request import Answer, Choice, DialectRequest, GbnfAnswer, JsonAnswer, Tool
from dragoman.errors import UsageError
from dragoman.grammar.schema.options import SchemaOptions
from dragoman.template.profile import Profile
from dragoman.vocab import Vocabulary


def dialect_request(
    profile: Profile,
    *,
    tools: Sequence[Mapping[str, Any]],
    tool_choice: Any,
    parallel_tool_calls: bool | None,
    response_format: Any,
    grammar: str | None,
    reasoning_format: str,
    undeclared_calls: str,
    schema_options: SchemaOptions | None,
    reasoning_chars: int | None = None,
) -> DialectRequest:
    """The dialect's view of a request; its prefix is filled in once the prompt is known. Raises: UsageError."""
    checked_text(grammar, "grammar", none=True)
    if schema_options is not None and not isinstance(schema_options, SchemaOptions):
        raise UsageError(
            f"schema_options is a SchemaOptions, not {type(schema_options).__name__}", param="schema_options"
        )
    declared = tuple(_tool(tool) for tool in tools)
    choice, allowed = _choice(tool_choice, declared)
    answer = _answer(response_format, grammar)
    if isinstance(answer, GbnfAnswer) and declared and choice != "none":
        raise UsageError("a grammar of your own cannot be used together with tools", param="grammar")
    if reasoning_format not in ("none", "auto", "deepseek"):
        raise UsageError(
            f"reasoning_format must be none, auto or deepseek, not {reasoning_format!r}", param="reasoning_format"
        )
    if undeclared_calls not in ("content", "call"):
        raise UsageError(
            f"undeclared_calls must be content or call, not {undeclared_calls!r}", param="undeclared_calls"
        )
    parallel = checked_flag(parallel_tool_calls, "parallel_tool_calls", profile.tools is None or profile.tools.parallel)
    return DialectRequest(
        tools=declared,
        choice=choice,
        allowed=allowed,
        parallel=parallel,
        read_reasoning=reasoning_format != "none",
        answer=answer,
        undeclared="call" if undeclared_calls == "call" else "content",
        schema_options=schema_options or SchemaOptions(),
        reasoning_chars=checked_size(reasoning_chars, "reasoning_chars"),
    )


def _tool(tool: Mapping[str, Any]) -> Tool:
    function = tool.get("function", tool)
    parameters = function.get("parameters")
    return Tool(function["name"], parameters or None, bool(function.get("strict")))


def _choice(value: Any, tools: tuple[Tool, ...]) -> tuple[Choice, tuple[str, ...]]:
    """(choice, names that may be called; empty: all)."""
    if value is None or value == "auto":
        return "auto", ()
    if value == "none":
        return "none", ()
    if not tools:
        raise UsageError(f"tool_choice {value!r} needs tools", param="tool_choice")
    if value == "required":
        return "required", ()
    names = tuple(tool.name for tool in tools)
    if isinstance(value, Mapping) and value.get("type") == "function":
        function = value.get("function")
        name = function.get("name") if isinstance(function, Mapping) else value.get("name")
        return "named", (_known(name, names),)
    if isinstance(value, Mapping) and value.get("type") == "allowed_tools":
        inner = value.get("allowed_tools", value)
        listed = inner.get("tools") if isinstance(inner, Mapping) else None
        mode = inner.get("mode", "auto") if isinstance(inner, Mapping) else None
        if mode not in ("auto", "required") or not isinstance(listed, list | tuple) or not listed:
            raise UsageError(
                "allowed_tools must be an object with a mode (auto, required) and a list of at least one tool",
                param="tool_choice",
            )
        wanted = [_known(_name_of(entry), names) for entry in listed]
        return ("required" if mode == "required" else "auto"), tuple(wanted)
    raise UsageError(
        "tool_choice must be auto, none, required, a function to call "
        f'({{"type": "function", "function": {{"name": ...}}}}) or allowed_tools, not {value!r}',
        param="tool_choice",
    )


def _name_of(entry: Any) -> Any:
    if not isinstance(entry, Mapping):
        return None
    function = entry.get("function", entry)
    return function.get("name") if isinstance(function, Mapping) else None


def _known(name: Any, names: tuple[str, ...]) -> str:
    if not isinstance(name, str):
        message = 'tool_choice names no tool: write {"type": "function", "function": {"name": ...}}, the tools are '
        raise UsageError(message + ", ".join(names), param="tool_choice")
    if name not in names:
        raise UsageError(f"tool_choice names {name!r}, the tools are {', '.join(names)}", param="tool_choice")
    return str(name)


def _answer(response_format: Any, grammar: str | None) -> Answer | None:
    if grammar is not None and response_format not in (None, {"type": "text"}):
        raise UsageError("give response_format or grammar, not both", param="grammar")
    if grammar is not None:
        return GbnfAnswer(grammar)
    if response_format is None:
        return None
    kind = response_format.get("type") if isinstance(response_format, Mapping) else response_format
    if not isinstance(kind, str) or kind not in ("text", "json_object", "json_schema"):
        raise UsageError(
            f"response_format.type must be text, json_object or json_schema, not {kind!r}", param="response_format.type"
        )
    if kind == "text":
        return None
    if kind == "json_object":
        schema = response_format.get("schema") if isinstance(response_format, Mapping) else None
        if schema is not None and not isinstance(schema, Mapping | bool):
            param = "response_format.schema"
            raise UsageError(f"{param} must be a JSON Schema, not {type(schema).__name__}", param=param)
        return JsonAnswer(schema)
    named = response_format.get("json_schema", response_format) if isinstance(response_format, Mapping) else None
    schema = named.get("schema") if isinstance(named, Mapping) else None
    if not isinstance(schema, Mapping | bool):
        param = "response_format.json_schema.schema"
        raise UsageError(f"{param} must be a JSON Schema, not {type(schema).__name__}", param=param)
    return JsonAnswer(schema)


def is_prefill(messages: Sequence[Mapping[str, Any]]) -> bool:
    """True: the last message is one of the assistant that waits for its end. Raises: UsageError for two of them."""

    def unfinished(message: Mapping[str, Any]) -> bool:
        return message["role"] == "assistant" and "tool_calls" not in message

    if not unfinished(messages[-1]):
        return False
    if len(messages) > 1 and unfinished(messages[-2]):
        raise UsageError(
            "two messages of the assistant at the end: which one should the model go on with? Join them",
            param=f"messages[{len(messages) - 1}]",
        )
    return True


def continued_field(wanted: bool | str, messages: Sequence[Mapping[str, Any]]) -> str | None:
    """The field of the last message that the model goes on with."""
    if not wanted:
        return None
    last = messages[-1]
    if last["role"] != "assistant" or "tool_calls" in last:
        raise UsageError(
            "only a last message of the assistant without calls can be continued", param="continue_final_message"
        )
    if wanted is True:
        return "reasoning_content" if last.get("reasoning_content") and not last.get("content") else "content"
    return wanted


# -- single arguments --------------------------------------------------------------------------------------------------


def checked_text(value: Any, param: str, *, none: bool = False) -> Any:
    """``value``, a text that can be encoded, or None where ``none`` allows it. Raises: UsageError."""
    if value is None and none:
        return None
    if not isinstance(value, str):
        raise UsageError(f"{param} must be a text, not {type(value).__name__} {value!r:.40}", param=param)
    try:
        value.encode()
    except UnicodeEncodeError as error:
        raise UsageError(f"{param} has half a surrogate pair at character {error.start}", param=param) from None
    return value


def checked_flag(value: Any, param: str, default: bool = False) -> bool:
    """``value`` as a bool, NumPy's among them; None: the default. Raises: UsageError."""
    if value is None:
        return default
    if not isinstance(value, (bool, np.bool_)):
        raise UsageError(f"{param} must be true or false, not {value!r:.40}", param=param)
    return bool(value)


def checked_size(value: Any, param: str) -> int | None:
    """A number of things, 0 or more, or None. Raises: UsageError."""
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, (int, np.integer)) or value < 0:
        raise UsageError(f"{param} must be a whole number from 0 on, not {value!r:.40}", param=param)
    return int(value)


def checked_continuation(value: Any) -> bool | str:
    """``continue_final_message``: a flag, or the field to go on with. Raises: UsageError."""
    if isinstance(value, str) and value in ("content", "reasoning_content"):
        return value
    if value is None or isinstance(value, (bool, np.bool_)):
        return bool(value)
    param = "continue_final_message"
    raise UsageError(f"{param} must be true, false, content or reasoning_content, not {value!r:.40}", param=param)


def checked_seed(value: Any) -> None:
    """``id_seed``. Raises: UsageError."""
    if isinstance(value, bool) or not isinstance(value, (int, str, np.integer, type(None))):
        raise UsageError(f"id_seed must be a number or a text, not {value!r:.40}", param="id_seed")


def checked_path(value: Any, param: str) -> str | os.PathLike[str]:
    """A path that is text. Raises: UsageError."""
    path: str | os.PathLike[str] = value
    if not isinstance(value, (str, os.PathLike)) or isinstance(os.fspath(value), bytes):
        raise UsageError(f"{param} must be a path, not {type(value).__name__} {value!r:.40}", param=param)
    return path


def checked_vocab(value: Any) -> None:
    """A vocabulary or None. Raises: UsageError."""
    if value is not None and not isinstance(value, Vocabulary):
        raise UsageError(
            f"vocab must be a Vocabulary (see Vocabulary.from_folder, from_gguf), not {type(value).__name__}",
            param="vocab",
        )
