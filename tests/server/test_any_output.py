"""Whatever a model writes is an answer: never an error, never a broken rule, and the same whole as in pieces."""

from __future__ import annotations

from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from tests.server.service import CALL, SECOND_CALL, TOOLS, Service
from tests.server.test_stream import check

FRAGMENTS = st.sampled_from(
    [
        *("<muse>", "\n</muse>\n\n", "<do>\n", "\n</do>", CALL, SECOND_CALL, "<|fin|>", "<|from|>", "<do", "</", "\n"),
        *('{"name": ', '"get_weather"', ', "arguments": ', '{"city": ', '"Rome"', "}", "}}", "\\", '"'),
        *("text", "é😀", "\x00", "\u2028", "null", "[", "1e999"),
    ]
)


@settings(max_examples=150, deadline=None)
@given(
    text=st.lists(FRAGMENTS, max_size=14).map("".join),
    size=st.integers(1, 9),
    tokens=st.none() | st.integers(0, 20),
    choice=st.sampled_from(["auto", "none", "required"]),
)
def test_any_output_is_an_answer(text: str, size: int, tokens: int | None, choice: str) -> None:
    service = Service([text, text], size=size)
    fields: dict[str, Any] = {"tools": TOOLS, "tool_choice": choice, "max_tokens": tokens}
    chunks = service.stream(**fields, stream_options={"include_usage": True})
    check(chunks, usage=True)
    response = service.chat(**fields)
    assert response.status_code == 200
    message = response.json()["choices"][0]["message"]
    deltas = [chunk["choices"][0]["delta"] for chunk in chunks[:-1]]
    assert (message["content"] or "") == "".join(delta.get("content") or "" for delta in deltas)
    assert message.get("reasoning_content", "") == "".join(delta.get("reasoning_content", "") for delta in deltas)
    pieces = [piece for delta in deltas for piece in delta.get("tool_calls", [])]
    for number, call in enumerate(message.get("tool_calls", [])):
        arguments = "".join(piece["function"]["arguments"] for piece in pieces if piece["index"] == number)
        assert call["function"]["arguments"] == arguments
    finish_reason = chunks[-2]["choices"][0]["finish_reason"]
    assert response.json()["choices"][0]["finish_reason"] == finish_reason
    assert finish_reason != "tool_calls" or pieces
