"""The fields of a chat request that are arguments of a turn under the same name."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from dragoman.errors import UsageError
from dragoman.server.requests.kinds import (
    FLAG,
    LIST,
    OBJECT,
    OBJECTS,
    TEXT,
    TEXT_OR_OBJECT,
    Kind,
    given,
    is_text_or,
    one_of,
    shown,
)

# field of the request -> what it must be; all are arguments of ChatFormat.turn under the same name.
TURN_FIELDS: Mapping[str, Kind] = {
    "messages": Kind("a list", LIST.check, OBJECTS),
    "tools": Kind("a list", LIST.check, OBJECTS),
    "tool_choice": TEXT_OR_OBJECT,
    "parallel_tool_calls": FLAG,
    "response_format": OBJECT,
    "grammar": TEXT,
    "reasoning_format": TEXT,
    "reasoning_effort": TEXT,
    "enable_thinking": FLAG,
    "chat_template_kwargs": OBJECT,
    "add_generation_prompt": FLAG,
    "continue_final_message": Kind("a boolean or a field's name", is_text_or(bool), {"type": ["boolean", "string"]}),
    "echo": FLAG,
    "prefill_assistant": FLAG,
    "media_placeholder": TEXT,
    "on_mismatch": one_of("lenient", "strict"),
}


def turn_arguments(body: Mapping[str, Any]) -> dict[str, Any]:
    """The arguments of ``ChatFormat.turn`` that a chat request gives. Raises UsageError that names the field."""
    every = {name: given(body, name, kind) for name, kind in TURN_FIELDS.items()}
    arguments = {name: value for name, value in every.items() if value is not None}
    if "messages" not in arguments:
        raise UsageError("messages is missing: a list of the conversation's messages", param="messages")
    schema = body.get("json_schema")  # llama-server's own name for the commonest response_format
    if schema is not None and "response_format" not in arguments:
        arguments["response_format"] = {"type": "json_schema", "json_schema": {"schema": schema}}
    if arguments.get("continue_final_message"):
        # Other servers want it to be false here, as nothing is opened behind the message.
        arguments.pop("add_generation_prompt", None)
    elif arguments.get("continue_final_message") is False:  # said so, whatever the server does by itself
        arguments.setdefault("prefill_assistant", False)
    if arguments.get("reasoning_format") == "deepseek-legacy":  # today the same, also to llama-server
        arguments["reasoning_format"] = "deepseek"
    thinking = arguments.get("chat_template_kwargs", {}).get("enable_thinking")
    if thinking is not None and not FLAG.check(thinking):
        name = "chat_template_kwargs.enable_thinking"
        raise UsageError(f"{name} must be a boolean, not {shown(thinking)}", param=name)
    return arguments
