"""Sets of bytes, numbered, and how they part the 256 bytes; what a row of an automaton is written from."""

from __future__ import annotations

DEAD = -1
# Combinations of sets that are kept.
_KEPT = 4_096

Runs = list[tuple[int, int]]
# [(runs of bytes, which of the sets they are in)], the place in that list by byte or DEAD, how many bytes are in it
Parted = tuple[list[tuple[Runs, list[int]]], list[int], int]


class ByteSets:
    """The sets that one automaton met. The same few stand together again and again, so their parts are kept."""

    def __init__(self) -> None:
        self.kept: dict[tuple[int, ...], Parted] = {}
        self._numbers: dict[int, int] = {}
        self._sets: list[int] = []

    def number(self, bits: int) -> int:
        """A number for a set of bytes: the byte where it is one, else from 256 on."""
        if bits & (bits - 1) == 0:
            return bits.bit_length() - 1
        known = self._numbers.get(bits)
        if known is None:
            known = self._numbers[bits] = 256 + len(self._sets)
            self._sets.append(bits)
        return known

    def parted(self, numbers: tuple[int, ...]) -> Parted:
        """The bytes of these sets, by which of them they are in."""
        classes: list[tuple[int, list[int]]] = []
        for index, number in enumerate(numbers):
            bits = self._sets[number - 256]
            for i, (some, indices) in enumerate(classes[:]):
                common = some & bits
                if common:
                    classes[i] = (common, [*indices, index])
                    if common != some:
                        classes.append((some & ~common, indices))
                    bits &= ~common
            if bits:
                classes.append((bits, [index]))
        part_at = [DEAD] * 256
        parts: list[tuple[Runs, list[int]]] = []
        for bits, indices in classes:
            spans = runs(bits)
            for start, stop in spans:
                part_at[start:stop] = [len(parts)] * (stop - start)
            parts.append((spans, indices))
        if len(self.kept) >= _KEPT:
            self.kept.clear()
        found = self.kept[numbers] = (parts, part_at, 256 - part_at.count(DEAD))
        return found


def runs(bits: int) -> Runs:
    """The set of bytes as (first, past the last) of each run."""
    found = []
    at = 0
    while bits:
        skipped = (bits & -bits).bit_length() - 1
        bits >>= skipped
        size = (~bits & (bits + 1)).bit_length() - 1
        found.append((at + skipped, at + skipped + size))
        bits >>= size
        at += skipped + size
    return found
