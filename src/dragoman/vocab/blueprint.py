"""What a tokenizer file says, whatever its format: what all readers produce and the encoder builds from."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from dragoman.errors import VocabularyError

# A vocabulary of a million is four times the largest one in use; a file that claims more is damaged.
TOKENS_MAX = 4_000_000


@dataclass(frozen=True, slots=True)
class AddedToken:
    """A token that is matched as text before the rest is tokenised. The flags are those of Hugging Face tokenizers."""

    id: int
    content: str
    special: bool = False
    lstrip: bool = False
    rstrip: bool = False
    single_word: bool = False
    normalized: bool = False

    @property
    def is_marker(self) -> bool:
        """True: it may act as a control token. False: a single character, or white space or letters not called special.

        People write those anyway, and a byte that is one token must stay writable.
        """
        plain = self.content.isspace() or self.content.replace("_", "a").isalnum()
        return len(self.content) > 1 and (self.special or not plain)


@dataclass(frozen=True, slots=True)
class Blueprint:
    """A byte-level BPE tokenizer.

    pieces: id -> entry in the byte-level alphabet; None where the id has none (added, unused).
    added: ascending by id; an added token's id has no piece. merges: in order of rank.
    normalizer, pre_tokenizer: in the words of tokenizer.json. size: the number of logits.
    """

    pieces: tuple[str | None, ...]
    added: tuple[AddedToken, ...]
    merges: tuple[tuple[str, str], ...]
    normalizer: Mapping[str, Any] | None
    pre_tokenizer: Mapping[str, Any]
    ignore_merges: bool = False
    fuse_unk: bool = False
    unk_id: int | None = None
    name: str = ""
    size: int = 0
    bos_id: int | None = None
    eos_id: int | None = None
    eot_id: int | None = None
    pad_id: int | None = None
    eos_ids: tuple[int, ...] = field(default=())
    adds_bos: bool = False

    def __post_init__(self) -> None:
        _check(self)


def _check(plan: Blueprint) -> None:
    """Raise VocabularyError where ids or contents contradict each other."""
    width = len(plan.pieces)
    if plan.size < width:
        raise VocabularyError(f"the vocabulary has {width} tokens, but the model's size is given as {plan.size}")
    contents: set[str] = set()
    for token in plan.added:
        if not token.content:
            raise VocabularyError(f"added token {token.id} has no text")
        if not 0 <= token.id < width or plan.pieces[token.id] is not None:
            raise VocabularyError(f"added token {token.content!r} has id {token.id}, which is taken or out of range")
        if token.content in contents:
            raise VocabularyError(f"added token {token.content!r} appears twice")
        contents.add(token.content)
    for label in ("bos_id", "eos_id", "eot_id", "pad_id", "unk_id"):
        number = getattr(plan, label)
        if number is not None and not 0 <= number < width:
            raise VocabularyError(f"{label} is {number}, but there are {width} tokens")
