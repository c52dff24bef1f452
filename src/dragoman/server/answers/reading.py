"""What reads an engine's output: a turn of a chat, or nobody, where raw text was asked for."""

from __future__ import annotations

from typing import Literal, Protocol

from dragoman.chat import Delta, Message
from dragoman.engine import FinishReason


class Reading(Protocol):
    """The part of :class:`dragoman.turn.Turn` that an answer needs."""

    def feed(self, chunk: str) -> list[Delta]: ...
    def finish(self, reason: FinishReason = "stop") -> list[Delta]: ...
    @property
    def ended(self) -> bool: ...
    @property
    def message(self) -> Message: ...
    @property
    def finish_reason(self) -> FinishReason | Literal["tool_calls"]: ...


class RawReading:
    """All output is content."""

    def __init__(self) -> None:
        self._reason: FinishReason = "stop"

    def feed(self, chunk: str) -> list[Delta]:
        return [Delta(content=chunk)] if chunk else []

    def finish(self, reason: FinishReason = "stop") -> list[Delta]:
        self._reason = reason
        return []

    @property
    def ended(self) -> bool:
        """Raw text has no end of its own."""
        return False

    @property
    def message(self) -> Message:
        """Nothing is kept: there are no problems to tell of."""
        return Message()

    @property
    def finish_reason(self) -> FinishReason:
        return self._reason
