"""Questions about a grammar, against their definitions; what is refused, and what the refusal says."""

from __future__ import annotations

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from dragoman.errors import GrammarError
from dragoman.grammar.analysis import check, nullable, nullable_rules, walk
from dragoman.grammar.compile import compile_reader, compile_writer
from dragoman.grammar.nodes import (
    EMPTY,
    NOTHING,
    AnyChar,
    Choice,
    Commit,
    Duplex,
    Grammar,
    Literal,
    Negate,
    Node,
    Peek,
    Permutation,
    Recovery,
    Ref,
    Repeat,
    Sequence,
    Tag,
    Until,
    UntilConfirmed,
    Without,
)
from tests import strategies
from tests.oracles import wellformed
from tests.oracles.backtrack import accepts

A, B = Literal(b"a"), Literal(b"b")


def rules(**nodes: Node) -> Grammar:
    return Grammar(nodes)


REFUSED: dict[str, tuple[Grammar, str]] = {
    "left recursion": (rules(root=Choice((Sequence((Ref("root"), A)), B))), "left recursion"),
    "left recursion of two": (rules(root=Ref("x"), x=Choice((Sequence((Ref("root"), A)), B))), "left recursion"),
    "left recursion behind an empty prefix": (rules(root=Choice((Sequence((Repeat(A), Ref("root"))), B))), "left rec"),
    "left recursion behind a nullable rule": (
        rules(root=Choice((Sequence((Ref("x"), Ref("root"))), B)), x=Choice((A, EMPTY))),
        "left recursion",
    ),
    "left recursion behind a look": (rules(root=Choice((Sequence((Peek(A), Ref("root"))), B))), "left recursion"),
    "left recursion in a tag": (rules(root=Tag("t", Choice((Ref("root"), A)))), "left recursion"),
    "left recursion in a repeat": (rules(root=Choice((A, Repeat(Sequence((Ref("root"), B)))))), "left recursion"),
    "left recursion in a permutation": (rules(root=Choice((A, Permutation((Ref("root"),), (True,))))), "left rec"),
    "left recursion out of use": (rules(root=A, x=Sequence((Ref("x"), A))), "'x'"),
    "nullable repeat": (rules(root=Repeat(Choice((A, EMPTY)))), "may be empty"),
    "nullable repeat of a rule": (
        rules(root=Repeat(Ref("x")), x=Sequence((Repeat(A), Until((b"b",))))),
        "may be empty",
    ),
    "nullable optional": (rules(root=Repeat(EMPTY, 0, 1)), "may be empty"),
    "nullable permutation item": (rules(root=Permutation((Repeat(A), B), (True, True))), "may be empty"),
    "impossible count": (rules(root=Repeat(A, 3, 2)), "3 to 2"),
    "unknown rule": (rules(root=Sequence((A, Ref("gone")))), "'gone'"),
    "unknown rule out of use": (rules(root=A, x=Ref("gone")), "'gone'"),
    "unknown start": (Grammar({"x": A}), "'root'"),
    "unknown recovery rule": (Grammar({"root": A}, recovery={"c": Recovery("gone")}), "'gone'"),
    "flags and items": (rules(root=Permutation((A, B), (True,))), "flag"),
    "empty delimiter": (rules(root=Until((b"a", b""))), "empty delimiter"),
    "empty closer": (rules(root=UntilConfirmed(b"", A)), "empty closer"),
    "empty forbidden string": (rules(root=Without(A, (b"",))), "empty forbidden"),
    "unbounded look": (rules(root=Sequence((Peek(Repeat(A)), A))), "unbounded"),
    "look through text": (rules(root=Sequence((Negate(Until((b"a",))), A))), "Until"),
    "look through a recursive rule": (rules(root=Peek(Ref("x")), x=Choice((Sequence((A, Ref("x"))), B))), "recursive"),
    "look in a look": (rules(root=Peek(Sequence((Negate(A), B)))), "Negate"),
    "unbounded follow": (rules(root=UntilConfirmed(b"b", Repeat(A))), "unbounded"),
    "not lowered": (rules(root=Duplex(A, A)), "Duplex"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_refused(name: str) -> None:
    grammar, says = REFUSED[name]
    with pytest.raises(GrammarError, match=says):
        compile_reader(grammar)
    with pytest.raises(GrammarError, match=says):
        compile_writer(grammar)


def test_a_refusal_names_the_rule() -> None:
    with pytest.raises(GrammarError) as caught:
        check(rules(root=Sequence((A, Ref("list"))), list=Choice((Sequence((Ref("list"), A)), A))))
    assert caught.value.rule == "list"


@pytest.mark.parametrize(
    "grammar",
    [
        rules(root=Choice((Sequence((A, Ref("root"))), EMPTY))),
        rules(
            root=Sequence((Repeat(Sequence((Commit("c"), A))), Ref("x"))), x=Choice((Sequence((B, Ref("root"))), EMPTY))
        ),
        rules(root=Choice((Sequence((NOTHING, Ref("root"))), A))),  # nothing is not empty: never reached
        rules(root=Sequence((Peek(Ref("x")), AnyChar())), x=Repeat(A, 1, 3)),
        rules(root=Repeat(A, 0, 0)),
        rules(root=Until(())),
    ],
    ids=["right", "mutual right", "behind nothing", "bounded look at a rule", "no time", "no delimiter"],
)
def test_allowed(grammar: Grammar) -> None:
    check(grammar)
    compile_reader(grammar)


def test_chains_of_rules_need_no_python_recursion() -> None:
    size = 5_000
    grammar = Grammar({"root": Ref("r0"), **{f"r{i}": Ref(f"r{i + 1}") for i in range(size)}, f"r{size}": A})
    assert not any(check(grammar).values())
    turned = Grammar({name: grammar.rules[name] for name in reversed(list(grammar.rules))})
    assert not any(check(turned).values())
    with pytest.raises(GrammarError, match="left recursion"):
        check(Grammar({**grammar.rules, f"r{size}": Choice((A, Ref("r0")))}))


@settings(max_examples=200, deadline=None, suppress_health_check=list(HealthCheck))
@given(st.data())
def test_nullable_is_its_definition(data: st.DataObject) -> None:
    grammar = data.draw(strategies.grammars())
    known = nullable_rules(grammar)
    for name, body in grammar.rules.items():
        assert known[name] == wellformed.nullable(grammar, body)
        for node in walk(body):
            assert nullable(node, known) == wellformed.nullable(grammar, node)
    if accepts(grammar, b""):
        assert known[grammar.start]


@settings(max_examples=200, deadline=None, suppress_health_check=list(HealthCheck))
@given(st.data())
def test_grammars_at_random_are_refused_by_definition(data: st.DataObject) -> None:
    """One more alternative in one rule, a bare reference to any rule, makes left recursion now and then."""
    grammar = data.draw(strategies.grammars())
    name, other = (data.draw(st.sampled_from(sorted(grammar.rules))) for _ in range(2))
    wild = Grammar({**grammar.rules, name: Choice((grammar.rules[name], Sequence((Repeat(B), Ref(other)))))})
    if wellformed.refused(wild):
        with pytest.raises(GrammarError):
            compile_reader(wild)
    else:
        compile_reader(wild)
