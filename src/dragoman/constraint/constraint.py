"""The cursor that a sampler holds: masks, accept, rollback, forced text."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import Executor
from typing import Any

import numpy as np
import numpy.typing as npt

from dragoman.constraint.explain import explained
from dragoman.constraint.masks import Masks
from dragoman.constraint.positions import Position
from dragoman.errors import UsageError

# Forced text is given in pieces of at most this many bytes.
_FORCED = 4_096


class Constraint:
    """One output being written. Single owner; positions and masks are shared.

    ``start``: where the writer stands after what the prompt already wrote of the turn. After an end-of-turn token the
    turn has ended: only end-of-turn tokens are allowed from there on.
    """

    def __init__(self, masks: Masks, start: Position, *, history: Sequence[Position | None] = ()) -> None:
        self._masks = masks
        self._history: list[Position | None] = [*history] or [start]  # None: the turn has ended
        self._row: Any = None
        self._view: npt.NDArray[np.uint32] | None = None

    @property
    def state(self) -> Position | None:
        """Where the writer stands, None after the end of the turn."""
        return self._history[-1]

    @property
    def accepted(self) -> int:
        """How many tokens were accepted and not rolled back."""
        return len(self._history) - 1

    @property
    def ended(self) -> bool:
        """True: an end-of-turn token was accepted."""
        return self._history[-1] is None

    @property
    def can_stop(self) -> bool:
        """True: the turn may end here (end-of-turn tokens are allowed) or has ended."""
        here = self._history[-1]
        return here is None or self._masks.can_stop(here)

    def fill(self, row: Any) -> None:
        """Overwrite ``row``, int32 or uint32 [>= ceil(vocab / 32)]: bit i % 32 of word i // 32 = token i; the rest 0.

        Raises: UsageError for a row of another type or too short.
        """
        view = self._view if row is self._row else self._viewed(row)
        here = self._history[-1]
        assert view is not None
        if here is None:
            view.fill(0)
            for token in self._masks.eos_ids:
                view[token // 32] |= np.uint32(1 << token % 32)
            return
        self._masks.of(here).write(view)

    def _viewed(self, row: Any) -> npt.NDArray[np.uint32]:
        """``row`` as words; kept, since samplers fill the same row again and again."""
        out = np.asarray(row)
        words = self._masks.trie.words
        if out.dtype.itemsize != 4 or out.dtype.kind not in "iu" or out.ndim != 1:
            raise UsageError(f"a mask row is a vector of int32 or uint32, not {out.dtype} {out.shape}", param="row")
        if len(out) < words:
            raise UsageError(f"the mask row has {len(out)} words, the vocabulary needs {words}", param="row")
        view = out.view(np.uint32)
        if out is row:
            self._row, self._view = row, view
        return view

    def prefetch(self, executor: Executor | None = None) -> None:
        """Make the mask of this place now, so that the next :meth:`fill` is a copy; in ``executor`` where one is given.

        To be called after :meth:`accept`, while the model computes the logits.
        """
        here = self._history[-1]
        if here is None:
            return
        if executor is None:
            self._masks.of(here)
        else:
            executor.submit(self._masks.of, here)

    def accept(self, token_id: int) -> bool:
        """Take ``token_id``. False: it is not allowed here and nothing changed."""
        here = self._history[-1]
        if here is not None:
            after = self._masks.after(here, token_id)
            if after is not None:
                self._history.append(after)
                return True
        if token_id in self._masks.eos_ids and (here is None or self._masks.can_stop(here)):
            self._history.append(None)
            return True
        return False

    def rollback(self, count: int) -> None:
        """Undo the last ``count`` accepted tokens. UsageError if fewer were accepted."""
        if not 0 <= count < len(self._history):
            raise UsageError(f"cannot roll back {count} tokens, {self.accepted} were accepted", param="count")
        if count:
            del self._history[-count:]

    def fork(self) -> Constraint:
        """An independent copy at the same place."""
        start = self._history[0]
        assert start is not None
        return Constraint(self._masks, start, history=self._history)

    def validate(self, token_ids: Sequence[int]) -> int:
        """How many of ``token_ids``, in order, would be accepted. Nothing changes."""
        probe = Constraint(self._masks, self._history[0], history=self._history[-1:])  # type: ignore[arg-type]
        for count, token in enumerate(token_ids):
            if not probe.accept(token):
                return count
        return len(token_ids)

    def forced(self) -> bytes:
        """The bytes that any continuation starts with, as far as they are certain; empty where there is a choice."""
        return self._forced()[0]

    def forced_tokens(self, encode: Callable[[str], Sequence[int]]) -> list[int]:
        """The tokens that the model itself would use for :meth:`forced`; the tail that may come out otherwise is left.

        ``encode``: the tokenizer, as :meth:`dragoman.vocab.Vocabulary.encode`. A token is given only where no token
        that could be written reaches from its bytes beyond the end of what is certain.
        """
        data, there = self._forced()
        text = data.decode("utf-8", "ignore")  # the last character may be cut
        tokens = list(encode(text)) if text else []
        known = len(self._masks.token_bytes)
        pieces = [(self._masks.token_bytes[token] if 0 <= token < known else None) or b"" for token in tokens]
        if not data.startswith(b"".join(pieces)):
            return []  # a tokenizer that changes the text cannot be trusted with its pieces
        certain = self._seam(data, there)
        at, kept = 0, 0
        while kept < len(pieces) and at + len(pieces[kept]) <= certain:
            at += len(pieces[kept])
            kept += 1
        return tokens[: self.validate(tokens[:kept])]

    def _seam(self, data: bytes, there: Position | None) -> int:
        """How many bytes of the forced ``data`` no token reaches across its end from."""
        masks = self._masks
        onward = set(range(256)) if there is None else set(masks.bytes_after(there))
        for start in range(max(0, len(data) - masks.trie.depth), len(data)):
            if not onward.isdisjoint(masks.trie.bytes_behind(data[start:])):
                return start
        return len(data)

    def _forced(self) -> tuple[bytes, Position | None]:
        here = self._history[-1]
        out = bytearray()
        masks = self._masks
        while here is not None and len(out) < _FORCED and not masks.can_stop(here):
            if masks.symbols_after(here):
                break
            ways = masks.bytes_after(here)
            if len(ways) != 1:
                break
            out.append(ways[0])
            here = masks.after_text(here, bytes(ways), None)
        return bytes(out), here

    def explain(self, token_id: int) -> str:
        """Why ``token_id`` is allowed or refused here, in words."""
        return explained(self._masks, self._history[-1], token_id)


def fill_batch(constraints: Sequence[Constraint | None], rows: Any) -> None:
    """Fill one row of ``rows`` (int32 or uint32 [batch, words]) for each constraint; None: everything is allowed.

    Raises: UsageError where there are fewer rows than constraints, and what :meth:`Constraint.fill` raises.
    """
    table = np.asarray(rows)
    if table.ndim != 2 or len(table) < len(constraints):
        raise UsageError(f"{len(constraints)} constraints need as many rows, not {table.shape}", param="rows")
    for row, constraint in zip(table, constraints, strict=False):
        if constraint is None:
            row.fill(-1 if row.dtype.kind == "i" else 0xFFFFFFFF)
        else:
            constraint.fill(row)
