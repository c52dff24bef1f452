"""JSON objects found inside a rendered text: where the parts of a call stand in them, and how they are laid out."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

from dragoman.template.profile import JsonShape
from dragoman.template.sentinels import ProbeCall

_DECODER = json.JSONDecoder()
_SPACE = re.compile(r"\s*")

Path = tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Found:
    """A JSON text at ``start:end``. shape: None where it is the arguments alone. as_text: they are a string of JSON."""

    start: int
    end: int
    shape: JsonShape | None = None
    as_text: bool = False


def find_json(text: str, call: ProbeCall, *, whole: bool = True) -> Found | None:
    """The first JSON text that holds the whole call, else its arguments: as an object, or as a string of JSON.

    whole: False looks for the arguments alone.
    """
    for start, end, value in _values(text):
        shape = _shape(value, call) if whole else None
        if shape is not None:
            return Found(start, end, with_layout(text[start:end], shape), shape.args_as_text)
        if value == call.args:
            return Found(start, end)
        if _is_text_of(value, call.args):
            return Found(start, end, as_text=True)
    return None


def _values(text: str) -> Iterator[tuple[int, int, Any]]:
    """Objects and strings of JSON in ``text``, outermost first."""
    for match in re.finditer(r'[{"]', text):
        try:
            value, end = _DECODER.raw_decode(text, match.start())
        except (ValueError, RecursionError):
            continue
        yield match.start(), end, value


def _is_text_of(value: Any, args: dict[str, Any]) -> bool:
    if not isinstance(value, str):
        return False
    try:
        return bool(json.loads(value) == args)
    except ValueError:
        return False


def leaves(value: Any, args: dict[str, Any], path: Path = ()) -> Iterator[tuple[Path, Any]]:
    """(path, value) of all that an object holds, not looking into the arguments or lists."""
    if isinstance(value, dict) and value and value != args:
        for key, item in value.items():
            yield from leaves(item, args, (*path, key))
    else:
        yield path, value


def _shape(value: Any, call: ProbeCall) -> JsonShape | None:
    """How ``value`` holds ``call``; None: it does not hold a name and arguments, or holds more than a call."""
    if not isinstance(value, dict):
        return None
    if len(value) == 1 and value.get(call.name) == call.args:
        return JsonShape((), (call.name,), name_is_key=True, order=((call.name,),))
    found = dict(leaves(value, call.args))
    name = next((path for path, leaf in found.items() if leaf == call.name), None)
    args = next((path for path, leaf in found.items() if leaf == call.args), None)
    text = next((path for path, leaf in found.items() if _is_text_of(leaf, call.args)), None)
    where = args or text
    if name is None or where is None:
        return None
    ident = next((path for path, leaf in found.items() if leaf == call.id), None)
    known = (name, where, ident)
    constants = tuple((path, json.dumps(leaf)) for path, leaf in found.items() if path not in known)
    return JsonShape(name, where, ident, tuple(found), constants, args_as_text=args is None)


def with_layout(text: str, shape: JsonShape) -> JsonShape:
    """``shape`` with the white space that ``text`` (one JSON object) has between the tokens of its outermost level."""
    at, pads, colons, commas = 1, [_space(text, 1)], [], []
    while True:
        _, at = _DECODER.raw_decode(text, at + len(_space(text, at)))
        colon, at = _around(text, at)
        colons.append(colon)
        _, at = _DECODER.raw_decode(text, at)
        pads.append(_space(text, at))
        if text[at + len(pads[-1])] == "}":
            break
        comma, at = _around(text, at)
        commas.append(comma)
    comma = commas[0] if commas else ", "
    return replace(shape, colon=colons[0], comma=comma, open_pad=pads[0], close_pad=pads[-1])


def _space(text: str, at: int) -> str:
    match = _SPACE.match(text, at)
    return match.group() if match else ""


def _around(text: str, at: int) -> tuple[str, int]:
    """The one punctuation character after ``at`` with the white space around it, and where it ends."""
    before = _space(text, at)
    at += len(before)
    after = _space(text, at + 1)
    return before + text[at] + after, at + 1 + len(after)


def merged(first: JsonShape, second: JsonShape, first_call: ProbeCall, second_call: ProbeCall) -> JsonShape | None:
    """What two objects agree on. A field that counts from call to call is where an id stands. None: they disagree."""
    if first.name_is_key and second.name_is_key:
        return replace(first, args_path=(), order=())
    one, two = dict(first.constants), dict(second.constants)
    counting = [path for path, text in one.items() if text != two.get(path)]
    if (first.name_path, first.args_path, first.order) != (second.name_path, second.args_path, second.order):
        return None
    if first.id_path is None and len(counting) == 1:
        constants = tuple(item for item in first.constants if item[0] != counting[0])
        return replace(first, id_path=counting[0], constants=constants)
    return None if counting else first
