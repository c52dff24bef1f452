"""``items_max``: what a schema leaves open has a length and an end, what it asks for is never cut."""

from __future__ import annotations

import json
from typing import Any

import pytest

from dragoman.grammar.schema import SchemaOptions, compile_schema
from tests.oracles.schema import assert_valid, samples, written

STRINGS: dict[str, Any] = {"type": "array", "items": {"type": "string"}}
NODE: dict[str, Any] = {
    "$ref": "#/$defs/node",
    "$defs": {
        "node": {
            "type": "object",
            "properties": {
                "name": {"type": "string"},
                "children": {"type": "array", "items": {"$ref": "#/$defs/node"}},
            },
            "required": ["name"],
            "additionalProperties": False,
        }
    },
}
LIST: dict[str, Any] = {
    "$ref": "#/$defs/cell",
    "$defs": {
        "cell": {
            "type": "object",
            "properties": {
                "value": {"type": "integer"},
                "next": {"anyOf": [{"$ref": "#/$defs/cell"}, {"type": "null"}]},
            },
            "required": ["value", "next"],
            "additionalProperties": False,
        }
    },
}


def lists(count: int) -> str:
    return json.dumps(["x"] * count)


def maps(count: int) -> str:
    return json.dumps({f"k{number}": number for number in range(count)})


def depth(value: Any) -> int:
    inside = value.values() if isinstance(value, dict) else value if isinstance(value, list) else None
    return 0 if inside is None else 1 + max(map(depth, inside), default=0)


def nested(cells: int) -> str:
    text = "null"
    for _ in range(cells):
        text = f'{{"value": 1, "next": {text}}}'
    return text


@pytest.mark.parametrize(
    ("more", "counts"),
    [
        ({}, range(5)),
        ({"minItems": 2}, range(2, 5)),
        ({"minItems": 6}, [6]),
        ({"maxItems": 7}, range(8)),  # the schema's own bound is kept
        ({"prefixItems": [{"type": "string"}] * 5}, range(6)),
        ({"contains": {"const": "x"}, "minContains": 6}, [6]),
    ],
)
def test_arrays_without_maxitems(more: dict[str, Any], counts: range | list[int]) -> None:
    found = written(STRINGS | more, *(lists(count) for count in range(9)), items_max=4)
    assert [count for count, yes in enumerate(found) if yes] == list(counts)
    assert all(written(STRINGS | more, *(lists(count) for count in counts)))


@pytest.mark.parametrize(
    ("schema", "counts"),
    [
        ({"type": "object", "additionalProperties": {"type": "integer"}}, range(5)),
        ({"type": "object"}, range(5)),
        ({"type": "object", "minProperties": 3}, range(3, 5)),
        ({"type": "object", "minProperties": 6}, [6]),
        ({"type": "object", "maxProperties": 6}, range(7)),
        ({"type": "object", "properties": {"k0": {}, "k1": {}}, "required": ["k0"]}, range(1, 7)),
        ({"type": "object", "patternProperties": {"^k": {"type": "integer"}}}, range(5)),
        ({"type": "object", "properties": {f"k{n}": {} for n in range(30)}}, range(9)),  # declared ones are not counted
    ],
)
def test_maps_without_maxproperties(schema: dict[str, Any], counts: range | list[int]) -> None:
    found = written(schema, *(maps(count) for count in range(9)), items_max=4)
    assert [count for count, yes in enumerate(found) if yes] == list(counts)


@pytest.mark.parametrize("schema", [{}, {"type": ["array", "object"]}, NODE, LIST])
def test_nesting_ends(schema: dict[str, Any]) -> None:
    texts = samples(schema, 60, items_max=4)
    assert_valid(schema, texts)
    # six levels, and objects that are required at the last
    assert max(depth(json.loads(text)) for text in texts) <= 7


def test_half_as_many_every_two_levels() -> None:
    pairs: dict[str, Any] = {"type": "array", "items": {"type": "array", "items": {"type": "array", "items": STRINGS}}}
    sizes = {(): 4, (0,): 4, (0, 0): 2, (0, 0, 0): 2}
    for place, most in sizes.items():
        for count in range(6):
            item: Any = "x" if len(place) == 3 else []
            value: Any = [item] * count
            for _ in place:
                value = [value]
            assert written(pairs, json.dumps(value), items_max=4) == [count <= most], (place, count)


def test_recursion_that_must_end_in_a_plain_value_does() -> None:
    found = written(LIST, *(nested(cells) for cells in range(1, 10)), items_max=4)
    assert found == [True] * 6 + [False] * 3
    assert all(written(LIST, *(nested(cells) for cells in range(1, 10))))


def test_what_is_required_deep_down_is_written() -> None:
    schema: dict[str, Any] = {"type": "string", "const": "deep"}
    value: Any = "deep"
    for number in range(12):
        key = f"k{number}"
        schema = {
            "type": "object",
            "properties": {key: schema, "more": STRINGS, "extra": {"type": "integer"}},
            "required": [key, "more"],
        }
        value = {key: value, "more": []}
        assert written(schema, json.dumps(value), items_max=2) == [True]
    assert_valid(schema, samples(schema, 20, items_max=2))


def test_a_plain_value_without_a_text_is_not_preferred() -> None:
    impossible = {"type": "string", "pattern": "^(?=a)b$"}
    schema: Any = {"anyOf": [impossible, {"type": "object", "properties": {"a": {"const": 1}}, "required": ["a"]}]}
    for _ in range(8):
        schema = {"type": "array", "items": schema, "minItems": 1}
    assert compile_schema(schema, name="s", options=SchemaOptions(items_max=2))


def test_the_same_rules_where_nothing_is_bounded() -> None:
    for schema in (STRINGS, NODE, LIST, {}):
        before = compile_schema(schema, name="s", options=SchemaOptions())
        assert not any(".1." in name or ".2." in name for name in before)


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("uri", "https://example.org/a?b=c"),
        ("email", "john@example.com"),
        ("date-time", "2024-02-29T23:59:59.25+01:00"),
    ],
)
def test_a_wish_for_short_strings_refuses_no_format(name: str, text: str) -> None:
    """Counting to 48 beside some formats is too large; counting less far is not, and still leaves room for a value."""
    schema = {"type": "string", "format": name}
    assert written(schema, json.dumps(text), string_max=48) == [True]
    found = [json.loads(sample) for sample in samples(schema, 8, string_max=48)]
    assert max(map(len, found)) <= 48


def test_a_wish_that_is_far_too_large_costs_little() -> None:
    schema = {"type": "string", "format": "uri"}
    assert written(schema, '"https://example.org/a"', string_max=100_000) == [True]
