"""Constraints in ``transformers``' generate(): a logits processor for batches, beams and assisted decoding.

generate() tells a processor nothing but the ids of each row: beams change places, are copied and dropped, and with an
assistant the same place is asked for again after tokens that were not kept. So each call finds the cursor of a row by
what the row holds: the one whose tokens it goes on from, rolled back and forked where need be.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from dragoman.constraint.constraint import fill_batch
from dragoman.constraint.cursor import Cursor
from dragoman.errors import UsageError
from dragoman.integrations.logits import apply_mask

Ids = npt.NDArray[np.int64]


@dataclass(slots=True)
class _Row:
    """One output: its tokens behind the prompt, the cursor, and how many of the tokens the cursor has taken."""

    ids: Ids
    cursor: Cursor
    taken: int

    @property
    def refused(self) -> bool:
        """True: one of the tokens was not allowed."""
        return self.taken < len(self.ids) and not self.cursor.ended


class ConstraintProcessor:
    """``generate(..., logits_processor=[ConstraintProcessor(constraint)])``; made anew for each generate().

    constraints: one for each prompt of the batch, or one for a single prompt, at the start of the output. They are not
    changed: every row has a fork. Works on tensors, and on NumPy arrays without torch.
    prompt_tokens: the length of the (padded) prompt; None: that of the first call, which is right for generate().

    A row whose turn has ended is left as it is: generate() pads it. A row with a token that its constraint refused (a
    beam without a way on, a candidate of prompt lookup, another processor's doing) may only end.
    """

    supports_continuous_batching = False

    def __init__(self, constraints: Cursor | Sequence[Cursor], *, prompt_tokens: int | None = None) -> None:
        given = [constraints] if isinstance(constraints, Cursor) else constraints
        if not isinstance(given, (list, tuple)) or not given or not all(isinstance(one, Cursor) for one in given):
            raise UsageError("constraints is a constraint, or a list with one for each prompt", param="constraints")
        self._outputs = [_Outputs(one.fork()) for one in given]
        self._prompt = prompt_tokens

    def __call__(self, input_ids: Any, scores: Any) -> Any:
        """Scores [rows, tokens] with minus infinity for what may not come next; ids [rows, length]."""
        ids = _in_memory(input_ids)
        if self._prompt is None:
            self._prompt = ids.shape[-1]
        if ids.ndim != 2 or ids.shape[1] < self._prompt or len(ids) % len(self._outputs):
            raise UsageError(
                f"input_ids of shape {ids.shape} do not go with {len(self._outputs)} prompts of {self._prompt} tokens: "
                "make a processor for each generate(), with a constraint for each prompt",
                param="input_ids",
            )
        written = np.ascontiguousarray(ids[:, self._prompt :])
        share = len(ids) // len(self._outputs)
        rows: list[_Row] = []
        for at, outputs in enumerate(self._outputs):
            rows += outputs.follow(written[at * share : (at + 1) * share])
        return _masked(rows, scores)


class _Outputs:
    """All rows of one prompt. ``start``: where each of them begins."""

    def __init__(self, start: Cursor) -> None:
        self.start = start
        self.rows: list[_Row] = []

    def follow(self, ids: Ids) -> list[_Row]:
        """The rows [rows, tokens] that a call asks for, each from the row before that it goes on from."""
        known = {row.ids.tobytes(): row for row in self.rows}
        sources = [self._source(known, mine) for mine in ids]
        waiting = Counter(id(source) for source in sources)
        out: list[_Row] = []
        for source, mine in zip(sources, ids, strict=True):
            waiting[id(source)] -= 1
            kept = 0 if source is None else min(_common(source.ids, mine), source.taken)
            if source is None:
                cursor = self.start.fork()
            else:
                # The last one that goes on from a row has it for itself.
                cursor = source.cursor.fork() if waiting[id(source)] else source.cursor
                cursor.rollback(cursor.accepted - self.start.accepted - kept)
            while kept < len(mine) and cursor.accept(int(mine[kept])):
                kept += 1
            out.append(_Row(mine.copy(), cursor, kept))
        self.rows = out
        return out

    def _source(self, known: Mapping[bytes, _Row], mine: Ids) -> _Row | None:
        if not len(mine):
            return None
        parent = known.get(mine[:-1].tobytes())
        if parent is not None:
            return parent
        return max(self.rows, key=lambda row: min(_common(row.ids, mine), row.taken), default=None)


def _masked(rows: Sequence[_Row], scores: Any) -> Any:
    """A copy of the scores under the rows' masks."""
    out = scores.copy() if isinstance(scores, np.ndarray) else scores.clone()
    free = [at for at, row in enumerate(rows) if row.cursor.ended or (row.refused and not row.cursor.ends)]
    table = np.zeros((len(rows), max(row.cursor.words for row in rows)), np.uint32)
    fill_batch([None if at in free or row.refused else row.cursor for at, row in enumerate(rows)], table)
    for at, row in enumerate(rows):
        if row.refused and at not in free:
            table[at] = 0
            for token in row.cursor.ends:
                table[at, token // 32] |= np.uint32(1 << token % 32)
    apply_mask(table, out)
    if free:
        out[free] = scores[free]  # beyond the mask too
    return out


def _common(a: Ids, b: Ids) -> int:
    """How many first tokens two rows share."""
    size = min(len(a), len(b))
    differs = np.flatnonzero(a[:size] != b[:size])
    return int(differs[0]) if len(differs) else size


def _in_memory(input_ids: Any) -> Ids:
    if hasattr(input_ids, "detach"):
        input_ids = input_ids.detach().cpu()
    ids = np.asarray(input_ids)
    if ids.dtype.kind not in "iu" or not ids.ndim:
        raise UsageError(f"input_ids are token ids [rows, length], not {ids.dtype} {ids.shape}", param="input_ids")
    return ids.astype(np.int64, copy=False)
