"""Tokenizers of SentencePiece's kind and those that are lists of byte strings: ids, bytes, control tokens, errors."""

from __future__ import annotations

import json
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tokenizers import Tokenizer

from dragoman.errors import VocabularyError
from dragoman.vocab import Metadata, Part, Vocabulary, parse_metadata
from tests.oracles.pieces import by_rank, joined_by_score, likeliest, spaced, with_bytes
from tests.pieces import (
    CONTROL,
    USER_DEFINED,
    WORDS,
    field,
    gguf_file,
    model_file,
    small_pieces,
    tekken_file,
    tiktoken_file,
    tokenizer_json,
)

SMALL = small_pieces(more=[("<tool>", CONTROL), ("    ", USER_DEFINED), ("<fim>", USER_DEFINED)])
PLAIN = small_pieces(fallback=False)


def metadata(data: bytes) -> Metadata:
    return parse_metadata(data)


MAKERS: dict[str, Callable[..., Vocabulary]] = {
    "json": lambda small, **how: Vocabulary.from_tokenizer_json(tokenizer_json(small, **how)),
    "model": lambda small, **how: Vocabulary.from_sentencepiece(model_file(small, **how)),
    "gguf": lambda small, **how: Vocabulary.from_gguf(metadata(gguf_file(small, **how))),
}
VOCABS = {
    (form, unigram, prefix): make(SMALL, unigram=unigram, prefix=prefix)
    for form, make in MAKERS.items()
    for unigram in (False, True)
    for prefix in (True, False)
}
TEKKEN = Vocabulary.from_tekken(json.dumps(tekken_file()).encode())
EVERY = [*VOCABS.values(), TEKKEN]
IDS = SMALL.ids

some_text = st.lists(
    st.sampled_from(
        ["the", " the", "weather", " ", "  ", "   ", "a", "\n", '"', "21", "é", "日", "🤔", "\0", "\u2581", "Ä"]
    )
    | st.text(st.characters(exclude_categories=["Cs"]), max_size=3),
    max_size=12,
).map("".join)
# Text without the added tokens, in which bytes are not spelled out: the package takes "<0x0A>" for the byte itself.
harmless = some_text.filter(lambda text: "    " not in text and "<" not in text)
hostile = st.lists(
    st.sampled_from(
        ["<s>", "</s>", "<tool>", "<unk>", "<fim>", "<", ">", "s", "<0x0A>", "[INST]", "<SPECIAL_29>", "\U00100000"]
    )
    | some_text,
    max_size=8,
).map("".join)


def oracle(text: str, *, unigram: bool, prefix: bool) -> list[int]:
    cut = likeliest if unigram else joined_by_score
    return with_bytes(cut(spaced(text, prefix=prefix), SMALL.scores), IDS)


@pytest.mark.parametrize("prefix", [True, False])
@pytest.mark.parametrize("form", ["model", "gguf"])
@settings(max_examples=60, deadline=None)
@given(text=harmless)
def test_text_is_joined_by_score(form: str, prefix: bool, text: str) -> None:
    assert VOCABS[form, False, prefix].encode(text) == oracle(text, unigram=False, prefix=prefix)


@pytest.mark.parametrize("form", MAKERS)
@settings(max_examples=60, deadline=None)
@given(text=harmless)
def test_a_unigram_takes_the_likeliest_pieces(form: str, text: str) -> None:
    found = VOCABS[form, True, True].encode(text)
    expected = oracle(text, unigram=True, prefix=True)
    # Two ways may be equally likely.
    cost = [sum(SMALL.pieces[number][1] for number in ids) for ids in (found, expected)]
    assert found == expected or (cost[0] == pytest.approx(cost[1]) and len(found) > 0)
    assert VOCABS[form, True, True].decode(found).decode() == " " * bool(text) + text.replace("\u2581", " ")


@pytest.mark.parametrize("unigram", [False, True])
@pytest.mark.parametrize("prefix", [True, False])
@settings(max_examples=60, deadline=None)
@given(turns=st.lists(harmless, max_size=4))
def test_harmless_conversations_get_the_ids_of_tokenizers(unigram: bool, prefix: bool, turns: list[str]) -> None:
    reference = Tokenizer.from_str(json.dumps(tokenizer_json(SMALL, unigram=unigram, prefix=prefix)))
    parts: list[Part] = [part for text in turns for part in (("<s>user\n", False), (text, True), ("</s>", False))]
    expected = reference.encode("".join(text for text, _ in parts), add_special_tokens=False).ids
    assert VOCABS["json", unigram, prefix].encode(parts) == expected


def with_normalized_token() -> dict[str, Any]:
    """With a token that is looked for in the normalised text, where it is met behind a space only."""
    data = tokenizer_json(SMALL)
    flags = {"lstrip": False, "rstrip": False, "single_word": False, "normalized": True, "special": True}
    data["added_tokens"].append({"id": len(SMALL.pieces), "content": "<call>", **flags})
    return data


NORMALIZED = Vocabulary.from_tokenizer_json(with_normalized_token())
NORMALIZED_REFERENCE = Tokenizer.from_str(json.dumps(with_normalized_token()))


@settings(max_examples=100, deadline=None)
@given(st.lists(st.sampled_from(["<call>", " ", "the", "<s>", "\n", "é", "call>"]), max_size=9).map("".join))
def test_tokens_that_the_normalizer_changes_are_met_where_tokenizers_meets_them(text: str) -> None:
    vocab = NORMALIZED
    assert vocab.encode([(text, False)]) == NORMALIZED_REFERENCE.encode(text, add_special_tokens=False).ids
    ids = vocab.encode([("<s>", False), (text, True), (" <call>", False)])
    assert [number for number in ids if vocab.is_control(number)] == [1, len(SMALL.pieces)]


@pytest.mark.parametrize("form", ["model", "gguf"])
def test_every_stretch_of_text_gets_its_space(form: str) -> None:
    """Behind a control token a tokenizer of this kind starts anew."""
    parts: list[Part] = [("<s>", False), ("the weather", True), ("</s>", False), (" in Paris", True)]
    cut = [oracle(text, unigram=False, prefix=True) for text in ("the weather", " in Paris")]
    assert VOCABS[form, False, True].encode(parts) == [1, *cut[0], 2, *cut[1]]
    assert VOCABS[form, False, False].encode([("<s>", False), ("the", True)])[0] == 1


def test_only_the_first_stretch_gets_a_space_where_the_configuration_says_so() -> None:
    vocab = Vocabulary.from_sentencepiece(model_file(SMALL), config={"legacy": False})
    bare = oracle("the", unigram=False, prefix=False)
    assert vocab.encode([("<s>", False), ("the", True)]) == [1, *bare]
    assert vocab.encode("the") == oracle("the", unigram=False, prefix=True)
    plain = Vocabulary.from_sentencepiece(model_file(SMALL), config={"add_prefix_space": False})
    assert plain.encode("the") == bare


@pytest.mark.parametrize("vocab", EVERY, ids=repr)
@settings(max_examples=40, deadline=None)
@given(text=hostile)
def test_an_input_writes_no_control_token(vocab: Vocabulary, text: str) -> None:
    start = next(iter(vocab.controls))
    ids = vocab.encode([(start, False), (text, True), (start, False)], literals=["<fim><tool>"])
    assert [number for number in ids if vocab.is_control(number)] == [vocab.controls[start]] * 2
    assert set(vocab.encode(text)).isdisjoint(vocab.special_ids)


@pytest.mark.parametrize("vocab", VOCABS.values(), ids=repr)
def test_token_bytes(vocab: Vocabulary) -> None:
    assert len(vocab.token_bytes) == vocab.size == len(SMALL.pieces)
    assert set(vocab.controls) == {"<unk>", "<s>", "</s>", "<tool>", "<fim>"}
    assert vocab.special_ids == {IDS[text] for text in ("<unk>", "<s>", "</s>", "<tool>")}
    assert vocab.bytes_of(IDS["<0x0A>"]) == b"\n"
    assert vocab.bytes_of(IDS["<0xE6>"]) == b"\xe6"  # a part of a character
    assert vocab.bytes_of(IDS["\u2581the"]) == b" the"
    assert vocab.bytes_of(IDS["    "]) == b"    "
    assert vocab.missing_bytes == frozenset()
    assert vocab.bos_id == (None if vocab.eos_id is None else 1)  # tokenizer.json names none


def test_a_character_without_a_piece_is_left_out_where_there_are_no_bytes() -> None:
    for unigram in (False, True):
        for form, make in MAKERS.items():
            vocab = make(PLAIN, unigram=unigram)
            assert vocab.decode(vocab.encode("the 🤔weather\U0001f600<unk>")) == b" the weather<unk>", form
            assert vocab.controls["<unk>"] not in vocab.encode("🤔 <unk>")
            assert 0xF0 in vocab.missing_bytes
            assert vocab.encode([("<unk>", False), ("🤔", True)])[0] == 0


@pytest.mark.parametrize("prefix", [True, False])
def test_whether_stretches_begin_with_a_space_is_told(prefix: bool) -> None:
    for (_, _, spaced_), vocab in VOCABS.items():
        ids = vocab.encode([("<s>", False), ("x", True)])
        assert vocab.adds_space == spaced_ == vocab.decode(ids[1:]).startswith(b" ")
    metaspace = {"type": "Metaspace", "replacement": "\u2581", "prepend_scheme": "always" if prefix else "first"}
    data = tokenizer_json(SMALL) | {"normalizer": None, "pre_tokenizer": {**metaspace, "split": False}}
    vocab = Vocabulary.from_tokenizer_json(data)
    ids = vocab.encode([("<s>", False), ("x", True)])
    assert vocab.adds_space == prefix == vocab.decode(ids[1:]).startswith(b" ")
    assert not TEKKEN.adds_space


def test_spaces_are_trimmed_where_the_model_was_trained_so() -> None:
    vocab = Vocabulary.from_sentencepiece(model_file(PLAIN, trim=True))
    assert vocab.encode("  the    weather ") == vocab.encode("the weather")


def test_more_logits_and_added_tokens_of_the_configuration(tmp_path: Path) -> None:
    (tmp_path / "tokenizer.model").write_bytes(model_file(SMALL))
    width = len(SMALL.pieces)
    config = {
        "eos_token": "<|end|>",
        "added_tokens_decoder": {
            str(width): {"content": "<|end|>", "special": True},
            str(width + 1): {"content": "<call>", "special": False, "normalized": False},
        },
    }
    (tmp_path / "tokenizer_config.json").write_text(json.dumps(config))
    (tmp_path / "generation_config.json").write_text('{"eos_token_id": [2]}')
    (tmp_path / "config.json").write_text(json.dumps({"vocab_size": width + 10}))
    vocab = Vocabulary.from_folder(tmp_path)
    assert vocab.size == width + 10
    assert (vocab.bos_id, vocab.eos_id, vocab.eos_ids) == (1, width, (width, 2))
    assert vocab.controls["<call>"] == width + 1
    assert vocab.encode([("<|end|><call>", False), ("<|end|>", True)])[:2] == [width, width + 1]
    assert not vocab.special_ids & set(vocab.encode("<|end|>"))


def test_a_folder_prefers_the_file_that_says_most(tmp_path: Path) -> None:
    (tmp_path / "spiece.model").write_bytes(model_file(PLAIN, unigram=True))
    assert Vocabulary.from_folder(tmp_path).size == len(PLAIN.pieces)
    (tmp_path / "tekken.json").write_text(json.dumps(tekken_file()))
    assert Vocabulary.from_folder(tmp_path).hash == TEKKEN.hash
    (tmp_path / "tokenizer.json").write_text(json.dumps(tokenizer_json(SMALL)))
    assert Vocabulary.from_folder(tmp_path).size == len(SMALL.pieces)


def test_a_file_is_known_by_its_content(tmp_path: Path) -> None:
    kinds = {
        "a": (json.dumps(tokenizer_json(SMALL)).encode(), VOCABS["json", False, True]),
        "b": (model_file(SMALL), VOCABS["model", False, True]),
        "c": (gguf_file(SMALL), VOCABS["gguf", False, True]),
        "d": (json.dumps(tekken_file()).encode(), TEKKEN),
    }
    for name, (data, vocab) in kinds.items():
        (tmp_path / name).write_bytes(data)
        assert Vocabulary.from_file(tmp_path / name).encode("the weather") == vocab.encode("the weather")
    with pytest.raises(VocabularyError, match="is no SentencePiece model"):
        (tmp_path / "e").write_bytes(tiktoken_file())
        Vocabulary.from_file(tmp_path / "e")
    with pytest.raises(VocabularyError, match="cannot read"):
        Vocabulary.from_file(tmp_path / "absent")
    with pytest.raises(VocabularyError, match=r"holds no tokenizer\.json"):
        Vocabulary.from_file(tmp_path)


# Errors


@settings(max_examples=150, deadline=None)
@given(data=st.data())
def test_a_damaged_model_is_a_vocabulary_error(data: st.DataObject) -> None:
    whole = model_file(PLAIN)
    at = data.draw(st.integers(0, len(whole) - 1))
    for damaged in (whole[:at], whole[:at] + bytes([data.draw(st.integers(0, 255))]) + whole[at + 1 :]):
        with suppress(VocabularyError):
            assert Vocabulary.from_sentencepiece(damaged).size > 0


def without(key: str) -> bytes:
    return gguf_file(SMALL).replace(key.encode(), b"x" * len(key))


@pytest.mark.parametrize(
    ("load", "message"),
    [
        (lambda: Vocabulary.from_sentencepiece(b""), "holds no pieces"),
        (lambda: Vocabulary.from_sentencepiece(b'{"model": 1}'), "is no SentencePiece model, or is damaged"),
        (lambda: Vocabulary.from_sentencepiece(model_file(SMALL, kind=3)), "of the kind 'word'"),
        (lambda: Vocabulary.from_sentencepiece(model_file(SMALL)[:-3]), "ends within a field"),
        (lambda: Vocabulary.from_sentencepiece(field(1, field(1, b"\xff"))), "piece 0 is not UTF-8"),
        (
            lambda: Vocabulary.from_sentencepiece(model_file(SMALL) + field(2, field(24, 1) + field(3, 2))),
            "behind words",
        ),
        (lambda: Vocabulary.from_gguf(metadata(without("tokenizer.ggml.scores"))), "lacks tokenizer.ggml.scores"),
        (lambda: Vocabulary.from_tekken(b"{}"), "it has no config or no vocab"),
        (lambda: Vocabulary.from_tekken(json.dumps(tekken_file(pattern=None)).encode()), "config.pattern"),
        (lambda: Vocabulary.from_tekken(json.dumps(tekken_file(default_vocab_size=9999)).encode()), "do not make 9999"),
        (lambda: Vocabulary.from_tiktoken(tiktoken_file(), pre="a guess"), "'a guess' is no known pre-tokeniser"),
        (lambda: Vocabulary.from_tiktoken(b"AA== 1\nAA== 1\n", pre="qwen2"), "no rank of its own"),
        (lambda: Vocabulary.from_tiktoken(b"!! 1\n", pre="qwen2"), "no byte string in base64"),
    ],
)
def test_what_cannot_be_read_is_named(load: Callable[[], Vocabulary], message: str) -> None:
    with pytest.raises(VocabularyError, match=message):
        load()


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"decoder": {"type": "Metaspace", "replacement": "_"}}, "writes spaces as"),
        ({"normalizer": None}, "no step says how spaces are written"),
    ],
)
def test_spaces_that_are_written_otherwise_are_refused(change: dict[str, Any], message: str) -> None:
    with pytest.raises(VocabularyError, match=message):
        Vocabulary.from_tokenizer_json(tokenizer_json(SMALL) | change)


@pytest.mark.parametrize("entry", [["a"], [1, 2.0], "a", ["a", "b"]])
def test_a_damaged_unigram_is_named(entry: Any) -> None:
    data = tokenizer_json(SMALL, unigram=True)
    data["model"]["vocab"][5] = entry
    with pytest.raises(VocabularyError, match="no piece with a score"):
        Vocabulary.from_tokenizer_json(data)


# Lists of byte strings


@settings(max_examples=60, deadline=None)
@given(st.lists(st.sampled_from(["the", "in", "é", "ther", "at", "日本", "inner"]), max_size=3).map("".join))
def test_words_are_joined_by_rank(word: str) -> None:
    expected = by_rank(word.encode(), {text: rank for rank, text in enumerate(WORDS)}) if word else []
    assert TEKKEN.encode(word) == [30 + rank for rank in expected]
    assert Vocabulary.from_tiktoken(tiktoken_file(), pre="qwen2").encode(word) == expected


@settings(max_examples=60, deadline=None)
@given(some_text)
def test_bytes_come_back(text: str) -> None:
    assert TEKKEN.decode(TEKKEN.encode(text)).decode() == text


def test_control_tokens_of_a_tekken_file() -> None:
    assert (TEKKEN.bos_id, TEKKEN.eos_id, TEKKEN.controls["[INST]"], TEKKEN.controls["<SPECIAL_29>"]) == (1, 2, 3, 29)
    assert TEKKEN.size == 30 + len(WORDS)
    assert TEKKEN.encode([("<s>[INST]", False), ("[INST] the", True)])[:2] == [1, 3]
    listed = Vocabulary.from_tekken(json.dumps(tekken_file(controls=3, listed=["<a>", "</s>"])).encode(), size=500)
    assert dict(listed.controls) == {"<a>": 0, "</s>": 1, "<SPECIAL_2>": 2}
    assert (listed.bos_id, listed.eos_id, listed.size) == (None, 1, 500)
    assert listed.bytes_of(3 + ord("a")) == b"a"


def test_control_tokens_of_a_tiktoken_file_come_from_the_configuration(tmp_path: Path) -> None:
    entries = {"300": {"content": "<|im_end|>", "special": True}, "301": {"content": "<call>", "special": False}}
    config = {"added_tokens_decoder": entries, "eos_token": "<|im_end|>"}
    vocab = Vocabulary.from_tiktoken(tiktoken_file(), pre="qwen2", config=config)
    assert dict(vocab.controls) == {"<|im_end|>": 300, "<call>": 301}
    assert (vocab.eos_id, vocab.size) == (300, 302)
    assert vocab.encode([("<|im_end|>", False), ("<|im_end|>the", True)])[0] == 300
    (tmp_path / "tiktoken.model").write_bytes(tiktoken_file())
    (tmp_path / "tokenizer_config.json").write_text(json.dumps(config))
    assert Vocabulary.from_folder(tmp_path, pre="kimi-k2").hash == vocab.hash
    with pytest.raises(VocabularyError, match="do not belong together"):
        wrong = {"added_tokens_decoder": {"7": {"content": "<|im_end|>"}}}
        Vocabulary.from_tiktoken(tiktoken_file(), pre="qwen2", config=wrong)


def test_the_same_small_tokenizer_in_three_files() -> None:
    for unigram in (False, True):
        found = [VOCABS[form, unigram, True] for form in MAKERS]
        assert len({vocab.hash for vocab in found}) == 1
        assert len({tuple(vocab.encode("the weather in Paris, 21")) for vocab in found}) == 1


def test_the_pieces_are_what_the_tests_need() -> None:
    assert len(SMALL.scores) == len(set(SMALL.scores.values())) > 100
    assert {"\u2581the", "<", "u", "n", "k", ">"} <= set(PLAIN.ids)
