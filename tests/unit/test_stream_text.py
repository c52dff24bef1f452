"""Bytes, escapes and JSON text in pieces: however they are cut, the sum is the same."""

from __future__ import annotations

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dragoman.stream import json_text
from dragoman.stream.json_text import NOT_JSON, is_json, is_json_object, read_json
from dragoman.stream.pythonic import PythonToJson, python_to_json
from dragoman.stream.unescape import JsonUnescaper, unescape
from dragoman.stream.utf8 import Utf8Sanitizer

JSON_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=12,
)
JSON_LIKE = st.text(alphabet="{}[]:,\"'\\u0a1-. et\nrunlsNoTF", max_size=40)


@given(st.lists(st.binary(max_size=6) | st.text(max_size=3).map(str.encode)))
@settings(deadline=None)
def test_sanitised_bytes_are_utf8_and_do_not_depend_on_the_pieces(pieces: list[bytes]) -> None:
    sanitizer = Utf8Sanitizer()
    out = b"".join([sanitizer.feed(piece) for piece in pieces]) + sanitizer.finish()
    assert out.decode() == b"".join(pieces).decode("utf-8", errors="replace")


@given(st.text())
@settings(deadline=None)
def test_each_sanitised_piece_is_whole_characters(text: str) -> None:
    sanitizer = Utf8Sanitizer()
    for byte in text.encode():
        sanitizer.feed(bytes([byte])).decode()
    assert sanitizer.finish() == b""


def test_a_finished_sanitizer_starts_afresh() -> None:
    sanitizer = Utf8Sanitizer()
    assert sanitizer.feed(b"\xe2\x82") == b""
    assert sanitizer.finish() == "\ufffd".encode()
    assert sanitizer.feed(b"\xac") == "\ufffd".encode()


@given(st.text(), st.booleans())
@settings(deadline=None)
def test_unescaping_undoes_json(text: str, ascii_only: bool) -> None:
    written = json.dumps(text, ensure_ascii=ascii_only)[1:-1]
    reader = JsonUnescaper()
    assert "".join(map(reader.feed, written)) + reader.finish() == text == unescape(written)


@given(JSON_LIKE)
@settings(deadline=None)
def test_unescaping_does_not_depend_on_the_pieces(text: str) -> None:
    reader = JsonUnescaper()
    assert "".join(map(reader.feed, text)) + reader.finish() == unescape(text)


@pytest.mark.parametrize(
    ("written", "read"),
    [
        (r"C:\dir", r"C:\dir"),
        ("\\", "\\"),
        (r"\u12", r"\u12"),
        (r"\ud83d\ude00", "\U0001f600"),
        (r"\ud83dx", "\ufffdx"),
        (r"\ud83d\ud83d\ude00", "\ufffd\U0001f600"),
        (r"\ude00", "\ufffd"),
        (r"\ud83d", "\ufffd"),
        (r"\\u0041", r"\u0041"),
    ],
)
def test_unescaping_what_json_does_not_know(written: str, read: str) -> None:
    assert unescape(written) == read


def test_unescaping_holds_no_more_than_an_unfinished_escape() -> None:
    reader = JsonUnescaper()
    assert reader.feed("ab\\") == "ab"
    assert reader.feed("nc\\u00") == "\nc"
    assert reader.feed("41d") == "Ad"


@given(JSON_LIKE)
@settings(max_examples=500, deadline=None)
def test_json_without_recursion_agrees_with_the_json_module(text: str) -> None:
    assert json_text._is_json_flat(text) == is_json(text)


@given(JSON_VALUES)
@settings(deadline=None)
def test_json_is_json(value: object) -> None:
    text = json.dumps(value)
    assert is_json(text)
    assert json_text._is_json_flat(text)
    assert read_json(text) == value


def test_json_of_any_depth_and_length() -> None:
    deep = "[" * 50_000 + "]" * 50_000
    assert is_json(deep)
    assert not is_json(deep[:-1])
    assert read_json(deep) == []
    assert read_json('{"a":' * 3000 + "1" + "}" * 3000) == {}
    assert is_json_object('{"n": ' + "9" * 10_000 + "}")
    assert isinstance(read_json("9" * 10_000), int)
    assert isinstance(read_json("1e999999999999"), int)
    assert isinstance(read_json("1e-999999999999"), float)
    assert isinstance(read_json("1e-0000000001"), float)
    assert read_json("50e-1") == 5


@pytest.mark.parametrize("text", ["", "NaN", "[Infinity]", "{'a': 1}", "01", "1 2", '"\n"', "[1,]", "\ufeff1"])
def test_what_is_no_json(text: str) -> None:
    assert not is_json(text)
    assert read_json(text) is NOT_JSON


@given(JSON_VALUES, st.booleans())
@settings(deadline=None)
def test_json_passes_the_python_reader_unchanged(value: object, ascii_only: bool) -> None:
    text = json.dumps(value, ensure_ascii=ascii_only)
    assert python_to_json(text) == text


@given(JSON_VALUES)
@settings(deadline=None)
def test_a_python_repr_becomes_json(value: object) -> None:
    reader = PythonToJson()
    written = "".join(map(reader.feed, repr(value))) + reader.finish()
    assert json.loads(written) == value
    assert written == python_to_json(repr(value))


@given(JSON_LIKE)
@settings(deadline=None)
def test_the_python_reader_does_not_depend_on_the_pieces(text: str) -> None:
    reader = PythonToJson()
    assert "".join(map(reader.feed, text)) + reader.finish() == python_to_json(text)


@given(JSON_LIKE | JSON_VALUES.map(json.dumps) | JSON_VALUES.map(repr), st.data())
@settings(deadline=None)
def test_pieces_are_read_as_marks_are(text: str, data: st.DataObject) -> None:
    cuts = sorted(data.draw(st.lists(st.integers(0, len(text)), max_size=20)))
    pieces = [text[a:b] for a, b in zip([0, *cuts], [*cuts, len(text)], strict=True)]
    reader, by_marks = PythonToJson(), PythonToJson()
    written = "".join(map(reader.feed, pieces)) + reader.finish()
    by_marks._read_by_marks()
    assert written == by_marks._convert(text, final=False) + by_marks.finish()
    assert reader.odd == by_marks.odd


@pytest.mark.parametrize(
    ("written", "streamed"),
    [
        ('[1, {"a": "b c", "d": nu', '[1, {"a": "b c", "d": '),
        ('["a\\n b", "", -1.5e3, true, [', '["a\\n b", "", -1.5e3, true, ['),
        ('["a", \'b\', "c d', '["a", "b", "c d'),
        ('[None, {"k": "v"}, "w', '[null, {"k": "v"}, "w'),
    ],
)
def test_json_waits_for_a_mark_at_the_most(written: str, streamed: str) -> None:
    for size in range(1, 9):
        reader = PythonToJson()
        pieces = [written[at : at + size] for at in range(0, len(written), size)]
        assert "".join(map(reader.feed, pieces)) == streamed


@pytest.mark.parametrize(
    ("written", "read"),
    [
        ("('a', (1, None))", '["a", [1, null]]'),
        (r"'it\'s \"x\" \x41\U0001f600\0'", r'"it' + "'" + r's \"x\" A😀\u0000"'),
        ('"it\'s"', '"it\'s"'),
        ("{'say \"hi\"': True}", r'{"say \"hi\"": true}'),
        ('"two\nlines"', r'"two\nlines"'),
        ("Truest", '"Truest"'),
        (r"'\xzz'", r'"\\xzz"'),
        (r'"\u12"', r'"\\u12"'),
        ("[1, 2,]", "[1, 2]"),
        ("{'a': (1, ), }", '{"a": [1 ] }'),
        ("()", "[]"),
        ("[(1), ('a' 'b'), ((1), 2)]", '[1, "ab", [1, 2]]'),
        ("[1_000, -0x1F, 0o17, 0b_11, .5, 1., +5, 1_0e-1_0]", "[1000, -31, 15, 3, 0.5, 1.0, 5, 10e-10]"),
        ("{1: 2, None: 3, 1_0: 4, True: 5}", '{"1": 2, "null": 3, "10": 4, "true": 5}'),
        ("['a'\n \"b\" f'c', '']", '["abc", ""]'),
        (r"[r'\d', b'\x41', Rb'\d', u'é']", r'["\\d", "A", "\\d", "é"]'),
        ("f'{{a}}'", '"{a}"'),
        ('["""say "hi"\nthere""", \'\'\'it\'s\'\'\', """"""]', r'["say \"hi\"\nthere", "it' + "'" + r's", ""]'),
    ],
)
def test_python_spellings(written: str, read: str) -> None:
    assert python_to_json(written) == read
    assert json.loads(read) is not NOT_JSON


@pytest.mark.parametrize(
    ("written", "read", "odd"),
    [
        ("[nan, 1j]", '["nan", "1j"]', "nan"),
        ("{a: 1}", '{"a": 1}', "a"),
        ("[007]", '["007"]', "007"),
        ("[2024-01-01, New York]", '["2024-01-01", "New York"]', "2024-01-01"),
        ("[f'{x}']", '["{x}"]', "{"),
        (r"['\xzz']", r'["\\xzz"]', "\\x"),
        ("[" + "1_" * 600 + "1]", '["' + "1_" * 600 + '1"]', "1_" * 600 + "1"),
        ("[1, 2]", "[1, 2]", None),
    ],
)
def test_what_python_does_not_mean_goes_on_as_a_string(written: str, read: str, odd: str | None) -> None:
    for pieces in ([written], list(written)):
        reader = PythonToJson()
        assert "".join(map(reader.feed, pieces)) + reader.finish() == read
        assert reader.odd == odd


def test_python_of_any_depth_is_read_in_one_pass() -> None:
    assert python_to_json("(" * 50_000 + "1" + ")" * 50_000) == "1"
    assert python_to_json("(1," * 50_000 + ")" * 50_000) == "[1," * 49_999 + "[1" + "]" * 50_000
    assert python_to_json(")]}" * 3 + "(") == "]]}" * 3 + "["
