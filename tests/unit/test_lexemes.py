"""Cuts into lexemes: kept where longest match keeps the language, refused where it would not."""

from __future__ import annotations

import pytest

from dragoman.grammar.lower import lower
from dragoman.grammar.nodes import (
    EMPTY,
    AnyChar,
    Choice,
    Control,
    Grammar,
    Node,
    Ref,
    Repeat,
    Without,
    lit,
    schema,
    seq,
)
from dragoman.grammar.notation.lark import to_lark
from dragoman.grammar.notation.lexemes import cut

TEXT = Without(Repeat(AnyChar(), min=1), (b"<t>",))
VALUE = {"value": Choice((lit("x"), seq(lit("("), Ref("value"), lit(")"))))}

SAFE: dict[str, dict[str, Node]] = {
    "a marker behind text": {"root": seq(TEXT, lit("<t>"), Ref("value")), **VALUE},
    "a call behind text, or none": {
        "root": seq(TEXT, Choice((Ref("call"), EMPTY))),
        "call": seq(lit("<t>"), Ref("value")),
        **VALUE,
    },
    "strings": {"root": Choice((seq(lit('"a":'), Ref("value")), lit('"ab":"c"'))), **VALUE},
    "a token behind text": {"root": seq(TEXT, Control("<|x|>"), Ref("value")), **VALUE},
}
LETTERS = {"more": Choice((lit("a"), seq(lit("b"), Ref("more"))))}
UNSAFE: dict[str, dict[str, Node]] = {
    "text that swallows what follows": {"root": seq(Choice((TEXT, lit("q"))), Ref("more")), **LETTERS},
    "a string that begins another token": {"root": Choice((lit('"a"'), seq(lit('"'), Ref("more")))), **LETTERS},
}


@pytest.mark.parametrize("name", SAFE)
def test_a_safe_cut_is_found(name: str) -> None:
    assert cut(SAFE[name], "root") is not None


@pytest.mark.parametrize("name", UNSAFE)
def test_an_unsafe_cut_is_refused_and_characters_are_written(name: str) -> None:
    assert cut(UNSAFE[name], "root") is None
    assert "L0" not in to_lark(Grammar({**UNSAFE[name], "root": seq(UNSAFE[name]["root"], lit("z"))}))


def test_strings_of_a_schema_are_one_lexeme_each() -> None:
    wanted = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}
    writer = lower(Grammar({"root": schema(wanted, EMPTY)}), "writer")
    text = to_lark(writer)
    assert '"\\"city\\""' in text
    assert '"c" "i"' not in text
