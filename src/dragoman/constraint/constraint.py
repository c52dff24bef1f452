"""The cursor that a sampler holds: masks, accept, rollback, forced text."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from dragoman.constraint.masks import Masks, possible
from dragoman.errors import UsageError
from dragoman.grammar.machine import State

# Forced text is given in pieces of at most this many bytes.
_FORCED = 4_096


class Constraint:
    """One output being written. Single owner; states and masks are shared.

    ``start``: the writer's state after what the prompt already wrote of the turn.
    """

    def __init__(self, masks: Masks, start: State, *, history: Sequence[State | None] = ()) -> None:
        self._masks = masks
        self._history: list[State | None] = [*history] or [start]  # None: the turn has ended

    @property
    def state(self) -> State | None:
        """The machine's state, None after the end of the turn."""
        return self._history[-1]

    @property
    def accepted(self) -> int:
        """How many tokens were accepted and not rolled back."""
        return len(self._history) - 1

    @property
    def can_stop(self) -> bool:
        """True: the turn may end here (end-of-turn tokens are allowed) or has ended."""
        state = self._history[-1]
        return state is None or self._masks.can_stop(state)

    def fill(self, row: Any) -> None:
        """Overwrite ``row``, int32 or uint32 [>= ceil(vocab / 32)]: bit i % 32 of word i // 32 = token i; the rest 0.

        Raises: UsageError for a row of another type or too short.
        """
        out = np.asarray(row)
        words = self._masks.trie.words
        if out.dtype.itemsize != 4 or out.dtype.kind not in "iu" or out.ndim != 1:
            raise UsageError(
                f"a mask row is a vector of int32 or uint32, not {out.dtype} {out.shape}", param="row"
            )
        if len(out) < words:
            raise UsageError(f"the mask row has {len(out)} words, the vocabulary needs {words}", param="row")
        view = out.view(np.uint32)
        state = self._history[-1]
        if state is None:
            view[:] = 0
            for token in self._masks.eos_ids:
                view[token // 32] |= np.uint32(1 << token % 32)
            return
        view[:words] = self._masks.of(state)
        view[words:] = 0

    def accept(self, token_id: int) -> bool:
        """Take ``token_id``. False: it is not allowed here and nothing changed."""
        state = self._history[-1]
        if token_id in self._masks.eos_ids and (state is None or self._masks.can_stop(state)):
            self._history.append(None)
            return True
        after = None if state is None else self._masks.after(state, token_id)
        if after is None:
            return False
        self._history.append(after)
        return True

    def rollback(self, count: int) -> None:
        """Undo the last ``count`` accepted tokens. UsageError if fewer were accepted."""
        if not 0 <= count < len(self._history):
            raise UsageError(f"cannot roll back {count} tokens, {self.accepted} were accepted", param="count")
        if count:
            del self._history[-count:]

    def fork(self) -> Constraint:
        """An independent copy at the same place."""
        state = self._history[0]
        assert state is not None
        return Constraint(self._masks, state, history=self._history)

    def validate(self, token_ids: Sequence[int]) -> int:
        """How many of ``token_ids``, in order, would be accepted. Nothing changes."""
        probe = self.fork()
        for count, token in enumerate(token_ids):
            if not probe.accept(token):
                return count
        return len(token_ids)

    def forced(self) -> bytes:
        """The bytes that any continuation starts with, as far as they are certain; empty where there is a choice."""
        state = self._history[-1]
        out = bytearray()
        machine = self._masks.machine
        while state is not None and len(out) < _FORCED and not self._masks.can_stop(state):
            bits, symbols = possible(machine, state)
            if symbols or bits.bit_count() > 8:
                break
            ways = [b for b in range(256) if bits >> b & 1]
            alive = [(b, after) for b in ways if (after := machine.step(state, b)[0]).threads]
            if len(alive) != 1:
                break
            out.append(alive[0][0])
            state = alive[0][1]
        return bytes(out)
