"""Sets of tokens: a row of words, or the few tokens themselves."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from dragoman.constraint.trie import Ints
from dragoman.grammar.walk import COMPILED, scatter

# Below this share of the vocabulary a set is kept as its tokens.
_SPARSE = 50

Row = npt.NDArray[np.uint32]
_NO_TOKENS: Ints = np.zeros(0, dtype=np.int32)


class Bits:
    """A set of tokens: a whole row of words, or, where it is small, the tokens themselves. Compare by identity."""

    __slots__ = ("row", "size", "tokens")

    def __init__(self, tokens: Ints, words: int, row: Row | None = None) -> None:
        """``row``, where one is given, is taken over, and ``tokens`` are added to it."""
        self.tokens = tokens
        self.row: Row | None = row
        if row is None and len(tokens) * _SPARSE >= words * 32:
            self.row = row = np.zeros(words, dtype=np.uint32)
        if row is None:
            self.size: int = tokens.nbytes
            return
        _set(row, tokens)
        self.tokens = _NO_TOKENS
        self.size = row.nbytes

    def add_to(self, row: Row) -> None:
        """Set these tokens in ``row``."""
        if self.row is not None:
            np.bitwise_or(row[: len(self.row)], self.row, out=row[: len(self.row)])
        else:
            _set(row, self.tokens)

    def write(self, row: Row) -> None:
        """Overwrite ``row``."""
        if self.row is None:
            _set(row, self.tokens, clear=True)
        elif len(row) == len(self.row):
            np.copyto(row, self.row)
        else:
            row[: len(self.row)] = self.row
            row[len(self.row) :] = 0


def _set(row: Row, tokens: Ints, *, clear: bool = False) -> None:
    """Set the bits of ``tokens`` in ``row``; ``clear``: and no others."""
    if COMPILED:
        try:
            return scatter(row, tokens, clear)
        except ValueError:  # not in one piece
            pass
    if clear:
        row.fill(0)
    if len(tokens) * _SPARSE < len(row) * 32:
        np.bitwise_or.at(row, tokens >> 5, np.left_shift(1, tokens & 31, dtype=np.uint32, casting="unsafe"))
    else:
        allowed = np.zeros(len(row) * 32, dtype=bool)
        allowed[tokens] = True
        row |= np.packbits(allowed, bitorder="little").view(np.uint32)
    return None


def union(parts: Sequence[Bits], words: int) -> Bits:
    """All tokens of ``parts``."""
    if len(parts) == 1:
        return parts[0]
    rows = [part.row for part in parts if part.row is not None]
    few = [part.tokens for part in parts if part.row is None]
    tokens = _NO_TOKENS if not few else few[0] if len(few) == 1 else np.concatenate(few)
    if not rows:
        return Bits(tokens, words)
    row = rows[0].copy()
    for other in rows[1:]:
        np.bitwise_or(row, other, out=row)
    return Bits(tokens, words, row)
