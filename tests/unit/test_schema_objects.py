"""Objects: order, commas, further keys, spelling of strings and keys."""

from __future__ import annotations

import json
from itertools import combinations
from typing import Any

import pytest

from dragoman.grammar.nodes import Grammar, Repeat
from dragoman.grammar.schema import SchemaOptions, compile_schema
from dragoman.grammar.schema.strings import none_of, one_of
from tests.oracles.backtrack import accepts
from tests.oracles.schema import assert_valid, grammar_of, samples, written


@pytest.mark.parametrize("required", [(), ("a",), ("d",), ("b", "c"), ("a", "b", "c", "d"), ("b", "x")])
def test_every_subset_in_declared_order(required: tuple[str, ...]) -> None:
    schema = {
        "type": "object",
        "properties": {name: {"type": "integer"} for name in "abcd"},
        "required": list(required),
        "additionalProperties": {"const": 0},
    }
    names = "abcd" + ("x" if "x" in required else "")
    grammar = grammar_of(schema, whitespace="compact")
    for size in range(len(names) + 1):
        for chosen in combinations(names, size):
            text = json.dumps(dict.fromkeys(chosen, 0), separators=(",", ":"))
            assert accepts(grammar, text.encode()) == (set(required) <= set(chosen)), text
    assert_valid(schema, samples(schema))


def test_what_is_required_outside_of_a_one_of_does_not_come_first() -> None:
    def option(word: str) -> dict[str, object]:
        return {"properties": {"a": {"enum": [word]}, "b": {"type": "integer"}}, "additionalProperties": False}

    grammar = grammar_of({"type": "object", "required": ["b"], "oneOf": [option("x"), option("y")]})
    for text in ('{"a": "x", "b": 1}', '{"a": "y", "b": 1}'):
        assert accepts(grammar, text.encode()), text
    for text in ('{"b": 1, "a": "x"}', '{"a": "x"}', '{"b": 1}'):  # the last one is of both options
        assert not accepts(grammar, text.encode()), text


def test_order_and_commas() -> None:
    schema = {"properties": {"a": {}, "b": {}}, "additionalProperties": False, "type": "object"}
    bad = ['{"b": 1, "a": 1}', '{"a": 1,}', '{, "a": 1}', '{"a": 1 "b": 1}', '{"a": 1, "a": 1}']
    assert written(schema, '{"a": 1, "b": 2}', "{}", *bad) == [True, True] + [False] * 5


def test_further_keys_are_never_declared_ones() -> None:
    names = ["", "a", "aa", "ab", 'q"', "tab\t", "é", "😀x"]
    schema = {"type": "object", "properties": dict.fromkeys(names, False), "additionalProperties": {"const": 1}}
    keys = {
        name: json.dumps({name: 1}, ensure_ascii=False)
        for name in [*names, "b", "aaa", "aba", "q", "\t", "é😀", "\x01"]
    }
    found = dict(zip(keys, written(schema, *keys.values()), strict=True))
    assert found == {name: name not in names for name in keys}
    assert not any(written(schema, '{"\\u0061": 1}', '{"\\u00e9": 1}'))  # no other spelling of a declared key
    assert_valid(schema, samples(schema, 80))


def test_absent_additional_properties_are_any_unless_objects_are_closed() -> None:
    schema: dict[str, Any] = {"type": "object", "properties": {"a": {}}}
    text = '{"z": 1}'
    assert written(schema, text) == [True]
    assert written(schema, text, closed_objects=True) == [False]
    assert written(schema | {"additionalProperties": True}, text, closed_objects=True) == [True]
    assert written({"type": "object"}, text, closed_objects=True) == [True]
    both = {"allOf": [schema, {"properties": {"b": {"const": 2}}}]}
    assert written(both, '{"a": 1, "b": 2}', text, closed_objects=True) == [True, False]


def test_parts_meet_in_one_object() -> None:
    schema = {
        "allOf": [
            {"properties": {"a": {"type": "integer"}}, "required": ["a"]},
            {"properties": {"a": {"minimum": 5}, "b": {"type": "null"}}, "additionalProperties": {"type": "string"}},
        ],
        "type": "object",
    }
    # "a" of the first part and "b" of the second; a further key must be a string by the second.
    texts = ['{"a": 5, "b": null}', '{"a": 4}', '{"b": null}', '{"a": 6, "z": "s"}', '{"a": 6, "z": 1}']
    assert written(schema, *texts) == [True, False, False, True, False]
    assert_valid(schema, samples(schema, 80))


def test_size_is_linear_in_optional_properties() -> None:
    def size(count: int) -> int:
        schema = {
            "properties": {f"p{i}": {"type": "integer"} for i in range(count)},
            "additionalProperties": {"const": 1},
        }
        return len(repr(compile_schema(schema, name="s")))

    assert size(400) < 2.6 * size(200)


def test_counts_are_never_unrolled() -> None:
    rules = compile_schema({"type": "array", "items": {"type": "null"}, "minItems": 10**9}, name="s")
    assert len(repr(rules)) < 1000
    assert any(isinstance(node, Repeat) and node.min == 10**9 - 1 for node in getattr(rules["s"], "items", ()))


@pytest.mark.parametrize(
    ("whitespace", "good", "bad"),
    [
        ("compact", ['{"a":[1,2]}'], ['{"a": [1,2]}', '{"a":[1, 2]}']),
        ("bounded", ['{"a":[1,2]}', '{"a": [1, 2]}', '{"a": [1,\n2]}'], ['{ "a":1}', '{"a":  1}', '{"a": 1 }']),
        ("free", ['{"a":[1,2]}', '{\n\t"a" :\r [ 1 , 2 ] }', "{ }"], [' {"a":1}', "{}\n"]),
    ],
)
def test_whitespace(whitespace: str, good: list[str], bad: list[str]) -> None:
    for schema in ({"type": "object"}, {"properties": {"a": {"items": {}}}, "type": "object"}):
        found = written(schema, *good, *bad, whitespace=whitespace)
        assert found == [True] * len(good) + [False] * len(bad)


def test_strings_have_one_spelling_unless_escapes_are_asked_for() -> None:
    texts = ['"é\\n\\u0001\\""', '"\\u00e9"', '"\\/"', '"\\u000a"', '"\\ud83d\\ude00"', '"\\ud83d"', '"\n"']
    assert written({"type": "string"}, *texts) == [True] + [False] * 6
    assert written({"type": "string"}, *texts, escapes=True) == [True] * 5 + [False, False]


def test_banned_texts_are_in_no_string_and_constants_escape_them() -> None:
    options: dict[str, Any] = {"banned": (b"<", b"</x>", b"}}")}
    assert written({"type": "string"}, '"a}b"', '"a}}b"', '"<"', '"\\u003c"', **options) == [True, False, False, False]
    assert written({"type": "object"}, '{"}}": 1}', '{"}": {"a": {}}}', **options) == [False, True]
    schema = {"properties": {"a<b": {"const": "x}}y</x>"}}, "required": ["a<b"], "additionalProperties": False}
    for text in samples(schema | {"type": "object"}, 5, **options):
        assert json.loads(text) == {"a<b": "x}}y</x>"}
        assert "<" not in text
        assert "}}" not in text[:-1]
    extra = {"type": "object", "properties": {"<<": False}, "additionalProperties": {"const": 1}}
    for text in samples(extra, 60, **options):
        assert "<" not in text
        assert "}}" not in text


def test_string_max_caps_only_what_is_open() -> None:
    assert written({"type": "string"}, '"abc"', '"abcd"', string_max=3) == [True, False]
    assert written({"type": "string", "maxLength": 5}, '"abcd"', string_max=3) == [True]
    assert written({"type": "string", "minLength": 5}, '"abcde"', '"abcdef"', string_max=3) == [True, False]


def test_prefix_trees_are_complements() -> None:
    texts = ["", "a", "ab", "abc", "b", "ba", "\n", '"']
    for size in range(len(texts) + 1):
        listed = texts[:size]
        rules: dict[str, Any] = {}

        def rule(node: Any, rules: dict[str, Any] = rules) -> Any:
            from dragoman.grammar.nodes import Ref

            rules[str(len(rules))] = node
            return Ref(str(len(rules) - 1))

        rules["start"] = none_of(listed, SchemaOptions().style, rule)
        for text in [*texts, "c", "aa", "abcd"]:
            assert accepts(Grammar(rules, "start"), json.dumps(text).encode()) == (text not in listed)


def test_one_of_many_texts_is_exactly_those() -> None:
    from dragoman.grammar.nodes import Node, Ref

    texts = [f"{n:b}" for n in range(64)] + ["", "éa", "éb", "é", "x" * 50, "x" * 49]
    rules: dict[str, Node] = {}

    def rule(node: Node) -> Node:
        rules[str(len(rules))] = node
        return Ref(str(len(rules) - 1))

    rules["start"] = one_of(texts, rule)
    grammar = Grammar(rules, "start")
    for text in [*texts, "1000000", "éc", "x" * 48, "x" * 51, "2", "00"]:
        assert accepts(grammar, text.encode()) == (text in texts), text
