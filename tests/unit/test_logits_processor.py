"""The logits processor under what generate() does to its rows, on NumPy arrays: every mask is a fresh constraint's."""

from __future__ import annotations

import random
from functools import lru_cache
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from dragoman.constraint.constraint import Constraint
from dragoman.constraint.masks import Masks, masks_for
from dragoman.errors import UsageError
from dragoman.grammar.nodes import Grammar
from dragoman.grammar.schema import compile_schema
from dragoman.integrations.logits import apply_mask
from dragoman.integrations.logits_processor import ConstraintProcessor
from tests.unit.test_constraint import TRIE, VOCAB

TOKENS = VOCAB.size + 9  # logits beyond the vocabulary
END = VOCAB.eos_ids[0]
PAD = 0
PROMPT = [5, 6, 7]
SCHEMAS: tuple[dict[str, Any], ...] = (
    {"enum": ["abcd", "abc", "name"]},
    {"type": "array", "items": {"enum": [1, 12, 123]}, "maxItems": 3},
    {"type": "object", "properties": {"name": {"type": "string", "maxLength": 3}}, "required": ["name"]},
)


@lru_cache(maxsize=4)
def masks(number: int) -> Masks:
    return masks_for(Grammar(compile_schema(SCHEMAS[number], name="s"), "s"), VOCAB, TRIE)


def started(number: int) -> Constraint:
    return Constraint(masks(number), masks(number).start())


def expected(number: int, ids: list[int], scores: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """One row's scores, from the beginning."""
    constraint, out = started(number), scores.copy()
    for token in ids:
        if constraint.ended:
            return out
        if not constraint.accept(token):
            ends = np.full_like(out, -np.inf)
            ends[END] = out[END]
            return ends
    if constraint.ended:
        return out
    row = np.zeros(TRIE.words, np.uint32)
    constraint.fill(row)
    apply_mask(row, out)
    return out


def asked(processor: ConstraintProcessor, rows: list[list[int]], prompts: list[int], pick: random.Random) -> Any:
    """One call with these outputs so far, held against a fresh constraint for each row."""
    scores = np.random.default_rng(pick.randrange(1 << 30)).normal(size=(len(rows), TOKENS)).astype(np.float32)
    before = scores.copy()
    out = processor(np.array([PROMPT + row for row in rows], np.int64), scores)
    assert (scores == before).all(), "the scores that came are not changed"
    for at, row in enumerate(rows):
        number = prompts[at * len(prompts) // len(rows)]
        assert (out[at] == expected(number, row, scores[at])).all(), (at, row)
    return out


@pytest.mark.parametrize("prompts", [[0], [2], [0, 1], [1, 2, 0]])
@pytest.mark.parametrize("beams", [1, 4])
def test_beams_that_change_places_are_copied_and_dropped(prompts: list[int], beams: int) -> None:
    for seed in range(6):
        pick = random.Random(f"{prompts} {beams} {seed}")
        processor = ConstraintProcessor([started(number) for number in prompts])
        rows: list[list[int]] = [[] for _ in range(len(prompts) * beams)]
        for _ in range(14):
            out = asked(processor, rows, prompts, pick)
            after: list[list[int]] = []
            for prompt in range(len(prompts)):
                ways: list[list[int]] = []
                for at in range(prompt * beams, (prompt + 1) * beams):
                    if END in rows[at]:
                        ways.append([*rows[at], PAD])
                        continue
                    allowed = np.flatnonzero(out[at] > -np.inf).tolist()
                    ways += [[*rows[at], token] for token in pick.sample(allowed, min(3, len(allowed)))]
                    if pick.random() < 0.2:  # a beam search takes what has no chance where there is too little else
                        ways.append([*rows[at], pick.randrange(VOCAB.size)])
                after += [list(pick.choice(ways)) for _ in range(beams)]
            rows = after


def test_an_assistant_looks_ahead_and_is_taken_back() -> None:
    """The same place again, shorter rows after longer ones, jumps of several tokens, candidates that are refused."""
    for seed in range(20):
        pick = random.Random(seed)
        processor = ConstraintProcessor(started(2))
        row: list[int] = []
        asked(processor, [row], [2], pick)
        for _ in range(8):
            candidate = list(row)
            for _ in range(pick.randint(1, 4)):
                out = asked(processor, [candidate], [2], pick)
                allowed = np.flatnonzero(out[0] > -np.inf).tolist()
                candidate.append(pick.choice(allowed) if pick.random() < 0.8 else pick.randrange(VOCAB.size))
            for size in range(len(row), len(candidate) + 1):
                asked(processor, [candidate[:size]], [2], pick)
            good = started(2).validate(candidate)
            row = candidate[: pick.randint(min(len(row), good), good)]


def test_the_constraints_that_are_given_stay_where_they_are() -> None:
    constraint = started(1)
    assert constraint.accept(ord("["))
    processor = ConstraintProcessor(constraint, prompt_tokens=2)
    scores = np.zeros((1, TOKENS), np.float32)
    for ids in ([[1, 2]], [[1, 2, ord("1")]], [[1, 2, ord("1"), ord("2")]]):
        processor(np.array(ids), scores)
    assert constraint.accepted == 1
    assert processor(np.array([[1, 2, ord("1"), ord("]"), END]]), scores)[0].tolist() == scores[0].tolist()


def test_wrong_uses_are_named() -> None:
    for wrong in (None, [], "x", [1], [started(0), None]):
        with pytest.raises(UsageError) as raised:
            ConstraintProcessor(wrong)  # type: ignore[arg-type]
        assert raised.value.param == "constraints"
    processor = ConstraintProcessor([started(0), started(1)])
    scores = np.zeros((2, TOKENS), np.float32)
    processor(np.array([[1, 2, 3], [1, 2, 3]]), scores)
    for ids in ([[1, 2], [1, 2]], [[1, 2, 3]], [[1.5]], [1, 2, 3]):
        with pytest.raises(UsageError) as raised:
            processor(np.array(ids), scores)
        assert raised.value.param == "input_ids"
