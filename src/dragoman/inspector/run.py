"""A turn watched while a model writes it: what the mask allows at each token, which were likeliest, what settles."""

from __future__ import annotations

import math
from collections.abc import AsyncGenerator
from contextlib import aclosing
from dataclasses import replace
from typing import Any

import numpy

from dragoman.constraint.constraint import Constraint
from dragoman.engine import Chunk, Engine, EngineInfo, FinishReason, Generation, TokenLogprob
from dragoman.errors import DragomanError
from dragoman.inspector.shown import prompt_shown
from dragoman.inspector.watch import fed, finished
from dragoman.turn import Turn
from dragoman.vocab import Vocabulary

_LIKELIEST = 5


async def run_steps(
    turn: Turn, generation: Generation, engine: Engine, info: EngineInfo
) -> AsyncGenerator[dict[str, Any], None]:
    """What is asked, then a step for each piece that the engine gives, then the end. Closing it stops the engine.

    The first item is {"prompt": as of ``prompt_shown``, "enforced": how, "unwatched": why no mask is known}; a step is
    one of :mod:`dragoman.inspector.watch` with "tokens": as of :meth:`_Masks.step`; the last one says "unwatched" too.
    Raises EngineError.
    """
    masks = _Masks(turn)
    yield {"prompt": prompt_shown(turn), "enforced": _enforced(generation), "unwatched": masks.why}
    if info.gives_logprobs:
        generation = replace(generation, sampling=replace(generation.sampling, logprobs=_LIKELIEST))
    reason: FinishReason = "stop"
    async with aclosing(_closable(engine, generation)) as chunks:
        async for chunk in chunks:
            tokens = masks.step(chunk)
            if chunk.text or tokens:
                yield {**fed(turn, chunk.text, chunk.text), "tokens": tokens}
            reason = chunk.finish or reason
    yield {**finished(turn, reason), "unwatched": masks.why}


async def _closable(engine: Engine, generation: Generation) -> AsyncGenerator[Chunk, None]:
    """The engine's pieces; its iterator is closed however this one is left."""
    chunks = engine.generate(generation)
    try:
        async for chunk in chunks:
            yield chunk
    finally:
        close = getattr(chunks, "aclose", None)
        if close is not None:
            await close()


def _enforced(generation: Generation) -> str | None:
    """How the engine keeps to the grammar: by our masks, or by its own in which notation; None: it does not."""
    if generation.constraint is not None:
        return "masks"
    spec = generation.grammar
    if spec is None:
        return None
    return f"{spec.form}, from a trigger on" if spec.lazy else spec.form


class _Masks:
    """The constraint, followed token by token. ``why``: what keeps it from being known, None: nothing so far."""

    def __init__(self, turn: Turn) -> None:
        self._vocab: Vocabulary | None = turn.format.vocab
        self._constraint: Constraint | None = None
        self.why: str | None = None
        if self._vocab is None:
            self.why = "the vocabulary is not known"
            return
        try:
            self._constraint = turn.constraint(self._vocab)
        except DragomanError as error:
            self.why = str(error)
        self._row = numpy.zeros((self._vocab.size + 31) // 32, dtype=numpy.uint32)

    def step(self, chunk: Chunk) -> list[dict[str, Any]]:
        """One entry for each token of ``chunk``, before it is accepted.

        {"id", "text", "allowed": whether the mask has it, "count": tokens that it has, "of": the vocabulary's size,
        "probability", "likeliest": [{"text", "probability", "allowed"}]}; null for what is not known.
        """
        scores = chunk.logprobs
        ids: list[int | None] = list(chunk.token_ids) or [score.token_id for score in scores]
        if (not ids or None in ids) and chunk.text and self._vocab is not None:
            ids = list(self._vocab.encode(chunk.text))  # the engine does not tell; the usual way to write the text
        matched = scores if len(scores) == len(ids) else [None] * len(ids)
        return [self._token(token, score) for token, score in zip(ids, matched, strict=True)]

    def _token(self, token: int | None, score: TokenLogprob | None) -> dict[str, Any]:
        count = self._fill()
        shown = {
            "id": token,
            "text": self._text(token, score),
            "allowed": self._has(token, count),
            "count": count,
            "of": None if self._vocab is None else self._vocab.size,
            "probability": None if score is None else math.exp(score.logprob),
            "likeliest": [self._candidate(each, count) for each in score.top] if score is not None else [],
        }
        if self._constraint is not None and (token is None or not self._constraint.accept(token)):
            self._constraint = None
            self.why = "the model wrote what the grammar does not allow"
        return shown

    def _candidate(self, score: TokenLogprob, count: int | None) -> dict[str, Any]:
        return {
            "text": self._text(score.token_id, score),
            "probability": math.exp(score.logprob),
            "allowed": self._has(score.token_id, count),
        }

    def _fill(self) -> int | None:
        """The mask of this place into the row; how many tokens it has."""
        if self._constraint is None:
            return None
        try:
            self._constraint.fill(self._row)
        except DragomanError as error:
            self._constraint, self.why = None, str(error)
            return None
        return int(numpy.bitwise_count(self._row).sum())

    def _has(self, token: int | None, count: int | None) -> bool | None:
        if count is None or token is None or self._vocab is None or not 0 <= token < self._vocab.size:
            return None
        return bool(self._row[token // 32] >> numpy.uint32(token % 32) & numpy.uint32(1))

    def _text(self, token: int | None, score: TokenLogprob | None) -> str:
        if self._vocab is not None and token is not None and 0 <= token < self._vocab.size:
            return self._vocab.decode([token]).decode("utf-8", "backslashreplace")
        return (score.data or b"").decode("utf-8", "backslashreplace") if score is not None else ""
