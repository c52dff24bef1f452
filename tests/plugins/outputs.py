"""Outputs to be read inside an engine: rendered by templates, as token ids of a tokenizer that has their markers."""

from __future__ import annotations

import json
import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from tokenizers import Tokenizer
from transformers import PreTrainedTokenizerFast

from dragoman.format import ChatFormat
from tests.contract.test_response_template import Source, _tool_dicts
from tests.formats import learned_format, sources
from tests.vocabularies import small_tokenizer

Said = tuple[str, str, list[tuple[str, str]]]
# One of each kind; the others go through the same laws where the reader itself is tested.
NAMES = (
    "own.json_in_tags",
    "own.json_array_with_ids",
    "own.id_before",
    "own.tagged",
    "own.typed_tags",
    "own.python_like",
    "own.own_quotes",
    "own.keys_as_tags",
    "own.reasoning",
    "own.wrapped",
)


def tools() -> list[dict[str, Any]]:
    return _tool_dicts()


@lru_cache(maxsize=32)
def tokenizer_of(name: str) -> Any:
    """The tokenizer of a template of ours."""
    return made_tokenizer(sources()[name])


def made_tokenizer(source: str) -> Any:
    """A transformers tokenizer for a template; the markers in it are added tokens."""
    literals = ChatFormat.from_template(source).profile.literals
    made = small_tokenizer([{"content": text, "special": False} for text in literals if text.strip() == text])
    made["decoder"] = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": True}
    tokenizer = PreTrainedTokenizerFast(tokenizer_object=Tokenizer.from_str(json.dumps(made)))
    tokenizer.chat_template = source
    return tokenizer


@dataclass
class Output:
    """One output: the prompt's ids, the output's ids and text."""

    prompt: list[int]
    ids: list[int]
    text: str


def outputs(name: str, count: int) -> Iterator[Output]:
    """Messages of one template, seeded."""
    source = Source(name, learned_format(name))
    tokenizer = tokenizer_of(name)
    for _ in range(count):
        rendered = source.rendered()
        if rendered is None:
            continue
        prompt, ids = (tokenizer.encode(text, add_special_tokens=False) for text in (rendered.prefix, rendered.text))
        yield Output(prompt, ids, rendered.text)


def cuts(size: int, pick: random.Random) -> Iterator[slice]:
    """All of a sequence in pieces of 1 to 7."""
    at = 0
    while at < size:
        end = min(size, at + pick.randint(1, 7))
        yield slice(at, end)
        at = end


def expected(fmt: ChatFormat, output: Output, end: str | None, declared: Any = None) -> Said:
    """What our own turn reads of the ids in one piece."""
    turn = fmt.turn([{"role": "user", "content": "."}], declared or tools(), generation_prompt=end)
    turn.feed(output.ids)
    turn.finish("stop" if fmt.vocab is not None and fmt.vocab.is_control(output.ids[-1]) else "length")
    message = turn.message
    return message.reasoning_content, message.content, [(call.name, call.arguments) for call in message.tool_calls]


def summed(pieces: Sequence[tuple[str, str, Sequence[tuple[int, str | None, str | None, str]]]]) -> Said:
    """(reasoning, content, calls) of pieces; each call is (index, id, name, arguments), id and name once."""
    reasoning = content = ""
    calls: list[list[str]] = []
    ids: set[str] = set()
    for thought, said, some in pieces:
        reasoning += thought
        content += said
        for index, call_id, name, arguments in some:
            if index == len(calls):
                assert name
                assert call_id not in ids
                ids |= {call_id} if call_id else set()
                calls.append([name, ""])
            else:
                assert index == len(calls) - 1
                assert name is None
                assert call_id is None
            calls[index][1] += arguments
    return reasoning, content, [(name, arguments) for name, arguments in calls]
