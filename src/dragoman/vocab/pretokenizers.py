"""The pre-tokeniser names that a GGUF file may carry (``tokenizer.ggml.pre``) and the text splits they stand for.

A GGUF holds only the name; the split is that of the tokenizer.json which the model was published with. A name that is
not here is an error: a guess would give ids that are almost right. The comments name the model whose tokenizer.json
prints the regular expression.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any


@dataclass(frozen=True, slots=True)
class Split:
    """How text is cut before merging, in the words of tokenizer.json."""

    pre_tokenizer: Mapping[str, Any]
    normalizer: Mapping[str, Any] | None = None
    ignore_merges: bool = False


def _byte_level(*, use_regex: bool) -> dict[str, Any]:
    return {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": use_regex}


def _sequence(*steps: dict[str, Any]) -> dict[str, Any]:
    return {"type": "Sequence", "pretokenizers": list(steps)}


def byte_level_split(*patterns: str) -> dict[str, Any]:
    """Cut by each pattern in turn, then write bytes as characters."""
    cuts = [
        {"type": "Split", "pattern": {"Regex": pattern}, "behavior": "Isolated", "invert": False}
        for pattern in patterns
    ]
    return _sequence(*cuts, _byte_level(use_regex=False))


_CONTRACTIONS = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)"
_TAIL = r"| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
_WORD = r"|[^\r\n\p{L}\p{N}]?\p{L}+"
_UPPER, _LOWER = r"[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]", r"[\p{Ll}\p{Lm}\p{Lo}\p{M}]"
_SLASH_TAIL = r"| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+"


def _cased(suffix: str) -> str:
    """Words that may begin with capitals: two alternatives, so that a capital starts a new word in camelCase."""
    lead = r"[^\r\n\p{L}\p{N}]?"
    return f"{lead}{_UPPER}*{_LOWER}+{suffix}|{lead}{_UPPER}+{_LOWER}*{suffix}"


_NFC = {"type": "NFC"}
_GPT2 = _byte_level(use_regex=True)
_DIGITS_GPT2 = _sequence({"type": "Digits", "individual_digits": True}, _GPT2)
_LLAMA3 = byte_level_split(_CONTRACTIONS + _WORD + r"|\p{N}{1,3}" + _TAIL)
_QWEN2 = byte_level_split(_CONTRACTIONS + _WORD + r"|\p{N}" + _TAIL)
_QWEN35 = byte_level_split(
    _CONTRACTIONS + r"|[^\r\n\p{L}\p{N}]?[\p{L}\p{M}]+|\p{N}| ?[^\s\p{L}\p{M}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
)
_DEEPSEEK3 = byte_level_split(
    r"\p{N}{1,3}",
    "[\u4e00-\u9fa5\u3040-\u309f\u30a0-\u30ff]+",
    r"""[!"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+"""
    r"| ?[\p{P}\p{S}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+",
)
_GPT4O = byte_level_split(_cased(_CONTRACTIONS + "?") + r"|\p{N}{1,3}" + _SLASH_TAIL)
# As o200k, with runs of Han characters as words of their own and no slash behind punctuation.
_KIMI = byte_level_split(
    r"\p{Han}+|" + _cased(_CONTRACTIONS + "?").replace(r"\p{M}]", r"\p{M}&&[^\p{Han}]]") + r"|\p{N}{1,3}" + _TAIL
)
_TEKKEN = byte_level_split(_cased("") + r"|\p{N}" + _SLASH_TAIL)

SPLITS: Mapping[str, Split] = MappingProxyType(
    {
        # GPT-2
        "gpt-2": Split(_GPT2),
        "phi-2": Split(_GPT2),
        "jais": Split(_GPT2),
        # GPT-NeoX's tokenizer
        "mpt": Split(_GPT2, _NFC),
        "olmo": Split(_GPT2, _NFC),
        # StarCoder: single digits, then GPT-2
        "starcoder": Split(_DIGITS_GPT2),
        "refact": Split(_DIGITS_GPT2),
        "codeshell": Split(_DIGITS_GPT2),
        "smollm": Split(_DIGITS_GPT2),
        "command-r": Split(_DIGITS_GPT2, _NFC),
        # Llama 3
        "llama3": Split(_LLAMA3, ignore_merges=True),
        "llama-v3": Split(_LLAMA3, ignore_merges=True),
        "llama-bpe": Split(_LLAMA3, ignore_merges=True),
        "falcon3": Split(_LLAMA3, ignore_merges=True),
        "lfm2": Split(_LLAMA3, ignore_merges=True),
        "smaug-bpe": Split(_LLAMA3),
        "dbrx": Split(_LLAMA3),
        "glm4": Split(_LLAMA3),
        "chatglm-bpe": Split(_LLAMA3),
        # Qwen 2 to 3, 3.5
        "qwen2": Split(_QWEN2, _NFC),
        "deepseek-r1-qwen": Split(_QWEN2, _NFC),
        "megrez": Split(_QWEN2, _NFC),
        "qwen35": Split(_QWEN35, _NFC),
        # DeepSeek V3
        "deepseek-v3": Split(_DEEPSEEK3),
        "hunyuan-dense": Split(_DEEPSEEK3),
        # o200k
        "gpt-4o": Split(_GPT4O),
        "llama4": Split(_GPT4O),
        # Kimi K2
        "kimi-k2": Split(_KIMI, ignore_merges=True),
        # Mistral NeMo
        "tekken": Split(_TEKKEN, ignore_merges=True),
    }
)
