"""Vocabulary entries as SentencePiece writes them, and merges from the scores that it keeps instead of a list."""

from __future__ import annotations

import re
from collections.abc import Sequence

SPACE = "\u2581"
_BYTE = re.compile("<0x([0-9A-Fa-f]{2})>")


def byte_of(piece: str) -> int | None:
    """The byte that ``<0x0A>`` and its like stand for, None for another piece."""
    found = _BYTE.fullmatch(piece)
    return None if found is None else int(found[1], 16)


def piece_bytes(piece: str, *, byte_fallback: bool) -> bytes:
    """The bytes that a piece stands for: one by its number, or its text with U+2581 as the space."""
    number = byte_of(piece) if byte_fallback else None
    return piece.replace(SPACE, " ").encode("utf-8") if number is None else bytes([number])


def merges_by_score(pieces: Sequence[str | None], scores: Sequence[float]) -> list[tuple[str, str]]:
    """The merges of a BPE that joins whichever neighbours make the piece of the highest score.

    Every way to put a piece together from two others is a merge of its score. scores: by id, like ``pieces``.
    """
    known = {piece: number for number, piece in enumerate(pieces) if piece is not None}
    found: list[tuple[float, int, str, str]] = []
    for piece, number in known.items():
        score = -scores[number]
        for cut in range(1, len(piece)):
            left, right = piece[:cut], piece[cut:]
            if left in known and right in known:
                found.append((score, -cut, left, right))
    found.sort(key=lambda merge: merge[:2])
    return [(left, right) for _, _, left, right in found]
