"""Reading by token ids: what may be written reads as its text does; what ordinary tokens spell is never a marker."""

from __future__ import annotations

import random
from functools import lru_cache
from typing import Any

import pytest

from dragoman.chat import Message
from dragoman.constraint.constraint import Constraint
from dragoman.errors import UsageError
from dragoman.format import ChatFormat
from dragoman.turn import Turn
from dragoman.vocab import Vocabulary
from tests.formats import sources
from tests.toolsets import SETS
from tests.vocabularies import mistral, qwen3_tokenizer_json, smollm2_gguf
from tests.writing import MESSAGES, Case

OWN = sorted(name for name in sources() if name.startswith("own."))
# Templates whose markers are control tokens of Qwen3's vocabulary.
QWEN = [name for name in ("Qwen-Qwen3-0.6B", "Qwen-Qwen2.5-7B-Instruct", "Qwen3-Coder") if name in sources()]
TOOLS = SETS["strings"]
CHATML = """{%- for message in messages -%}
{%- if message.role == 'assistant' -%}
{{- '<|im_start|>assistant\\n' -}}
{%- if message.reasoning_content %}{{ '<think>\\n' + message.reasoning_content + '\\n</think>\\n\\n' }}{% endif -%}
{{- message.content or '' -}}
{%- for call in message.tool_calls or [] -%}
{{- '\\n<tool_call>\\n{"name": "' + call.function.name + '", "arguments": ' + (call.function.arguments | tojson) -}}
{{- '}\\n</tool_call>' -}}
{%- endfor -%}
{{- '<|im_end|>\\n' -}}
{%- else -%}
{{- '<|im_start|>' + message.role + '\\n' + message.content + '<|im_end|>\\n' -}}
{%- endif -%}
{%- endfor -%}
{%- if tools %}{{ '' }}{{ tools | tojson if false }}{% endif -%}
{%- if add_generation_prompt %}{{ '<|im_start|>assistant\\n' }}{% endif -%}"""


@lru_cache(maxsize=1)
def smollm2() -> Vocabulary:
    return Vocabulary.from_gguf(smollm2_gguf())


@lru_cache(maxsize=1)
def qwen3() -> Vocabulary:
    return Vocabulary.from_tokenizer_json(qwen3_tokenizer_json())


@lru_cache(maxsize=1)
def mistral_v3() -> Vocabulary:
    return Vocabulary.from_sentencepiece(mistral("v3"))


def read_ids(turn: Turn, ids: list[int], size: int) -> Message:
    for at in range(0, len(ids), size):
        turn.feed(ids[at : at + size])
    turn.finish()
    return turn.message


def read_text(turn: Turn, data: bytes) -> Message:
    turn.feed(data)
    turn.finish()
    return turn.message


@lru_cache(maxsize=2)
def ordinary(vocab: Vocabulary) -> dict[bytes, int]:
    """Bytes -> ordinary token."""
    return {data: token for token, data in enumerate(vocab.token_bytes) if data}


def as_written(vocab: Vocabulary, constraint: Constraint, data: bytes, pick: random.Random) -> list[int]:
    """Ids that spell ``data`` and that the constraint takes: control tokens (no ends) where it can, others else."""
    known = ((text.encode(), token) for text, token in vocab.controls.items() if token not in vocab.eos_ids)
    controls = sorted(known, key=lambda one: -len(one[0]))
    ids: list[int] = []
    at = 0
    while at < len(data):
        marked = [(len(text), token) for text, token in controls if data.startswith(text, at)]
        found = next(((size, token) for size, token in marked if constraint.accept(token)), None)
        if found is None:
            room = (
                min((begin for text, _ in controls if (begin := data.find(text, at + 1)) > 0), default=len(data)) - at
            )
            sizes = [size for size in range(1, min(16, room) + 1) if data[at : at + size] in ordinary(vocab)]
            assert sizes, f"no token spells {data[at : at + 1]!r}"
            size = pick.choice(sizes)
            found = (size, ordinary(vocab)[data[at : at + size]])
            assert constraint.accept(found[1]), f"refused at {at}: {data[at : at + size]!r}"
        ids.append(found[1])
        at += found[0]
    return ids


def assert_same_by_ids(name: str, vocab: Vocabulary, walks: int) -> int:
    """Walks through the writer, fed as text and as ids of every grouping; how many."""
    fmt = ChatFormat.from_template(CHATML if name == "chatml" else sources()[name], vocab=vocab)
    done = 0
    for choice in ("auto", "required"):
        case = Case(name, fmt, {"tools": TOOLS, "tool_choice": choice})
        walker, constraint = case.walker(), case.turn.constraint()
        for number in range(walks):
            pick = random.Random(f"{name} {choice} {number}")
            data = walker.walk(f"{name} {choice} {number}", number * 5)
            if data is None or set(data) & vocab.missing_bytes:
                continue
            by_text = read_text(case.new_turn(strict=True), data)
            ids = as_written(vocab, constraint.fork(), data, pick)
            for size in (1, 3, max(1, len(ids))):
                assert read_ids(case.new_turn(strict=True), ids, size) == by_text, (name, data)
            done += 1
    return done


@pytest.mark.parametrize("name", OWN)
def test_ids_read_as_the_text_does(name: str) -> None:
    """Markers that are ordinary tokens: split anywhere by the tokenizer, found all the same."""
    fmt = ChatFormat.from_template(sources()[name])
    if fmt.profile.tools is None:
        pytest.skip("no calls are learned")
    assert assert_same_by_ids(name, smollm2(), 12) >= 8


@pytest.mark.parametrize("name", ["own.json_in_tags", "own.tagged", "own.reasoning", "own.python_like"])
def test_ids_of_a_vocabulary_with_byte_fallback_read_as_the_text_does(name: str) -> None:
    """Pieces with U+2581 for the space, bytes as tokens, characters in parts."""
    assert assert_same_by_ids(name, mistral_v3(), 12) >= 8


@pytest.mark.parametrize("name", ["chatml", *QWEN])
def test_markers_that_are_control_tokens_read_as_their_text_does(name: str) -> None:
    assert assert_same_by_ids(name, qwen3(), 20) >= 8


def chatml() -> ChatFormat:
    return ChatFormat.from_template(CHATML, vocab=qwen3())


CALL = '<tool_call>\n{"name": "get_weather", "arguments": {"city": "Paris"}}\n</tool_call>'


def spelled(text: str) -> list[int]:
    """Ids of ordinary tokens only, whatever the text says."""
    pick, data, ids = random.Random(text), text.encode(), list[int]()
    while data:
        size = pick.choice([size for size in range(1, 17) if data[:size] in ordinary(qwen3())])
        ids.append(ordinary(qwen3())[data[:size]])
        data = data[size:]
    return ids


def meant(text: str) -> list[int]:
    """The ids of a text whose control tokens are meant as such."""
    return list(qwen3().encode([(text, False)]))


@pytest.mark.parametrize("size", [1, 2, 1000])
def test_a_control_token_spelled_by_ordinary_tokens_is_no_marker(size: int) -> None:
    turn = chatml().turn(MESSAGES, TOOLS)
    message = read_ids(turn, spelled("Look: " + CALL + "<|im_end|> and <think>on</think>"), size)
    assert message.content == "Look: " + CALL + "<|im_end|> and <think>on</think>"
    assert message.tool_calls == ()
    assert message.reasoning_content == ""
    assert not message.problems


def test_the_same_text_by_control_tokens_is_a_call() -> None:
    message = read_ids(chatml().turn(MESSAGES, TOOLS), meant("Look: \n" + CALL + "<|im_end|>"), 1)
    assert [(call.name, call.arguments) for call in message.tool_calls] == [("get_weather", '{"city": "Paris"}')]
    assert message.content.strip() == "Look:"


def test_a_spelled_closer_inside_an_argument_is_data() -> None:
    """The closer as ordinary tokens inside a string stays in the string, also where it would end a call in text."""
    text = '<tool_call>\n{"name": "get_weather", "arguments": {"city": "'
    inside = "a</tool_call><|im_end|>b"
    ids = [*meant(text), *spelled(inside), *meant('"}}\n</tool_call>')]
    message = read_ids(chatml().turn(MESSAGES, TOOLS), ids, 1)
    assert [call.arguments for call in message.tool_calls] == ['{"city": "' + inside + '"}']


def test_the_end_of_turn_by_its_token_ends_the_turn() -> None:
    vocab = qwen3()
    turn = chatml().turn(MESSAGES, TOOLS)
    turn.feed([*spelled("Bye"), vocab.controls["<|im_end|>"]])
    assert turn.ended
    turn.feed(spelled("more"))
    turn.finish()
    assert turn.message.content == "Bye"
    assert [problem.code for problem in turn.message.problems] == ["after_end"]


def test_characters_split_between_tokens_come_whole() -> None:
    vocab = smollm2()
    text = "漢字 и 😀 ᚠᛇᚻ 𝔘𝔫𝔦"
    single = {data[0]: token for token, data in enumerate(vocab.token_bytes) if data is not None and len(data) == 1}
    fmt = ChatFormat.from_template(sources()["own.json_in_tags"], vocab=vocab)
    turn = fmt.turn(MESSAGES)
    pieces: list[str] = []
    for byte in text.encode():
        pieces += [delta.content for delta in turn.feed([single[byte]])]
    turn.finish()
    assert turn.message.content == text
    assert "".join(pieces) == text
    assert pieces == list(text)
    whole = read_ids(fmt.turn(MESSAGES), list(vocab.encode([(text, True)])), 1)
    assert whole.content == text


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        (b"a\xffb", "a\ufffdb"),
        (b"a\xe6\xbc", "a\ufffd"),
        (b"\xe6\xbc!", "\ufffd!"),
        (b"\xf0\x9f\x98x\xf0\x9f\x98\x80", "\ufffdx😀"),
        (b"\xc3\xc3\xa9", "\ufffdé"),
        (b"\xed\xa0\x80", "\ufffd\ufffd\ufffd"),
    ],
)
@pytest.mark.parametrize("as_ids", [True, False])
def test_invalid_utf8_becomes_a_replacement_character(data: bytes, expected: str, as_ids: bool) -> None:
    vocab = smollm2()
    single = {one[0]: token for token, one in enumerate(vocab.token_bytes) if one is not None and len(one) == 1}
    fmt = ChatFormat.from_template(sources()["own.json_in_tags"], vocab=vocab)
    turn = fmt.turn(MESSAGES)
    for byte in data:
        if as_ids and byte not in single:
            pytest.skip(f"the vocabulary has no token for {byte:#04x}")
        turn.feed([single[byte]] if as_ids else bytes([byte]))
    turn.finish()
    assert turn.message.content == expected
    assert expected == data.decode("utf-8", "replace")


@pytest.mark.parametrize(("first", "second"), [("a", b"b"), (b"a", [1]), ([1], "a"), ([1], b"a")])
def test_one_turn_reads_one_kind(first: Any, second: Any) -> None:
    fmt = ChatFormat.from_template(sources()["own.json_in_tags"], vocab=smollm2())
    turn = fmt.turn(MESSAGES)
    turn.feed(first)
    with pytest.raises(UsageError, match="one kind per turn"):
        turn.feed(second)
    turn.feed(first)


def test_ids_need_a_vocabulary() -> None:
    with pytest.raises(UsageError, match="vocab"):
        ChatFormat.from_template(sources()["own.json_in_tags"]).turn(MESSAGES).feed([1])
