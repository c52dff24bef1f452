"""Bytes from an engine, cut anywhere and not always sound, as well-formed UTF-8."""

from __future__ import annotations

import codecs


class Utf8Sanitizer:
    """Bytes in any pieces -> whole, well-formed UTF-8 characters. Never raises.

    What is no UTF-8 becomes U+FFFD, one for each maximal ill-formed part (Unicode 15, section 3.9), as ``bytes.decode``
    does it. At most three bytes of an unfinished character are held. The pieces do not change the sum of the output.
    """

    __slots__ = ("_rest",)

    def __init__(self) -> None:
        self._rest = b""  # of an unfinished character

    def feed(self, data: bytes) -> bytes:
        if self._rest:
            data = self._rest + data
        elif data.isascii():
            return data
        text, used = codecs.utf_8_decode(data, "replace", False)
        self._rest = data[used:]
        return text.encode()

    def finish(self) -> bytes:
        """What an unfinished character leaves: U+FFFD or nothing. The sanitizer is as new afterwards."""
        rest, self._rest = self._rest, b""
        return rest.decode("utf-8", "replace").encode()
