"""Masks over vocabularies of SentencePiece's kind and over tekken's, against every token tried one by one.

What is special in them: bytes as tokens of their own beside characters and words, the space as U+2581, control tokens
at the lowest ids.
"""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np
import pytest

from dragoman.constraint.constraint import Constraint
from dragoman.constraint.masks import masks_for
from dragoman.constraint.trie import TokenTrie
from dragoman.errors import VocabularyError
from dragoman.format import ChatFormat
from dragoman.grammar.lower import lower
from dragoman.grammar.nodes import Grammar
from dragoman.grammar.schema import compile_schema
from dragoman.vocab import Vocabulary
from tests.formats import sources
from tests.pieces import CONTROL, model_file, small_pieces, tekken_file
from tests.toolsets import SETS
from tests.vocabularies import mistral
from tests.writing import MESSAGES

VOCABULARIES: dict[str, Callable[[], Vocabulary]] = {
    "small": lambda: Vocabulary.from_sentencepiece(model_file(small_pieces(more=[("<tool>", CONTROL)]))),
    "padded": lambda: Vocabulary.from_tekken(json.dumps(tekken_file()).encode(), size=1000),
    "mistral": lambda: Vocabulary.from_sentencepiece(mistral("v3")),
}
SCHEMAS: dict[str, Any] = {
    "any": {},
    "text": {"type": "string", "maxLength": 5},
    "object": {"type": "object", "properties": {"name": {"type": "string"}, "日本": {"type": "integer"}}},
    "enum": {"enum": ["  the weather", "é\n", "🤔", 1, None]},
}


@cache
def made(name: str) -> tuple[Vocabulary, TokenTrie]:
    vocab = VOCABULARIES[name]()
    return vocab, TokenTrie(vocab.token_bytes, vocab.size)


def constraints(vocab: Vocabulary, trie: TokenTrie) -> list[tuple[str, Constraint]]:
    out = []
    for name, schema in SCHEMAS.items():
        masks = masks_for(lower(Grammar(compile_schema(schema, name="s"), "s"), "writer"), vocab, trie)
        out.append((name, Constraint(masks, masks.start())))
    for name in ("own.json_in_tags", "own.tagged", "own.reasoning"):
        fmt = ChatFormat.from_template(sources()[name], vocab=vocab)
        out.append((name, fmt.turn(MESSAGES, SETS["strings"]).constraint()))
    return out


def allowed(constraint: Constraint, trie: TokenTrie) -> set[int]:
    row = np.full(trie.words, 0xFFFFFFFF, dtype=np.uint32)
    constraint.fill(row)
    return set(np.flatnonzero(np.unpackbits(row.view(np.uint8), bitorder="little")).tolist())


def brute_force(constraint: Constraint, size: int) -> set[int]:
    found = set()
    for token in range(size):
        if constraint.accept(token):
            constraint.rollback(1)
            found.add(token)
    return found


@pytest.mark.parametrize("name", VOCABULARIES)
def test_masks_equal_brute_force(name: str) -> None:
    vocab, trie = made(name)
    parts = 0
    for title, constraint in constraints(vocab, trie):
        pick = random.Random(f"{name} {title}")
        for steps in (0, 1, 3, 6, *((2, 4, 5, 8, 12) if vocab.size < 2000 else ())):
            probe = constraint.fork()
            for _ in range(steps):
                # Parts of characters as often as all others together.
                tokens = sorted(allowed(probe, trie) - set(vocab.eos_ids))
                broken = [token for token in tokens if (vocab.token_bytes[token] or b"")[:1] >= b"\x80"]
                if not tokens:
                    break
                token = pick.choice(broken if broken and pick.random() < 0.5 else tokens)
                parts += token in broken
                assert probe.accept(token)
            assert allowed(probe, trie) == brute_force(probe, vocab.size), (title, steps, probe.accepted)
    assert parts >= 8


@pytest.mark.parametrize("name", VOCABULARIES)
def test_a_line_end_in_bytes_is_a_line_end(name: str) -> None:
    """Where JSON forbids a raw line end, the token ``<0x0A>`` is forbidden too; between items it is allowed."""
    vocab, trie = made(name)
    (newline,) = [token for token, data in enumerate(vocab.token_bytes) if data == b"\n"]
    (quote, *_) = [token for token, data in enumerate(vocab.token_bytes) if data == b'"']
    (open_, *_) = [token for token, data in enumerate(vocab.token_bytes) if data == b"["]
    (comma, *_) = [token for token, data in enumerate(vocab.token_bytes) if data == b","]
    schema = {"type": "array", "items": {"type": "string"}}
    masks = masks_for(lower(Grammar(compile_schema(schema, name="s"), "s"), "writer"), vocab, trie)
    constraint = Constraint(masks, masks.start())
    assert all(map(constraint.accept, (open_, quote)))
    assert newline not in allowed(constraint, trie)
    assert all(map(constraint.accept, (quote, comma)))
    assert newline in allowed(constraint, trie)


def test_a_vocabulary_without_a_needed_character_is_refused() -> None:
    vocab = Vocabulary.from_sentencepiece(model_file(small_pieces(fallback=False)))
    trie = TokenTrie(vocab.token_bytes, vocab.size)
    grammar = lower(Grammar(compile_schema({"const": "🤔"}, name="s"), "s"), "writer")
    with pytest.raises(VocabularyError, match="no token of the vocabulary contains the byte 0x"):
        masks_for(grammar, vocab, trie)
