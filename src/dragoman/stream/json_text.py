"""Is it JSON, and what does it say: questions to text of any size, depth and number of digits. Nothing here raises."""

from __future__ import annotations

import json
import re
from typing import Any, Final

WHITE: Final = " \t\r\n"
NOT_JSON: Final = object()

_NUMBER: Final = re.compile(r"-?(?:0|[1-9][0-9]*)(\.[0-9]+)?(?:[eE]([-+]?[0-9]+))?")
_TOKEN: Final = re.compile(
    r"[ \t\r\n]*(?:"
    r'(?P<string>"[^"\\\x00-\x1f]*(?:\\(?:["\\/bfnrt]|u[0-9a-fA-F]{4})[^"\\\x00-\x1f]*)*")'
    r"|(?P<scalar>-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][-+]?[0-9]+)?|true|false|null)"
    r"|(?P<mark>[{}\[\]:,]))"
)
# One encoder for all: json.dumps makes a new one for each call with options.
_quote: Final = json.JSONEncoder(ensure_ascii=False).encode
# Stands for every integer too long for a float: only its type matters, no schema lists such a value.
_HUGE: Final = 10**400


def is_json(text: str) -> bool:
    """True: the text is one JSON value (RFC 8259), white space around it allowed."""
    try:
        json.loads(text, parse_int=_ignored, parse_float=_ignored, parse_constant=_refused)
    except RecursionError:
        return _is_json_flat(text)
    except ValueError:
        return False
    return True


def is_json_object(text: str) -> bool:
    return text.lstrip(WHITE).startswith("{") and is_json(text)


def read_json(text: str) -> Any:
    """The value that the text writes, or NOT_JSON.

    Integral numbers are ints however they are spelled. Too long ones are one huge int, too deep containers come empty.
    """
    try:
        return json.loads(text, parse_int=_number, parse_float=_number, parse_constant=_refused)
    except RecursionError:
        if not _is_json_flat(text):
            return NOT_JSON
        return {} if text.lstrip(WHITE).startswith("{") else []
    except ValueError:
        return NOT_JSON


def quoted(text: str) -> str:
    """The text as a JSON string, as ``json.dumps`` with ``ensure_ascii=False`` writes it."""
    return _quote(text)


def escaped(text: str) -> str:
    """The inside of ``quoted(text)``: pieces can be escaped one by one."""
    return _quote(text)[1:-1]


def _ignored(text: str) -> int:
    return 0


def _refused(word: str) -> Any:
    raise ValueError(f"{word} is no JSON")


def _number(text: str) -> int | float:
    match = _NUMBER.fullmatch(text)
    if match is None:  # the json module calls us with numbers only
        return 0
    fraction, exponent = match[1], match[2]
    if fraction is None and exponent is None and len(text) < 400:
        return int(text)
    value = float(text)
    if not _is_integral(text, fraction, exponent):
        return value
    return int(value) if abs(value) != float("inf") else _HUGE


def _is_integral(text: str, fraction: str | None, exponent: str | None) -> bool:
    digits = re.split("[eE]", text)[0].lstrip("-").replace(".", "")
    significant = digits.rstrip("0")
    if not significant:
        return True
    # Nine digits of exponent are enough to tell: no text has that many decimals to lose or to gain.
    size = (exponent or "").lstrip("+-").lstrip("0")[:9] or "0"
    shift = -int(size) if (exponent or "").startswith("-") else int(size)
    decimals = len(fraction) - 1 if fraction else 0
    return decimals - (len(digits) - len(significant)) <= shift


def _is_json_flat(text: str) -> bool:
    """``is_json`` without recursion: a stack of open brackets, and whether a value, a key or a comma may come next."""
    stack: list[str] = []
    at = 0
    expect = "value"  # value | first (value or ]) | key | first key (key or }) | colon | after
    end = len(text.rstrip(WHITE))
    while at < end:
        match = _TOKEN.match(text, at)
        if match is None:
            return False
        at = match.end()
        mark = match["mark"]
        if mark is None:
            key = match["string"] is not None and expect in ("key", "first key")
            if not key and expect not in ("value", "first"):
                return False
            expect = "colon" if key else "after"
        elif mark in "{[":
            if expect not in ("value", "first"):
                return False
            stack.append(mark)
            expect = "first key" if mark == "{" else "first"
        elif mark in "}]":
            opener, first = ("{", "first key") if mark == "}" else ("[", "first")
            if not stack or stack.pop() != opener or expect not in ("after", first):
                return False
            expect = "after"
        elif mark == ":":
            if expect != "colon":
                return False
            expect = "value"
        elif expect != "after" or not stack:
            return False
        else:
            expect = "key" if stack[-1] == "{" else "value"
    return expect == "after" and not stack
