"""Calls are told from their arguments on: one that ends before them names a tool and says nothing of what it is to do.

Clients read arguments that are empty as none, and would run it. Where other text follows such a call, the reader has
handed it back as content; one that the output ends in is named in a problem.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from dragoman.chat import Delta, ToolCallDelta, call_delta


class BegunCalls:
    """Deltas in, deltas out: a call's first piece waits for text of its arguments. The calls that are told are
    numbered without a gap. untold: the names of the others, complete behind :meth:`finish`."""

    def __init__(self) -> None:
        self._held: list[ToolCallDelta] = []
        self.untold: list[str] = []

    def finish(self, deltas: Iterable[Delta]) -> list[Delta]:
        """The same for the last deltas; a call that waits is left out."""
        out = self.push(deltas)
        self._leave_out()
        return out

    def push(self, deltas: Iterable[Delta]) -> list[Delta]:
        out: list[Delta] = []
        for delta in deltas:
            if not delta.tool_calls:
                self._leave_out()
                out.append(delta)
            for piece in delta.tool_calls:
                out += self._piece(piece)
        return out

    def _piece(self, piece: ToolCallDelta) -> list[Delta]:
        if piece.name is not None:
            self._leave_out()
            self._held = [piece]
        elif not self._held:
            return [self._told(piece)]
        else:
            self._held.append(piece)
        if not piece.arguments.strip():
            return []
        held, self._held = self._held, []
        return [self._told(each) for each in held]

    def _leave_out(self) -> None:
        if self._held:
            self.untold.append(self._held[0].name or "")
            self._held = []

    def _told(self, piece: ToolCallDelta) -> Delta:
        return call_delta(replace(piece, index=piece.index - len(self.untold)) if self.untold else piece)
