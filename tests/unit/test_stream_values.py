"""Tagged values: the ladder from raw text to JSON, and what streams when."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dragoman.chat_schema import Declared
from dragoman.stream.json_text import is_json
from dragoman.stream.values import JsonValue, TypedValue, convert, value_reader

INT_OR_NULL = {"type": ["integer", "null"]}
SCHEMAS: list[Any] = [
    {},
    {"type": "string"},
    {"type": ["string", "null"]},
    {"type": ["string", "integer"]},
    {"type": ["string", "boolean"]},
    {"type": ["string", "object"]},
    {"type": "number"},
    {"type": "boolean"},
    {"type": "array"},
    INT_OR_NULL,
    {"enum": ["1", 2, None, True]},
    {"anyOf": [{"type": "string", "enum": ["null", "a"]}, {"type": "null"}]},
]
TEXTS = st.text(alphabet="nulNoeTrFas0123.5-+e{}[]()'\", \n", max_size=12) | st.text()


def read(schema: Any, text: str) -> str:
    return convert(text, None if schema is None else Declared(schema, schema))[0]


@pytest.mark.parametrize(
    ("schema", "text", "written"),
    [
        # A declared string stays one, whatever it looks like.
        ({"type": "string"}, "42", '"42"'),
        ({"type": "string"}, "null", '"null"'),
        ({"type": "string"}, '"quoted"', r'"\"quoted\""'),
        ({"type": "string"}, " padded ", '" padded "'),
        # null only where it is allowed.
        ({"type": ["string", "null"]}, "null", "null"),
        ({"type": ["string", "null"]}, "None", "null"),
        ({"type": ["string", "null"]}, "nullable", '"nullable"'),
        ({"type": ["string", "null"]}, "", '""'),
        (INT_OR_NULL, "None", "null"),
        # A better fit than a string.
        ({"type": ["string", "integer"]}, "42", "42"),
        ({"type": ["string", "integer"]}, "42.5", '"42.5"'),
        ({"type": ["string", "integer"]}, "007", '"007"'),
        ({"anyOf": [{"type": "string"}, {"type": "object"}]}, '{"a": 1}', '{"a": 1}'),
        ({"anyOf": [{"type": "string"}, {"type": "object"}]}, '{"a": 1', r'"{\"a\": 1"'),
        # Numbers keep their spelling where it is JSON.
        ({"type": "number"}, "48.40", "48.40"),
        ({"type": "number"}, "1e5", "1e5"),
        ({"type": "integer"}, " 5.0\n", "5.0"),
        ({"type": "integer"}, "1e3", "1e3"),
        ({"type": "integer"}, "+5", "5"),
        ({"type": "integer"}, "-007", "-7"),
        ({"type": "number"}, ".5", "0.5"),
        ({"type": "number"}, "5.", "5"),
        ({"type": "integer"}, "9" * 6000, "9" * 6000),
        ({"type": "boolean"}, "True", "true"),
        ({"type": "boolean"}, "false\n", "false"),
        # Objects and arrays: JSON as it is, Python translated.
        ({"type": "object"}, '{"b":1,  "a":2}', '{"b":1,  "a":2}'),
        ({"type": "object"}, "{'a': None, 'b': (1, True)}", '{"a": null, "b": [1, true]}'),
        ({"type": "array"}, "['it\\'s']", '["it\'s"]'),
        # enum and const decide.
        ({"enum": ["1", 2]}, "1", '"1"'),
        ({"enum": ["1", 2]}, "2", "2"),
        ({"enum": ["celsius"]}, '"celsius"', '"celsius"'),
        ({"enum": ["celsius"]}, "\ncelsius\n", '"celsius"'),
        ({"type": ["string", "null"], "enum": ["null", "a"]}, "null", '"null"'),
        ({"const": True}, "True", "true"),
        # Nothing declared: JSON but for strings.
        (None, "5", "5"),
        (None, "null", "null"),
        (None, '"s"', r'"\"s\""'),
        (None, "None", '"None"'),
        (None, "[1, 2]", "[1, 2]"),
        ({"description": "?"}, "5", "5"),
    ],
)
def test_the_ladder(schema: Any, text: str, written: str) -> None:
    declared = None if schema is None else Declared(schema, schema)
    assert convert(text, declared) == (written, None)


@pytest.mark.parametrize(
    ("schema", "text"),
    [
        ({"type": "integer"}, "5.5"),
        ({"type": "integer"}, "five"),
        ({"type": "integer"}, ""),
        ({"type": "number"}, "NaN"),
        ({"type": "number"}, "1_000"),
        ({"type": "boolean"}, "1"),
        ({"type": "object"}, '{"a": '),
        ({"type": "object"}, "[1]"),
        ({"type": "array"}, "(" * 100_000),
        ({"type": "null"}, "nothing"),
    ],
)
def test_a_failed_conversion_is_a_string_and_a_problem(schema: Any, text: str) -> None:
    written, problem = convert(text, Declared(schema, schema))
    assert json.loads(written) == text
    assert problem is not None


def test_values_nested_without_end() -> None:
    deep = "[" * 20_000 + "]" * 20_000
    assert convert(deep, Declared({"type": "array"}, None)) == (deep, None)
    assert convert(deep, None) == (deep, None)


@given(
    st.sampled_from(["value.string", "value.json", "value.typed"]), st.sampled_from([None, *SCHEMAS]), TEXTS, st.data()
)
@settings(deadline=None)
def test_pieces_do_not_matter(tag: str, schema: Any, text: str, data: st.DataObject) -> None:
    declared = None if schema is None else Declared(schema, schema)
    cuts = sorted(data.draw(st.lists(st.integers(0, len(text)), max_size=8)))
    whole, pieces = value_reader(tag, declared), value_reader(tag, declared)
    written = whole.start() + whole.feed(text) + whole.finish()
    parts = [text[a:b] for a, b in zip([0, *cuts], [*cuts, len(text)], strict=True)]
    assert pieces.start() + "".join(map(pieces.feed, parts)) + pieces.finish() == written
    assert pieces.problem == whole.problem
    assert tag == "value.json" or is_json(written)
    if tag == "value.typed":
        assert (written, whole.problem) == convert(text, declared)
    if tag == "value.string":
        assert written == json.dumps(text, ensure_ascii=False)


@given(TEXTS)
@settings(deadline=None)
def test_json_values_are_json_or_a_problem(text: str) -> None:
    value = JsonValue()
    written = value.feed(text) + value.finish()
    assert is_json(written) == (value.problem != "is no JSON")
    assert value.problem is None or value.problem == "is no JSON" or value.problem.endswith("taken as a string")
    if value.problem == "is no JSON, taken as a string":
        assert json.loads(written) == text.strip(" \t\r\n") or json.loads(written) == text.lstrip(" \t\r\n")


def delivered(reader: TypedValue | JsonValue, *pieces: str) -> list[str]:
    return [reader.feed(piece) for piece in pieces]


def test_a_string_streams_as_soon_as_it_cannot_be_null() -> None:
    value = TypedValue(Declared({"type": ["string", "null"]}, None))
    assert delivered(value, "n", "u", "m", "ber") == ["", "", '"num', "ber"]
    assert value.finish() == '"'


def test_a_union_streams_as_soon_as_no_other_type_is_left() -> None:
    union = Declared({"type": ["string", "number", "object"]}, None)
    assert delivered(TypedValue(union), "1", "2", " apples", "!") == ["", "", '"12 apples', "!"]
    assert delivered(TypedValue(union), "{", "oops") == ["", ""]
    assert delivered(TypedValue(None), "Hel", "lo") == ['"Hel', "lo"]


def test_scalars_and_listed_strings_wait_for_their_closer() -> None:
    assert delivered(TypedValue(Declared({"type": "integer"}, None)), "abc") == [""]
    assert delivered(TypedValue(Declared({"enum": ["abcd", None]}, None)), "abc") == [""]


def test_json_streams_but_for_white_space_that_may_be_the_end() -> None:
    value = JsonValue()
    assert delivered(value, "\n ", '{"a"', ": ", "[1", "\n", "]", "}\n") == ["", '{"a', '":', " [", "", "1\n]", "}"]
    assert value.finish() == ""
    assert value.problem is None
