"""Engines without a model: :class:`Scripted` writes given texts, :class:`Dice` throws dice over the mask.

Rules of this file: deterministic (a script or a seed), and honest about the Engine protocol: stops, length, ids and
cancellation behave as those of a real engine. Both keep a :class:`Record` of what was asked and how it ended.
"""

from __future__ import annotations

import asyncio
import codecs
import math
import random
from collections.abc import AsyncIterator, Callable, Collection, Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal, TypeAlias

import numpy

from dragoman.engine import Chunk, EngineInfo, Generation, Stepper, TokenLogprob
from dragoman.engines.stop_words import StopWords
from dragoman.errors import EngineError, UsageError

Answer: TypeAlias = "str | Sequence[str]"  # a text, or the pieces in which it comes
Ending: TypeAlias = Literal["stop", "length", "cancelled", "failed"]


@dataclass(slots=True)
class Record:
    """What an engine was asked, and how each answer ended. ``running``: answers that are open at this moment."""

    requests: list[Generation] = field(default_factory=list)
    endings: list[Ending] = field(default_factory=list)
    running: int = 0

    @property
    def cancelled(self) -> int:
        return self.endings.count("cancelled")


class Scripted:
    """Writes the given answers, one for each request, in order.

    answers: texts, or a function from the request to a text. A sequence of strings comes in just these pieces.
    size: characters of a piece where the answer is one string; a piece counts as one token.
    delay: seconds before each piece.  failure: raised as an EngineError after the last piece, instead of an end.
    encode: token ids of a piece, where ids are wanted.
    logprob: how likely a piece was, for requests that ask; without it each piece was certain.
    """

    def __init__(
        self,
        answers: Iterable[Answer] | Callable[[Generation], Answer],
        *,
        size: int = 4,
        delay: float = 0.0,
        failure: str | None = None,
        encode: Callable[[str], Sequence[int]] | None = None,
        logprob: Callable[[str], TokenLogprob] | None = None,
        info: EngineInfo | None = None,
    ) -> None:
        if isinstance(answers, str):
            raise UsageError("answers is a list, one text for each request; put the text into a list", param="answers")
        if size < 1:
            raise UsageError(f"size is {size}; a piece has at least one character", param="size")
        self._answers = answers if callable(answers) else _in_turn(answers)
        self._size = size
        self._delay = delay
        self._failure = failure
        self._encode = encode
        self._logprob = logprob or _certain
        self._info = info or EngineInfo(model="scripted", gives_logprobs=True)
        self.record = Record()

    async def info(self) -> EngineInfo:
        return self._info

    async def aclose(self) -> None:
        """Nothing to give back."""

    async def generate(self, request: Generation) -> AsyncIterator[Chunk]:
        answer = self._answers(request)
        pieces = _cut(answer, self._size) if isinstance(answer, str) else list(answer)
        with _Entry(self.record, request) as entry:
            hold = StopWords(request.stops)
            for count, piece in enumerate(pieces):
                if count == request.sampling.max_tokens:
                    yield entry.last(hold.rest(), "length", count)
                    return
                await asyncio.sleep(self._delay)
                text = hold.feed(piece)
                if hold.found:
                    yield entry.last(text, "stop", count + 1)
                    return
                told = request.sampling.logprobs is not None
                logprobs = (self._logprob(piece),) if told else ()
                yield Chunk(text, tuple(self._encode(piece)) if self._encode else (), logprobs=logprobs)
            if self._failure is not None:
                raise EngineError(self._failure)
            yield entry.last(hold.rest(), "stop", len(pieces))


class Dice:
    """Writes any text that the request's mask allows, at random from a seed.

    token_bytes: the bytes of a token id.  size: tokens of the vocabulary.  stop_ids: tokens that end a turn.
    stop_chance: how likely a turn ends where it may end.  All allowed tokens are equally likely, but for the
    request's logit_bias.
    """

    def __init__(
        self,
        token_bytes: Callable[[int], bytes],
        size: int,
        *,
        seed: int = 0,
        stop_ids: Collection[int] = (),
        stop_chance: float = 0.2,
        delay: float = 0.0,
    ) -> None:
        self._token_bytes = token_bytes
        self._size = size
        self._seed = seed
        self._stop_ids = frozenset(stop_ids)
        self._stop_chance = stop_chance
        self._delay = delay
        self.record = Record()

    async def info(self) -> EngineInfo:
        return EngineInfo(model="dice", takes_masks=True)

    async def aclose(self) -> None:
        """Nothing to give back."""

    async def generate(self, request: Generation) -> AsyncIterator[Chunk]:
        """Raises EngineError at a dead end: no token is allowed and the turn may not end."""
        if request.grammar is not None and request.constraint is None:
            raise EngineError("this engine takes masks, not grammars: give the request a constraint")
        seed = request.sampling.seed if request.sampling.seed is not None else self._seed
        throw = random.Random(seed)
        stepper = request.constraint() if request.constraint else None
        decoder = codecs.getincrementaldecoder("utf-8")("replace")
        hold = StopWords(request.stops)
        count = 0
        with _Entry(self.record, request) as entry:
            while count != request.sampling.max_tokens:
                await asyncio.sleep(self._delay)
                token = self._pick(request, stepper, throw)
                if token is None or token in self._stop_ids:
                    yield entry.last(hold.feed(decoder.decode(b"", True)) + hold.rest(), "stop", count)
                    return
                if stepper is not None and not stepper.accept(token):
                    raise EngineError(f"the mask allows token {token}, but the constraint does not accept it")
                count += 1
                text = hold.feed(decoder.decode(self._token_bytes(token)))
                if hold.found:
                    yield entry.last(text, "stop", count)
                    return
                yield Chunk(text, (token,))
            yield entry.last(hold.feed(decoder.decode(b"", True)) + hold.rest(), "length", count)

    def _pick(self, request: Generation, stepper: Stepper | None, throw: random.Random) -> int | None:
        """A token that the mask allows; None: the turn ends here."""
        may_stop = stepper is None or stepper.can_stop
        if may_stop and throw.random() < self._stop_chance:
            return None
        weights = self._weights(request, stepper)
        if not may_stop:
            weights[list(self._stop_ids)] = 0.0
        allowed = [int(token) for token in numpy.flatnonzero(weights)]
        if not allowed:
            if may_stop:
                return None
            raise EngineError("dead end: the mask allows no token, and the turn may not end here")
        return throw.choices(allowed, [float(weights[token]) for token in allowed])[0]

    def _weights(self, request: Generation, stepper: Stepper | None) -> numpy.ndarray[Any, numpy.dtype[numpy.float64]]:
        """float64[vocabulary]: how likely each token is, up to a factor; 0 where the mask or the bias forbids it."""
        weights: numpy.ndarray[Any, numpy.dtype[numpy.float64]] = numpy.ones(self._size)
        if stepper is not None:
            row = numpy.zeros((self._size + 31) // 32, dtype=numpy.int32)
            stepper.fill(row)
            bits = numpy.unpackbits(row.astype("<i4").view(numpy.uint8), bitorder="little")
            weights = bits[: self._size].astype(numpy.float64)
        for token, added in request.sampling.logit_bias.items():
            weights[token] *= math.exp(added)
        return weights


class _Entry:
    """One answer in the record: how it ended is noted when it is left, cancelled unless it came to an end."""

    def __init__(self, record: Record, request: Generation) -> None:
        self._record = record
        self._request = request
        self._ending: Ending = "cancelled"

    def __enter__(self) -> _Entry:
        self._record.requests.append(self._request)
        self._record.running += 1
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: object) -> None:
        self._record.running -= 1
        failed = error is not None and isinstance(error, Exception)
        self._record.endings.append("failed" if failed else self._ending)

    def last(self, text: str, reason: Literal["stop", "length"], written: int) -> Chunk:
        """The last piece. Whoever leaves after it has not cancelled anything."""
        self._ending = reason
        return Chunk(text, finish=reason, prompt_tokens=len(self._request.prompt_ids), completion_tokens=written)


def _certain(piece: str) -> TokenLogprob:
    alone = TokenLogprob(0.0, data=piece.encode())
    return replace(alone, top=(alone,))


def _cut(text: str, size: int) -> list[str]:
    return [text[at : at + size] for at in range(0, len(text), size)]


def _in_turn(answers: Iterable[Answer]) -> Callable[[Generation], Answer]:
    waiting = iter(answers)

    def following(_: Generation) -> Answer:
        try:
            return next(waiting)
        except StopIteration:
            raise EngineError("the script has no more answers") from None

    return following
