"""What schemas say of types, through references and unions."""

from __future__ import annotations

from typing import Any

import pytest

from dragoman.chat_schema import (
    admits,
    declared_name,
    declared_types,
    item_schema,
    parameter_schema,
    schema_for,
    tool_names,
    value_kind,
)

ROOT: dict[str, Any] = {
    "$defs": {
        "point": {"type": "object", "properties": {"x": {"type": "number"}}},
        "loop": {"$ref": "#/$defs/loop"},
        "tree": {"anyOf": [{"$ref": "#/$defs/tree"}, {"type": "null"}]},
        "a/b~c": {"type": "string"},
    }
}


@pytest.mark.parametrize(
    ("schema", "types", "kind"),
    [
        ({"type": "string"}, {"string"}, "string"),
        ({"type": "string", "enum": ["a", "b"]}, {"string"}, "string"),
        ({"enum": ["a", "b"]}, {"string"}, "string"),
        ({"const": 1.5}, {"number"}, "typed"),
        ({"enum": [1, 2]}, {"number"}, "typed"),
        ({"type": ["string", "null"]}, {"string", "null"}, "typed"),
        ({"type": "string", "nullable": True}, {"string", "null"}, "typed"),
        ({"anyOf": [{"type": "integer"}, {"type": "null"}]}, {"integer", "null"}, "typed"),
        ({"oneOf": [{"type": "object"}, {"type": "array"}]}, {"object", "array"}, "json"),
        ({"anyOf": [{"type": "object"}, {"type": "null"}]}, {"object", "null"}, "json"),
        ({"anyOf": [{"type": "object"}, {"type": "string"}]}, {"object", "string"}, "typed"),
        ({"allOf": [{"type": "number"}, {"type": "integer"}]}, {"integer"}, "typed"),
        ({"allOf": [{"type": ["string", "integer"]}, {"enum": ["x", 1]}]}, {"string", "integer"}, "typed"),
        ({"$ref": "#/$defs/point"}, {"object"}, "json"),
        ({"$ref": "#/$defs/a~1b~0c"}, {"string"}, "string"),
        ({"allOf": [{"$ref": "#/$defs/point"}], "description": "where"}, {"object"}, "json"),
        ({"properties": {}}, {"object"}, "json"),
        ({"items": {"type": "string"}}, {"array"}, "json"),
        ({"type": "str"}, {"string"}, "string"),
        ({"type": "STRING"}, {"string"}, "string"),
        ({"type": "float"}, {"number"}, "typed"),
        ({"$ref": "#/$defs/nowhere"}, set(), "typed"),
        ({"$ref": "https://example.com/x"}, set(), "typed"),
        ({"$ref": "#/$defs/loop"}, set(), "typed"),
        ({"anyOf": [{"type": "string"}, {}]}, set(), "typed"),
        ({"type": "any"}, set(), "typed"),
        ({"type": 7, "enum": "x", "anyOf": {}}, set(), "typed"),
        ({}, set(), "typed"),
        (True, set(), "typed"),
        (None, set(), "typed"),
    ],
)
def test_types_and_kind(schema: Any, types: set[str], kind: str) -> None:
    assert declared_types(schema, ROOT) == types
    assert value_kind(schema, ROOT) == kind


def test_recursive_and_huge_schemas_end() -> None:
    declared_types({"$ref": "#/$defs/tree"}, ROOT)
    bomb: Any = {"type": "string"}
    for _ in range(40):
        bomb = {"anyOf": [bomb, bomb]}
    assert declared_types(bomb, bomb) <= {"string"}
    admits(bomb, bomb, 1)
    deep: Any = {"type": "string"}
    for _ in range(5_000):
        deep = {"allOf": [deep]}
    assert declared_types(deep, deep) == set()


@pytest.mark.parametrize(
    ("schema", "value", "expected"),
    [
        ({"type": "integer"}, 5.0, True),
        ({"type": "integer"}, 5.5, False),
        ({"type": "integer"}, True, False),
        ({"enum": [1, "a"]}, 1, True),
        ({"enum": [1, "a"]}, True, False),
        ({"enum": [1, "a"]}, "1", False),
        ({"const": None}, None, True),
        ({"type": "string", "nullable": True}, None, True),
        ({"anyOf": [{"type": "string", "enum": ["x"]}, {"type": "integer"}]}, "y", False),
        ({"allOf": [{"type": "string"}, {"enum": ["x"]}]}, "x", True),
        ({"$ref": "#/$defs/point"}, [], False),
        (False, 1, False),
        ({}, 1, True),
    ],
)
def test_admits(schema: Any, value: Any, expected: bool) -> None:
    assert admits(schema, ROOT, value) is expected


def test_parameters_are_found_where_schemas_put_them() -> None:
    number = {"type": "number"}
    root: Any = {"$ref": "#/$defs/p", "$defs": {"p": {"allOf": [{"properties": {"n": number}}]}}}
    assert parameter_schema(root, "n", root) == number
    assert parameter_schema(root, "m", root) is None
    assert parameter_schema({"additionalProperties": number}, "any", {}) == number
    union = {"oneOf": [{"properties": {"n": number}}, {"properties": {"n": {"type": "null"}}}]}
    assert declared_types(parameter_schema(union, "n", union), union) == {"number", "null"}
    assert item_schema({"anyOf": [{"type": "null"}, {"items": number}]}, {}) == number
    assert item_schema({"type": "array"}, {}) is None


def test_tools_are_read_in_both_shapes_and_broken_ones_say_nothing() -> None:
    tools = [
        {"type": "function", "function": {"name": "f", "parameters": {"properties": {"a": {"type": "string"}}}}},
        {"name": "g"},
        {"function": None},
        "junk",
    ]
    assert tool_names(tools) == {"f", "g"}
    found = schema_for(tools, "f", "a")
    assert found is not None
    assert found.schema == {"type": "string"}
    assert schema_for(tools, "f", "b") is None
    assert schema_for(tools, "g", "a") is None
    assert schema_for(tools, "nobody", "a") is None


@pytest.mark.parametrize(
    ("written", "meant"),
    [("f", "f"), ("a.f", "f"), ("a.b.f", "f"), ("x.g", "x.g"), ("g", "g"), ("y.x.g", "y.x.g"), ("af", "af"), ("", "")],
)
def test_a_written_name_is_the_only_declared_one_behind_its_namespaces(written: str, meant: str) -> None:
    tools = [{"function": {"name": name}} for name in ("f", "x.g", "g")]
    assert declared_name(tools, written) == meant
    assert declared_name([], written) == written
