"""The law of ``bench/walks.py`` at a small count: what random walks through masks write validates, and more."""

from __future__ import annotations

from functools import lru_cache

from bench.tool_calls import cases
from bench.walks import Walker
from dragoman.constraint.trie import TokenTrie
from dragoman.vocab import Vocabulary
from tests.vocabularies import smollm2_gguf


@lru_cache(maxsize=1)
def vocab() -> Vocabulary:
    return Vocabulary.from_gguf(smollm2_gguf())


def test_random_walks_write_what_validates() -> None:
    walker = Walker(vocab(), TokenTrie(vocab().token_bytes, vocab().size), seed=7)
    for schema, _ in cases():
        walker.schema(schema, 2)
    assert walker.wrong == []
    assert walker.counts["refused"] == 0
    assert walker.counts["ended"] >= 100
    assert walker.counts["forced bytes"] > 1_000
    assert walker.counts["rollbacks"] > 100
