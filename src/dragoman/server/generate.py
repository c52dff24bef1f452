"""From a checked request to an answer: what the engine is asked, and what its output is read as.

prepare   turn, prompt ids, grammar: heavy, so it runs outside of the event loop
answer    the engine's pieces as deltas, and at the end why and at what price
"""

from __future__ import annotations

import datetime
from collections.abc import AsyncGenerator, AsyncIterator, Iterable
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from typing import Literal, TypeAlias

from dragoman.chat import Delta, Message, Problem, ToolCall
from dragoman.engine import NO_SETTINGS, Chunk, Engine, EngineInfo, Generation, ModelSettings, Sampling
from dragoman.errors import LimitError, SchemaError, UsageError
from dragoman.format import ChatFormat
from dragoman.server.repeats import Repeats
from dragoman.server.stop_texts import StopTexts
from dragoman.server.wire import ChatRequest, Usage
from dragoman.turn import Turn

BANNED = float("-inf")


@dataclass(frozen=True, slots=True)
class Job:
    """One request, ready for the engine. unconstrained: why the tools' schemas are not enforced, if they are not."""

    turn: Turn
    generation: Generation
    stop: tuple[str, ...] = ()
    unconstrained: str | None = None


@dataclass(frozen=True, slots=True)
class Ended:
    """How an answer ended; comes once, last."""

    finish_reason: Literal["stop", "length", "tool_calls"]
    usage: Usage
    problems: tuple[Problem, ...] = ()


Piece: TypeAlias = Delta | Ended


def make_turn(
    fmt: ChatFormat,
    request: ChatRequest,
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
    request: ChatRequest,
    info: EngineInfo,
    settings: ModelSettings = NO_SETTINGS,
    *,
    now: datetime.datetime | None = None,
    id_seed: str | None = None,
) -> Job:
    """What the engine is asked. Raises UsageError, TemplateError, LimitError, SchemaError."""
    turn = make_turn(fmt, request, settings, now=now, id_seed=id_seed)
    _ = turn.reader  # compiled here, not in the middle of the event loop's work
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
    return Job(turn, generation, request.stop, unconstrained)


def _prompt_ids(turn: Turn, fmt: ChatFormat, info: EngineInfo) -> tuple[int, ...]:
    if fmt.vocab is None and not info.takes_token_ids:
        return ()
    ids = tuple(turn.prompt.token_ids)
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


async def answer(job: Job, engine: Engine) -> AsyncGenerator[Piece, None]:
    """Deltas as they are settled, then one Ended. Closing it stops the engine. Raises EngineError.

    Tokens are counted by the engine; where it does not tell (the answer was ended by a stop text of the client), by
    the ids that came, a piece without ids as one.
    """
    turn, stop, repeats = job.turn, StopTexts(job.stop), Repeats()
    reason: Literal["stop", "length"] = "stop"
    prompt_tokens, counted, told = len(job.generation.prompt_ids), 0, None
    called = False
    async with _closed(engine.generate(job.generation)) as pieces:
        async for piece in pieces:
            counted += len(piece.token_ids) or bool(piece.text)
            for delta in repeats.push(stop.push(turn.feed(piece.text) if piece.text else ())):
                called = called or bool(delta.tool_calls)
                yield delta
            if piece.finish is not None:
                reason, told = piece.finish, piece.completion_tokens
                prompt_tokens = piece.prompt_tokens or prompt_tokens
            if stop.found:
                reason = "stop"
                break
    for delta in [*repeats.push([*stop.push(turn.finish(reason)), *stop.rest()]), *repeats.rest()]:
        called = called or bool(delta.tool_calls)
        yield delta
    # What stands behind a stop text was read and not delivered, so the turn may know of calls that nobody else does.
    finish_reason = turn.finish_reason if not stop.found else "tool_calls" if called else "stop"
    yield Ended(finish_reason, Usage(prompt_tokens, counted if told is None else told), turn.message.problems)


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
