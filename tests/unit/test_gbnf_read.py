"""GBNF as users write it: its whole syntax, and errors with line and column."""

from __future__ import annotations

import pytest

from dragoman.errors import GrammarError
from dragoman.grammar.analysis import check
from dragoman.grammar.nodes import Grammar
from dragoman.grammar.notation.gbnf_read import read_gbnf
from tests.oracles.backtrack import accepts


def accepted(text: str, *inputs: str) -> list[bool]:
    grammar = Grammar(read_gbnf(text))
    check(grammar)  # what is read can be run
    return [accepts(grammar, data.encode()) for data in inputs]


READS: list[tuple[str, list[str], list[str]]] = [
    ('root ::= "a" | "b" "c"', ["a", "bc"], ["b", "ac", ""]),
    ("root ::= [a-c0-9_] [^a-c\\n] .", ["ad\n", "_-é", "9😀x"], ["da1", "aa1", "a\n1"]),
    ('root ::= "x"* "y"+ "z"?', ["y", "xxyyz"], ["x", "yzz"]),
    (
        'root ::= "ab"{2} [0-9]{1,} "c"{,2} "d"{0,1} "e"{ 1 , 2 }',
        ["abab1e", "abab12ccdee"],
        ["ab1e", "ababe", "abab1ccce"],
    ),
    ('root ::= ("a" | "b" ("c" |\n "d")+)* # rest\n', ["", "abcdda"], ["b", "c"]),
    ('# first\n\nroot   ::=\n  word |\n  "-"   # then\nword ::= [a-z]+\r\n\n', ["abc", "-"], ["", "--"]),
    ('root ::= "\\x41\\u00e9\\U0001F600\\t\\r\\n\\\\\\"\\[\\]"', ['A\u00e9😀\t\r\n\\"[]'], ["A"]),
    ("root ::= [\\]\\[\\\\\\x2d-] [-a]", ["]-", "[a", "\\a", "--"], ["a-"]),
    ("root ::= [a-] [^^] ", ["-b", "ab"], ["b-", "a^"]),
    ('root ::= | "a"', ["", "a"], ["aa"]),
    ('root ::= "" "a" ()', ["a"], [""]),
    ("root ::= []", [], ["", "a"]),
    ('root ::= a-1 b_2\na-1 ::= "x"\nb_2 ::= "y"', ["xy"], ["x"]),
    ('root ::= "(" root ")" | "."', ["((.))"], ["((.)"]),
    ('root ::= <|im_end|> "x" <think>', ["<|im_end|>x<think>"], ["x"]),
    ('root ::= ("a"? "b"?)* "c"', ["c", "abbac"], ["ab"]),
    ('root ::= (ws ws)+ "c"\nws ::= [ ]* | "\\t"?', ["c", " \t c"], [" "]),
    ('root ::= ("a"?){3}', ["", "aa", "aaa"], ["aaaa"]),
    ('root ::= (""){2,} "a"', ["a"], ["b"]),
    ('root ::= ("a"?{2,3})*', ["", "aaaaaa"], ["b"]),
]


@pytest.mark.parametrize(("text", "good", "bad"), READS, ids=[repr(row[0])[:50] for row in READS])
def test_reads(text: str, good: list[str], bad: list[str]) -> None:
    assert accepted(text, *good, *bad) == [True] * len(good) + [False] * len(bad)


ERRORS = [
    ("", "line 1, column 1", "no rule 'root'"),
    ('a ::= "x"', "line 1, column 1", "no rule 'root'"),
    ('root ::= "a', "line 1, column 10", "never closed"),
    ('root ::= "a\n"', "line 1, column 10", "never closed"),
    ("root ::= [a", "line 1, column 10", "never closed"),
    ('root ::= ("a" | ("b")', "line 1, column 10", "( is never closed"),
    ('root ::= "a")', "line 1, column 13", "expected a literal"),
    ("root ::= a\nb ::= c", "line 1, column 10", "'a' is not defined"),
    ("root ::= [z-a]", "line 1, column 11", "backwards"),
    ('root ::= "\\q"', "line 1, column 11", "the escapes are"),
    ('root ::= "\\u12"', "line 1, column 11", "the escapes are"),
    ('root ::= "\\uD83D\\uDE00"', "line 1, column 11", "\\U with 8 digits"),
    ('root ::= "\\UFFFFFFFF"', "line 1, column 11", "no character"),
    ('root ::= "a"{2,1}', "line 1, column 13", "never"),
    ('root ::= "a"{}', "line 1, column 13", "a repeat is written"),
    ('root ::= "a"{99999999999}', "line 1, column 13", "at most"),
    ("root ::= * ", "line 1, column 10", "expected a literal"),
    ('root : "a"', "line 1, column 6", "expected ::="),
    ('root ::= "a"\n\nroot ::= "b"', "line 3, column 1", "defined twice"),
    ("root ::= <[12]>", "line 1, column 10", "tokens are written by their text"),
    ("root ::= !<x>", "line 1, column 10", "tokens are written by their text"),
    ("root ::= " + "(" * 5000, "line 1, column 70", "nested more than"),
    ('root ::= "a"' + "*" * 5000, "line 1", "too many repeat signs"),
    ("é ::= x", "line 1, column 1", "expected a rule name"),
]


@pytest.mark.parametrize(("text", "where", "what"), ERRORS, ids=[row[2][:30] for row in ERRORS])
def test_errors_say_where(text: str, where: str, what: str) -> None:
    with pytest.raises(GrammarError) as caught:
        read_gbnf(text)
    assert where in str(caught.value)
    assert what in str(caught.value)


def test_a_long_row_of_optional_items_under_a_star_stays_small() -> None:
    rules = read_gbnf("root ::= (" + " ".join(f'"{n}"?' for n in range(500)) + ")*")
    assert len(repr(rules)) < 500_000
