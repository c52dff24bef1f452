"""One full request for each route: what mutations start from."""

from __future__ import annotations

from typing import Any

from tests.server.service import MESSAGES, TOOLS

_SCHEMA = {"type": "object", "properties": {"a": {"type": "integer"}}, "required": ["a"]}
_HISTORY: list[Any] = [
    {"role": "developer", "content": "Be brief."},
    *MESSAGES,
    {
        "role": "assistant",
        "content": None,
        "reasoning_content": "hm",
        "tool_calls": [{"id": "call_1", "type": "function", "function": {"name": "get_time", "arguments": "{}"}}],
    },
    {"role": "tool", "tool_call_id": "call_1", "content": [{"type": "text", "text": "noon"}]},
]
_SAMPLING: dict[str, Any] = {"temperature": 0.5, "top_p": 0.9, "top_k": 3, "min_p": 0.1, "seed": 4}
_SAMPLING |= {"presence_penalty": 0.5, "frequency_penalty": 0.5, "logit_bias": {"5": -100}}
CHAT: dict[str, Any] = {
    **_SAMPLING,
    "model": "m",
    "messages": _HISTORY,
    "tools": TOOLS,
    "tool_choice": {
        "type": "allowed_tools",
        "allowed_tools": {"mode": "required", "tools": [{"type": "function", "function": {"name": "get_time"}}]},
    },
    "parallel_tool_calls": False,
    "response_format": {"type": "json_schema", "json_schema": {"name": "x", "schema": _SCHEMA, "strict": True}},
    "n": 2,
    "stop": ["END"],
    "logprobs": True,
    "top_logprobs": 2,
    "max_tokens": 50,
    "max_completion_tokens": 50,
    "stream_options": {"include_usage": True, "continuous_usage_stats": False},
    "reasoning_effort": "low",
    "chat_template_kwargs": {"enable_thinking": True},
    "reasoning_budget_tokens": 20,
    "user": "u",
    "store": True,
    "metadata": {"a": "b"},
}
LEGACY: dict[str, Any] = {
    "messages": [
        *MESSAGES,
        {"role": "assistant", "content": None, "function_call": {"name": "get_time", "arguments": "{}"}},
        {"role": "function", "name": "get_time", "content": "noon"},
    ],
    "functions": [tool["function"] for tool in TOOLS],
    "function_call": {"name": "get_weather"},
}
RESPONSES: dict[str, Any] = {
    **_SAMPLING,
    "model": "m",
    "instructions": "Be brief.",
    "input": [
        {"role": "user", "content": [{"type": "input_text", "text": "What time is it?"}]},
        {"type": "reasoning", "id": "rs_1", "summary": [], "content": [{"type": "reasoning_text", "text": "hm"}]},
        {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "Let me see."}]},
        {"type": "function_call", "call_id": "call_1", "name": "get_time", "arguments": "{}"},
        {"type": "function_call_output", "call_id": "call_1", "output": "noon"},
    ],
    "tools": [{"type": "function", **tool["function"]} for tool in TOOLS],
    "tool_choice": {"type": "function", "name": "get_weather"},
    "parallel_tool_calls": True,
    "text": {"format": {"type": "json_schema", "name": "x", "schema": _SCHEMA, "strict": True}, "verbosity": "medium"},
    "reasoning": {"effort": "low", "summary": "auto"},
    "include": ["reasoning.encrypted_content"],
    "max_output_tokens": 50,
    "store": False,
    "metadata": {"a": "b"},
}
ANTHROPIC: dict[str, Any] = {
    "model": "m",
    "max_tokens": 50,
    "system": [{"type": "text", "text": "Be brief.", "cache_control": {"type": "ephemeral"}}],
    "messages": [
        {"role": "user", "content": "What time is it?"},
        {
            "role": "assistant",
            "content": [
                {"type": "thinking", "thinking": "hm", "signature": ""},
                {"type": "text", "text": "Let me see."},
                {"type": "tool_use", "id": "call_1", "name": "get_time", "input": {}},
            ],
        },
        {
            "role": "user",
            "content": [
                {"type": "tool_result", "tool_use_id": "call_1", "content": [{"type": "text", "text": "noon"}]},
                {"type": "text", "text": "And now?"},
            ],
        },
    ],
    "tools": [
        {"name": tool["function"]["name"], "input_schema": tool["function"].get("parameters", {"type": "object"})}
        for tool in TOOLS
    ],
    "tool_choice": {"type": "tool", "name": "get_time", "disable_parallel_tool_use": True},
    "thinking": {"type": "enabled", "budget_tokens": 20},
    "output_config": {"effort": "low", "format": {"type": "json_schema", "schema": _SCHEMA}},
    "stop_sequences": ["END"],
    "temperature": 0.5,
    "metadata": {"user_id": "u"},
}
COMPLETIONS: dict[str, Any] = {
    **_SAMPLING,
    "model": "m",
    "prompt": ["one", [1, 2]],
    "n": 2,
    "stop": "END",
    "logprobs": 2,
    "max_tokens": 5,
    "stream_options": {"include_usage": True},
}
ECHOED = {name: value for name, value in COMPLETIONS.items() if name != "logprobs"} | {"echo": True}
REQUESTS: dict[str, list[dict[str, Any]]] = {
    "/v1/chat/completions": [CHAT, LEGACY],
    "/v1/responses": [RESPONSES],
    "/v1/messages": [ANTHROPIC],
    "/v1/messages/count_tokens": [ANTHROPIC],
    "/v1/responses/input_tokens": [RESPONSES],
    "/v1/chat/completions/input_tokens": [CHAT],
    "/v1/completions": [COMPLETIONS, ECHOED],
    "/apply-template": [CHAT],
    "/tokenize": [{"content": "a b"}],
    "/detokenize": [{"tokens": [1, 2]}],
}
