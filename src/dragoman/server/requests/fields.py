"""The fields of requests: what each must be, and what it means to us. The OpenAPI document comes from the same tables.

Rules of this file: no I/O and no framework. A field that is unknown is ignored; one that is known, asked for and not
supported is refused by name, since ignoring it would be a wrong answer. Null means "not given".
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from typing import Any

from dragoman.engine import ModelSettings, Sampling
from dragoman.errors import UsageError


@dataclass(frozen=True, slots=True)
class Kind:
    """What a value must be: in words, as a check, and as a JSON Schema."""

    words: str
    check: Callable[[Any], bool]
    schema: Mapping[str, Any]


def _is_integer(value: Any) -> bool:
    return type(value) is int or (type(value) is float and value.is_integer())


def _is_number(value: Any) -> bool:
    return type(value) in (int, float) and math.isfinite(value)


def _is_text_or(kind: type) -> Callable[[Any], bool]:
    return lambda value: isinstance(value, (str, kind))


TEXT = Kind("a string", lambda value: isinstance(value, str), {"type": "string"})
FLAG = Kind("a boolean", lambda value: isinstance(value, bool), {"type": "boolean"})
OBJECT = Kind("an object", lambda value: isinstance(value, Mapping), {"type": "object"})
LIST = Kind("a list", lambda value: isinstance(value, list), {"type": "array"})
INTEGER = Kind("an integer", _is_integer, {"type": "integer"})
NUMBER = Kind("a number", _is_number, {"type": "number"})
TEXT_OR_OBJECT = Kind("a string or an object", _is_text_or(dict), {"type": ["string", "object"]})
TEXT_OR_LIST = Kind("a string or a list", _is_text_or(list), {"type": ["string", "array"]})
TEXTS = Kind(
    "a string or a list of strings",
    lambda value: isinstance(value, str) or (isinstance(value, list) and all(isinstance(each, str) for each in value)),
    {"anyOf": [{"type": "string"}, {"type": "array", "items": {"type": "string"}}]},
)
BIAS = Kind("an object of token ids and numbers", OBJECT.check, {"type": "object"})
OBJECTS = {"type": "array", "items": {"type": "object"}}

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
    "continue_final_message": Kind("a boolean or a field's name", _is_text_or(bool), {"type": ["boolean", "string"]}),
    "echo": FLAG,
    "prefill_assistant": FLAG,
    "media_placeholder": TEXT,
}


@dataclass(frozen=True, slots=True)
class Range:
    """A number of a sampler: its field in :class:`Sampling`, and the values that engines take."""

    target: str
    kind: Kind
    low: float
    high: float

    @property
    def words(self) -> str:
        return f"from {self.low:g} to {self.high:g}" if self.high < _INT_MAX else f"{self.low:g} or more"


_INT_MAX = 2**31 - 1  # engines keep counts in 32 bits
# What a request may say of sampling, whatever the protocol; -1 means "no bound" to llama-server.
SAMPLING_FIELDS: Mapping[str, Range] = {
    "max_tokens": Range("max_tokens", INTEGER, -1, _INT_MAX),
    "max_completion_tokens": Range("max_tokens", INTEGER, -1, _INT_MAX),  # the newer name, so it wins
    "max_output_tokens": Range("max_tokens", INTEGER, 1, _INT_MAX),
    "temperature": Range("temperature", NUMBER, 0, 100),
    "top_p": Range("top_p", NUMBER, 0, 1),
    "top_k": Range("top_k", INTEGER, -1, _INT_MAX),
    "min_p": Range("min_p", NUMBER, 0, 1),
    "seed": Range("seed", INTEGER, -(2**63), 2**64 - 1),
    "presence_penalty": Range("presence_penalty", NUMBER, -100, 100),
    "frequency_penalty": Range("frequency_penalty", NUMBER, -100, 100),
}
SAMPLERS = ("temperature", "top_p", "top_k", "min_p", "seed", "presence_penalty", "frequency_penalty")

CHOICES_MAX = 128  # the API's own bound of n
TOP_LOGPROBS_MAX = 20


@dataclass(frozen=True, slots=True)
class Refusal:
    """A known field that is not supported: the values that ask for nothing, and what to do instead."""

    harmless: tuple[Any, ...]
    advice: str


_NO_SAMPLER = "the engine of this server has no such setting"
_FORM = "give response_format"
# What other servers take beyond the API, by their names. Samplers are refused where the engine does not take them too.
SAMPLER_REFUSALS: Mapping[str, Refusal] = {
    **dict.fromkeys(
        ("repeat_penalty", "repetition_penalty", "length_penalty", "typical_p", "typ_p", "tfs_z"),
        Refusal((1,), _NO_SAMPLER),
    ),
    **dict.fromkeys(("mirostat", "min_tokens", "dry_multiplier", "xtc_probability"), Refusal((0,), _NO_SAMPLER)),
    **dict.fromkeys(("min_new_tokens", "min_keep", "top_a", "n_indent"), Refusal((0,), _NO_SAMPLER)),
    **dict.fromkeys(("t_max_predict_ms",), Refusal((0, -1), _NO_SAMPLER)),
    **dict.fromkeys(("adaptive_target",), Refusal((-1,), _NO_SAMPLER)),
    **dict.fromkeys(("dynatemp_range",), Refusal((0,), _NO_SAMPLER)),
    **dict.fromkeys(("top_n_sigma",), Refusal((-1,), _NO_SAMPLER)),
    **dict.fromkeys(("ignore_eos", "use_beam_search", "early_stopping"), Refusal((False,), _NO_SAMPLER)),
    **dict.fromkeys(("stop_token_ids", "bad_words", "allowed_token_ids"), Refusal(([],), _NO_SAMPLER)),
    **dict.fromkeys(("logits_processors", "lora", "samplers"), Refusal(([],), _NO_SAMPLER)),
    **dict.fromkeys(("stop_regex", "custom_logit_processor", "repetition_detection"), Refusal((), _NO_SAMPLER)),
    "sampling_seed": Refusal((), "give seed"),
    "n_predict": Refusal((-1,), "give max_tokens"),
    "max_new_tokens": Refusal((), "give max_tokens"),
}
FORM_REFUSALS: Mapping[str, Refusal] = {
    **dict.fromkeys(("guided_json", "guided_regex", "guided_choice", "guided_grammar"), Refusal((), _FORM)),
    **dict.fromkeys(("structured_outputs", "structural_tag", "regex"), Refusal((), _FORM)),
    "ebnf": Refusal((), "give grammar, in llama.cpp's notation"),
    "chat_template": Refusal((), "the template is the server's; what it reads can be set by chat_template_kwargs"),
    "documents": Refusal(([],), "give chat_template_kwargs, if the template reads documents"),
}


_TOLD = "this server does not tell it"
_ENDS = "stop texts are no part of an answer"
_ITS_OWN = "grammars and marks are the server's business; give tools, response_format or grammar"
# What other servers' answers can hold, or how they make them; for chats.
ANSWER_REFUSALS: Mapping[str, Refusal] = {
    **dict.fromkeys(
        ("return_token_ids", "return_tokens_as_token_ids", "return_hidden_states"), Refusal((False,), _TOLD)
    ),
    **dict.fromkeys(("post_sampling_probs",), Refusal((False,), "log probabilities are those before sampling")),
    **dict.fromkeys(("prompt_logprobs", "response_fields"), Refusal((), _TOLD)),
    "n_probs": Refusal((0,), "give logprobs and top_logprobs"),
    **dict.fromkeys(("include_stop_str_in_output", "no_stop_trim"), Refusal((False,), _ENDS)),
    **dict.fromkeys(
        ("skip_special_tokens", "spaces_between_special_tokens"), Refusal((True,), "control tokens are never content")
    ),
    "add_special_tokens": Refusal((False,), "the chat template writes them"),
    "truncate_prompt_tokens": Refusal((), "shorten the conversation"),
    **dict.fromkeys(("grammar_lazy", "thinking_forced_open"), Refusal((False,), _ITS_OWN)),
    **dict.fromkeys(("grammar_triggers", "preserved_tokens"), Refusal(([],), _ITS_OWN)),
    "parse_tool_calls": Refusal((True,), "give no tools, or tool_choice none"),
    "reasoning_in_content": Refusal((False,), "give reasoning_format none"),
    "separate_reasoning": Refusal((True,), "give reasoning_format none"),
    "stream_reasoning": Refusal((True,), "give stream false"),
    "thinking": Refusal(({},), "give enable_thinking or reasoning_budget_tokens"),
    "reasoning": Refusal(({},), "give reasoning_effort, enable_thinking or reasoning_budget_tokens"),
    **dict.fromkeys(
        ("thinking_budget", "thinking_token_budget", "reasoning_budget"),
        Refusal((-1,), "give reasoning_budget_tokens"),
    ),
    "max_output_tokens": Refusal((), "give max_tokens"),
    "stop_sequences": Refusal(([],), "give stop"),
}

TOKENIZE_REFUSALS: Mapping[str, Refusal] = {
    "parse_special": Refusal((False,), "no text of a request becomes a control token; /apply-template writes them"),
    "add_special": Refusal((False,), "the chat template writes what begins a prompt; see /apply-template"),
}


def refuse(body: Mapping[str, Any], refusals: Mapping[str, Refusal], known: Collection[str] = ()) -> None:
    """Raises UsageError for the first field that asks for what cannot be done; those in ``known`` can be."""
    for name, refusal in refusals.items():
        value = body.get(name)
        if value is not None and name not in known and not any(_same(value, each) for each in refusal.harmless):
            raise UsageError(f"{name} = {shown(value)} is not supported: {refusal.advice}", param=name)


def _same(value: Any, other: Any) -> bool:
    """Equal, and both or neither a boolean."""
    return bool(value == other) and isinstance(value, bool) == isinstance(other, bool)


def given(body: Mapping[str, Any], name: str, kind: Kind, *, path: str = "") -> Any:
    """The field's value, None where it is not given. Raises UsageError."""
    value = body.get(name)
    if value is not None and not kind.check(value):
        raise UsageError(f"{path}{name} must be {kind.words}, not {shown(value)}", param=path + name)
    return value


def needed(body: Mapping[str, Any], name: str, kind: Kind, *, path: str = "") -> Any:
    """The field's value. Raises UsageError where it is not given."""
    value = given(body, name, kind, path=path)
    if value is None:
        raise UsageError(f"{path}{name} is missing: {kind.words}", param=path + name)
    return value


def integer(body: Mapping[str, Any], name: str, low: int, high: int) -> int | None:
    """The field as an int between two bounds, None where it is not given. Raises UsageError."""
    value = given(body, name, INTEGER)
    if value is None:
        return None
    if not low <= value <= high:
        raise UsageError(f"{name} must be from {low} to {high}, not {shown(value)}", param=name)
    return int(value)


def shown(value: Any) -> str:
    """A value for people, cut where it is long."""
    text = json.dumps(value)
    return text if len(text) <= 60 else text[:57] + "..."


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
    if arguments.get("reasoning_format") == "deepseek-legacy":  # today the same, also to llama-server
        arguments["reasoning_format"] = "deepseek"
    thinking = arguments.get("chat_template_kwargs", {}).get("enable_thinking")
    if thinking is not None and not FLAG.check(thinking):
        name = "chat_template_kwargs.enable_thinking"
        raise UsageError(f"{name} must be a boolean, not {shown(thinking)}", param=name)
    return arguments


def sampling(body: Mapping[str, Any], settings: ModelSettings, names: tuple[str, ...]) -> Sampling:
    """What the request says of sampling in the fields ``names``, the rest as the model's settings have it."""
    refuse(body, SAMPLER_REFUSALS, settings.engine_fields)
    default = settings.sampling
    values: dict[str, Any] = {}
    for name in names:
        field = SAMPLING_FIELDS[name]
        value = given(body, name, field.kind)
        if value is None or (field.target == "max_tokens" and value == -1):
            continue
        if not field.low <= value <= field.high:
            raise UsageError(f"{name} must be {field.words}, not {shown(value)}", param=name)
        values[field.target] = int(value) if field.kind is INTEGER else value
    values = {**{field.target: getattr(default, field.target) for field in SAMPLING_FIELDS.values()}, **values}
    extra = {name: body[name] for name in sorted(settings.engine_fields) if body.get(name) is not None}
    bias = {**default.logit_bias, **logit_bias(body)}
    return Sampling(**values, logit_bias=bias, extra={**default.extra, **extra})


def logit_bias(body: Mapping[str, Any]) -> dict[int, float]:
    """Token id -> added logit; -inf where the request bans a token. Raises UsageError."""
    out: dict[int, float] = {}
    for token, added in (given(body, "logit_bias", BIAS) or {}).items():
        if not (token.isascii() and token.isdigit() and len(token) < 10 and _is_number(added)):
            message = f"logit_bias maps token ids to numbers, not {shown(token)} to {shown(added)}"
            raise UsageError(message, param="logit_bias")
        out[int(token)] = -math.inf if added <= -100 else float(added)  # -100 is the API's word for a ban
    return out


def texts(body: Mapping[str, Any], name: str) -> tuple[str, ...]:
    """A string or a list of strings as a tuple; empty ones are left out. Raises UsageError."""
    value = given(body, name, TEXTS)
    return tuple(text for text in ([value] if isinstance(value, str) else value or ()) if text)
