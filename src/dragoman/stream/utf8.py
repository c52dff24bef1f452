"""Bytes from an engine, cut anywhere and not always sound, as well-formed UTF-8."""

from __future__ import annotations

import codecs


class Utf8Sanitizer:
    """Bytes in any pieces -> whole, well-formed UTF-8 characters. Never raises.

    What is no UTF-8 becomes U+FFFD, one for each maximal ill-formed part (Unicode 15, section 3.9), as ``bytes.decode``
    does it. At most three bytes of an unfinished character are held. The pieces do not change the sum of the output.
    """

    __slots__ = ("_decoder",)

    def __init__(self) -> None:
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")

    def feed(self, data: bytes) -> bytes:
        return self._decoder.decode(data).encode()

    def finish(self) -> bytes:
        """What an unfinished character leaves: U+FFFD or nothing. The sanitizer is as new afterwards."""
        rest = self._decoder.decode(b"", final=True).encode()
        self._decoder.reset()
        return rest
