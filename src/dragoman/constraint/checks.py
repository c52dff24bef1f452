"""What callers hand to a cursor, checked: token ids, counts, rows of a bitmask."""

from __future__ import annotations

from collections.abc import Iterable
from operator import index
from typing import Any

import numpy as np
import numpy.typing as npt

from dragoman.errors import UsageError

Words = npt.NDArray[np.uint32]


def token_of(value: Any, param: str = "token_id") -> int:
    """``value`` as a token id: an int or what stands for one (NumPy's integers, a tensor of one)."""
    return _whole(value, param, "a token id is an int")


def count_of(value: Any, param: str = "count") -> int:
    """``value`` as a count of tokens."""
    return _whole(value, param, f"{param} is an int")


def _whole(value: Any, param: str, wanted: str) -> int:
    if not isinstance(value, bool):
        try:
            return index(value)
        except TypeError:
            pass
    raise UsageError(f"{wanted}, not {_kind(value)}", param=param)


def tokens_of(values: Any, param: str = "token_ids") -> list[int]:
    """``values`` as token ids: any iterable of them but text."""
    if isinstance(values, (str, bytes)) or not isinstance(values, Iterable):
        raise UsageError(f"{param} is a list of token ids, not {_kind(values)}", param=param)
    try:
        items = list(values)
    except TypeError as error:  # an array without dimensions
        raise UsageError(f"{param} is a list of token ids: {error}", param=param) from error
    return [item if type(item) is int else token_of(item, f"{param}[{at}]") for at, item in enumerate(items)]


def words_of(row: Any, words: int, param: str = "row") -> Words:
    """``row`` as words that are written in place: int32 or uint32 [>= words], a view of any bitmask.

    Raises: UsageError for a row of another type or shape, too short, read-only or of no memory that is shared.
    """
    out = shared_words(row, 1, param)
    if len(out) < words:
        raise UsageError(f"the mask row has {len(out)} words, the vocabulary needs {words}", param=param)
    return out


def shared_words(rows: Any, dimensions: int, param: str) -> Words:
    """The memory of an array of int32 or uint32 in so many dimensions. Raises: UsageError."""
    what = "a mask row is a vector" if dimensions == 1 else "a bitmask is a table [rows, words]"
    try:
        out = np.asarray(rows)
    except Exception as error:  # whatever another library raises for arrays that are not on this machine's memory
        raise UsageError(
            f"{what} of int32 or uint32 in main memory, not {_kind(rows)}: {error}", param=param
        ) from error
    if out.dtype.itemsize != 4 or out.dtype.kind not in "iu" or out.ndim != dimensions:
        raise UsageError(f"{what} of int32 or uint32, not {out.dtype} {out.shape} ({_kind(rows)})", param=param)
    if out is not rows and out.flags.owndata:
        raise UsageError(f"{what} that can be written; NumPy makes a copy of {_kind(rows)}", param=param)
    if not out.flags.writeable:
        raise UsageError(f"{what} that can be written; this one is read-only", param=param)
    if not out.dtype.isnative:
        raise UsageError(f"{what} in this machine's byte order, not {out.dtype.str}", param=param)
    return out.view(np.uint32)


def _kind(value: Any) -> str:
    name = type(value).__name__
    return f"{name} {value!r:.40}" if isinstance(value, (str, bytes, int, float, type(None))) else name
