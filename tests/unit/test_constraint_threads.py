"""Masks of one vocabulary made in several threads at once are those that one thread makes."""

from __future__ import annotations

import sys
import threading
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from dragoman.constraint.constraint import Constraint
from dragoman.constraint.masks import masks_for
from dragoman.constraint.trie import TokenTrie
from dragoman.grammar.nodes import Grammar
from dragoman.grammar.schema import compile_schema
from tests.unit.test_constraint import VOCAB

GRAMMARS, KEYS = 6, 10


@pytest.fixture
def hasty() -> Iterator[None]:
    """Threads take turns as often as they can."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    yield
    sys.setswitchinterval(before)


def schema_of(number: int) -> dict[str, Any]:
    patterns = [f"^[a-{chr(98 + (number * 7 + key) % 24)}]{{1,{5 + number}}}$" for key in range(KEYS)]
    properties = {f"k{key}": {"type": "string", "pattern": pattern} for key, pattern in enumerate(patterns)}
    return {"type": "object", "properties": properties, "required": list(properties)}


def masks_of(trie: TokenTrie, number: int) -> list[Any]:
    masks = masks_for(Grammar(compile_schema(schema_of(number), name="s"), "s"), VOCAB, trie)
    constraint, rows = Constraint(masks, masks.start()), []
    for byte in ("{" + ", ".join(f'"k{key}": "ab"' for key in range(KEYS)) + "}").encode():
        rows.append(np.zeros(trie.words, np.uint32))
        constraint.fill(rows[-1])
        if not constraint.accept(byte):
            break
    return rows


@pytest.mark.usefixtures("hasty")
def test_grammars_of_one_vocabulary_do_not_disturb_each_other() -> None:
    expected = [masks_of(TokenTrie(VOCAB.token_bytes, VOCAB.size), number) for number in range(GRAMMARS)]
    assert all(len(rows) > 100 for rows in expected)
    for _ in range(3):
        trie = TokenTrie(VOCAB.token_bytes, VOCAB.size)
        found: dict[int, list[Any]] = {}

        def work(number: int, trie: TokenTrie = trie, found: dict[int, list[Any]] = found) -> None:
            found[number] = masks_of(trie, number)

        threads = [threading.Thread(target=work, args=(number,)) for number in range(GRAMMARS)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        for number, rows in enumerate(expected):
            assert len(found.get(number, ())) == len(rows)
            assert all((a == b).all() for a, b in zip(found[number], rows, strict=True))
