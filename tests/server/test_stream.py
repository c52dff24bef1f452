"""What clients rely on in a streamed answer, each rule held on recorded bytes."""

from __future__ import annotations

import json
from collections.abc import Sequence
from itertools import groupby
from typing import Any

import pytest

from dragoman.engine import EngineInfo
from tests.server.service import CALL, CLOCK, SECOND_CALL, TOOLS, Service

# name -> (what the model writes, finish_reason, content, reasoning, names of the calls)
SCRIPTS: dict[str, tuple[str, str, str, str, list[str]]] = {
    "text": ("It is sunny.\n", "stop", "It is sunny.\n", "", []),
    "nothing": ("", "stop", "", "", []),
    "call": (CALL, "tool_calls", "", "", ["get_weather"]),
    "calls": (CALL + SECOND_CALL, "tool_calls", "", "", ["get_weather", "get_time"]),
    "text and call": ("Let me see." + CALL, "tool_calls", "Let me see.", "", ["get_weather"]),
    "reasoning": ("<muse>\nhm, é😀\n</muse>\n\nSun.", "stop", "Sun.", "hm, é😀", []),
    "all": (f"<muse>\nhm\n</muse>\n\nSo.{CALL}{SECOND_CALL}", "tool_calls", "So.", "hm", ["get_weather", "get_time"]),
    "broken call": ('<do>\n{"name": "get_weather", "arguments": {"city": oops', "length", "", "", ["get_weather"]),
    "line ends": ("a\u2028b\u0085c\r\nd", "stop", "a\u2028b\u0085c\r\nd", "", []),
}
SIZES = (1, 3, 1000)


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("script", SCRIPTS)
def test_every_rule_holds(script: str, size: int) -> None:
    text, finish_reason, content, reasoning, names = SCRIPTS[script]
    chunks = Service([text], size=size).stream(tools=TOOLS)
    check(chunks, usage=False)
    assert _text(chunks, "content") == content
    assert _text(chunks, "reasoning_content") == reasoning
    assert [call["name"] for call in _calls(chunks)] == names
    assert chunks[-1]["choices"][0]["finish_reason"] == finish_reason


@pytest.mark.parametrize("script", SCRIPTS)
def test_the_whole_answer_is_the_streamed_one(script: str) -> None:
    text = SCRIPTS[script][0]
    service = Service([text, text])
    chunks = service.stream(tools=TOOLS, stream_options={"include_usage": True})
    check(chunks, usage=True)
    whole = service.chat(tools=TOOLS)
    assert whole.status_code == 200
    body = whole.json()
    assert body["object"] == "chat.completion"
    assert (body["id"], body["created"], body["model"]) == ("chatcmpl-1", int(CLOCK), "m")
    [choice] = body["choices"]
    message = choice["message"]
    assert choice["index"] == 0
    assert message["role"] == "assistant"
    assert "content" in message
    assert (message["content"] or "") == _text(chunks, "content")
    assert message.get("reasoning_content", "") == _text(chunks, "reasoning_content")
    assert [call["function"] | {"id": call["id"]} for call in message.get("tool_calls", [])] == _calls(chunks)
    assert all(call["type"] == "function" for call in message.get("tool_calls", []))
    assert choice["finish_reason"] == chunks[-2]["choices"][0]["finish_reason"]
    assert body["usage"] == chunks[-1]["usage"]


def test_content_is_null_beside_calls_only() -> None:
    service = Service([CALL, "", "So." + CALL])
    contents = [service.chat(tools=TOOLS).json()["choices"][0]["message"]["content"] for _ in range(3)]
    assert contents == [None, "", "So."]


def test_the_exact_bytes() -> None:
    response = Service(["Hi!" + SECOND_CALL], size=1000).chat(
        tools=TOOLS, stream=True, stream_options={"include_usage": True}
    )
    head = '{"id":"chatcmpl-1","object":"chat.completion.chunk","created":1750000000,"model":"m","choices":['
    deltas = [
        '{"role":"assistant","content":null}',
        '{"content":"Hi!"}',
        '{"tool_calls":[{"index":0,"function":{"name":"get_time","arguments":""},"id":"ID","type":"function"}]}',
        '{"tool_calls":[{"index":0,"function":{"arguments":"{}"}}]}',
    ]
    lines = [
        f'{head}{{"index":0,"delta":{delta},"logprobs":null,"finish_reason":null}}],"usage":null}}' for delta in deltas
    ]
    lines += [
        f'{head}{{"index":0,"delta":{{}},"logprobs":null,"finish_reason":"tool_calls"}}],"usage":null}}',
        head + '],"usage":{"prompt_tokens":283,"completion_tokens":1,"total_tokens":284}}',
        "[DONE]",
    ]
    [call] = _calls([json.loads(line) for line in response.text.replace("data: ", "").split("\n\n")[:-2]])
    assert len(call["id"]) == 9
    expected = "".join(f"data: {line}\n\n" for line in lines)
    assert response.text.replace(call["id"], "ID") == expected
    assert response.headers["content-type"] == "text/event-stream; charset=utf-8"


def test_a_call_that_the_length_limit_cut_off_ends_by_length() -> None:
    service = Service([CALL, CALL], size=4)
    chunks = service.stream(tools=TOOLS, max_tokens=12)
    check(chunks, usage=False)
    assert chunks[-1]["choices"][0]["finish_reason"] == "length"
    [call] = _calls(chunks)
    assert call["name"] == "get_weather"
    assert '{"city": "Rome", "days": 2}'.startswith(call["arguments"])
    assert service.chat(tools=TOOLS, max_tokens=12).json()["choices"][0]["finish_reason"] == "length"


def test_no_call_is_read_where_none_was_offered() -> None:
    chunks = Service([CALL]).stream()
    check(chunks, usage=False)
    assert _text(chunks, "content") == CALL
    assert chunks[-1]["choices"][0]["finish_reason"] == "stop"


def test_problems_are_told_beside_the_answer() -> None:
    text = SCRIPTS["broken call"][0]
    service = Service([text, text])
    [problem, *_] = service.stream(tools=TOOLS)[-1]["dragoman"]["problems"]
    assert problem["code"]
    assert service.chat(tools=TOOLS).json()["dragoman"]["problems"][0]["code"] == problem["code"]


def test_a_run_of_equal_pieces_is_broken_up() -> None:
    chunks = Service([["ha "] * 300]).stream()
    check(chunks, usage=False)
    assert _text(chunks, "content") == "ha " * 300


def test_usage_comes_from_the_engine() -> None:
    service = Service(["abcdefgh"], size=2)
    usage = service.chat().json()["usage"]
    prompt = len(service.engine.record.requests[0].prompt_ids)
    assert usage == {"prompt_tokens": prompt, "completion_tokens": 4, "total_tokens": prompt + 4}


def test_two_calls_of_two_answers_never_share_an_id() -> None:
    service = Service([CALL + SECOND_CALL])
    ids = [call["id"] for call in _calls(service.stream(tools=TOOLS))]
    assert len(set(ids)) == 2


def test_tools_that_cannot_be_enforced_are_said_to_be_free() -> None:
    # No automaton remembers all strings that came before.
    parameters = {"type": "object", "properties": {"a": {"type": "array", "uniqueItems": True}}}
    tools = [{"type": "function", "function": {"name": "f", "parameters": parameters}}]
    held = {"type": "object", "properties": {"b": {"enum": ["zebra"]}}, "required": ["b"]}
    tools.append({"type": "function", "function": {"name": "g", "parameters": held}})
    service = Service(["Hi.", "Hi."])
    answer = service.chat(tools=tools)
    assert answer.status_code == 200
    told = answer.json()["dragoman"]["unconstrained"]
    assert told.startswith("tools[0], 'f'")
    assert "uniqueItems" in told
    assert "tools[1]" not in told
    grammar = service.engine.record.requests[0].grammar
    assert grammar is not None
    assert "zebra" in grammar.text, "the other tool is held to its schema all the same"
    refused = service.chat(tools=tools, tool_choice="required")
    assert refused.status_code == 400
    strict = [{"type": "function", "function": {"name": "f", "parameters": parameters, "strict": True}}]
    assert service.chat(tools=strict).status_code == 400


def test_an_engine_without_grammars_refuses_what_it_cannot_enforce() -> None:
    service = Service(["Hi."], info=EngineInfo(model="plain"))
    refused = service.chat(tools=TOOLS, tool_choice="required")
    assert refused.status_code == 400
    assert refused.json()["error"]["param"] == "tool_choice"
    assert service.chat(tools=TOOLS).status_code == 200


def test_strict_tools_on_an_engine_without_grammars_are_told_and_not_refused() -> None:
    """The SDKs of agents mark every tool so."""
    service = Service(["Hi.", "Hi."], info=EngineInfo(model="plain"))
    tools = [{**tool, "function": {**tool["function"], "strict": True}} for tool in TOOLS]
    answer = service.chat(tools=tools)
    assert answer.status_code == 200
    assert answer.json()["dragoman"]["unconstrained"].startswith("tools[0] is strict")
    assert "unconstrained" not in service.chat(tools=TOOLS).json().get("dragoman", {})
    assert service.chat(tools=tools, tool_choice="required").status_code == 400


def check(chunks: Sequence[dict[str, Any]], *, usage: bool) -> None:
    """The rules that clients break on."""
    if usage:
        *chunks, last = chunks
        assert last["choices"] == []
        counts = dict(last["usage"])
        details = counts.pop("completion_tokens_details", {"reasoning_tokens": 0})
        assert set(details) == {"reasoning_tokens"}
        assert 0 <= details["reasoning_tokens"] <= counts["completion_tokens"]
        assert set(counts) == {"prompt_tokens", "completion_tokens", "total_tokens"}
        assert counts["total_tokens"] == counts["prompt_tokens"] + counts["completion_tokens"]
        assert all(chunk["usage"] is None for chunk in chunks)
    else:
        assert all("usage" not in chunk for chunk in chunks)
    assert {(chunk["id"], chunk["object"], chunk["created"], chunk["model"]) for chunk in chunks} == {
        ("chatcmpl-1", "chat.completion.chunk", int(CLOCK), "m")
    }
    choices = [choice for chunk in chunks for choice in chunk["choices"]]
    assert len(choices) == len(chunks)
    assert {choice["index"] for choice in choices} == {0}
    first, *middle, end = [choice["delta"] for choice in choices]
    assert first == {"role": "assistant", "content": None}
    assert end == {}
    assert [choice["finish_reason"] for choice in choices[:-1]] == [None] * (len(choices) - 1)
    assert choices[-1]["finish_reason"] in ("stop", "length", "tool_calls")
    for delta in middle:
        assert len(delta) == 1
        assert set(delta) <= {"content", "reasoning_content", "tool_calls"}
        assert delta.get("content") != ""
        assert delta.get("reasoning_content") != ""
    assert max((len(list(run)) for _, run in groupby(middle)), default=0) < 100
    _check_calls([piece for delta in middle for piece in delta.get("tool_calls", [])])


def _check_calls(pieces: Sequence[dict[str, Any]]) -> None:
    seen = -1
    for piece in pieces:
        assert set(piece["function"]) <= {"name", "arguments"}
        if piece["index"] == seen:
            assert set(piece) == {"index", "function"}
            assert set(piece["function"]) == {"arguments"}
        else:
            assert piece["index"] == seen + 1
            assert piece["type"] == "function"
            assert piece["id"]
            assert piece["function"]["name"]
            assert piece["function"]["arguments"] == ""
            seen = piece["index"]


def _text(chunks: Sequence[dict[str, Any]], name: str) -> str:
    return "".join(choice["delta"].get(name) or "" for chunk in chunks for choice in chunk["choices"])


def _calls(chunks: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    calls: list[dict[str, Any]] = []
    for chunk in chunks:
        for choice in chunk["choices"]:
            for piece in choice["delta"].get("tool_calls", []):
                if "id" in piece:
                    calls.append({"name": piece["function"]["name"], "arguments": "", "id": piece["id"]})
                calls[piece["index"]]["arguments"] += piece["function"]["arguments"]
    return calls
