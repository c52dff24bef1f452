"""transformers' own generate() under our constraints: greedy, sampled, batches, beams, assisted, prompt lookup.

The models are tiny and random, made from a configuration. Skipped without torch, which CI does not install; what the
processor does to its rows is held on NumPy arrays in tests/unit/test_logits_processor.py.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import pytest

from dragoman.format import ChatFormat
from dragoman.integrations.logits_processor import ConstraintProcessor
from dragoman.turn import Turn
from dragoman.vocab import Vocabulary
from tests.formats import sources
from tests.vocabularies import small_tokenizer
from tests.writing import MESSAGES

torch = pytest.importorskip("torch", reason="generate() needs torch")
transformers = pytest.importorskip("transformers")

torch.set_num_threads(1)
pytestmark = pytest.mark.filterwarnings("ignore")  # of libraries among themselves
VOCAB = Vocabulary.from_tokenizer_json(
    small_tokenizer([{"content": text, "special": True} for text in ("<|zoff|>", "<pad>", "<|zon|>")])
)
END, PAD = VOCAB.controls["<|zoff|>"], VOCAB.controls["<pad>"]
ROOM = 110


def tool(name: str, properties: dict[str, Any]) -> dict[str, Any]:
    parameters = {
        "type": "object",
        "properties": properties,
        "required": list(properties),
        "additionalProperties": False,
    }
    return {"type": "function", "function": {"name": name, "parameters": parameters}}


TOOLS = (
    [tool("roll", {"sides": {"type": "integer", "minimum": 2, "maximum": 20}, "fair": {"type": "boolean"}})],
    [tool("weather", {"city": {"type": "string", "maxLength": 5}}), tool("stop", {})],
)


def turn_of(which: int) -> Turn:
    fmt = ChatFormat.from_template(sources()["own.json_in_tags"], vocab=VOCAB)
    messages = MESSAGES if which == 0 else [*MESSAGES, *MESSAGES]
    return fmt.turn(messages, TOOLS[which], tool_choice="required", parallel_tool_calls=False)


@lru_cache(maxsize=2)
def model(seed: int) -> Any:
    """With logits for more tokens than there are."""
    torch.manual_seed(seed)
    config = transformers.LlamaConfig(
        vocab_size=VOCAB.size + 11,
        hidden_size=32,
        intermediate_size=32,
        num_hidden_layers=1,
        num_attention_heads=2,
        initializer_range=0.5,
        pad_token_id=PAD,
        eos_token_id=END,
        bos_token_id=None,
    )
    return transformers.LlamaForCausalLM(config).eval()


def generated(which: tuple[int, ...], **more: Any) -> list[list[int]]:
    """What is written for these prompts, padding in front of the shorter ones; each checked and read."""
    turns = [turn_of(one) for one in which]
    prompts = [torch.tensor(turn.prompt.token_ids) for turn in turns]
    size = max(map(len, prompts))
    ids = torch.stack([torch.nn.functional.pad(prompt, (size - len(prompt), 0), value=PAD) for prompt in prompts])
    processor = ConstraintProcessor([turn.constraint() for turn in turns])
    torch.manual_seed(7)
    out = model(1).generate(
        ids, attention_mask=(ids != PAD).long(), logits_processor=[processor], max_new_tokens=ROOM, **more
    )
    answers = [[token for token in row[size:].tolist() if token != PAD] for row in out]
    share = len(answers) // len(turns)
    for at, answer in enumerate(answers):
        one = which[at // share]
        assert turn_of(one).constraint().validate(answer) == len(answer)
        if answer[-1] == END:
            read = turn_of(one)
            read.feed(answer)
            read.finish()
            assert read.message.problems == ()
            assert [call.name for call in read.message.tool_calls] in [
                [each["function"]["name"]] for each in TOOLS[one]
            ]
    return answers


@pytest.mark.parametrize(
    "how",
    [
        {"do_sample": False},
        {"do_sample": True},
        {"do_sample": True, "num_return_sequences": 3},
        {"num_beams": 4, "do_sample": False, "num_return_sequences": 4},
        {"num_beams": 3, "do_sample": True, "num_return_sequences": 2},
    ],
    ids=repr,
)
@pytest.mark.parametrize("which", [(1,), (1, 0, 1)], ids=repr)
def test_what_is_generated_is_a_call(which: tuple[int, ...], how: dict[str, Any]) -> None:
    answers = generated(which, **how)
    assert len(answers) == len(which) * how.get("num_return_sequences", 1)
    assert any(answer[-1] == END for answer in answers)


def test_beams_are_different_answers() -> None:
    answers = generated((0,), num_beams=6, do_sample=False, num_return_sequences=6)
    assert len(set(map(tuple, answers))) == 6


@pytest.mark.parametrize("which", [0, 1])
def test_an_assistant_changes_nothing(which: int) -> None:
    plain = generated((which,), do_sample=False)
    assert generated((which,), do_sample=False, assistant_model=model(2)) == plain
    assert generated((which,), do_sample=False, assistant_model=model(1)) == plain
    assert generated((which,), do_sample=False, prompt_lookup_num_tokens=5) == plain
