"""A call that cannot be run is not told as one that can, whoever cut it off: the limit, or the model by its end."""

from __future__ import annotations

import json
from typing import Any

import pytest

from dragoman.chat import Delta, ToolCallDelta
from dragoman.server.answers.begun_calls import BegunCalls
from tests.server.recordings import objects_of
from tests.server.service import CALL, MESSAGES, SECOND_CALL, TOOLS, Service, chat_format
from tests.server.test_stream import check

OPENED = CALL.index(">") + 1  # the first cut behind the opener
NAMED = CALL.index('", "arguments"') + 1  # the first cut behind the name
OPEN = CALL.index("{", NAMED) + 1  # the first one inside the arguments
WHOLE = CALL.index("}") + 1  # the first one with all of them
CUTS = range(1, len(CALL) + 1)
FLAT = [{"type": "function", **tool["function"]} for tool in TOOLS]
THEIRS = [
    {"name": tool["function"]["name"], "input_schema": tool["function"].get("parameters", {"type": "object"})}
    for tool in TOOLS
]


def test_chat_ends_by_length_and_tells_no_call_without_arguments() -> None:
    service = Service([CALL[:cut] for cut in CUTS for _ in range(2)], size=3)
    for cut in CUTS:
        chunks = service.stream(tools=TOOLS)
        check(chunks, usage=False)
        response = service.chat(tools=TOOLS)
        choice = response.json()["choices"][0]
        assert chunks[-1].get("dragoman") == response.json().get("dragoman")
        assert chunks[-1]["choices"][0]["finish_reason"] == choice["finish_reason"]
        calls = choice["message"].get("tool_calls", [])
        assert len(calls) == (cut >= OPEN)
        assert ("untold_call" in response.text) == (NAMED <= cut < OPEN)
        expected = "tool_calls" if cut >= WHOLE else "length" if cut >= OPENED else "stop"
        assert choice["finish_reason"] == expected
        assert cut >= OPEN or choice["message"]["content"] == (CALL[:cut] if cut < OPENED else "")
        assert all(_is_object(call["function"]["arguments"]) == (cut >= WHOLE) for call in calls)


def test_responses_and_their_items_are_incomplete() -> None:
    service = Service([CALL[:cut] for cut in CUTS[OPENED - 1 :] for _ in range(2)], size=3)
    for cut in CUTS[OPENED - 1 :]:
        answer = service.post({"input": MESSAGES, "tools": FLAT}, "/v1/responses").json()
        events = objects_of(service.post({"input": MESSAGES, "tools": FLAT, "stream": True}, "/v1/responses").content)
        assert events[-1]["response"] == answer
        status = "completed" if cut >= WHOLE else "incomplete"
        assert answer["status"] == status
        assert events[-1]["type"] == f"response.{status}"
        assert answer["incomplete_details"] == ({"reason": "max_output_tokens"} if cut < WHOLE else None)
        assert cut >= WHOLE or answer["dragoman"]["problems"]
        items = [item for item in answer["output"] if item["type"] == "function_call"]
        assert [item["status"] for item in items] == [status] * (cut >= OPEN)


def test_messages_end_by_max_tokens() -> None:
    body = {"messages": MESSAGES, "tools": THEIRS, "max_tokens": 100}
    service = Service([CALL[:cut] for cut in CUTS[OPENED - 1 :]], size=3)
    for cut in CUTS[OPENED - 1 :]:
        answer = service.post(body, "/v1/messages").json()
        assert answer["stop_reason"] == ("tool_use" if cut >= WHOLE else "max_tokens")
        calls = [block for block in answer["content"] if block["type"] == "tool_use"]
        assert len(calls) == (cut >= OPEN)


@pytest.mark.parametrize(
    ("text", "finish_reason", "calls"),
    [
        (CALL[:OPEN] + '"city": oops}}\n</do>', "tool_calls", ['{"city": oops}']),  # closed by the model: told as it is
        (CALL[:OPEN] + '"city": oops', "length", ['{"city": oops']),
        (CALL[:NAMED] + SECOND_CALL, "tool_calls", ["{}"]),
        (SECOND_CALL + CALL[:NAMED], "length", ["{}"]),
        (CALL[:OPEN] + SECOND_CALL, "tool_calls", ["{\n", "{}"]),
        (CALL[:NAMED] + " oops}\n</do>x", "stop", []),
        ("Hm." + CALL[:OPENED], "length", []),
        (SECOND_CALL + CALL[:OPENED], "length", ["{}"]),
        ("A call begins with <do>", "stop", []),
    ],
)
def test_what_breaks_before_the_end(text: str, finish_reason: str, calls: list[str]) -> None:
    service = Service([text] * 2, size=3)
    chunks = service.stream(tools=TOOLS)
    check(chunks, usage=False)
    choice = service.chat(tools=TOOLS).json()["choices"][0]
    told = [call["function"]["arguments"] for call in choice["message"].get("tool_calls", [])]
    assert (choice["finish_reason"], told) == (finish_reason, calls)
    assert chunks[-1]["choices"][0]["finish_reason"] == finish_reason


@pytest.mark.parametrize("path", ["/v1/chat/completions", "/v1/responses", "/v1/messages"])
@pytest.mark.parametrize("size", [1, 4, 1000])
@pytest.mark.parametrize(
    "behind", [", +arguments: {}}\n</do>", '; "arguments": {}}\n</do>', ' "x": 1}\n</do>', " and so on"]
)
def test_a_call_that_breaks_in_front_of_its_arguments_is_text_as_it_was_written(
    behind: str, size: int, path: str
) -> None:
    text = "Let me." + CALL[:NAMED] + behind + "\nBye" + SECOND_CALL
    body: dict[str, Any] = {"messages": MESSAGES, "input": MESSAGES, "max_tokens": 100}
    body |= {"tools": {"/v1/responses": FLAT, "/v1/messages": THEIRS}.get(path, TOOLS)}
    body.pop("input" if path != "/v1/responses" else "messages")
    if path == "/v1/responses":
        body.pop("max_tokens")
    answer = Service([text], size=size).post(body, path).json()
    told = "Let me." + CALL[:NAMED] + behind + "\nBye"
    assert json.dumps(told)[1:-1] in json.dumps(answer)
    assert "get_time" in json.dumps(answer)
    [problem] = [each for each in answer["dragoman"]["problems"] if each["code"] == "broken_call"]
    assert "its text is kept as content" in problem["message"]


@pytest.mark.parametrize("cut", [NAMED, OPEN, OPEN + 4])
def test_an_end_of_turn_by_its_token_cuts_too(cut: int) -> None:
    fmt = chat_format()
    assert fmt.vocab is not None
    turn = fmt.turn(MESSAGES, tools=TOOLS)
    turn.feed([*fmt.vocab.encode(CALL[:cut]), fmt.vocab.controls["<|fin|>"]])
    assert turn.ended
    turn.finish()
    assert turn.finish_reason == "length"


def test_calls_are_told_from_their_arguments_on() -> None:
    def pieces(*each: tuple[int, str | None, str]) -> list[Delta]:
        return [
            Delta(tool_calls=(ToolCallDelta(index, None if name is None else "id", name, text),))
            for index, name, text in each
        ]

    calls = BegunCalls()
    assert calls.push(pieces((0, "f", ""))) == []
    assert calls.push(pieces((0, None, "\n"))) == []
    assert calls.push(pieces((1, "g", ""))) == []
    assert calls.push(pieces((1, None, "{"))) == pieces((0, "g", ""), (0, None, "{"))
    assert calls.push(pieces((1, None, "}"))) == pieces((0, None, "}"))
    assert calls.push([*pieces((2, "h", "")), Delta(content="x")]) == [Delta(content="x")]
    assert calls.push(pieces((3, "i", ""), (3, None, " {"))) == pieces((1, "i", ""), (1, None, " {"))
    assert calls.finish(pieces((4, "j", ""))) == []
    assert calls.untold == ["f", "h", "j"]


def _is_object(text: str) -> bool:
    try:
        return isinstance(json.loads(text), dict)
    except ValueError:
        return False
