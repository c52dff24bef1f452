"""How an answer ended is told as its engine meant it, and what nobody asked for is told as that."""

from __future__ import annotations

import json
from typing import Any

import httpx
import pytest

from dragoman.engines.completions import Completions
from dragoman.engines.scripted import Scripted
from tests.server.recordings import objects_of
from tests.server.service import CALL, INFO, MESSAGES, TOOLS, Service, chat_format
from tests.server.test_cut_calls import FLAT, THEIRS

CHAT, RESPONSES, ANTHROPIC, RAW = "/v1/chat/completions", "/v1/responses", "/v1/messages", "/v1/completions"
LEAST: dict[str, dict[str, Any]] = {
    CHAT: {"messages": MESSAGES, "tools": TOOLS},
    RESPONSES: {"input": MESSAGES, "tools": FLAT},
    ANTHROPIC: {"messages": MESSAGES, "tools": THEIRS, "max_tokens": 100},
    RAW: {"prompt": "Hi"},
}
MODELS = {"object": "list", "data": [{"id": "m", "max_model_len": 4096}]}


def upstream(text: str, finish: Any) -> Service:
    """A server in front of a completions server that ends its answers with this word."""

    def answer(request: httpx.Request) -> httpx.Response:
        if request.method == "GET":
            return httpx.Response(200, json=MODELS)
        chunks = [{"text": text, "finish_reason": None}, {"text": "", "finish_reason": finish}]
        lines = ["data: " + json.dumps({"choices": [{"index": 0, **chunk}]}) for chunk in chunks]
        return httpx.Response(200, text="\n\n".join([*lines, "data: [DONE]", ""]))

    return Service(engine=Completions("http://engine.test", transport=httpx.MockTransport(answer)))


def both(service: Service, path: str, **fields: Any) -> tuple[dict[str, Any], dict[str, Any]]:
    """The whole answer, and what ends the streamed one."""
    whole = service.post({**LEAST[path], **fields}, path).json()
    data = service.post({**LEAST[path], **fields, "stream": True}, path).content
    events = [event for event in objects_of(data) if event.get("type") not in ("message_stop", "ping")]
    return whole, events[-1]


# protocol -> where the reason stands in a whole answer and in the last event of a stream, and its word for a filter
FILTERED: dict[str, tuple[Any, Any, str]] = {
    CHAT: (lambda body: body["choices"][0], lambda event: event["choices"][0], "content_filter"),
    RAW: (lambda body: body["choices"][0], lambda event: event["choices"][0], "content_filter"),
    ANTHROPIC: (lambda body: body, lambda event: event["delta"], "refusal"),
}


@pytest.mark.parametrize("text", ["It is", CALL[:-9], CALL])
@pytest.mark.parametrize("path", FILTERED)
def test_an_answer_that_was_filtered_is_told_as_that(path: str, text: str) -> None:
    of_whole, of_event, word = FILTERED[path]
    whole, event = both(upstream(text, "content_filter"), path)
    name = "stop_reason" if path == ANTHROPIC else "finish_reason"
    assert (of_whole(whole)[name], of_event(event)[name]) == (word, word)


@pytest.mark.parametrize("text", ["It is", CALL[:-9]])
def test_a_filtered_response_is_incomplete(text: str) -> None:
    whole, event = both(upstream(text, "content_filter"), RESPONSES)
    assert event["type"] == "response.incomplete"
    assert event["response"] == whole
    assert (whole["status"], whole["incomplete_details"]) == ("incomplete", {"reason": "content_filter"})
    assert whole["output"][-1]["status"] == "incomplete"


@pytest.mark.parametrize("word", ["recitation", 7])
@pytest.mark.parametrize("path", LEAST)
def test_a_word_that_nobody_knows_is_told(path: str, word: Any) -> None:
    whole, event = both(upstream("Hi", word), path)
    for told in (whole, event["response"] if path == RESPONSES else event):
        [problem] = told["dragoman"]["problems"]
        assert (problem["code"], problem["position"]) == ("unknown_finish", 2)
        assert str(word) in problem["message"]


@pytest.mark.parametrize("word", ["stop", "eos", "length", "tool_calls"])
def test_words_that_are_known_are_no_problem(word: str) -> None:
    whole, event = both(upstream("Hi", word), CHAT)
    assert "dragoman" not in whole
    assert "dragoman" not in event


def test_a_turn_of_the_library_takes_the_engines_word() -> None:
    turn = chat_format().turn(MESSAGES, tools=TOOLS)
    turn.feed(CALL[:-9])
    turn.finish("content_filter")
    assert turn.finish_reason == "content_filter"
    assert turn.message.truncated
    for text in ("Hi.<|fin|>", "Hi.<|fi", "Hi."):
        turn = chat_format().turn(MESSAGES, tools=TOOLS)
        turn.feed(text)
        turn.finish("content_filter")
        assert (turn.finish_reason, turn.message.problems) == ("content_filter", ())


NONE: dict[str, Any] = {CHAT: "none", RESPONSES: "none", ANTHROPIC: {"type": "none"}}


@pytest.mark.parametrize("grammars", [(), ("gbnf",)])
@pytest.mark.parametrize("path", NONE)
def test_a_call_that_nobody_asked_for_is_text_and_told(path: str, grammars: tuple[Any, ...]) -> None:
    info = type(INFO)(model="scripted", grammar_forms=grammars)
    service = Service(engine=Scripted(lambda _: "Let me." + CALL, info=info, size=5))
    whole, event = both(service, path, tool_choice=NONE[path])
    for told in (whole, event["response"] if path == RESPONSES else event):
        [problem] = told["dragoman"]["problems"]
        assert problem["code"] == "unasked_call"
        assert "'get_weather'" in problem["message"]
    text = json.dumps(whole)
    assert json.dumps(CALL)[1:-1] in text
    assert '"tool_calls"' not in text


@pytest.mark.parametrize("text", ["Let me.", "One writes <do> in front of a call.", "<do>\nno call\n</do>"])
def test_an_answer_that_calls_nothing_is_no_problem(text: str) -> None:
    for fields in ({"tool_choice": "none"}, {"tool_choice": "none", "n": 2}):
        assert "dragoman" not in Service([text, text]).chat(tools=TOOLS, **fields).json()


def test_strict_makes_it_an_error_at_its_place() -> None:
    fields: dict[str, Any] = {"tools": TOOLS, "tool_choice": "none", "on_mismatch": "strict"}
    service = Service(["Let me." + CALL + "Bye"] * 2, size=5)
    response = service.chat(**fields)
    assert response.status_code == 422
    assert "tool_choice is none" in response.json()["error"]["message"]
    data = service.chat(stream=True, **fields).content
    assert b"tool_choice is none" in data
    assert b"Bye" not in data
    assert b"[DONE]" not in data


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ("\n<do>\n{'name': 'get_weather', 'arguments': {'city': 'Rome'}}\n</do>", "repaired_call"),
        ('\n<do>\n{"name": "get_weather", "args": {"city": "Rome"}}\n</do>', "repaired_call"),
        ('\n<do>\n{"name": "get_weather", arguments: {"city": "Rome"}}\n</do>', "repaired_call"),
        ('\n<do>\n{"name": "get_weather"; "arguments": {}}\n</do>', "broken_call"),
        ('\n<do>\n{"name": "", "arguments": {}}\n</do>', "nameless_call"),
        ("<muse>\nhm", "unclosed_reasoning"),
        ("So.\n</muse>\n\nIt is.", "stray_closer"),
    ],
)
def test_what_is_a_problem_is_an_error_where_strictness_is_asked_for(text: str, code: str) -> None:
    service = Service([text] * 3, size=3)
    body = service.chat(tools=TOOLS).json()
    assert code in [problem["code"] for problem in body["dragoman"]["problems"]]
    assert service.chat(tools=TOOLS, on_mismatch="strict").status_code == 422
    data = service.chat(tools=TOOLS, on_mismatch="strict", stream=True).content
    assert b'"model_error"' in data
    assert b"[DONE]" not in data


def test_of_several_answers_each_has_its_own() -> None:
    service = Service([CALL, "No.", CALL])
    choices = service.chat(tools=TOOLS, tool_choice="none", n=3).json()["choices"]
    assert ["dragoman" in choice for choice in choices] == [True, False, True]
