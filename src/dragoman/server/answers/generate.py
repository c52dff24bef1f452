"""An engine's output as an answer: pieces as deltas, and at the end why and at what price. Knows no protocol."""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator, Callable, Iterable
from contextlib import aclosing, asynccontextmanager
from functools import partial
from typing import Literal, TypeVar

import anyio.to_thread

from dragoman.chat import Delta, Problem
from dragoman.engine import Chunk, Engine, FinishReason
from dragoman.errors import OutputError
from dragoman.server.answers.begun_calls import BegunCalls
from dragoman.server.answers.jobs import Ended, Job, Piece, Said, Usage
from dragoman.server.answers.likelihood import Alignment, scored
from dragoman.server.answers.reading import Reading
from dragoman.server.answers.repeats import Repeats
from dragoman.server.answers.stop_texts import StopTexts

A = TypeVar("A")


async def answer(job: Job[Reading], engine: Engine) -> AsyncGenerator[Piece, None]:
    """Deltas as they are settled, then one Ended. Closing it stops the engine. Raises EngineError."""
    async with aclosing(follow(job, engine)) as pieces:
        async for piece in pieces:
            yield piece.delta if isinstance(piece, Said) else piece


async def follow(job: Job[Reading], engine: Engine) -> AsyncGenerator[Said | Ended, None]:
    """What is said as it is settled, then one Ended. Closing it stops the engine. Raises EngineError.

    Tokens are counted by the engine; where it does not tell (the answer was ended by a stop text of the client), by
    the ids that came, a piece without ids as one. Where the budget of reasoning is spent, the engine is stopped and
    goes on behind a prompt that holds the reasoning and its end; what it thinks there is beyond the budget too.
    """
    stop, calls, repeats, tally = StopTexts(job.stop), BegunCalls(), Repeats(), _Tally(job)
    problems: list[Problem] = []
    while True:
        turn, budget, spent = job.turn, job.budget, False
        reason: FinishReason = "stop"
        async with _closed(engine.generate(job.generation)) as chunks:
            async for chunk in chunks:
                deltas, broken = _read(turn.feed, chunk.text)
                tally.count(chunk, deltas)
                for delta in repeats.push(calls.push(stop.push(_shown(job, deltas)))):
                    yield tally.said(delta)
                _check(broken, stop)
                problems += _noticed(job, chunk, stop, tally.position)
                reason = chunk.finish or reason
                if stop.found is not None or (turn.ended and chunk.finish is None):
                    reason = "stop"  # an end of turn that no engine could know: another text may begin with it too
                    break
                if budget is not None and chunk.finish is None and tally.thought >= budget.tokens:
                    spent = budget.inside()
                    if spent:
                        break
        if budget is None or not spent:
            break
        if budget.go_on is None:
            reason = "length"
            told = "the budget of reasoning is spent, and the model thinks on behind each end of it: given up"
            problems.append(Problem("reasoning_budget", told, tally.position))
            break
        # What a marker might have been is dropped with the marker: the prompt writes the end of the reasoning now.
        problems += turn.message.problems
        go_on = partial(budget.go_on, turn.message.reasoning_content, tally.completion)
        tally.go_on()
        job = await anyio.to_thread.run_sync(go_on)
    deltas, broken = _read(turn.finish, reason)
    last = calls.finish([*stop.push(_shown(job, deltas)), *stop.rest()])
    _check(broken, stop)
    for delta in [*repeats.push(last), *repeats.rest()]:
        yield tally.said(delta)
    if job.unasked is not None and stop.found is None:
        problems += job.unasked.finish(reason, tally.position)
    problems += turn.message.problems
    told = "the call of {!r} ended in front of its arguments, so it is not told"
    problems += [Problem("untold_call", told.format(name), tally.position) for name in calls.untold]
    finish_reason = _finish_reason(turn, stop, called=tally.called)
    scores = (tally.unscored, tally.unscored_calls)
    yield Ended(finish_reason, tally.usage, tuple(problems), stop.found, job.unconstrained, *scores)


def _finish_reason(turn: Reading, stop: StopTexts, *, called: bool) -> FinishReason | Literal["tool_calls"]:
    """The turn may know of calls that nobody else does: they stand behind a stop text, or never came to arguments."""
    if stop.found is not None or turn.finish_reason == "tool_calls":
        return "tool_calls" if called else "stop"
    return turn.finish_reason


def _noticed(job: Job[Reading], chunk: Chunk, stop: StopTexts, position: int) -> list[Problem]:
    """What is to be told of a piece that ends at ``position``, beyond what the turn sees. Raises OutputError."""
    out: list[Problem] = []
    if job.unasked is not None and stop.found is None:
        out += job.unasked.push(chunk.text, position)
    if chunk.unknown_end is not None:
        told = f"the engine ended the answer by a word that nobody knows here: {chunk.unknown_end!r}"
        out.append(Problem("unknown_finish", told, position))
    return out


def _read(read: Callable[[A], list[Delta]], piece: A) -> tuple[list[Delta], OutputError | None]:
    """The deltas of a piece, and where strict reading found it broken the error behind them."""
    try:
        return (read(piece) if piece else []), None
    except OutputError as error:
        return [*error.deltas], error


def _check(broken: OutputError | None, stop: StopTexts) -> None:
    """Raises the error, unless the answer was over by then: by a stop text of the client."""
    if broken is not None and stop.found is None:
        raise broken


def _shown(job: Job[Reading], deltas: list[Delta]) -> list[Delta]:
    """The deltas without those of the reasoning, where the answer is not to show it."""
    return deltas if job.tell_reasoning else [delta for delta in deltas if not delta.reasoning_content]


class _Tally:
    """What was used, and which tokens belong to which delta."""

    def __init__(self, job: Job[Reading]) -> None:
        self._job = job
        self._prompt = job.prompt_tokens
        self._before = 0  # tokens of what was written before the budget of reasoning was spent
        self._counted = 0
        self.position = 0  # bytes of output that came, of the generation that goes on
        self.thought = 0
        self._told: int | None = None
        self._alignment = Alignment()
        self.called = False
        self._scored = False

    def count(self, chunk: Chunk, deltas: Iterable[Delta]) -> None:
        tokens = len(chunk.token_ids) or bool(chunk.text)
        self._counted += tokens
        self.position += len(chunk.text.encode("utf-8", "replace"))
        if any(delta.reasoning_content for delta in deltas):
            self.thought += tokens
        if chunk.finish is not None:
            self._told = chunk.completion_tokens
            if not self._before:
                self._prompt = chunk.prompt_tokens or self._prompt
        top = self._job.generation.sampling.logprobs
        if top is not None and chunk.logprobs:
            self._scored = True
            self._alignment.push(scored(chunk.logprobs, self._job.vocab, top))

    def said(self, delta: Delta) -> Said:
        self.called = self.called or bool(delta.tool_calls)
        return Said(delta, self.usage, self._alignment.take(delta))

    def go_on(self) -> None:
        """Another generation goes on with the answer."""
        self._before, self._counted, self._told = self.completion, 0, None
        self.position = 0

    @property
    def unscored(self) -> bool:
        """Log probabilities were wanted, and there were tokens, of which the engine told none."""
        return self._wanted and not self._scored and self.completion > 0

    @property
    def unscored_calls(self) -> bool:
        return self._wanted and self.called

    @property
    def _wanted(self) -> bool:
        return self._job.generation.sampling.logprobs is not None

    @property
    def completion(self) -> int:
        return self._before + (self._counted if self._told is None else self._told)

    @property
    def usage(self) -> Usage:
        return Usage(self._prompt, self.completion, min(self.thought, self.completion))


@asynccontextmanager
async def _closed(chunks: AsyncIterator[Chunk]) -> AsyncIterator[AsyncIterator[Chunk]]:
    """However the block is left, the engine's iterator is closed, which stops the generation."""
    try:
        yield chunks
    finally:
        close = getattr(chunks, "aclose", None)
        if close is not None:
            await close()
