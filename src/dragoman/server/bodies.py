"""JSON Schemas of the requests' bodies, made from the tables by which they are read."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from dragoman.server.protocols import chat, completions, messages, responses
from dragoman.server.requests.kinds import Kind
from dragoman.server.requests.sampling import CHOICES_MAX, SAMPLING_FIELDS, TOP_LOGPROBS_MAX, Range

Schema = Mapping[str, Any]

_TEXT = {"type": "string"}
_PARTS = {"type": "array", "items": {"type": "object", "properties": {"type": _TEXT}, "required": ["type"]}}
_CONTENT = {"anyOf": [_TEXT, _PARTS]}
_FUNCTION_FIELDS = {
    "name": {"type": "string", "minLength": 1},
    "description": _TEXT,
    "parameters": {"type": "object"},
    "strict": {"type": ["boolean", "null"]},
}
_FUNCTION = {"type": "object", "properties": _FUNCTION_FIELDS, "required": ["name"]}
_TOOL = {"type": "object", "properties": {"type": {"const": "function"}, "function": _FUNCTION}}
_CALL = {
    "type": "object",
    "properties": {
        "id": _TEXT,
        "type": {"const": "function"},
        "function": {"type": "object", "properties": {"name": _TEXT, "arguments": _TEXT}, "required": ["name"]},
    },
    "required": ["function"],
}
_MESSAGE = {
    "type": "object",
    "properties": {
        "role": {"enum": ["system", "developer", "user", "assistant", "tool", "function"]},
        "content": {"anyOf": [*_CONTENT["anyOf"], {"type": "null"}]},
        "tool_calls": {"type": "array", "items": _CALL},
        "tool_call_id": _TEXT,
        "reasoning_content": _TEXT,
    },
    "required": ["role"],
}
_FORMAT = {
    "type": "object",
    "properties": {"type": {"enum": ["text", "json_object", "json_schema"]}, "json_schema": {"type": "object"}},
    "required": ["type"],
}
_ITEM = {
    "anyOf": [
        {
            "type": "object",
            "properties": {"role": {"enum": ["system", "developer", "user", "assistant"]}, "content": _CONTENT},
            "required": ["role", "content"],
        },
        {
            "type": "object",
            "properties": {
                "type": {"enum": ["reasoning", "function_call", "function_call_output"]},
                "call_id": _TEXT,
                "name": _TEXT,
                "arguments": _TEXT,
                "output": _CONTENT,
            },
            "required": ["type"],
        },
    ]
}
_FLAT_TOOL = {**_FUNCTION, "properties": {"type": {"const": "function"}, **_FUNCTION_FIELDS}}
_THEIR_TOOL = {
    "type": "object",
    "properties": {
        "name": {"type": "string", "minLength": 1},
        "description": _TEXT,
        "input_schema": {"type": "object"},
    },
    "required": ["name"],
}
_THEIR_MESSAGE = {
    "type": "object",
    "properties": {"role": {"enum": ["user", "assistant"]}, "content": _CONTENT},
    "required": ["role", "content"],
}
_THEIR_CHOICE = {"type": "object", "properties": {"type": {"enum": ["auto", "any", "tool", "none"]}, "name": _TEXT}}
_IDS = {"type": "array", "items": {"type": "integer", "minimum": 0}, "minItems": 1}
_PROMPT = {"anyOf": [_TEXT, _IDS, {"type": "array", "items": {"anyOf": [_TEXT, _IDS]}, "minItems": 1}]}


def _body(
    fields: Mapping[str, Kind], samplers: Iterable[str], required: Iterable[str], closer: Mapping[str, Schema]
) -> Schema:
    """An object of these fields; ``closer`` tells more of some. Every one may be null, and others may stand there."""
    every: dict[str, Schema] = {name: kind.schema for name, kind in fields.items()}
    every |= {name: _number(SAMPLING_FIELDS[name]) for name in samplers}
    every |= closer
    must = tuple(required)
    properties = {
        name: schema if name in must else {"anyOf": [schema, {"type": "null"}]}
        for name, schema in {"model": _TEXT, **every}.items()
    }
    return {"type": "object", "properties": properties, "required": list(must)}


def _number(field: Range) -> Schema:
    return {**field.kind.schema, "minimum": field.low, "maximum": field.high}


def _many(item: Schema, least: int = 0) -> Schema:
    return {"type": "array", "items": item, **({"minItems": least} if least else {})}


_CHAT_ONLY = {
    "messages": _many(_MESSAGE, 1),
    "tools": _many(_TOOL),
    "response_format": _FORMAT,
    "n": {"type": "integer", "minimum": 1, "maximum": CHOICES_MAX},
    "top_logprobs": {"type": "integer", "minimum": 0, "maximum": TOP_LOGPROBS_MAX},
}
CHAT = _body(chat.FIELDS, chat.SAMPLING, ["messages"], _CHAT_ONLY)
RESPONSES = _body(
    responses.FIELDS,
    responses.SAMPLING,
    ["input"],
    {"input": {"anyOf": [_TEXT, _many(_ITEM, 1)]}, "tools": _many(_FLAT_TOOL)},
)
MESSAGES = _body(
    messages.FIELDS,
    messages.SAMPLING,
    ["messages"],
    {"messages": _many(_THEIR_MESSAGE, 1), "tools": _many(_THEIR_TOOL), "tool_choice": _THEIR_CHOICE},
)
COMPLETIONS = _body(
    completions.FIELDS,
    completions.SAMPLING,
    ["prompt"],
    {"prompt": _PROMPT, "n": _CHAT_ONLY["n"], "logprobs": _CHAT_ONLY["top_logprobs"]},
)
TOKENIZE: Schema = {
    "type": "object",
    "properties": {"content": _TEXT, "with_pieces": {"type": "boolean"}},
    "required": ["content"],
}
DETOKENIZE: Schema = {
    "type": "object",
    "properties": {"tokens": _many({"type": "integer", "minimum": 0})},
    "required": ["tokens"],
}
