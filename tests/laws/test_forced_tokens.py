"""Forced tokens are what the tokenizer writes, however the output goes on: jumping ahead never changes the ids."""

from __future__ import annotations

import random
from functools import lru_cache
from typing import Any

import pytest

from dragoman.constraint.constraint import Constraint
from dragoman.constraint.masks import masks_for
from dragoman.constraint.trie import TokenTrie
from dragoman.format import ChatFormat
from dragoman.grammar.nodes import Grammar
from dragoman.grammar.schema import SchemaOptions, compile_schema
from dragoman.vocab import Vocabulary
from tests.formats import sources
from tests.toolsets import SETS
from tests.vocabularies import qwen3_tokenizer_json, smollm2_gguf
from tests.writing import MESSAGES

CONTINUATIONS = 6
KEYS = (
    "name",
    "name of it",
    "naïve 日本",
    "a  b",
    "tab\there",
    "12345678",
    "\n\nx",
    "it's",
    "don't  ",
    "  ",
    "é",
    "x\u0301",
)
SCHEMAS: dict[str, Any] = {
    "one way": {"const": {key: f"{key}, and so on: {key * 3}" for key in KEYS}},
    "endings": {
        "enum": [f"{start}{end}" for start in ("the end ", "the end  ", "the endless") for end in ("1", "x", " ")]
    },
    "digits": {"enum": [1234567, 12345678, 1234567.5]},
    "object": {
        "type": "object",
        "properties": {key: {"type": ["string", "integer"], "maxLength": 4} for key in KEYS},
        "required": list(KEYS),
        "additionalProperties": False,
    },
    "spaces before digits": {"enum": ["end  1", "end  2"]},
    "spaces": {"enum": [" " * count + "end" for count in range(1, 9)]},
    "apostrophes": {"enum": ["it's", "it'sx", "it'", "it'll", "itself"]},
}


@lru_cache(maxsize=2)
def vocabulary(name: str) -> tuple[Vocabulary, TokenTrie]:
    vocab = (
        Vocabulary.from_gguf(smollm2_gguf())
        if name == "SmolLM2"
        else Vocabulary.from_tokenizer_json(qwen3_tokenizer_json())
    )
    return vocab, TokenTrie(vocab.token_bytes, vocab.size)


def continuation(constraint: Constraint, vocab: Vocabulary, pick: random.Random) -> list[tuple[str, bool]] | None:
    """One way to go on: text, and control tokens as parts of their own; None where it does not come to an end."""
    names = {number: text for text, number in vocab.controls.items()}
    masks, at = constraint._masks, constraint.state
    parts: list[tuple[str, bool]] = []
    data = b""
    for _ in range(600):
        assert at is not None
        ways: list[int | None] = [*masks.bytes_after(at)]
        ways += [256 + token for token in masks.symbols_after(at)]
        if masks.can_stop(at):
            ways.append(None)
        way = pick.choice(ways)
        if way is None:
            break
        if way < 256:
            data += bytes([way])
            at = masks.after_text(at, bytes([way]), None)
        else:
            parts += [(data.decode(), True), (names[way - 256], False)]
            data, at = b"", masks.after(at, way - 256)
    else:
        return None
    return [*parts, (data.decode(), True)]


def held(name: str, constraint: Constraint, vocab: Vocabulary, steps: int) -> int:
    """How many tokens were forced in one walk."""
    pick = random.Random(name)
    seen = 0
    for _ in range(steps):
        tokens = constraint.forced_tokens()
        assert constraint.validate(tokens) == len(tokens)
        seen += len(tokens)
        for _ in range(CONTINUATIONS):
            parts = continuation(constraint, vocab, pick)
            if parts is not None:
                assert vocab.encode(parts)[: len(tokens)] == tokens, (name, parts, tokens)
        for token in tokens:
            assert constraint.accept(token)
        parts = continuation(constraint, vocab, pick)
        if parts is None or not any(text for text, _ in parts):
            break
        for token in vocab.encode(parts)[: pick.randint(1, 3)]:
            assert constraint.accept(token)
    return seen


@pytest.mark.parametrize("tokens", ["SmolLM2", "Qwen3"])
@pytest.mark.parametrize("whitespace", ["compact", "bounded"])
def test_every_continuation_of_a_schema_begins_with_the_forced_tokens(tokens: str, whitespace: Any) -> None:
    vocab, trie = vocabulary(tokens)
    seen = 0
    for name, schema in SCHEMAS.items():
        rules = compile_schema(schema, name="s", options=SchemaOptions(whitespace=whitespace))
        masks = masks_for(Grammar(rules, "s"), vocab, trie)
        seen += held(f"{name} {whitespace}", Constraint(masks, masks.start()), vocab, 12)
    assert seen > 60


def test_control_tokens_that_are_the_only_choice_are_forced() -> None:
    vocab, _ = vocabulary("Qwen3")
    source = sources().get("Qwen-Qwen3-0.6B")
    if source is None:
        pytest.skip("the handed corpus is not here")
    fmt = ChatFormat.from_template(source, vocab=vocab)
    turn = fmt.turn(MESSAGES, SETS["strings"], tool_choice="required", enable_thinking=False)
    constraint = turn.constraint()
    assert constraint.forced_tokens() == []  # a line break may come before the call
    assert constraint.accept(vocab.encode("\n")[0])
    tokens = constraint.forced_tokens()
    assert tokens[0] == vocab.controls["<tool_call>"]
    assert vocab.decode(tokens).startswith(b'<tool_call>\n{"name": "')
    assert held("required", constraint, vocab, 10) > 5
