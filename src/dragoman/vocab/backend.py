"""A tokenizer of the package tokenizers that knows no added tokens, made from a blueprint."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from dragoman.errors import UsageError, VocabularyError
from dragoman.vocab.blueprint import Blueprint
from dragoman.vocab.pieces import byte_of, merges_by_score

if TYPE_CHECKING:
    from tokenizers import Tokenizer


# Two characters that Unicode will never have: what is written so is left out like any other unknown character.
_UNKNOWN = "\U0010fffe\U0010ffff"


@dataclass(frozen=True, slots=True)
class Base:
    """A tokenizer in which no ordinary text leads to a control token. ids: its id -> the real one; None: left out.

    Its own ids are dense, so those that the package gives to added tokens lie beyond them.
    """

    tokenizer: Tokenizer
    ids: tuple[int | None, ...]


def base_tokenizer(plan: Blueprint, markers: frozenset[str]) -> Base:
    """The tokenizer of ``plan`` without ``markers``. Raises VocabularyError for what the package refuses."""
    entries: list[str | None] = list(plan.pieces)
    for token in plan.added:
        if token.content not in markers:
            entries[token.id] = token.content
    # An entry that stands twice is known by its last id.
    real = {entry: number for number, entry in enumerate(entries) if entry is not None}
    names = list(real)
    ids: list[int | None] = list(real.values())
    unk = None if plan.unk_id is None else plan.pieces[plan.unk_id]
    if unk is None and plan.unk_id is not None and plan.drops_unknown:
        # A control token: what becomes it is left out, so that no input can write it.
        unk = _UNKNOWN
        names.append(unk)
        ids.append(None)
    settings: dict[str, Any] = {
        "version": "1.0",
        "truncation": None,
        "padding": None,
        "added_tokens": [],
        "normalizer": plan.normalizer and dict(plan.normalizer),
        "pre_tokenizer": plan.pre_tokenizer and dict(plan.pre_tokenizer),
        "post_processor": None,
        "decoder": None,
        "model": {"type": "BPE", "vocab": {}, "merges": []},
    }
    package = tokenizers()
    try:
        tokenizer: Tokenizer = package.Tokenizer.from_str(json.dumps(settings))
        if plan.model == "unigram":
            tokenizer.model = _unigram(plan, names, ids, unk)
        else:
            vocab = {name: number for number, name in enumerate(names)}
            # A control token as unk_token would let an input write it with bytes that the vocabulary lacks; without one
            # such bytes are left out.
            tokenizer.model = package.models.BPE(
                vocab=vocab,
                merges=_merges(plan, vocab, entries, markers),
                unk_token=unk,
                fuse_unk=plan.fuse_unk,
                byte_fallback=plan.byte_fallback,
                ignore_merges=plan.ignore_merges,
            )
    except Exception as error:  # the package raises bare Exception
        raise VocabularyError(f"the tokenizer {plan.name or 'file'} cannot be built: {error}") from error
    return Base(tokenizer, tuple(ids))


def _unigram(plan: Blueprint, names: list[str], ids: list[int | None], unk: str | None) -> Any:
    scores = plan.scores or ()
    pairs = [(name, 0.0 if number is None else scores[number]) for name, number in zip(names, ids, strict=True)]
    unk_id = None if unk is None else names.index(unk)
    return tokenizers().models.Unigram(pairs, unk_id, plan.byte_fallback)


def _merges(
    plan: Blueprint, vocab: dict[str, int], entries: list[str | None], markers: frozenset[str]
) -> list[tuple[str, str]]:
    """The merges without those that would spell a marker."""
    if plan.scores is not None:
        texts = [None if p is None or (plan.byte_fallback and byte_of(p) is not None) else p for p in plan.pieces]
        return merges_by_score(texts, plan.scores)
    merges = []
    for left, right in plan.merges:
        if left in vocab and right in vocab and left + right in vocab:
            merges.append((left, right))
        elif not markers & {left, right, left + right}:
            raise VocabularyError(f"the merge {left!r} + {right!r} of {plan.name or 'the tokenizer'} has no token")
    return merges


def tokenizers() -> Any:
    """The package tokenizers. Raises UsageError where it is missing."""
    try:
        import tokenizers
        import tokenizers.models
    except ImportError as error:
        raise UsageError("encoding text needs the package tokenizers: pip install 'dragoman[server]'") from error
    return tokenizers
