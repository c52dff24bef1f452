"""One tree, two sides."""

from __future__ import annotations

import pytest

from dragoman.errors import GrammarError, LimitError, SchemaError
from dragoman.grammar.analysis import check, walk
from dragoman.grammar.lower import lower
from dragoman.grammar.nodes import (
    EMPTY,
    Atomic,
    Commit,
    Duplex,
    Gbnf,
    Grammar,
    Node,
    Permutation,
    Recovery,
    Ref,
    Repeat,
    Sequence,
    Tag,
    Until,
    UntilConfirmed,
    chars,
    lit,
    schema,
    seq,
)
from dragoman.grammar.schema import SchemaOptions
from tests.oracles.backtrack import accepts

ANY_JSON = Until((b"</c>",))


def both_sides() -> Grammar:
    return Grammar(
        {
            "root": seq(
                lit("<c>"), Commit("args"), Tag("args", Atomic(schema({"type": "integer"}, ANY_JSON))), lit("</c>")
            ),
            "lost": Tag("content", Repeat(chars("ab"))),
            "nowhere": lit("x"),
        },
        recovery={"args": Recovery("lost")},
    )


def test_the_reader_keeps_regions_and_recovery() -> None:
    reader = lower(both_sides(), "reader")
    assert set(reader.rules) == {"root", "lost"}
    assert reader.recovery == {"args": Recovery("lost")}
    assert reader.rules["root"] == seq(lit("<c>"), Commit("args"), Tag("args", Atomic(ANY_JSON)), lit("</c>"))
    assert accepts(reader, b"<c>not a number</c>")


def test_the_writer_has_the_schema_and_nothing_else() -> None:
    writer = lower(both_sides(), "writer")
    assert writer.recovery == {}
    assert "lost" not in writer.rules
    assert accepts(writer, b"<c>12</c>")
    assert not accepts(writer, b"<c>not a number</c>")
    kinds = {type(node) for rule in writer.rules.values() for node in walk(rule)}
    assert not kinds & {Tag, Commit, Atomic}


def test_each_schema_is_compiled_once_and_any_json_is_shared() -> None:
    one, two = schema({"type": "object"}, EMPTY), schema({"type": "array"}, EMPTY)
    writer = lower(Grammar({"root": seq(one, lit(" "), two, lit(" "), one)}), "writer")
    heads = [name for name in writer.rules if name.endswith(".json.value")]
    assert heads == ["schema.json.value"]
    assert {name for name in writer.rules if "." not in name} == {"root", "schema0", "schema1"}
    assert accepts(writer, b'{"a": [1]} [null] {}')


def test_added_rules_stay_clear_of_given_ones() -> None:
    given = {"root": seq(schema({}, EMPTY), Ref("schema0"), Ref("schema.x")), "schema0": lit("!"), "schema.x": lit("?")}
    writer = lower(Grammar(given), "writer")
    assert accepts(writer, b'{"a": 1}!?')


def test_duplex_and_foreign_grammars() -> None:
    grammar = Grammar({"root": Duplex(lit("read"), seq(lit("w"), Gbnf('root ::= a{2}\na ::= "x"')))})
    assert accepts(lower(grammar, "reader"), b"read")
    assert accepts(lower(grammar, "writer"), b"wxx")
    two = Grammar({"root": seq(Gbnf('root ::= "a"'), Gbnf('root ::= b | root "z"\nb ::= "b"'))})
    lowered = lower(two, "reader")
    assert len([name for name in lowered.rules if name.endswith(".root")]) == 2
    with pytest.raises(GrammarError, match="gbnf"):
        check(lowered)  # left recursion keeps the name of the rule at fault


def test_every_node_is_walked_through() -> None:
    item = Duplex(lit("r"), lit("w"))
    grammar = Grammar({"root": Permutation((UntilConfirmed(b"</", item, "v"), Repeat(item, 1)), (True, True), item)})
    assert lower(grammar, "writer").rules["root"] == Permutation(
        (UntilConfirmed(b"</", lit("w")), Repeat(lit("w"), 1)), (True, True), lit("w")
    )
    assert lower(grammar, "reader").rules["root"] == Permutation(
        (UntilConfirmed(b"</", lit("r"), "v"), Repeat(lit("r"), 1)), (True, True), lit("r")
    )


def test_what_does_not_change_is_the_same_object() -> None:
    node = Sequence((lit("a"), Repeat(chars("b"))))
    assert lower(Grammar({"root": node}), "writer").rules["root"] is node


def test_options_reach_the_schemas() -> None:
    grammar = Grammar({"root": schema({"properties": {"a": {}}, "type": "object"}, EMPTY)})
    assert accepts(lower(grammar, "writer"), b'{"b": 1}')
    closed = lower(grammar, "writer", options=SchemaOptions(closed_objects=True, whitespace="compact"))
    assert not accepts(closed, b'{"b":1}')
    assert accepts(closed, b'{"a":1}')


def test_errors() -> None:
    with pytest.raises(GrammarError, match="'x'"):
        lower(Grammar({"root": Ref("x")}), "reader")
    with pytest.raises(SchemaError, match="pattern"):
        lower(Grammar({"root": schema({"pattern": "(?<=a)"}, EMPTY)}), "writer")
    assert accepts(lower(Grammar({"root": schema({"pattern": "(?<=a)"}, lit("x"))}), "reader"), b"x")
    with pytest.raises(GrammarError, match="line 1, column 10"):
        lower(Grammar({"root": Gbnf("root ::= (")}), "reader")
    node: Node = Duplex(lit("a"), lit("b"))
    for _ in range(5000):
        node = Repeat(node)
    with pytest.raises(LimitError, match="'root'"):
        lower(Grammar({"root": node}), "reader")
