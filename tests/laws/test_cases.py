"""Cases of public test suites: every cut gives the same message, deltas add up to it, and how many read as expected."""

from __future__ import annotations

import json
import random
from collections.abc import Iterable, Sequence
from functools import lru_cache
from itertools import pairwise
from typing import Any

import pytest

from dragoman.chat import Delta, Message
from dragoman.format import ChatFormat
from tests.template_corpus import sampled, shared_rows, template_source

Row = dict[str, Any]
FILES = ("turns_llamacpp.jsonl", "turns_engines.jsonl")
# Rows that read as expected; only ever raised. Of turns_engines the well-formed ones: what a parser makes of malformed
# output is its own affair there.
READ_AS_EXPECTED = {"turns_llamacpp.jsonl": 207, "turns_engines.jsonl": 389}
pytestmark = pytest.mark.skipif(not shared_rows(FILES[0]), reason="the shared corpus is not here")


@lru_cache(maxsize=128)
def fmt(template: str) -> ChatFormat:
    return ChatFormat.from_template(template_source(f"{template}.jinja"))


@lru_cache(maxsize=2)
def rows(file: str) -> list[Row]:
    return shared_rows(file)


def read(row: Row, pieces: Iterable[str | bytes]) -> tuple[Message, list[Delta]]:
    turn = fmt(row["template"]).turn(**row["request"], id_seed=1)
    deltas: list[Delta] = []
    for piece in pieces:
        deltas += turn.feed(piece)
    if not row.get("partial"):
        deltas += turn.finish()
    return turn.message, deltas


def summed(deltas: Sequence[Delta]) -> tuple[str, str, list[list[str | None]]]:
    calls: list[list[str | None]] = []
    for delta in deltas:
        for piece in delta.tool_calls:
            if piece.name is not None:
                assert piece.index == len(calls)
                assert piece.arguments == ""
                calls.append([piece.id, piece.name, ""])
            else:
                assert piece.index == len(calls) - 1
                calls[-1][2] = f"{calls[-1][2]}{piece.arguments}"
    return "".join(d.content for d in deltas), "".join(d.reasoning_content for d in deltas), calls


def cuts(row: Row) -> dict[str, list[str] | list[bytes]]:
    """The output in pieces: byte by byte, at random, as given. A piece of text never ends inside a character."""
    data = row["output"].encode()
    pick = random.Random(row["id"])
    ends = [[0, *sorted(pick.choices(range(len(data) + 1), k=size)), len(data)] for size in (2, 9)]
    out: dict[str, list[str] | list[bytes]] = {"bytes": [data[i : i + 1] for i in range(len(data))]}
    for some in ends:
        out[f"cut at {some}"] = [data[a:b] for a, b in pairwise(some)]
    if "".join(row.get("chunks") or ()) == row["output"]:
        out["as given"] = list(row.get("chunks") or ())
    return out


@pytest.mark.parametrize("file", FILES)
def test_every_cut_of_a_case_gives_the_same_message_and_deltas_that_add_up_to_it(file: str) -> None:
    """Of a third of the rows; ``make laws`` takes all."""
    flaws: list[str] = []
    for row in sampled(rows(file), 3):
        whole, deltas = read(row, [row["output"]])
        readings = {"whole": (whole, deltas)}
        readings |= {cut: read(row, pieces) for cut, pieces in cuts(row).items()}
        for cut, (message, parts) in readings.items():
            calls = [[call.id, call.name, call.arguments] for call in message.tool_calls]
            if message != whole:
                flaws.append(f"{row['id']}, {cut}: {message} instead of {whole}")
            if summed(parts) != (message.content, message.reasoning_content, calls):
                flaws.append(f"{row['id']}, {cut}: the deltas {parts} do not add up to {message}")
    assert not flaws, f"{len(flaws)} flaws:\n" + "\n".join(flaws[:5])


@pytest.mark.parametrize("file", FILES)
def test_cases_read_as_expected(file: str) -> None:
    wanted = [row for row in rows(file) if row.get("kind", "well_formed") == "well_formed"]
    wrong = {row["id"]: otherwise(row, read(row, [row["output"]])[0]) for row in wanted}
    right = sum(1 for why in wrong.values() if why is None)
    told = "\n".join(f"{case}: {why}" for case, why in wrong.items() if why)
    assert right >= READ_AS_EXPECTED[file], f"{right} of {len(wanted)} read as expected; the others:\n{told}"


def otherwise(row: Row, message: Message) -> str | None:
    """What differs from the row, by the rules of the suites: outer white space aside, ids where the row has one."""
    expect = row["expect"]
    for field in ("content", "reasoning_content"):
        got, wanted = getattr(message, field).strip(), (expect.get(field) or "").strip()
        if got != wanted:
            return f"{field} {got!r}, expected {wanted!r}"
    calls = expect.get("tool_calls") or []
    if [call["name"] for call in calls] != [call.name for call in message.tool_calls]:
        return f"calls {message.tool_calls}, expected {calls}"
    for wanted, got in zip(calls, message.tool_calls, strict=True):
        if not same_arguments(wanted["arguments"], got.arguments):
            return f"arguments {got.arguments!r}, expected {wanted['arguments']!r}"
        if wanted.get("id") and wanted["id"] != got.id:
            return f"id {got.id!r}, expected {wanted['id']!r}"
    return None


def same_arguments(wanted: Any, got: str) -> bool:
    """Equal as JSON, key order kept; arguments that the row gives as broken text must be broken."""
    try:
        value = json.loads(got)
    except ValueError:
        value = None
        if not isinstance(wanted, str):
            return False
    if isinstance(wanted, str):
        try:
            wanted = json.loads(wanted)
        except ValueError:
            return value is None
    return value is not None and json.dumps(value) == json.dumps(wanted)
