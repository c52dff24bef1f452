"""The transformers engine: its choices against torch's own words, its text, and a whole turn over a model folder."""

from __future__ import annotations

import argparse
import asyncio
import json
import math
from collections import Counter
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from starlette.testclient import TestClient

from dragoman.cli.engines import add_engine, open_engine
from dragoman.engine import Chunk, Generation, Sampling
from dragoman.errors import EngineError, UsageError
from dragoman.server.app import create_app
from dragoman.vocab import Vocabulary
from tests.server.service import MESSAGES, TEMPLATE, TOOLS
from tests.vocabularies import small_tokenizer

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")

from dragoman.engines.sampling import Sampler  # noqa: E402
from dragoman.engines.torch_model import TorchModel  # noqa: E402

PROMPT = tuple(range(40, 52))


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model's folder: a tokenizer with control tokens, a template, a configuration and random weights."""
    place = tmp_path_factory.mktemp("model")
    marks = [{"content": text, "special": True} for text in ("<|from|>", "<|fin|>", "<|pad|>")]
    tokenizer = small_tokenizer(marks)
    (place / "tokenizer.json").write_text(json.dumps(tokenizer))
    (place / "tokenizer_config.json").write_text(json.dumps({"chat_template": TEMPLATE, "eos_token": "<|fin|>"}))
    vocab = Vocabulary.from_tokenizer_json(tokenizer)
    torch.manual_seed(1)
    torch.set_num_threads(1)
    config = transformers.LlamaConfig(
        vocab_size=vocab.size + 5,
        hidden_size=32,
        intermediate_size=48,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=2,
        max_position_embeddings=2048,
        bos_token_id=None,
        eos_token_id=vocab.controls["<|fin|>"],
    )
    transformers.LlamaForCausalLM(config).save_pretrained(place)
    return place


@pytest.fixture(scope="module")
def vocab(folder: Path) -> Vocabulary:
    return Vocabulary.from_folder(folder)


@pytest.fixture(scope="module")
def model(folder: Path) -> Any:
    return transformers.AutoModelForCausalLM.from_pretrained(folder).eval()


def collect(engine: TorchModel, *requests: Generation) -> list[list[Chunk]]:
    async def work() -> list[list[Chunk]]:
        answers = []
        for request in requests:
            answers.append([chunk async for chunk in engine.generate(request)])  # noqa: PERF401 - needs Python 3.11
        return answers

    return asyncio.run(asyncio.wait_for(work(), 60.0))


def ids_of(chunks: list[Chunk]) -> list[int]:
    return [token for chunk in chunks for token in chunk.token_ids]


def test_greedy_is_what_transformers_generates(model: Any, vocab: Vocabulary) -> None:
    engine = TorchModel(model, vocab, name="m")
    asked = Generation(PROMPT, "", sampling=Sampling(max_tokens=24, temperature=0.0))
    expected = model.generate(torch.tensor([PROMPT]), max_new_tokens=24, do_sample=False, pad_token_id=0)
    assert ids_of(collect(engine, asked)[0]) == expected[0, len(PROMPT) :].tolist()


def test_a_prompt_in_blocks_is_the_prompt(model: Any, vocab: Vocabulary, monkeypatch: pytest.MonkeyPatch) -> None:
    engine = TorchModel(model, vocab, name="m")
    long = tuple(40 + at % 50 for at in range(100))
    asked = Generation(long, "", sampling=Sampling(max_tokens=8, temperature=0.0, logprobs=2))
    whole = collect(engine, asked)[0]
    monkeypatch.setattr("dragoman.engines.torch_model._BLOCK_TOKENS", 7)
    blocks = collect(engine, asked)[0]
    assert ids_of(blocks) == ids_of(whole)
    for one, other in zip(whole, blocks, strict=True):
        assert [p.logprob for p in one.logprobs] == pytest.approx([p.logprob for p in other.logprobs], abs=1e-4)


def test_log_probabilities_are_the_models(model: Any, vocab: Vocabulary) -> None:
    engine = TorchModel(model, vocab, name="m")
    sampling = Sampling(max_tokens=5, seed=3, logprobs=4, logit_bias={60: 50.0})  # told before the bias
    chunks = collect(engine, Generation(PROMPT, "", sampling=sampling))[0]
    written = list(PROMPT)
    for chunk in chunks[:-1]:
        with torch.inference_mode():
            chances = torch.log_softmax(model(torch.tensor([written])).logits[0, -1].float(), dim=-1)
        [told] = chunk.logprobs
        assert told.token_id == 60
        assert told.data == vocab.bytes_of(60)
        assert told.logprob == pytest.approx(float(chances[60]), abs=1e-4)
        best = torch.topk(chances, 4)
        assert [one.token_id for one in told.top] == best.indices.tolist()
        assert [one.logprob for one in told.top] == pytest.approx(best.values.tolist(), abs=1e-4)
        written.append(60)


def picks(
    sampling: Sampling, logits: list[float], *, allowed: list[bool] | None = None, written: Any = ()
) -> Counter[Any]:
    sampler = Sampler(torch, sampling)
    mask = None if allowed is None else torch.tensor(allowed)
    return Counter(sampler.pick(torch.tensor(logits), mask, written) for _ in range(400))


CHANCES = [math.log(chance) for chance in (0.5, 0.25, 0.15, 0.1)]


@pytest.mark.parametrize(
    ("sampling", "possible"),
    [
        (Sampling(), {0, 1, 2, 3}),
        (Sampling(temperature=0.0), {0}),
        (Sampling(top_k=2), {0, 1}),
        (Sampling(top_k=0), {0, 1, 2, 3}),
        (Sampling(top_p=0.7), {0, 1}),
        (Sampling(top_p=0.8), {0, 1, 2}),
        (Sampling(top_p=0.0), {0}),
        (Sampling(min_p=0.25), {0, 1, 2}),
        (Sampling(min_p=0.4), {0, 1}),
        (Sampling(logit_bias={0: -math.inf, 3: 100.0}), {3}),
        (Sampling(logit_bias={99: 1.0}, temperature=0.0), {0}),
        (Sampling(temperature=0.0, presence_penalty=1.0), {1}),  # 0 was written
        (Sampling(temperature=0.0, frequency_penalty=0.3), {0}),
        (Sampling(temperature=0.0, extra={"repetition_penalty": 3.0}), {1}),
    ],
)
def test_each_setting_leaves_what_it_should(sampling: Sampling, possible: set[int]) -> None:
    assert set(picks(sampling, CHANCES, written=[0, 0])) == possible


def test_throws_follow_the_chances_and_the_seed() -> None:
    counts = picks(Sampling(seed=5), CHANCES)
    assert abs(counts[0] / 400 - 0.5) < 0.1
    assert abs(counts[3] / 400 - 0.1) < 0.06
    assert counts == picks(Sampling(seed=5), CHANCES)
    flat = picks(Sampling(seed=5, temperature=100.0), CHANCES)
    assert min(flat.values()) > 60


def test_the_mask_is_the_last_word() -> None:
    assert set(picks(Sampling(temperature=0.0), CHANCES, allowed=[False, False, True, True])) == {2}
    assert set(picks(Sampling(logit_bias={0: 1e9}), CHANCES, allowed=[False, True, False, False])) == {1}
    assert set(picks(Sampling(), CHANCES, allowed=[False] * 4)) == {None}


@pytest.mark.parametrize(
    ("sampling", "match"),
    [
        (Sampling(extra={"mirostat": 2}), "takes no mirostat"),
        (Sampling(logit_bias={1: math.nan}), "token 1"),
        (Sampling(logit_bias={1: math.inf}), "token 1"),
    ],
)
def test_what_it_does_not_know_is_refused(sampling: Sampling, match: str, model: Any, vocab: Vocabulary) -> None:
    with pytest.raises(UsageError, match=match):
        collect(TorchModel(model, vocab, name="m"), Generation(PROMPT, "", sampling=sampling))


class Script:
    """A Stepper that allows one token after the other."""

    def __init__(self, tokens: list[int]) -> None:
        self._tokens = tokens

    def fill(self, row: Any) -> None:
        row[:] = 0
        if self._tokens:
            row.view("uint32")[self._tokens[0] // 32] = 1 << self._tokens[0] % 32

    def accept(self, token_id: int) -> bool:
        return bool(self._tokens) and self._tokens.pop(0) == token_id

    @property
    def can_stop(self) -> bool:
        return not self._tokens


def test_characters_come_whole_and_control_tokens_where_they_are_wanted(model: Any, vocab: Vocabulary) -> None:
    engine = TorchModel(model, vocab, name="m")
    spelt = [next(i for i in range(vocab.size) if vocab.bytes_of(i) == bytes([byte])) for byte in "é".encode()]
    pad = vocab.controls["<|pad|>"]
    script = [spelt[0], spelt[1], pad, spelt[0], pad]

    def asked(**more: Any) -> Generation:
        return Generation(PROMPT, "", constraint=lambda: Script(list(script)), **more)

    shown, hidden, stopped = collect(engine, asked(preserved_tokens=("<|pad|>",)), asked(), asked(stops=("<|pad|>",)))
    assert [chunk.text for chunk in shown] == ["", "é", "<|pad|>", "", "\ufffd<|pad|>", ""]
    assert ids_of(shown) == script
    assert "".join(chunk.text for chunk in hidden) == "é\ufffd"
    assert [chunk.text for chunk in stopped] == ["", "é", ""]
    assert (stopped[-1].finish, stopped[-1].completion_tokens) == ("stop", 3)


def test_dead_ends_and_empty_prompts_are_said(model: Any, vocab: Vocabulary) -> None:
    class Dead(Script):
        can_stop = False  # type: ignore[assignment]

    engine = TorchModel(model, vocab, name="m")
    with pytest.raises(EngineError, match="dead end"):
        collect(engine, Generation(PROMPT, "", constraint=lambda: Dead([])))
    with pytest.raises(UsageError, match="empty prompt"):
        collect(engine, Generation((), ""))
    with pytest.raises(EngineError, match="the model failed: IndexError"):
        collect(engine, Generation((10**6,), ""))
    assert collect(engine, Generation(PROMPT, "", sampling=Sampling(max_tokens=1)))[0][-1].finish == "length"
    asyncio.run(engine.aclose())
    with pytest.raises(EngineError, match="closed"):
        collect(engine, Generation(PROMPT, ""))


def test_a_folder_is_served_and_random_weights_write_well_formed_calls(folder: Path) -> None:
    parser = argparse.ArgumentParser()
    add_engine(parser)
    opened = open_engine(parser.parse_args([str(folder)]))
    app = create_app(opened.format, opened.engine, model=opened.model, settings=opened.settings)
    parameters: Any = TOOLS[0]["function"]["parameters"]
    answered = 0
    with TestClient(app) as client:
        for seed in range(4):
            body = {"messages": MESSAGES, "tools": TOOLS[:1], "tool_choice": "required", "seed": seed}
            body |= {"max_tokens": 400, "parallel_tool_calls": False, "temperature": 2.0}
            choice = client.post("/v1/chat/completions", json=body).json()["choices"][0]
            for call in choice["message"]["tool_calls"] if choice["finish_reason"] != "length" else ():
                jsonschema.validate(json.loads(call["function"]["arguments"]), parameters)
                answered += 1
    assert answered  # random strings may run on to the bound, but not all of them


def test_a_folder_without_a_model_is_refused(tmp_path: Path, vocab: Vocabulary) -> None:
    with pytest.raises(UsageError, match=r"no config\.json"):
        TorchModel.load(tmp_path, vocab)
    (tmp_path / "config.json").write_text('{"model_type": "llama"}')
    with pytest.raises(EngineError, match="could not be loaded"):
        TorchModel.load(tmp_path, vocab)
