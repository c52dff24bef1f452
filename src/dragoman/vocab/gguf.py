"""GGUF metadata: every key and value in front of a model's tensors, read without trusting a single length in the file.

Format: magic ``GGUF``, version (2 or 3), tensor count, pair count, then the pairs. A string is a 64-bit length and
bytes; an array is an element type, a 64-bit count and the elements. Every count is checked against the bytes that are
left before anything is allocated, so a damaged file costs an error and no memory.
"""

from __future__ import annotations

import mmap
import os
import struct
import sys
from array import array
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import TypeAlias

from dragoman.errors import VocabularyError

Value: TypeAlias = "int | float | bool | str | tuple[Value, ...]"

MAGIC = b"GGUF"
VERSIONS = (2, 3)
_BOOL, _STRING, _ARRAY = 7, 8, 9
# value type -> (struct code, bytes); the codes of :mod:`array` are the same letters, except for bool
_SCALARS = {
    0: ("B", 1),
    1: ("b", 1),
    2: ("H", 2),
    3: ("h", 2),
    4: ("I", 4),
    5: ("i", 4),
    6: ("f", 4),
    _BOOL: ("B", 1),
    10: ("Q", 8),
    11: ("q", 8),
    12: ("d", 8),
}
_NESTING_MAX = 4  # arrays of arrays exist in the format, nobody writes deeper ones
_STRING_BYTES_MIN = 8  # an empty string is its length
_ARRAY_BYTES_MIN = 12  # an empty array is its type and count
_PAIR_BYTES_MIN = 8 + 4 + 1


@dataclass(frozen=True, slots=True)
class Metadata:
    """The pairs of one GGUF file. ``values`` holds numbers, booleans, strings and tuples of them, in file order.

    Bytes that are not UTF-8 are kept as lone surrogates (``errors="surrogateescape"``).
    """

    version: int
    tensors: int
    values: Mapping[str, Value]

    def text(self, key: str) -> str | None:
        """The string under ``key``, None where it is absent. Raises VocabularyError where it is no string."""
        value = self.values.get(key)
        if value is None or isinstance(value, str):
            return value
        raise VocabularyError(f"GGUF key {key!r} should be a string, but is {type(value).__name__}")

    def number(self, key: str) -> int | None:
        """The integer under ``key``, None where it is absent. Raises VocabularyError where it is no integer."""
        value = self.values.get(key)
        if value is None or (isinstance(value, int) and not isinstance(value, bool)):
            return value
        raise VocabularyError(f"GGUF key {key!r} should be an integer, but is {type(value).__name__}")

    def flag(self, key: str) -> bool | None:
        """The boolean under ``key``, None where it is absent. Raises VocabularyError where it is no boolean."""
        value = self.values.get(key)
        if value is None or isinstance(value, bool):
            return value
        raise VocabularyError(f"GGUF key {key!r} should be a boolean, but is {type(value).__name__}")

    def texts(self, key: str) -> tuple[str, ...] | None:
        """The array of strings under ``key``, None where it is absent. Raises VocabularyError where it is none."""
        value = self.values.get(key)
        if value is None:
            return None
        if isinstance(value, tuple):
            items = tuple(item for item in value if isinstance(item, str))
            if len(items) == len(value):
                return items
        raise VocabularyError(f"GGUF key {key!r} should be an array of strings")

    def numbers(self, key: str) -> tuple[int, ...] | None:
        """The array of integers under ``key``, None where it is absent. Raises VocabularyError where it is none."""
        value = self.values.get(key)
        if value is None:
            return None
        if isinstance(value, tuple):
            items = tuple(item for item in value if isinstance(item, int))
            if len(items) == len(value):
                return items
        raise VocabularyError(f"GGUF key {key!r} should be an array of integers")


def read_metadata(path: str | os.PathLike[str]) -> Metadata:
    """All metadata of the GGUF file at ``path``; tensors are not touched.

    Raises VocabularyError for a file that is missing, no GGUF, of another version or byte order, or damaged.
    """
    where = Path(path)
    try:
        with open(where, "rb") as file:
            if os.fstat(file.fileno()).st_size == 0:
                raise VocabularyError(f"{where} is empty, so it is no GGUF file")
            with mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as view:
                return parse_metadata(view, source=str(where))
    except OSError as error:
        raise VocabularyError(f"cannot read {where}: {error.strerror or error}") from error


def parse_metadata(data: bytes | bytearray | mmap.mmap, *, source: str = "the GGUF data") -> Metadata:
    """As :func:`read_metadata`, from bytes. ``source`` names them in errors."""
    return _Reader(data, source).metadata()


class _Reader:
    """A position in the bytes of one file; every read checks that the bytes are there."""

    def __init__(self, data: bytes | bytearray | mmap.mmap, source: str) -> None:
        self.data = data
        self.size = len(data)
        self.source = source
        self.at = 0

    def metadata(self) -> Metadata:
        if self.data[:4] != MAGIC:
            raise VocabularyError(f"{self.source} is no GGUF file: it does not start with 'GGUF'")
        self.at = 4
        version = self.scalar(4)
        if version not in VERSIONS:
            raise VocabularyError(self._version_message(int(version)))
        tensors, pairs = int(self.scalar(10)), int(self.scalar(10))
        self._expect(pairs, _PAIR_BYTES_MIN, "metadata pairs")
        values: dict[str, Value] = {}
        for _ in range(pairs):
            key = self.string()
            if key in values:
                raise self._damaged(f"key {key!r} appears twice")
            values[key] = self.value(int(self.scalar(4)), 0)
        return Metadata(int(version), tensors, MappingProxyType(values))

    def value(self, kind: int, depth: int) -> Value:
        if kind in _SCALARS:
            return self.scalar(kind)
        if kind == _STRING:
            return self.string()
        if kind == _ARRAY:
            return self.elements(depth + 1)
        raise self._damaged(f"unknown value type {kind}")

    def scalar(self, kind: int) -> int | float | bool:
        code, width = _SCALARS[kind]
        if self.at + width > self.size:
            raise self._damaged("the file ends inside a value")
        value: int | float = struct.unpack_from("<" + code, self.data, self.at)[0]
        self.at += width
        if kind != _BOOL:
            return value
        if value not in (0, 1):
            raise self._damaged(f"a boolean is {value}")
        return bool(value)

    def string(self) -> str:
        length = int(self.scalar(10))
        self._expect(length, 1, "bytes of a string")
        start, self.at = self.at, self.at + length
        return str(self.data[start : self.at], "utf-8", "surrogateescape")

    def elements(self, depth: int) -> tuple[Value, ...]:
        if depth > _NESTING_MAX:
            raise self._damaged(f"arrays are nested more than {_NESTING_MAX} deep")
        kind, count = int(self.scalar(4)), int(self.scalar(10))
        if kind in _SCALARS:
            return self._numbers(kind, count)
        if kind not in (_STRING, _ARRAY):
            raise self._damaged(f"unknown array element type {kind}")
        self._expect(count, _STRING_BYTES_MIN if kind == _STRING else _ARRAY_BYTES_MIN, "array elements")
        return tuple(self.value(kind, depth) for _ in range(count))

    def _numbers(self, kind: int, count: int) -> tuple[Value, ...]:
        code, width = _SCALARS[kind]
        self._expect(count, width, "array elements")
        items = array(code)
        assert items.itemsize == width, f"array code {code} has {items.itemsize} bytes on this machine"
        items.frombytes(self.data[self.at : self.at + count * width])
        self.at += count * width
        if sys.byteorder == "big":
            items.byteswap()
        if kind != _BOOL:
            return tuple(items)
        if any(item > 1 for item in items):
            raise self._damaged("an array of booleans holds other values")
        return tuple(bool(item) for item in items)

    def _expect(self, count: int, width: int, what: str) -> None:
        """Raise unless ``count`` items of at least ``width`` bytes can follow."""
        if count * width > self.size - self.at:
            raise self._damaged(f"{count} {what} announced, {self.size - self.at} bytes left")

    def _damaged(self, what: str) -> VocabularyError:
        return VocabularyError(f"{self.source} is a damaged GGUF file: {what} (at byte {self.at}); fetch it again")

    def _version_message(self, version: int) -> str:
        swapped = struct.unpack(">I", struct.pack("<I", version))[0]
        if swapped in VERSIONS:
            return f"{self.source} is a big-endian GGUF file; only little-endian ones are supported"
        return f"{self.source} is GGUF version {version}; versions 2 and 3 are supported: convert the model again"
