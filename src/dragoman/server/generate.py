"""From a checked request to an answer: what the engine is asked, and what its output is read as. Knows no protocol.

prepare_all   turns, prompt ids, grammar: heavy, so it runs outside of the event loop
follow        the engine's pieces as deltas, and at the end why and at what price
"""

from __future__ import annotations

import datetime
import hashlib
from collections.abc import AsyncGenerator, AsyncIterator, Iterable
from contextlib import aclosing, asynccontextmanager
from dataclasses import dataclass, replace
from typing import Generic, Literal, TypeAlias, TypeVar

from dragoman.chat import Delta, Message, Problem, ToolCall
from dragoman.engine import NO_SETTINGS, Chunk, Engine, EngineInfo, Generation, ModelSettings, Sampling
from dragoman.errors import LimitError, SchemaError, UsageError
from dragoman.format import ChatFormat
from dragoman.server.ask import Ask, RawAsk
from dragoman.server.likelihood import Alignment, Scored, scored
from dragoman.server.reading import RawReading, Reading
from dragoman.server.repeats import Repeats
from dragoman.server.stop_texts import StopTexts
from dragoman.turn import Turn
from dragoman.vocab import Vocabulary

BANNED = float("-inf")

R = TypeVar("R", bound=Reading, covariant=True)


@dataclass(frozen=True, slots=True)
class Usage:
    """Tokens of one answer or of several to one prompt. reasoning_tokens are among the completion's."""

    prompt_tokens: int
    completion_tokens: int
    reasoning_tokens: int = 0

    def to_dict(self) -> dict[str, int]:
        return {
            "prompt_tokens": self.prompt_tokens,
            "completion_tokens": self.completion_tokens,
            "total_tokens": self.prompt_tokens + self.completion_tokens,
        }


@dataclass(frozen=True, slots=True)
class Job(Generic[R]):
    """One answer, ready for the engine; ``turn`` reads it.

    unconstrained: why the tools' schemas are not enforced, if they are not. vocab: for the bytes of tokens.
    """

    turn: R
    generation: Generation
    stop: tuple[str, ...] = ()
    unconstrained: str | None = None
    vocab: Vocabulary | None = None

    @property
    def prompt_tokens(self) -> int:
        return len(self.generation.prompt_ids)


@dataclass(frozen=True, slots=True)
class Said:
    """A piece of an answer, the tokens that its content is made of, and what was used so far."""

    delta: Delta
    usage: Usage
    logprobs: tuple[Scored, ...] = ()


@dataclass(frozen=True, slots=True)
class Ended:
    """How an answer ended; comes once, last. stop_text: the client's own stop text that ended it."""

    finish_reason: Literal["stop", "length", "tool_calls"]
    usage: Usage
    problems: tuple[Problem, ...] = ()
    stop_text: str | None = None
    unconstrained: str | None = None


Piece: TypeAlias = Delta | Ended


def make_turn(
    fmt: ChatFormat,
    request: Ask,
    settings: ModelSettings,
    *,
    now: datetime.datetime | None = None,
    id_seed: str | None = None,
) -> Turn:
    """The turn of a request, with call ids made from ``id_seed``. Raises UsageError, TemplateError, LimitError."""
    defaults = {"parallel_tool_calls": settings.parallel_tool_calls, "schema_options": settings.schema_options}
    return fmt.turn(**{**defaults, **request.turn}, now=now, id_seed=id_seed)


def prepare(
    fmt: ChatFormat,
    request: Ask,
    info: EngineInfo,
    settings: ModelSettings = NO_SETTINGS,
    *,
    now: datetime.datetime | None = None,
    id_seed: str | None = None,
) -> Job[Turn]:
    """What the engine is asked for the first answer. Raises UsageError, TemplateError, LimitError, SchemaError."""
    turn = make_turn(fmt, request, settings, now=now, id_seed=id_seed)
    _ = turn.reader  # compiled here, not in the middle of the event loop's work
    _check_sampling(request.sampling, fmt, info)
    generation = Generation(
        prompt_ids=_prompt_ids(turn, fmt, info),
        prompt_text=turn.prompt.text,
        stops=turn.stops,
        preserved_tokens=turn.preserved_tokens,
        sampling=request.sampling,
    )
    try:
        generation = _constrained(generation, turn, fmt, info)
        unconstrained = None
    except SchemaError as error:
        if not _may_go_free(turn):
            raise
        unconstrained = str(error)
    return Job(turn, generation, request.stop, unconstrained, fmt.vocab)


def prepare_all(
    fmt: ChatFormat,
    request: Ask,
    info: EngineInfo,
    settings: ModelSettings = NO_SETTINGS,
    *,
    now: datetime.datetime | None = None,
    id_seed: str,
) -> tuple[Job[Turn], ...]:
    """A job for each answer that is wanted: the same prompt and grammar, call ids and a seed of its own."""
    first = prepare(fmt, request, info, settings, now=now, id_seed=id_seed)
    others = []
    for at in range(1, request.n):
        turn = make_turn(fmt, request, settings, now=now, id_seed=f"{id_seed}-{at}")
        _ = turn.reader
        others.append(replace(first, turn=turn))
    return _seeded([first, *others], id_seed)


def prepare_raw(
    fmt: ChatFormat, request: RawAsk, info: EngineInfo, settings: ModelSettings = NO_SETTINGS, *, id_seed: str
) -> tuple[Job[RawReading], ...]:
    """Jobs for what follows each prompt, ``request.n`` for each, in the prompts' order. Raises UsageError, LimitError.

    Control tokens of a prompt's text count: whoever sends a raw prompt has written them.
    """
    _check_sampling(request.sampling, fmt, info)
    jobs: list[Job[RawReading]] = []
    for prompt in request.prompts:
        ids, text = _raw_prompt(prompt, fmt, info)
        generation = Generation(prompt_ids=_fitting(ids, info), prompt_text=text, sampling=request.sampling)
        jobs += [Job(RawReading(), generation, request.stop, None, fmt.vocab) for _ in range(request.n)]
    return _seeded(jobs, id_seed)


def _raw_prompt(prompt: str | tuple[int, ...], fmt: ChatFormat, info: EngineInfo) -> tuple[tuple[int, ...], str]:
    vocab = fmt.vocab
    if isinstance(prompt, str):
        if vocab is None:
            if info.takes_token_ids:
                raise UsageError("a prompt of text needs the model's vocabulary; give token ids", param="prompt")
            return (), prompt
        ids = tuple(vocab.encode([(prompt, False)]))
        if vocab.adds_bos and vocab.bos_id is not None and ids[:1] != (vocab.bos_id,):
            ids = (vocab.bos_id, *ids)
        return ids, prompt
    if vocab is None:
        return prompt, ""
    wrong = next((token for token in prompt if token >= vocab.size), None)
    if wrong is not None:
        raise UsageError(f"prompt holds the token id {wrong}; the vocabulary has {vocab.size}", param="prompt")
    return prompt, vocab.decode(prompt).decode("utf-8", "replace")


def _seeded(jobs: list[Job[R]], key: str) -> tuple[Job[R], ...]:
    """Jobs of one request with seeds that differ: the request's and the following ones, or ones made from ``key``."""
    if len(jobs) == 1:
        return tuple(jobs)
    asked = jobs[0].generation.sampling.seed
    out = []
    for at, job in enumerate(jobs):
        digest = hashlib.blake2b(f"{key} {at}".encode(), digest_size=4).digest()
        seed = asked + at if asked is not None else int.from_bytes(digest, "big") >> 1
        sampling = replace(job.generation.sampling, seed=seed)
        out.append(replace(job, generation=replace(job.generation, sampling=sampling)))
    return tuple(out)


def _check_sampling(sampling: Sampling, fmt: ChatFormat, info: EngineInfo) -> None:
    """Raises UsageError for what the engine cannot do."""
    if sampling.logprobs is not None and not info.gives_logprobs:
        raise UsageError(f"the engine of {info.model} tells no log probabilities; leave logprobs out", param="logprobs")
    size = None if fmt.vocab is None else fmt.vocab.size
    wrong = next((token for token in sampling.logit_bias if size is not None and token >= size), None)
    if wrong is not None:
        raise UsageError(f"logit_bias names token {wrong}; the vocabulary has {size}", param="logit_bias")


def _prompt_ids(turn: Turn, fmt: ChatFormat, info: EngineInfo) -> tuple[int, ...]:
    if fmt.vocab is None and not info.takes_token_ids:
        return ()
    return _fitting(tuple(turn.prompt.token_ids), info)


def _fitting(ids: tuple[int, ...], info: EngineInfo) -> tuple[int, ...]:
    """The ids. Raises LimitError where they leave no room for an answer."""
    limit = info.context_tokens
    if limit is not None and len(ids) >= limit:
        message = "the conversation is too long for the engine's context: shorten it or enlarge the context"
        raise LimitError(message, bound="context_tokens", limit=limit, size=len(ids))
    return ids


def _constrained(generation: Generation, turn: Turn, fmt: ChatFormat, info: EngineInfo) -> Generation:
    """``generation`` with the turn's grammar in the form that the engine takes."""
    if not turn.grammar.constrains:
        return generation
    if info.takes_masks and fmt.vocab is not None:
        turn.constraint()  # what cannot be enforced is told now and not in the middle of an answer
        return replace(generation, constraint=turn.constraint)
    if info.grammar_forms:
        spec = turn.grammar.spec(info.grammar_forms)
        return replace(generation, grammar=spec, sampling=_without_controls(generation, turn, fmt))
    if _may_go_free(turn):
        return generation
    raise UsageError(
        f"the engine of {info.model} takes neither grammars nor masks, so this request cannot be enforced; "
        "use tool_choice auto and no response_format, or another engine",
        param="tool_choice" if turn.request.answer is None else "response_format",
    )


def _may_go_free(turn: Turn) -> bool:
    """Nothing was asked for that only a constraint can give: calls are optional and no tool is strict."""
    request = turn.request
    strict = any(tool.strict for tool in request.callable_tools)
    return request.choice == "auto" and request.answer is None and not strict


def _without_controls(generation: Generation, turn: Turn, fmt: ChatFormat) -> Sampling:
    """The sampling with every special token banned that the turn has no use for.

    An engine's character classes admit control tokens, as their text, and then hide them from the output.
    """
    vocab = fmt.vocab
    if vocab is None:
        return generation.sampling
    texts = {*turn.preserved_tokens, *turn.stops, *turn.grammar.triggers}
    kept = {vocab.controls[text] for text in texts if text in vocab.controls}
    kept |= {*vocab.eos_ids, *(() if vocab.eot_id is None else (vocab.eot_id,))}
    banned = dict.fromkeys(sorted(vocab.special_ids - kept), BANNED)
    return replace(generation.sampling, logit_bias={**generation.sampling.logit_bias, **banned})


async def answer(job: Job[Reading], engine: Engine) -> AsyncGenerator[Piece, None]:
    """Deltas as they are settled, then one Ended. Closing it stops the engine. Raises EngineError."""
    async with aclosing(follow(job, engine)) as pieces:
        async for piece in pieces:
            yield piece.delta if isinstance(piece, Said) else piece


async def follow(job: Job[Reading], engine: Engine) -> AsyncGenerator[Said | Ended, None]:
    """What is said as it is settled, then one Ended. Closing it stops the engine. Raises EngineError.

    Tokens are counted by the engine; where it does not tell (the answer was ended by a stop text of the client), by
    the ids that came, a piece without ids as one.
    """
    turn, stop, repeats = job.turn, StopTexts(job.stop), Repeats()
    tally = _Tally(job)
    reason: Literal["stop", "length"] = "stop"
    async with _closed(engine.generate(job.generation)) as chunks:
        async for chunk in chunks:
            deltas = turn.feed(chunk.text) if chunk.text else []
            tally.count(chunk, deltas)
            for delta in repeats.push(stop.push(deltas)):
                yield tally.said(delta)
            reason = chunk.finish or reason
            if stop.found is not None or (turn.ended and chunk.finish is None):
                reason = "stop"  # an end of turn that no engine could know: another text may begin with it too
                break
    for delta in [*repeats.push([*stop.push(turn.finish(reason)), *stop.rest()]), *repeats.rest()]:
        yield tally.said(delta)
    # What stands behind a stop text was read and not delivered, so the turn may know of calls that nobody else does.
    finish_reason = turn.finish_reason if stop.found is None else "tool_calls" if tally.called else "stop"
    yield Ended(finish_reason, tally.usage, turn.message.problems, stop.found, job.unconstrained)


class _Tally:
    """What was used, and which tokens belong to which delta."""

    def __init__(self, job: Job[Reading]) -> None:
        self._job = job
        self._prompt = job.prompt_tokens
        self._counted = 0
        self._reasoning = 0
        self._told: int | None = None
        self._alignment = Alignment()
        self.called = False

    def count(self, chunk: Chunk, deltas: Iterable[Delta]) -> None:
        tokens = len(chunk.token_ids) or bool(chunk.text)
        self._counted += tokens
        if any(delta.reasoning_content for delta in deltas):
            self._reasoning += tokens
        if chunk.finish is not None:
            self._told = chunk.completion_tokens
            self._prompt = chunk.prompt_tokens or self._prompt
        top = self._job.generation.sampling.logprobs
        if top is not None and chunk.logprobs:
            self._alignment.push(scored(chunk.logprobs, self._job.vocab, top))

    def said(self, delta: Delta) -> Said:
        self.called = self.called or bool(delta.tool_calls)
        return Said(delta, self.usage, self._alignment.take(delta))

    @property
    def usage(self) -> Usage:
        completion = self._counted if self._told is None else self._told
        return Usage(self._prompt, completion, min(self._reasoning, completion))


@asynccontextmanager
async def _closed(chunks: AsyncIterator[Chunk]) -> AsyncIterator[AsyncIterator[Chunk]]:
    """However the block is left, the engine's iterator is closed, which stops the generation."""
    try:
        yield chunks
    finally:
        close = getattr(chunks, "aclose", None)
        if close is not None:
            await close()


class Sum:
    """Adds deltas up, so that a whole answer is the streamed one by construction."""

    def __init__(self) -> None:
        self._content: list[str] = []
        self._reasoning: list[str] = []
        self._calls: list[tuple[str, str, list[str]]] = []

    def add(self, deltas: Iterable[Delta]) -> None:
        for delta in deltas:
            self._content.append(delta.content)
            self._reasoning.append(delta.reasoning_content)
            for call in delta.tool_calls:
                if call.name is not None:
                    self._calls.append((call.id or "", call.name, []))
                self._calls[call.index][2].append(call.arguments)

    @property
    def message(self) -> Message:
        calls = tuple(ToolCall(id, name, "".join(arguments)) for id, name, arguments in self._calls)
        return Message("".join(self._content), "".join(self._reasoning), calls)
