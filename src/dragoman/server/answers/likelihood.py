"""Log probabilities of the answer's own text: which of an engine's tokens a delta of content is made of.

Deltas come when they are settled, tokens when they are written; markers, reasoning and calls lie between. Content is
found again in the bytes that no delta has taken yet.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from dragoman.chat import Delta
from dragoman.engine import TokenLogprob
from dragoman.vocab import Vocabulary


@dataclass(frozen=True, slots=True)
class Scored:
    """A token with its bytes and its logarithm of probability; ``top``: (bytes, logarithm) of the likeliest ones."""

    data: bytes
    logprob: float
    top: tuple[tuple[bytes, float], ...] = ()

    def to_dict(self) -> dict[str, Any]:
        """The shape of chat completions."""
        top = [_told(data, logprob) for data, logprob in self.top]
        return {**_told(self.data, self.logprob), "top_logprobs": top}


def _told(data: bytes, logprob: float) -> dict[str, Any]:
    return {"token": data.decode("utf-8", "replace"), "logprob": logprob, "bytes": list(data)}


def scored(tokens: Sequence[TokenLogprob], vocab: Vocabulary | None, top: int) -> tuple[Scored, ...]:
    """The tokens as clients see them, with at most ``top`` others each."""
    return tuple(
        Scored(_bytes(token, vocab), token.logprob, tuple((_bytes(t, vocab), t.logprob) for t in token.top[:top]))
        for token in tokens
    )


def _bytes(token: TokenLogprob, vocab: Vocabulary | None) -> bytes:
    """The bytes that the engine tells, else the vocabulary's; control tokens as their text."""
    if token.data is not None:
        return token.data
    if vocab is None or token.token_id is None or not 0 <= token.token_id < vocab.size:
        return b""
    return vocab.decode([token.token_id])


class Alignment:
    """Tokens in, deltas in; for each delta of content its tokens. Reasoning and calls take theirs along."""

    def __init__(self) -> None:
        self._waiting: list[Scored] = []
        self._used = 0  # bytes of the first waiting token that a delta has taken
        self._given = False  # that token was told

    def push(self, tokens: Iterable[Scored]) -> None:
        self._waiting += tokens

    def take(self, delta: Delta) -> tuple[Scored, ...]:
        """The tokens of this delta; those in front of it were markers and are dropped. Only content has any."""
        if not self._waiting:
            return ()
        if delta.tool_calls:
            self._waiting, self._used, self._given = [], 0, False
            return ()
        text = (delta.content or delta.reasoning_content).encode("utf-8", "replace")
        whole = b"".join(token.data for token in self._waiting)
        # Text that goes on stands at the front; behind a marker the last place is the right one, as a delta is
        # settled by what has just been written.
        start = self._used if whole.startswith(text, self._used) else whole.rfind(text)
        if start < 0:
            return ()
        return self._cut(start, start + len(text), bool(delta.content))

    def _cut(self, start: int, end: int, told: bool) -> tuple[Scored, ...]:
        """The waiting tokens with bytes in [start, end); they and all in front are gone, but for one that goes on
        behind ``end``. A token is told once, with the first content that has bytes of it."""
        taken: list[Scored] = []
        at, gone, used, given = 0, 0, 0, False
        for token in self._waiting:
            after = at + len(token.data)
            if at >= end:
                break
            given = at == 0 and self._given
            if told and after > start and not given:
                taken.append(token)
                given = True
            if after > end:
                used = end - at
                break
            at, gone = after, gone + 1
        self._waiting, self._used, self._given = self._waiting[gone:], used, given and used > 0
        return tuple(taken)
