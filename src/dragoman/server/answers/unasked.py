"""Calls that nobody asked for: ``tool_choice: "none"`` was said, and the model makes one all the same.

No engine is held to make none, as nothing marks a call but text that an answer may hold. Its text stays in the answer,
as vLLM, SGLang and llama-server leave it too; but a client is told that the answer is no plain one.
"""

from __future__ import annotations

from collections.abc import Iterable

from dragoman.chat import Delta, Problem
from dragoman.engine import FinishReason
from dragoman.errors import OutputError
from dragoman.server.answers.reading import Reading


class Unasked:
    """Reads the output once more, by a ``turn`` of the same prompt that may call. Finds the first call; ``strict``: as
    an error."""

    def __init__(self, turn: Reading, *, strict: bool = False) -> None:
        self._turn = turn
        self._strict = strict
        self._found = False

    def push(self, text: str, position: int) -> list[Problem]:
        """The problem, if the call is known by this piece, which ends at ``position``. Raises OutputError."""
        return [] if self._found or not text else self._told(self._turn.feed(text), position)

    def finish(self, reason: FinishReason, position: int) -> list[Problem]:
        """The same for a call that only the end tells. Raises OutputError."""
        return [] if self._found else self._told(self._turn.finish(reason), position)

    def _told(self, deltas: Iterable[Delta], position: int) -> list[Problem]:
        names = [call.name for delta in deltas for call in delta.tool_calls if call.name is not None]
        if not names:
            return []
        self._found = True
        told = f"the model calls {names[0]!r}, and tool_choice is none"
        if self._strict:
            raise OutputError(f"{told} (byte {position})", position=position)
        return [Problem("unasked_call", f"{told}: the call stays text of the answer", position)]
