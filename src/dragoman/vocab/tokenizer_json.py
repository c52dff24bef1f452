"""Reads tokenizer.json (Hugging Face's tokenizers) and the configuration files beside it."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from typing import Any, Literal

from dragoman.errors import VocabularyError
from dragoman.vocab.blueprint import TOKENS_MAX, AddedToken, Blueprint, steps_of
from dragoman.vocab.pieces import SPACE

SUPPORTED = (
    "supported are BPE and Unigram tokenizers over bytes or of SentencePiece's kind "
    "(tokenizer.json, tokenizer.model, tekken.json, GGUF)"
)
_FLAGS = ("special", "lstrip", "rstrip", "single_word", "normalized")
_NAMED = ("bos_token", "eos_token", "unk_token", "pad_token", "sep_token", "cls_token", "mask_token")


def parse_json(data: bytes | str, *, source: str) -> Any:
    """The JSON value in ``data``. Raises VocabularyError that says what the file is instead, where it can be told."""
    if isinstance(data, bytes) and data[:4] == b"GGUF":
        raise VocabularyError(f"{source} is a GGUF file: read it with Vocabulary.from_gguf")
    try:
        return json.loads(data)
    except (ValueError, RecursionError) as error:
        if isinstance(data, bytes) and b"<unk>" in data[:200]:
            raise VocabularyError(
                f"{source} looks like a SentencePiece model: read it with Vocabulary.from_sentencepiece"
            ) from error
        raise VocabularyError(f"{source} is no tokenizer.json: {error}") from error


def read_tokenizer(
    data: Any,
    *,
    config: Mapping[str, Any] | None = None,
    generation: Mapping[str, Any] | None = None,
    size: int | None = None,
    source: str = "tokenizer.json",
) -> Blueprint:
    """The blueprint of a parsed tokenizer.json.

    config: tokenizer_config.json; its added_tokens_decoder overrides flags, its named tokens are special.
    generation: generation_config.json; its eos_token_id lists the ends of a turn.
    size: the number of logits; by default one more than the highest id.

    Raises VocabularyError for a file that is damaged or of another kind.
    """
    config = config or {}
    model, spelling = _model(data, source)
    unigram = model["type"] == "Unigram"
    vocab, scores = _scored(model, source) if unigram else (_vocab(model, source), None)
    added = added_tokens(data, config, vocab, source)
    width = 1 + max((*vocab.values(), *(token.id for token in added)), default=-1)
    pieces: list[str | None] = [None] * width
    for piece, number in vocab.items():
        pieces[number] = piece
    for token in added:
        if pieces[token.id] == token.content:
            pieces[token.id] = None
    if scores is not None:
        scores += (0.0,) * (width - len(scores))
    ids = {token.content: token.id for token in added}
    unk = model.get("unk_id") if unigram else vocab.get(model.get("unk_token") or "")
    return Blueprint(
        pieces=tuple(pieces),
        added=tuple(added),
        merges=tuple(_merges(model, source)),
        normalizer=data.get("normalizer"),
        pre_tokenizer=data.get("pre_tokenizer"),
        model="unigram" if unigram else "bpe",
        spelling=spelling,
        scores=scores,
        byte_fallback=bool(model.get("byte_fallback")),
        ignore_merges=bool(model.get("ignore_merges")),
        fuse_unk=bool(model.get("fuse_unk")),
        unk_id=unk,
        name=str(config.get("name_or_path") or source),
        size=max(width, size or 0),
        **named_ids(ids, config, generation),
        adds_bos=config.get("add_bos_token") is True or _post_processor_adds(data, _named(config, "bos_token")),
    )


def named_ids(
    ids: Mapping[str, int],
    config: Mapping[str, Any],
    generation: Mapping[str, Any] | None,
    *,
    eos_id: int | None = None,
    bos_id: int | None = None,
    pad_id: int | None = None,
) -> dict[str, Any]:
    """Fields of a blueprint: the start and the ends that the configuration names, else those given.

    ids: text of an added token -> id.
    """
    eos = ids.get(_named(config, "eos_token"), eos_id)
    return {
        "bos_id": ids.get(_named(config, "bos_token"), bos_id),
        "eos_id": eos,
        "pad_id": ids.get(_named(config, "pad_token"), pad_id),
        "eos_ids": tuple(dict.fromkeys(number for number in (eos, *_eos_ids(generation)) if number is not None)),
    }


def _post_processor_adds(data: Mapping[str, Any], text: str) -> bool:
    """True: the post-processor writes the special token ``text`` in front of a sequence."""
    for step in steps_of(data.get("post_processor")):
        first = next(iter(step.get("single") or ()), None)
        if isinstance(first, dict) and isinstance(first.get("SpecialToken"), dict):
            return bool(text) and first["SpecialToken"].get("id") == text
    return False


def _model(data: Any, source: str) -> tuple[dict[str, Any], Literal["byte_level", "sentencepiece"]]:
    """The ``model`` object with its type, and how its entries spell bytes."""
    if not isinstance(data, dict):
        raise VocabularyError(f"{source} is no tokenizer.json: its top level is no object")
    if isinstance(data.get("vocab"), list) and isinstance(data.get("config"), dict):
        raise VocabularyError(f"{source} is a tekken file (Mistral): read it with Vocabulary.from_tekken")
    model = data.get("model")
    if not isinstance(model, dict):
        raise VocabularyError(f"{source} has no object 'model', so it is no tokenizer.json; {SUPPORTED}")
    guess = "BPE" if "merges" in model else "Unigram" if isinstance(model.get("vocab"), list) else "unknown"
    kind = model.get("type") or guess
    if kind not in ("BPE", "Unigram"):
        raise VocabularyError(f"{source} is a {kind} tokenizer; {SUPPORTED}")
    if model.get("continuing_subword_prefix") or model.get("end_of_word_suffix") or model.get("dropout"):
        raise VocabularyError(f"{source} is a BPE tokenizer with word prefixes, suffixes or dropout; {SUPPORTED}")
    steps = [step for key in ("pre_tokenizer", "normalizer", "decoder") for step in steps_of(data.get(key))]
    kinds = {step.get("type") for step in steps}
    replacements = {step.get("replacement", SPACE) for step in steps if step.get("type") == "Metaspace"}
    if replacements - {SPACE}:
        raise VocabularyError(f"{source} writes spaces as {sorted(map(str, replacements))}; {SUPPORTED}")
    spaces = any(step.get("type") == "Replace" and step.get("content") == SPACE for step in steps)
    if kind == "BPE" and "ByteLevel" in kinds:
        if model.get("byte_fallback"):
            raise VocabularyError(f"{source} has byte fallback beside an alphabet of bytes; {SUPPORTED}")
        return {**model, "type": kind}, "byte_level"
    if replacements or spaces:
        return {**model, "type": kind}, "sentencepiece"
    raise VocabularyError(
        f"{source} is a {kind} tokenizer over characters in which no step says how spaces are written; {SUPPORTED}"
    )


def _vocab(model: Mapping[str, Any], source: str) -> dict[str, int]:
    vocab = model.get("vocab")
    if not isinstance(vocab, dict) or not vocab:
        raise VocabularyError(f"{source} has no vocabulary (model.vocab)")
    if not all(type(number) is int and 0 <= number < TOKENS_MAX for number in vocab.values()):
        raise VocabularyError(f"{source} is damaged: a token id is not an integer from 0 to {TOKENS_MAX}")
    if len(set(vocab.values())) != len(vocab):
        raise VocabularyError(f"{source} is damaged: two tokens of model.vocab have one id")
    return vocab


def _scored(model: Mapping[str, Any], source: str) -> tuple[dict[str, int], tuple[float, ...]]:
    """The pieces of a Unigram, listed with their scores; of a piece that stands twice, the last."""
    listed = model.get("vocab")
    if not isinstance(listed, list) or not listed or len(listed) > TOKENS_MAX:
        raise VocabularyError(f"{source} has no vocabulary (model.vocab)")
    for entry in listed:
        pair = isinstance(entry, (list, tuple)) and len(entry) == 2
        if not pair or not isinstance(entry[0], str) or not isinstance(entry[1], (int, float)):
            raise VocabularyError(f"{source} is damaged: {entry!r:.60} is no piece with a score")
    unk = model.get("unk_id")
    if unk is not None and (type(unk) is not int or not 0 <= unk < len(listed)):
        raise VocabularyError(f"{source} is damaged: its unknown token has id {unk!r}")
    return {entry[0]: number for number, entry in enumerate(listed)}, tuple(float(entry[1]) for entry in listed)


def _merges(model: Mapping[str, Any], source: str) -> Iterator[tuple[str, str]]:
    """Both spellings: ``"a b"`` and ``["a", "b"]``."""
    for merge in model.get("merges") or ():
        pair = merge.split(" ") if isinstance(merge, str) else merge
        if not isinstance(pair, list) or len(pair) != 2 or not all(isinstance(item, str) for item in pair):
            raise VocabularyError(f"{source} is damaged: {merge!r} is no merge of two tokens")
        yield pair[0], pair[1]


def added_tokens(
    data: Mapping[str, Any], config: Mapping[str, Any], vocab: Mapping[str, int], source: str
) -> list[AddedToken]:
    found: dict[str, AddedToken] = {}
    for entry in data.get("added_tokens") or ():
        token = _added_token(entry, entry.get("id") if isinstance(entry, dict) else None, vocab, source)
        found[token.content] = token
    decoder = config.get("added_tokens_decoder")
    for number, entry in decoder.items() if isinstance(decoder, dict) else ():
        token = _added_token(entry, int(number) if str(number).isdecimal() else None, vocab, source)
        known = found.get(token.content)
        found[token.content] = replace(token, id=known.id) if known else token
    for text in _special_texts(config):
        if text in found:
            found[text] = replace(found[text], special=True)
        elif text in vocab:
            found[text] = AddedToken(vocab[text], text, special=True)
    return sorted(found.values(), key=lambda token: token.id)


def _added_token(entry: Any, number: Any, vocab: Mapping[str, int], source: str) -> AddedToken:
    if not isinstance(entry, dict) or not isinstance(entry.get("content"), str):
        raise VocabularyError(f"{source} is damaged: {entry!r} is no added token")
    content = entry["content"]
    place: Any = vocab.get(content, number)
    if type(place) is not int or not 0 <= place < TOKENS_MAX:
        raise VocabularyError(f"{source} is damaged: added token {content!r} has id {place!r}")
    flags = {flag: bool(entry.get(flag)) for flag in _FLAGS}
    if "normalized" not in entry:
        flags["normalized"] = not flags["special"]
    return AddedToken(place, content, **flags)


def _special_texts(config: Mapping[str, Any]) -> Iterator[str]:
    """The texts that the configuration calls special by name."""
    for key in _NAMED:
        if text := _named(config, key):
            yield text
    extra = config.get("additional_special_tokens") or config.get("extra_special_tokens")
    entries: Iterable[Any] = extra.values() if isinstance(extra, dict) else extra if isinstance(extra, list) else ()
    for entry in entries:
        extra_text = entry.get("content") if isinstance(entry, dict) else entry
        if isinstance(extra_text, str) and extra_text:
            yield extra_text


def _named(config: Mapping[str, Any], key: str) -> str:
    """The text of a token that the configuration names, "" where it names none."""
    value = config.get(key)
    text = value.get("content") if isinstance(value, dict) else value
    return text if isinstance(text, str) else ""


def _eos_ids(generation: Mapping[str, Any] | None) -> tuple[int, ...]:
    value = (generation or {}).get("eos_token_id")
    numbers = value if isinstance(value, list) else [value]
    return tuple(number for number in numbers if type(number) is int)
