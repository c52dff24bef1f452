"""llama-server under our own masks: one token a request, chosen here among those that the mask allows.

The server tells the likeliest tokens of the next place (``n_probs``); the best of them that are allowed are sampled as
llama.cpp samples. Only where none of them is allowed more are asked for, at last the whole vocabulary. What is forced
costs no request: canonical tokens are put behind the prompt, which the server reads in one batch.
This is for what GBNF cannot say or llama.cpp cannot bear (control tokens told from their text, bounds above its limit
of repetitions, grammars that slow its parser down); its grammar is cheaper where it will do.
"""

from __future__ import annotations

import asyncio
import codecs
import math
import random
from collections.abc import AsyncGenerator, AsyncIterator, Mapping
from contextlib import aclosing
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from dragoman.constraint.cursor import Cursor
from dragoman.engine import Chunk, EngineInfo, FinishReason, Generation, Sampling, TokenLogprob
from dragoman.engines.http import read_event
from dragoman.engines.llama_server import LlamaServer
from dragoman.engines.stop_words import StopWords
from dragoman.errors import EngineError, UsageError
from dragoman.vocab import Vocabulary

if TYPE_CHECKING:
    from dragoman.engines.embedded import Embedded

# How many of the likeliest tokens are asked for at first, and then.
CANDIDATES = (40, 1_000)


class SteppedLlamaServer:
    """The Engine protocol over a llama-server, for requests with a constraint; others go to it as they are.

    server: the adapter or the embedded engine; closed with this object. vocab: the vocabulary of the server's model.
    candidates: see :data:`CANDIDATES`. The server's own further samplers (``Sampling.extra``) have no say in
    constrained answers: they are not asked.
    """

    def __init__(
        self, server: LlamaServer | Embedded, vocab: Vocabulary, *, candidates: tuple[int, ...] = CANDIDATES
    ) -> None:
        if not candidates or any(type(count) is not int or count < 1 for count in candidates):
            raise UsageError(f"candidates are counts of tokens, not {candidates!r}", param="candidates")
        self._owner = server
        self._server = server if isinstance(server, LlamaServer) else server.client
        self._vocab = vocab
        self._candidates = (*sorted(count for count in candidates if count < vocab.size), vocab.size)

    async def info(self) -> EngineInfo:
        return replace(await self._server.info(), takes_masks=True)

    async def aclose(self) -> None:
        await self._owner.aclose()

    def generate(self, request: Generation) -> AsyncIterator[Chunk]:
        """Pieces of a token, or of some that were forced. Closing the iterator stops within a token.

        Raises EngineError when the server refuses, fails or goes away, and where the mask allows nothing though the
        turn may not end.
        """
        if request.constraint is None:
            return self._server.generate(request)
        stepper = request.constraint()
        if not isinstance(stepper, Cursor):
            raise UsageError(f"a constraint is wanted, not {type(stepper).__name__}", param="constraint")
        return self._steps(request, stepper)

    async def _steps(self, request: Generation, cursor: Cursor) -> AsyncGenerator[Chunk, None]:
        output = _Output(request, self._vocab)
        sampler = _Sampler(request.sampling)
        room = await self._room(request)
        while len(output.ids) < room:
            jump = [] if request.sampling.logprobs is not None else cursor.forced_tokens(self._vocab.encode)
            jump = jump[: room - len(output.ids)]
            if jump:
                for forced in jump:
                    _accepted(cursor, forced)
                yield Chunk(output.add(jump), tuple(jump))
                if output.stopped:
                    break
                continue
            cursor.prefetch()  # made while the server computes
            token, logprobs = await self._next((*request.prompt_ids, *output.ids), cursor, sampler)
            if token is None:
                break
            _accepted(cursor, token)
            sampler.count(token)
            if cursor.ended:
                output.ended = True
                break
            yield Chunk(output.add([token]), (token,), logprobs=logprobs)
            if output.stopped:
                break
        else:
            yield output.last("length")
            return
        yield output.last("stop")

    async def _room(self, request: Generation) -> int:
        """How many tokens may be written: as asked for, and no more than the context holds."""
        wanted = request.sampling.max_tokens
        context = (await self._server.info()).context_tokens
        if context is None or len(request.prompt_ids) >= context:  # the server tells what is wrong
            return 1 << 30 if wanted is None else wanted
        free = context - len(request.prompt_ids)
        return free if wanted is None else min(wanted, free)

    async def _next(
        self, ids: tuple[int, ...], cursor: Cursor, sampler: _Sampler
    ) -> tuple[int | None, tuple[TokenLogprob, ...]]:
        """(the next token, None at the end of all; how likely it was)."""
        row = np.zeros(cursor.words, np.uint32)
        asked: list[TokenLogprob] = []
        filled = False
        for count in self._candidates:
            if asked and count <= len(asked):
                continue
            asked = await self._likeliest(ids, max(count, sampler.least))
            if not filled:
                # A first mask may take a while; the event loop has other turns to serve.
                await asyncio.to_thread(cursor.fill, row)
                filled = True
                if not row.any():
                    if cursor.can_stop:
                        return None, ()
                    raise EngineError("dead end: the mask allows no token, and the turn may not end here")
            known = {entry.token_id or 0: entry for entry in asked if _is_in(row, entry.token_id or 0)}
            token = sampler.pick({number: entry.logprob for number, entry in known.items()})
            if token is not None:
                told = () if sampler.told is None else (replace(known[token], top=tuple(asked[: sampler.told])),)
                return token, told
        raise EngineError("the server told no token that the mask allows: is the vocabulary that of its model?")

    async def _likeliest(self, ids: tuple[int, ...], count: int) -> list[TokenLogprob]:
        """The ``count`` likeliest tokens behind ``ids``, best first."""
        body = {"prompt": list(ids), "n_predict": 1, "n_probs": count, "cache_prompt": True, "stream": True}
        async with aclosing(self._server.events("/completion", {**body, "temperature": 0.0})) as events:
            async for data in events:
                for place in read_event(data).get("completion_probabilities") or ():
                    return [_told(entry) for entry in place["top_logprobs"]]
        raise EngineError(f"{self._server.base_url} told no probabilities: does it know n_probs?")


def _told(entry: Mapping[str, Any]) -> TokenLogprob:
    data = entry.get("bytes")
    return TokenLogprob(float(entry["logprob"]), int(entry["id"]), None if data is None else bytes(data))


def _is_in(row: npt.NDArray[np.uint32], token: int) -> bool:
    return token // 32 < len(row) and bool(int(row[token // 32]) >> token % 32 & 1)


def _accepted(cursor: Cursor, token: int) -> None:
    if not cursor.accept(token):
        raise EngineError(f"the mask allows token {token}, but the constraint does not accept it")


class _Output:
    """What was written: ids, and their text as far as its characters are whole."""

    def __init__(self, request: Generation, vocab: Vocabulary) -> None:
        self.ids: list[int] = []
        self.ended = False
        self._prompt = len(request.prompt_ids)
        self._vocab = vocab
        self._shown = {vocab.controls[text] for text in request.preserved_tokens if text in vocab.controls}
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self._hold = StopWords(request.stops)

    @property
    def stopped(self) -> bool:
        """True: a stop text was written."""
        return self._hold.found

    def add(self, tokens: list[int]) -> str:
        """The text to show for ``tokens``."""
        out = ""
        for token in tokens:
            self.ids.append(token)
            if self._vocab.is_control(token):
                text = self._vocab.text_of(token) if token in self._shown else ""
                text = self._decoder.decode(b"", True) + text
            else:
                text = self._decoder.decode(self._vocab.bytes_of(token) or b"")
            out += self._hold.feed(text) if not self.stopped else ""
        return out

    def last(self, reason: FinishReason) -> Chunk:
        text = "" if self.stopped else self._hold.feed(self._decoder.decode(b"", True))
        text += "" if self.stopped else self._hold.rest()
        written = len(self.ids) + self.ended
        return Chunk(text, finish=reason, prompt_tokens=self._prompt, completion_tokens=written)


class _Sampler:
    """llama.cpp's usual chain over the tokens that are allowed: bias, penalties, top-k, top-p, min-p, temperature.

    told: of how many of the likeliest tokens the caller wants to hear; None: of none.
    """

    def __init__(self, settings: Sampling) -> None:
        self.told = settings.logprobs
        self._bias = settings.logit_bias
        self._presence, self._frequency = settings.presence_penalty or 0.0, settings.frequency_penalty or 0.0
        # llama.cpp's own settings where a request names none.
        self._temperature = 0.8 if settings.temperature is None else settings.temperature
        self._top_k = 40 if settings.top_k is None else settings.top_k
        self._top_p = 0.95 if settings.top_p is None else settings.top_p
        self._min_p = 0.05 if settings.min_p is None else settings.min_p
        self._random = random.Random(settings.seed)
        self._counts: dict[int, int] = {}

    @property
    def least(self) -> int:
        """How many tokens must be asked for."""
        return max(1, self.told or 0, 0 if self._temperature <= 0 else self._top_k)

    def count(self, token: int) -> None:
        self._counts[token] = self._counts.get(token, 0) + 1

    def pick(self, logprobs: Mapping[int, float]) -> int | None:
        """One of these tokens; None where none of them may be written."""
        scores = [(score, token) for token, raw in logprobs.items() if (score := self._score(token, raw)) > -math.inf]
        scores.sort(key=lambda item: (-item[0], item[1]))
        if not scores:
            return None
        if self._temperature <= 0:
            return scores[0][1]
        if self._top_k > 0:
            scores = scores[: self._top_k]
        best = scores[0][0]
        weights = [math.exp(score - best) for score, _ in scores]
        enough, kept, mass = self._top_p * sum(weights), 0, 0.0
        for weight in weights:
            if kept and (mass >= enough or weight < self._min_p):
                break
            mass += weight
            kept += 1
        heat = [math.exp((score - best) / self._temperature) for score, _ in scores[:kept]]
        return self._random.choices([token for _, token in scores[:kept]], heat)[0]

    def _score(self, token: int, logprob: float) -> float:
        seen = self._counts.get(token, 0)
        return logprob + self._bias.get(token, 0.0) - seen * self._frequency - bool(seen) * self._presence
