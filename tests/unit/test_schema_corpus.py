"""Real schemas: what compiles writes only what validates; what does not is refused by a keyword that says why."""

from __future__ import annotations

import json
import os
import re
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from dragoman.errors import LimitError, SchemaError
from dragoman.grammar.nodes import Ref
from dragoman.grammar.schema import compile_schema
from tests.oracles.sample import Sampler
from tests.oracles.schema import grammar_of
from tests.template_corpus import sampled

CORPUS = Path(os.environ.get("DRAGOMAN_CORPUS", Path(__file__).parents[3] / "shared" / "corpus"))

pytestmark = pytest.mark.skipif(not CORPUS.is_dir(), reason="the shared corpus is not here")


def rows(name: str) -> list[dict[str, Any]]:
    path = CORPUS / name
    return [json.loads(line) for line in path.read_text().splitlines()] if path.is_file() else []


def assert_samples_validate(schema: Any, count: int) -> None:
    validator = jsonschema.validators.validator_for(schema, default=jsonschema.Draft202012Validator)(schema)
    rules = grammar_of(schema).rules
    for seed in range(count):
        value = json.loads(Sampler(rules, seed, 8).text(Ref("s")))
        try:
            errors = [error.message for error in validator.iter_errors(value)]
        except (re.error, AttributeError):
            return  # the other validator does not know \\p, or trips over keywords of the wrong form
        assert errors == [], value


def refusal(schema: Any) -> SchemaError | LimitError | None:
    """Why the schema does not compile; None if it does."""
    try:
        compile_schema(schema, name="s")
    except (SchemaError, LimitError) as error:
        return error
    return None


@pytest.mark.parametrize("row", rows("schemas.jsonl"), ids=lambda row: row["name"])
def test_schemas(row: dict[str, Any]) -> None:
    schema = row["schema"]
    why = refusal(schema)
    if why is not None:
        assert not row["convertible"]
        return
    if isinstance(schema.get("prefixItems"), dict):
        return  # ill-formed by the standard: validators do not take it
    assert_samples_validate(schema, 40)


def test_maskbench() -> None:
    """A measure with a floor: it may only rise."""
    benchmark = sampled(rows("json_schema/maskbench.jsonl"), 2)
    compiled = [row["schema"] for row in benchmark if refusal(row["schema"]) is None]
    assert len(compiled) >= 0.97 * len(benchmark)
    for schema in compiled[::23]:
        assert_samples_validate(schema, 5)


@pytest.mark.parametrize(
    "path", sorted((CORPUS / "json_schema/draft2020-12").glob("*.json")), ids=lambda path: path.stem
)
def test_suite_of_the_standard(path: Path) -> None:
    """Of each group that compiles, no sampled value is invalid."""
    for group in json.loads(path.read_text()):
        if refusal(group["schema"]) is None:
            assert_samples_validate(group["schema"], 8)
