"""Vocabularies from tokenizer.json and GGUF: bytes, control tokens, names of ends, and errors that name the file."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from tokenizers import Tokenizer
from tokenizers.pre_tokenizers import ByteLevel

from dragoman.errors import UsageError, VocabularyError
from dragoman.vocab import Vocabulary, parse_metadata
from dragoman.vocab.bytelevel import BYTE_TO_CHAR, to_bytes, to_piece
from dragoman.vocab.pretokenizers import SPLITS
from tests.vocabularies import gguf_bytes, gguf_tokenizer, small_tokenizer

ADDED = (
    {"content": "<|start|>", "special": True},
    {"content": "<|end|>", "special": True},
    {"content": "<tool>"},
    {"content": "    "},
    {"content": "forecast"},
    {"content": "!", "special": True},
)


def small_gguf(more: Any = (), pre: str | None = "gpt-2") -> bytes:
    return gguf_tokenizer(small_tokenizer(ADDED[:4]), pre=pre, more=more)


def test_the_byte_alphabet_is_the_one_of_tokenizers() -> None:
    assert sorted(BYTE_TO_CHAR) == sorted(ByteLevel.alphabet())
    for byte in range(256):
        assert to_bytes(BYTE_TO_CHAR[byte]) == bytes([byte])
    pieces = ByteLevel(add_prefix_space=False, use_regex=False).pre_tokenize_str("déjà vu 日\t\x00")
    assert [piece for piece, _ in pieces] == [to_piece("déjà vu 日\t\x00".encode())]
    assert to_bytes("日") == "日".encode()


def test_added_tokens_are_control_tokens_unless_people_write_them() -> None:
    data = small_tokenizer(ADDED)
    vocab = Vocabulary.from_tokenizer_json(data)
    ids = {token["content"]: token["id"] for token in data["added_tokens"]}
    assert dict(vocab.controls) == {text: ids[text] for text in ("<|start|>", "<|end|>", "<tool>")}
    assert vocab.special_ids == {ids["<|start|>"], ids["<|end|>"]}
    assert vocab.token_bytes[ids["    "]] == b"    "
    assert vocab.token_bytes[ids["forecast"]] == b"forecast"
    assert vocab.token_bytes[ids["<tool>"]] is None
    assert vocab.is_control(ids["<tool>"])
    assert not vocab.is_control(ids["    "])
    # one byte stays writable, whatever a file calls special
    assert b"!" in vocab.token_bytes
    assert vocab.decode(vocab.encode("hey!")) == b"hey!"


def test_the_caller_can_call_an_added_token_text() -> None:
    vocab = Vocabulary.from_tokenizer_json(small_tokenizer(ADDED), text_tokens=["<tool>"])
    assert "<tool>" not in vocab.controls
    assert b"<tool>" in vocab.token_bytes
    (token_id,) = vocab.encode("<tool>")
    assert vocab.bytes_of(token_id) == b"<tool>"
    with pytest.raises(UsageError, match="no added tokens"):
        Vocabulary.from_tokenizer_json(small_tokenizer(ADDED), text_tokens=["<other>"])


def test_token_bytes_are_what_the_tokenizer_decodes() -> None:
    data = small_tokenizer(ADDED)
    data["decoder"] = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": False, "use_regex": False}
    vocab = Vocabulary.from_tokenizer_json(data)
    reference = Tokenizer.from_str(json.dumps(data))
    for token_id in range(vocab.size):
        shown = reference.decode([token_id], skip_special_tokens=False)
        assert vocab.decode([token_id]).decode("utf-8", "replace") == shown == vocab.text_of(token_id)


def test_decode_leaves_control_tokens_out_on_demand() -> None:
    vocab = Vocabulary.from_tokenizer_json(small_tokenizer(ADDED))
    ids = vocab.encode([("<|start|>", False), ("a<|end|>", True), ("<|end|>", False)])
    assert vocab.decode(ids) == b"<|start|>a<|end|><|end|>"
    assert vocab.decode(ids, controls=False) == b"a<|end|>"


def test_ids_beyond_the_vocabulary_are_refused() -> None:
    vocab = Vocabulary.from_tokenizer_json(small_tokenizer(ADDED))
    for token_id in (-1, vocab.size):
        for call in (vocab.text_of, vocab.bytes_of, lambda number: vocab.decode([number])):
            with pytest.raises(UsageError, match="outside of the vocabulary"):
                call(token_id)


def test_a_model_may_have_more_logits_than_tokens() -> None:
    data = small_tokenizer(ADDED)
    width = Vocabulary.from_tokenizer_json(data).size
    vocab = Vocabulary.from_tokenizer_json(data, size=width + 100)
    assert (vocab.size, len(vocab.token_bytes)) == (width + 100, width + 100)
    assert vocab.bytes_of(width + 99) is None
    assert vocab.text_of(width + 99) == ""
    assert Vocabulary.from_tokenizer_json(data, size=width - 100).size == width  # config.json may count without added


def test_the_hash_tells_vocabularies_apart() -> None:
    data = small_tokenizer(ADDED)
    first = Vocabulary.from_tokenizer_json(data)
    assert first.hash == Vocabulary.from_tokenizer_json(json.dumps(data).encode()).hash
    assert first.hash != Vocabulary.from_tokenizer_json(data, size=first.size + 1).hash
    assert first.hash != Vocabulary.from_tokenizer_json(data, text_tokens=["<tool>"]).hash
    assert first.hash != Vocabulary.from_tokenizer_json(small_tokenizer(ADDED[:-2])).hash


def test_a_folder_is_read_with_its_configuration(tmp_path: Path) -> None:
    data = small_tokenizer(ADDED)
    ids = {token["content"]: token["id"] for token in data["added_tokens"]}
    (tmp_path / "tokenizer.json").write_text(json.dumps(data))
    assert Vocabulary.from_folder(tmp_path).eos_ids == ()
    config = {
        "bos_token": {"content": "<|start|>"},
        "eos_token": "<|end|>",
        "add_bos_token": True,
        "added_tokens_decoder": {str(ids["<tool>"]): {"content": "<tool>", "special": True, "rstrip": True}},
    }
    (tmp_path / "tokenizer_config.json").write_text(json.dumps(config))
    (tmp_path / "generation_config.json").write_text(json.dumps({"eos_token_id": [ids["<tool>"], ids["<|end|>"]]}))
    (tmp_path / "config.json").write_text(json.dumps({"text_config": {"vocab_size": 1000}}))
    vocab = Vocabulary.from_folder(tmp_path)
    assert (vocab.bos_id, vocab.eos_id, vocab.adds_bos) == (ids["<|start|>"], ids["<|end|>"], True)
    assert vocab.eos_ids == (ids["<|end|>"], ids["<tool>"])
    assert ids["<tool>"] in vocab.special_ids
    assert vocab.size == 1000
    assert vocab.encode([("a<tool>  \nb", False)]) == [
        *vocab.encode("a"),
        ids["<tool>"],
        *vocab.encode("b"),
    ]  # rstrip came from the configuration


def test_a_token_that_only_the_configuration_calls_special_is_one() -> None:
    data = small_tokenizer()
    data["model"]["vocab"]["<s>"] = len(data["model"]["vocab"])
    vocab = Vocabulary.from_tokenizer_json(data, config={"eos_token": "<s>", "pad_token": "!"})
    assert vocab.eos_id == data["model"]["vocab"]["<s>"]
    assert list(vocab.controls) == ["<s>"]
    assert vocab.decode(vocab.encode("<s>!")) == b"<s>!"
    assert vocab.eos_id not in vocab.encode("<s>!")


def test_the_post_processor_tells_of_bos() -> None:
    data = small_tokenizer(ADDED)
    data["post_processor"] = {
        "type": "Sequence",
        "processors": [{"type": "TemplateProcessing", "single": [{"SpecialToken": {"id": "<|start|>", "type_id": 0}}]}],
    }
    vocab = Vocabulary.from_tokenizer_json(data, config={"bos_token": "<|start|>"})
    assert vocab.adds_bos
    assert vocab.bos_id not in vocab.encode("a")


def change(**model: Any) -> dict[str, Any]:
    return small_tokenizer(ADDED, model=model)


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"GGUF\x03\x00\x00\x00", "is a GGUF file: read it with Vocabulary.from_gguf"),
        (
            b"\n\x0e\n\x05<unk>\x15\x00\x00\x00\x00\x18\x02",
            "SentencePiece model: read it with Vocabulary.from_sentencepiece",
        ),
        (b"{", "is no tokenizer.json"),
        (b"[" * 100_000, "is no tokenizer.json"),
        (b"[]", "its top level is no object"),
        (b'{"chat_template": ""}', "has no object 'model'"),
        (
            b'{"config": {}, "vocab": [{"rank": 0, "token_bytes": "AA=="}]}',
            "tekken file .* read it with Vocabulary.from_tekken",
        ),
        (change(type="Unigram"), "is a Unigram tokenizer over characters in which no step"),
        (change(type="WordPiece"), "is a WordPiece tokenizer"),
        (change(byte_fallback=True), "byte fallback"),
        (change(end_of_word_suffix="</w>"), "suffixes"),
        (
            small_tokenizer(pre_tokenizer={"type": "Whitespace"}),
            "over characters in which no step says how spaces are written",
        ),
        (change(vocab={}), "has no vocabulary"),
        (change(vocab={"a": 0, "b": 0}), "two tokens of model.vocab have one id"),
        (change(vocab={"a": -1}), "a token id is not an integer"),
        (change(vocab={"a": 10**15}), "a token id is not an integer"),
        (change(merges=["abc"]), "is no merge of two tokens"),
        (small_tokenizer([{"content": "<a>", "id": 3}]), "which is taken"),
        (small_tokenizer([{"content": ""}]), "has no text"),
        (small_tokenizer([{"content": "<a>", "id": 10**15}]), "has id"),
        ({**small_tokenizer(), "added_tokens": ["<a>"]}, "is no added token"),
    ],
)
def test_other_and_damaged_files_are_named(data: Any, message: str) -> None:
    with pytest.raises(VocabularyError, match=message):
        Vocabulary.from_tokenizer_json(data)


@pytest.mark.parametrize(("model", "message"), [({"merges": [["Q", "Q"]]}, "has no token"), ({}, "cannot be built")])
def test_what_the_package_refuses_is_a_vocabulary_error(model: dict[str, Any], message: str) -> None:
    normalizer = None if model else {"type": "NoSuchNormalizer"}
    vocab = Vocabulary.from_tokenizer_json(small_tokenizer(model=model, normalizer=normalizer))
    with pytest.raises(VocabularyError, match=message):
        vocab.encode("a")


def test_missing_files_are_named(tmp_path: Path) -> None:
    for call in (Vocabulary.from_folder, Vocabulary.from_tokenizer_json, Vocabulary.from_gguf):
        with pytest.raises(VocabularyError, match="absent"):
            call(tmp_path / "absent")
    with pytest.raises(VocabularyError, match=r"holds no tokenizer\.json"):
        Vocabulary.from_folder(tmp_path)
    with pytest.raises(VocabularyError, match="is a folder"):
        Vocabulary.from_tokenizer_json(tmp_path)
    (tmp_path / "vocab.txt").touch()
    with pytest.raises(VocabularyError, match="a WordPiece vocabulary"):
        Vocabulary.from_folder(tmp_path)
    (tmp_path / "tiktoken.model").touch()
    (tmp_path / "vocab.txt").unlink()
    with pytest.raises(VocabularyError, match=r"does not say how it cuts text: name the cut \(pre=\)"):
        Vocabulary.from_folder(tmp_path)


# GGUF


def test_a_gguf_holds_the_same_vocabulary(tmp_path: Path) -> None:
    data = small_tokenizer(ADDED[:4])
    ids = {token["content"]: token["id"] for token in data["added_tokens"]}
    ends = [("tokenizer.ggml.bos_token_id", 4, ids["<|start|>"]), ("tokenizer.ggml.eos_token_id", 4, ids["<|end|>"])]
    more = [*ends, ("tokenizer.ggml.eot_token_id", 4, ids["<tool>"]), ("tokenizer.ggml.add_bos_token", 7, True)]
    file = tmp_path / "model.gguf"
    file.write_bytes(gguf_tokenizer(data, more=[*more, ("general.name", 8, "Small One")]))
    vocab, same = Vocabulary.from_gguf(file), Vocabulary.from_tokenizer_json(data)
    assert (vocab.token_bytes, vocab.controls) == (same.token_bytes, same.controls)
    assert (vocab.name, vocab.bos_id, vocab.eos_id, vocab.eot_id) == ("Small One", *list(ids.values())[:3])
    assert vocab.eos_ids == (ids["<|end|>"], ids["<tool>"])
    assert vocab.special_ids == same.special_ids | {ids["<tool>"]}  # an end of turn is a control token, however typed
    assert vocab.adds_bos
    parts = [("<|start|>user\n", False), ("What is     the weather? <|end|>", True), ("<|end|>", False)]
    assert vocab.encode(parts) == same.encode(parts)


def test_unused_tokens_have_no_bytes() -> None:
    pieces = [*list(BYTE_TO_CHAR), "[PAD0]"]
    pairs = [
        ("tokenizer.ggml.model", 8, "gpt2"),
        ("tokenizer.ggml.pre", 8, "gpt-2"),
        ("tokenizer.ggml.tokens", 9, (8, pieces)),
        ("tokenizer.ggml.token_type", 9, (5, [1] * 256 + [5])),
    ]
    vocab = Vocabulary.from_gguf(parse_metadata(gguf_bytes(pairs)))
    assert (vocab.size, vocab.bytes_of(256), vocab.text_of(256), vocab.is_control(256)) == (257, None, "", False)
    assert vocab.decode(vocab.encode("[PAD0]")) == b"[PAD0]"
    assert vocab.missing_bytes == frozenset()


@pytest.mark.parametrize("name", SPLITS)
def test_every_known_pre_tokeniser_builds_and_loses_nothing(name: str) -> None:
    vocab = Vocabulary.from_gguf(parse_metadata(small_gguf(pre=name)))
    text = "I'll pay 12345 €\n\n  to   HTTPServer日本語 don'T\t\r\n"
    assert vocab.decode(vocab.encode(text)) == text.encode()


@pytest.mark.parametrize(
    ("name", "cut"),
    [
        ("gpt-2", "I|'ll| pay| 12345| usd|  | camelCase|'|S|\n\n"),
        ("smollm", "I|'ll| pay| |1|2|3|4|5| usd|  | camelCase|'|S|\n\n"),
        ("llama-bpe", "I|'ll| pay| |123|45| usd|  | camelCase|'S|\n\n"),
        ("qwen2", "I|'ll| pay| |1|2|3|4|5| usd|  | camelCase|'S|\n\n"),
        ("qwen35", "I|'ll| pay| |1|2|3|4|5| usd|  | camelCase|'S|\n\n"),
        ("deepseek-v3", "I|'ll| pay| |123|45| usd|  | camelCase|'S|\n\n"),
        ("gpt-4o", "I'll| pay| |123|45| usd|  | camel|Case'S|\n\n"),
        ("kimi-k2", "I'll| pay| |123|45| usd|  | camel|Case'S| |中文|abc|/\n"),
        ("tekken", "I|'ll| pay| |1|2|3|4|5| usd|  | camel|Case|'S|\n\n"),
    ],
)
def test_pre_tokenisers_cut_as_their_models_do(name: str, cut: str) -> None:
    shell: dict[str, Any] = {"version": "1.0", "added_tokens": [], "model": {"type": "BPE", "vocab": {}, "merges": []}}
    shell["pre_tokenizer"] = dict(SPLITS[name].pre_tokenizer)
    splitter = Tokenizer.from_str(json.dumps(shell)).pre_tokenizer
    assert splitter is not None
    pieces = splitter.pre_tokenize_str(cut.replace("|", ""))
    assert [to_bytes(piece).decode() for piece, _ in pieces] == cut.split("|")


def without(key: str) -> bytes:
    values = parse_metadata(small_gguf()).values
    kinds = {"tokenizer.ggml.token_type": 5}
    pairs = [
        (name, 8, value) if isinstance(value, str) else (name, 9, (kinds.get(name, 8), value))
        for name, value in values.items()
        if name != key
    ]
    return gguf_bytes(pairs)


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (small_gguf(pre="not-yet-known"), r"unknown pre-tokeniser 'not-yet-known'; known are gpt-2, .*tokenizer\.json"),
        (small_gguf(pre="default"), "does not say how it cuts text"),
        (small_gguf(pre=None), "does not say how it cuts text"),
        (gguf_bytes([("tokenizer.ggml.model", 8, "llama")]), "control tokens cannot be told"),
        (gguf_bytes([("tokenizer.ggml.model", 8, "bert")]), "WordPiece"),
        (gguf_bytes([("tokenizer.ggml.model", 8, "whatever")]), "'whatever'"),
        (gguf_bytes([("general.name", 8, "adapter")]), "holds no tokenizer"),
        (without("tokenizer.ggml.token_type"), "control tokens cannot be told"),
        (without("tokenizer.ggml.tokens"), "control tokens cannot be told"),
        (small_gguf([("tokenizer.ggml.eos_token_id", 4, 99_999)]), "eos_id is 99999"),
        (small_gguf([("tokenizer.ggml.eos_token_id", 8, "</s>")]), "should be an integer"),
    ],
)
def test_other_and_damaged_gguf_tokenizers_are_named(data: bytes, message: str) -> None:
    with pytest.raises(VocabularyError, match=message):
        Vocabulary.from_gguf(parse_metadata(data))


def test_the_caller_can_name_the_pre_tokeniser() -> None:
    vocab = Vocabulary.from_gguf(parse_metadata(small_gguf(pre="not-yet-known")), pre="llama-bpe")
    same = Vocabulary.from_gguf(parse_metadata(small_gguf(pre="llama-bpe")))
    assert vocab.encode("12345 weather") == same.encode("12345 weather")
