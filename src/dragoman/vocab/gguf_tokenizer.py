"""Reads the tokenizer in a GGUF file's metadata."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from dragoman.errors import VocabularyError
from dragoman.vocab.blueprint import TOKENS_MAX, AddedToken, Blueprint
from dragoman.vocab.gguf import Metadata
from dragoman.vocab.pretokenizers import SPLITS, Split
from dragoman.vocab.sentencepiece import BYTE, CONTROL, UNKNOWN, UNUSED, USER_DEFINED, Pieces, normalizer
from dragoman.vocab.tokenizer_json import SUPPORTED

_BYTE_LEVEL, _SENTENCEPIECE, _UNIGRAM = "gpt2", "llama", "t5"
# tokenizer.ggml.model -> what it is, for errors
_OTHERS = {
    "gemma4": "a SentencePiece-style BPE tokenizer",
    "bert": "a WordPiece tokenizer",
    "rwkv": "an RWKV tokenizer",
    "plamo2": "a PLaMo tokenizer",
    "none": "without a tokenizer",
    "no_vocab": "without a tokenizer",
}


def read_tokenizer(metadata: Metadata, *, pre: str | None = None, source: str = "the GGUF file") -> Blueprint:
    """The blueprint of the tokenizer in ``metadata``.

    pre: the name of the pre-tokeniser, for a file that carries none or a wrong one.

    Raises VocabularyError for another kind of tokenizer, an unknown pre-tokeniser and contradictory metadata.
    """
    kind = _kind(metadata, source)
    if kind != _BYTE_LEVEL:
        return _of_pieces(metadata, kind, source)
    split = _split(pre or metadata.text("tokenizer.ggml.pre"), source)
    tokens, types = _tokens(metadata, source)
    if BYTE in types:
        raise VocabularyError(f"{source} has byte tokens beside byte-level BPE; {SUPPORTED}")
    named = _named(metadata)
    added = tuple(_added(tokens, types, _marks(named)))
    taken = {token.id for token in added}
    return Blueprint(
        pieces=tuple(
            None if number in taken or types[number] == UNUSED else piece for number, piece in enumerate(tokens)
        ),
        added=added,
        merges=tuple(_merges(metadata, source)),
        normalizer=split.normalizer,
        pre_tokenizer=split.pre_tokenizer,
        ignore_merges=split.ignore_merges,
        name=metadata.text("general.name") or source,
        size=len(tokens),
        adds_bos=metadata.flag("tokenizer.ggml.add_bos_token") is True,
        **named,
    )


def _of_pieces(metadata: Metadata, kind: str, source: str) -> Blueprint:
    """A SentencePiece tokenizer; what the file does not say is as llama.cpp has it."""
    tokens, types = _tokens(metadata, source)
    scores = metadata.values.get("tokenizer.ggml.scores")
    if not isinstance(scores, tuple) or len(scores) != len(tokens):
        raise VocabularyError(f"{source} lacks tokenizer.ggml.scores, one for each token: text cannot be cut without")
    numbers = tuple(float(score) for score in scores if isinstance(score, (int, float)))
    if len(numbers) != len(scores):
        raise VocabularyError(f"{source} is damaged: a score is no number")
    unigram = kind == _UNIGRAM
    flag = metadata.flag("tokenizer.ggml.add_space_prefix")
    charsmap = metadata.numbers("tokenizer.ggml.precompiled_charsmap") if unigram else None
    trim = unigram and metadata.flag("tokenizer.ggml.remove_extra_whitespaces") is True
    named = _named(metadata)
    bos = metadata.flag("tokenizer.ggml.add_bos_token")
    return Pieces(tokens, numbers, types).blueprint(
        metadata.text("general.name") or source,
        model="unigram" if unigram else "bpe",
        normalizer=normalizer(bytes(number & 0xFF for number in charsmap or ()), trim=trim, prefix=flag is not False),
        special=_marks(named),
        adds_bos=not unigram if bos is None else bos,
        **named,
    )


def _tokens(metadata: Metadata, source: str) -> tuple[tuple[str, ...], tuple[int, ...]]:
    """The texts and the types of the tokens."""
    tokens = metadata.texts("tokenizer.ggml.tokens")
    types = metadata.numbers("tokenizer.ggml.token_type")
    if not tokens or types is None:
        raise VocabularyError(f"{source} lacks tokenizer.ggml.tokens or token_type: control tokens cannot be told")
    if len(types) != len(tokens) or len(tokens) > TOKENS_MAX:
        raise VocabularyError(f"{source} is damaged: {len(tokens)} tokens, {len(types)} token types")
    _check_text(tokens, source)
    return tokens, types


def _named(metadata: Metadata) -> dict[str, Any]:
    """Fields of a blueprint: the tokens that the file names."""
    bos, eos, eot, eom, pad = (
        metadata.number(f"tokenizer.ggml.{name}_token_id") for name in ("bos", "eos", "eot", "eom", "padding")
    )
    ends = tuple(dict.fromkeys(number for number in (eos, eot, eom) if number is not None))
    return {"bos_id": bos, "eos_id": eos, "eot_id": eot, "pad_id": pad, "eos_ids": ends}


def _marks(named: dict[str, Any]) -> frozenset[int]:
    """The start and the ends of a turn."""
    return frozenset(number for number in (named["bos_id"], *named["eos_ids"]) if number is not None)


def _kind(metadata: Metadata, source: str) -> str:
    kind = metadata.text("tokenizer.ggml.model")
    if kind is None:
        raise VocabularyError(f"{source} holds no tokenizer (no tokenizer.ggml.model)")
    if kind not in (_BYTE_LEVEL, _SENTENCEPIECE, _UNIGRAM):
        raise VocabularyError(f"{source} is {_OTHERS.get(kind, 'a tokenizer')} ({kind!r}); {SUPPORTED}")
    return kind


def _split(name: str | None, source: str) -> Split:
    if name is None or name == "default":
        raise VocabularyError(
            f"{source} does not say how it cuts text (tokenizer.ggml.pre is {name or 'missing'}): "
            f"give pre=, one of {', '.join(SPLITS)}, or load the model's tokenizer.json"
        )
    if name not in SPLITS:
        raise VocabularyError(
            f"{source} uses the unknown pre-tokeniser {name!r}; known are {', '.join(SPLITS)}: "
            "load the model's tokenizer.json, or give pre= if you know that one of these is the same"
        )
    return SPLITS[name]


def _check_text(tokens: tuple[str, ...], source: str) -> None:
    for number, token in enumerate(tokens):
        if any("\ud800" <= char <= "\udfff" for char in token):
            raise VocabularyError(f"{source} is damaged: token {number} is not UTF-8")


def _added(tokens: tuple[str, ...], types: tuple[int, ...], marks: frozenset[int]) -> Iterator[AddedToken]:
    """Control and user-defined tokens; the start and the ends of a turn are control tokens even where badly typed."""
    for number, (text, kind) in enumerate(zip(tokens, types, strict=True)):
        if kind in (CONTROL, UNKNOWN) or (number in marks and kind != UNUSED):
            yield AddedToken(number, text, special=True)
        elif kind == USER_DEFINED:
            yield AddedToken(number, text)


def _merges(metadata: Metadata, source: str) -> Iterator[tuple[str, str]]:
    """Merges are written ``"a b"``; ``a`` is never empty, so the space is searched from the second character on."""
    for merge in metadata.texts("tokenizer.ggml.merges") or ():
        at = merge.find(" ", 1)
        if at < 0 or at == len(merge) - 1:
            raise VocabularyError(f"{source} is damaged: {merge!r} is no merge of two tokens")
        yield merge[:at], merge[at + 1 :]
