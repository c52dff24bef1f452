"""What goes over the wire to a completions server, and how its answers and failures are read, without a network."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import httpx
import pytest

from dragoman.engine import Chunk, EngineInfo, Generation, GrammarSpec, Sampling, TokenLogprob
from dragoman.engines.completions import GENERIC, SGLANG, SGLANG_LLGUIDANCE, VLLM, Completions, Flavour, completion_body
from dragoman.errors import EngineError, UsageError

INFO = EngineInfo(model="m", context_tokens=100)
ASK = Generation((1, 2, 3), "text")
TAG = json.dumps({"type": "structural_tag", "format": {"type": "any_text"}})
MODELS = {"object": "list", "data": [{"id": "m", "max_model_len": 100}]}


def body_of(flavour: Flavour = GENERIC, info: EngineInfo = INFO, **fields: Any) -> dict[str, Any]:
    return completion_body(Generation((1, 2, 3), "text", **fields), info, flavour)


def engine_of(*lines: str, status: int = 200, flavour: Flavour = VLLM) -> Completions:
    def answer(request: httpx.Request) -> httpx.Response:
        if request.url.path == "/v1/models":
            return httpx.Response(200, json=MODELS)
        return httpx.Response(status, content="".join(f"{line}\n\n" for line in lines))

    return Completions("http://engine.test", flavour, transport=httpx.MockTransport(answer))


def collect(engine: Completions, request: Generation = ASK) -> list[Chunk]:
    async def work() -> list[Chunk]:
        async with engine:
            return [chunk async for chunk in engine.generate(request)]

    return asyncio.run(work())


def line(text: str = "", finish: str | None = None, **more: Any) -> str:
    choice = {"index": 0, "text": text, "finish_reason": finish, **more}
    return "data: " + json.dumps({"choices": [choice]})


USAGE = 'data: {"choices": [], "usage": {"prompt_tokens": 3, "completion_tokens": 9, "total_tokens": 12}}'
DONE = "data: [DONE]"


@pytest.mark.parametrize(
    ("pieces", "told"),
    [
        (["a\ud83d", "\ude00b"], "a\U0001f600b"),
        (["\ud83d", "x"], "\ufffdx"),
        (["a\ud83d"], "a\ufffd"),
        (["\ude00"], "\ufffd"),
    ],
)
def test_a_character_that_a_server_cuts_in_two_comes_whole(pieces: list[str], told: str) -> None:
    """In JSON's escapes, one half in each event."""
    chunks = collect(engine_of(*map(line, pieces), line("", "stop"), DONE))
    assert "".join(chunk.text for chunk in chunks) == told


def test_a_request_has_a_bound_always() -> None:
    """These servers write 16 tokens where nothing is said."""
    assert body_of()["max_tokens"] == 97
    assert body_of(sampling=Sampling(max_tokens=7))["max_tokens"] == 7
    assert body_of(sampling=Sampling(max_tokens=98))["max_tokens"] == 97  # more is refused
    assert body_of(sampling=Sampling(max_tokens=10**6), info=EngineInfo(model="m"))["max_tokens"] == 10**6
    assert body_of(info=EngineInfo(model="m"))["max_tokens"] == 4093
    assert body_of(info=EngineInfo(model="m", context_tokens=2))["max_tokens"] == 1


def test_vllm_is_asked_to_hide_nothing() -> None:
    sampling = Sampling(
        temperature=0.0,
        top_k=3,
        seed=2**64 - 1,
        logit_bias={7: float("-inf"), 8: 1.5},
        logprobs=2,
        extra={"min_tokens": 2},
    )
    assert body_of(VLLM, stops=("<|end|>",), sampling=sampling, grammar=GrammarSpec(TAG, form="structural_tag")) == {
        "model": "m",
        "prompt": [1, 2, 3],
        "max_tokens": 97,
        "stream": True,
        "stream_options": {"include_usage": True},
        "skip_special_tokens": False,
        "spaces_between_special_tokens": False,
        "return_token_ids": True,
        "stop": ["<|end|>"],
        "temperature": 0.0,
        "top_k": 3,
        "seed": 2**63 - 1,
        "logit_bias": {"7": -100.0, "8": 1.5},
        "logprobs": 2,
        "return_tokens_as_token_ids": True,
        "min_tokens": 2,
        "structured_outputs": {"structural_tag": TAG},
    }


@pytest.mark.parametrize(
    ("flavour", "spec", "fields"),
    [
        (VLLM, GrammarSpec("root ::= x", form="ebnf"), {"structured_outputs": {"grammar": "root ::= x"}}),
        (SGLANG, GrammarSpec(TAG, form="structural_tag"), {"response_format": json.loads(TAG)}),
        (SGLANG, GrammarSpec("root ::= x", form="ebnf"), {"ebnf": "root ::= x"}),
        (SGLANG_LLGUIDANCE, GrammarSpec("start: x", form="lark"), {"ebnf": "start: x"}),
    ],
)
def test_each_server_has_its_own_field_for_a_grammar(flavour: Flavour, spec: GrammarSpec, fields: Any) -> None:
    body = body_of(flavour, grammar=spec)
    assert {name: body[name] for name in fields} == fields


@pytest.mark.parametrize(
    ("flavour", "fields", "match"),
    [
        (VLLM, {"grammar": GrammarSpec("root ::= x")}, "no grammar in gbnf; it takes structural_tag, ebnf"),
        (GENERIC, {"grammar": GrammarSpec("root ::= x", form="ebnf")}, "it takes none"),
        (VLLM, {"grammar": GrammarSpec(" ", form="ebnf")}, "empty"),
        (VLLM, {"grammar": GrammarSpec("root ::= x", lazy=True, form="ebnf")}, "lazy"),
        (GENERIC, {"sampling": Sampling(top_k=3)}, "takes no top_k"),
        (GENERIC, {"sampling": Sampling(min_p=0.1)}, "takes no min_p"),
        (VLLM, {"sampling": Sampling(extra={"prompt": "x"})}, "prompt"),
        (VLLM, {"sampling": Sampling(extra={"skip_special_tokens": True})}, "skip_special_tokens"),
        (VLLM, {"sampling": Sampling(logit_bias={4: float("nan")})}, "token 4"),
        (VLLM, {"sampling": Sampling(logit_bias={4: float("inf")})}, "token 4"),
    ],
)
def test_what_the_server_would_ignore_or_misread_is_refused(flavour: Flavour, fields: Any, match: str) -> None:
    with pytest.raises(UsageError, match=match):
        body_of(flavour, **fields)


def test_a_seed_of_minus_one_is_none() -> None:
    assert "seed" not in body_of(sampling=Sampling(seed=-1))
    assert body_of(sampling=Sampling(seed=0))["seed"] == 0


def test_a_plain_server_gets_the_plain_fields_only() -> None:
    body = body_of(GENERIC, sampling=Sampling(temperature=1.0, seed=3))
    assert set(body) == {"model", "prompt", "max_tokens", "stream", "stream_options", "temperature", "seed"}


def test_text_goes_out_where_ids_are_not_taken() -> None:
    info = EngineInfo(model="m", takes_token_ids=False)
    assert body_of(info=info)["prompt"] == "text"
    assert body_of(VLLM, info)["add_special_tokens"] is False  # else it would begin with a second <s>
    assert "add_special_tokens" not in body_of(VLLM)


def test_pieces_ids_and_counts_are_read() -> None:
    engine = engine_of(
        line("a", token_ids=[5]),
        line(""),  # a chunk that says nothing, as after a prefill
        line("😀", token_ids=[6, 7]),
        line("", "length", stop_reason=None, token_ids=[]),
        USAGE,
        DONE,
    )
    last = Chunk(finish="length", prompt_tokens=3, completion_tokens=9)
    assert collect(engine) == [Chunk("a", (5,)), Chunk("😀", (6, 7)), last]


def test_counts_are_made_where_the_server_tells_none() -> None:
    assert collect(engine_of(line("a"), line("b", "stop"), DONE))[-1] == Chunk(finish="stop", completion_tokens=2)
    # A stream that ends without its mark is complete if its end was told.
    assert collect(engine_of(line("a", "stop")))[-1].finish == "stop"


def test_log_probabilities_by_id_and_by_text() -> None:
    told = {
        "tokens": ["token_id:5", "token_id:6"],
        "token_logprobs": [-0.5, None],
        "top_logprobs": [{"token_id:9": -3.0, "token_id:5": -0.5, "token_id:8": -2.0}, None],
        "text_offset": [0, 1],
    }
    asked = Generation((1,), "", sampling=Sampling(logprobs=2))
    first, last = collect(engine_of(line("ab", "stop", logprobs=told), DONE), asked)
    assert first.logprobs == (TokenLogprob(-0.5, 5, None, (TokenLogprob(-0.5, 5), TokenLogprob(-2.0, 8))),)
    assert last.logprobs == ()
    plain = {"tokens": ["é"], "token_logprobs": [-1.0], "top_logprobs": [{"é": -1.0}]}
    chunks = collect(engine_of(line("é", "stop", logprobs=plain, token_ids=[7]), DONE, flavour=SGLANG), asked)
    best = TokenLogprob(-1.0, None, "é".encode())
    assert chunks[0].logprobs == (TokenLogprob(-1.0, 7, "é".encode(), (best,)),)


def test_a_server_that_tells_no_log_probabilities_is_read_all_the_same() -> None:
    asked = Generation((1,), "", sampling=Sampling(logprobs=0))
    chunks = collect(engine_of(line("a"), line("b", "stop"), DONE), asked)
    assert [(chunk.text, chunk.logprobs) for chunk in chunks] == [("a", ()), ("b", ()), ("", ())]
    # Pieces between may bring text alone.
    told = {"tokens": ["a"], "token_logprobs": [-1.0], "top_logprobs": [{}]}
    chunks = collect(engine_of(line("a", logprobs=told), line("b"), line("", "stop"), DONE), asked)
    assert [len(chunk.logprobs) for chunk in chunks] == [1, 0, 0]


def test_log_probabilities_as_a_chat_tells_them() -> None:
    other = {"token": "b", "bytes": [98], "logprob": -2.0, "id": 8}
    told = {"content": [{"token": "?", "bytes": [195], "logprob": -1.0, "top_logprobs": [other, other]}]}
    asked = Generation((1,), "", sampling=Sampling(logprobs=1))
    chunks = collect(engine_of(line("é", "stop", logprobs=told), DONE), asked)
    assert chunks[0].logprobs == (TokenLogprob(-1.0, None, b"\xc3", (TokenLogprob(-2.0, 8, b"b"),)),)


@pytest.mark.parametrize(
    ("lines", "status", "match", "seen"),
    [
        (['{"error":{"message":"too long","code":400}}'], 400, "refused: too long", 400),
        (['{"object":"error","message":"bad","code":400}'], 400, "refused: bad", 400),
        (['{"detail":[{"loc":["body","prompt"],"msg":"wrong"}]}'], 422, "wrong", 422),
        (["<html>"], 502, "HTTP 502", 502),
        ([line("a"), 'data: {"error":{"message":"died","code":500}}', DONE], 200, "failed: died", 500),
        ([line("a"), DONE], 200, "before it was complete", None),
        ([line("a")], 200, "before it was complete", None),
        ([line("a", "abort"), DONE], 200, "gave the answer up", None),
        (["data: {oops}"], 200, "no JSON", None),
        (['data: {"choices": [{"text": 5}]}'], 200, "where text belongs", None),
        ([line("a", token_ids=3)], 200, "cannot be read", None),
        ([line("a", finish_reason={"type": "x"})], 200, "cannot be read", None),
    ],
)
def test_failures_are_ours_and_tell_the_reason(lines: list[str], status: int, match: str, seen: int | None) -> None:
    with pytest.raises(EngineError, match=match) as caught:
        collect(engine_of(*lines, status=status))
    assert caught.value.status == seen


def test_nothing_is_written_without_a_request() -> None:
    def never(request: httpx.Request) -> httpx.Response:
        assert request.url.path == "/v1/models"
        return httpx.Response(200, json=MODELS)

    engine = Completions("http://engine.test", transport=httpx.MockTransport(never))
    asked = Generation((1,), "", sampling=Sampling(max_tokens=0))
    assert collect(engine, asked) == [Chunk(finish="length", completion_tokens=0)]


@pytest.mark.parametrize(
    ("listed", "model", "match"),
    [
        ({"data": []}, None, "no model at all; it lists none"),
        ({"data": "x"}, None, "it lists none"),
        ({"data": [{"id": "a"}, {"id": "b"}]}, "c", "no model c; it lists a, b"),
    ],
)
def test_a_model_that_is_not_there(listed: Any, model: str | None, match: str) -> None:
    transport = httpx.MockTransport(lambda _: httpx.Response(200, json=listed))
    with pytest.raises(EngineError, match=match):
        collect(Completions("http://engine.test", model=model, transport=transport))
