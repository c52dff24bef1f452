"""Parts of masks: counts whose rounds are told apart late, rules that grammars share, sets of tokens as rows."""

from __future__ import annotations

import random
from dataclasses import replace

import numpy as np
import pytest

from dragoman.constraint import maker
from dragoman.constraint.bits import Bits, union
from dragoman.constraint.constraint import Constraint
from dragoman.constraint.masks import Masks, masks_for
from dragoman.constraint.trie import TokenTrie
from dragoman.grammar.compile import compile_writer
from dragoman.grammar.guards import Guards
from dragoman.grammar.json import JsonStyle, json_string
from dragoman.grammar.lazy_automaton import Automaton
from dragoman.grammar.nodes import Class, Grammar, Node, Ref, Repeat, alt, lit, seq
from dragoman.grammar.notation.prune import prune
from dragoman.grammar.schema import compile_schema
from dragoman.grammar.walk import COMPILED
from dragoman.limits import DEFAULT


class Tokens:
    """All bytes as tokens, and longer ones of what the grammars below use."""

    size = 288
    longer = (b"aa", b"aaa", b"aaaaa", b"ab", b"ba", b"bb", b"a!", b"aa!", b'a"', b'"}', b'",', b"\xc3\xa9a", b"aab,a")
    token_bytes: tuple[bytes | None, ...] = (*(bytes([b]) for b in range(256)), *longer, None)
    controls = {"<end>": len(token_bytes) - 1}  # noqa: RUF012
    eos_ids = (len(token_bytes) - 1,)


VOCAB = Tokens()


def made(node: Node, trie: TokenTrie, **rules: Node) -> Masks:
    return masks_for(Grammar({"s": node, **rules}, "s"), VOCAB, trie)


def masked(constraint: Constraint) -> set[int]:
    row = np.full(VOCAB.size // 32, 0xFFFFFFFF, dtype=np.uint32)
    constraint.fill(row)
    return set(np.flatnonzero(np.unpackbits(row.view(np.uint8), bitorder="little")).tolist())


def tried(constraint: Constraint) -> set[int]:
    found = set()
    for token in range(VOCAB.size):
        if constraint.accept(token):
            constraint.rollback(1)
            found.add(token)
    return found


A, B = lit("a"), lit("b")
COUNTED = {
    # How many rounds a run of letters was stays open for as long as it goes on.
    "open": seq(Repeat(Repeat(A, 1, None), 2, 40), lit("!")),
    "open, much room": seq(Repeat(alt(Repeat(A, 1, None), B), 3, 200), lit("!")),
    "without an end": seq(Repeat(alt(A, seq(A, A), B), 30, None), lit("!")),
    "inside a count": seq(Repeat(seq(Repeat(alt(A, seq(A, B)), 2, 30), lit(",")), 2, 30), lit("!")),
    "the whole rule": Repeat(alt(A, seq(A, A, A), B), 25, 60),
}


@pytest.mark.parametrize("name", COUNTED)
def test_rounds_that_are_told_apart_late_equal_trying(name: str) -> None:
    trie = TokenTrie(VOCAB.token_bytes, VOCAB.size)
    for number in range(2):
        constraint = Constraint(masks := made(COUNTED[name], trie), masks.start())
        pick = random.Random(f"{name} {number}")
        for _ in range(40):  # far more rounds than a token has bytes
            allowed = masked(constraint)
            assert allowed == tried(constraint), (name, constraint.accepted)
            going_on = [t for t in sorted(allowed - set(VOCAB.eos_ids)) if b"!" not in (VOCAB.token_bytes[t] or b"")]
            if not going_on:
                break
            assert constraint.accept(pick.choice(going_on))
        assert constraint.accepted > 15


def test_rounds_grow_inside_a_body_that_is_never_at_its_edge() -> None:
    """After an odd number of letters no round can end, and any number of them may have begun."""
    pairs = Repeat(Repeat(lit("aa"), 1, None), 2, 30)
    constraint = Constraint(
        masks := made(seq(pairs, lit("!")), TokenTrie(VOCAB.token_bytes, VOCAB.size)), masks.start()
    )
    assert constraint.accept(VOCAB.token_bytes.index(b"a"))
    for _ in range(40):
        assert masked(constraint) == tried(constraint)
        assert constraint.accept(VOCAB.token_bytes.index(b"aa"))
    assert constraint.accept(VOCAB.token_bytes.index(b"a!"))
    assert constraint.can_stop


def test_a_rule_that_grammars_share_allows_the_same_in_each() -> None:
    """The part of a shared rule is made once for a vocabulary; what surrounds it differs."""
    style = JsonStyle(whitespace="compact", escapes="canonical")
    text, short = json_string(style), json_string(style, maximum=3)
    assert json_string(style) is text, "the same object, by which it is known again"
    around = (
        lambda node: node,
        lambda node: seq(lit("{"), node, lit("}")),
        lambda node: Repeat(seq(node, lit(",")), 1, 30),
        lambda node: seq(node, lit(","), node),
    )
    together = TokenTrie(VOCAB.token_bytes, VOCAB.size)
    masks_seen = 0
    for body in (text, short):
        for place in around:
            for name in ("t", "u"):
                node = place(Ref(name))
                shared = made(node, together, **{name: body, "z": Class(((120, 120),))})
                alone = made(node, TokenTrie(VOCAB.token_bytes, VOCAB.size), **{name: body})
                left, right = Constraint(shared, shared.start()), Constraint(alone, alone.start())
                pick = random.Random(str(node))
                for _ in range(12):
                    allowed = masked(left)
                    assert allowed == masked(right) == tried(left)
                    masks_seen += 1
                    going_on = sorted(allowed - set(VOCAB.eos_ids))
                    if not going_on:
                        break
                    token = pick.choice(going_on)
                    assert left.accept(token)
                    assert right.accept(token)
    assert masks_seen > 60
    assert len(together.shared) > 1


def test_sets_of_tokens_are_written_however_the_row_lies() -> None:
    words = 40
    pick = random.Random(5)
    few, many = (np.array(sorted(pick.sample(range(words * 32), n)), dtype=np.int32) for n in (7, 900))
    sets = [Bits(few, words), Bits(many, words), union([Bits(few, words), Bits(many, words)], words)]
    assert [bits.row is None for bits in sets] == [True, False, False]
    for bits, expected in zip(sets, (set(few), set(many), {*few, *many}), strict=True):
        for row in (
            np.full(words, 0xFFFFFFFF, dtype=np.uint32),
            np.full(words + 3, 0xFFFFFFFF, dtype=np.uint32),
            np.full((words, 2), 0xFFFFFFFF, dtype=np.uint32)[:, 0],
        ):
            bits.write(row)
            found = np.flatnonzero(np.unpackbits(np.ascontiguousarray(row).view(np.uint8), bitorder="little"))
            assert set(found.tolist()) == {int(token) for token in expected}


def test_pruning_takes_out_what_cannot_end_and_keeps_the_rest_as_it_is() -> None:
    fine = {"s": seq(lit("{"), Ref("t"), lit("}")), "t": alt(lit("x"), Ref("s")), "far": lit("y")}
    kept = prune(fine, "s")
    assert kept == {"s": fine["s"], "t": fine["t"]}
    assert all(kept[name] is fine[name] for name in kept)
    loops = {"s": alt(seq(lit("a"), Ref("l")), seq(lit("b"), Ref("t"))), "l": seq(lit("l"), Ref("l")), "t": lit("t")}
    assert prune(loops, "s") == {"s": seq(lit("b"), Ref("t")), "t": lit("t")}
    assert prune({"s": alt(lit("a"), Ref("none"))}, "s") == {"s": lit("a")}
    assert prune({"s": alt(lit("a"), seq(lit("b"), Class(())))}, "s") == {"s": lit("a")}
    assert prune({"s": seq(lit("a"), Ref("s"))}, "s") is None


def test_parts_of_wide_states_are_kept_as_rows() -> None:
    """Many wide states fit into what may be kept: none pushes out the others at every mask."""
    trie = TokenTrie(VOCAB.token_bytes, VOCAB.size)
    states = 30
    node = seq(*(Class(((0x20, 0x7E - number),)) for number in range(states)))
    whole = made(node, trie)
    few = masks_for(Grammar({"s": node}, "s"), VOCAB, trie, replace(DEFAULT, mask_bytes=states * 4 * trie.words * 4))
    for masks in (whole, few):
        constraint = Constraint(masks, masks.start())
        before = constraint.state
        for _ in range(states):
            masked(constraint)
            assert constraint.accept(0x21)
        constraint.rollback(states)
        assert before is not None
        assert masks.start() is before, "nothing was thrown away"


PICK = random.Random(8)
WORDS = sorted({"".join(PICK.choices('abnmé€"":,} 0', k=PICK.randint(2, 6))).encode() for _ in range(700)})


class Words(Tokens):
    """Tokens that begin, go through and leave keys."""

    token_bytes = (*(bytes([b]) for b in range(256)), *WORDS, None)
    size = -(-len(token_bytes) // 32) * 32
    controls = {"<end>": len(token_bytes) - 1}  # noqa: RUF012
    eos_ids = (len(token_bytes) - 1,)


FURTHER = {
    "any": {"properties": {"ab": {"type": "integer"}, "an": True, "é": True}},
    "strings": {"properties": {"man": {"const": "b"}, "mb": {}}, "additionalProperties": {"type": "string"}},
    "required": {"properties": {"nab": {"type": "null"}}, "required": ["nab", "nam"], "additionalProperties": True},
    "a pattern": {"type": "string", "pattern": "^a+[^b]*$"},
    "a pattern anywhere": {"type": "string", "pattern": "[am]{2}|é€"},
    "keys of a pattern": {"patternProperties": {"m[né]": {"type": "integer"}, "^€": True}},
    "keys that share": {"properties": dict.fromkeys(("é€", "éa", "é", "mna", "mn", "mné", "mn€"), True)},
    "a bound": {"properties": {"b": {"maxLength": 9}}, "additionalProperties": {"minLength": 2}},
}


@pytest.mark.parametrize("recording", [True, False])
def test_pieces_of_recorded_walks_equal_trying(monkeypatch: pytest.MonkeyPatch, recording: bool) -> None:
    """One trie for all, so that what one grammar's walk was recorded for serves the others."""
    monkeypatch.setattr(maker, "_RECORDS", 16 if recording else 0)
    vocab = Words()
    trie = TokenTrie(vocab.token_bytes, vocab.size)
    row = np.zeros(trie.words, dtype=np.uint32)
    for number, (name, schema) in enumerate(FURTHER.items()):
        grammar = Grammar(compile_schema({"type": "object"} | schema, name="s"), "s")
        constraint = Constraint(masks := masks_for(grammar, vocab, trie), masks.start())
        pick = random.Random(number)
        for _ in range(25):
            constraint.fill(row)
            allowed = set(np.flatnonzero(np.unpackbits(row.view(np.uint8), bitorder="little")).tolist())
            found = {token for token in range(vocab.size) if constraint.validate([token])}
            assert allowed == found, (name, constraint.accepted)
            going_on = sorted(allowed - set(vocab.eos_ids))
            if not going_on:
                break
            assert constraint.accept(pick.choice(going_on))
    assert (max(trie.recorded.values(), default=-1) > 0) == (recording and COMPILED)


@pytest.mark.skipif(not COMPILED, reason="records are for the compiled walk")
def test_keys_of_another_object_take_few_steps() -> None:
    """Keys beside others than declared are mostly any string: what that allows is walked once for a vocabulary."""
    vocab = Words()
    trie = TokenTrie(vocab.token_bytes, vocab.size)
    steps = []
    for name in ("ab", "nm", "mé", "ba"):
        grammar = Grammar(compile_schema({"type": "object", "properties": {name: True}}, name="s"), "s")
        constraint = Constraint(masks := masks_for(grammar, vocab, trie), masks.start())
        assert constraint.accept(ord("{"))
        assert constraint.accept(ord('"'))
        constraint.fill(np.zeros(trie.words, dtype=np.uint32))
        steps.append(trie.walk().steps)
    assert max(steps[1:]) < len(trie) // 5, (steps, len(trie))


@pytest.mark.skipif(not COMPILED, reason="uncompiled, wide states are walked level by level")
def test_two_ways_that_meet_again_inside_a_character_are_one() -> None:
    """The rest of a character of several bytes is the same, wherever in the grammar it stands."""
    char = alt(Class(((0x20, 0x7E),)), Ref("wide"))
    rules: dict[str, Node] = {"wide": Class(((0x80, 0x10FFFF),))}
    rules["rest"] = seq(Repeat(Class(((0x20, 0x21), (0x23, 0x7E), (0x80, 0x10FFFF))), 0, None), lit('"'))
    program = compile_writer(Grammar({"s": seq(alt(lit("a"), char), Ref("rest")), **rules}, "s"), controls={})
    automaton = Automaton(program, Guards(program), 8, DEFAULT)
    start = automaton.settled(program.entries["s"] << 40 | automaton.root << 16)
    start = automaton.state((start,))
    once = automaton.step(start, ord("b"))
    for data in ("é", "€", "𝄞"):
        one, two = start, once
        for byte in data.encode()[:-1]:
            one, two = automaton.step(one, byte), automaton.step(two, byte)
            assert one == two, data
            assert one >= 0, data
        assert automaton.step(one, data.encode()[-1]) == once


def test_the_width_of_a_state_is_the_number_of_its_bytes() -> None:
    """Also where some bytes are told apart from a class that they are in: a state that is wide is walked as such."""
    node = alt(lit("\x7f0"), lit("b1"), lit("c2"), lit("z3"), seq(Class(((0x20, 0x7F),)), lit("!")))
    program = compile_writer(Grammar({"s": node}, "s"), controls={})
    automaton = Automaton(program, Guards(program), 8, DEFAULT)
    state = automaton.state((automaton.settled(program.entries["s"] << 40 | automaton.root << 16),))
    assert automaton.width(state) == 0x60 == sum(automaton.step(state, byte) >= 0 for byte in range(256))
