"""What a tokenizer file says, whatever its format: what all readers produce and the encoder builds from."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from dragoman.errors import VocabularyError
from dragoman.vocab.bytelevel import to_bytes
from dragoman.vocab.pieces import SPACE, piece_bytes

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
        plain = self.content.replace(SPACE, " ").isspace() or self.content.replace("_", "a").isalnum()
        return len(self.content) > 1 and (self.special or not plain)


def steps_of(value: Any) -> Iterator[Mapping[str, Any]]:
    """The steps of a normalizer, pre-tokenizer, decoder or post-processor of tokenizer.json, sequences unfolded."""
    pending = [value]
    while pending:
        step = pending.pop()
        if isinstance(step, Mapping):
            yield step
            for key in ("pretokenizers", "normalizers", "processors", "decoders"):
                pending.extend(step.get(key) or ())


@dataclass(frozen=True, slots=True)
class Blueprint:
    """A tokenizer over bytes or over characters.

    pieces: id -> entry as ``spelling`` says; None where the id has none (added, unused).
    added: ascending by id; an added token's id has no piece. merges: of a BPE, in order of rank.
    normalizer, pre_tokenizer: in the words of tokenizer.json. size: the number of logits.
    spelling: ``byte_level``, an alphabet of 256 characters for bytes; ``sentencepiece``, text with U+2581 for a space.
    scores: by id; of a Unigram, or of a BPE without a list of merges: the pair with the highest score goes first.
    byte_fallback: pieces such as ``<0x0A>`` are bytes, for characters without a piece.
    """

    pieces: tuple[str | None, ...]
    added: tuple[AddedToken, ...]
    merges: tuple[tuple[str, str], ...]
    normalizer: Mapping[str, Any] | None
    pre_tokenizer: Mapping[str, Any] | None
    model: Literal["bpe", "unigram"] = "bpe"
    spelling: Literal["byte_level", "sentencepiece"] = "byte_level"
    scores: tuple[float, ...] | None = None
    byte_fallback: bool = False
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

    def data(self, piece: str) -> bytes:
        """The bytes that an entry stands for."""
        if self.spelling == "byte_level":
            return to_bytes(piece)
        return piece_bytes(piece, byte_fallback=self.byte_fallback)

    def text_data(self, token: AddedToken) -> bytes:
        """The bytes of an added token as text; white space of a SentencePiece model may be spelled as in its pieces."""
        spelled = self.spelling == "sentencepiece" and not token.is_marker
        return self.data(token.content) if spelled else token.content.encode("utf-8")

    @property
    def adds_space(self) -> bool:
        """True: each stretch of text gets a space in front."""
        steps = [step for value in (self.normalizer, self.pre_tokenizer) for step in steps_of(value)]
        prepends = any(step.get("type") == "Prepend" and step.get("prepend") == SPACE for step in steps)
        # a file without the newer word says it with the older one, or means "always"
        schemes = (
            step.get("prepend_scheme", "always" if step.get("add_prefix_space", True) else "never")
            for step in steps
            if step.get("type") == "Metaspace"
        )
        return prepends or "always" in schemes

    @property
    def drops_unknown(self) -> bool:
        """True: a character without a piece is left out when it is met, whatever its bytes.

        A SentencePiece model normalises first, so which characters those are is not known before.
        """
        return self.spelling == "sentencepiece"


def _check(plan: Blueprint) -> None:
    """Raise VocabularyError where ids or contents contradict each other."""
    width = len(plan.pieces)
    if plan.scores is not None and len(plan.scores) != width:
        raise VocabularyError(f"the vocabulary has {width} tokens, but {len(plan.scores)} scores")
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
