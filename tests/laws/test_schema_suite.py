"""The official test suite and real schemas: what compiles decides every instance rightly, and most of it compiles.

An instance is a value, so it is tried in the spelling of this writer: whole numbers without a fraction, properties in
any order (option any_order). An invalid one must not be written as it is given either.
"""

from __future__ import annotations

import json
import os
from collections import Counter
from collections.abc import Iterator
from functools import lru_cache
from pathlib import Path
from typing import Any

import pytest

from dragoman.errors import LimitError, SchemaError
from dragoman.grammar.compile import compile_writer
from dragoman.grammar.nodes import Grammar
from dragoman.grammar.program import Program
from dragoman.grammar.run import Run
from dragoman.grammar.schema import SchemaOptions, compile_schema

CORPUS = Path(os.environ.get("DRAGOMAN_CORPUS", Path(__file__).parents[3] / "shared" / "corpus")) / "json_schema"
SUITE = CORPUS / "draft2020-12"
FILES = sorted([*SUITE.glob("*.json"), *(SUITE / "optional" / "format").glob("*.json")]) if SUITE.is_dir() else []

pytestmark = pytest.mark.skipif(not CORPUS.is_dir(), reason="the shared corpus is not here")

# Valid instances that are not written, by file and the beginning of the group and test, with the reason.
NOT_WRITTEN = [
    ("format", "", "invalid", "a format is an assertion here: text that breaks it is not written"),
    ("hostname", "validation of A-label", "", "encoded labels (xn--) are not written: their content is not checked"),
    ("ecmascript-regex", "ECMA 262 named groups", "", "expressions are written without names, back-references"),
    ("ecmascript-regex", "ECMA 262 lookbehind", "a variable-width", "and look-behind"),
    ("ecmascript-regex", "ECMA 262 character classes", "a control escape", "and without control escapes"),
    ("vocabulary", "schema that uses custom metaschema", "no validation: invalid number",
     "keywords are enforced whatever vocabulary a metaschema of one's own declares"),
]  # fmt: skip


@lru_cache(maxsize=1)
def remotes() -> dict[str, Any]:
    """The documents that the suite serves, and the metaschemas."""
    import jsonschema_specifications

    found = {uri.rstrip("#"): resource.contents for uri, resource in jsonschema_specifications.REGISTRY.items()}
    for path in (CORPUS / "remotes").rglob("*.json"):
        found[f"http://localhost:1234/{path.relative_to(CORPUS / 'remotes').as_posix()}"] = json.loads(path.read_text())
    return found


def program(schema: Any) -> Program | None:
    """The writer of a schema; None where no value validates."""
    options = SchemaOptions(any_order=True, number_digits=40, remotes=remotes())
    try:
        return compile_writer(Grammar(compile_schema(schema, name="s", options=options), "s"))
    except SchemaError as error:
        if "no finite value" in str(error):
            return None
        raise


def is_written(writer: Program | None, text: str) -> bool:
    if writer is None:
        return False
    run, data = Run(writer), text.encode("utf-8", "surrogatepass")
    return run.feed(data) == len(data) and run.finish()


def plain(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: plain(item) for key, item in value.items()}
    if isinstance(value, list):
        return [plain(item) for item in value]
    return int(value) if isinstance(value, float) and value.is_integer() else value


def verdict(writer: Program | None, value: Any, valid: bool) -> bool:
    """Whether the value can be written: a valid one in the writer's spelling, an invalid one as it is given."""
    return is_written(writer, json.dumps(plain(value) if valid else value, ensure_ascii=False))


def judged(group: dict[str, Any]) -> Iterator[tuple[dict[str, Any], bool | None]]:
    """Each test of a group and whether its value can be written; None where the schema is refused."""
    try:
        writer = program(group["schema"])
    except (SchemaError, LimitError):
        yield from ((test, None) for test in group["tests"])
        return
    for test in group["tests"]:
        yield test, verdict(writer, test["data"], test["valid"])


def excused(file: str, group: str, test: str) -> bool:
    return any(file == f and group.startswith(g) and test.startswith(t) for f, g, t, _ in NOT_WRITTEN)


COUNTS: Counter[str] = Counter()


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_suite_of_the_standard(path: Path) -> None:
    """No invalid instance is written, and no valid one refused but those listed with a reason."""
    for group in json.loads(path.read_text()):
        for test, written in judged(group):
            right = written == test["valid"]
            COUNTS["right" if right else "wrong"] += 1
            if written is None or right:
                continue
            where = (path.stem, group["description"], test["description"])
            assert not written, ("invalid, yet written", *where)
            assert excused(*where), ("valid, yet not written", *where)


def test_most_of_the_suite_is_right() -> None:
    """A floor that may only rise: 1,840 of 2,063 where it was measured first. Needs the tests above."""
    if sum(COUNTS.values()) < 2063:
        pytest.skip("only a part of the suite was run")
    assert COUNTS["right"] >= 1840


def rows() -> list[dict[str, Any]]:
    """Every sixth schema of the benchmark; all of them where DRAGOMAN_ALL is set."""
    path = CORPUS / "maskbench.jsonl"
    lines = path.read_text().splitlines() if path.is_file() else []
    return [json.loads(line) for line in lines[:: 1 if os.environ.get("DRAGOMAN_ALL") else 6]]


def test_real_schemas() -> None:
    """Every instance of an accepted schema is decided rightly; at least 95 of 100 schemas are accepted."""
    refused = 0
    for row in rows():
        verdicts = list(judged(row))
        try:
            refused += not verdicts and program(row["schema"]) is None
        except (SchemaError, LimitError):
            refused += 1
            continue
        refused += bool(verdicts) and verdicts[0][1] is None
        for test, written in verdicts:
            assert written in (None, test["valid"]), (row["name"], test["description"], test["data"])
    assert refused <= 0.05 * len(rows())
