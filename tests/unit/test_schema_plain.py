"""The short way of schemas that say no more than most do: as few rules as it takes, and the meaning of the long way."""

from __future__ import annotations

from typing import Any

import pytest

from dragoman.errors import SchemaError
from dragoman.grammar import analysis
from dragoman.grammar.compile import compile_writer
from dragoman.grammar.facts import facts
from dragoman.grammar.json import json_string
from dragoman.grammar.liveness import live_in
from dragoman.grammar.nodes import Grammar, Ref
from dragoman.grammar.schema import SchemaOptions, compile_schema
from tests.oracles.backtrack import accepts
from tests.oracles.schema import assert_valid, grammar_of, samples

TEXT: dict[str, Any] = {"type": "string"}
WHOLE: dict[str, Any] = {"type": "integer", "minimum": -3, "maximum": 250}


def _object(*names: str, required: tuple[str, ...] = (), **more: Any) -> dict[str, Any]:
    each = (TEXT, WHOLE, {"type": "boolean"}, {"enum": ["x", "yy", 'q"']}, {"type": ["number", "null"]})
    properties = {name: each[at % len(each)] for at, name in enumerate(names)}
    return {"type": "object", "properties": properties, "required": list(required), **more}


SCHEMAS: list[Any] = [
    *({"type": kind} for kind in ("string", "integer", "number", "boolean", "null", "array", "object")),
    {"type": ["integer", "null", "boolean"]},
    {"type": "string", "minLength": 2, "maxLength": 3, "format": "no such format"},
    {"type": "string", "minLength": 2.0},
    {"type": "number", "exclusiveMinimum": 0, "maximum": 2.5, "format": "float"},
    {"enum": ["one", "two", "one"]},
    {"type": "string", "const": "only"},
    {"type": "array", "items": WHOLE, "minItems": 1, "maxItems": 2},
    {"type": "array", "items": False},
    {"anyOf": [TEXT, WHOLE, {"type": "array", "items": {"type": "null"}}, _object("a", additionalProperties=False)]},
    _object("a", "b", "c", required=("a", "b", "c"), additionalProperties=False),
    _object("a", "b", "c", required=("b",), additionalProperties=False),
    _object("a", "b", "c", required=("c", "z"), additionalProperties={"type": "null"}),
    _object("a", "ab", "b"),
    _object("a", "ab", required=("ab", "z")),
    {"type": "object", "properties": {"a": False, "b": TEXT}, "required": ["b"], "additionalProperties": False},
    {"type": "object", "properties": {"r": {"$ref": "#/$defs/t"}}, "$defs": {"t": {"$ref": "#/$defs/u"}, "u": WHOLE}},
]


@pytest.mark.parametrize("options", [{}, {"whitespace": "compact", "closed_objects": True}, {"items_max": 3}])
@pytest.mark.parametrize("schema", SCHEMAS, ids=str)
def test_the_short_way_means_what_the_long_one_does(schema: Any, options: dict[str, Any]) -> None:
    schema = {"type": "object", "properties": {"v": schema}, "required": ["v"], "additionalProperties": False}
    long = {**schema, "properties": {"v": {"allOf": [schema["properties"]["v"]]}}, "allOf": [True]}
    if "$defs" in schema["properties"]["v"]:
        definitions = schema["properties"]["v"]["$defs"]
        schema, long = {**schema, "$defs": definitions}, {**long, "$defs": definitions}
    one, other = grammar_of(schema, **options), grammar_of(long, **options)
    texts = samples(schema, 12, **options), samples(long, 12, **options)
    assert all(accepts(other, text.encode()) for text in texts[0])
    assert all(accepts(one, text.encode()) for text in texts[1])
    assert_valid(schema, [*texts[0], *texts[1]])


def test_members_that_are_all_required_are_one_rule() -> None:
    schema = _object("a", "d", required=("a", "d"), additionalProperties=False)
    schema["properties"] = dict.fromkeys(("a", "d"), TEXT)
    assert sorted(compile_schema(schema, name="s")) == ["s", "s.json.string"]
    optional = {**schema, "required": ["a"]}  # what may follow ``a`` in two ways ends in a bracket, which needs no rule
    assert sorted(compile_schema(optional, name="s")) == ["s", "s.json.string"]
    long = {"properties": {f"p{i}": TEXT for i in range(20)}, "type": "object", "additionalProperties": False}
    assert len(compile_schema(long, name="s")) <= 2 * 20 + 2


def test_a_reference_to_itself_alone_is_refused_the_short_way_too() -> None:
    schema = {"type": "object", "properties": {"a": {"$ref": "#/$defs/a"}}, "$defs": {"a": {"$ref": "#/$defs/a"}}}
    with pytest.raises(SchemaError, match="refers to itself"):
        compile_schema(schema, name="s")


def test_names_inside_of_a_schema_are_found_wherever_they_stand() -> None:
    for name in ({"$id": "https://example.org/t"}, {"$anchor": "t"}):
        schema = {
            "type": "object",
            "properties": {"a": {"$ref": "#t" if "$anchor" in name else "https://example.org/t"}},
            "required": ["a"],
            "$defs": {"deep": {"$defs": {"t": {**name, "type": "null"}}}},
        }
        assert_valid({"required": ["a"], "properties": {"a": {"type": "null"}}}, samples(schema, 5))


@pytest.mark.parametrize("schema", SCHEMAS, ids=str)
def test_where_nothing_is_a_dead_end_every_instruction_is_live(schema: Any) -> None:
    grammar = Grammar(compile_schema(schema, name="s"), "s")
    program = compile_writer(grammar)
    assert analysis.complete(grammar)
    assert program.live == live_in(program.code) == bytes([1]) * len(program.code)
    assert program.sets == {argument for op, argument, _ in program.code if op == 0}


def test_code_that_was_made_before_is_put_where_it_belongs() -> None:
    node = json_string(SchemaOptions().style, minimum=1, maximum=30)
    grammar = Grammar({"s": Ref("t"), "t": node, "u": node}, "s")
    first, second = compile_writer(grammar), compile_writer(grammar)
    assert facts(node).block is not None
    assert first.code == second.code
    assert first.closed == second.closed
