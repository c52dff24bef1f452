"""Stop texts in an engine's output: what is before the first of them, told as soon as it is certain."""

from __future__ import annotations

from collections.abc import Sequence


class StopWords:
    """Text up to the first stop word; what may be the beginning of one waits."""

    def __init__(self, words: Sequence[str]) -> None:
        self._words = tuple(word for word in words if word)
        self._held = ""
        self.found = False

    def feed(self, piece: str) -> str:
        """What may be shown now. After ``found`` nothing more may be fed."""
        text = self._held + piece
        places = [at for word in self._words if (at := text.find(word)) >= 0]
        if places:
            self.found = True
            self._held = ""
            return text[: min(places)]
        kept = max((_overlap(text, word) for word in self._words), default=0)
        self._held = text[len(text) - kept :]
        return text[: len(text) - kept]

    def rest(self) -> str:
        held, self._held = self._held, ""
        return held


def _overlap(text: str, word: str) -> int:
    """The length of the longest end of ``text`` that begins ``word`` and is not all of it."""
    return next((n for n in range(min(len(text), len(word) - 1), 0, -1) if text.endswith(word[:n])), 0)
