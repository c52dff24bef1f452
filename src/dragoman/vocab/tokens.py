"""A model's vocabulary: the bytes of its ordinary tokens, its control tokens, and text to ids and back."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any

from dragoman.errors import UsageError, VocabularyError
from dragoman.vocab import gguf_tokenizer, ranks, sentencepiece, tokenizer_json
from dragoman.vocab.blueprint import Blueprint
from dragoman.vocab.encode import Encoder, Part
from dragoman.vocab.gguf import MAGIC, Metadata, read_metadata

_FILE_BYTES_MAX = 512_000_000  # the largest tokenizer.json in use has 35 MB
# SentencePiece models by the names that they are published under.
_PIECE_FILES = ("tokenizer.model", "spiece.model", "sentencepiece.bpe.model")
_RANK_FILES = ("tiktoken.model", "qwen.tiktoken")
_UNCUT = "a tiktoken file, which does not say how it cuts text: name the cut (pre=)"
_OTHER_FILES = {
    **dict.fromkeys(_RANK_FILES, _UNCUT),
    "vocab.txt": "a WordPiece vocabulary",
    "vocab.json": "the halves of a tokenizer, vocab.json and merges.txt: load it with transformers and save it",
}


@dataclass(frozen=True, slots=True, eq=False)
class Vocabulary:
    """The tokens of one model. Immutable and safe to share; loading does no more I/O than reading the named files.

    token_bytes  # id -> bytes of an ordinary token, None for control tokens and for ids without a token; len == size
    controls  # text -> id of every control token: all added tokens except words, white space and what the caller names
    special_ids: control tokens that the tokenizer itself calls special.
    missing_bytes: bytes that no token can spell; :meth:`encode` leaves out characters that need one.
    hash: of size, token bytes and control tokens: a key for caches.
    """

    size: int
    token_bytes: tuple[bytes | None, ...]
    controls: Mapping[str, int]
    special_ids: frozenset[int]
    missing_bytes: frozenset[int]
    hash: str
    _plan: Blueprint
    _control_texts: Mapping[int, str]
    _encoder: Encoder

    @classmethod
    def from_tokenizer_json(
        cls,
        source: str | os.PathLike[str] | bytes | Mapping[str, Any],
        *,
        config: Mapping[str, Any] | None = None,
        generation: Mapping[str, Any] | None = None,
        size: int | None = None,
        text_tokens: Iterable[str] = (),
    ) -> Vocabulary:
        """From a tokenizer.json: its path, its bytes or its parsed content.

        config, generation: the parsed tokenizer_config.json and generation_config.json.
        size: the number of logits, where the model has more than there are tokens.
        text_tokens: added tokens that are ordinary text. Raises VocabularyError.
        """
        name = "tokenizer.json"
        if isinstance(source, (str, os.PathLike)):
            name = os.fspath(source)
            source = _read(Path(source))
        data = tokenizer_json.parse_json(source, source=name) if isinstance(source, bytes) else source
        plan = tokenizer_json.read_tokenizer(data, config=config, generation=generation, size=size, source=name)
        return cls.from_blueprint(plan, text_tokens=text_tokens)

    @classmethod
    def from_folder(
        cls, path: str | os.PathLike[str], *, pre: str | None = None, text_tokens: Iterable[str] = ()
    ) -> Vocabulary:
        """From a model folder: tokenizer.json, else tekken.json, else a SentencePiece model, else a tiktoken file.

        The configuration files beside it are read where they exist. pre: see :meth:`from_tiktoken`.
        """
        folder = Path(path)
        names = ("tokenizer.json", "tekken.json", *_PIECE_FILES, *(_RANK_FILES if pre else ()))
        files = [folder / name for name in names]
        file = next((file for file in files if file.is_file()), None)
        if file is None:
            raise VocabularyError(_missing_message(folder))
        config, generation, model = (
            _read_config(folder / f"{name}.json") for name in ("tokenizer_config", "generation_config", "config")
        )
        size = _logits(model)
        if file.name == "tekken.json":
            return cls.from_tekken(file, size=size, text_tokens=text_tokens)
        if pre and file.name in _RANK_FILES:
            return cls.from_tiktoken(
                file, pre=pre, config=config, generation=generation, size=size, text_tokens=text_tokens
            )
        load = cls.from_tokenizer_json if file.suffix == ".json" else cls.from_sentencepiece
        return load(file, config=config, generation=generation, size=size, text_tokens=text_tokens)

    @classmethod
    def from_file(cls, path: str | os.PathLike[str], *, text_tokens: Iterable[str] = ()) -> Vocabulary:
        """From a file of any kind that is known by its content, or a model folder.

        Kinds: GGUF, tokenizer.json, tekken.json, a SentencePiece model; a tiktoken file does not say enough.
        """
        place = Path(path)
        if place.is_dir():
            return cls.from_folder(place, text_tokens=text_tokens)
        if _starts(place, len(MAGIC)) == MAGIC:
            return cls.from_gguf(place, text_tokens=text_tokens)
        data = _read(place)
        if data.lstrip()[:1] != b"{":
            return cls.from_blueprint(sentencepiece.read_model(data, source=str(path)), text_tokens=text_tokens)
        parsed = tokenizer_json.parse_json(data, source=str(path))
        if isinstance(parsed.get("vocab"), list):
            return cls.from_blueprint(ranks.read_tekken(parsed, source=str(path)), text_tokens=text_tokens)
        return cls.from_blueprint(tokenizer_json.read_tokenizer(parsed, source=str(path)), text_tokens=text_tokens)

    @classmethod
    def from_sentencepiece(
        cls,
        source: str | os.PathLike[str] | bytes,
        *,
        config: Mapping[str, Any] | None = None,
        generation: Mapping[str, Any] | None = None,
        size: int | None = None,
        text_tokens: Iterable[str] = (),
    ) -> Vocabulary:
        """From a SentencePiece model (``tokenizer.model``): its path or its bytes.

        The other arguments are those of :meth:`from_tokenizer_json`. Raises VocabularyError.
        """
        data, name = _given(source, "tokenizer.model")
        plan = sentencepiece.read_model(data, config=config, generation=generation, size=size, source=name)
        return cls.from_blueprint(plan, text_tokens=text_tokens)

    @classmethod
    def from_tekken(
        cls, source: str | os.PathLike[str] | bytes, *, size: int | None = None, text_tokens: Iterable[str] = ()
    ) -> Vocabulary:
        """From a tekken.json: its path or its bytes. Raises VocabularyError."""
        data, name = _given(source, "tekken.json")
        plan = ranks.read_tekken(tokenizer_json.parse_json(data, source=name), size=size, source=name)
        return cls.from_blueprint(plan, text_tokens=text_tokens)

    @classmethod
    def from_tiktoken(
        cls,
        source: str | os.PathLike[str] | bytes,
        *,
        pre: str,
        config: Mapping[str, Any] | None = None,
        generation: Mapping[str, Any] | None = None,
        size: int | None = None,
        text_tokens: Iterable[str] = (),
    ) -> Vocabulary:
        """From a file of the package tiktoken, which holds byte strings by rank and nothing else.

        pre: how text is cut, by the names that GGUF files use. config: the parsed tokenizer_config.json, whose
        ``added_tokens_decoder`` lists the control tokens. Raises VocabularyError.
        """
        data, name = _given(source, "the tiktoken file")
        plan = ranks.read_tiktoken(data, pre=pre, config=config, generation=generation, size=size, source=name)
        return cls.from_blueprint(plan, text_tokens=text_tokens)

    @classmethod
    def from_gguf(
        cls, source: str | os.PathLike[str] | Metadata, *, pre: str | None = None, text_tokens: Iterable[str] = ()
    ) -> Vocabulary:
        """From a GGUF file or its metadata. ``pre`` names the pre-tokeniser where the file does not or is wrong.

        Raises VocabularyError for a file that is damaged, of another kind or of an unknown pre-tokeniser.
        """
        name = "the GGUF metadata"
        if not isinstance(source, Metadata):
            name = os.fspath(source)
            source = read_metadata(source)
        plan = gguf_tokenizer.read_tokenizer(source, pre=pre, source=name)
        return cls.from_blueprint(plan, text_tokens=text_tokens)

    @classmethod
    def from_blueprint(cls, plan: Blueprint, *, text_tokens: Iterable[str] = ()) -> Vocabulary:
        """From what a reader found. ``text_tokens``: added tokens that are ordinary text."""
        named = frozenset(text_tokens)
        if unknown := named - {token.content for token in plan.added}:
            raise UsageError(f"{sorted(unknown)} are no added tokens of {plan.name}", param="text_tokens")
        marks = [token for token in plan.added if token.is_marker and token.content not in named]
        data = [None if piece is None else plan.data(piece) for piece in plan.pieces]
        for token in plan.added:
            data[token.id] = plan.text_data(token)
        for token in marks:
            data[token.id] = None
        data += [None] * (plan.size - len(data))
        controls = {token.content: token.id for token in marks}
        missing = _missing(plan, data)
        return cls(
            size=plan.size,
            token_bytes=tuple(data),
            controls=MappingProxyType(controls),
            special_ids=frozenset(token.id for token in marks if token.special),
            missing_bytes=missing,
            hash=_hash(data, controls),
            _plan=plan,
            _control_texts=MappingProxyType({token.id: token.content for token in marks}),
            _encoder=Encoder(plan, frozenset(controls), frozenset() if plan.drops_unknown else missing),
        )

    @property
    def name(self) -> str:
        """The model's name if the file tells, else where the vocabulary came from."""
        return self._plan.name

    @property
    def bos_id(self) -> int | None:
        return self._plan.bos_id

    @property
    def eos_id(self) -> int | None:
        return self._plan.eos_id

    @property
    def eot_id(self) -> int | None:
        """The end-of-turn token where the file names one beside eos."""
        return self._plan.eot_id

    @property
    def pad_id(self) -> int | None:
        return self._plan.pad_id

    @property
    def eos_ids(self) -> tuple[int, ...]:
        """Every token that the files call an end, the main one first."""
        return self._plan.eos_ids

    @property
    def adds_bos(self) -> bool:
        """True: the tokenizer puts bos in front of every text. :meth:`encode` never does: the template writes it."""
        return self._plan.adds_bos

    @property
    def adds_space(self) -> bool:
        """True: every stretch of text, at the start or behind a control token, is encoded with a space in front.

        A model that was trained so writes that space too, and its tokens stand for it: the bytes here are literal.
        """
        return self._plan.adds_space

    def bytes_of(self, token_id: int) -> bytes | None:
        """The bytes of an ordinary token; None for a control token and for an id without a token."""
        self._check(token_id)
        return self.token_bytes[token_id]

    def text_of(self, token_id: int) -> str:
        """The token as text for people: bytes that are no whole character show as U+FFFD, an unused id as ""."""
        self._check(token_id)
        return self._control_texts.get(token_id) or (self.token_bytes[token_id] or b"").decode("utf-8", "replace")

    def is_control(self, token_id: int) -> bool:
        return token_id in self._control_texts

    def decode(self, token_ids: Iterable[int], *, controls: bool = True) -> bytes:
        """The bytes that the tokens stand for; control tokens as their text, or left out with ``controls=False``."""
        out = bytearray()
        for token_id in token_ids:
            self._check(token_id)
            out += self.token_bytes[token_id] or b""
            if controls and token_id in self._control_texts:
                out += self._control_texts[token_id].encode("utf-8")
        return bytes(out)

    def encode(
        self, text: str | Sequence[Part], *, literals: Iterable[str] = (), controls: Iterable[str] = ()
    ) -> list[int]:
        """Token ids of a text, or of the parts (text, is_input) of a rendered prompt. No bos is added.

        A control token comes out only where it stands wholly in a part that is no input; a bare ``str`` is all input.
        For all other text the ids are the tokenizer's own. Special tokens are control tokens; other added ones are
        where they occur in ``literals`` (texts of the template), in ``controls``, or in a part that is no input.

        Raises UsageError for lone surrogates or where the package tokenizers is missing.
        """
        parts = [(text, True)] if isinstance(text, str) else text
        return self._encoder.encode(parts, self._encoder.markers_in(literals) | frozenset(controls))

    def _check(self, token_id: int) -> None:
        if not 0 <= token_id < self.size:
            raise UsageError(f"token id {token_id} is outside of the vocabulary of {self.size}")

    def __repr__(self) -> str:
        return f"<Vocabulary {self.name!r}: {self.size} tokens, {len(self.controls)} control tokens>"


def _missing(plan: Blueprint, data: Sequence[bytes | None]) -> frozenset[int]:
    """The bytes that are no token, or, where tokens are characters, stand in none."""
    known = {item for item in data if item is not None}
    if plan.drops_unknown and not plan.byte_fallback:
        return frozenset(range(256)).difference(*known)
    return frozenset(range(256)) - {item[0] for item in known if len(item) == 1}


def _hash(data: Sequence[bytes | None], controls: Mapping[str, int]) -> str:
    """SHA-256 over lengths and contents, so that no two vocabularies are written alike."""
    digest = hashlib.sha256(b"dragoman vocabulary 1")
    digest.update(b"".join(b"-" if item is None else b"%d:%b" % (len(item), item) for item in data))
    for text, number in sorted(controls.items()):
        encoded = text.encode("utf-8")
        digest.update(b"=%d:%d:%b" % (number, len(encoded), encoded))
    return digest.hexdigest()


def _starts(path: Path, count: int) -> bytes:
    """The first bytes of a file."""
    try:
        with path.open("rb") as file:
            return file.read(count)
    except OSError as error:
        raise VocabularyError(f"cannot read {path}: {error.strerror or error}") from error


def _given(source: str | os.PathLike[str] | bytes, name: str) -> tuple[bytes, str]:
    """The bytes, and what to call them."""
    if isinstance(source, bytes):
        return source, name
    return _read(Path(source)), os.fspath(source)


def _read(path: Path) -> bytes:
    try:
        if path.is_dir():
            raise VocabularyError(f"{path} is a folder: read it with Vocabulary.from_folder")
        if path.stat().st_size > _FILE_BYTES_MAX:
            raise VocabularyError(f"{path} has over {_FILE_BYTES_MAX} bytes, so it is no tokenizer file")
        return path.read_bytes()
    except OSError as error:
        raise VocabularyError(f"cannot read {path}: {error.strerror or error}") from error


def _read_config(path: Path) -> dict[str, Any]:
    """The object in a configuration file, {} where there is no such file."""
    if not path.is_file():
        return {}
    value = tokenizer_json.parse_json(_read(path), source=str(path))
    if not isinstance(value, dict):
        raise VocabularyError(f"{path} should hold a JSON object")
    return value


def _logits(model: Mapping[str, Any]) -> int | None:
    """The number of logits by config.json; models of several modalities keep it in ``text_config``."""
    text = model.get("text_config")
    for place in (model, text if isinstance(text, dict) else {}):
        if type(place.get("vocab_size")) is int:
            return int(place["vocab_size"])
    return None


def _missing_message(folder: Path) -> str:
    if not folder.is_dir():
        return f"{folder} is no folder"
    for name, what in _OTHER_FILES.items():
        if (folder / name).is_file():
            return f"{folder} holds {what} ({name}) and no tokenizer.json; {tokenizer_json.SUPPORTED}"
    return f"{folder} holds no tokenizer.json, tekken.json or tokenizer.model"
