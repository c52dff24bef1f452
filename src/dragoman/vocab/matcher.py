"""Where added tokens stand in a text: leftmost, then longest, as Hugging Face's tokenizers finds them."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import pairwise

from dragoman.vocab.blueprint import AddedToken


@dataclass(frozen=True, slots=True)
class Match:
    """``token`` stands at text[start:end]."""

    start: int
    end: int
    token: AddedToken


class Matcher:
    """Finds added tokens; tokens that are not ``normalized`` come first and split the text for the others."""

    __slots__ = ("_normalized", "_raw")

    def __init__(self, tokens: Iterable[AddedToken]) -> None:
        every = tuple(tokens)
        self._raw = _Literals(token for token in every if not token.normalized)
        self._normalized = _Literals(token for token in every if token.normalized)

    def find(self, text: str, start: int, end: int) -> list[Match]:
        """All tokens within text[start:end], ascending; what lies around that slice decides ``single_word`` only."""
        first = list(self._raw.find(text, start, end))
        edges = [start, *(edge for match in first for edge in (match.start, match.end)), end]
        gaps = list(pairwise(edges))[::2]
        second = [match for gap in gaps for match in self._normalized.find(text, *gap)]
        return sorted(first + second, key=lambda match: match.start)


class _Literals:
    """A set of texts, searched by first character and then by falling length."""

    __slots__ = ("_firsts", "_lengths", "_tokens")

    def __init__(self, tokens: Iterable[AddedToken]) -> None:
        self._tokens = {token.content: token for token in tokens}
        lengths: dict[str, set[int]] = {}
        for content in self._tokens:
            lengths.setdefault(content[0], set()).add(len(content))
        self._lengths = {first: sorted(sizes, reverse=True) for first, sizes in lengths.items()}
        self._firsts = re.compile("[" + "".join(map(re.escape, lengths)) + "]") if lengths else None

    def find(self, text: str, start: int, end: int) -> Iterator[Match]:
        at = start
        while self._firsts is not None and (hit := self._firsts.search(text, at, end)):
            at = hit.start() + 1
            for length in self._lengths[hit.group()]:
                stop = hit.start() + length
                token = self._tokens.get(text[hit.start() : stop]) if stop <= end else None
                if token is None:
                    continue
                at = stop
                if not token.single_word or _is_alone(text, hit.start(), stop):
                    yield Match(hit.start(), stop, token)
                break


def _is_alone(text: str, start: int, end: int) -> bool:
    """True: no word character touches text[start:end]."""
    return not (start > 0 and is_word(text[start - 1])) and not (end < len(text) and is_word(text[end]))


def is_word(char: str) -> bool:
    """True for what ``\\w`` means in Unicode's regular expressions (UTS 18): letters, marks, digits, connectors."""
    category = unicodedata.category(char)
    return category[0] in "LM" or category in ("Nd", "Nl", "Pc") or char in "\u200c\u200d"
