"""Beginnings of JSON objects, against json itself."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from dragoman.server.wire.partial_json import DEPTH_MAX, ObjectPrefix, is_object, read_object

VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner, max_size=3),
    max_leaves=8,
)
OBJECTS = st.dictionaries(st.text(max_size=4), VALUES, max_size=4)
TEXTS = st.builds(
    lambda value, ascii, indent: json.dumps(value, ensure_ascii=ascii, indent=indent),
    OBJECTS,
    st.booleans(),
    st.sampled_from([None, 1]),
)
MARKS = st.sampled_from(list('{}[],:"\\1.-eutrfn \n\x01x'))


def _sent(text: str, size: int) -> tuple[str, ObjectPrefix]:
    prefix = ObjectPrefix()
    return "".join(prefix.push(text[at : at + size]) for at in range(0, len(text), size)), prefix


@given(text=TEXTS, size=st.integers(1, 9))
def test_an_object_goes_through_in_any_pieces(text: str, size: int) -> None:
    sent, prefix = _sent(text, size)
    assert sent == text
    assert not prefix.broken
    assert prefix.closing == ""


@given(text=TEXTS, at=st.integers(0, 200), mark=MARKS, skip=st.integers(0, 1), size=st.integers(1, 9))
@example(text='{"a": 1}', at=8, mark="{", skip=0, size=1)
@example(text='{"a": "x"}', at=7, mark="\\", skip=1, size=1)
def test_nothing_goes_through_that_could_not_become_one(text: str, at: int, mark: str, skip: int, size: int) -> None:
    text = (text[:at] + mark + text[at + skip :]).lstrip(" \n")
    sent, prefix = _sent(text, size)
    assert text.startswith(sent)
    assert isinstance(read_object(sent), dict)
    assert _is_object(text) == (not prefix.broken and prefix.closing == "" and sent.strip() != "" and sent == text)


def _is_object(text: str) -> bool:
    try:
        value = json.loads(text)
        json.dumps(value, ensure_ascii=False).encode()  # no half of a surrogate pair
        return isinstance(value, dict)
    except ValueError:
        return False


@given(value=OBJECTS, cut=st.integers(0, 200))
def test_of_a_cut_off_object_the_whole_members_are_read(value: dict[str, Any], cut: int) -> None:
    text = json.dumps(value)
    found = read_object(text[:cut])
    for (key, item), (cut_key, cut_item) in zip(value.items(), found.items(), strict=False):
        assert key == cut_key
        assert cut_item == item or isinstance(item, (dict, list))
    assert cut < len(text) or found == value


def test_examples() -> None:
    assert read_object('{"a": 1, "b": [1, {"c": "x') == {"a": 1, "b": [1, {}]}
    assert read_object('{"a": tru') == {}
    assert read_object('{"a": "x", "b": oops}') == {"a": "x"}
    assert read_object("[1]") == {}
    assert read_object("") == {}
    assert read_object('{"a": ' * 50_000) != {"b": 1}


@pytest.mark.parametrize(
    "half", [r"\ud83d", r"\ude00", r"\ud83dx", r"\ud83d\n", r"\ud83d\u0041", r"\ud83d\ud83d\ude00"]
)
@pytest.mark.parametrize("size", [1, 4, 100])
def test_half_a_surrogate_pair_is_a_fault(half: str, size: int) -> None:
    text = f'{{"a": 1, "b": "x{half}"}}'
    sent, prefix = _sent(text, size)
    assert prefix.broken
    assert "\\" not in sent
    assert read_object(text) == {"a": 1}
    assert _sent(r'{"a": "\ud83d\ude00\\ud83d"}', size)[0] == r'{"a": "\ud83d\ude00\\ud83d"}'


@pytest.mark.parametrize(
    "number", ["NaN", "Infinity", "-Infinity", "1e999", "-1e999", "9" * 5000, "01", "0." + "0" * 5000]
)
@pytest.mark.parametrize("size", [1, 3, 10_000])
def test_a_number_that_not_all_can_read_is_a_fault(number: str, size: int) -> None:
    text = f'{{"a": 1, "b": {number}}}'
    sent, prefix = _sent(text, size)
    assert prefix.broken
    assert sent == '{"a": 1, "b": '
    assert read_object(text) == {"a": 1}


def test_depth_has_a_bound() -> None:
    for levels in (DEPTH_MAX, DEPTH_MAX + 1, 50_000):
        text = '{"a": ' * (levels - 1) + "{" + "}" * levels
        assert _sent(text, 1000)[1].broken == (levels > DEPTH_MAX)
        assert is_object(text) == (levels <= DEPTH_MAX)
        json.dumps(read_object(text))


PARTS = st.sampled_from(
    [
        *('{"a": ', '"b": ', ", ", "}", "[", "]", "1", "-", "0", ".5", "e9", "e999", "NaN", "true", "nul", '"', '"x"'),
        *("x", r"\ud83d", r"\ude00", r"\u00e9", "\\", r"\n", "é😀", " "),
    ]
)


@settings(max_examples=300)
@given(parts=st.lists(PARTS, max_size=12), size=st.integers(1, 9))
@example(parts=['{"a": ', "0", "1"], size=1)
@example(parts=['{"a": ', '"', r"\ud83d", '"'], size=9)
def test_clients_read_a_stream_as_the_whole_answer_says(parts: list[str], size: int) -> None:
    """Their parser takes every beginning of what was sent, and makes of all of it what a whole answer holds."""
    from_json = pytest.importorskip("jiter").from_json
    text = "".join(parts)
    prefix, sent = ObjectPrefix(), ""
    for at in range(0, len(text), size):
        sent += prefix.push(text[at : at + size])
        if sent:
            from_json(sent.encode(), partial_mode=True)
    assert (from_json(sent.encode(), partial_mode=True) if sent.strip() else {}) == read_object(text)
    assert prefix.complete == is_object(text)
