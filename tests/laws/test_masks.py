"""Masks against brute force: every token of a real vocabulary tried one by one, after random prefixes."""

from __future__ import annotations

import random
from collections.abc import Iterator
from functools import lru_cache
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import HealthCheck, given, reject, settings
from hypothesis import strategies as st

from dragoman import compiled
from dragoman.constraint.constraint import Constraint
from dragoman.constraint.masks import masks_for
from dragoman.constraint.trie import TokenTrie
from dragoman.errors import GrammarError, UsageError, VocabularyError
from dragoman.format import ChatFormat
from dragoman.grammar.lower import lower
from dragoman.grammar.nodes import Grammar
from dragoman.grammar.schema import compile_schema
from dragoman.vocab import Vocabulary
from tests.formats import sources
from tests.strategies import PLAIN, grammars
from tests.toolsets import SETS
from tests.vocabularies import smollm2_gguf
from tests.writing import MESSAGES

SCHEMAS: dict[str, Any] = {
    "any": {},
    "strings": {"type": "array", "items": {"type": "string", "maxLength": 6}, "maxItems": 3},
    "object": {
        "type": "object",
        "properties": {"name": {"type": "string"}, "age": {"type": "integer", "minimum": 0, "maximum": 130}},
        "required": ["name"],
        "additionalProperties": False,
    },
    "enum": {"enum": ["red", "green", "blue", 1, None, {"a": [1.5]}]},
    "tree": {
        "$ref": "#/$defs/node",
        "$defs": {
            "node": {
                "type": "object",
                "properties": {
                    "value": {"type": "number"},
                    "next": {"anyOf": [{"$ref": "#/$defs/node"}, {"type": "null"}]},
                },
                "required": ["value"],
            }
        },
    },
}
TEMPLATES = ("own.json_in_tags", "own.tagged", "own.reasoning", "own.preopened", "own.python_like", "own.typed_tags")


@lru_cache(maxsize=1)
def vocab() -> Vocabulary:
    return Vocabulary.from_gguf(smollm2_gguf())


@lru_cache(maxsize=1)
def trie() -> TokenTrie:
    return TokenTrie(vocab().token_bytes, vocab().size)


def started(grammar: Grammar) -> Constraint:
    masks = masks_for(lower(grammar, "writer"), vocab(), trie())
    return Constraint(masks, masks.start())


def row_of(constraint: Constraint) -> npt.NDArray[np.uint32]:
    row = np.full(trie().words, 0xFFFFFFFF, dtype=np.uint32)
    constraint.fill(row)
    return row


def allowed(row: npt.NDArray[np.uint32]) -> set[int]:
    return set(np.flatnonzero(np.unpackbits(row.view(np.uint8), bitorder="little")).tolist())


def brute_force(constraint: Constraint) -> set[int]:
    """Every token given to accept, one by one."""
    found: set[int] = set()
    for token in range(vocab().size):
        if constraint.accept(token):
            constraint.rollback(1)
            found.add(token)
    return found


def wander(constraint: Constraint, pick: random.Random, steps: int) -> Iterator[npt.NDArray[np.uint32]]:
    """Up to ``steps`` random tokens, short and long ones alike; the mask before each."""
    for _ in range(steps):
        row = row_of(constraint)
        tokens = sorted(allowed(row) - set(vocab().eos_ids))
        if not tokens:
            return
        yield row
        length = pick.choice(sorted({len(vocab().token_bytes[token] or b"") for token in tokens}))
        fitting = [token for token in tokens if len(vocab().token_bytes[token] or b"") == length]
        assert constraint.accept(pick.choice(fitting))


def constraints() -> Iterator[tuple[str, Constraint]]:
    """Schemas, and turns of learned formats with their control tokens."""
    for name, schema in SCHEMAS.items():
        yield name, started(Grammar(compile_schema(schema, name="s"), "s"))
    for name in TEMPLATES:
        fmt = ChatFormat.from_template(sources()[name], vocab=vocab())
        for choice in ("auto", "required"):
            turn = fmt.turn(MESSAGES, SETS["strings"], tool_choice=choice)
            yield f"{name}-{choice}", turn.constraint()
    for name in ("Qwen-Qwen3-0.6B", "llama-cpp-deepseek-r1"):
        if name in sources():
            yield (
                name,
                ChatFormat.from_template(sources()[name], vocab=vocab()).turn(MESSAGES, SETS["nested"]).constraint(),
            )


@pytest.fixture(scope="module")
def made() -> list[tuple[str, Constraint]]:
    return list(constraints())


# After so many prefixes of each grammar every token is tried; plain Python takes ten times as long for each.
PREFIXES = 12 if compiled else 3


def test_masks_equal_brute_force(made: list[tuple[str, Constraint]]) -> None:
    pairs = 0
    for name, constraint in made:
        pick = random.Random(name)
        for _ in range(PREFIXES):
            probe = constraint.fork()
            rows = list(wander(probe, pick, pick.randint(0, 12)))
            assert allowed(row_of(probe)) == brute_force(probe), (name, len(rows), probe.accepted)
            pairs += 1
    assert pairs >= (200 if compiled else 50)


@settings(max_examples=25, deadline=None, suppress_health_check=list(HealthCheck))
@given(grammars(PLAIN), st.integers(0, 4), st.integers(0, 1 << 30))
def test_masks_of_random_grammars_equal_brute_force(grammar: Grammar, steps: int, number: int) -> None:
    try:
        constraint = started(grammar)
    except (GrammarError, VocabularyError):
        reject()
    for _ in wander(constraint, random.Random(number), steps):
        pass
    assert allowed(row_of(constraint)) == brute_force(constraint)


def test_rollback_restores_the_identical_masks(made: list[tuple[str, Constraint]]) -> None:
    for name, constraint in made:
        pick = random.Random(name)
        for _ in range(3):
            probe = constraint.fork()
            rows = list(wander(probe, pick, 15))
            last = row_of(probe)
            while rows:
                count = pick.randint(1, len(rows))
                probe.rollback(count)
                last = rows[-count]
                assert (row_of(probe) == last).all(), name
                del rows[-count:]
            assert (row_of(probe) == row_of(constraint)).all()
            with pytest.raises(UsageError):
                probe.rollback(1)


def test_forks_are_independent(made: list[tuple[str, Constraint]]) -> None:
    for name, constraint in made:
        pick = random.Random(f"fork {name}")
        probe = constraint.fork()
        for _ in wander(probe, pick, 5):
            pass
        before, accepted = row_of(probe), probe.accepted
        other = probe.fork()
        for _ in wander(other, pick, 5):
            pass
        other.rollback(min(other.accepted, 3))
        assert (row_of(probe) == before).all()
        assert probe.accepted == accepted


def test_a_refused_token_changes_nothing(made: list[tuple[str, Constraint]]) -> None:
    for name, constraint in made:
        pick = random.Random(f"refused {name}")
        probe = constraint.fork()
        for _ in wander(probe, pick, 4):
            pass
        before = row_of(probe)
        refused = sorted(set(range(vocab().size)) - allowed(before))
        for token in [*pick.sample(refused, min(20, len(refused))), -1, vocab().size]:
            assert not probe.accept(token)
        assert (row_of(probe) == before).all()


def test_validate_counts_what_accept_takes(made: list[tuple[str, Constraint]]) -> None:
    for name, constraint in made:
        pick = random.Random(f"validate {name}")
        for _ in range(10):
            probe = constraint.fork()
            for _ in wander(probe, pick, 3):
                pass
            tokens = [pick.choice(sorted(allowed(row_of(probe))))] + [pick.randrange(vocab().size) for _ in range(3)]
            before = row_of(probe)
            count = probe.validate(tokens)
            assert (row_of(probe) == before).all()
            taken = 0
            while taken < len(tokens) and probe.accept(tokens[taken]):
                taken += 1
            assert count == taken


@lru_cache(maxsize=1)
def byte_tokens() -> dict[int, int]:
    """Byte -> the token that is this byte alone."""
    return {data[0]: token for token, data in enumerate(vocab().token_bytes) if data is not None and len(data) == 1}


def next_bytes(probe: Constraint) -> set[int]:
    """The bytes that may come next, each tried as a token of its own."""
    found: set[int] = set()
    for byte, token in byte_tokens().items():
        if probe.accept(token):
            probe.rollback(1)
            found.add(byte)
    return found


def test_forced_text_is_what_every_continuation_begins_with(made: list[tuple[str, Constraint]]) -> None:
    forced_bytes = 0
    for name, constraint in made:
        pick = random.Random(f"forced {name}")
        for _ in range(8):
            probe = constraint.fork()
            for _ in wander(probe, pick, pick.randint(0, 8)):
                pass
            forced = probe.forced()
            forced_bytes += len(forced)
            for byte in forced:
                assert not probe.can_stop, name
                assert next_bytes(probe) == {byte}, (name, forced)
                assert not allowed(row_of(probe)) & set(vocab().controls.values()), name
                assert probe.accept(byte_tokens()[byte])
            controls = allowed(row_of(probe)) & set(vocab().controls.values())
            # Where forced text ends there is a choice, a control token, or the end.
            assert probe.can_stop or controls or len(next_bytes(probe)) != 1, (name, forced)
    assert forced_bytes > 200


def test_masks_keep_to_the_row(made: list[tuple[str, Constraint]]) -> None:
    """Longer rows are cleared, shorter and other ones refused."""
    _, constraint = made[0]
    row = np.full(trie().words + 3, -1, dtype=np.int32)
    constraint.fill(row)
    assert not row[trie().words :].any()
    assert allowed(row[: trie().words].view(np.uint32)) == allowed(row_of(constraint))
    assert max(allowed(row_of(constraint))) < vocab().size
    for wrong in (np.zeros(trie().words - 1, np.int32), np.zeros(trie().words, np.int64), np.zeros((2, trie().words))):
        with pytest.raises(UsageError):
            constraint.fill(wrong)
