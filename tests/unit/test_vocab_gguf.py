"""GGUF metadata: what is written is read, and no damage does worse than a VocabularyError."""

from __future__ import annotations

import struct
import tracemalloc
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dragoman.errors import VocabularyError
from dragoman.vocab.gguf import parse_metadata, read_metadata
from tests.vocabularies import gguf_bytes, gguf_value

EVERY_KIND: list[tuple[str, int, Any]] = [
    ("u8", 0, 200),
    ("i8", 1, -100),
    ("u16", 2, 60_000),
    ("i16", 3, -30_000),
    ("u32", 4, 4_000_000_000),
    ("i32", 5, -2_000_000_000),
    ("f32", 6, 0.5),
    ("yes", 7, True),
    ("text", 8, "déjà <|im_end|>\n"),
    ("u64", 10, 2**63),
    ("i64", 11, -(2**62)),
    ("f64", 12, 1e300),
    ("ids", 9, (4, [1, 2, 3])),
    ("scores", 9, (6, [0.5, -1.0])),
    ("flags", 9, (7, [True, False])),
    ("words", 9, (8, ["a", "", "ü"])),
    ("nested", 9, (9, [(8, ["x"]), (5, [-1, 1]), (8, [])])),
    ("nothing", 9, (6, [])),
]


def plain(kind: int, value: Any) -> Any:
    return tuple(plain(value[0], item) for item in value[1]) if kind == 9 else value


@pytest.mark.parametrize("version", [2, 3])
def test_every_kind_of_value_comes_back(version: int) -> None:
    metadata = parse_metadata(gguf_bytes(EVERY_KIND, version=version))
    assert metadata.version == version
    assert dict(metadata.values) == {key: plain(kind, value) for key, kind, value in EVERY_KIND}
    assert [type(value) for value in metadata.values.values()][7] is bool


def test_accessors_check_types() -> None:
    metadata = parse_metadata(gguf_bytes(EVERY_KIND))
    assert metadata.text("text") == "déjà <|im_end|>\n"
    assert metadata.number("u32") == 4_000_000_000
    assert metadata.flag("yes") is True
    assert metadata.texts("words") == ("a", "", "ü")
    assert metadata.numbers("ids") == (1, 2, 3)
    for read in (metadata.text, metadata.number, metadata.flag, metadata.texts, metadata.numbers):
        assert read("absent") is None
        with pytest.raises(VocabularyError, match="nested"):
            read("nested")
    with pytest.raises(VocabularyError, match="'yes' should be an integer"):
        metadata.number("yes")


def test_bytes_that_are_no_utf8_survive() -> None:
    metadata = parse_metadata(gguf_bytes([("raw", 8, b"\xff\x80ok")]))
    text = metadata.text("raw")
    assert text is not None
    assert text.encode("utf-8", "surrogateescape") == b"\xff\x80ok"


def test_tensor_data_behind_the_metadata_is_not_looked_at() -> None:
    assert dict(parse_metadata(gguf_bytes([("a", 0, 1)]) + b"\xff" * 1000).values) == {"a": 1}


def test_a_file_cut_anywhere_is_damaged() -> None:
    whole = gguf_bytes(EVERY_KIND)
    for length in range(len(whole)):
        with pytest.raises(VocabularyError):
            parse_metadata(whole[:length])


@settings(max_examples=500)
@given(st.data())
def test_a_file_with_wrong_bytes_is_read_or_damaged(data: st.DataObject) -> None:
    whole = bytearray(gguf_bytes(EVERY_KIND))
    for _ in range(data.draw(st.integers(1, 4))):
        at = data.draw(st.integers(0, len(whole) - 1))
        whole[at] = data.draw(st.integers(0, 255))
    try:
        parse_metadata(bytes(whole))
    except VocabularyError:
        return


def test_announced_sizes_allocate_nothing() -> None:
    huge = 2**61
    header = b"GGUF" + struct.pack("<IQQ", 3, 0, 1)
    cases = [
        b"GGUF" + struct.pack("<IQQ", 3, 0, huge),
        header + struct.pack("<Q", huge),
        header + gguf_value(8, "key") + struct.pack("<IIQ", 9, 4, huge),
        header + gguf_value(8, "key") + struct.pack("<IIQ", 9, 8, huge),
        header + gguf_value(8, "key") + struct.pack("<IIQ", 9, 9, huge),
    ]
    tracemalloc.start()
    try:
        for case in cases:
            with pytest.raises(VocabularyError, match="announced"):
                parse_metadata(case)
        assert tracemalloc.get_traced_memory()[1] < 2_000_000
    finally:
        tracemalloc.stop()


def test_arrays_are_not_nested_without_end() -> None:
    body = struct.pack("<IQ", 9, 1) * 10_000
    with pytest.raises(VocabularyError, match="nested"):
        parse_metadata(b"GGUF" + struct.pack("<IQQ", 3, 0, 1) + gguf_value(8, "key") + struct.pack("<I", 9) + body)


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"", "does not start with 'GGUF'"),
        (b"PK\x03\x04 a zip file", "does not start with 'GGUF'"),
        (b"GGUF" + struct.pack("<IQQ", 1, 0, 0), "GGUF version 1; versions 2 and 3"),
        (b"GGUF" + struct.pack(">IQQ", 3, 0, 0), "big-endian"),
        (gguf_bytes([("a", 0, 1), ("a", 0, 2)]), "'a' appears twice"),
        (gguf_bytes([("a", 0, 2)]).replace(struct.pack("<I", 0) + b"\x02", struct.pack("<I", 7) + b"\x02"), "boolean"),
        (gguf_bytes([("a", 0, 2)]).replace(struct.pack("<I", 0) + b"\x02", struct.pack("<I", 77) + b"\x02"), "type 77"),
        (gguf_bytes([("a", 9, (0, [2]))]).replace(struct.pack("<IQ", 0, 1), struct.pack("<IQ", 7, 1)), "booleans"),
        (gguf_bytes([("a", 9, (0, [2]))]).replace(struct.pack("<IQ", 0, 1), struct.pack("<IQ", 13, 1)), "type 13"),
    ],
)
def test_errors_say_what_is_wrong(data: bytes, message: str) -> None:
    with pytest.raises(VocabularyError, match=message):
        parse_metadata(data)


def test_files(tmp_path: Path) -> None:
    file = tmp_path / "model.gguf"
    with pytest.raises(VocabularyError, match="cannot read"):
        read_metadata(file)
    file.touch()
    with pytest.raises(VocabularyError, match="is empty"):
        read_metadata(file)
    file.write_bytes(gguf_bytes(EVERY_KIND))
    assert read_metadata(file).text("text") == "déjà <|im_end|>\n"
    with pytest.raises(VocabularyError, match="cannot read"):
        read_metadata(tmp_path)
