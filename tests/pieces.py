"""Small tokenizers of SentencePiece's kind, made here, as each of the files that they come in."""

from __future__ import annotations

import base64
import json
import math
import struct
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from tokenizers import Tokenizer, models, normalizers, trainers

from tests.vocabularies import gguf_bytes

NORMAL, UNKNOWN, CONTROL, USER_DEFINED, UNUSED, BYTE = 1, 2, 3, 4, 5, 6
TEXT = (
    "The quick brown fox jumps over the lazy dog. What is the weather in Paris, today? It's 21 degrees; that'll do.\n"
    '{"name": "get_weather", "arguments": {"city": "Paris", "days": [1, 2, 3]}} the   weather in the city  of Paris\n'
)


@dataclass(frozen=True)
class Small:
    """pieces: (text, score, type) by id. merges: the BPE's, as it was trained."""

    pieces: tuple[tuple[str, float, int], ...]
    merges: tuple[tuple[str, str], ...]

    @property
    def ids(self) -> dict[str, int]:
        return {text: number for number, (text, _, _) in enumerate(self.pieces)}

    @property
    def scores(self) -> dict[str, float]:
        """Of the pieces that text is cut into."""
        return {text: score for text, score, kind in self.pieces if kind == NORMAL}


def small_pieces(*, fallback: bool = True, more: Sequence[tuple[str, int]] = ()) -> Small:
    """Three control tokens, ``more`` (text and type), all bytes with ``fallback``, then pieces by rank."""
    tokenizer = Tokenizer(models.BPE())
    tokenizer.normalizer = normalizers.Replace(" ", "\u2581")
    trainer = trainers.BpeTrainer(vocab_size=260, show_progress=False, max_token_length=8)
    tokenizer.train_from_iterator(TEXT.splitlines() * 3 + ["é ü 日本 <s> </s> <tool>"], trainer)
    model = json.loads(tokenizer.to_str())["model"]
    start = [("<unk>", UNKNOWN), ("<s>", CONTROL), ("</s>", CONTROL), *more]
    start += [(f"<0x{byte:02X}>", BYTE) for byte in range(256 if fallback else 0)]
    joined = {left + right for left, right in model["merges"]}
    # Where a piece that was joined is a character's neighbour, the score alone decides; characters have the lowest.
    words = [(left + right, -float(rank)) for rank, (left, right) in enumerate(model["merges"], 1)]
    letters = [(text, -1000.0 - number) for number, text in enumerate(model["vocab"]) if text not in joined]
    pieces = [(text, 0.0, kind) for text, kind in start] + [(text, score, NORMAL) for text, score in [*words, *letters]]
    return Small(tuple(pieces), tuple((left, right) for left, right in model["merges"]))


def tokenizer_json(small: Small, *, unigram: bool = False, prefix: bool = True) -> dict[str, Any]:
    """As tokenizer.json, with a space in front of each stretch of text if ``prefix``."""
    steps: list[dict[str, Any]] = [{"type": "Prepend", "prepend": "\u2581"}] if prefix else []
    steps.append({"type": "Replace", "pattern": {"String": " "}, "content": "\u2581"})
    flags = {"lstrip": False, "rstrip": False, "single_word": False, "normalized": False}
    fallback = any(kind == BYTE for _, _, kind in small.pieces)
    model: dict[str, Any] = {"type": "BPE", "unk_token": "<unk>", "fuse_unk": True, "byte_fallback": fallback}
    if unigram:
        listed = [[text, score] for text, score, _ in small.pieces]
        model = {"type": "Unigram", "unk_id": 0, "vocab": listed, "byte_fallback": fallback}
    else:
        model |= {"vocab": small.ids, "merges": [list(merge) for merge in small.merges]}
    return {
        "version": "1.0",
        "truncation": None,
        "padding": None,
        "added_tokens": [
            {"id": number, "content": text, "special": kind != USER_DEFINED, **flags}
            for number, (text, _, kind) in enumerate(small.pieces)
            if kind in (UNKNOWN, CONTROL, USER_DEFINED)
        ],
        "normalizer": {"type": "Sequence", "normalizers": steps},
        "pre_tokenizer": None,
        "post_processor": None,
        "decoder": None,
        "model": model,
    }


def varint(number: int) -> bytes:
    out = bytearray()
    number &= (1 << 64) - 1
    while number > 0x7F:
        out.append(number & 0x7F | 0x80)
        number >>= 7
    return bytes([*out, number])


def field(number: int, value: float | bytes) -> bytes:
    """A field of a protocol buffer: whole number, 32-bit float or bytes."""
    if isinstance(value, bytes):
        return varint(number << 3 | 2) + varint(len(value)) + value
    if isinstance(value, float):
        return varint(number << 3 | 5) + struct.pack("<f", value)
    return varint(number << 3) + varint(value)


def model_file(small: Small, *, unigram: bool = False, prefix: bool = True, trim: bool = False, kind: int = 0) -> bytes:
    """As tokenizer.model."""
    pieces = b"".join(
        field(1, field(1, text.encode()) + field(2, float(score)) + field(3, number))
        for text, score, number in small.pieces
    )
    fallback = any(number == BYTE for _, _, number in small.pieces)
    trainer = field(3, kind or (1 if unigram else 2)) + field(35, int(fallback)) + field(43, -1)
    normalizer = field(1, b"identity") + field(3, int(prefix)) + field(4, int(trim)) + field(5, 1)
    return pieces + field(2, trainer) + field(3, normalizer) + field(9, b"a field that nobody knows")


def read_pieces(data: bytes) -> list[tuple[str, float, int]]:
    """The pieces of a tokenizer.model whose fields are in the usual order and sizes."""
    found, at = [], 0
    while data[at] == 0x0A:
        end = at + 2 + data[at + 1]
        size = data[at + 3]
        text, rest = data[at + 4 : at + 4 + size], data[at + 4 + size : end]
        found.append((text.decode(), struct.unpack("<f", rest[1:5])[0], rest[6] if len(rest) > 6 else NORMAL))
        at = end
    return found


def gguf_file(small: Small, *, unigram: bool = False, prefix: bool = True, more: Sequence[Any] = ()) -> bytes:
    """As a GGUF file."""
    texts, scores, kinds = zip(*small.pieces, strict=True)
    return gguf_bytes(
        [
            ("tokenizer.ggml.model", 8, "t5" if unigram else "llama"),
            ("tokenizer.ggml.tokens", 9, (8, texts)),
            ("tokenizer.ggml.scores", 9, (6, scores)),
            ("tokenizer.ggml.token_type", 9, (5, kinds)),
            ("tokenizer.ggml.bos_token_id", 4, 1),
            ("tokenizer.ggml.eos_token_id", 4, 2),
            ("tokenizer.ggml.unknown_token_id", 4, 0),
            ("tokenizer.ggml.add_space_prefix", 7, prefix),
            *more,
        ]
    )


def tiny_model(small: Small, **how: Any) -> bytes:
    """A GGUF file that engines load: one layer of a Llama without a thought in it, and the pieces as its vocabulary."""
    width, wide = 32, 32
    shapes = {
        "token_embd.weight": (width, len(small.pieces)),
        "output_norm.weight": (width,),
        **{f"blk.0.{name}_norm.weight": (width,) for name in ("attn", "ffn")},
        **{f"blk.0.attn_{name}.weight": (width, width) for name in ("q", "k", "v", "output")},
        **{f"blk.0.ffn_{name}.weight": (width, wide) for name in ("gate", "up", "down")},
    }
    numbers = {"context_length": 4096, "embedding_length": width, "block_count": 1, "feed_forward_length": wide}
    numbers |= {"attention.head_count": 1, "rope.dimension_count": width}
    pairs: list[tuple[str, int, Any]] = [("general.architecture", 8, "llama")]
    pairs += [(f"llama.{name}", 4, number) for name, number in numbers.items()]
    pairs.append(("llama.attention.layer_norm_rms_epsilon", 6, 1e-5))
    head = gguf_file(small, more=pairs, **how)
    infos, at = b"", 0
    for name, shape in shapes.items():
        infos += struct.pack("<Q", len(name)) + name.encode() + struct.pack("<I", len(shape))
        infos += struct.pack(f"<{len(shape)}QIQ", *shape, 0, at)
        at += math.prod(shape) * 4  # a multiple of the 32 bytes that tensors are aligned to
    head = head[:8] + struct.pack("<Q", len(shapes)) + head[16:] + infos
    return head + bytes(-len(head) % 32 + at)


WORDS = [bytes([byte]) for byte in range(256)] + [
    *(b"th", b"the", b" the", b"er", b"in", b" in", b"at", b"  ", b"    ", b'": "', b"Paris", b" Paris", "é".encode())
]
PATTERN = r"[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+"


def tekken_file(*, controls: int = 30, listed: Sequence[str] | None = None, **config: Any) -> dict[str, Any]:
    """As a parsed tekken.json; it has one word more than the model uses."""
    words = [*WORDS, b"never used"]
    data: dict[str, Any] = {
        "config": {
            "pattern": PATTERN,
            "num_vocab_tokens": len(words),
            "default_vocab_size": controls + len(WORDS),
            "default_num_special_tokens": controls,
            "version": "v3",
            **config,
        },
        "vocab": [
            {"rank": rank, "token_bytes": base64.b64encode(word).decode(), "token_str": None}
            for rank, word in enumerate(words)
        ],
    }
    if listed is not None:
        names = [{"rank": rank, "token_str": text, "is_control": True} for rank, text in enumerate(listed)]
        data["special_tokens"] = names
    return data


def tiktoken_file() -> bytes:
    return b"".join(b"%b %d\n" % (base64.b64encode(word), rank) for rank, word in enumerate(WORDS))
