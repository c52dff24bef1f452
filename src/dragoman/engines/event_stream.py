"""Server-sent events, read: bytes in any pieces in, the data of each event out.

Lines end at CR LF or LF only. A reader that splits where ``str.splitlines`` does would cut JSON text at U+2028 or
U+0085, which may stand in it unescaped.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterable

from dragoman.errors import EngineError

EVENT_BYTES_MAX = 16 << 20  # one event is one token and its probabilities; more is not an event stream


class EventReader:
    """Push bytes, get the data of the events that they complete. Only ``data`` and ``error`` fields count."""

    def __init__(self) -> None:
        self._rest = b""
        self._data: list[str] = []

    def feed(self, piece: bytes) -> list[str]:
        """Data of every event that ``piece`` completes. Raises EngineError where one grows past its bound."""
        *lines, self._rest = (self._rest + piece).split(b"\n")
        if len(self._rest) > EVENT_BYTES_MAX:
            raise EngineError(f"the engine sent an event of more than {EVENT_BYTES_MAX} bytes")
        events: list[str] = []
        for line in lines:
            events += self._line(line.removesuffix(b"\r").decode("utf-8", "replace"))
        return events

    def finish(self) -> list[str]:
        """Data of a last event that no empty line ended."""
        return self.feed(b"\n\n")

    def _line(self, line: str) -> list[str]:
        if not line:
            data, self._data = self._data, []
            return ["\n".join(data)] if data else []
        field, _, value = line.partition(":")
        # Older llama.cpp servers report a failure under a field of its own instead of as data.
        if field in ("data", "error"):
            self._data.append(value.removeprefix(" "))
        return []


async def read_events(pieces: AsyncIterable[bytes]) -> AsyncGenerator[str, None]:
    """The data of each event of a response body."""
    reader = EventReader()
    async for piece in pieces:
        for data in reader.feed(piece):
            yield data
    for data in reader.finish():
        yield data
