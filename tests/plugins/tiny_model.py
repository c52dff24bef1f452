"""A model folder that any engine loads: a Llama of a few thousand random weights, a small tokenizer, our template.

Its markers are words that no engine has a parser for, so whatever is read right was learned from the template.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from tests.learned_templates import REASONING
from tests.vocabularies import small_tokenizer

SPECIAL = ("<|zon|>", "<|zoff|>")
PLAIN = ("<mull>", "</mull>", "<kul>", "</kul>")
END = "<|zoff|>"


def tokenizer_json() -> dict[str, Any]:
    added = [{"content": text, "special": text in SPECIAL} for text in (*SPECIAL, *PLAIN)]
    return small_tokenizer(added)


def write_tokenizer(folder: Path, template: str = REASONING) -> Path:
    """tokenizer.json, tokenizer_config.json and the template. The folder."""
    data = tokenizer_json()
    data["decoder"] = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": True}
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "tokenizer.json").write_text(json.dumps(data), "utf-8")
    config = {"tokenizer_class": "PreTrainedTokenizerFast", "eos_token": END, "clean_up_tokenization_spaces": False}
    (folder / "tokenizer_config.json").write_text(json.dumps(config), "utf-8")
    (folder / "chat_template.jinja").write_text(template, "utf-8")
    return folder


def write_model(folder: Path, *, seed: int = 7) -> Path:
    """The whole folder; needs torch. Seeded, so that a run can be repeated."""
    import torch
    from transformers import LlamaConfig, LlamaForCausalLM

    write_tokenizer(folder)
    data = tokenizer_json()
    size = len(data["model"]["vocab"]) + len(data["added_tokens"])
    end = next(token["id"] for token in data["added_tokens"] if token["content"] == END)
    torch.manual_seed(seed)
    config = LlamaConfig(
        vocab_size=size,
        hidden_size=64,
        intermediate_size=128,
        num_hidden_layers=2,
        num_attention_heads=2,
        num_key_value_heads=2,
        max_position_embeddings=2048,
        bos_token_id=None,
        eos_token_id=end,
        tie_word_embeddings=False,
    )
    LlamaForCausalLM(config).to(torch.float32).save_pretrained(folder)
    return folder
