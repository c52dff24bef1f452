"""An engine that cannot be held to anything: one call where one was asked for, and what is refused by name."""

from __future__ import annotations

import json
from typing import Any

import pytest

from dragoman.engine import EngineInfo
from tests.server.recordings import objects_of
from tests.server.service import CALL, MESSAGES, SECOND_CALL, TOOLS, Service, chat_format
from tests.server.test_cut_calls import FLAT, THEIRS
from tests.server.test_stream import check

FREE = EngineInfo(model="free")  # takes neither grammars nor masks
TAIL = " and so on" * 40
TWO = f"Well.{CALL}{SECOND_CALL}{TAIL}"
ARGUMENTS = {"city": "Rome", "days": 2}
PATHS = ("/v1/chat/completions", "/v1/responses", "/v1/messages")
BODIES: dict[str, dict[str, Any]] = {
    PATHS[0]: {"messages": MESSAGES, "tools": TOOLS, "parallel_tool_calls": False},
    PATHS[1]: {"input": MESSAGES, "tools": FLAT, "parallel_tool_calls": False},
    PATHS[2]: {
        "messages": MESSAGES,
        "tools": THEIRS,
        "max_tokens": 900,
        "tool_choice": {"type": "auto", "disable_parallel_tool_use": True},
    },
}


def _told(path: str, answer: dict[str, Any]) -> tuple[list[dict[str, Any]], str]:
    """The arguments of the calls of a whole answer, and how it ended."""
    if path == PATHS[0]:
        [choice] = answer["choices"]
        calls = choice["message"].get("tool_calls", [])
        return [json.loads(call["function"]["arguments"]) for call in calls], choice["finish_reason"]
    if path == PATHS[1]:
        calls = [item for item in answer["output"] if item["type"] == "function_call"]
        return [json.loads(call["arguments"]) for call in calls], answer["status"]
    return [block["input"] for block in answer["content"] if block["type"] == "tool_use"], answer["stop_reason"]


ENDS = dict(zip(PATHS, ("tool_calls", "completed", "tool_use"), strict=True))


@pytest.mark.parametrize("path", PATHS)
@pytest.mark.parametrize("size", [1, 3, 1000])
def test_the_second_call_is_not_handed_out(path: str, size: int) -> None:
    service = Service([TWO], info=FREE, size=size)
    answer = service.post(BODIES[path], path).json()
    assert _told(path, answer) == ([ARGUMENTS], ENDS[path])
    assert [problem["code"] for problem in answer["dragoman"]["problems"]] == ["second_call"]
    if size < 1000:
        [tokens] = [value for name, value in _counts(answer["usage"]) if name in ("completion_tokens", "output_tokens")]
        assert tokens < len(f"Well.{CALL}{SECOND_CALL}") / size + 2  # the engine was stopped


def _counts(usage: dict[str, Any]) -> list[tuple[str, int]]:
    return [(name, value) for name, value in usage.items() if isinstance(value, int)]


@pytest.mark.parametrize("size", [1, 3, 1000])
def test_streams_say_the_same(size: int) -> None:
    service = Service([TWO] * 3, info=FREE, size=size)
    chunks = service.stream(**{name: value for name, value in BODIES[PATHS[0]].items() if name != "messages"})
    check(chunks, usage=False)
    calls = [call for chunk in chunks for call in chunk["choices"][0]["delta"].get("tool_calls", [])]
    assert {call["index"] for call in calls} == {0}
    assert json.loads("".join(call["function"].get("arguments", "") for call in calls)) == ARGUMENTS
    assert chunks[-1]["choices"][0]["finish_reason"] == "tool_calls"
    for path in PATHS[1:]:
        told = service.post({**BODIES[path], "stream": True}, path).content.decode()
        assert "get_weather" in told
        assert '"name":"get_time","arguments' not in told.replace(" ", "")
        assert "second_call" in told
    events = objects_of(Service([TWO], info=FREE).post({**BODIES[PATHS[1]], "stream": True}, PATHS[1]).content)
    assert _told(PATHS[1], events[-1]["response"]) == ([ARGUMENTS], "completed")


def test_several_calls_stay_several_where_nothing_is_said() -> None:
    body = {name: value for name, value in BODIES[PATHS[0]].items() if name != "parallel_tool_calls"}
    assert len(_told(PATHS[0], Service([TWO], info=FREE).post(body).json())[0]) == 2


BROKEN = f"Well.{CALL}{SECOND_CALL}" + '\n<do>\n{"name": "get_time", "arguments": {"a": oops}}\n</do>'


@pytest.mark.parametrize(
    "fields",
    [{"parallel_tool_calls": False}, {"parallel_tool_calls": False, "stop": "oops"}, {"stop": "Well"}, {}],
)
def test_strictness_sees_the_same_however_the_text_is_cut(fields: dict[str, Any]) -> None:
    """What breaks the format behind a second call, where one was asked for, or behind a stop text is not read."""
    seen = []
    for size in (1, 3, 7, 1000):
        service = Service([BROKEN] * 2, info=FREE, size=size)
        body = {"tools": TOOLS, "on_mismatch": "strict", **fields}
        whole = service.chat(**body)
        stream = service.post({"messages": MESSAGES, "stream": True, **body}).content
        events = [json.loads(line[6:]) for line in stream.splitlines() if line.startswith(b"data: {")]
        deltas = [event["choices"][0]["delta"] for event in events if "choices" in event]
        text = "".join(delta.get("content") or "" for delta in deltas)
        written = "".join(call["function"]["arguments"] for delta in deltas for call in delta.get("tool_calls", []))
        told = whole.json().get("choices") or whole.json()["error"]["message"]
        seen.append((whole.status_code, told, text, written, "error" in events[-1]))
    assert seen[1:] == seen[:1] * 3
    assert seen[0][0] == (200 if fields else 422)
    assert seen[0][4] is not bool(fields)


@pytest.mark.parametrize("reason", ["stop", "length"])
def test_however_the_text_is_cut_the_message_is_one(reason: Any) -> None:
    turns = []
    for size in (1, 5, 1000):
        turn = chat_format().turn(MESSAGES, tools=TOOLS, parallel_tool_calls=False, on_mismatch="strict", id_seed=1)
        for at in range(0, len(TWO), size):
            turn.feed(TWO[at : at + size])
        turn.finish(reason)
        turns.append((turn.message, turn.finish_reason, turn.ended))
    assert turns[0] == turns[1] == turns[2]
    assert turns[0][1:] == ("tool_calls", True)
    assert (turns[0][0].content, len(turns[0][0].tool_calls)) == ("Well.", 1)


@pytest.mark.parametrize("path", PATHS)
def test_a_first_call_that_the_second_one_breaks_is_told_as_a_broken_one(path: str) -> None:
    text = CALL[: CALL.index("{", CALL.index("arguments")) + 1] + SECOND_CALL
    answer = Service([text], info=FREE).post(BODIES[path], path).json()
    assert "get_weather" in json.dumps(answer)
    assert "get_time" not in json.dumps(answer.get("output", answer))
    assert {problem["code"] for problem in answer["dragoman"]["problems"]} >= {"second_call", "broken_call"}


@pytest.mark.parametrize(
    ("fields", "param"),
    [
        ({"tools": TOOLS, "tool_choice": "required"}, "tool_choice"),
        ({"response_format": {"type": "json_object"}}, "response_format"),
        ({"grammar": 'root ::= "a"'}, "grammar"),
    ],
)
def test_what_has_to_be_enforced_is_refused_by_the_name_of_its_field(fields: dict[str, Any], param: str) -> None:
    response = Service(["a"], info=FREE).chat(**fields)
    assert (response.status_code, response.json()["error"]["param"]) == (400, param)
