"""Settings that were measured to suit a model, and the request fields that llama.cpp's server understands by itself."""

from __future__ import annotations

from dragoman.engine import ModelSettings, Sampling
from dragoman.grammar.schema.options import SchemaOptions

# Sampler fields of llama-server's requests that the OpenAI API does not know; clients of one send them to the other.
LLAMA_FIELDS = frozenset(
    (
        *("repeat_penalty", "repeat_last_n", "typical_p", "top_n_sigma", "xtc_probability", "xtc_threshold"),
        *("dry_multiplier", "dry_base", "dry_allowed_length", "dry_penalty_last_n", "dry_sequence_breakers"),
        *("dynatemp_range", "dynatemp_exponent", "mirostat", "mirostat_tau", "mirostat_eta", "cache_prompt"),
    )
)

LLAMA_SETTINGS = ModelSettings(engine_fields=LLAMA_FIELDS)

# A model of 135 million parameters copies placeholders such as "<city>" into values, names of one tool into
# another's arguments, and runs on in strings, digits and lists. With these bounds 120 of 120 answers ended, the longest
# after 297 tokens (arrays of strings and of objects, maps, nested objects, recursion, lists as a response format;
# without a bound of items 3 of 10 with an array of objects). DRY keeps its plain answers from looping, a repeat penalty
# makes them worse.
SMOLLM2_SETTINGS = ModelSettings(
    sampling=Sampling(
        max_tokens=512,
        temperature=0.0,
        extra={"dry_multiplier": 0.8, "dry_allowed_length": 4},
    ),
    schema_options=SchemaOptions(
        closed_objects=True, string_max=48, items_max=4, number_digits=15, fraction_digits=6, banned=(b"<",)
    ),
    engine_fields=LLAMA_FIELDS,
    parallel_tool_calls=False,  # it goes on to call the other tools, wanted or not
    system="You are a helpful assistant. Answer in one short sentence.",
)
