"""Sets of bytes, numbered; what the steps of an automaton's states are told by."""

from __future__ import annotations

from functools import lru_cache


class ByteSets:
    """The sets that one automaton met. runs: of each set with a number from 256 on (first byte, last byte, ...).

    numbers: those known by now.
    """

    def __init__(self) -> None:
        self.runs: list[bytes] = []
        self.numbers: dict[int, int] = {}

    def number(self, bits: int) -> int:
        """A number for a set of bytes: the byte where it is one, else from 256 on."""
        known = self.numbers.get(bits)
        if known is None:
            if bits & (bits - 1) == 0:
                known = bits.bit_length() - 1
            else:
                known = 256 + len(self.runs)
                self.runs.append(runs(bits))
            self.numbers[bits] = known
        return known


@lru_cache(maxsize=4096)
def runs(bits: int) -> bytes:
    """The set of bytes as the first and the last byte of each run."""
    found = []
    at = 0
    while bits:
        skipped = (bits & -bits).bit_length() - 1
        bits >>= skipped
        size = (~bits & (bits + 1)).bit_length() - 1
        found += [at + skipped, at + skipped + size - 1]
        bits >>= size
        at += skipped + size
    return bytes(found)
