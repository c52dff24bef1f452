"""Code point ranges as UTF-8 byte sequences, after R. Cox, "Regular Expression Matching in the Wild" (utf8 ranges)."""

from __future__ import annotations

from collections.abc import Iterable
from functools import lru_cache

# The last code point of each encoded length; surrogates have no encoding.
_SPLITS = (0x7F, 0x7FF, 0xFFFF, 0x10FFFF)
ANY: tuple[tuple[int, int], ...] = ((0, 0xD7FF), (0xE000, 0x10FFFF))

ByteRange = tuple[int, int]


def byte_sequences(ranges: Iterable[tuple[int, int]]) -> list[tuple[ByteRange, ...]]:
    """Sequences of byte ranges that together match exactly the characters of ``ranges``; they do not overlap."""
    out: list[tuple[ByteRange, ...]] = []
    for low, high in ranges:
        for a, b in ((max(low, 0), min(high, 0xD7FF)), (max(low, 0xE000), min(high, 0x10FFFF))):
            start = a
            for last in _SPLITS:
                if start <= b and start <= last:
                    out.extend(_same_length(start, min(b, last)))
                    start = last + 1
    return _merge(out)


def _same_length(low: int, high: int) -> list[tuple[ByteRange, ...]]:
    """Sequences for code points of one encoded length: split until all bytes but a suffix of full ranges are equal."""
    a, b = chr(low).encode(), chr(high).encode()
    for i in range(1, len(a)):
        block = (1 << (6 * i)) - 1
        if low & ~block != high & ~block:
            if low & block:
                return [*_same_length(low, low | block), *_same_length((low | block) + 1, high)]
            if high & block != block:
                return [*_same_length(low, (high & ~block) - 1), *_same_length(high & ~block, high)]
    return [tuple(zip(a, b, strict=True))]


def _merge(sequences: list[tuple[ByteRange, ...]]) -> list[tuple[ByteRange, ...]]:
    """Join neighbours that differ in adjacent first bytes only."""
    out: list[tuple[ByteRange, ...]] = []
    for item in sequences:
        if out and out[-1][1:] == item[1:] and out[-1][0][1] + 1 == item[0][0]:
            out[-1] = ((out[-1][0][0], item[0][1]), *item[1:])
        else:
            out.append(item)
    return out


def sanitise(data: bytes) -> bytes:
    """``data`` with every ill-formed sequence replaced by U+FFFD."""
    return data.decode("utf-8", "replace").encode()


@lru_cache(maxsize=512)
def byte_sets(ranges: tuple[tuple[int, int], ...]) -> list[list[int]]:
    """The ways to write one of these characters, each a list of byte sets (256 bits), the last byte first."""
    return [[(1 << (high + 1)) - (1 << low) for low, high in reversed(sequence)] for sequence in byte_sequences(ranges)]
