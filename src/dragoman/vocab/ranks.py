"""Reads tokenizers that are a list of byte strings by rank: tekken.json (Mistral) and files of the package tiktoken.

Both merge whichever neighbours make the byte string of the lowest rank. A tekken file says how it cuts text; a tiktoken
file does not: that stands in the model's code, so the caller names it as for a GGUF file.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from dragoman.errors import VocabularyError
from dragoman.vocab.blueprint import TOKENS_MAX, AddedToken, Blueprint
from dragoman.vocab.bytelevel import to_piece
from dragoman.vocab.pretokenizers import SPLITS, byte_level_split
from dragoman.vocab.tokenizer_json import added_tokens, named_ids

# Control tokens of tekken files that do not list them (versions up to v11), in the order of their ids.
_TEKKEN_CONTROLS = (
    *("<unk>", "<s>", "</s>", "[INST]", "[/INST]", "[AVAILABLE_TOOLS]", "[/AVAILABLE_TOOLS]", "[TOOL_RESULTS]"),
    *("[/TOOL_RESULTS]", "[TOOL_CALLS]", "[IMG]", "<pad>", "[IMG_BREAK]", "[IMG_END]", "[PREFIX]", "[MIDDLE]"),
    *("[SUFFIX]", "[SYSTEM_PROMPT]", "[/SYSTEM_PROMPT]", "[TOOL_CONTENT]"),
)


def read_tekken(data: Any, *, size: int | None = None, source: str = "tekken.json") -> Blueprint:
    """The blueprint of a parsed tekken.json. size: the number of logits. Raises VocabularyError for a damaged file."""
    settings = data.get("config") if isinstance(data, dict) else None
    listed = data.get("vocab") if isinstance(data, dict) else None
    if not isinstance(settings, dict) or not isinstance(listed, list):
        raise VocabularyError(f"{source} is no tekken file: it has no config or no vocab")
    pattern = settings.get("pattern")
    width, controls = settings.get("default_vocab_size"), settings.get("default_num_special_tokens")
    if not isinstance(pattern, str) or type(width) is not int or type(controls) is not int:
        raise VocabularyError(
            f"{source} is damaged: config.pattern, .default_vocab_size or .default_num_special_tokens is missing"
        )
    if not 0 <= controls < width <= controls + len(listed) or width > TOKENS_MAX:
        raise VocabularyError(
            f"{source} is damaged: {controls} special tokens and {len(listed)} others do not make {width}"
        )
    words = [_decoded(entry.get("token_bytes") if isinstance(entry, dict) else None, source) for entry in listed]
    names = _tekken_controls(data.get("special_tokens"), controls, source)
    added = [AddedToken(number, text, special=True) for number, text in enumerate(names)]
    ranked = dict(enumerate(words[: width - controls], controls))
    plan = _ranked(ranked, added, byte_level_split(pattern), source=source, size=size)
    ids = {token.content: token.id for token in added}
    return replace(
        plan, **named_ids({}, {}, None, bos_id=ids.get("<s>"), eos_id=ids.get("</s>"), pad_id=ids.get("<pad>"))
    )


def _tekken_controls(listed: Any, count: int, source: str) -> list[str]:
    """The names of the control tokens by id; those without one get the name that they have elsewhere."""
    names = dict(enumerate(_TEKKEN_CONTROLS)) if listed is None else {}
    for entry in listed or ():
        rank, text = (entry.get("rank"), entry.get("token_str")) if isinstance(entry, dict) else (None, None)
        if type(rank) is not int or not isinstance(text, str) or not text:
            raise VocabularyError(f"{source} is damaged: {entry!r:.60} is no special token")
        names[rank] = text
    return [names.get(number, f"<SPECIAL_{number}>") for number in range(count)]


def read_tiktoken(
    data: bytes,
    *,
    pre: str | None,
    config: Mapping[str, Any] | None = None,
    generation: Mapping[str, Any] | None = None,
    size: int | None = None,
    source: str = "the tiktoken file",
) -> Blueprint:
    """The blueprint of a tiktoken file: a line for each token, its bytes in base64 and its rank, which is its id.

    pre: the name of the pre-tokeniser. config: tokenizer_config.json, whose added_tokens_decoder lists the control
    tokens: the file itself has none. Raises VocabularyError for a damaged file and an unknown pre-tokeniser.
    """
    split = SPLITS.get(pre or "")
    if split is None:
        raise VocabularyError(
            f"{source} does not say how it cuts text and {pre!r} is no known pre-tokeniser: "
            f"give pre=, one of {', '.join(SPLITS)}, or load the model's tokenizer.json"
        )
    words: dict[int, bytes] = {}
    for line in filter(None, data.splitlines()):
        word, _, rank = line.partition(b" ")
        if not rank.isdigit() or not (len(rank) < 10 and int(rank) < TOKENS_MAX) or int(rank) in words:
            raise VocabularyError(f"{source} is no tiktoken file, or is damaged: {line[:60]!r} has no rank of its own")
        words[int(rank)] = _decoded(word.decode("latin-1"), source)
    if not words:
        raise VocabularyError(f"{source} holds no tokens")
    config = config or {}
    added = added_tokens({}, config, {}, source)
    if taken := [token.content for token in added if token.id in words]:
        raise VocabularyError(
            f"{source} and the configuration do not belong together: {taken[0]!r} has the id of a word"
        )
    return replace(
        _ranked(words, added, split.pre_tokenizer, source=source, size=size),
        normalizer=split.normalizer,
        name=str(config.get("name_or_path") or source),
        **named_ids({token.content: token.id for token in added}, config, generation),
    )


def _ranked(
    words: Mapping[int, bytes],
    added: Sequence[AddedToken],
    pre_tokenizer: Mapping[str, Any],
    *,
    source: str,
    size: int | None,
) -> Blueprint:
    """A byte-level BPE in which the id of a word is its rank, or follows it."""
    pieces = {number: to_piece(word) for number, word in words.items()}
    if len(set(pieces.values())) != len(pieces):
        raise VocabularyError(f"{source} is damaged: one byte string stands twice")
    width = 1 + max((*pieces, *(token.id for token in added)))
    return Blueprint(
        pieces=tuple(pieces.get(number) for number in range(width)),
        added=tuple(added),
        merges=(),
        normalizer=None,
        pre_tokenizer=pre_tokenizer,
        scores=tuple(float(-number) for number in range(width)),
        ignore_merges=True,
        name=source,
        size=max(width, size or 0),
    )


def _decoded(text: Any, source: str) -> bytes:
    try:
        word = base64.b64decode(text, validate=True)
    except (TypeError, ValueError, binascii.Error):
        word = b""
    if not word:
        raise VocabularyError(f"{source} is damaged: {text!r:.40} is no byte string in base64")
    return word
