"""Export as GBNF keeps the language, or includes it where the notation cannot say more."""

from __future__ import annotations

import re
from itertools import permutations, product
from typing import Any

import pytest

from dragoman.errors import GrammarError
from dragoman.grammar.lower import lower
from dragoman.grammar.nodes import (
    EMPTY,
    NOTHING,
    AnyChar,
    Choice,
    Class,
    Control,
    Grammar,
    Literal,
    Negate,
    Node,
    Permutation,
    Ref,
    Repeat,
    Sequence,
    Until,
    UntilConfirmed,
    Without,
    chars,
    lit,
    opt,
    schema,
    seq,
)
from dragoman.grammar.notation.avoid import Automaton
from dragoman.grammar.notation.gbnf import to_gbnf
from dragoman.grammar.notation.gbnf_read import read_gbnf
from dragoman.grammar.schema import SchemaOptions
from tests.oracles.backtrack import accepts
from tests.oracles.sample import Sampler

JSON_CHAR = Choice((Class(((0x20, 0x21), (0x23, 0x5B), (0x5D, 0x7E))), seq(lit("\\"), chars('"n\\'))))
TOOL = {
    "type": "object",
    "properties": {"city": {"type": "string"}, "n": {"type": "integer", "minimum": 0, "maximum": 23}},
    "required": ["city"],
    "additionalProperties": {"type": "array", "items": {"enum": ["a", "ab", 'q"']}, "maxItems": 3},
}

EXACT: dict[str, dict[str, Node]] = {
    "literals": {"root": Sequence((lit('a"\\\n\t\r\x01[]é😀'), Choice((lit("b"), lit("c")))))},
    "classes": {"root": Repeat(chars('^-]["\\é😀\n a'), 1, 3)},
    "rules": {
        "root": Sequence((Ref("a.b"), Ref("a_b"))),
        "a.b": lit("x"),
        "a_b": opt(seq(lit("("), Ref("a_b"), lit(")"))),
    },
    "repeats": {
        "root": Sequence((Repeat(lit("ab"), 2, 4), Repeat(Repeat(lit("c"), 2, 2), 0, 2), Repeat(opt(lit("d")), 1, 1)))
    },
    "nothing": {"root": Choice((lit("a"), seq(lit("b"), NOTHING), Ref("never"))), "never": seq(lit("x"), Ref("never"))},
    "until": {"root": seq(Until((b"<x>", b"<xy", "é!".encode())), opt(lit("<x>")))},
    "without": {"root": Without(Repeat(chars("ab")), (b"aba", b"bb"))},
    "without in strings": {"root": seq(lit('"'), Without(Repeat(JSON_CHAR), (b'\\"', b"</")), lit('"'))},
    "without counts": {"root": Without(Repeat(chars("ab"), 2, 5), (b"ab",))},
    "permutation": {
        "root": Permutation((lit("a"), lit("b"), lit("c"), lit("d")), (True, False, True, False), lit(","))
    },
    "schema": {"root": seq(lit("<c>"), schema(TOOL, EMPTY), lit("</c>"))},
    "control": {"root": seq(Control("<|x|>"), lit("y"))},
}


def exported(rules: dict[str, Node], **options: Any) -> tuple[Grammar, Grammar, str]:
    """The writer's grammar, the same read back from GBNF, and the GBNF."""
    writer = lower(Grammar(rules), "writer", options=SchemaOptions(**options))
    text = to_gbnf(writer)
    return writer, Grammar(read_gbnf(text)), text


def texts_of(grammar: Grammar, count: int = 60) -> list[bytes]:
    texts = {Sampler(grammar.rules, seed, 7).text(Ref(grammar.start)) for seed in range(count)}
    return [text for text in texts if len(text) < 120 and b"\0" not in text]


@pytest.mark.parametrize("name", EXACT)
def test_the_language_is_kept(name: str) -> None:
    writer, back, _ = exported(EXACT[name])
    for text in texts_of(writer):
        assert accepts(back, text), text
    ends = (b"<x>",) if name == "until" else ()
    for text in texts_of(back):
        # A text may end anywhere in an export; in a grammar only in front of a delimiter or at the end of input.
        assert accepts(writer, text) or any(end in text for end in ends), text


@pytest.mark.parametrize("words", [("ab",), ("aba", "bb"), ("a", "ba"), ("abab", "bab", "aa"), ("b",), ("aab", "ab")])
def test_exclusion_is_exact_on_all_short_texts(words: tuple[str, ...]) -> None:
    forbidden = tuple(word.encode() for word in words)
    _, back, _ = exported({"root": Without(Repeat(chars("ab")), forbidden)})
    for size in range(8):
        for letters in product("ab", repeat=size):
            text = "".join(letters)
            assert accepts(back, text.encode()) == (not any(word in text for word in words)), text


def test_the_automaton_knows_every_suffix() -> None:
    automaton = Automaton.of(("he", "she", "hers", "his"))
    for letters in product("ehirs", repeat=5):
        state, found = 0, False
        for letter in letters:
            state = automaton.steps[state].get(letter, 0)
            found = found or state in automaton.ends
        assert found == bool(re.search("he|she|hers|his", "".join(letters)))


def test_until_confirmed_forbids_only_confirmed_closers() -> None:
    follow = seq(Repeat(chars("\n")), Choice((lit("<p>"), lit("</f>"))))
    _, back, _ = exported({"root": seq(UntilConfirmed(b"</p>", follow), lit("\n</f>"))})
    texts = {"x</p>\n</f>": True, "</p></p>\n</f>": True, "a</p> b</p>\n</f>": True, "a</p>\n<p>b</p>\n</f>": False}
    assert {text: accepts(back, text.encode()) for text in texts} == texts


def test_look_ahead_is_left_out() -> None:
    _, back, _ = exported({"root": seq(Negate(lit("a")), AnyChar())})
    assert accepts(back, b"a")
    assert accepts(back, b"b")


def test_every_order_of_four_and_the_declared_order_of_more() -> None:
    letters = "abcde"
    _, four, _ = exported({"root": Permutation(tuple(map(lit, letters[:4])), (True,) * 4, lit(","))})
    assert all(accepts(four, ",".join(order).encode()) for order in permutations(letters[:4]))
    _, five, text = exported(
        {"root": Permutation(tuple(map(lit, letters)), (True, False, True, False, False), lit(","))}
    )
    assert all(accepts(five, right) for right in (b"a,c", b"a,b,c,d,e", b"a,c,e"))
    assert not any(accepts(five, wrong) for wrong in (b"c,a", b"a", b"a,,c", b"a,c,"))
    many = to_gbnf(Grammar({"root": Permutation(tuple(lit(f"<{n}>") for n in range(300)), (False,) * 300, lit(","))}))
    assert len(many) < 200 * len(text)  # 60 times the items


def test_counts_stay_within_what_llama_cpp_takes() -> None:
    _, _, text = exported(
        {"root": seq(Repeat(chars("a"), 0, 5000), Repeat(chars("b"), 4000, 10**9), Repeat(lit("xy"), 0, 70))}
    )
    assert text == (
        "root ::= [a]* [b]{1999} [b]{1999} [b]{2,} root-item0{0,70}\n"
        'root-item0 ::= "xy"\n'
    )  # fmt: skip


def test_a_product_too_large_gives_up_counts_then_the_exclusion() -> None:
    _, back, text = exported({"root": Without(Repeat(chars("ab"), 0, 100_000), (b"ab",))})
    assert not accepts(back, b"ab")
    assert len(text) < 1000
    nested = {"root": Without(Ref("a"), (b"xx",)), "a": opt(seq(lit("("), Ref("a"), lit(")"), opt(lit("xx"))))}
    _, back, _ = exported(nested)
    assert accepts(back, b"(()xx)")


def test_names_are_legal_and_distinct() -> None:
    rules: dict[str, Node] = {
        "main": seq(Ref("a.b"), Ref("a_b"), Ref("a-b"), Ref("root"), Ref("é"), Ref("a-b-2")),
        **{name: lit(name) for name in ("a.b", "a_b", "a-b", "root", "é", "a-b-2")},
    }
    text = to_gbnf(Grammar(rules, "main"))
    names = re.findall(r"^(\S+) ::=", text, re.MULTILINE)
    assert names[0] == "root"
    assert len(names) == len(set(names)) == 7
    assert all(re.fullmatch("[A-Za-z0-9-]+", name) for name in names)
    assert accepts(Grammar(read_gbnf(text)), "a.ba_ba-brooté".encode() + b"a-b-2")


def test_what_cannot_be_written_is_refused() -> None:
    with pytest.raises(GrammarError, match="no UTF-8"):
        to_gbnf(Grammar({"root": Literal(b"\xff")}))
    with pytest.raises(GrammarError, match="no text"):
        to_gbnf(Grammar({"root": seq(lit("a"), Ref("root"))}))
    with pytest.raises(GrammarError, match="lowered"):
        to_gbnf(Grammar({"root": schema({}, EMPTY)}))
    with pytest.raises(GrammarError, match="no rule"):
        to_gbnf(Grammar({"root": Ref("x")}))
