"""``/v1/chat/completions``: the request's fields.

How answers are told: :mod:`dragoman.server.protocols.chat_replies`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from dragoman.engine import NO_SETTINGS, ModelSettings
from dragoman.errors import UsageError
from dragoman.server.requests import harmless
from dragoman.server.requests.ask import NO_WORDS, PING_SECONDS, Ask, Words
from dragoman.server.requests.harmless import ignored
from dragoman.server.requests.kinds import (
    FLAG,
    INTEGER,
    LIST,
    NUMBER,
    OBJECT,
    TEXT_OR_OBJECT,
    TEXTS,
    Kind,
    given,
    integer,
    needed,
    options,
    texts,
)
from dragoman.server.requests.refusals import (
    ANSWER_REFUSALS,
    FORM_REFUSALS,
    OPENAI_REFUSALS,
    SAMPLER_REFUSALS,
    STREAM_REFUSALS,
    Refusal,
    refuse,
)
from dragoman.server.requests.sampling import CHOICES_MAX, SAMPLERS, TOP_LOGPROBS_MAX, sampling
from dragoman.server.requests.turn_fields import TURN_FIELDS, turn_arguments

SAMPLING = ("max_tokens", "max_completion_tokens", *SAMPLERS)
BUDGETS = ("reasoning_budget_tokens", "thinking_budget_tokens")  # llama-server's names, the newer first
_PING_LEAST = 0.01  # seconds: a client may not keep the server busy with signs of life
_PING_MOST = 1e6  # nobody waits for more
FIELDS: Mapping[str, Kind] = {
    **TURN_FIELDS,
    "n": INTEGER,
    "stop": TEXTS,
    "stream": FLAG,
    "stream_options": OBJECT,
    "include_reasoning": FLAG,
    "logprobs": FLAG,
    "top_logprobs": INTEGER,
    "functions": LIST,
    "function_call": TEXT_OR_OBJECT,
    "logit_bias": OBJECT,
    "sse_ping_interval": NUMBER,
    "json_schema": OBJECT,
    **dict.fromkeys(BUDGETS, INTEGER),
}
REFUSED: Mapping[str, Refusal] = {
    **FORM_REFUSALS,
    **ANSWER_REFUSALS,
    **OPENAI_REFUSALS,
    "best_of": Refusal((1,), "give n, and choose among the answers"),
    "audio": Refusal((), "only text is written"),
    "modalities": Refusal((["text"],), "only text is written"),
    "web_search_options": Refusal((), "declare a tool of your own instead"),
    "prediction": Refusal((), "leave it out"),
    "reasoning_budget_message": Refusal(("",), "reasoning ends with the model's own mark alone"),
    "text": Refusal((), "give response_format"),
    "input": Refusal((), "give messages"),
    "instructions": Refusal((), "give a message of the system"),
    "system": Refusal((), "give a message of the system"),
    "lora_path": Refusal((), "the engine's model is the only one"),
    "mm_processor_kwargs": Refusal(({},), "pictures are the engine's business"),
    "reasoning_control": Refusal((False,), "close the stream to end an answer"),
}
KNOWN = (FIELDS, SAMPLING, REFUSED, SAMPLER_REFUSALS)


@dataclass(frozen=True, slots=True)
class Shape:
    """How a request wants its chunks. continuous: usage in every chunk. legacy: calls as ``function_call``."""

    include_usage: bool = False
    continuous: bool = False
    logprobs: bool = False
    legacy: bool = False


def read_chat_request(body: Mapping[str, Any], settings: ModelSettings = NO_SETTINGS) -> Ask:
    """Raises UsageError that names the field."""
    return read(body, settings)[0]


def read(body: Mapping[str, Any], settings: ModelSettings = NO_SETTINGS) -> tuple[Ask, Shape]:
    """The request, and the shape of its answer. Raises UsageError that names the field."""
    refuse(body, REFUSED)
    legacy = _is_legacy(body)
    include_usage, continuous = stream_options(body)
    top = _top_logprobs(body)
    ask = Ask(
        turn=turn_of(body),
        sampling=replace(sampling(body, settings, SAMPLING), logprobs=top),
        stop=texts(body, "stop"),
        stream=bool(given(body, "stream", FLAG)),
        n=integer(body, "n", 1, CHOICES_MAX) or 1,
        reasoning_budget=_budget(body),
        ping_seconds=_ping(body),
        tell_reasoning=given(body, "include_reasoning", FLAG) is not False,
        ignored=(*ignored(body, harmless.CHAT, *KNOWN, settings.engine_fields), *in_vain(body)),
        words=Words(_LEGACY_NAMES) if legacy else NO_WORDS,
    )
    return ask, Shape(include_usage, continuous, top is not None, legacy)


def turn_of(body: Mapping[str, Any]) -> dict[str, Any]:
    """The arguments of ``ChatFormat.turn``. Raises UsageError that names the field."""
    return turn_arguments(_with_tools(body) if _is_legacy(body) else _with_calls_of_today(body))


def stream_options(body: Mapping[str, Any]) -> tuple[bool, bool]:
    """Is usage told at the end, and is it told in every chunk. Raises UsageError."""
    given = options(body, "stream_options", STREAM_OPTIONS)
    refuse(given, STREAM_REFUSALS, path="stream_options.")
    continuous = bool(given.get("continuous_usage_stats"))
    return continuous or bool(given.get("include_usage")), continuous


def in_vain(body: Mapping[str, Any]) -> tuple[str, ...]:
    """A known field that changes nothing: a stop text without text."""
    stop = body.get("stop")
    return ("stop",) if stop == "" or (isinstance(stop, list) and "" in stop) else ()


STREAM_OPTIONS = dict.fromkeys(("include_usage", "continuous_usage_stats", "include_obfuscation"), FLAG)


def _top_logprobs(body: Mapping[str, Any]) -> int | None:
    """How many likeliest tokens are wanted, None: no log probabilities at all."""
    wanted = given(body, "logprobs", FLAG)
    top = integer(body, "top_logprobs", 0, TOP_LOGPROBS_MAX)
    if top and not wanted:
        raise UsageError("top_logprobs needs logprobs: true", param="top_logprobs")
    return (top or 0) if wanted else None


def _budget(body: Mapping[str, Any]) -> int | None:
    """-1 is llama-server's "no bound"."""
    for name in BUDGETS:
        value = integer(body, name, -1, 2**31 - 1)
        if value is not None and value >= 0:
            return value
    return None


def _ping(body: Mapping[str, Any]) -> float | None:
    """llama-server's name; -1: never."""
    value = given(body, "sse_ping_interval", NUMBER)
    if value is None:
        return PING_SECONDS
    return max(float(value), _PING_LEAST) if 0 <= value <= _PING_MOST else None


def _is_legacy(body: Mapping[str, Any]) -> bool:
    """True: tools are given by the names of 2023."""
    return any(body.get(name) not in (None, []) for name in ("functions", "function_call"))


def _with_tools(body: Mapping[str, Any]) -> dict[str, Any]:
    """The same request by the names of today."""
    for name in ("tools", "tool_choice"):
        if body.get(name):
            raise UsageError(f"give {name} or the older functions and function_call, not both", param=name)
    functions = given(body, "functions", LIST) or []
    choice = given(body, "function_call", TEXT_OR_OBJECT)
    if isinstance(choice, Mapping):
        choice = {"type": "function", "function": {"name": needed(choice, "name", _NAME, path="function_call.")}}
    messages = body.get("messages")
    return {
        **body,
        "tools": [{"type": "function", "function": function} for function in functions],
        "tool_choice": choice,
        "parallel_tool_calls": False,
        "messages": _with_calls(messages) if isinstance(messages, list) else messages,
    }


# The arguments of a turn by the names of 2023.
_LEGACY_NAMES = {
    ".tool_calls[0].function": ".function_call",
    ".function.": ".",
    "tools[": "functions[",
    "tool_choice": "function_call",
}
_NAME = Kind("a function's name", lambda value: isinstance(value, str), {"type": "string"})


def _with_calls_of_today(body: Mapping[str, Any]) -> Mapping[str, Any]:
    """The same request, where a history from before has calls by the names of 2023."""
    messages = body.get("messages")
    old = isinstance(messages, list) and any(
        isinstance(each, Mapping) and each.get("function_call") for each in messages
    )
    return {**body, "messages": _with_calls(messages)} if old and isinstance(messages, list) else body


def _with_calls(messages: list[Any]) -> list[Any]:
    """History by the names of today: one call a turn, so its result belongs to the last one."""
    out: list[Any] = []
    count = 0
    for message in messages:
        if isinstance(message, Mapping) and isinstance(message.get("function_call"), Mapping):
            count += 1
            kept = {key: value for key, value in message.items() if key != "function_call"}
            call = {"id": f"call_{count}", "type": "function", "function": message["function_call"]}
            message = {**kept, "tool_calls": [call]}
        elif isinstance(message, Mapping) and message.get("role") == "function":
            message = {**message, "role": "tool", "tool_call_id": f"call_{count}"}
        out.append(message)
    return out
