"""Rules that are made when they are entered: the same masks, and the same refusals at the same time."""

from __future__ import annotations

import json
import random
from typing import Any, ClassVar

import numpy as np
import pytest

from dragoman.constraint.constraint import Constraint
from dragoman.constraint.masks import Masks, masks_for
from dragoman.constraint.trie import TokenTrie
from dragoman.errors import DragomanError
from dragoman.grammar import analysis
from dragoman.grammar.compile import compile_writer
from dragoman.grammar.nodes import Grammar
from dragoman.grammar.schema import SchemaOptions, begin_schema, compile_schema
from dragoman.grammar.walk import COMPILED
from dragoman.limits import Limits

OPTIONS = (SchemaOptions(), SchemaOptions(whitespace="compact", closed_objects=True), SchemaOptions(string_max=9))
KINDS = ("string", "integer", "number", "boolean", "null", "array", "object")
# What a schema may say that is not harmless, or only where it fits.
SAYINGS: tuple[dict[str, Any], ...] = (
    {"minLength": 3, "maxLength": 2},
    {"minLength": -1},
    {"minimum": 4, "maximum": 3},
    {"minimum": 0.2, "maximum": 0.8},
    {"exclusiveMinimum": 3, "exclusiveMaximum": 4},
    {"minItems": 2, "maxItems": 1},
    {"enum": []},
    {"enum": ["a", 1]},
    {"enum": [None, True, 12, "a"]},
    {"const": "c"},
    {"pattern": "(?=a)b"},
    {"pattern": "[0-9]{2}"},
    {"format": "idn-email"},
    {"format": "date"},
    {"format": 3},
    {"required": ["elsewhere"], "additionalProperties": False},
    {"properties": {"no": False}, "required": ["no"]},
    {"items": [{"type": "null"}]},
    {"items": False, "minItems": 1},
    {"uniqueItems": True},
    {"$ref": "#/$defs/missing"},
    {"$ref": "#/$defs/loop"},
    {"$ref": "#/$defs/tree"},
    {"$ref": "#"},
    {"$anchor": "here"},
    {"not": {"type": "null"}},
    {"oneOf": [{"type": "null"}, {"type": "null"}]},
    {"anyOf": [{"type": "string", "maxLength": 2}, {"enum": ["long"]}]},
    {"anyOf": [{"type": "null"}, {"type": "object", "required": ["x"], "properties": {"x": {"$ref": "#/$defs/loop"}}}]},
    {"type": "text"},
    {"maxProperties": 1},
)
DEFINITIONS: dict[str, Any] = {
    "loop": {"type": "object", "properties": {"again": {"$ref": "#/$defs/loop"}}, "required": ["again"]},
    "tree": {"type": "object", "properties": {"below": {"type": "array", "items": {"$ref": "#/$defs/tree"}}}},
}


class Tokens:
    """All bytes, and some pieces of JSON."""

    pieces = ('{"', '": ', '":', ', "', ',"', '"}', '{"a', "[1", "]}", "}}", "null", "true", '"a": "', " ", "ab", "12")
    token_bytes = tuple([bytes([byte]) for byte in range(256)] + [piece.encode() for piece in pieces] + [None])
    size = len(token_bytes)
    eos_ids = (size - 1,)
    controls: ClassVar[dict[str, int]] = {}


TOKENS = Tokens()
TRIE = TokenTrie(TOKENS.token_bytes, TOKENS.size)


def invented(pick: random.Random, depth: int = 0) -> dict[str, Any]:
    """A schema that is mostly harmless."""
    kind = pick.choice(KINDS if depth < 3 else KINDS[:5])
    schema: dict[str, Any] = {"type": kind}
    if kind == "object":
        names = pick.sample(("a", "ab", "b", "c", 'q"', "d"), pick.randint(0, 4))
        schema["properties"] = {name: invented(pick, depth + 1) for name in names}
        schema["required"] = [name for name in names if pick.random() < 0.5]
        if pick.random() < 0.4:
            schema["additionalProperties"] = pick.choice((False, True, {"type": "null"}))
    elif kind == "array" and pick.random() < 0.8:
        schema |= {"items": invented(pick, depth + 1), "minItems": pick.randint(0, 2)}
    elif kind in ("integer", "number") and pick.random() < 0.5:
        schema |= {"minimum": pick.randint(-20, 5), "maximum": pick.randint(5, 300)}
    elif kind == "string" and pick.random() < 0.5:
        schema |= pick.choice(({"enum": ["one", "two", "three"]}, {"maxLength": 5}, {"minLength": 1}))
    if pick.random() < 0.15:
        schema["type"] = [kind, pick.choice(KINDS)]
    elif pick.random() < 0.1:
        del schema["type"]
    if pick.random() < 0.12:
        schema = {"anyOf": [schema, {"type": "null"}]}
    return schema


def spoilt(pick: random.Random, schema: dict[str, Any]) -> dict[str, Any]:
    """``schema`` with something odd said somewhere in it."""
    places: list[dict[str, Any]] = []
    work: list[Any] = [schema]
    while work:
        at = work.pop()
        places.append(at)
        work += [*at.get("properties", {}).values(), *at.get("anyOf", ())]
        work += [at[key] for key in ("items", "additionalProperties") if isinstance(at.get(key), dict)]
    place = pick.choice(places)
    saying = pick.choice(SAYINGS)
    if "$ref" in saying:
        place.clear()
    place |= json.loads(json.dumps(saying))
    return schema


def schemas(seed: int) -> Any:
    pick = random.Random(seed)
    schema = {"type": "object", "properties": {"v": invented(pick)}, "required": ["v"], "$defs": DEFINITIONS}
    return spoilt(pick, schema) if seed % 2 else schema


def outcome(job: Any, schema: Any, options: SchemaOptions) -> tuple[Any, DragomanError | None]:
    try:
        return job(schema, name="s", options=options), None
    except DragomanError as error:
        return None, error


def rows(masks: Masks, seed: int) -> list[bytes]:
    """The masks along a few random walks."""
    pick = random.Random(seed)
    found = []
    for _ in range(3):
        constraint = Constraint(masks, masks.start())
        for _ in range(40):
            row = np.zeros(TRIE.words, dtype=np.uint32)
            constraint.fill(row)
            found.append(row.tobytes())
            tokens = np.flatnonzero(np.unpackbits(row.view(np.uint8), bitorder="little")).tolist()
            closing = [token for token in tokens if TOKENS.token_bytes[token] in (b'"', b"}", b"]", b",", b":")]
            token = pick.choice(closing if closing and pick.random() < 0.6 else tokens)
            if token in TOKENS.eos_ids:
                break
            assert constraint.accept(token)
    return found


@pytest.mark.parametrize("seed", range(80))
def test_rules_made_on_demand_allow_the_same_and_refuse_at_once(seed: int) -> None:
    schema, options = schemas(seed), OPTIONS[seed % len(OPTIONS)]
    rules, refusal = outcome(compile_schema, schema, options)
    begun, other = outcome(begin_schema, schema, options)
    assert str(refusal) == str(other)
    if refusal is None:
        made, later = begun
        whole = Masks(compile_writer(Grammar(rules, "s"), controls=TOKENS.controls), TOKENS, TRIE)
        masks = masks_for(Grammar(made, "s", later=later), TOKENS, TRIE)
        assert rows(masks, seed) == rows(whole, seed)


def test_the_schemas_of_this_law_are_refused_and_wait_often_enough() -> None:
    refused = waited = 0
    for seed in range(80):
        try:
            made, later = begin_schema(schemas(seed), name="s")
        except DragomanError:
            refused += 1
            continue
        waited += len(analysis.whole(Grammar(made, "s", later=later)).rules) > len(made)
    assert refused >= 8
    assert waited >= 40


def test_of_a_harmless_schema_one_rule_is_made_at_first() -> None:
    parts = {f"p{i}": {"type": "object", "properties": {"x": {"type": "integer", "maximum": i}}} for i in range(20)}
    schema = {"type": "object", "properties": parts, "required": ["p0"]}
    made, later = begin_schema(schema, name="s")
    assert list(made) == ["s"]
    program = compile_writer(Grammar(made, "s", later=later), controls={}, on_demand=True)
    assert len(program) < 30 < len(compile_writer(Grammar(made, "s", later=later), controls={}))


def test_what_is_behind_the_first_letters_of_another_key_waits() -> None:
    names = [f"{letter}_long_name_{end}" for letter in "abcdef" for end in ("of_a_key", "of_another_key")]
    schema = {"type": "object", "properties": {name: {"type": "null"} for name in names}}
    whole = Masks(compile_writer(Grammar(compile_schema(schema, name="s"), "s"), controls={}), TOKENS, TRIE)
    made, later = begin_schema(schema, name="s")
    masks = masks_for(Grammar(made, "s", later=later), TOKENS, TRIE)
    ours, theirs = Constraint(masks, masks.start()), Constraint(whole, whole.start())
    sizes = []
    for byte in b'{"b_long_name_of_a_key_':
        assert ours.accept(byte)
        assert theirs.accept(byte)
        row, other = (np.zeros(TRIE.words, dtype=np.uint32) for _ in range(2))
        ours.fill(row)
        theirs.fill(other)
        assert (row == other).all()
        sizes.append(len(masks.program))
    # Behind `{"` stands all that a key may begin with; the rest of a key is compiled when writing comes to it.
    # Without the compiled file walks look one step further.
    assert sizes[1] < len(whole.program) * (2 / 3 if COMPILED else 4 / 5)
    assert len(set(sizes[1:])) >= 3


def test_a_state_that_tokens_only_end_in_is_not_stepped() -> None:
    masks = masks_for(Grammar(*begin_schema({"const": "abc"}, name="s")[:1], "s"), TOKENS, TRIE)
    constraint = Constraint(masks, masks.start())
    assert constraint.accept(ord('"'))
    constraint.fill(np.zeros(TRIE.words, dtype=np.uint32))
    assert constraint.accept(TOKENS.token_bytes.index(b"ab"))
    state = constraint.state
    assert state is not None
    automaton = masks._kept.automaton  # no other way to see what was not done
    assert not automaton.wide[state.state]
    constraint.fill(np.zeros(TRIE.words, dtype=np.uint32))
    assert automaton.wide[state.state] == 1


def test_a_schema_past_the_bounds_is_refused_at_once() -> None:
    parts = {f"p{i}": {"type": "string", "maxLength": i + 1} for i in range(20)}
    schema = {"type": "object", "properties": {"v": {"type": "object", "properties": parts}}, "required": ["v"]}
    for limits in (Limits(schema_nodes=8), Limits(program_instructions=60)):
        with pytest.raises(DragomanError) as caught:
            made, later = begin_schema(schema, name="s", limits=limits)
            compile_writer(Grammar(made, "s", later=later), controls={}, limits=limits, on_demand=True)
        assert "too large" in str(caught.value)
