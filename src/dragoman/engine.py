"""What dragoman asks of an inference engine: five verbs, in our words. Adapters translate and hold no policy."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, Protocol

from dragoman.grammar.schema.options import SchemaOptions

# content_filter: the engine itself withheld the rest of the answer.
FinishReason = Literal["stop", "length", "content_filter"]
# The notations of an exported grammar: llama.cpp's, llguidance's, and two of xgrammar's.
GrammarForm = Literal["gbnf", "lark", "ebnf", "structural_tag"]


@dataclass(frozen=True, slots=True)
class Trigger:
    """Where a lazy grammar starts: at this word of the output (or this token, where ``token_id`` is given)."""

    word: str
    token_id: int | None = None


@dataclass(frozen=True, slots=True)
class GrammarSpec:
    """A constraint in the notation an engine takes; a structural tag is JSON text.

    lazy: it applies from the first trigger on only (GBNF alone knows this).
    """

    text: str
    lazy: bool = False
    triggers: tuple[Trigger, ...] = ()
    form: GrammarForm = "gbnf"


@dataclass(frozen=True, slots=True)
class Sampling:
    """Sampling parameters; None leaves the engine's default. ``extra`` is passed on under the engine's own names."""

    max_tokens: int | None = None
    temperature: float | None = None
    top_p: float | None = None
    top_k: int | None = None
    min_p: float | None = None
    seed: int | None = None
    presence_penalty: float | None = None
    frequency_penalty: float | None = None
    logit_bias: Mapping[int, float] = field(default_factory=dict)  # token id -> added logit; -inf bans
    logprobs: int | None = None  # how many of the likeliest tokens are told beside each written one; None: nothing
    extra: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class ModelSettings:
    """What suits one model, whoever asks it.

    sampling: used where a request says nothing.  schema_options: how JSON is written under a grammar; None: as usual.
    engine_fields: fields of a request that are handed to the engine under the same name, though nobody here reads them.
    parallel_tool_calls: may one answer hold several calls, where a request says nothing; None: as the template has it.
    system: the system message of a terminal chat that names none.
    """

    sampling: Sampling = field(default_factory=Sampling)
    schema_options: SchemaOptions | None = None
    engine_fields: frozenset[str] = frozenset()
    parallel_tool_calls: bool | None = None
    system: str | None = None


NO_SETTINGS = ModelSettings()


class Stepper(Protocol):
    """The part of :class:`dragoman.constraint.Constraint` that an in-process engine uses."""

    def fill(self, row: Any) -> None: ...
    def accept(self, token_id: int) -> bool: ...
    @property
    def can_stop(self) -> bool: ...


@dataclass(frozen=True, slots=True)
class Generation:
    """One request to an engine.

    prompt_ids: the exact prompt, never to be tokenised again. prompt_text: the same for people and for scripts.
    stops: texts that end the turn. preserved_tokens: control tokens whose text must show up in the output.
    grammar: for engines with a grammar of their own; constraint: makes a fresh mask cursor for in-process engines.
    """

    prompt_ids: tuple[int, ...]
    prompt_text: str
    stops: tuple[str, ...] = ()
    preserved_tokens: tuple[str, ...] = ()
    grammar: GrammarSpec | None = None
    constraint: Callable[[], Stepper] | None = None
    sampling: Sampling = field(default_factory=Sampling)


@dataclass(frozen=True, slots=True)
class TokenLogprob:
    """How likely a token was: the natural logarithm of its probability, before any grammar or mask.

    data: its bytes, where the engine tells them; else the vocabulary knows.
    top: the likeliest tokens at its place, best first; these have none of their own.
    """

    logprob: float
    token_id: int | None = None
    data: bytes | None = None
    top: tuple[TokenLogprob, ...] = ()


@dataclass(frozen=True, slots=True)
class Chunk:
    """A piece of output. ``finish`` is set on the last one only, with the counts where the engine tells them.

    unknown_end: the engine's own word for its end, where nobody knows what it means; ``finish`` is then ``stop``.
    logprobs: one entry for each token of the piece, where ``Sampling.logprobs`` asked for them.
    """

    text: str = ""
    token_ids: tuple[int, ...] = ()
    finish: FinishReason | None = None
    prompt_tokens: int | None = None
    completion_tokens: int | None = None
    logprobs: tuple[TokenLogprob, ...] = ()
    unknown_end: str | None = None


@dataclass(frozen=True, slots=True)
class EngineInfo:
    """What an engine says of itself.

    template: its chat template, if it tells. grammar_forms: notations in which it takes grammars, best first.
    takes_token_ids: False: prompts go out as text, and a message may then forge control tokens.
    """

    model: str
    context_tokens: int | None = None
    template: str | None = None
    grammar_forms: tuple[GrammarForm, ...] = ()
    takes_masks: bool = False  # Generation.constraint
    takes_token_ids: bool = True
    gives_logprobs: bool = False  # Sampling.logprobs


class Engine(Protocol):
    """An engine. Closing the iterator of ``generate`` (or cancelling its task) stops the generation."""

    async def info(self) -> EngineInfo: ...
    def generate(self, request: Generation) -> AsyncIterator[Chunk]: ...
    async def aclose(self) -> None: ...
