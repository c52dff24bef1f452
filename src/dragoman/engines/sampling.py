"""Choosing the next token from logits: bias, mask, penalties, temperature, the usual cuts, a seeded throw.

Rules of this file: nothing happens that the request did not ask for; the order is that of transformers and llama.cpp
(bias and penalties, then the mask, temperature, top-k, top-p, min-p).
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from typing import Any

from dragoman.engine import Sampling
from dragoman.errors import UsageError

# What this sampler knows beside Sampling's own fields, under the names that transformers and vLLM use.
EXTRA = frozenset(("repetition_penalty",))


class Sampler:
    """One answer's choices. ``torch``: the module, which only its users import."""

    def __init__(self, torch: Any, sampling: Sampling) -> None:
        """Raises UsageError for what it does not know or cannot do."""
        unknown = sorted(sampling.extra.keys() - EXTRA)
        if unknown:
            raise UsageError(f"a model in this process takes no {', '.join(unknown)}", param=unknown[0])
        for token, added in sampling.logit_bias.items():
            if math.isnan(added) or added == math.inf:
                message = f"logit_bias of token {token} is {added}; a finite number or -inf is wanted"
                raise UsageError(message, param="logit_bias")
        self._torch = torch
        self._sampling = sampling
        self._throw = torch.Generator()
        if sampling.seed is None:
            self._throw.seed()
        else:
            self._throw.manual_seed(sampling.seed % (1 << 63))

    def pick(self, logits: Any, allowed: Any | None, written: Sequence[int]) -> int | None:
        """A token; None: nothing is allowed.

        logits: float32[vocabulary]; allowed: bool[vocabulary], None: all; written: the answer's tokens so far.
        """
        torch, sampling = self._torch, self._sampling
        scores = self._adjusted(logits.clone(), written)
        if allowed is not None:
            scores.masked_fill_(~allowed, -math.inf)
        if not bool(torch.isfinite(scores).any()):
            return None
        temperature = 1.0 if sampling.temperature is None else sampling.temperature
        if temperature == 0.0:
            return int(scores.argmax())
        chances = torch.softmax(self._cut_to_k(scores / temperature), dim=-1)
        chances = self._cut_to_p(chances)
        if sampling.min_p:
            chances.masked_fill_(chances < sampling.min_p * chances.max(), 0.0)
        return int(torch.multinomial(chances, 1, generator=self._throw))

    def told(self, logits: Any, token: int) -> tuple[tuple[int, float], list[tuple[int, float]]]:
        """(token, logarithm of its chance before mask and cuts), and the same of the likeliest ones."""
        torch = self._torch
        chances = torch.log_softmax(logits, dim=-1)
        best = torch.topk(chances, min(self._sampling.logprobs or 0, len(chances)))
        top = [(int(t), float(value)) for value, t in zip(best.values, best.indices, strict=True)]
        return (token, float(chances[token])), top

    def _adjusted(self, scores: Any, written: Sequence[int]) -> Any:
        sampling, torch = self._sampling, self._torch
        for token, added in sampling.logit_bias.items():
            if 0 <= token < len(scores):
                scores[token] += added
        presence, frequency = sampling.presence_penalty or 0.0, sampling.frequency_penalty or 0.0
        repetition = float(sampling.extra.get("repetition_penalty", 1.0))
        if written and (presence or frequency or repetition != 1.0):
            counts = Counter(written)
            ids = torch.tensor(list(counts))
            times = torch.tensor(list(counts.values()), dtype=scores.dtype)
            seen = scores[ids]
            seen = torch.where(seen > 0, seen / repetition, seen * repetition)
            scores[ids] = seen - presence - frequency * times
        return scores

    def _cut_to_k(self, scores: Any) -> Any:
        k = self._sampling.top_k
        if k is None or k <= 0 or k >= len(scores):
            return scores
        least = self._torch.topk(scores, k).values[-1]
        return scores.masked_fill(scores < least, -math.inf)

    def _cut_to_p(self, chances: Any) -> Any:
        p = self._sampling.top_p
        if p is None or p >= 1.0:
            return chances
        ordered, ids = self._torch.sort(chances, descending=True)
        # The one that reaches p belongs to the nucleus, so at least one does.
        beyond = self._torch.cumsum(ordered, dim=-1) - ordered >= max(p, 1e-9)
        return chances.index_fill(0, ids[beyond], 0.0)
