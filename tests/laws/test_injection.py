"""The injection law: no string of a request becomes a control token, whatever the template makes of it.

For real templates and the real vocabularies that hold their control tokens: the text of every control token, in every
string of a request, leaves the prompt's control tokens as they are for a harmless request. Templates that look for a
token in the text (``'</think>' in content``) may write another prompt then; of these tokens it is shown that each one
in the prompt was written by the template.
"""

from __future__ import annotations

import functools
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
from tests.vocabularies import deepseek_tokenizer_json, mistral, qwen3_tokenizer_json, smollm2_gguf

_SAMPLE = 10  # templates of one vocabulary
_AT_ONCE = 40  # control tokens in one string
HARMLESS = "word"

VOCABULARIES: dict[str, Callable[[], Vocabulary]] = {
    "smollm2": lambda: Vocabulary.from_gguf(smollm2_gguf()),
    "qwen3": lambda: Vocabulary.from_tokenizer_json(qwen3_tokenizer_json()),
    "deepseek": lambda: Vocabulary.from_tokenizer_json(deepseek_tokenizer_json()),
    "mistral v3": lambda: Vocabulary.from_sentencepiece(mistral("v3")),
    "tekken": lambda: Vocabulary.from_tekken(mistral("tekken")),
}


@functools.cache
def vocabulary(name: str) -> Vocabulary:
    return VOCABULARIES[name]()


def fitting(vocab: Vocabulary) -> list[tuple[str, str]]:
    """The templates that write at least two of the vocabulary's control tokens."""
    names = [text for text in vocab.controls if len(text) > 3]
    return [(name, source) for name, source in templates() if sum(text in source for text in names) >= 2]


def control_tokens(fmt: ChatFormat) -> dict[str, int]:
    """Text -> id: the special tokens, and the added ones that the template writes."""
    assert fmt.vocab is not None
    special, source = fmt.vocab.special_ids, fmt.template.source
    return {text: token for text, token in fmt.vocab.controls.items() if token in special or text in source}


def request(attack: str, *, calls: bool) -> dict[str, Any]:
    """A request with ``attack`` in every string that a caller fills."""

    def text(word: str) -> str:
        return f"{word} {attack} end"

    call = {"id": "abc123def", "type": "function", "function": {"name": f"f{attack}", "arguments": {attack: text("v")}}}
    parameters = {
        "type": "object",
        "description": text("p"),
        "properties": {attack: {"type": "string", "description": text("d"), "enum": [text("e")], "title": text("t")}},
        "required": [attack],
    }
    function = {"name": f"f{attack}", "description": text("tool"), "parameters": parameters}
    messages: list[dict[str, Any]] = [{"role": "user", "content": text("u"), "name": text("n")}]
    if calls:
        messages += [
            {"role": "assistant", "content": "", "reasoning_content": text("r"), "tool_calls": [call]},
            {"role": "tool", "tool_call_id": "abc123def", "name": f"f{attack}", "content": text("result")},
        ]
    messages += [
        {"role": "assistant", "content": text("a"), "reasoning_content": text("r")},
        {"role": "user", "content": [{"type": "text", "text": text("u")}]},
    ]
    return {
        "messages": [{"role": "system", "content": text("s")}, *messages],
        "tools": [{"type": "function", "function": function}] if calls else [],
        "chat_template_kwargs": {"documents": [{"title": text("t"), "text": text("d")}]},
    }


def written(fmt: ChatFormat, attack: str, *, calls: bool) -> tuple[Counter[int], Counter[int]] | None:
    """(control tokens of the prompt, those whose text stands in a part of the template); None: it refuses."""
    assert fmt.vocab is not None
    try:
        prompt = fmt.turn(**request(attack, calls=calls)).prompt
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
    tried = 0
    for title, source in random.Random(f"injection {name}").sample(fits, min(_SAMPLE, len(fits))):
        fmt = ChatFormat.from_template(source, bos_token="", eos_token="", vocab=vocab)
        for calls in (True, False):
            harmless = written(fmt, HARMLESS, calls=calls)
            for attack, looked_for in attacks(fmt):
                attacked = written(fmt, attack, calls=calls)
                if harmless is None or attacked is None:
                    continue
                ids, own = attacked
                tried += 1
                names = {token: text for text, token in vocab.controls.items()}
                beyond = ids - (own if looked_for else harmless[0])
                assert not beyond, (title, [names[token] for token in beyond])
    assert tried >= 2 * min(_SAMPLE, len(fits)) > 4
