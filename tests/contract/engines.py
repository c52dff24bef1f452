"""One subject for each engine under the contract: the engine, and requests that mean the same to all of them."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import pytest

from dragoman.engine import Engine, Generation, GrammarSpec, Sampling
from dragoman.engines.completions import Completions
from dragoman.engines.embedded import Embedded
from dragoman.engines.recognise import recognise
from dragoman.engines.scripted import Dice, Record, Scripted
from dragoman.engines.torch_model import TorchModel
from tests.contract import upstreams

# A language that all engines can be held to, small enough to be written down in both notations.
SENTENCES = tuple(
    f"the {size} {thing} says {word}" for size in ("big", "wee") for thing in ("fox", "é😀") for word in ("a", "bb")
)
GBNF = 'root ::= "the " ("big" | "wee") " " ("fox" | "é😀") " says " ("a" | "bb")'
# Words without end: what an engine writes until it is stopped.
ENDLESS_GBNF = 'root ::= ("word" " ")+ "."'
ENDLESS_SEED = 99  # tells the two requests apart where an engine takes no grammar
TOKENS: tuple[bytes, ...] = (*(bytes([byte]) for byte in range(256)), b"the ", b" says ", b"word", b"fox", b"<end>")
END = len(TOKENS) - 1


class Texts:
    """A Stepper over a finite set of texts: slow and obvious."""

    def __init__(self, texts: tuple[str, ...]) -> None:
        self.texts = [text.encode() for text in texts]
        self.written = b""

    def fill(self, row: Any) -> None:
        row[:] = 0
        for token in range(len(TOKENS)):
            if self._begins(self.written + TOKENS[token]):
                row.view("uint32")[token // 32] |= 1 << (token % 32)

    def accept(self, token_id: int) -> bool:
        allowed = self._begins(self.written + TOKENS[token_id])
        if allowed:
            self.written += TOKENS[token_id]
        return allowed

    @property
    def can_stop(self) -> bool:
        return self.written in self.texts

    def _begins(self, start: bytes) -> bool:
        return any(text.startswith(start) for text in self.texts)


class Words(Texts):
    """A Stepper that takes ``word `` for ever."""

    def __init__(self) -> None:
        super().__init__(("word ",))

    def accept(self, token_id: int) -> bool:
        allowed = super().accept(token_id)
        if self.written == b"word ":
            self.written = b""
        return allowed

    @property
    def can_stop(self) -> bool:
        return False


def gbnf(text: str) -> GrammarSpec:
    return GrammarSpec(text)


def ebnf(text: str) -> GrammarSpec:
    """Grammars as plain as ours here read the same in both notations."""
    return GrammarSpec(text, form="ebnf")


def structural_tag(text: str) -> GrammarSpec:
    tag = {"type": "structural_tag", "format": {"type": "grammar", "grammar": text}}
    return GrammarSpec(json.dumps(tag), form="structural_tag")


@dataclass
class Subject:
    """An engine under test. ``prompt``: any prompt it understands; ``settings``: sampling that suits it.

    spell: a grammar in a notation that it takes; None: it takes none.
    record: what its script was asked, if it has one.
    """

    engine: Engine
    prompt: tuple[int, ...] = (1, 2, 3)
    settings: dict[str, Any] = field(default_factory=dict)
    spell: Callable[[str], GrammarSpec] | None = gbnf
    record: Record | None = None

    def sentence(self, *, max_tokens: int = 64, seed: int = 1, stops: tuple[str, ...] = ()) -> Generation:
        """A request that must be answered with one of SENTENCES."""
        return self._request(GBNF, lambda: Texts(SENTENCES), max_tokens=max_tokens, seed=seed, stops=stops)

    def endless(self, *, max_tokens: int | None = 2_000, stops: tuple[str, ...] = ()) -> Generation:
        """A request that is answered with ``word word word ...`` until somebody stops it."""
        return self._request(ENDLESS_GBNF, Words, max_tokens=max_tokens, seed=ENDLESS_SEED, stops=stops)

    def _request(
        self, grammar: str, stepper: Callable[[], Texts], *, max_tokens: int | None, seed: int, stops: tuple[str, ...]
    ) -> Generation:
        return Generation(
            self.prompt,
            "",
            stops=stops,
            grammar=None if self.spell is None else self.spell(grammar),
            constraint=stepper,
            sampling=Sampling(max_tokens=max_tokens, seed=seed, **self.settings),
        )


def part(request: Generation) -> str:
    """What a script answers: as the grammar asks, and where none can be given as the seed does."""
    if request.grammar is not None:
        assert request.grammar.text in (GBNF, ENDLESS_GBNF)
        assert (request.grammar.text == ENDLESS_GBNF) == (request.sampling.seed == ENDLESS_SEED)
    seed = request.sampling.seed or 0
    return "word " * 5_000 if seed == ENDLESS_SEED else SENTENCES[seed % 8]


def constrained_part(request: Generation) -> str:
    """The same, for servers to which a grammar must have come."""
    assert request.grammar is not None
    return part(request)


def scripted() -> Subject:
    """Answers as the request asks: a script that knows its part."""
    engine = Scripted(constrained_part, size=3, delay=0.001, encode=lambda piece: [ord(char) for char in piece])
    return Subject(engine, record=engine.record)


def dice() -> Subject:
    engine = Dice(lambda token: TOKENS[token], len(TOKENS), stop_ids={END}, delay=0.001)
    return Subject(engine, record=engine.record)


class Table:
    """TOKENS as the engine of a model in this process reads a vocabulary."""

    eos_ids = (END,)

    def bytes_of(self, token_id: int) -> bytes | None:
        return None if token_id >= END else TOKENS[token_id]

    def is_control(self, token_id: int) -> bool:
        return token_id >= END

    def text_of(self, token_id: int) -> str:
        return TOKENS[token_id].decode("utf-8", "replace") if token_id < len(TOKENS) else ""


def torch_model() -> Subject:
    """A model of transformers with random weights and more logits than there are tokens. Skips without torch."""
    torch = pytest.importorskip("torch")
    transformers = pytest.importorskip("transformers")
    torch.manual_seed(0)
    torch.set_num_threads(1)
    config = transformers.LlamaConfig(
        vocab_size=len(TOKENS) + 11,
        hidden_size=32,
        intermediate_size=32,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=2,
        max_position_embeddings=4096,
        bos_token_id=None,
        eos_token_id=END,
    )
    model = transformers.LlamaForCausalLM(config)
    return Subject(TorchModel(model, Table(), name="random"), settings={"temperature": 1.0})


async def embedded(engine: Embedded) -> Subject:
    prompt = await engine.tokenize(
        "<|im_start|>user\nTell me a story.<|im_end|>\n<|im_start|>assistant\n", controls=True
    )
    # A ban on the full stop keeps the endless request endless; no other request writes one.
    dot = (await engine.tokenize("."))[0]
    return Subject(engine, tuple(prompt), {"temperature": 1.0, "logit_bias": {dot: float("-inf")}})


async def running(address: str) -> Subject:
    """A vLLM or SGLang that somebody started: DRAGOMAN_TEST_UPSTREAM is its address. A random model will do."""
    found = await recognise(address)
    engine = found.open()
    assert isinstance(engine, Completions)
    asked = {"model": found.model, "prompt": ".", "add_special_tokens": False}
    dot = (await engine.lookup("POST", "/tokenize", asked))["tokens"][0]  # see embedded()
    spell = structural_tag if "structural_tag" in found.flavour.grammars else None
    return Subject(engine, (40, 41, 42), {"temperature": 1.0, "logit_bias": {dot: float("-inf")}}, spell)


# Servers of our own that answer as others do: how each is made, and how a grammar is spelt for it.
UPSTREAMS: dict[str, tuple[Callable[[], upstreams.Server], Callable[[str], GrammarSpec] | None]] = {
    "llama-server": (lambda: upstreams.llama_server(constrained_part), gbnf),
    "vllm": (lambda: upstreams.vllm(constrained_part), structural_tag),
    "vllm-ebnf": (lambda: upstreams.vllm(constrained_part), ebnf),
    "sglang": (lambda: upstreams.sglang(constrained_part), structural_tag),
    "sglang-ebnf": (lambda: upstreams.sglang(constrained_part), ebnf),
    "completions": (lambda: upstreams.generic(part), None),
}
