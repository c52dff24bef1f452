"""What a request may say of sampling, whatever the protocol."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from dragoman.engine import ModelSettings, Sampling
from dragoman.errors import UsageError
from dragoman.server.requests.kinds import BIAS, INTEGER, NUMBER, Kind, given, is_number, shown
from dragoman.server.requests.refusals import SAMPLER_REFUSALS, refuse
from dragoman.server.requests.samplers import sampler_fields


@dataclass(frozen=True, slots=True)
class Range:
    """A number of a sampler: its field in :class:`Sampling`, and the values that engines take."""

    target: str
    kind: Kind
    low: float
    high: float

    @property
    def words(self) -> str:
        return f"from {self.low} to {self.high}"


_INT_MAX = 2**31 - 1  # engines keep counts in 32 bits
# What a request may say of sampling, whatever the protocol; -1 means "no bound" to llama-server.
SAMPLING_FIELDS: Mapping[str, Range] = {
    "max_tokens": Range("max_tokens", INTEGER, -1, _INT_MAX),
    "max_completion_tokens": Range("max_tokens", INTEGER, -1, _INT_MAX),  # the newer name
    "max_output_tokens": Range("max_tokens", INTEGER, 1, _INT_MAX),
    "temperature": Range("temperature", NUMBER, 0, 100),
    "top_p": Range("top_p", NUMBER, 0, 1),
    "top_k": Range("top_k", INTEGER, -1, _INT_MAX),
    "min_p": Range("min_p", NUMBER, 0, 1),
    "seed": Range("seed", INTEGER, -(2**63), 2**64 - 1),
    "presence_penalty": Range("presence_penalty", NUMBER, -2, 2),  # the API's own bounds, as of logit_bias
    "frequency_penalty": Range("frequency_penalty", NUMBER, -2, 2),
}
SAMPLERS = ("temperature", "top_p", "top_k", "min_p", "seed", "presence_penalty", "frequency_penalty")

CHOICES_MAX = 128  # the API's own bound of n
TOP_LOGPROBS_MAX = 20
_BIAS_MAX = 100


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
        number = int(value) if field.kind is INTEGER else value
        if values.setdefault(field.target, number) != number:
            others = [other for other in names if SAMPLING_FIELDS[other].target == field.target and other != name]
            raise UsageError(f"{name} and {others[0]} say different things; give one of them", param=name)
    values = {**{field.target: getattr(default, field.target) for field in SAMPLING_FIELDS.values()}, **values}
    extra = sampler_fields(body, settings.engine_fields)
    bias = {**default.logit_bias, **logit_bias(body)}
    return Sampling(**values, logit_bias=bias, extra={**default.extra, **extra})


def logit_bias(body: Mapping[str, Any]) -> dict[int, float]:
    """Token id -> added logit; -inf where the request bans a token. Raises UsageError."""
    out: dict[int, float] = {}
    for token, added in (given(body, "logit_bias", BIAS) or {}).items():
        known = token.isascii() and token.isdigit() and len(token) < 10
        if not (known and is_number(added) and -_BIAS_MAX <= added <= _BIAS_MAX):
            bounds = f"numbers from {-_BIAS_MAX} to {_BIAS_MAX}"
            message = f"logit_bias maps token ids to {bounds}, not {shown(token)} to {shown(added)}"
            raise UsageError(message, param="logit_bias")
        out[int(token)] = -math.inf if added <= -_BIAS_MAX else float(added)  # -100 is the API's word for a ban
    return out
