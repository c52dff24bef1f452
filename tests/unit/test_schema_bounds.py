"""Schemas made to hurt: compiled or refused soon, never a hang, never a wrong verdict. Lenient mode."""

from __future__ import annotations

import json
import time
from typing import Any

import pytest

from dragoman.errors import LimitError, SchemaError
from dragoman.grammar.compile import compile_writer
from dragoman.grammar.nodes import Grammar
from dragoman.grammar.run import Run
from dragoman.grammar.schema import SchemaOptions, compile_schema

# Seconds of CPU on a loaded machine; a quarter of it is the goal.
SOON = 8.0


def nested(depth: int) -> Any:
    schema: Any = {"type": "null"}
    for _ in range(depth):
        schema = {"type": "object", "properties": {"a": schema}, "required": ["a"], "additionalProperties": False}
    return schema


def overlapping(depth: int) -> Any:
    schema: Any = {"type": "string"}
    for _ in range(depth):
        schema = {"anyOf": [{"type": "array", "items": schema}, {"type": "array", "items": schema, "maxItems": 3}]}
    return schema


def one_of_required(count: int) -> Any:
    return {
        "oneOf": [
            {"type": "object", "properties": {f"p{i}": {"type": "integer"}}, "required": [f"p{i}"]}
            for i in range(count)
        ]
    }


MANY = {"type": "object", "properties": {f"prop{i}": {"type": "string"} for i in range(2000)}}
KINDS = [{"type": "object", "properties": {"k": {"const": i}}, "required": ["k"]} for i in range(50)]
DEEP = '{"a": ' * 2000 + "null" + "}" * 2000
EACH_SEVENTH = json.dumps({f"prop{i}": "x" for i in range(0, 2000, 7)})

# name -> schema, texts that are its own, texts that are not. None: refused by a limit.
COMPILED: dict[str, tuple[Any, list[str], list[str]]] = {
    "enum of 20,000": ({"enum": [f"{i * 7919 % 100003} {i}" for i in range(20_000)]}, ['"7919 1"'], ['"7919 2"']),
    "2,000 optional": (
        MANY | {"additionalProperties": False},
        [EACH_SEVENTH, "{}"],
        ['{"prop7": "x", "prop6": "x"}', '{"x": 1}'],
    ),
    "2,000 optional, open": (
        MANY,
        [EACH_SEVENTH[:-1] + ', "x": 1}', '{"x": 1}'],
        ['{"prop7": 1}', '{"x": 1, "prop7": "x"}'],
    ),
    "length 10,000": (
        {"type": "string", "minLength": 10_000, "maxLength": 10_000},
        [f'"{"é" * 10_000}"'],
        [f'"{"é" * 9_999}"'],
    ),
    "nesting 2,000": (nested(2000), [DEEP], [DEEP[:-1] + ","]),
    "late decision": (
        {"type": "string", "pattern": "^(a|b)*a(a|b){20}$"},
        [f'"{"ab" * 40}a{"b" * 20}"'],
        [f'"{"b" * 60}"'],
    ),
    "nested counts": ({"type": "string", "pattern": "^(([a-z]{1,50}){1,50}){1,50}$"}, [f'"{"ab" * 400}"'], ['""']),
    "nested counts with gaps": (
        {"type": "string", "pattern": "^(([a-z]{3,50}x){2,50}){2,50}$"},
        [f'"{"abcdx" * 40}"'],
        ['"abcdx"'],
    ),
    "two long counts": (
        {"type": "string", "pattern": "^[a-z]{1,500}@[a-z0-9.]{1,500}$"},
        [f'"{"a" * 500}@x"'],
        [f'"{"a" * 501}@x"'],
    ),
    "overlapping arrays": (overlapping(12), ["[" * 12 + '"x"' + "]" * 12], ["[" * 12 + "1" + "]" * 12]),
    "recursion": ({"type": "object", "additionalProperties": {"$ref": "#"}}, ['{"a": {"b": {}}}'], ['{"a": 1}']),
    "oneOf of 50 kinds": ({"oneOf": KINDS}, ['{"k": 7}'], ['{"k": 50}']),
    "exponential for backtracking": (
        {"type": "string", "pattern": "^(a+)+b$"},
        [f'"{"a" * 300}b"'],
        [f'"{"a" * 300}"'],
    ),
    "words": (
        {"type": "string", "pattern": f"^({'|'.join(f'w{i * 7919 % 10007}' for i in range(5000))})$"},
        ['"w7919"'],
        ['"w"'],
    ),
    "unique words": (
        {"items": {"enum": [f"v{i}" for i in range(100)]}, "uniqueItems": True},
        ['["v3", "v1"]'],
        ['["v1", "v1"]'],
    ),
}


@pytest.mark.parametrize("name", COMPILED)
def test_compiled_soon_and_right(name: str) -> None:
    schema, good, bad = COMPILED[name]
    start = time.process_time()
    program = compile_writer(Grammar(compile_schema(schema, name="s"), "s"))
    for text in [*good, *bad]:
        run, data = Run(program), text.encode()
        assert (run.feed(data) == len(data) and run.finish()) == (text in good), text[:80]
    assert time.process_time() - start < SOON


REFUSED: dict[str, Any] = {
    "a reference to itself": {"$defs": {"a": {"$ref": "#/$defs/b"}, "b": {"$ref": "#/$defs/a"}}, "$ref": "#/$defs/a"},
    "contains far away": {"type": "array", "minItems": 10**9, "contains": {"const": 1}},
    "pattern and a long length": {"pattern": "^([a-z]+ )*$", "minLength": 100, "maxLength": 10_000},
    "30 overlapping schemas": one_of_required(30),
    "none of 30 schemas": {"not": {"anyOf": one_of_required(30)["oneOf"]}},
    "many choices": {"allOf": [{"anyOf": [{"minimum": i}, {"maximum": -i}]} for i in range(40)]},
    "members counted beside many names": {"properties": {f"p{i}": {} for i in range(300)}, "minProperties": 200},
    "a fine step": {"type": "number", "multipleOf": 0.123456789},
}


@pytest.mark.parametrize("name", REFUSED)
def test_refused_soon(name: str) -> None:
    start = time.process_time()
    with pytest.raises((SchemaError, LimitError)) as caught:
        compile_schema(REFUSED[name], name="s")
    assert len(str(caught.value)) < 300
    assert time.process_time() - start < SOON


@pytest.mark.parametrize("schema", [{"minItems": 10**9}, {"minProperties": 10**9}], ids=["items", "properties"])
def test_large_counts_cost_nothing(schema: Any) -> None:
    assert len(repr(compile_schema(schema, name="s"))) < 10_000


def test_lenient_leaves_out_what_it_cannot_enforce_and_says_so() -> None:
    schema = {
        "type": "object",
        "properties": {
            "a": {"type": "string", "pattern": r"(x)\1", "maxLength": 3},
            "b": {"type": "array", "uniqueItems": True, "items": {"type": "integer"}},
            "c": {"type": "string", "format": "idn-hostname"},
        },
        "required": ["a", "b"],
        "additionalProperties": False,
    }
    with pytest.raises(SchemaError):
        compile_schema(schema, name="s")
    warnings: list[str] = []
    rules = compile_schema(schema, name="s", options=SchemaOptions(lenient=True), warnings=warnings)
    program = compile_writer(Grammar(rules, "s"))
    for text, good in (
        ('{"a": "abc", "b": [1, 1]}', True),
        ('{"a": "abcd", "b": []}', False),
        ('{"a": "", "b": [""]}', False),
    ):
        run = Run(program)
        assert (run.feed(text.encode()) == len(text) and run.finish()) == good
    assert len(warnings) == 3
    for pointer in ("/properties/a/pattern", "/properties/b/uniqueItems", "/properties/c/format"):
        assert any(pointer in warning for warning in warnings)


def test_lenient_does_not_help_where_nothing_validates() -> None:
    with pytest.raises(SchemaError, match="no finite value"):
        compile_schema({"type": "string", "enum": [1]}, name="s", options=SchemaOptions(lenient=True))
