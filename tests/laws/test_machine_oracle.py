"""Law: the machine and the oracle agree, on every small grammar and every short text, and on random large ones.

Both programs are held to it: the reader gives the oracle's events, the writer accepts the oracle's texts. What is no
grammar by definition, the compiler refuses.
"""

from __future__ import annotations

import os

import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from dragoman.errors import GrammarError
from dragoman.events import Event
from dragoman.grammar.compile import compile_reader, compile_writer
from dragoman.grammar.nodes import (
    EMPTY,
    Atomic,
    Choice,
    Grammar,
    Literal,
    Negate,
    Node,
    Peek,
    Permutation,
    Ref,
    Sequence,
    Until,
    UntilConfirmed,
    Without,
)
from dragoman.grammar.program import Program
from dragoman.grammar.run import Run
from tests import strategies
from tests.exhaustive import A, B, Family, all_texts, lazy_star, optional, star, tag
from tests.oracles.backtrack import OutOfFuel, merged, parse
from tests.oracles.wellformed import refused

TEXTS = all_texts(5)
EXAMPLES = int(os.environ.get("DRAGOMAN_EXAMPLES", "400"))  # more for a longer hunt

REGULAR = Family((A, B, EMPTY), (tag, star, lazy_star), symmetric=True)
RECURSIVE = Family((A, B, EMPTY, Ref("root")), (tag,), symmetric=True)
COUNTED = Family((A, B), (tag, optional, lambda item: Permutation((item, B), (False, True), A)))
LOOKING = Family(
    (A, B, Until((b"ab",)), Until((b"b",)), UntilConfirmed(b"b", A, "v")),
    (tag, star, Peek, Negate, lambda item: Without(item, (b"ab",))),
)
OVERLAP = (b"ab", b"b")  # one begins inside the other
SCANNING = Family((A, B, Until(OVERLAP)), (tag, star, lambda item: Without(item, OVERLAP)))
# family, largest size, how many (grammar, text) pairs there must be at least: a hole in the enumeration must not pass
FAMILIES = {
    "regular": (REGULAR, 6, 80_000),
    "recursive": (RECURSIVE, 7, 120_000),
    "counted": (COUNTED, 5, 10_000),
    "looking": (LOOKING, 4, 40_000),
    "scanning": (SCANNING, 5, 70_000),
}


# A first byte alone, a following byte alone, a byte of no character, a surrogate, an overlong encoding.
BROKEN = (b"\xc3", b"\xa9", b"\xff", b"\xed\xa0\x80", b"\xc0\xb1")


def read(program: Program, data: bytes) -> list[Event] | None:
    """The machine's events of the whole text, fed byte by byte; None where it is not accepted."""
    run = Run(program)
    events: list[Event] = []
    for i in range(len(data)):
        if run.feed(data[i : i + 1]) == 0:
            return None
        events += run.take()
    if not run.finish():
        return None
    return merged(events + run.take())


def writes(program: Program, data: bytes) -> bool:
    """True where the writer program accepts the text."""
    run = Run(program)
    return run.feed(data) == len(data) and run.finish()


def writer_of(grammar: Grammar) -> Program | None:
    """The writer program; None where nothing can be written."""
    try:
        return compile_writer(grammar)
    except GrammarError as error:
        if "no text can be written" not in str(error):
            raise
        return None


def describe(grammar: Grammar, data: bytes) -> str:
    return f"{dict(grammar.rules)} on {data!r}"


@pytest.mark.parametrize("name", FAMILIES)
def test_every_small_grammar_reads_as_the_oracle(name: str) -> None:
    family, size, least = FAMILIES[name]
    pairs = 0
    for tree in family.up_to(size):
        pairs += check_on_all_texts(tree)
    assert pairs >= least


def check_on_all_texts(tree: Node) -> int:
    """The number of texts that were compared."""
    grammar = Grammar({"root": tree})
    if refused(grammar):
        with pytest.raises(GrammarError):
            compile_reader(grammar)
        return 0
    reader, writer = compile_reader(grammar), writer_of(grammar)
    for text in TEXTS:
        expected = parse(grammar, text)
        assert read(reader, text) == expected, describe(grammar, text)
        written = writer is not None and writes(writer, text)
        assert written == (expected is not None), f"writer: {describe(grammar, text)}"
    return len(TEXTS)


@settings(max_examples=EXAMPLES, derandomize=True, deadline=None, suppress_health_check=list(HealthCheck))
@given(st.data())
def test_random_grammars_read_as_the_oracle(data: st.DataObject) -> None:
    grammar = data.draw(strategies.grammars())
    reader = compile_reader(grammar)
    for _ in range(4):
        text = data.draw(strategies.texts(grammar))
        assert read(reader, text) == ask(grammar, text), describe(grammar, text)


@settings(max_examples=EXAMPLES, derandomize=True, deadline=None, suppress_health_check=list(HealthCheck))
@given(st.data())
def test_random_writers_accept_what_the_oracle_accepts(data: st.DataObject) -> None:
    grammar = data.draw(strategies.grammars())
    writer = writer_of(grammar)
    for _ in range(4):
        text = data.draw(strategies.texts(grammar))
        written = writer is not None and writes(writer, text)
        assert written == (ask(grammar, text) is not None), describe(grammar, text)


def ask(grammar: Grammar, text: bytes) -> list[Event] | None:
    """The oracle's answer; the example is given up where the question is too large for it."""
    try:
        return parse(grammar, text, fuel=100_000)
    except OutOfFuel:
        assume(False)
        raise


@settings(max_examples=EXAMPLES, derandomize=True, deadline=None, suppress_health_check=list(HealthCheck))
@given(st.data())
def test_broken_utf8_is_no_character(data: st.DataObject) -> None:
    grammar = data.draw(strategies.grammars())
    whole = data.draw(strategies.texts(grammar))
    at = data.draw(st.integers(0, len(whole)))
    text = whole[:at] + data.draw(st.sampled_from(BROKEN)) + whole[at:]
    assert read(compile_reader(grammar), text) == ask(grammar, text), describe(grammar, text)


F = (b"aab",)
CASES: dict[str, tuple[Node, bytes]] = {
    "an atomic group is no region: its text is not told": (Atomic(A), b"a"),
    "an inner scan ends without the outer one": (Without(Sequence((A, Without(A, F), B)), F), b"aab"),
    "an inner until trails on when the outer scan is dropped": (
        Sequence((Without(Until(OVERLAP), OVERLAP), B)),
        b"ab",
    ),
    "an until ends without the scan around it": (Without(Sequence((A, Until(F), Literal(b"aab"))), F), b"aaab"),
}


@pytest.mark.parametrize("name", CASES)
def test_found_cases(name: str) -> None:
    tree, text = CASES[name]
    grammar = Grammar({"root": tree})
    assert read(compile_reader(grammar), text) == parse(grammar, text)
    writer = writer_of(grammar)
    assert (writer is not None and writes(writer, text)) == (parse(grammar, text) is not None)


def keyed(item: Node) -> Node:
    """A permutation that counts its rounds."""
    return Permutation((item, A), (True, False), B)


SELF = Ref("root")
NESTED: dict[str, tuple[Node, bytes]] = {
    "a rule repeated before the same rule": (Sequence((star(SELF), Choice((SELF, tag(A))))), b"aaab"),
    "a rule repeated before the same rule in a region": (Sequence((star(SELF), Choice((B, tag(SELF))))), b"aababb"),
    "permutations in permutations": (keyed(keyed(keyed(Sequence((SELF, B))))), b"aaabbb"),
}


@pytest.mark.parametrize("name", NESTED)
def test_found_cases_of_ambiguous_recursion(name: str) -> None:
    tree, text = NESTED[name]
    check_recursion(tree, [text])


@settings(max_examples=EXAMPLES, derandomize=True, deadline=None, suppress_health_check=list(HealthCheck))
@given(
    st.recursive(
        st.sampled_from([A, B, SELF, SELF]),
        lambda below: st.one_of(
            st.builds(lambda x, y: Sequence((x, y)), below, below),
            st.builds(lambda x, y: Choice((x, y)), below, below),
            st.sampled_from([tag, star, lazy_star, keyed]).flatmap(lambda wrap: below.map(wrap)),
        ),
        max_leaves=6,
    ),
    st.lists(st.text("ab", min_size=3, max_size=7).map(lambda text: b"a" + text.encode()), min_size=4, max_size=8),
)
def test_ambiguous_recursion_keeps_its_priorities(tree: Node, texts: list[bytes]) -> None:
    check_recursion(tree, texts)


def check_recursion(tree: Node, texts: list[bytes]) -> None:
    grammar = Grammar({"root": Choice((Sequence((A, tree)), B))})
    if refused(grammar):
        return
    reader, writer = compile_reader(grammar), writer_of(grammar)
    for text in texts:
        expected = ask(grammar, text)
        assert read(reader, text) == expected, describe(grammar, text)
        written = writer is not None and writes(writer, text)
        assert written == (expected is not None), f"writer: {describe(grammar, text)}"


def test_recursion_behind_equal_prefixes_stays_linear() -> None:
    """Two alternatives that start alike and nest: 60 levels deep they must not be 2**60 ways to read."""
    nested = Choice((Sequence((A, Ref("root"), A)), Sequence((A, Ref("root"), B)), B))
    run = Run(compile_reader(Grammar({"root": nested})))
    assert run.feed(b"a" * 60 + b"b" + b"ab" * 30) == 121
    assert run.finish()
