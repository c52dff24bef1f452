"""llama-server token by token under masks: what is asked, what is chosen, how it ends; without a network."""

from __future__ import annotations

import asyncio
import itertools
import json
import math
import random
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import httpx
import pytest

from dragoman.engine import Chunk, Generation, Sampling
from dragoman.engines.llama_server import LlamaServer
from dragoman.engines.llama_stepping import SteppedLlamaServer
from dragoman.errors import EngineError, UsageError
from dragoman.format import ChatFormat
from dragoman.turn import Turn
from dragoman.vocab import Vocabulary
from tests.formats import sources
from tests.vocabularies import small_tokenizer
from tests.writing import MESSAGES

VOCAB = Vocabulary.from_tokenizer_json(
    small_tokenizer([{"content": text, "special": True} for text in ("<|zoff|>", "<|zon|>")])
)
END = VOCAB.controls["<|zoff|>"]
ONE_TOOL = {
    "type": "function",
    "function": {
        "name": "roll",
        "parameters": {
            "type": "object",
            "properties": {"sides": {"type": "integer", "minimum": 2, "maximum": 20}, "why": {"enum": ["fun", "work"]}},
            "required": ["sides", "why"],
            "additionalProperties": False,
        },
    },
}


class Model:
    """A server that likes tokens in an order made from the ids so far; what it was asked is kept."""

    def __init__(self, *, liked: Callable[[list[int]], list[int]] | None = None, context: int = 4_000) -> None:
        self.asked: list[dict[str, Any]] = []
        self.liked = liked or self.at_random
        self.context = context

    @staticmethod
    def at_random(ids: list[int]) -> list[int]:
        order = list(range(VOCAB.size))
        random.Random(repr(ids)).shuffle(order)
        return order

    def __call__(self, request: httpx.Request) -> httpx.Response:
        if request.url.path == "/props":
            return httpx.Response(200, json={"default_generation_settings": {"n_ctx": self.context}})
        body = json.loads(request.content)
        self.asked.append(body)
        order = self.liked(body["prompt"])[: body["n_probs"]]
        top = [{"id": token, "logprob": -0.05 * at, "bytes": [65]} for at, token in enumerate(order)]
        event = {
            "content": "",
            "tokens": order[:1],
            "completion_probabilities": [{"id": order[0], "top_logprobs": top}],
        }
        last = {"content": "", "stop": True, "stop_type": "limit", "tokens_predicted": 1}
        return httpx.Response(200, content="".join(f"data: {json.dumps(each)}\n\n" for each in (event, last)))


def turn_of(**more: Any) -> Turn:
    fmt = ChatFormat.from_template(sources()["own.json_in_tags"], vocab=VOCAB)
    return fmt.turn(MESSAGES, **{"tools": [ONE_TOOL], "tool_choice": "required", "parallel_tool_calls": False, **more})


def asked_for(turn: Turn, **more: Any) -> Generation:
    stops, preserved = turn.stops, turn.preserved_tokens
    sampling = {"max_tokens": 200, "temperature": 0.0, "seed": 1, **more}
    return Generation(
        (1, 2, 3),
        "",
        stops=stops,
        preserved_tokens=preserved,
        constraint=turn.constraint,
        sampling=Sampling(**sampling),
    )


def collect(model: Any, request: Generation, vocab: Vocabulary = VOCAB, **more: Any) -> list[Chunk]:
    async def work() -> list[Chunk]:
        server = LlamaServer("http://engine.test", transport=httpx.MockTransport(model))
        engine = SteppedLlamaServer(server, vocab, **more)
        assert (await engine.info()).takes_masks
        chunks = [chunk async for chunk in engine.generate(request)]
        await engine.aclose()
        return chunks

    return asyncio.run(work())


@pytest.mark.parametrize("temperature", [0.0, 0.8, 2.0])
def test_every_answer_is_what_the_grammar_says(temperature: float) -> None:
    written = set()
    for seed in range(6):
        turn, model = turn_of(), Model()
        chunks = collect(model, asked_for(turn, temperature=temperature, seed=seed))
        ids = [token for chunk in chunks for token in chunk.token_ids]
        assert turn.constraint().validate([*ids, END]) == len(ids) + 1
        assert chunks[-1] == Chunk(finish="stop", prompt_tokens=3, completion_tokens=len(ids) + 1)
        text = "".join(chunk.text for chunk in chunks)
        assert text == VOCAB.decode(ids).decode()
        turn.feed(text)
        turn.finish()
        (call,) = turn.message.tool_calls
        assert 2 <= json.loads(call.arguments)["sides"] <= 20
        written.add(call.arguments)
        # What is forced is not asked for, and what was written is the prompt of the next question.
        assert len(model.asked) < len(ids) / 2
        assert all(body["n_predict"] == 1 and body["cache_prompt"] and body["stream"] for body in model.asked)
        assert all(body["prompt"] == [1, 2, 3, *ids][: len(body["prompt"])] for body in model.asked)
    assert len(written) == 1 if temperature == 0 else len(written) > 1


def test_more_candidates_are_asked_for_only_where_none_is_allowed() -> None:
    turn = turn_of()
    free = Model(liked=lambda ids: sorted(range(VOCAB.size), key=lambda token: token != END))
    collect(free, asked_for(turn), candidates=(3, 50))
    counts = [body["n_probs"] for body in free.asked]
    assert counts[0] == 3
    for before, after in itertools.pairwise(counts):
        assert after == 3 or (before, after) in ((3, 50), (50, VOCAB.size))
    assert {3, 50, VOCAB.size} == set(counts)


def test_the_best_allowed_token_is_taken() -> None:
    """Greedy: of the tokens that the mask allows the one that the server likes best."""
    turn, model = turn_of(), Model()
    chunks = collect(model, asked_for(turn, logprobs=2))
    constraint = turn.constraint()
    ids: list[int] = []
    for chunk in chunks[:-1]:
        (token,) = chunk.token_ids
        order = Model.at_random([1, 2, 3, *ids])
        best = next(other for other in order if constraint.validate([other]))
        assert token == best
        (told,) = chunk.logprobs
        assert told.logprob == pytest.approx(-0.05 * order.index(token))
        assert [entry.token_id for entry in told.top] == order[:2]
        assert constraint.accept(token)
        ids.append(token)


def test_tokens_come_as_often_as_their_chances_say() -> None:
    """Temperature, top-k, bias: the first digit of a number, against the softmax over what is allowed."""
    turn = turn_of()
    start = turn.constraint()
    digits = {VOCAB.encode(str(digit))[0]: digit for digit in range(1, 10)}
    order = [*digits, *(token for token in range(VOCAB.size) if token not in digits)]
    bias = {next(iter(digits)): -math.inf}
    ids: list[int] = []
    for token in VOCAB.encode('<qor>\n{"name": "roll", "arguments": {"sides": '):
        assert start.accept(token)
        ids.append(token)
    seen: Counter[int] = Counter()
    for seed in range(400):
        request = Generation(
            tuple(ids),
            "",
            constraint=start.fork,
            sampling=Sampling(max_tokens=1, temperature=0.5, top_k=4, top_p=1.0, min_p=0.0, seed=seed, logit_bias=bias),
        )
        chunks = collect(Model(liked=lambda _: order), request)
        seen[chunks[0].token_ids[0]] += 1
        assert chunks[-1].finish == "length"
    kept = [at for at, token in enumerate(order) if start.validate([token]) and token not in bias][:4]
    chances = [math.exp(-0.05 * at / 0.5) for at in kept]
    assert set(seen) == {order[at] for at in kept}
    for at, chance in zip(kept, chances, strict=True):
        expected = 400 * chance / sum(chances)
        assert abs(seen[order[at]] - expected) < 4 * math.sqrt(expected), (seen, expected)


def test_an_answer_is_cut_at_its_length_and_at_the_contexts() -> None:
    for model, more in ((Model(), {"max_tokens": 7}), (Model(context=10), {"max_tokens": None})):
        chunks = collect(model, asked_for(turn_of(), **more))
        assert sum(len(chunk.token_ids) for chunk in chunks) == 7
        assert chunks[-1].finish == "length"
        assert chunks[-1].completion_tokens == 7
    chunks = collect(Model(), asked_for(turn_of(), max_tokens=0))
    assert chunks == [Chunk(finish="length", prompt_tokens=3, completion_tokens=0)]


def test_a_stop_text_ends_it_and_is_not_shown() -> None:
    turn = turn_of()
    request = asked_for(turn)
    whole = "".join(chunk.text for chunk in collect(Model(), request))
    assert '"arguments"' in whole
    stopped = collect(Model(), replace(request, stops=('"arguments"',)))
    assert "".join(chunk.text for chunk in stopped) == whole[: whole.index('"arguments"')]
    assert stopped[-1].finish == "stop"


def test_a_request_without_a_constraint_goes_to_the_server_as_it_is() -> None:
    seen = []

    def answer(request: httpx.Request) -> httpx.Response:
        if request.method == "GET":
            return httpx.Response(200, json={})
        seen.append(json.loads(request.content))
        return httpx.Response(200, content=b'data: {"content":"Hi","stop":true,"stop_type":"eos"}\n\n')

    assert collect(answer, Generation((1, 2), ""))[-1].text == "Hi"
    assert "n_probs" not in seen[0]


def test_failures_are_told() -> None:
    turn = turn_of()

    def silent(request: httpx.Request) -> httpx.Response:
        body = b'data: {"content":"","stop":true}\n\n'
        return httpx.Response(200, json={}) if request.method == "GET" else httpx.Response(200, content=body)

    with pytest.raises(EngineError, match="n_probs"):
        collect(silent, asked_for(turn, logprobs=0))
    # A server with another vocabulary.
    with pytest.raises(EngineError, match="vocabulary"):
        collect(Model(liked=lambda _: [VOCAB.size + 7]), asked_for(turn, logprobs=0))
    with pytest.raises(UsageError):
        collect(Model(), Generation((1,), "", constraint=lambda: "x"))  # type: ignore[arg-type, return-value]
    for wrong in ((), (0,), ("x",)):
        with pytest.raises(UsageError):
            collect(Model(), asked_for(turn), candidates=wrong)


def test_closing_the_iterator_asks_no_more() -> None:
    model = Model()

    async def work() -> None:
        engine = SteppedLlamaServer(LlamaServer("http://engine.test", transport=httpx.MockTransport(model)), VOCAB)
        pieces = engine.generate(asked_for(turn_of(), logprobs=0))
        await anext(pieces)
        await pieces.aclose()  # type: ignore[attr-defined]
        asked = len(model.asked)
        await asyncio.sleep(0)
        assert len(model.asked) == asked < 10

    asyncio.run(work())
