"""Each keyword is enforced, describes only, or is refused by its name and place."""

from __future__ import annotations

import json
from typing import Any

import jsonschema
import pytest

from dragoman.errors import LimitError, SchemaError
from dragoman.grammar.schema import SchemaOptions, compile_schema
from dragoman.limits import Limits
from tests.oracles.schema import assert_valid, samples, written

ENFORCED: list[tuple[Any, list[str], list[str]]] = [
    (True, ["1", "[]", '{"a": null}'], ["", "nul"]),
    ({}, ["1", '"x"'], []),
    ({"type": "null"}, ["null"], ["0", "true"]),
    ({"type": ["boolean", "string"]}, ["true", '""'], ["1", "null"]),
    ({"type": "string", "minLength": 2, "maxLength": 3}, ['"ab"', '"é😀\\n"'], ['"a"', '"abcd"', '""']),
    ({"type": "string", "maxLength": 0}, ['""'], ['"a"']),
    ({"minLength": 3}, ["1", '"abc"'], ['"ab"']),
    ({"const": {"a": [1, "x"]}}, ['{"a": [1, "x"]}'], ['{"a": [1]}', '{"a":[1,"x"]}']),
    ({"enum": ["a", None, 3, "a"], "type": ["string", "null"]}, ['"a"', "null"], ["3"]),
    ({"enum": [1, 2.5, True], "maximum": 2}, ["1", "true"], ["2.5"]),
    ({"const": "x", "enum": ["x", "y"]}, ['"x"'], ['"y"']),
    ({"items": {"type": "integer"}}, ["[]", "[1, 2]", '{"a": 1}'], ['["x"]']),
    ({"type": "array", "items": {"type": "null"}, "minItems": 1, "maxItems": 2}, ["[null]", "[null, null]"], ["[]"]),
    ({"type": "array", "maxItems": 0}, ["[]"], ["[1]"]),
    (
        {"type": "array", "prefixItems": [{"const": 1}, {"const": 2}], "items": False},
        ["[]", "[1]", "[1, 2]"],
        ["[2]", "[1, 2, 3]"],
    ),
    ({"type": "array", "prefixItems": [{"const": 1}], "minItems": 2}, ['[1, "x"]', "[1, 2, 3]"], ["[1]", "[]"]),
    ({"type": "array", "items": [{"const": 1}], "additionalItems": False}, ["[1]"], ["[1, 2]"]),
    ({"type": "array", "prefixItems": {"type": "string"}}, ['["a", "b"]'], ["[1]"]),
    ({"anyOf": [{"type": "string"}, {"minimum": 3}], "type": ["string", "integer"]}, ['"x"', "3"], ["2", "null"]),
    ({"allOf": [{"enum": ["a", "b", "c"]}, {"enum": ["b", "c", "d"]}]}, ['"b"', '"c"'], ['"a"', '"d"']),
    ({"allOf": [{"minimum": 2}, {"maximum": 3}], "type": "integer"}, ["2", "3"], ["1", "4"]),
    ({"oneOf": [{"type": "string"}, {"type": "integer"}]}, ['"x"', "1"], ["null"]),
    ({"oneOf": [{"maximum": 3, "type": "integer"}, {"exclusiveMinimum": 3, "type": "number"}]}, ["3", "3.5"], ["2.5"]),
    ({"$ref": "#/$defs/a", "$defs": {"a": {"type": "null"}}}, ["null"], ["1"]),
    ({"$ref": "#/$defs/a%25~1~0", "$defs": {"a%/~": {"type": "null"}}}, ["null"], ["1"]),
    ({"$id": "http://x/y", "$ref": "http://x/y#/$defs/a", "$defs": {"a": {"const": 1}}}, ["1"], ["2"]),
    ({"$ref": "#/$defs/a", "maximum": 5, "$defs": {"a": {"type": "integer"}}}, ["5"], ["6", "null"]),
    ({"type": "integer", "pattern": "x", "uniqueItems": True, "format": "date"}, ["7"], ['"x"']),
    ({"type": "array", "uniqueItems": False}, ["[1, 1]"], []),
    ({"type": "string", "nullable": True, "format": "slug", "x-order": 3, "unheard": {}}, ['"x"'], ["null"]),
    ({"type": "string", "pattern": "^a+$"}, ['"a"', '"aa"'], ['""', '"ab"', '"ba"']),
    ({"pattern": "b|^c"}, ['"abc"', '"cd"', "1"], ['"ac"', '""']),
    ({"type": "string", "pattern": "^[a-c]+$", "minLength": 2, "maxLength": 3}, ['"ab"', '"abc"'], ['"a"', '"abca"']),
    ({"type": "string", "pattern": r"\"\n"}, [r'"\"\n"'], [r'"\"n"']),
    ({"type": "string", "format": "date"}, ['"2024-02-29"'], ['"2023-02-29"', '"x"']),
    ({"type": "string", "format": "date", "pattern": "^2024"}, ['"2024-12-31"'], ['"2025-01-01"']),
    ({"not": {"type": "string"}}, ["1", "null", "[]"], ['"x"']),
    (
        {"not": {"enum": ["a", 1, [2], {"b": 3}]}},
        ['"b"', "2", "[]", "[3]", '{"b": 4}'],
        ['"a"', "1", "[2]", '{"b": 3}'],
    ),
    ({"type": "string", "not": {"pattern": "^a"}}, ['"b"', '""'], ['"ab"']),
    ({"type": "integer", "not": {"minimum": 3, "maximum": 5}}, ["2", "6"], ["3", "5"]),
    ({"type": "number", "not": {"type": "integer"}}, ["1.5", "-0.25"], ["1", "2.0"]),
    ({"type": "integer", "multipleOf": 7}, ["0", "14", "-21"], ["1", "15"]),
    ({"type": "number", "multipleOf": 0.25, "minimum": 1}, ["1.5", "2.75", "3"], ["1.3", "0.25"]),
    ({"type": "integer", "not": {"multipleOf": 3}}, ["1", "-2"], ["0", "3"]),
    ({"type": "number", "minimum": 1, "exclusiveMinimum": True}, ["1.5"], ["1"]),
    ({"if": {"type": "integer"}, "then": {"minimum": 3}, "else": {"type": "string"}}, ["3", '"x"'], ["2", "null"]),
    ({"oneOf": [{"type": "integer"}, {"minimum": 2}], "type": "number"}, ["1", "2.5"], ["3", "1.5"]),
    ({"oneOf": [{"required": ["a"]}, {"required": ["b"]}]}, ['{"a": 1}', '{"b": 1}'], ['{"a": 1, "b": 1}', "{}"]),
    ({"contains": {"const": 1}, "items": {"type": "integer"}}, ["[1]", "[2, 1, 3]"], ["[]", "[2]"]),
    ({"contains": {"const": 1}, "maxContains": 1, "type": "array"}, ["[1]", "[2, 1]"], ["[1, 1]"]),
    ({"items": {"enum": ["a", "b", "c"]}, "uniqueItems": True}, ['["b", "a"]', "[]"], ['["a", "a"]']),
    (
        {"items": {"enum": ["a", "b", "c"]}, "uniqueItems": True, "minItems": 2, "type": "array"},
        ['["b", "a"]'],
        ['["a"]'],
    ),
    ({"type": "array", "uniqueItems": True, "maxItems": 1}, ["[1]"], ["[1, 1]"]),
    ({"minProperties": 1, "maxProperties": 2, "type": "object"}, ['{"a": 1}'], ["{}", '{"a": 1, "b": 1, "c": 1}']),
    (
        {"properties": {"a": {}, "b": {}}, "minProperties": 2, "additionalProperties": False},
        ['{"a": 1, "b": 1}'],
        ["{}"],
    ),
    (
        {"patternProperties": {"^x": {"type": "integer"}, "y$": {"minimum": 3}}, "type": "object"},
        ['{"xa": 1, "y": 3}', '{"xy": 3}', '{"z": null}'],
        ['{"x": "a"}', '{"y": 2}', '{"xy": 2}', '{"xy": 3.5}'],
    ),
    ({"propertyNames": {"maxLength": 2}, "type": "object"}, ['{"ab": 1}'], ['{"abc": 1}']),
    (
        {"dependentRequired": {"a": ["b"]}, "properties": {"a": {}, "b": {}}},
        ['{"b": 1}', '{"a": 1, "b": 1}'],
        ['{"a": 1}'],
    ),
    (
        {"dependencies": {"a": {"required": ["b"]}}, "properties": {"a": {}, "b": {}}},
        ['{"a": 1, "b": 1}'],
        ['{"a": 1}'],
    ),
    (
        {"allOf": [{"properties": {"a": {}}}], "unevaluatedProperties": False, "type": "object"},
        ['{"a": 1}'],
        ['{"b": 1}'],
    ),
    ({"allOf": [{"prefixItems": [{}]}], "unevaluatedItems": False, "type": "array"}, ["[1]"], ["[1, 2]"]),
    ({"$ref": "#name", "$defs": {"x": {"$anchor": "name", "type": "null"}}}, ["null"], ["1"]),
    ({"$ref": "y", "$defs": {"x": {"$id": "y", "type": "null"}}}, ["null"], ["1"]),
    (
        {
            "$schema": "http://json-schema.org/draft-04/schema#",
            "id": "http://x/",
            "properties": {"a": {"$ref": "b#/d"}},
            "definitions": {"q": {"id": "b", "d": {"type": "null"}}},
            "type": "object",
        },
        ['{"a": null}'],
        ['{"a": 1}'],
    ),
    (
        {
            "$schema": "http://json-schema.org/draft-07/schema#",
            "$ref": "#/definitions/a",
            "minimum": 9,
            "definitions": {"a": {"type": "integer"}},
        },
        ["5"],
        ["null"],
    ),
    (
        {
            "$schema": "https://json-schema.org/draft/2019-09/schema",
            "$recursiveAnchor": True,
            "type": "object",
            "additionalProperties": {"$recursiveRef": "#"},
        },
        ['{"a": {"b": {}}}'],
        ['{"a": 1}'],
    ),
    ({"title": "t", "description": "d", "default": 1, "examples": [], "$comment": "", "type": "null"}, ["null"], ["1"]),
]


@pytest.mark.parametrize(("schema", "good", "bad"), ENFORCED, ids=[json.dumps(row[0])[:60] for row in ENFORCED])
def test_enforced(schema: Any, good: list[str], bad: list[str]) -> None:
    assert written(schema, *good, *bad) == [True] * len(good) + [False] * len(bad)
    try:
        jsonschema.Draft202012Validator.check_schema(schema)
    except jsonschema.SchemaError:
        return  # forms of older drafts, which this validator does not know
    assert_valid(schema, samples(schema))


REFUSED: list[tuple[Any, str, str]] = [
    (
        {"properties": {"a/b": {"type": "string", "format": "idn-hostname"}}},
        "tables of IDNA",
        "/properties/a~1b/format",
    ),
    ({"type": "string", "pattern": "(a)\\1"}, "back-reference", "/pattern"),
    ({"type": "string", "pattern": "(?<=a)b"}, "look-behind", "/pattern"),
    ({"patternProperties": {"(": {}}}, "unmatched (", "/patternProperties/("),
    ({"items": {"uniqueItems": True}}, "few values", "/items/uniqueItems"),
    ({"not": {"uniqueItems": True}}, "inside not", "/not/uniqueItems"),
    ({"not": {"unevaluatedItems": False}}, "inside not", "/not/unevaluatedItems"),
    ({"$dynamicRef": "#x"}, "no such anchor", "/$dynamicRef"),
    ({"minProperties": "1"}, "minProperties must be", "/minProperties"),
    ({"multipleOf": 0}, "above 0", "/multipleOf"),
    ({"oneOf": [{}, {}]}, "no finite value", ""),
    ({"not": {}}, "no finite value", ""),
    ({"$ref": "other.json#/a"}, "another document", "/$ref"),
    ({"$ref": "#name"}, "no such anchor", "/$ref"),
    ({"$ref": "#/$defs/no"}, "not in the schema", "/$ref"),
    ({"$ref": "#"}, "refers to itself", ""),
    ({"anyOf": [{"type": "null"}, {"$ref": "#"}]}, "refers to itself", ""),
    ({"type": "kaboom"}, "type must be", "/type"),
    ({"type": 123}, "type must be", "/type"),
    ({"minLength": -1}, "minLength must be", "/minLength"),
    ({"type": "number", "minimum": True}, "minimum must be", "/minimum"),
    ({"required": True}, "required must be", "/required"),
    ({"properties": {"a": 3}}, "object or a boolean", "/properties/a"),
    ({"enum": 3}, "enum must be", "/enum"),
    (3, "object or a boolean", ""),
    (False, "no finite value", ""),
    ({"type": "string", "minLength": 3, "maxLength": 2}, "no finite value", ""),
    ({"type": "array", "minItems": 1, "items": False}, "no finite value", ""),
    ({"type": "object", "properties": {"a": {"$ref": "#"}}, "required": ["a"]}, "no finite value", ""),
    ({"type": "object", "additionalProperties": False, "required": ["a"]}, "no finite value", ""),
    ({"enum": []}, "no finite value", ""),
    ({"enum": [1], "type": "string"}, "no finite value", ""),
    ({"const": float("nan")}, "no JSON value", ""),
]


@pytest.mark.parametrize(("schema", "says", "pointer"), REFUSED, ids=[f"{row[1]}-{row[2]}" for row in REFUSED])
def test_refused_by_name_and_place(schema: Any, says: str, pointer: str) -> None:
    with pytest.raises(SchemaError) as caught:
        compile_schema(schema, name="s")
    assert says in str(caught.value)
    assert caught.value.pointer == pointer


def test_definitions_that_nothing_refers_to_are_not_looked_at() -> None:
    assert written({"type": "null", "$defs": {"x": {"not": {}}}}, "null") == [True]


def test_equal_schemas_are_compiled_once() -> None:
    point = {"type": "object", "properties": {"x": {"type": "integer"}, "y": {"enum": ["a", "b"]}}}
    one = compile_schema({"properties": {"p": point}}, name="s")
    many = compile_schema({"properties": {f"p{i}": json.loads(json.dumps(point)) for i in range(20)}}, name="s")
    assert len(many) < len(one) + 4 * 20 + 60  # one rule for each place in the order and each prefix of a key


def test_discriminated_one_of() -> None:
    schema = {
        "type": "object",
        "oneOf": [
            {"properties": {"kind": {"const": "a"}, "x": {"type": "integer"}}, "required": ["kind"]},
            {"properties": {"kind": {"enum": ["b", "c"]}, "y": {"type": "null"}}, "required": ["kind", "y"]},
            {"properties": {"kind": {"type": "integer"}}, "required": ["kind"]},
        ],
    }
    assert written(schema, '{"kind": "a"}', '{"kind": "b"}', '{"kind": "b", "y": null}', '{"kind": 5}', "{}") == [
        True, False, True, True, False,
    ]  # fmt: skip
    assert_valid(schema, samples(schema, 80))


def test_recursion() -> None:
    schema = {
        "$defs": {"tree": {"type": "object", "properties": {"kids": {"items": {"$ref": "#/$defs/tree"}}}}},
        "$ref": "#/$defs/tree",
    }
    texts = ['{"kids": [{"kids": [{}, {"kids": []}]}]}', '{"kids": [{"kids": [3]}]}']
    assert written(schema, *texts, closed_objects=True) == [True, False]
    assert_valid(schema, samples(schema, 60))


def test_nesting_costs_no_python_stack() -> None:
    schema: Any = {"type": "null"}
    for _ in range(3000):
        schema = {"type": "array", "items": schema, "minItems": 1, "maxItems": 1}
    assert len(compile_schema(schema, name="s")) == 3000  # one rule for each array; null needs none


def test_a_schema_that_is_too_large_is_a_limit_error() -> None:
    schema = {"properties": {f"p{i}": {"type": "string", "maxLength": i} for i in range(200)}}
    with pytest.raises(LimitError):
        compile_schema(schema, name="s", limits=Limits(schema_nodes=100))
    choices = [{"anyOf": [{"minimum": i}, {"maximum": -i}]} for i in range(25)]
    with pytest.raises(LimitError):
        compile_schema({"allOf": choices}, name="s", limits=Limits(schema_nodes=1000))


def test_a_large_enum_shares_beginnings() -> None:
    words = [f"value {n * 7919 % 10007}" for n in range(2000)]
    rules = compile_schema({"enum": [*words, "value", ""]}, name="s", options=SchemaOptions())
    assert written({"enum": words}, '"value 7919"', '"value 79"x', f'"{words[77]}"') == [True, False, True]
    widest = max(len(node.items) for node in rules.values() if hasattr(node, "items"))
    assert widest <= 12
