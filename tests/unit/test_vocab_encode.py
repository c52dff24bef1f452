"""Encoding: no input writes a control token, and harmless text gets the tokenizer's own ids.

The reference is the package tokenizers itself on the whole text, which knows no provenance.
"""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tokenizers import Tokenizer

from dragoman.errors import UsageError
from dragoman.vocab import Part, Vocabulary
from dragoman.vocab.encode import private_names
from tests.vocabularies import small_tokenizer

# Every flag and kind of token that tokenizer.json knows, with overlaps.
ADDED: tuple[dict[str, Any], ...] = (
    {"content": "<s>", "special": True},
    {"content": "<s>>", "special": True},
    {"content": "</s>", "special": True, "lstrip": True},
    {"content": "<u>", "special": True, "rstrip": True},
    {"content": "<n>", "special": True, "normalized": True},
    {"content": "<nn>", "special": True, "normalized": True, "lstrip": True, "rstrip": True},
    {"content": "<tool>"},
    {"content": "</tool>", "normalized": True},
    {"content": "<fim>"},
    {"content": "w<>w", "special": True, "single_word": True},
    {"content": "  "},
    {"content": "weather", "single_word": True},
)
MARKERS = [token["content"] for token in ADDED[:10]]
NFC = {"type": "NFC"}
DATA = small_tokenizer(ADDED)
DATA_NFC = small_tokenizer(ADDED, normalizer=NFC)
VOCAB = Vocabulary.from_tokenizer_json(DATA)
VOCAB_NFC = Vocabulary.from_tokenizer_json(DATA_NFC)
PRIVATE = "\U00100000\U00100001\U00100002\U0010fffd\ue000"

innocent = st.lists(
    st.sampled_from(
        ["the ", "weather", " ", "  ", "\n", "a", "é", "e\u0301", "\u0338", "12", "日本", "?", "w", PRIVATE]
    )
    | st.text(st.characters(exclude_categories=["Cs"], exclude_characters="<>"), max_size=3),
    max_size=6,
).map("".join)
# What an attacker would try: whole markers, pieces of them, private-use characters.
hostile = st.lists(
    st.sampled_from([*MARKERS, "<", ">", "</", "s>", "<to", "ol>", "w<", ">w", *PRIVATE, "\U00100000" * 3]) | innocent,
    max_size=8,
).map("".join)
written = st.lists(st.sampled_from(MARKERS) | innocent, max_size=4).map("".join)


def conversations(inputs: st.SearchStrategy[str]) -> st.SearchStrategy[list[Part]]:
    return st.lists(st.tuples(written, st.just(False)) | st.tuples(inputs, st.just(True)), max_size=8)


REFERENCE, REFERENCE_NFC = (Tokenizer.from_str(json.dumps(data)) for data in (DATA, DATA_NFC))


def plain(reference: Tokenizer, text: str) -> list[int]:
    """The ids of a tokenizer that knows no provenance."""
    ids: list[int] = reference.encode(text, add_special_tokens=False).ids
    return ids


def joined(parts: list[Part]) -> str:
    return "".join(text for text, _ in parts)


@settings(max_examples=300, deadline=None)
@given(parts=conversations(innocent), normalized=st.booleans())
def test_harmless_text_gets_the_ids_of_the_tokenizer(parts: list[Part], normalized: bool) -> None:
    vocab, reference = (VOCAB_NFC, REFERENCE_NFC) if normalized else (VOCAB, REFERENCE)
    # U+0338 after '>' composes under NFC and takes a `normalized` token of the template apart; here it does not.
    parts = [(text.replace("\u0338", ""), is_input) for text, is_input in parts] if normalized else parts
    assert vocab.encode(parts) == plain(reference, joined(parts))


@settings(max_examples=300, deadline=None)
@given(text=hostile)
def test_an_input_writes_no_control_token(text: str) -> None:
    for vocab in (VOCAB, VOCAB_NFC):
        assert not set(vocab.encode(text, literals=["<tool>, </tool>"])) & (
            vocab.special_ids | {vocab.controls["<tool>"], vocab.controls["</tool>"]}
        )


@settings(max_examples=300, deadline=None)
@given(parts=conversations(hostile))
def test_control_tokens_are_those_of_the_template_in_its_order(parts: list[Part]) -> None:
    parts = [(text.replace("w<>w", ""), is_input) for text, is_input in parts]  # looks at its neighbours
    runs: list[Part] = []
    for text, is_input in parts:
        if text and runs and runs[-1][1] == is_input:
            runs[-1] = (runs[-1][0] + text, is_input)
        elif text:
            runs.append((text, is_input))
    expected = [
        number
        for text, is_input in runs
        if not is_input
        for number in plain(REFERENCE, text)
        if VOCAB.is_control(number)
    ]
    found = VOCAB.encode(parts, controls=VOCAB.controls)
    assert [number for number in found if VOCAB.is_control(number)] == expected


@settings(max_examples=300, deadline=None)
@given(text=hostile | st.text(st.characters(exclude_categories=["Cs"])))
def test_text_comes_back_byte_for_byte(text: str) -> None:
    assert VOCAB.decode(VOCAB.encode(text)) == text.encode("utf-8")


def test_the_seam_is_not_cut() -> None:
    """Part by part, 'wea' + 'ther' would be other tokens than 'weather'."""
    parts = [("What is the wea", False), ("ther", True), (" in Par", False), ("is", True)]
    assert VOCAB.encode(parts) == VOCAB.encode(joined(parts)) == plain(REFERENCE, joined(parts))


def test_a_control_token_across_the_border_is_text() -> None:
    for parts in (
        [("<", True), ("s>", False)],
        [("<", False), ("s>", True)],
        [("</", False), ("s", True), (">", False)],
    ):
        ids = VOCAB.encode(parts)
        assert not any(VOCAB.is_control(number) for number in ids)
        assert VOCAB.decode(ids) == joined(parts).encode()


def test_an_input_cannot_take_the_template_s_token_away() -> None:
    """The tokenizer itself would read '<s>>' or compose '>' with U+0338."""
    assert VOCAB.encode([("<s>", False), (">", True)]) == [VOCAB.controls["<s>"], *VOCAB.encode(">")]
    assert VOCAB.encode([("<", True), ("<s>", False)]) == [*VOCAB.encode("<"), VOCAB.controls["<s>"]]
    ids = VOCAB_NFC.encode([("<n>", False), ("\u0338", True)])
    assert ids[0] == VOCAB_NFC.controls["<n>"]


def test_an_added_token_is_control_where_the_template_can_write_it() -> None:
    tool = VOCAB.controls["<tool>"]
    assert VOCAB.encode("<tool>") == [tool]  # as the tokenizer has it: nothing says that it is a control token here
    assert tool not in VOCAB.encode("<tool>", literals=["{% if x %}<tool>\n"])
    assert tool not in VOCAB.encode("<tool>", controls=["<tool>"])
    parts = [("<tool>", False), ("<tool>", True)]
    assert VOCAB.encode(parts)[0] == tool
    assert VOCAB.encode(parts).count(tool) == 1


def test_single_word_tokens_look_across_the_border() -> None:
    token = VOCAB.controls["w<>w"]
    assert token in VOCAB.encode([("w<>w", False), (" x", True)])
    for neighbour in ("x", "é", "\u0301", "5", "_"):
        parts = [("w<>w", False), (neighbour, True)]
        assert token not in VOCAB.encode(parts)
        assert VOCAB.encode(parts) == plain(REFERENCE, joined(parts))


def test_private_names_of_one_call_are_text_in_another() -> None:
    marks = "".join(map(chr, range(0x100000, 0x100011)))
    specials = [token["content"] for token in ADDED if token.get("special")]
    names = "".join(private_names(specials, marks).values())
    assert len(VOCAB._encoder._copy(marks, frozenset(specials)).tokenizer.encode(names).ids) == len(specials)
    ids = VOCAB.encode([("<s>", False), (names, True), ("<s>", False)])
    assert [number for number in ids if VOCAB.is_control(number)] == [VOCAB.controls["<s>"]] * 2
    assert VOCAB.decode(ids) == f"<s>{names}<s>".encode()


def test_a_text_of_all_private_characters_is_refused() -> None:
    every = "".join(map(chr, range(0x100000, 0x10FFFE)))
    assert VOCAB.decode(VOCAB.encode(every[17:])) == every[17:].encode()
    with pytest.raises(UsageError, match="private-use"):
        VOCAB.encode(every)


def test_lone_surrogates_are_refused() -> None:
    with pytest.raises(UsageError, match=r"lone surrogate \(U\+D800 at character 2\)"):
        VOCAB.encode("ab\ud800")


def test_bytes_without_a_token_do_not_become_the_unknown_token() -> None:
    data = small_tokenizer([{"content": "<unk>", "special": True}], model={"unk_token": "<unk>"})
    vocab = data["model"]["vocab"]
    vocab["<unk>"] = vocab.pop("Q")
    data["added_tokens"][0]["id"] = vocab["<unk>"]
    assert vocab["<unk>"] in plain(Tokenizer.from_str(json.dumps(data)), "a Q")
    ours = Vocabulary.from_tokenizer_json(data)
    assert ours.missing_bytes == {ord("Q")}
    assert ours.decode(ours.encode("a Q.")) == b"a ."


def test_whole_words_in_the_vocabulary_do_not_forge() -> None:
    """With ``ignore_merges`` a word that is an entry of the vocabulary is taken whole, control token or not."""
    split = {"type": "Split", "pattern": {"Regex": "<[a-z]+>"}, "behavior": "Isolated", "invert": False}
    steps = [split, {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": False, "use_regex": False}]
    data = small_tokenizer(model={"ignore_merges": True}, pre_tokenizer={"type": "Sequence", "pretokenizers": steps})
    number = data["model"]["vocab"]["<end>"] = len(data["model"]["vocab"])
    assert number in plain(Tokenizer.from_str(json.dumps(data)), "a<end>")
    data["added_tokens"] = [{"id": number, "content": "<end>", "special": True, "normalized": False}]
    vocab = Vocabulary.from_tokenizer_json(data)
    assert vocab.encode("a<end>").count(number) == 0
    assert vocab.encode([("a<end>", False)]).count(number) == 1


def test_merges_do_not_spell_a_control_token() -> None:
    data = small_tokenizer()
    vocab = data["model"]["vocab"]
    first = len(vocab)
    vocab |= {"qx": first, "qxq": first + 1}
    data["model"]["merges"] = [["q", "x"], ["qx", "q"]]
    assert plain(Tokenizer.from_str(json.dumps(data)), "qxq") == [first + 1]
    data["added_tokens"] = [{"id": first + 1, "content": "qxq", "special": True, "normalized": False}]
    ours = Vocabulary.from_tokenizer_json(data)
    assert ours.encode("qxq") == [first, vocab["q"]]
    assert ours.encode([("qxq", False)]) == [first + 1]


def test_ids_may_have_holes() -> None:
    data = small_tokenizer([{"content": "<s>", "special": True}, {"content": "<tool>"}])
    for token, number in zip(data["added_tokens"], (5000, 4000), strict=True):
        token["id"] = number
    vocab = Vocabulary.from_tokenizer_json(data)
    assert vocab.size == 5001
    assert vocab.encode([("<s>", False), ("<tool><s>", True)])[:2] == [5000, 4000]
    assert vocab.bytes_of(4500) is None


def test_no_parts_no_ids() -> None:
    assert VOCAB.encode([]) == VOCAB.encode("") == VOCAB.encode([("", False), ("", True)]) == []


def test_a_missing_package_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, "tokenizers", None)
    vocab = Vocabulary.from_tokenizer_json(DATA)
    assert vocab.size == VOCAB.size  # masks need no such package
    with pytest.raises(UsageError, match=r"pip install 'dragoman\[server\]'"):
        vocab.encode("a")
