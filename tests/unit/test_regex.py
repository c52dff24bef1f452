"""Regular expressions of ECMA-262 as automata: against another engine, and what is refused."""

from __future__ import annotations

import itertools
import random
import re
import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dragoman.grammar.regex import automata
from dragoman.grammar.regex.automata import TooLarge, of_words
from dragoman.grammar.regex.automaton import language
from dragoman.grammar.regex.parse import RegexError, parse

LETTERS = "ab1_ -"


def every_text(length: int) -> list[str]:
    return ["".join(t) for n in range(length + 1) for t in itertools.product("ab1 ", repeat=n)]


PATTERNS = [
    "a",
    "^a",
    "a$",
    "^a$",
    "^$",
    "",
    "a|b",
    "^a|b$",
    "(?:ab)+",
    "^(a|b)*a(a|b){2}$",
    "a{2}",
    "^a{1,2}b?$",
    "a^b",
    "a$b",
    "^[ab]+$",
    "^[^ab]*$",
    r"\d",
    r"^\w+$",
    r"\s",
    r"\bab\b",
    r"\Ba",
    r"^\W",
    "(a|ab)(b|)",
    "^(a*)*b$",
    "^(a?b?){3}$",
    "^(?=a)",
    "^(?!a)",
    "^(?!ab$)[ab]+$",
    "(?=.*1)(?=.*a)",
    "^(?:a(?=b)|b)[ab1]*$",
    "^(?=.*b$)a",
    "^(?!.*aa).*$",
    "^.{2,3}$",
    "(^|b)a(b|$)",
    "^(ab|a)(bb)?$",
    "a*?b",
    "^(?:(?:a{1,2}){1,2}){1,2}$",
    "^(?:a{2,3}){1,2}$",
    "[a-]",
    r"[\w-]b",
    "a{,2}",
    "a{",
]


@pytest.mark.parametrize("pattern", PATTERNS)
def test_the_same_texts_as_another_engine(pattern: str) -> None:
    found = language(parse(pattern), search=True)
    other = re.compile(pattern.replace("$", r"\Z").replace("a{,2}", r"a\{,2\}"), re.ASCII)
    for text in every_text(5):
        assert found.accepts(text) == bool(other.search(text)), text


@st.composite
def patterns(draw: st.DrawFn, depth: int = 3) -> str:
    if depth == 0:
        return draw(st.sampled_from(["a", "b", "1", "[ab]", "[^a]", ".", r"\d", r"\w"]))
    inner = patterns(depth - 1)
    kind = draw(st.integers(0, 4))
    if kind == 0:
        return draw(inner) + draw(inner)
    if kind == 1:
        return f"(?:{draw(inner)}|{draw(inner)})"
    if kind == 2:
        return f"(?:{draw(inner)})" + draw(st.sampled_from(["*", "+", "?", "{2}", "{1,2}", "{0,3}", "{1,}"]))
    if kind == 3:
        return draw(st.sampled_from(["^", r"\b", ""])) + draw(inner) + draw(st.sampled_from(["$", r"\b", ""]))
    return draw(inner)


@settings(max_examples=150, deadline=None)
@given(patterns(), st.lists(st.text(alphabet=LETTERS, max_size=6), min_size=5, max_size=5))
def test_random_expressions(pattern: str, texts: list[str]) -> None:
    found = language(parse(pattern), search=True)
    other = re.compile(pattern.replace("$", r"\Z"), re.ASCII)
    for text in texts:
        assert found.accepts(text) == bool(other.search(text))


@pytest.mark.parametrize(
    ("pattern", "good", "bad"),
    [
        (r"^\p{Lu}\p{L}*$", ["Éa", "A"], ["éa", "1"]),
        (r"^\p{Letter}$", ["é", "字"], ["1", " "]),
        (r"^\P{L}$", ["1", "!"], ["a"]),
        (r"^\p{gc=Nd}$", ["٣", "3"], ["a"]),
        (r"^\d$", ["3"], ["٣"]),
        (r"^\s$", ["\ufeff", "\u2028", "\t"], ["\u200b", "a"]),
        (r"^.$", ["é", "😀", "\x0b"], ["\n", "\r", "\u2028", ""]),
        (r"^\u{1F600}$", ["😀"], ["😁"]),
        (r"^\ud83d\ude00$", ["😀"], []),
        (r"^\x41\u0042\cA\0$", ["AB\x01\x00"], []),
        (r"^[\b]$", ["\b"], ["b"]),
        (r"^[^\d\s]+$", ["ab"], ["a1", ""]),
        (r"^(?<year>\d{4})$", ["2024"], ["24"]),
        ("^[]a", [], ["a", "]a", ""]),
        ("^[^]$", ["a", "\n"], ["", "ab"]),
    ],
)
def test_unicode_and_escapes(pattern: str, good: list[str], bad: list[str]) -> None:
    found = language(parse(pattern), search=True)
    assert [found.accepts(text) for text in [*good, *bad]] == [True] * len(good) + [False] * len(bad)


@pytest.mark.parametrize(
    ("pattern", "says"),
    [
        (r"(a)\1", "back-reference"),
        (r"\k<a>", "back-reference"),
        ("(?<=a)b", "look-behind"),
        ("(a", "unmatched ("),
        ("a)", "unmatched )"),
        ("[a", "does not end"),
        ("*a", "nothing to repeat"),
        ("a**", "nothing to repeat"),
        ("[b-a]", "out of order"),
        ("a{2,1}", "out of order"),
        (r"\p{Script=Greek}", "not supported"),
        ("\\", "backslash"),
        (r"\q", "unknown"),
        ("(?:(?=a)b)*", "inside a repeat"),
        ("(" * 200 + ")" * 200, "nested too deep"),
        ("a{1000001}", "a count above"),
        (r"\u{110000}", "code point"),
    ],
)
def test_refused_with_a_reason(pattern: str, says: str) -> None:
    with pytest.raises(RegexError, match=re.escape(says)):
        language(parse(pattern), search=True)


@pytest.mark.parametrize(
    "pattern", ["^(a|b)*a(a|b){20}$", "^(([a-z]{3,50}x){2,50}){2,50}$", "^.*a.{300}$", "a{100000}b"]
)
def test_what_is_too_large_says_so_soon(pattern: str) -> None:
    start = time.process_time()
    with pytest.raises(TooLarge):
        language(parse(pattern), search=True)
    assert time.process_time() - start < 10


def test_nested_counts_become_one_where_no_count_is_left_out() -> None:
    assert len(repr(parse("(([a-z]{1,50}){1,50}){1,50}"))) < 200
    assert parse("(?:a{2}){3}") == parse("a{6}")
    gaps = language(parse("^(?:a{2,3}){0,1}$"), search=True)
    assert [gaps.accepts("a" * n) for n in range(5)] == [True, False, True, True, False]


def test_algebra_of_automata() -> None:
    """Union, intersection, difference and complement, text by text."""
    pick = random.Random(3)
    texts = every_text(3)
    for _ in range(40):
        left, right = (set(pick.sample(texts, pick.randint(0, 12))) for _ in range(2))
        a, b = of_words(sorted(left)), of_words(sorted(right))
        for made, wanted in (
            (automata.union(a, b), left | right),
            (automata.intersection(a, b), left & right),
            (automata.difference(a, b), left - right),
            (automata.complement(a), set(texts) - left),
        ):
            assert {text for text in texts if made.accepts(text)} == wanted
        assert automata.union(a, b).words(50) == sorted(left | right)


def test_lengths_and_words() -> None:
    assert language(parse("^a{2,4}|b$"), search=True).lengths() == (1, None)
    assert language(parse("^(?:a{2,4}|b)$"), search=True).lengths() == (1, 4)
    assert language(parse("^a*$"), search=True).words(10) is None
    assert automata.of_length(2, 3).accepts("éé")
    assert not automata.of_length(2, 3).accepts("é")
