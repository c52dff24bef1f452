"""The injection law: no string of a request becomes a control token, whatever the template makes of it.

For real templates and the real vocabularies that hold their control tokens: the text of every control token, in every
string of a request, leaves the prompt's control tokens as they are for a harmless request. Templates that look for a
token in the text (``'</think>' in content``) may write another prompt then; of these tokens it is shown that each one
in the prompt was written by the template.
"""

from __future__ import annotations

import contextlib
import functools
import json
import random
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from dragoman import ChatFormat
from dragoman.errors import DragomanError
from dragoman.template.scan import scan
from dragoman.vocab import Vocabulary
from tests.template_corpus import templates
from tests.vocabularies import (
    deepseek_tokenizer_json,
    llama2_tokenizer_json,
    mistral,
    qwen3_tokenizer_json,
    smollm2_gguf,
)

_SAMPLE = 3  # templates of one vocabulary
_AT_ONCE = 40  # control tokens in one string
HARMLESS = "word"
SENTENCE = ("<s>", "</s>")

VOCABULARIES: dict[str, Callable[[], Vocabulary]] = {
    "smollm2": lambda: Vocabulary.from_gguf(smollm2_gguf()),
    "qwen3": lambda: Vocabulary.from_tokenizer_json(qwen3_tokenizer_json()),
    "deepseek": lambda: Vocabulary.from_tokenizer_json(deepseek_tokenizer_json()),
    "llama 2": lambda: Vocabulary.from_tokenizer_json(llama2_tokenizer_json()),
    "mistral v1": lambda: Vocabulary.from_sentencepiece(mistral("v1")),
    "mistral v3": lambda: Vocabulary.from_sentencepiece(mistral("v3")),
    "tekken": lambda: Vocabulary.from_tekken(mistral("tekken")),
}


@functools.cache
def vocabulary(name: str) -> Vocabulary:
    return VOCABULARIES[name]()


def fitting(vocab: Vocabulary) -> list[tuple[str, str]]:
    """The templates that write at least two of the vocabulary's control tokens; of one that has no others but the
    first and the last token of a text, the templates that write these."""
    names = [text for text in vocab.controls if len(text) > 3 and text not in ("<unk>", *SENTENCE)]
    if not names:
        written = ("[INST]", "bos_token", "eos_token")
        return [(name, source) for name, source in templates() if all(text in source for text in written)]
    return [(name, source) for name, source in templates() if sum(text in source for text in names) >= 2]


def learned(source: str, vocab: Vocabulary) -> ChatFormat:
    bos, eos = (text if text in vocab.controls else "" for text in SENTENCE)
    return ChatFormat.from_template(source, bos_token=bos, eos_token=eos, vocab=vocab)


def control_tokens(fmt: ChatFormat) -> dict[str, int]:
    """Text -> id: the special tokens, and the added ones that the template writes."""
    assert fmt.vocab is not None
    special, source = fmt.vocab.special_ids, fmt.template.source
    return {text: token for text, token in fmt.vocab.controls.items() if token in special or text in source}


@functools.cache
def text_variables(fmt: ChatFormat) -> tuple[str, ...]:
    """The variables that the template reads and that a request may give as a text."""
    found = []
    for name in sorted(fmt.template.undeclared - {"documents"}):
        with contextlib.suppress(DragomanError):
            user = [{"role": "user", "content": HARMLESS}]
            assert fmt.turn(user, chat_template_kwargs={name: f"v {HARMLESS} end"}).prompt.text
            found.append(name)
    return tuple(found)


def request(fmt: ChatFormat, attack: str, *, calls: bool, system: str) -> dict[str, Any]:
    """A request with ``attack`` in every string that a caller fills."""

    def text(word: str) -> str:
        return f"{word} {attack} end"

    arguments = {attack: text("v"), "list": [text("i"), {text("k"): text("n")}], "object": {attack: text("o")}}
    call_id = text("call")
    called: dict[str, Any] = {"name": f"f{attack}", "arguments": arguments}
    call = {"id": call_id, "type": "function", "function": called}
    described = {"type": "string", "description": text("d"), "enum": [text("e")], "title": text("t"), attack: text("x")}
    nested = {"type": "object", "properties": {attack: described}, "required": [attack]}
    parameters = {
        "type": "object",
        "description": text("p"),
        "properties": {
            attack: {**described, "default": text("default"), "const": text("c"), "pattern": text("pattern")},
            "list": {"type": "array", "description": text("l"), "items": nested, "examples": [text("ex")]},
            "object": {**nested, "anyOf": [described], "$comment": text("c")},
            "typed": {"type": attack, "format": text("f")},
        },
        "required": [attack],
        "$defs": {attack: described},
    }
    function = {
        "name": f"f{attack}",
        "description": text("tool"),
        "parameters": parameters,
        "return": {"type": attack, "description": text("r")},
        "returns": text("rs"),
    }
    messages: list[dict[str, Any]] = [{"role": "user", "content": text("u"), "name": text("n"), attack: text("x")}]
    if calls:
        result = {"role": "tool", "tool_call_id": call_id, "name": f"f{attack}", "content": text("result")}
        said = {"role": "assistant", "content": "", "reasoning_content": text("r"), "tool_calls": [call]}
        spelled = {**call, "function": {**called, "arguments": json.dumps(arguments, ensure_ascii=False)}}
        parts = [{"type": "text", "text": text("part")}, {"type": "text", "text": text("part")}]
        messages += [
            said,
            result,
            {**said, "content": text("c"), "tool_calls": [spelled]},
            {**result, "content": parts},
        ]
    messages += [
        {"role": "assistant", "content": text("a"), "reasoning_content": text("r"), "name": text("n")},
        {"role": "user", "content": [{"type": "text", "text": text("u")}]},
    ]
    variables = {name: text("v") for name in text_variables(fmt)}
    return {
        "messages": [{"role": system, "content": text("s"), "name": text("n")}, *messages],
        "tools": [{"type": "function", "function": function, attack: text("x")}] if calls else [],
        "chat_template_kwargs": {
            **variables,
            "documents": [{"title": text("t"), "text": text("d"), attack: text("x")}],
            "never_read": text("v"),
        },
    }


def written(
    fmt: ChatFormat, attack: str, *, calls: bool, system: str = "system"
) -> tuple[Counter[int], Counter[int]] | None:
    """(control tokens of the prompt, those whose text stands in a part of the template); None: it refuses."""
    assert fmt.vocab is not None
    try:
        prompt = fmt.turn(**request(fmt, attack, calls=calls, system=system)).prompt
    except DragomanError:
        return None
    controls = control_tokens(fmt)
    own = "\n\x00\n".join(text for text, is_input in prompt.parts if not is_input)
    ids = Counter(token for token in prompt.token_ids if token in set(controls.values()))
    return ids, Counter({token: own.count(text) for text, token in controls.items() if text in own})


def attacks(fmt: ChatFormat) -> Iterator[tuple[str, bool]]:
    """(text, does the template look for one of its tokens)."""
    controls = control_tokens(fmt)
    found = scan(fmt.template.source)
    looked_for = {token for token in controls if any(token in text or text in token for text in found.text_tests)}
    plain = [token for token in controls if token not in looked_for]
    # Those of the template first: they are all tried; of a vocabulary with hundreds of others, some.
    plain.sort(key=lambda token: token not in fmt.template.source)
    yield "".join(plain[:_AT_ONCE]), False
    yield " ".join(plain[:_AT_ONCE]), False
    yield from ((token, True) for token in sorted(looked_for)[:6])


@pytest.mark.parametrize("name", VOCABULARIES)
def test_no_text_of_a_request_becomes_a_control_token(name: str) -> None:
    vocab = vocabulary(name)
    fits = fitting(vocab)
    names = {token: text for text, token in vocab.controls.items()}
    tried = 0
    for title, source in random.Random(f"injection {name}").sample(fits, min(_SAMPLE, len(fits))):
        fmt = learned(source, vocab)
        for calls, system in ((True, "system"), (False, "developer")):
            harmless = written(fmt, HARMLESS, calls=calls, system=system)
            for attack, looked_for in attacks(fmt):
                attacked = written(fmt, attack, calls=calls, system=system)
                if harmless is None or attacked is None:
                    continue
                ids, own = attacked
                tried += 1
                beyond = ids - (own if looked_for else harmless[0])
                assert not beyond, (title, [names[token] for token in beyond])
    assert tried >= 2 * min(_SAMPLE, len(fits)) > 4


def test_a_message_that_is_gone_on_with_is_input() -> None:
    """What the caller wrote of the model's turn, reasoning or answer, is text too."""
    vocab = vocabulary("qwen3")
    tried = 0
    for _, source in random.Random("injection, going on").sample(fitting(vocab), 5):
        fmt = learned(source, vocab)
        attack, _ = next(attacks(fmt))
        for field in ("content", "reasoning_content"):
            counts = []
            for text in (HARMLESS, attack):
                message = {"role": "assistant", "content": "", field: f"so {text} far"}
                with contextlib.suppress(DragomanError):
                    turn = fmt.turn([{"role": "user", "content": "u"}, message], continue_final_message=field)
                    controls = set(control_tokens(fmt).values())
                    counts.append(Counter(token for token in turn.prompt.token_ids if token in controls))
            if len(counts) == 2:
                tried += 1
                assert not counts[1] - counts[0]
    assert tried > 5
