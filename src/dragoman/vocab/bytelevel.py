"""Byte-level BPE writes bytes as printable characters; this is that alphabet (GPT-2's), in both directions."""

from __future__ import annotations

from types import MappingProxyType


def _alphabet() -> tuple[str, ...]:
    """Byte -> character: printable Latin-1 stands for itself, the other 68 bytes for U+0100 onwards, in order."""
    printable = {*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)}
    spare = iter(range(0x100, 0x200))
    return tuple(chr(byte) if byte in printable else chr(next(spare)) for byte in range(256))


BYTE_TO_CHAR = _alphabet()
CHAR_TO_BYTE = MappingProxyType({char: byte for byte, char in enumerate(BYTE_TO_CHAR)})


def to_bytes(piece: str) -> bytes:
    """The bytes that a vocabulary entry stands for; an entry with a foreign character stands for its own UTF-8."""
    try:
        return bytes([CHAR_TO_BYTE[char] for char in piece])
    except KeyError:
        return piece.encode("utf-8")


def to_piece(data: bytes) -> str:
    """The vocabulary entry that stands for ``data``."""
    return "".join([BYTE_TO_CHAR[byte] for byte in data])
