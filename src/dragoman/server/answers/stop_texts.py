"""A client's own stop texts, applied to the text of the answer only: not to reasoning, not inside calls."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from dragoman.chat import Delta


class StopTexts:
    """Deltas in, deltas out up to the first stop text, which is left out. What may be the beginning of one waits."""

    def __init__(self, texts: Sequence[str]) -> None:
        self._texts = tuple(text for text in texts if text)
        self._held = ""
        self.found: str | None = None  # the text that ended the answer

    def push(self, deltas: Iterable[Delta]) -> list[Delta]:
        """What may be sent now; nothing after ``found``."""
        out: list[Delta] = []
        for delta in deltas:
            if self.found is not None:
                break
            if delta.content and self._texts:
                out += _content(self._take(delta.content))
            else:
                out += [*self.rest(), delta]
        return out

    def rest(self) -> list[Delta]:
        """What still waits: another kind of delta follows it, or the end."""
        held, self._held = self._held, ""
        return _content(held)

    def _take(self, piece: str) -> str:
        text = self._held + piece
        # The one that is complete first, whatever the pieces; of those that end together the longest.
        found = [(at + len(stop), at, stop) for stop in self._texts if (at := text.find(stop)) >= 0]
        if found:
            _, at, self.found = min(found)
            self._held = ""
            return text[:at]
        kept = max(_overlap(text, stop) for stop in self._texts)
        self._held = text[len(text) - kept :]
        return text[: len(text) - kept]


def _content(text: str) -> list[Delta]:
    return [Delta(content=text)] if text else []


def _overlap(text: str, stop: str) -> int:
    """The length of the longest end of ``text`` that begins ``stop`` and is not all of it."""
    return next((n for n in range(min(len(text), len(stop) - 1), 0, -1) if text.endswith(stop[:n])), 0)
