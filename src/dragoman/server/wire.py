"""The OpenAI wire shapes: JSON of a request to our values, our values to JSON of an answer. Nothing else knows them.

Rules of this file: no I/O and no framework. A field that is unknown is ignored; one that is known, asked for and not
supported is refused by name, since ignoring it would be a wrong answer. Null means "not given".
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from dragoman.chat import Delta, Message, Problem
from dragoman.engine import NO_SETTINGS, ModelSettings, Sampling
from dragoman.errors import DragomanError, EngineError, LimitError, OutputError, TemplateError, UsageError

Check: TypeAlias = Callable[[Any], bool]


def _is_text(value: Any) -> bool:
    return isinstance(value, str)


def _is_flag(value: Any) -> bool:
    return isinstance(value, bool)


def _is_object(value: Any) -> bool:
    return isinstance(value, Mapping)


def _is_list(value: Any) -> bool:
    return isinstance(value, list)


def _is_integer(value: Any) -> bool:
    return type(value) is int or (type(value) is float and value.is_integer())


def _is_number(value: Any) -> bool:
    return type(value) in (int, float) and math.isfinite(value)


# field of the request -> what it must be; all are arguments of ChatFormat.turn under the same name.
_TURN_FIELDS: Mapping[str, tuple[Check, str]] = {
    "messages": (_is_list, "a list"),
    "tools": (_is_list, "a list"),
    "tool_choice": (lambda value: _is_text(value) or _is_object(value), "a string or an object"),
    "parallel_tool_calls": (_is_flag, "a boolean"),
    "response_format": (_is_object, "an object"),
    "grammar": (_is_text, "a string"),
    "reasoning_format": (_is_text, "a string"),
    "reasoning_effort": (_is_text, "a string"),
    "enable_thinking": (_is_flag, "a boolean"),
    "chat_template_kwargs": (_is_object, "an object"),
    "add_generation_prompt": (_is_flag, "a boolean"),
    "continue_final_message": (lambda value: _is_flag(value) or _is_text(value), "a boolean or a field's name"),
    "echo": (_is_flag, "a boolean"),
    "prefill_assistant": (_is_flag, "a boolean"),
    "media_placeholder": (_is_text, "a string"),
}
# field of the request -> (field of Sampling, what it must be, lowest, highest)
_SAMPLING_FIELDS: Mapping[str, tuple[str, Check, float, float]] = {
    "max_tokens": ("max_tokens", _is_integer, 0, math.inf),
    "max_completion_tokens": ("max_tokens", _is_integer, 0, math.inf),  # the newer name, so it wins
    "temperature": ("temperature", _is_number, 0, math.inf),
    "top_p": ("top_p", _is_number, 0, 1),
    "top_k": ("top_k", _is_integer, -1, math.inf),
    "min_p": ("min_p", _is_number, 0, 1),
    "seed": ("seed", _is_integer, -(2**63), 2**64),
    "presence_penalty": ("presence_penalty", _is_number, -math.inf, math.inf),
    "frequency_penalty": ("frequency_penalty", _is_number, -math.inf, math.inf),
}
# Known fields that this server cannot honour -> the values that ask for nothing, and what to do instead.
_UNSUPPORTED: Mapping[str, tuple[tuple[Any, ...], str]] = {
    "n": ((1,), "only one choice is made; send the request again for another"),
    "best_of": ((1,), "only one choice is made"),
    "logprobs": ((False,), "log probabilities are not told; leave it out"),
    "top_logprobs": ((0,), "log probabilities are not told; leave it out"),
    "functions": (([],), "give tools instead"),
    "function_call": ((), "give tool_choice instead"),
    "audio": ((), "only text is written"),
    "modalities": ((["text"],), "only text is written"),
    "web_search_options": ((), "declare a tool of your own instead"),
    "reasoning_budget_tokens": ((-1,), "reasoning has no budget of its own; give max_tokens"),
    "thinking_budget_tokens": ((-1,), "reasoning has no budget of its own; give max_tokens"),
}


@dataclass(frozen=True, slots=True)
class ChatRequest:
    """A checked ``/v1/chat/completions`` request. turn: arguments of ``ChatFormat.turn``. stop: the client's own."""

    turn: Mapping[str, Any]
    sampling: Sampling = field(default_factory=Sampling)
    stop: tuple[str, ...] = ()
    stream: bool = False
    include_usage: bool = False


@dataclass(frozen=True, slots=True)
class Usage:
    prompt_tokens: int
    completion_tokens: int

    def to_dict(self) -> dict[str, int]:
        return {
            "prompt_tokens": self.prompt_tokens,
            "completion_tokens": self.completion_tokens,
            "total_tokens": self.prompt_tokens + self.completion_tokens,
        }


@dataclass(frozen=True, slots=True)
class Head:
    """What every piece of one answer says: its id, when it was made (seconds since 1970), by which model."""

    id: str
    created: int
    model: str


def read_body(data: bytes) -> dict[str, Any]:
    """The JSON object of a request's body. Raises UsageError."""
    try:
        value = json.loads(data)
    except (ValueError, RecursionError) as error:
        raise UsageError(f"the body is no JSON: {error}") from error
    if not isinstance(value, dict):
        raise UsageError("the body must be a JSON object")
    return value


def read_chat_request(body: Mapping[str, Any], settings: ModelSettings = NO_SETTINGS) -> ChatRequest:
    """Raises UsageError that names the field."""
    _refuse_unsupported(body)
    options = _given(body, "stream_options", _is_object, "an object") or {}
    return ChatRequest(
        turn=turn_arguments(body),
        sampling=_sampling(body, settings),
        stop=_stop(body),
        stream=bool(_given(body, "stream", _is_flag, "a boolean")),
        include_usage=bool(options.get("include_usage")),
    )


def turn_arguments(body: Mapping[str, Any]) -> dict[str, Any]:
    """The arguments of ``ChatFormat.turn`` that the request gives. Raises UsageError that names the field."""
    given = {name: _given(body, name, check, kind) for name, (check, kind) in _TURN_FIELDS.items()}
    arguments = {name: value for name, value in given.items() if value is not None}
    if "messages" not in arguments:
        raise UsageError("messages is missing: a list of the conversation's messages", param="messages")
    schema = body.get("json_schema")  # llama-server's own name for the commonest response_format
    if schema is not None and "response_format" not in arguments:
        arguments["response_format"] = {"type": "json_schema", "json_schema": {"schema": schema}}
    thinking = arguments.get("chat_template_kwargs", {}).get("enable_thinking")
    if thinking is not None and not _is_flag(thinking):
        name = "chat_template_kwargs.enable_thinking"
        raise UsageError(f"{name} must be a boolean, not {thinking!r}", param=name)
    return arguments


def _refuse_unsupported(body: Mapping[str, Any]) -> None:
    for name, (harmless, advice) in _UNSUPPORTED.items():
        value = body.get(name)
        if value is not None and not any(type(value) is type(each) and value == each for each in harmless):
            raise UsageError(f"{name} = {json.dumps(value)} is not supported: {advice}", param=name)


def _given(body: Mapping[str, Any], name: str, check: Check, kind: str) -> Any:
    """The field's value, None where it is not given."""
    value = body.get(name)
    if value is not None and not check(value):
        raise UsageError(f"{name} must be {kind}, not {_shown(value)}", param=name)
    return value


def _shown(value: Any) -> str:
    text = json.dumps(value)
    return text if len(text) <= 60 else text[:57] + "..."


def _sampling(body: Mapping[str, Any], settings: ModelSettings) -> Sampling:
    default = settings.sampling
    values: dict[str, Any] = {name: getattr(default, name) for name, *_ in _SAMPLING_FIELDS.values()}
    for name, (target, check, low, high) in _SAMPLING_FIELDS.items():
        kind = "an integer" if check is _is_integer else "a number"
        value = _given(body, name, check, kind)
        if value is None or (target == "max_tokens" and value == -1):  # -1: llama-server's "no bound"
            continue
        if not low <= value <= high:
            bounds = f"from {low} to {high}" if math.isfinite(high) else f"{low} or more"
            raise UsageError(f"{name} must be {bounds}, not {value}", param=name)
        values[target] = int(value) if check is _is_integer else value
    extra = {name: body[name] for name in sorted(settings.engine_fields) if body.get(name) is not None}
    bias = {**default.logit_bias, **_logit_bias(body)}
    return Sampling(**values, logit_bias=bias, extra={**default.extra, **extra})


def _logit_bias(body: Mapping[str, Any]) -> dict[int, float]:
    given = _given(body, "logit_bias", _is_object, "an object of token ids and numbers") or {}
    out: dict[int, float] = {}
    for token, added in given.items():
        if not (token.isascii() and token.isdigit() and _is_number(added)):
            message = f"logit_bias maps token ids to numbers, not {token!r} to {_shown(added)}"
            raise UsageError(message, param="logit_bias")
        out[int(token)] = -math.inf if added <= -100 else float(added)  # -100 is the API's word for a ban
    return out


def _stop(body: Mapping[str, Any]) -> tuple[str, ...]:
    value = body.get("stop")
    texts = [value] if isinstance(value, str) else value
    if texts is None:
        return ()
    if not (isinstance(texts, list) and all(isinstance(text, str) for text in texts)):
        raise UsageError("stop must be a string or a list of strings", param="stop")
    return tuple(text for text in texts if text)


def chunk(
    head: Head, delta: Mapping[str, Any], *, finish_reason: str | None = None, usage_follows: bool = False
) -> dict[str, Any]:
    """One chunk with its one choice. ``usage_follows``: a later chunk tells the usage, so this one says null."""
    choice = {"index": 0, "delta": dict(delta), "logprobs": None, "finish_reason": finish_reason}
    out: dict[str, Any] = {**_head(head, "chat.completion.chunk"), "choices": [choice]}
    if usage_follows:
        out["usage"] = None
    return out


def first_delta() -> dict[str, Any]:
    """The role comes once, in the first chunk, with no text beside it."""
    return {"role": "assistant", "content": None}


def usage_chunk(head: Head, usage: Usage) -> dict[str, Any]:
    """The last chunk of a client that asked for usage: it has no choices."""
    return {**_head(head, "chat.completion.chunk"), "choices": [], "usage": usage.to_dict()}


def completion(head: Head, message: Message, finish_reason: str, usage: Usage) -> dict[str, Any]:
    """The whole answer of a request that is not streamed."""
    choice = {"index": 0, "message": message.to_dict(), "logprobs": None, "finish_reason": finish_reason}
    return {**_head(head, "chat.completion"), "choices": [choice], "usage": usage.to_dict()}


def notes(problems: tuple[Problem, ...], unconstrained: str | None) -> dict[str, Any]:
    """What an answer says beyond the API, under a key of our own; nothing where there is nothing to say."""
    said: dict[str, Any] = {}
    if problems:
        said["problems"] = [problem.to_dict() for problem in problems]
    if unconstrained:
        said["unconstrained"] = unconstrained
    return {"dragoman": said} if said else {}


def models(name: str, created: int) -> dict[str, Any]:
    return {"object": "list", "data": [{"id": name, "object": "model", "created": created, "owned_by": "dragoman"}]}


def _head(head: Head, kind: str) -> dict[str, Any]:
    return {"id": head.id, "object": kind, "created": head.created, "model": head.model}


def error_body(error: Exception) -> dict[str, Any]:
    """``{"error": ...}`` as clients read it. Of what is no DragomanError nothing is told but that it happened."""
    if not isinstance(error, DragomanError):
        return error_of("the server failed; its log says why", kind="server_error")
    param = error.param if isinstance(error, UsageError) else None
    code = None
    if isinstance(error, LimitError):
        code = "context_length_exceeded" if error.bound == "context_tokens" else f"limit_{error.bound}"
    return error_of(str(error), kind=_error_kind(error), param=param, code=code)


def error_of(message: str, *, kind: str, param: str | None = None, code: str | None = None) -> dict[str, Any]:
    return {"error": {"message": message, "type": kind, "param": param, "code": code}}


def _error_kind(error: DragomanError) -> str:
    kinds: dict[type[DragomanError], str] = {
        EngineError: "engine_error",
        OutputError: "model_error",
        TemplateError: "template_error",
    }
    return next((kind for each, kind in kinds.items() if isinstance(error, each)), "invalid_request_error")


def delta_fields(delta: Delta) -> dict[str, Any]:
    """A delta as a chunk's ``delta`` shows it."""
    return delta.to_dict()
