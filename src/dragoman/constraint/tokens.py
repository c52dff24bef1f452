"""The tokens of a turn: a vocabulary's, and what ends a turn in the template's own words."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

from dragoman.vocab import Vocabulary


@dataclass(frozen=True, slots=True)
class TurnTokens:
    """What masks need of a vocabulary. eos_ids: every token with which the turn may end, the vocabulary's own first.

    Tokenizer files often name no end of a turn, or another one than the template writes: without the template's own a
    turn could never end.
    """

    size: int
    token_bytes: Sequence[bytes | None]
    controls: Mapping[str, int]
    eos_ids: tuple[int, ...]
    encode: Callable[[str], list[int]]

    @classmethod
    def of(cls, vocab: Vocabulary, stops: Iterable[str]) -> TurnTokens:
        """``stops``: the texts that end a turn; those that are control tokens count."""
        own = [vocab.controls[text] for text in stops if text in vocab.controls]
        ends = tuple(dict.fromkeys((*vocab.eos_ids, *own)))
        return cls(vocab.size, vocab.token_bytes, vocab.controls, ends, vocab.encode)
