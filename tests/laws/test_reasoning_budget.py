"""A reasoning budget is part of the grammar: masks and exports hold it, nothing dead-ends, and 0 closes at once."""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import pytest

from dragoman.constraint.constraint import Constraint
from dragoman.format import ChatFormat
from dragoman.turn import Turn
from dragoman.vocab import Vocabulary
from tests.formats import sources
from tests.toolsets import SETS
from tests.vocabularies import small_tokenizer
from tests.writing import MESSAGES

VOCAB = Vocabulary.from_tokenizer_json(small_tokenizer([{"content": "<|zoff|>", "special": True}]))
FORMATS = ("own.reasoning", "own.preopened", "own.wrapped")


def turn_of(name: str, most: int | None, **more: Any) -> Turn:
    fmt = ChatFormat.from_template(sources()[name], vocab=VOCAB)
    return fmt.turn(MESSAGES, SETS["strings"], reasoning_chars=most, **more)


def allowed(constraint: Constraint) -> list[int]:
    row = np.zeros(constraint.words, np.uint32)
    constraint.fill(row)
    found: list[int] = np.flatnonzero(np.unpackbits(row.view(np.uint8), bitorder="little")).tolist()
    return found


def written(turn: Turn, pick: random.Random, steps: int) -> Constraint:
    """A walk through the mask that likes letters; ends by itself or after so many steps."""
    constraint = turn.constraint()
    for _ in range(steps):
        tokens = allowed(constraint)
        assert tokens, "a dead end"
        letters = [token for token in tokens if (VOCAB.token_bytes[token] or b"").isalnum()]
        token = pick.choice(letters if letters and pick.random() < 0.9 else tokens)
        assert constraint.accept(token)
        turn.feed(VOCAB.decode([token]))
        if constraint.ended:
            break
    return constraint


@pytest.mark.parametrize("name", FORMATS)
@pytest.mark.parametrize("most", [0, 1, 20])
def test_no_more_is_thought_than_the_budget_allows(name: str, most: int) -> None:
    longest = 0
    for seed in range(12):
        turn = turn_of(name, most)
        assert not turn.grammar.lazy
        written(turn, random.Random(f"{name} {most} {seed}"), 80)
        turn.finish("length")
        thought = turn.message.reasoning_content
        assert len(thought) <= most, thought
        longest = max(longest, len(thought))
    if name == "own.preopened":
        assert longest == most


def test_the_budget_counts_what_the_model_writes_and_not_what_the_prompt_wrote() -> None:
    messages = [*MESSAGES, {"role": "assistant", "reasoning_content": "a" * 30, "content": ""}]
    fmt = ChatFormat.from_template(sources()["own.preopened"], vocab=VOCAB)
    turn = fmt.turn(messages, continue_final_message="reasoning_content", reasoning_chars=10, echo=True)
    written(turn, random.Random(1), 60)
    turn.finish("length")
    assert len(turn.message.reasoning_content) == 40


def test_a_large_budget_costs_no_states() -> None:
    sizes = []
    for most in (1_000, 1_000_000_000):
        constraint = turn_of("own.preopened", most).constraint()
        for token in VOCAB.encode("so it is and will be " * 20):
            allowed(constraint)
            assert constraint.accept(token)
        sizes.append(len(constraint._masks._kept.masks))
    assert sizes[0] == sizes[1] < 40


def test_an_export_holds_the_budget() -> None:
    llguidance = pytest.importorskip("llguidance")
    from tests.contract.test_exports import llguidance_lark, own_gbnf

    assert llguidance
    turn = turn_of("own.preopened", 12, tool_choice="required")
    close = turn.thinking_tags[1] if turn.thinking_tags else ""
    call = turn_of("own.preopened", None, tool_choice="required")
    for accepts in (llguidance_lark(turn.grammar), own_gbnf(turn.grammar)):
        whole = llguidance_lark(call.grammar)
        rest = _call_text(call)
        for count in (0, 12, 13, 40):
            text = b"x" * count + b"\n" + rest
            assert whole(text), (close, text)
            assert accepts(text) == (count < 12), (count, text)


def _call_text(turn: Turn) -> bytes:
    """A short call, behind the end of reasoning, as the mask writes it."""
    for seed in range(50):
        constraint, pick, data = turn.constraint(), random.Random(seed), b""
        for token in VOCAB.encode("\n" + (turn.thinking_tags or ("", ""))[1]):
            assert constraint.accept(token)
            data += VOCAB.decode([token])
        for _ in range(400):
            if constraint.can_stop:
                return data[1:]
            tokens = sorted(allowed(constraint), key=lambda token: VOCAB.token_bytes[token] != b'"')
            token = tokens[0] if VOCAB.token_bytes[tokens[0]] == b'"' else pick.choice(tokens)
            assert constraint.accept(token)
            data += VOCAB.decode([token])
    raise AssertionError("no call came to its end")
