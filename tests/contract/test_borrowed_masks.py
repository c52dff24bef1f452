"""Masks of llguidance and xgrammar behind our cursor: the protocol, and mask for mask beside our own.

The exports are exact for these requests. llguidance's policy where one token is forced is told apart; xgrammar takes
control tokens as their text, so that there ordinary tokens are compared. A peer that is not installed is skipped.
"""

from __future__ import annotations

import random
from functools import lru_cache
from typing import Any

import numpy as np
import pytest

from dragoman.constraint.constraint import Constraint, fill_batch
from dragoman.constraint.cursor import Cursor
from dragoman.errors import UsageError
from dragoman.format import ChatFormat
from dragoman.turn import Turn
from dragoman.vocab import Vocabulary
from tests.formats import sources
from tests.toolsets import SETS
from tests.vocabularies import small_tokenizer
from tests.writing import MESSAGES

FORMATS = ("own.json_in_tags", "own.tagged", "own.reasoning", "own.preopened")
# No free text: under the texts that an answer may not hold, a peer takes half a minute to compile one.
ANSWER = {
    "type": "object",
    "properties": {"days": {"type": "integer", "minimum": 1}, "unit": {"enum": ["C", "F"]}},
    "required": ["days", "unit"],
    "additionalProperties": False,
}
REQUESTS: dict[str, dict[str, Any]] = {
    "auto": {"tools": SETS["strings"]},
    "required": {"tools": SETS["numbers"], "tool_choice": "required"},
    "answer": {"response_format": {"type": "json_schema", "json_schema": {"name": "a", "schema": ANSWER}}},
}
CONTROLS = ("<|zoff|>", "<|zon|>", "<qor>", "<unused>")


@lru_cache(maxsize=1)
def vocab() -> Vocabulary:
    return Vocabulary.from_tokenizer_json(small_tokenizer([{"content": text, "special": True} for text in CONTROLS]))


@pytest.fixture(params=["llguidance", "xgrammar"])
def engine(request: pytest.FixtureRequest) -> str:
    pytest.importorskip(request.param)
    return str(request.param)


@lru_cache(maxsize=16)
def turn_of(name: str, kind: str) -> Turn:
    return ChatFormat.from_template(sources()[name], vocab=vocab()).turn(MESSAGES, **REQUESTS[kind])


def allowed(cursor: Cursor) -> set[int]:
    row = np.full(cursor.words, -1, np.int32)
    cursor.fill(row)
    return set(np.flatnonzero(np.unpackbits(row.view(np.uint8), bitorder="little")).tolist())


def walk(own: Constraint, pick: random.Random, steps: int) -> list[int]:
    """Tokens of a walk that our masks allow, short and long ones alike, no end of turn."""
    probe, out = own.fork(), []
    ends = set(probe._masks.eos_ids)
    for _ in range(steps):
        tokens = sorted(allowed(probe) - ends)
        if not tokens:
            break
        sizes = sorted({len(vocab().token_bytes[token] or b"") for token in tokens})
        size = pick.choice(sizes)
        token = pick.choice([token for token in tokens if len(vocab().token_bytes[token] or b"") == size])
        assert probe.accept(token)
        out.append(token)
    return out


@pytest.mark.parametrize("kind", REQUESTS)
@pytest.mark.parametrize("name", FORMATS)
def test_masks_are_ours(engine: str, name: str, kind: str) -> None:
    turn = turn_of(name, kind)
    controls = set(vocab().controls.values())
    compared = forced = 0
    for seed in range(4):
        own, theirs = turn.constraint(), turn.constraint(engine=engine)
        for token in walk(own, random.Random(f"{name} {kind} {seed}"), 24):
            mine, other = allowed(own), allowed(theirs)
            named = engine == "xgrammar" and vocab().controls["<qor>"] in mine
            if engine == "xgrammar":
                mine, other = mine - controls, other - controls
            if named or (engine == "llguidance" and len(other) == 1 and other < mine):
                forced += 1
            else:
                assert {vocab().text_of(t) for t in mine ^ other} == set(), (seed, own.accepted)
            compared += 1
            assert own.can_stop == theirs.can_stop
            assert own.accept(token)
            assert theirs.accept(token)
    assert compared > 40
    assert forced < compared


def test_the_cursor_keeps_its_promises(engine: str) -> None:
    """Refusals change nothing; rollback, over the end too, and forks give the same masks; validate counts."""
    turn = turn_of("own.json_in_tags", "required")
    cursor = turn.constraint(engine=engine)
    assert isinstance(cursor, Cursor)
    pick = random.Random(1)
    tokens: list[int] = []
    while not turn_of("own.json_in_tags", "required").constraint().validate(tokens) or not tokens:
        tokens = walk(turn.constraint(), pick, 10)
    masks = []
    for token in tokens:
        masks.append(allowed(cursor))
        refused = next(other for other in range(vocab().size) if turn_at(turn, tokens[: len(masks) - 1], other))
        assert not cursor.accept(refused)
        assert not cursor.accept(-1)
        assert not cursor.accept(vocab().size + 5)
        cursor.prefetch().result()
        assert allowed(cursor) == masks[-1]
        cursor.prefetch()
        assert cursor.accept(token)
    assert cursor.accepted == len(tokens)
    fork = cursor.fork()
    cursor.rollback(len(tokens))
    assert cursor.accepted == 0
    for token, mask in zip(tokens, masks, strict=True):
        assert allowed(cursor) == mask
        assert cursor.accept(token)
    assert allowed(fork) == allowed(cursor)
    fork.rollback(3)
    assert fork.validate(tokens[-3:]) == 3
    assert fork.validate([*tokens[-3:], -5]) == 3
    assert fork.accepted == len(tokens) - 3
    for wrong, verb in (
        ("x", fork.accept),
        ("x", fork.rollback),
        (99, fork.rollback),
        ("x", fork.validate),
        ([1], fork.fill),
    ):
        with pytest.raises(UsageError):
            verb(wrong)  # type: ignore[operator]


def turn_at(turn: Turn, tokens: list[int], token: int) -> bool:
    """True: our own masks refuse ``token`` behind ``tokens``."""
    own = turn.constraint()
    return own.validate([*tokens, token]) == len(tokens)


def test_the_end_is_the_end(engine: str) -> None:
    turn = turn_of("own.json_in_tags", "answer")
    cursor, own = turn.constraint(engine=engine), turn.constraint()
    data = b'{"days": 2, "unit": "C"}'
    end = vocab().controls["<|zoff|>"]
    for token in vocab().encode(data.decode()):
        if not own.accept(token):
            break
        assert cursor.accept(token)
    while not own.can_stop:
        token = min(allowed(own), key=lambda t: (vocab().token_bytes[t] not in (b'"', b"}"), t))
        assert own.accept(token)
        assert cursor.accept(token)
    before = allowed(cursor)
    assert end in before
    assert cursor.can_stop
    assert cursor.accept(end)
    assert cursor.ended
    assert allowed(cursor) == set()
    assert not cursor.accept(end)
    assert cursor.validate([end]) == 0
    fork = cursor.fork()
    assert fork.ended
    cursor.rollback(1)
    assert not cursor.ended
    assert allowed(cursor) == before
    assert "allowed" in cursor.explain(end)
    rows = np.zeros((3, cursor.words), np.int32)
    fill_batch([cursor, None, own], rows)
    assert set(np.flatnonzero(np.unpackbits(rows[0].view(np.uint8), bitorder="little")).tolist()) == before
    assert (rows[1] == -1).all()


def test_forced_bytes_are_the_beginning_of_ours(engine: str) -> None:
    turn = turn_of("own.json_in_tags", "required")
    own, theirs = turn.constraint(), turn.constraint(engine=engine)
    longest = 0
    for token in walk(own, random.Random(3), 12):
        mine, other = own.forced(), theirs.forced()
        assert mine.startswith(other) or other.startswith(mine)
        longest = max(longest, len(other))
        assert theirs.forced_tokens() == []
        assert own.accept(token)
        assert theirs.accept(token)
    assert longest > 3


def test_an_engine_that_is_not_known_is_refused_by_name() -> None:
    turn = turn_of("own.json_in_tags", "required")
    for wrong in ("outlines", 5, None):
        with pytest.raises(UsageError) as raised:
            turn.constraint(engine=wrong)  # type: ignore[call-overload]
        assert raised.value.param == "engine"


def test_a_missing_package_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    import sys

    for name in ("llguidance", "xgrammar"):
        monkeypatch.setitem(sys.modules, name, None)
        turn = ChatFormat.from_template(sources()["own.json_in_tags"], vocab=vocab()).turn(MESSAGES, SETS["strings"])
        with pytest.raises(UsageError, match=r"dragoman\[peers\]"):
            turn.constraint(engine=name)
