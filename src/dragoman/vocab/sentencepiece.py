"""Reads a SentencePiece model (``tokenizer.model``): a protocol buffer with pieces, scores and how text is normalised.

Only the wire format is needed, not the package: fields are a number and a value, unknown ones are passed over.
"""

from __future__ import annotations

import base64
import struct
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

from dragoman.errors import VocabularyError
from dragoman.vocab.blueprint import TOKENS_MAX, AddedToken, Blueprint
from dragoman.vocab.pieces import SPACE, byte_of
from dragoman.vocab.tokenizer_json import SUPPORTED, added_tokens, named_ids

# ModelProto: pieces, trainer_spec, normalizer_spec
_PIECES, _TRAINER, _NORMALIZER = 1, 2, 3
# ModelProto.SentencePiece: piece, score, type; and the types
_PIECE, _SCORE, _TYPE = 1, 2, 3
NORMAL, UNKNOWN, CONTROL, USER_DEFINED, UNUSED, BYTE = 1, 2, 3, 4, 5, 6
# TrainerSpec
_MODEL_TYPE, _SPACE_AS_SUFFIX, _BYTE_FALLBACK, _UNK, _BOS, _EOS, _PAD = 3, 24, 35, 40, 41, 42, 43
_MODELS = {1: "unigram", 2: "bpe", 3: "word", 4: "char"}
# NormalizerSpec
_CHARSMAP, _DUMMY_PREFIX, _EXTRA_SPACES, _ESCAPE = 2, 3, 4, 5


@dataclass(frozen=True, slots=True)
class Pieces:
    """Pieces by id with their scores and types, as SentencePiece and GGUF files list them."""

    texts: tuple[str, ...]
    scores: tuple[float, ...]
    types: tuple[int, ...]

    def blueprint(
        self,
        source: str,
        *,
        model: Any,
        normalizer: Mapping[str, Any] | None,
        pre_tokenizer: Mapping[str, Any] | None = None,
        special: frozenset[int] = frozenset(),
        **more: Any,
    ) -> Blueprint:
        """Control and user-defined pieces are added tokens. special: ids that are control tokens too."""
        added = []
        for number, (text, kind) in enumerate(zip(self.texts, self.types, strict=True)):
            if kind in (CONTROL, UNKNOWN) or (number in special and kind != UNUSED):
                added.append(AddedToken(number, text, special=True))
            elif kind == USER_DEFINED:
                added.append(AddedToken(number, text.replace(SPACE, " ")))
        taken = {token.id for token in added} | {n for n, kind in enumerate(self.types) if kind == UNUSED}
        return Blueprint(
            pieces=tuple(None if number in taken else text for number, text in enumerate(self.texts)),
            added=tuple(_once(added)),
            merges=(),
            normalizer=normalizer,
            pre_tokenizer=pre_tokenizer,
            model=model,
            spelling="sentencepiece",
            scores=self.scores,
            unk_id=next((number for number, kind in enumerate(self.types) if kind == UNKNOWN), None),
            name=source,
            **{"size": len(self.texts), "byte_fallback": BYTE in self.types, **more},
        )


def _once(added: list[AddedToken]) -> Iterator[AddedToken]:
    """A text that stands twice means the first token."""
    seen: set[str] = set()
    for token in added:
        if token.content not in seen:
            seen.add(token.content)
            yield token


def read_model(
    data: bytes,
    *,
    config: Mapping[str, Any] | None = None,
    generation: Mapping[str, Any] | None = None,
    size: int | None = None,
    source: str = "tokenizer.model",
) -> Blueprint:
    """The blueprint of a SentencePiece model.

    config: tokenizer_config.json; its added tokens come on top, ``legacy: false`` means that only the very first
    stretch of text gets a space in front. generation, size: as for tokenizer.json.

    Raises VocabularyError for a damaged file and for models of words or characters.
    """
    config = config or {}
    pieces, trainer, rules = _parse(data, source)
    kind = _MODELS.get(_whole(trainer, _MODEL_TYPE, 1, source), "unknown")
    if kind not in ("unigram", "bpe"):
        raise VocabularyError(f"{source} is a SentencePiece model of the kind {kind!r}; {SUPPORTED}")
    if _whole(trainer, _SPACE_AS_SUFFIX, 0, source) or not _whole(rules, _ESCAPE, 1, source):
        raise VocabularyError(f"{source} writes spaces behind words or not at all; {SUPPORTED}")
    prefix = config.get("add_prefix_space")
    if not isinstance(prefix, bool):
        prefix = bool(_whole(rules, _DUMMY_PREFIX, 1, source))
    first_only = config.get("legacy") is False
    steps = normalizer(
        rules.get(_CHARSMAP, b""),
        trim=bool(_whole(rules, _EXTRA_SPACES, 1, source)),
        prefix=prefix and not first_only,
    )
    metaspace = {"type": "Metaspace", "replacement": SPACE, "prepend_scheme": "first", "split": False}
    ids: dict[str, Any] = {
        label: number if (number := _signed(_whole(trainer, field, default, source))) >= 0 else None
        for label, field, default in (("bos_id", _BOS, 1), ("eos_id", _EOS, 2), ("pad_id", _PAD, -1))
    }
    plan = pieces.blueprint(
        source,
        model=kind,
        normalizer=steps,
        pre_tokenizer=metaspace if prefix and first_only else None,
        **{label: number for label, number in ids.items() if number is not None and number < len(pieces.texts)},
    )
    return _configured(plan, pieces, config, generation, size, source)


def _configured(
    plan: Blueprint,
    pieces: Pieces,
    config: Mapping[str, Any],
    generation: Mapping[str, Any] | None,
    size: int | None,
    source: str,
) -> Blueprint:
    """``plan`` with the tokens that the configuration adds, and its start and ends."""
    vocab = {text: number for number, text in enumerate(pieces.texts)}
    added = {token.content: token for token in plan.added}
    added |= {token.content: token for token in added_tokens({}, config, vocab, source)}
    width = max(len(pieces.texts), *(token.id + 1 for token in added.values()), 0)
    taken = {token.id for token in added.values()}
    entries = [*plan.pieces, *[None] * (width - len(plan.pieces))]
    scores = (*pieces.scores, *[0.0] * (width - len(pieces.scores)))
    ids = {token.content: token.id for token in added.values()}
    named = {"bos_id": plan.bos_id, "eos_id": plan.eos_id, "pad_id": plan.pad_id}
    return replace(
        plan,
        pieces=tuple(None if number in taken else piece for number, piece in enumerate(entries)),
        added=tuple(sorted(added.values(), key=lambda token: token.id)),
        scores=scores,
        size=max(width, size or 0),
        **named_ids(ids, config, generation, **named),
        adds_bos=config.get("add_bos_token") is not False,
        name=str(config.get("name_or_path") or source),
    )


def normalizer(charsmap: bytes, *, trim: bool, prefix: bool) -> dict[str, Any]:
    """The steps in the words of tokenizer.json. trim: no spaces at the ends and one where there are several."""
    steps: list[dict[str, Any]] = []
    if charsmap:
        steps.append({"type": "Precompiled", "precompiled_charsmap": base64.b64encode(charsmap).decode("ascii")})
    if trim:
        steps.append({"type": "Strip", "strip_left": True, "strip_right": True})
        steps.append({"type": "Replace", "pattern": {"Regex": " {2,}"}, "content": " "})
    if prefix:
        steps.append({"type": "Prepend", "prepend": SPACE})
    steps.append({"type": "Replace", "pattern": {"String": " "}, "content": SPACE})
    return {"type": "Sequence", "normalizers": steps}


def _parse(data: bytes, source: str) -> tuple[Pieces, dict[int, Any], dict[int, Any]]:
    texts: list[str] = []
    scores: list[float] = []
    types: list[int] = []
    trainer: dict[int, Any] = {}
    normalizer: dict[int, Any] = {}
    for field, value in _fields(data, source):
        if not isinstance(value, bytes):
            continue
        if field == _TRAINER:
            trainer = dict(_fields(value, source))
        elif field == _NORMALIZER:
            normalizer = dict(_fields(value, source))
        elif field == _PIECES:
            piece = dict(_fields(value, source))
            text, score = piece.get(_PIECE), piece.get(_SCORE, 0.0)
            if not isinstance(text, bytes) or not isinstance(score, float):
                raise VocabularyError(f"{source} is damaged: piece {len(texts)} has no text")
            try:
                texts.append(text.decode("utf-8"))
            except UnicodeDecodeError:
                raise VocabularyError(f"{source} is damaged: piece {len(texts)} is not UTF-8") from None
            scores.append(score)
            types.append(_whole(piece, _TYPE, NORMAL, source))
            if len(texts) > TOKENS_MAX:
                raise VocabularyError(f"{source} has over {TOKENS_MAX} pieces")
    if not texts or not trainer:
        raise VocabularyError(f"{source} is no SentencePiece model: it holds no pieces or does not say of which kind")
    if any(kind == BYTE and byte_of(text) is None for text, kind in zip(texts, types, strict=True)):
        raise VocabularyError(f"{source} is damaged: a byte piece is not written as <0x0A>")
    return Pieces(tuple(texts), tuple(scores), tuple(types)), trainer, normalizer


def _fields(data: bytes, source: str) -> Iterator[tuple[int, int | float | bytes]]:
    """(number, value) of one message. Raises VocabularyError where a length leads out of it."""
    at = 0
    while at < len(data):
        key, at = _varint(data, at, source)
        field, wire = key >> 3, key & 7
        if wire == 0:
            value: int | float | bytes
            value, at = _varint(data, at, source)
        elif wire == 2:
            length, at = _varint(data, at, source)
            value = data[at : at + length]
            at += length
        elif wire in (1, 5):
            width = 8 if wire == 1 else 4
            if at + width > len(data):
                raise VocabularyError(f"{source} is damaged: it ends within a number")
            value = struct.unpack_from("<d" if wire == 1 else "<f", data, at)[0]
            at += width
        else:
            raise VocabularyError(f"{source} is no SentencePiece model, or is damaged at byte {at}")
        if at > len(data):
            raise VocabularyError(f"{source} is damaged: it ends within a field")
        yield field, value


def _varint(data: bytes, at: int, source: str) -> tuple[int, int]:
    value = 0
    for shift in range(0, 70, 7):
        if at >= len(data):
            raise VocabularyError(f"{source} is damaged: it ends within a number")
        byte = data[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, at
    raise VocabularyError(f"{source} is no SentencePiece model, or is damaged at byte {at}")


def _whole(message: Mapping[int, Any], field: int, default: int, source: str) -> int:
    value = message.get(field, default)
    if type(value) is not int:
        raise VocabularyError(f"{source} is damaged: field {field} is no integer")
    return value


def _signed(number: int) -> int:
    """A negative number is written as 64 bits."""
    return number - (1 << 64) if number >= 1 << 63 else number
