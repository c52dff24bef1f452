"""The rules of any JSON: exactly RFC 8259 when free, one parse for each text."""

from __future__ import annotations

import json
import random

import pytest

from dragoman.grammar.analysis import check
from dragoman.grammar.json import JsonStyle, json_rules, json_text
from dragoman.grammar.nodes import Grammar
from tests.oracles.backtrack import accepts, parses
from tests.oracles.sample import sample

FREE = Grammar(json_rules(), "json.value")
GOOD: list[str] = [
    "0", "-0", "12.50", "1e5", "-1.5E+10", "0.1e-7", '""', '"\\u12aB\\/\\b"', '"é😀\x7f"', '"\\ud800"', "true",
    "false", "null", "[]", "[ ]", "[1 , [2],\n{}]", "{}", '{ "a" : 1 ,"a":2 }', '{"":{"":[]}}',
]  # fmt: skip
BAD = [
    "", "01", "+1", "1.", ".5", "1e", "--1", "0x1", "NaN", "Infinity", '"', '"\n"', '"\t"', '"\\x41"', '"\\u12g4"',
    "'a'", "tru", "[1,]", "[,1]", "[1 2]", '{"a"}', '{"a":}', '{a:1}', '{"a":1,}', " 1", "1 ", "[", "]", "nulll",
]  # fmt: skip


@pytest.mark.parametrize("text", GOOD)
def test_every_json_has_one_parse(text: str) -> None:
    json.loads(text)
    assert len(list(parses(FREE, text.encode()))) == 1


@pytest.mark.parametrize("text", BAD)
def test_what_is_not_json_is_refused(text: str) -> None:
    assert not accepts(FREE, text.encode())


def test_agrees_with_the_parser_of_python_on_mutilated_texts() -> None:
    pick = random.Random(7)
    seen = {True: 0, False: 0}
    for _ in range(3000):
        text = pick.choice(GOOD)
        for _ in range(pick.randint(0, 2)):
            at = pick.randint(0, len(text))
            text = text[:at] + pick.choice(["", *'[]{},:"\\0.e- \nu']) + text[at + pick.randint(0, 1) :]
        try:
            json.loads(text, parse_constant=lambda name: 1 / 0)
            valid = text == text.strip(" \n")
        except (ValueError, ZeroDivisionError):
            valid = False
        assert accepts(FREE, text.encode()) == valid, text
        seen[valid] += 1
    assert min(seen.values()) > 500


@pytest.mark.parametrize("whitespace", ["free", "bounded", "compact"])
@pytest.mark.parametrize("escapes", ["any", "paired", "canonical"])
def test_every_style_writes_json(whitespace: str, escapes: str) -> None:
    style = JsonStyle(whitespace=whitespace, escapes=escapes, string_max=5, integer_digits=3, fraction_digits=2)  # type: ignore[arg-type]
    grammar = Grammar(json_rules(style=style, prefix="x"), "x.value")
    check(grammar)
    for seed in range(150):
        text = sample(grammar, seed)
        value = json.loads(text)
        if escapes != "any":
            json.dumps(value, ensure_ascii=False).encode()  # no lone surrogates
        if escapes == "canonical" and isinstance(value, str):
            assert text.decode() == json_text(value) == json.dumps(value, ensure_ascii=False)


def test_constants_are_spelled_as_json_dumps_does() -> None:
    for text in ["", 'a"b\\c/d\n\t\x00\x1f\x7f é😀', "</tool_call>"]:
        assert json_text(text) == json.dumps(text, ensure_ascii=False)
    assert json_text("\ud800") == '"\\ud800"'


@pytest.mark.parametrize("text", ["</x>", "a</x></x>b", "<<//xx>", '"}}"', "}}}}", "\n</x>", "😀</x>"])
def test_banned_texts_are_escaped_in_constants(text: str) -> None:
    banned = ("</x>", "}}", "😀<")
    spelled = json_text(text, tuple(word.encode() for word in banned))
    assert json.loads(spelled) == text
    assert not any(word in spelled for word in banned)
