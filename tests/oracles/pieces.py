"""SentencePiece's two ways to cut text and tiktoken's, written as their definitions: slow and obvious."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import pairwise

SPACE = "\u2581"


def spaced(text: str, *, prefix: bool) -> str:
    return ((" " if prefix and text else "") + text).replace(" ", SPACE)


def joined_by_score(text: str, scores: Mapping[str, float]) -> list[str]:
    """Characters, of which the two neighbours are joined that make the piece of the highest score, leftmost first."""
    parts = list(text)
    while True:
        joins = [(-scores[a + b], at) for at, (a, b) in enumerate(pairwise(parts)) if a + b in scores]
        if not joins:
            return parts
        at = min(joins)[1]
        parts[at : at + 2] = [parts[at] + parts[at + 1]]


def likeliest(text: str, scores: Mapping[str, float]) -> list[str]:
    """The pieces with the highest sum of scores; a character without a piece costs ten more than the worst piece."""
    worst = min(scores.values()) - 10
    best: list[tuple[float, list[str]]] = [(0.0, [])]
    for end in range(1, len(text) + 1):
        ways = []
        for start in range(max(0, end - 32), end):
            piece = text[start:end]
            if piece in scores or len(piece) == 1:
                before, parts = best[start]
                ways.append((before + scores.get(piece, worst), [*parts, piece]))
        best.append(max(ways, key=lambda way: way[0]))
    return best[-1][1]


def with_bytes(parts: list[str], ids: Mapping[str, int]) -> list[int]:
    """Ids of pieces; of a character without a piece, those of its bytes."""
    out: list[int] = []
    for part in parts:
        out += [ids[part]] if part in ids else [ids[f"<0x{byte:02X}>"] for byte in part.encode("utf-8")]
    return out


def by_rank(word: bytes, ranks: Mapping[bytes, int]) -> list[int]:
    """Bytes, of which the neighbours with the lowest rank are joined; a word that is known stays whole."""
    if word in ranks:
        return [ranks[word]]
    parts = [word[at : at + 1] for at in range(len(word))]
    while True:
        joins = [(ranks[a + b], at) for at, (a, b) in enumerate(pairwise(parts)) if a + b in ranks]
        if not joins:
            return [ranks[part] for part in parts]
        at = min(joins)[1]
        parts[at : at + 2] = [parts[at] + parts[at + 1]]
