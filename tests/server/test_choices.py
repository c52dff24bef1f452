"""Several answers to one request, log probabilities, usage while streaming, and calls by the names of 2023."""

from __future__ import annotations

import math
from collections.abc import AsyncIterator
from dataclasses import replace
from typing import Any

import pytest

from dragoman.engine import Chunk, EngineInfo, Generation, TokenLogprob
from dragoman.engines.scripted import Scripted
from tests.server.recordings import objects_of
from tests.server.service import CALL, INFO, MESSAGES, SECOND_CALL, TOOLS, Service

THOUGHT = "<muse>\nhm, é😀\n</muse>\n\n"


# -- n -----------------------------------------------------------------------------------------------------------------


def test_answers_are_told_apart_and_added_up() -> None:
    service = Service(["one", "two" + CALL, "three"], size=2)
    body = service.chat(n=3, tools=TOOLS).json()
    assert [choice["index"] for choice in body["choices"]] == [0, 1, 2]
    assert [choice["message"]["content"] for choice in body["choices"]] == ["one", "two", "three"]
    assert [choice["finish_reason"] for choice in body["choices"]] == ["stop", "tool_calls", "stop"]
    requests = service.engine.record.requests
    assert body["usage"]["prompt_tokens"] == len(requests[0].prompt_ids), "one prompt, however many answers"
    assert body["usage"]["completion_tokens"] == 2 + math.ceil(len("two" + CALL) / 2) + 3


@pytest.mark.parametrize("seed", [None, 7])
def test_every_answer_has_a_seed_of_its_own(seed: int | None) -> None:
    service = Service(["a"] * 4)
    service.chat(n=4, seed=seed)
    seeds = [request.sampling.seed for request in service.engine.record.requests]
    assert len(set(seeds)) == 4
    assert None not in seeds
    assert seed is None or seeds[0] == seed
    single = Service(["a"])
    single.chat(seed=seed)
    assert single.engine.record.requests[0].sampling.seed == seed


def test_calls_of_two_answers_have_ids_of_their_own() -> None:
    body = Service([CALL] * 2).chat(n=2, tools=TOOLS).json()
    ids = [choice["message"]["tool_calls"][0]["id"] for choice in body["choices"]]
    assert len(set(ids)) == 2


def test_one_answer_that_fails_ends_the_others() -> None:
    class Half(Scripted):
        def __init__(self) -> None:
            super().__init__(["word " * 5000, ""], info=INFO, delay=0.001)
            self.asked = 0

        async def generate(self, request: Any) -> Any:
            self.asked += 1
            self._failure = "it broke" if self.asked == 2 else None
            async for chunk in super().generate(request):
                yield chunk

    for stream in (False, True):
        service = Service(engine=Half())
        response = service.chat(n=2, stream=stream)
        assert "it broke" in response.text
        assert response.status_code == (502 if not stream else response.status_code)
        assert service.engine.record.running == 0


# -- log probabilities -------------------------------------------------------------------------------------------------


def _scored(piece: str) -> TokenLogprob:
    """The piece itself, and two that were less likely."""
    top = tuple(TokenLogprob(-float(at), data=data) for at, data in enumerate((piece.encode(), b"x", b"y"), 1))
    return TokenLogprob(-1.0, data=piece.encode(), top=top)


@pytest.mark.parametrize("size", [1, 2, 3, 5, 1000])
@pytest.mark.parametrize("text", ["So it is.", THOUGHT + "So, é😀 it is.", "a < b </ muse", "So." + CALL, CALL])
def test_the_tokens_of_the_content_are_told(text: str, size: int) -> None:
    service = Service([text] * 2, size=size, logprob=_scored)
    fields: dict[str, Any] = {"tools": TOOLS, "logprobs": True, "top_logprobs": 2}
    body = service.chat(**fields).json()
    [choice] = body["choices"]
    told = choice["logprobs"]["content"]
    assert ("calls have none" in body.get("dragoman", {}).get("logprobs", "")) == ("tool_calls" in choice["message"])
    content = choice["message"]["content"] or ""
    joined = b"".join(bytes(entry["bytes"]) for entry in told).decode()
    # A token may begin in front of the content or end behind it, where a marker touches it.
    assert content in joined
    assert len(joined) <= len(content) + 2 * (size - 1)
    for entry in told:
        assert entry["token"].encode() == bytes(entry["bytes"])
        assert [top["logprob"] for top in entry["top_logprobs"]] == [-1.0, -2.0]
    chunks = service.stream(**fields)
    entries = [
        entry
        for chunk in chunks
        if chunk["choices"][0]["logprobs"] is not None
        for entry in chunk["choices"][0]["logprobs"]["content"]
    ]
    assert entries == told
    assert chunks[-1].get("dragoman") == body.get("dragoman")
    assert all(chunk["choices"][0]["logprobs"] is None or chunk["choices"][0]["delta"]["content"] for chunk in chunks)


def test_no_log_probabilities_unless_asked() -> None:
    service = Service(["Hi."])
    assert service.chat().json()["choices"][0]["logprobs"] is None
    assert service.engine.record.requests[0].sampling.logprobs is None


def test_an_engine_that_tells_none_refuses_by_name() -> None:
    response = Service(["Hi."], info=EngineInfo(model="plain")).chat(logprobs=True)
    assert response.status_code == 400
    assert response.json()["error"]["param"] == "logprobs"


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("/v1/chat/completions", {"messages": MESSAGES, "logprobs": True}),
        ("/v1/completions", {"prompt": "Once", "logprobs": 1}),
        ("/v1/responses", {"input": "Hi", "include": ["message.output_text.logprobs"]}),
    ],
)
def test_what_an_engine_keeps_to_itself_all_the_same_is_null_and_told(
    path: str, body: dict[str, Any], stream: bool
) -> None:
    class Silent(Scripted):
        async def generate(self, request: Generation) -> AsyncIterator[Chunk]:
            async for chunk in super().generate(request):
                yield replace(chunk, logprobs=())

    answer = Service(engine=Silent(["Hi there."], size=3, info=INFO)).post({**body, "stream": stream}, path)
    assert answer.status_code == 200
    objects = objects_of(answer.content) if stream else [answer.json()]
    last = objects[-1].get("response", objects[-1])
    assert last["dragoman"]["logprobs"] == "the engine was asked for log probabilities and told none"
    assert all(choice["logprobs"] is None for each in objects for choice in each.get("choices", ()))
    assert sum("dragoman" in each.get("response", each) for each in objects) == 1


@pytest.mark.parametrize(
    ("fields", "param"),
    [({"top_logprobs": 2}, "top_logprobs"), ({"logprobs": True, "top_logprobs": 21}, "top_logprobs")],
)
def test_wrong_wishes_for_them(fields: dict[str, Any], param: str) -> None:
    assert Service(["Hi."]).chat(**fields).json()["error"]["param"] == param


def test_a_biased_token_must_exist() -> None:
    error = Service(["Hi."]).chat(logit_bias={"99999999": 1}).json()["error"]
    assert error["param"] == "logit_bias"


# -- usage while streaming ---------------------------------------------------------------------------------------------


def test_usage_in_every_chunk_where_it_is_asked_for() -> None:
    chunks = Service(["abcdef"], size=2).stream(stream_options={"include_usage": True, "continuous_usage_stats": True})
    counts = [chunk["usage"]["completion_tokens"] for chunk in chunks]
    assert counts == [0, 1, 2, 3, 3, 3]
    assert chunks[-1]["choices"] == []
    assert len({chunk["usage"]["prompt_tokens"] for chunk in chunks}) == 1


# -- functions ---------------------------------------------------------------------------------------------------------

FUNCTIONS = [tool["function"] for tool in TOOLS]


def test_calls_by_the_names_of_2023() -> None:
    service = Service(["So." + CALL + SECOND_CALL] * 2, size=3)
    fields: dict[str, Any] = {"functions": FUNCTIONS, "function_call": "auto"}
    choice = service.chat(**fields).json()["choices"][0]
    arguments = '{"city": "Rome", "days": 2}'
    assert choice["message"]["function_call"] == {"name": "get_weather", "arguments": arguments}
    assert "tool_calls" not in choice["message"]
    assert choice["finish_reason"] == "function_call"
    chunks = service.stream(**fields)
    pieces = [chunk["choices"][0]["delta"].get("function_call") for chunk in chunks]
    told = [piece for piece in pieces if piece]
    assert told[0] == {"name": "get_weather", "arguments": ""}
    assert all(set(piece) == {"arguments"} for piece in told[1:])
    assert "".join(piece["arguments"] for piece in told) == arguments
    assert chunks[-1]["choices"][0]["finish_reason"] == "function_call"


def test_history_by_the_names_of_2023() -> None:
    service = Service(["Noon."] * 3)
    call = {"name": "get_time", "arguments": "{}"}
    messages = [
        *MESSAGES,
        {"role": "assistant", "content": None, "function_call": call},
        {"role": "function", "name": "get_time", "content": "noon"},
    ]
    assert service.chat(messages=messages, functions=FUNCTIONS).status_code == 200
    # A history from before, in a client of today.
    assert "dragoman" not in service.chat(messages=messages, tools=TOOLS).json()
    today = [
        *MESSAGES,
        {"role": "assistant", "content": None, "tool_calls": [{"id": "call_1", "type": "function", "function": call}]},
        {"role": "tool", "name": "get_time", "tool_call_id": "call_1", "content": "noon"},
    ]
    assert service.chat(messages=today, tools=TOOLS).status_code == 200
    old, mixed, new = (request.prompt_text for request in service.engine.record.requests)
    assert old == mixed == new


def test_both_names_at_once_are_refused() -> None:
    error = Service().chat(functions=FUNCTIONS, tools=TOOLS).json()["error"]
    assert error["param"] == "tools"
    named = Service([SECOND_CALL])
    named.chat(functions=FUNCTIONS, function_call={"name": "get_time"})
    assert "get_weather" not in named.engine.record.requests[0].grammar.text
