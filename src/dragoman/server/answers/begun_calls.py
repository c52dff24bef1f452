"""Calls are told from their arguments on: one that ends before them names a tool and says nothing of what it is to do.

Clients read arguments that are empty as none, and would run it.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from dragoman.chat import Delta, ToolCallDelta, call_delta


class BegunCalls:
    """Deltas in, deltas out: a call's first piece waits for text of its arguments. The calls that are told are
    numbered without a gap."""

    def __init__(self) -> None:
        self._held: list[ToolCallDelta] = []
        self._left_out = 0

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
            self._held = []
            self._left_out += 1

    def _told(self, piece: ToolCallDelta) -> Delta:
        return call_delta(replace(piece, index=piece.index - self._left_out) if self._left_out else piece)
