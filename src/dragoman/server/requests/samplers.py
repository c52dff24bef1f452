"""What the sampler fields of other servers must be. An engine that takes one gets it under the same name.

An engine would refuse a wrong one too, but in words of its own, which name no field.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from dragoman.server.requests.kinds import (
    ANYTHING,
    COUNT,
    FLAG,
    IDS,
    INTEGER,
    NUMBER,
    OBJECT,
    TEXT,
    TEXTS,
    Kind,
    given,
    one_of,
)

KINDS: Mapping[str, Kind] = {
    **dict.fromkeys(("repeat_penalty", "repetition_penalty", "length_penalty", "typical_p", "typ_p", "tfs_z"), NUMBER),
    **dict.fromkeys(("top_n_sigma", "top_a", "xtc_probability", "xtc_threshold"), NUMBER),
    **dict.fromkeys(("dry_multiplier", "dry_base", "dynatemp_range", "dynatemp_exponent"), NUMBER),
    **dict.fromkeys(("dry_allowed_length", "dry_penalty_last_n", "repeat_last_n"), INTEGER),
    "dry_sequence_breakers": TEXTS,
    "mirostat": one_of(0, 1, 2),
    **dict.fromkeys(("mirostat_tau", "mirostat_eta", "adaptive_target", "adaptive_decay"), NUMBER),
    **dict.fromkeys(("min_tokens", "min_new_tokens", "min_keep"), COUNT),
    **dict.fromkeys(("ignore_eos", "penalize_nl", "cache_prompt"), FLAG),
    **dict.fromkeys(("stop_token_ids", "allowed_token_ids"), IDS),
    **dict.fromkeys(("bad_words", "stop_regex"), TEXTS),
    "priority": INTEGER,
    "cache_salt": TEXT,
    "custom_params": OBJECT,
}


def sampler_fields(body: Mapping[str, Any], names: frozenset[str]) -> dict[str, Any]:
    """Those of the fields ``names`` that the request gives. Raises UsageError for one that is no such thing."""
    every = {name: given(body, name, KINDS.get(name, ANYTHING)) for name in sorted(names)}
    return {name: value for name, value in every.items() if value is not None}
