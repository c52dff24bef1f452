"""What a schema's rules write, asked of the slow recogniser and of jsonschema: shared by the schema tests."""

from __future__ import annotations

import json
from typing import Any

import jsonschema

from dragoman.grammar.nodes import Grammar, Ref
from dragoman.grammar.schema import SchemaOptions, compile_schema
from tests.oracles.backtrack import accepts
from tests.oracles.sample import Sampler


def grammar_of(schema: Any, **options: Any) -> Grammar:
    return Grammar(compile_schema(schema, name="s", options=SchemaOptions(**options)), "s")


def written(schema: Any, *texts: str, **options: Any) -> list[bool]:
    """For each text, whether the schema's rules produce it."""
    grammar = grammar_of(schema, **options)
    return [accepts(grammar, text.encode()) for text in texts]


def samples(schema: Any, count: int = 40, **options: Any) -> list[str]:
    """Random texts of the schema's rules."""
    grammar = grammar_of(schema, **options)
    return [Sampler(grammar.rules, seed, 8).text(Ref("s")).decode() for seed in range(count)]


def assert_valid(schema: Any, texts: list[str]) -> None:
    """Every text is JSON without duplicate keys at places that declare them, and validates."""
    kind = jsonschema.validators.validator_for(schema, default=jsonschema.Draft202012Validator)
    validator = kind(schema)
    for text in texts:
        errors = [error.message for error in validator.iter_errors(json.loads(text))]
        assert not errors, (text, errors)
