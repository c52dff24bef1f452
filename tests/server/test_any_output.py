"""Whatever a model writes is an answer: never an error, never a broken rule, and the same whole as in pieces."""

from __future__ import annotations

from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from tests.server import test_messages_rules, test_responses_rules
from tests.server.recordings import Scenario, objects_of
from tests.server.service import CALL, MESSAGES, SECOND_CALL, TOOLS, Service
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


@settings(max_examples=60, deadline=None)
@given(
    text=st.lists(FRAGMENTS, max_size=14).map("".join),
    size=st.integers(1, 9),
    tokens=st.none() | st.integers(1, 20),
    choice=st.sampled_from(["auto", "none", "required"]),
)
def test_any_output_is_an_answer_by_every_protocol(text: str, size: int, tokens: int | None, choice: str) -> None:
    functions = [tool["function"] for tool in TOOLS]
    service = Service([text] * 4, size=size)
    flat = [{"type": "function", **function} for function in functions]
    body: dict[str, Any] = {"input": MESSAGES, "tools": flat, "tool_choice": choice, "max_output_tokens": tokens}
    response = service.post({**body, "stream": True}, "/v1/responses")
    assert response.status_code == 200
    events = objects_of(response.content)
    whole = service.post(body, "/v1/responses").json()
    assert events[-1]["response"] == whole
    limit = 1 if whole["status"] == "incomplete" else None
    for rule in test_responses_rules.RULES:
        if rule is not test_responses_rules.fields:  # it takes a while, and the shapes do not depend on the text
            rule(events, Scenario((text,), tokens=limit))
    theirs = [
        {"name": function["name"], "input_schema": function.get("parameters", {"type": "object"})}
        for function in functions
    ]
    kind = {"type": {"required": "any"}.get(choice, choice)}
    body = {"messages": MESSAGES, "tools": theirs, "tool_choice": kind, "max_tokens": tokens}
    response = service.post({**body, "stream": True}, "/v1/messages")
    assert response.status_code == 200
    events = objects_of(response.content)
    message = service.post(body, "/v1/messages").json()
    limit = 1 if message["stop_reason"] == "max_tokens" else None
    for check_rule in test_messages_rules.RULES:
        check_rule(events, Scenario((text,), tokens=limit))
    assert [block["type"] for block in message["content"]] == [
        event["content_block"]["type"] for event in events if event["type"] == "content_block_start"
    ]
