"""Fields that are accepted and change no answer here, and what becomes of fields that nobody knows.

Clients send these to every server. They are about accounts, caches and places in line, which are the operator's, or
go with a setting that is refused itself. Where an API lists the words of a field, no other word is taken.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

from dragoman.server.requests.kinds import (
    ANYTHING,
    FLAG,
    INTEGER,
    LIST,
    OBJECT,
    TEXT,
    TEXT_OR_OBJECT,
    TEXTS,
    Kind,
    given,
    one_of,
    shown,
)
from dragoman.server.requests.samplers import KINDS

_NAMED_MAX = 20  # unknown fields that an answer names

_TIER = one_of("auto", "default", "flex", "scale", "priority", "fast", "ultrafast")
# Who asks, how it is billed, what is cached: of OpenAI's API.
OPENAI: Mapping[str, Kind] = {
    **dict.fromkeys(("model", "user", "safety_identifier", "prompt_cache_key"), TEXT),
    **dict.fromkeys(("metadata", "prompt_cache_options"), OBJECT),
    "prompt_cache_retention": one_of("in_memory", "in-memory", "24h"),
    "service_tier": _TIER,
}
# What other servers know besides: their caches and slots, and the fine print of samplers that are refused when used.
SERVERS: Mapping[str, Kind] = {
    **dict.fromkeys(("id_slot", "n_cache_reuse", "n_discard", "n_keep"), INTEGER),
    **dict.fromkeys(("return_progress", "timings_per_token"), FLAG),
    **dict.fromkeys(("request_id", "rid"), TEXTS),
    **{
        name: KINDS[name]
        for name in (
            *("cache_prompt", "cache_salt", "priority", "penalize_nl", "repeat_last_n", "adaptive_decay"),
            *("mirostat_eta", "mirostat_tau", "dynatemp_exponent", "xtc_threshold"),
            *("dry_allowed_length", "dry_base", "dry_penalty_last_n", "dry_sequence_breakers"),
        )
    },
}
CHAT: Mapping[str, Kind] = {**OPENAI, **SERVERS, "store": FLAG}  # what is stored changes no answer
COMPLETIONS: Mapping[str, Kind] = {**OPENAI, **SERVERS}
RESPONSES: Mapping[str, Kind] = {
    **OPENAI,
    **SERVERS,
    "max_tool_calls": INTEGER,  # of tools that the service runs itself
    "context_management": LIST,  # the conversation is the client's; nothing is cut from it here
}
MESSAGES: Mapping[str, Kind] = {
    **dict.fromkeys(("model", "user_profile_id", "workspace_id"), TEXT),
    "fallback_credit_token": TEXT_OR_OBJECT,
    **dict.fromkeys(("metadata", "cache_control"), OBJECT),
    **dict.fromkeys(("billing_policy", "diagnostics"), ANYTHING),
    "betas": LIST,
    "context_management": OBJECT,  # as above
    "service_tier": one_of("auto", "standard_only"),
    "speed": one_of("standard", "fast"),
}


def ignored(body: Mapping[str, Any], harmless: Mapping[str, Kind], *known: Collection[str]) -> tuple[str, ...]:
    """The fields that nobody knows, for the answer to name. Raises UsageError for a word that a harmless one has not.

    Clients send new fields every month, so they are no error; but a misspelt one must not pass without a word.
    """
    for name, kind in harmless.items():
        given(body, name, kind)
    known = (harmless, *known)
    strange = [name for name, value in body.items() if value is not None and not any(name in each for each in known)]
    return tuple(name if len(name) < 60 else shown(name) for name in strange[:_NAMED_MAX])
