"""Fields that are known, of our protocols and of other servers, and not supported: each is refused by name."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any

from dragoman.errors import UsageError
from dragoman.server.requests.kinds import shown


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


_LENGTH = "how much a model says is its own; ask for it in the conversation"
VERBOSITY = Refusal(("medium",), _LENGTH)
# Fields of OpenAI's API, by whichever of its protocols.
OPENAI_REFUSALS: Mapping[str, Refusal] = {
    "moderation": Refusal((), "nothing is moderated here"),
    "verbosity": VERBOSITY,
}
# Of the options of a stream.
STREAM_REFUSALS: Mapping[str, Refusal] = {
    "include_obfuscation": Refusal((False,), "chunks are as long as their text; give false"),
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


def refuse(
    body: Mapping[str, Any], refusals: Mapping[str, Refusal], known: Collection[str] = (), *, path: str = ""
) -> None:
    """Raises UsageError for the first field that asks for what cannot be done; those in ``known`` can be."""
    for name, refusal in refusals.items():
        value = body.get(name)
        if value is not None and name not in known and not any(_same(value, each) for each in refusal.harmless):
            message = f"{path}{name} = {shown(value)} is not supported: {refusal.advice}"
            raise UsageError(message, param=path + name)


def _same(value: Any, other: Any) -> bool:
    """Equal, and both or neither a boolean."""
    return bool(value == other) and isinstance(value, bool) == isinstance(other, bool)
