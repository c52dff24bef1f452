"""Reads the tokenizer in a GGUF file's metadata."""

from __future__ import annotations

from collections.abc import Iterator

from dragoman.errors import VocabularyError
from dragoman.vocab.blueprint import TOKENS_MAX, AddedToken, Blueprint
from dragoman.vocab.gguf import Metadata
from dragoman.vocab.pretokenizers import SPLITS, Split
from dragoman.vocab.tokenizer_json import SUPPORTED

_BYTE_LEVEL = "gpt2"
# tokenizer.ggml.model -> what it is, for errors
_OTHERS = {
    "llama": "a SentencePiece tokenizer with byte fallback",
    "gemma4": "a SentencePiece-style BPE tokenizer",
    "bert": "a WordPiece tokenizer",
    "t5": "a Unigram tokenizer",
    "rwkv": "an RWKV tokenizer",
    "plamo2": "a PLaMo tokenizer",
    "none": "without a tokenizer",
    "no_vocab": "without a tokenizer",
}
# tokenizer.ggml.token_type
_UNKNOWN, _CONTROL, _USER_DEFINED, _UNUSED, _BYTE = 2, 3, 4, 5, 6


def read_tokenizer(metadata: Metadata, *, pre: str | None = None, source: str = "the GGUF file") -> Blueprint:
    """The blueprint of the tokenizer in ``metadata``.

    pre: the name of the pre-tokeniser, for a file that carries none or a wrong one.

    Raises VocabularyError for another kind of tokenizer, an unknown pre-tokeniser and contradictory metadata.
    """
    _check_kind(metadata, source)
    split = _split(pre or metadata.text("tokenizer.ggml.pre"), source)
    tokens = metadata.texts("tokenizer.ggml.tokens")
    types = metadata.numbers("tokenizer.ggml.token_type")
    if not tokens or types is None:
        raise VocabularyError(f"{source} lacks tokenizer.ggml.tokens or token_type: control tokens cannot be told")
    if len(types) != len(tokens) or len(tokens) > TOKENS_MAX:
        raise VocabularyError(f"{source} is damaged: {len(tokens)} tokens, {len(types)} token types")
    if _BYTE in types:
        raise VocabularyError(f"{source} has byte tokens beside byte-level BPE; {SUPPORTED}")
    _check_text(tokens, source)
    bos, eos, eot, eom, pad = (
        metadata.number(f"tokenizer.ggml.{name}_token_id") for name in ("bos", "eos", "eot", "eom", "padding")
    )
    ends = tuple(dict.fromkeys(number for number in (eos, eot, eom) if number is not None))
    added = tuple(_added(tokens, types, {number for number in (bos, *ends) if number is not None}))
    taken = {token.id for token in added}
    return Blueprint(
        pieces=tuple(
            None if number in taken or types[number] == _UNUSED else piece for number, piece in enumerate(tokens)
        ),
        added=added,
        merges=tuple(_merges(metadata, source)),
        normalizer=split.normalizer,
        pre_tokenizer=split.pre_tokenizer,
        ignore_merges=split.ignore_merges,
        name=metadata.text("general.name") or source,
        size=len(tokens),
        bos_id=bos,
        eos_id=eos,
        eot_id=eot,
        pad_id=pad,
        eos_ids=ends,
        adds_bos=metadata.flag("tokenizer.ggml.add_bos_token") is True,
    )


def _check_kind(metadata: Metadata, source: str) -> None:
    kind = metadata.text("tokenizer.ggml.model")
    if kind is None:
        raise VocabularyError(f"{source} holds no tokenizer (no tokenizer.ggml.model)")
    if kind != _BYTE_LEVEL:
        raise VocabularyError(f"{source} is {_OTHERS.get(kind, 'a tokenizer')} ({kind!r}); {SUPPORTED}")


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


def _added(tokens: tuple[str, ...], types: tuple[int, ...], marks: set[int]) -> Iterator[AddedToken]:
    """Control and user-defined tokens; the start and the ends of a turn are control tokens even where badly typed."""
    for number, (text, kind) in enumerate(zip(tokens, types, strict=True)):
        if kind in (_CONTROL, _UNKNOWN) or (number in marks and kind != _UNUSED):
            yield AddedToken(number, text, special=True)
        elif kind == _USER_DEFINED:
            yield AddedToken(number, text)


def _merges(metadata: Metadata, source: str) -> Iterator[tuple[str, str]]:
    """Merges are written ``"a b"``; ``a`` is never empty, so the space is searched from the second character on."""
    for merge in metadata.texts("tokenizer.ggml.merges") or ():
        at = merge.find(" ", 1)
        if at < 0 or at == len(merge) - 1:
            raise VocabularyError(f"{source} is damaged: {merge!r} is no merge of two tokens")
        yield merge[:at], merge[at + 1 :]
