"""The cursor's other verbs: batches, forced tokens, explanations, prefetching; counted strings; what is kept."""

from __future__ import annotations

import importlib.util
import json
import sys
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import dragoman
from dragoman.constraint.constraint import Constraint, fill_batch
from dragoman.constraint.masks import Masks, masks_for
from dragoman.constraint.trie import TokenTrie
from dragoman.errors import LimitError, UsageError, VocabularyError
from dragoman.grammar.nodes import AnyChar, Grammar, Node, Repeat, Without, lit, seq
from dragoman.grammar.schema import compile_schema
from dragoman.limits import DEFAULT


class Tokens:
    """All bytes as tokens, some longer ones, one control token and one end of turn."""

    longer = (b'"a', b"ab", b"abc", b"abcd", b'"}', b'",', b'": "', b"name", b'{"', b"  ", b"\xc3\xa9\xc3\xa9", b"123")
    token_bytes: tuple[bytes | None, ...] = (*(bytes([b]) for b in range(256)), *longer, None, None)
    size = len(token_bytes) + 7  # padded logits
    controls: dict[str, int]
    eos_ids: tuple[int, ...]

    def __init__(self) -> None:
        self.controls = {"<call>": len(self.token_bytes) - 2, "<end>": len(self.token_bytes) - 1}
        self.eos_ids = (self.controls["<end>"],)

    def id(self, text: str) -> int:
        return self.token_bytes.index(text.encode())


VOCAB = Tokens()
TRIE = TokenTrie(VOCAB.token_bytes, VOCAB.size)


def masks(node: Node | dict[str, Node], limits: Any = DEFAULT) -> Masks:
    rules = node if isinstance(node, dict) else {"s": node}
    return masks_for(Grammar(rules, "s"), VOCAB, TRIE, limits)


def schema(value: Any, limits: Any = DEFAULT) -> Constraint:
    made = masks(compile_schema(value, name="s"), limits)
    return Constraint(made, made.start())


def write(constraint: Constraint, text: str) -> Constraint:
    for byte in text.encode():
        assert constraint.accept(byte), (text, chr(byte))
    return constraint


def row_of(constraint: Constraint) -> np.ndarray[Any, np.dtype[np.uint32]]:
    row = np.full(TRIE.words, 0xFFFFFFFF, np.uint32)
    constraint.fill(row)
    return row


def allowed(constraint: Constraint) -> set[int]:
    return set(np.flatnonzero(np.unpackbits(row_of(constraint).view(np.uint8), bitorder="little")).tolist())


def tried(constraint: Constraint) -> set[int]:
    return {token for token in range(VOCAB.size) if constraint.fork().accept(token)}


@pytest.mark.parametrize(("least", "most"), [(0, 3), (2, 5), (0, 300), (290, 300), (7, None), (1, 1)])
def test_counted_strings_allow_exactly_what_their_counts_leave(least: int, most: int | None) -> None:
    limits = {"minLength": least} | ({} if most is None else {"maxLength": most})
    constraint = schema({"type": "string", **limits})
    assert constraint.accept(VOCAB.id('"'))
    for _ in range(most or 12):
        assert allowed(constraint) == tried(constraint)
        assert constraint.accept(VOCAB.id("a"))
    closing = VOCAB.id('"')
    assert closing in allowed(constraint)
    assert constraint.accept(closing)
    assert constraint.can_stop


def test_the_states_of_a_counted_string_do_not_grow_with_its_count() -> None:
    sizes = []
    for most in (1_000, 100_000):
        made = masks(compile_schema({"type": "string", "maxLength": most}, name="s"))
        constraint = write(Constraint(made, made.start()), '"' + "ab" * 100)
        for _ in range(200):
            row_of(constraint)
            assert constraint.accept(VOCAB.id("abc"))
        sizes.append(len(made._kept.masks))
    assert sizes[0] == sizes[1] < 20


def test_nested_counts_equal_trying() -> None:
    inner = Repeat(seq(Repeat(lit("ab"), 1, 40), lit(",")), 1, 60)
    made = masks(seq(Repeat(inner, 1, 50), lit("c")))
    constraint = Constraint(made, made.start())
    for text in ("ab", "ab", ",", "ab,ab,", "ababab", ","):
        assert allowed(constraint) == tried(constraint)
        write(constraint, text)
    assert allowed(constraint) == tried(constraint)


def test_a_batch_fills_a_row_for_each_turn() -> None:
    a, b = schema({"const": "abc"}), write(schema({"type": "string"}), '"')
    rows = np.zeros((3, TRIE.words), np.int32)
    fill_batch([a, None, b], rows)
    assert (rows[0].view(np.uint32) == row_of(a)).all()
    assert (rows[1] == -1).all()
    assert (rows[2].view(np.uint32) == row_of(b)).all()
    with pytest.raises(UsageError):
        fill_batch([a, b], rows[:1])


def test_the_same_row_filled_twice_holds_the_second_mask() -> None:
    constraint = schema({"const": "abc"})
    row = np.zeros(TRIE.words, np.int32)
    constraint.fill(row)
    assert constraint.accept(VOCAB.id('"'))
    constraint.fill(row)
    assert (row.view(np.uint32) == row_of(constraint)).all()


def encode(text: str) -> list[int]:
    """Longest token first: stands for a tokenizer."""
    data, out = text.encode(), []
    while data:
        token = max((t for t in VOCAB.token_bytes if t and data.startswith(t)), key=len)
        out.append(VOCAB.token_bytes.index(token))
        data = data[len(token) :]
    return out


def test_forced_tokens_stop_where_another_token_could_reach_across() -> None:
    constraint = schema({"type": "object", "properties": {"name": {"enum": ["abx", "aby"]}}, "required": ["name"]})
    made = schema({"const": "name"})
    assert made.forced() == b'"name"'
    assert b"".join(VOCAB.token_bytes[t] or b"" for t in made.forced_tokens(encode)) == b'"name"'
    forced = constraint.forced()
    tokens = constraint.forced_tokens(encode)
    text = b"".join(VOCAB.token_bytes[token] or b"" for token in tokens)
    assert forced.startswith(text)
    assert text == b'{"name' + b'":'[: len(text) - 6]
    assert constraint.validate(tokens) == len(tokens)
    # `ab` is certain, but `abc` could be one token: where x or y follows it cannot, so both are given.
    behind = write(schema({"enum": ["abcd1", "abce1"]}), '"')
    assert behind.forced() == b"abc"
    assert behind.forced_tokens(encode) == []  # `abcd` is a token


def test_explanations_name_the_byte_and_what_could_stand_there() -> None:
    constraint = write(schema({"enum": ["abc", "abd"]}), '"')
    assert "allowed" in constraint.explain(VOCAB.id("abc"))
    text = constraint.explain(VOCAB.id("abcd"))
    assert "byte 4 ('d')" in text
    assert "after 'abc'" in text
    assert "'\"' may come" in text
    assert "may not end" in constraint.explain(VOCAB.eos_ids[0])
    assert "no text" in constraint.explain(VOCAB.controls["<call>"])
    assert "no text" in constraint.explain(VOCAB.size + 5)
    write(constraint, 'abc"')
    assert "may end here" in constraint.explain(VOCAB.eos_ids[0])
    assert constraint.accept(VOCAB.eos_ids[0])
    assert "has ended" in constraint.explain(VOCAB.id("abc"))


def test_after_the_end_nothing_is_allowed_until_it_is_rolled_back() -> None:
    constraint = write(schema({"const": 1}), "1")
    before = allowed(constraint)
    assert not constraint.ended
    assert constraint.accept(VOCAB.eos_ids[0])
    assert constraint.ended
    assert constraint.can_stop
    assert allowed(constraint) == set()
    assert tried(constraint) == set()
    assert not constraint.accept(VOCAB.eos_ids[0])
    assert constraint.validate([VOCAB.eos_ids[0]]) == 0
    assert constraint.accepted == 2
    assert constraint.forced() == b""
    assert constraint.forced_tokens(encode) == []
    assert "nothing may follow" in constraint.explain(VOCAB.eos_ids[0])
    constraint.prefetch().result()
    constraint.rollback(1)
    assert not constraint.ended
    assert allowed(constraint) == before
    assert constraint.validate([VOCAB.eos_ids[0], VOCAB.eos_ids[0]]) == 1


def test_a_mask_can_be_made_ahead_in_a_thread() -> None:
    constraint = write(schema({"type": "string"}), '"')
    with ThreadPoolExecutor(1) as executor:
        constraint.prefetch(executor)
    assert constraint.state is not None
    assert constraint.state.mask is not None
    assert allowed(constraint) == tried(constraint)
    write(constraint, "a")
    constraint.prefetch().result()
    assert constraint.state.mask is not None
    assert allowed(constraint) == tried(constraint)


WRONG_TOKENS = ("x", b"x", 1.5, None, [1], True, np.array([1, 2]))
WORDS = TRIE.words
READ_ONLY = np.frombuffer(bytes(4 * WORDS), np.uint32)
WRONG_ROWS: tuple[Any, ...] = (
    "x",
    None,
    [0] * WORDS,
    bytearray(4 * WORDS),
    np.zeros(WORDS, np.int64),
    np.zeros(WORDS, np.float32),
    np.zeros(WORDS - 1, np.int32),
    np.zeros((1, WORDS), np.int32),
    np.zeros(WORDS, np.dtype(np.int32).newbyteorder()),
    READ_ONLY,
)


@pytest.mark.parametrize("wrong", WRONG_TOKENS, ids=repr)
def test_what_is_no_token_is_refused_by_name(wrong: Any) -> None:
    constraint = write(schema({"type": "string"}), '"')
    for verb, param in (
        (constraint.accept, "token_id"),
        (constraint.explain, "token_id"),
        (constraint.rollback, "count"),
    ):
        with pytest.raises(UsageError) as raised:
            verb(wrong)
        assert raised.value.param == param
    with pytest.raises(UsageError) as raised:
        constraint.validate([97, wrong])
    assert raised.value.param == "token_ids[1]"
    assert constraint.accepted == 1


@pytest.mark.parametrize("wrong", ["x", b"x", 5, None, np.array(5)], ids=repr)
def test_what_is_no_list_of_tokens_is_refused(wrong: Any) -> None:
    with pytest.raises(UsageError) as raised:
        schema({}).validate(wrong)
    assert raised.value.param == "token_ids"


@pytest.mark.parametrize("wrong", WRONG_ROWS, ids=lambda row: f"{type(row).__name__} {getattr(row, 'dtype', '')}")
def test_what_is_no_row_is_refused(wrong: Any) -> None:
    with pytest.raises(UsageError) as raised:
        schema({}).fill(wrong)
    assert raised.value.param == "row"
    if getattr(wrong, "shape", ()) != (1, WORDS):
        with pytest.raises(UsageError):
            fill_batch([schema({})], wrong)
    with pytest.raises(UsageError):
        fill_batch([schema({})], [wrong])


def test_what_is_no_list_of_constraints_is_refused() -> None:
    rows = np.zeros((2, WORDS), np.int32)
    for wrong in ("x", 5, schema({}), [schema({}), 5], ["x"]):
        with pytest.raises(UsageError) as raised:
            fill_batch(wrong, rows)  # type: ignore[arg-type]
        assert raised.value.param == "constraints"


def test_numbers_and_rows_of_other_kinds_are_taken() -> None:
    """NumPy's integers; views of a larger bitmask, strided ones too, and plain memory."""
    constraint = schema({"type": "string"})
    assert constraint.accept(np.int64(VOCAB.id('"')))
    assert constraint.validate(np.array([97, 98])) == 2
    assert constraint.validate(iter([97, 98])) == 2  # type: ignore[arg-type]
    expected = row_of(constraint)
    wide = np.full((3, 2 * WORDS + 6), -1, np.int32)
    constraint.fill(wide[1, ::2])
    assert (wide[1, ::2][:WORDS].view(np.uint32) == expected).all()
    assert not wide[1, ::2][WORDS:].any()
    assert (wide[[0, 2]] == -1).all()
    assert (wide[1, 1::2] == -1).all()
    memory = bytearray(4 * WORDS)
    constraint.fill(memoryview(memory).cast("I"))
    assert memory == expected.tobytes()
    fill_batch([constraint], wide[2:, :WORDS])
    assert (wide[2, :WORDS].view(np.uint32) == expected).all()
    constraint.rollback(np.int64(1))  # type: ignore[arg-type]
    assert constraint.accepted == 0


def test_a_trie_comes_back_from_its_bytes() -> None:
    copy = TokenTrie.from_bytes(TRIE.to_bytes())
    for name in ("byte", "end", "parent", "token_start", "tokens"):
        assert (getattr(copy, name) == getattr(TRIE, name)).all()
    assert (copy.depth, copy.size, copy.bytes) == (TRIE.depth, TRIE.size, TRIE.bytes)
    for broken in (b"", b"dragoman", TRIE.to_bytes()[:-1], TRIE.to_bytes() + b"\0"):
        with pytest.raises(VocabularyError):
            TokenTrie.from_bytes(broken)


@pytest.mark.parametrize("texts", [(b"a", b"ab", b"abc", b"b"), (b"a", b"ab", b"a", b"ab", b"b", b"ab")])
def test_the_tokens_that_end_at_nodes_are_found_also_where_two_have_the_same_bytes(texts: tuple[bytes, ...]) -> None:
    trie = TokenTrie(texts, len(texts))
    every = np.arange(len(trie), dtype=np.int32)
    for nodes in (every, every[::-1], every[1::2], every[:0]):
        ending = [
            t for node in nodes for t in trie.tokens[trie.token_start[node] : trie.token_start[node + 1]].tolist()
        ]
        assert trie.ending_at(nodes).tolist() == ending
    assert sorted(trie.ending_at(every).tolist()) == list(range(len(texts)))


def test_a_bound_that_is_reached_starts_anew_and_changes_no_mask() -> None:
    limits = replace(DEFAULT, mask_bytes=2_000)
    plain, small = schema({}), schema({}, limits)
    for text in ('{"ab', '": [1', '23, "', "abc", '"], "', "é", '": {}}'):
        write(plain, text)
        write(small, text)
        assert (row_of(plain) == row_of(small)).all()
        assert allowed(small) == tried(small)
    small.rollback(5)
    plain.rollback(5)
    assert (row_of(plain) == row_of(small)).all()


def test_more_steps_than_allowed_for_one_mask_are_refused_by_name() -> None:
    TRIE.shared.clear()
    TRIE.recorded.clear()
    with pytest.raises(LimitError) as caught:
        row_of(write(schema({"type": "string"}, replace(DEFAULT, mask_steps=50)), '"'))
    assert caught.value.bound == "mask_steps"


def test_a_record_is_noted_for_its_own_state_only() -> None:
    # It stood at the end of the array, for a state not made yet: that one then lost the tokens of another's string.
    TRIE.shared.clear()
    TRIE.recorded.clear()
    made = masks(compile_schema({"type": "array", "items": {"type": "string"}}, name="s"))
    row_of(write(Constraint(made, made.start()), "["))
    automaton = made._kept.automaton
    assert not any(automaton.record[automaton.size :])
    assert not dragoman.compiled or any(number > 0 for number in automaton.record[: automaton.size])


def test_look_aheads_and_counts_together_equal_trying() -> None:
    made = masks(seq(lit('"'), Without(Repeat(AnyChar(), 0, 30), (b"abcde", b'": ')), lit('"}')))
    constraint = Constraint(made, made.start())
    for text in ('"', "a", "b", "cd", '"', ":", "é", "x" * 20):
        assert allowed(constraint) == tried(constraint)
        write(constraint, text)
    assert allowed(constraint) == tried(constraint)


def test_deep_nesting_is_written() -> None:
    constraint = write(schema({}), "[" * 2_000)
    assert allowed(constraint) == tried(constraint)
    write(constraint, "]" * 2_000)
    assert constraint.can_stop


def test_which_build_runs_is_told() -> None:
    origin = importlib.util.find_spec("dragoman.grammar.walk")
    assert origin is not None
    assert dragoman.compiled == (not str(sys.modules["dragoman.grammar.walk"].__file__).endswith(".py"))
    assert Path(str(origin.origin)).exists()


def test_values_of_a_schema_are_accepted_token_by_token() -> None:
    value = {"name": "abcé", "list": ["ab", "abcd"], "n": 123}
    wanted = {
        "type": "object",
        "properties": {
            "name": {"type": "string", "maxLength": 4},
            "list": {"type": "array", "items": {"type": "string", "maxLength": 4}, "maxItems": 2},
            "n": {"type": "integer", "maximum": 123},
        },
        "required": ["name", "list", "n"],
    }
    constraint = schema(wanted)
    for token in encode(json.dumps(value, ensure_ascii=False)):
        assert allowed(constraint) == tried(constraint)
        assert constraint.accept(token)
    assert constraint.can_stop
