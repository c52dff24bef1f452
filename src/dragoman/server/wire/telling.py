"""How a protocol tells answers. One teller for one request: it knows the shapes, and nothing of engines or sockets.

Order: ``begin`` once, before anything else; ``said`` for each piece and ``ended`` once for each answer, the answers'
pieces in any order among one another; ``close`` once. ``failed`` in place of what is left, if the stream breaks.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from dragoman.chat import Message
from dragoman.server.answers.jobs import Ended, Said, Sum, Usage
from dragoman.server.answers.likelihood import Scored

_NOT_YET = Ended("stop", Usage(0, 0))


@dataclass(slots=True)
class Answer:
    """One whole answer: its pieces, in order."""

    pieces: list[Said] = field(default_factory=list)
    ended: Ended = _NOT_YET

    def add(self, piece: Said | Ended) -> None:
        if isinstance(piece, Ended):
            self.ended = piece
        else:
            self.pieces.append(piece)

    @property
    def message(self) -> Message:
        total = Sum()
        total.add(piece.delta for piece in self.pieces)
        return total.message

    @property
    def logprobs(self) -> list[Scored]:
        return [token for piece in self.pieces for token in piece.logprobs]


class Teller(Protocol):
    """One request's answers in the words of its protocol. Streamed: events as bytes. Whole: the JSON of the reply."""

    def begin(self) -> Iterable[bytes]: ...
    def said(self, index: int, said: Said) -> Iterable[bytes]: ...
    def ended(self, index: int, ended: Ended) -> Iterable[bytes]: ...
    def close(self, usage: Usage) -> Iterable[bytes]: ...
    def failed(self, error: Exception) -> Iterable[bytes]: ...
    def whole(self, answers: Sequence[Answer], usage: Usage) -> dict[str, Any]: ...


def usage_of(answers: Iterable[Usage], prompt_tokens: int) -> Usage:
    """All that one request used; its prompt counts once, however many answers there are to it."""
    every = list(answers)
    return Usage(
        prompt_tokens, sum(each.completion_tokens for each in every), sum(each.reasoning_tokens for each in every)
    )
