"""Pieces of JSON that may break off anywhere: what goes on of each, and what waits for the next one.

One pattern reads a whole piece; text that is not such JSON is somebody else's (:mod:`dragoman.stream.pythonic`).
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Final

WHITE_MARK: Final = r"[ \t\r\n]"
DELIMITERS: Final = r" \t\r\n'\"()\[\]{},:"
NUMBER: Final = re.compile(r"-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][-+]?[0-9]+)?")
LONGEST: Final = 512  # longer pieces are read mark by mark; longer numbers only where they are JSON's
# Whole JSON tokens of which nothing has to wait: most of most values, and much faster than mark by mark.
_RUN: Final = r'[^"\\\x00-\x1f]*(?:\\(?:["\\/bfnrt]|u[0-9a-fA-F]{4})[^"\\\x00-\x1f]*)*'
_STRING_END: Final = rf'"(?={WHITE_MARK}*[,:\]}}])'
_TOKEN: Final = (
    rf"{WHITE_MARK}|[\[{{:\]}}]|,(?={WHITE_MARK}*[^ \t\r\n\])}}])"
    rf'|"{_RUN}{_STRING_END}|(?:{NUMBER.pattern}|true|false|null)(?={WHITE_MARK}*[,\]}}])'
)
ALIKE: Final = re.compile(f"(?:{_TOKEN})+")
# A piece of such JSON from outside of strings, from inside of one or from its closing quote on. It may end inside a
# string, or with what waits for the next mark: the end of a string, a comma, a word.
_PIECE: Final = rf'(?:{_TOKEN})*(?:("{_RUN})("{WHITE_MARK}*)?|(,{WHITE_MARK}*|[^{DELIMITERS}]+{WHITE_MARK}*))?'
_FROM_OUTSIDE: Final = re.compile(_PIECE)
_FROM_INSIDE: Final = re.compile(rf'{_RUN}(?:(")(?={WHITE_MARK}*[,:\]}}]){_PIECE}|("{WHITE_MARK}*))?')
PENDING: Final = 32  # characters that wait and are looked at once more with the next piece
# Short pieces are remembered with what they became: JSON has few marks, and numbers and words come again.
SHORT: Final = 16
_REMEMBERED: Final = 8192

# Where such JSON stands: outside of strings, inside of one (of which nothing has come yet), behind one that may go on
# in another (and was empty).
OUTSIDE, INSIDE, INSIDE_EMPTY, BEHIND, BEHIND_EMPTY = range(5)


def read_piece(place: int, waiting: str, text: str) -> tuple[str, int, str] | None:
    """What goes on of the text that waits and the next piece, where they end and what waits then.

    None: it is not JSON of which at most the end has to wait.
    """
    text = waiting + text
    if len(text) > LONGEST or len(waiting) > PENDING:
        return None
    match = (_FROM_INSIDE if place else _FROM_OUTSIDE).fullmatch(text)
    if match is None:
        return None
    if place:
        left, opened, shut, held, end = match.groups()
        if end is not None:
            empty = len(end) == len(text) and place in (INSIDE_EMPTY, BEHIND_EMPTY)
            return text[: -len(end)], BEHIND_EMPTY if empty else BEHIND, end
        if left is None:
            return text, INSIDE if text else place, ""
    else:
        opened, shut, held = match.groups()
    if held is not None:
        return text[: -len(held)], OUTSIDE, held
    if opened is None:
        return text, OUTSIDE, ""
    if shut is not None:
        return text[: -len(shut)], BEHIND_EMPTY if opened == '"' else BEHIND, shut
    return text, INSIDE_EMPTY if opened == '"' else INSIDE, ""


remembered_piece: Final = lru_cache(_REMEMBERED)(read_piece)
