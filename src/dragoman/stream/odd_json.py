"""Arguments that are one JSON object, as the model wrote them, or a literal of Python's in its place as JSON.

The first character inside the brace tells: a key in double quotes is JSON, which goes through untouched.
"""

from __future__ import annotations

from typing import Final

from dragoman.stream.json_text import WHITE
from dragoman.stream.pythonic import PythonToJson

_JSON: Final = "json"
_PYTHON: Final = "python"


class JsonText:
    """The text of arguments in pieces -> pieces of JSON text. ``odd``: it was none and is translated."""

    __slots__ = ("_begun", "_converter", "_kind")

    def __init__(self) -> None:
        self._kind: str | None = None  # None: nothing but a brace has come
        self._begun = False
        self._converter = PythonToJson()

    @property
    def odd(self) -> bool:
        return self._kind == _PYTHON

    def feed(self, text: str) -> str:
        if self._kind is _JSON:
            return text
        if self._kind is _PYTHON:
            return self._converter.feed(text)
        bare = text.lstrip(WHITE)
        if not self._begun and bare:
            self._begun = True
            if bare[0] != "{":
                self._kind = _JSON
                return text
            bare = bare[1:].lstrip(WHITE)
        if not bare:
            return text
        self._kind = _PYTHON if bare[0] == "'" or bare[0] == "_" or bare[0].isalnum() else _JSON
        if self._kind is _JSON:
            return text
        self._converter.feed("{")
        return text[: len(text) - len(bare)] + self._converter.feed(bare)

    def finish(self) -> str:
        """What waited for the end."""
        return self._converter.finish() if self.odd else ""

    def release(self) -> tuple[str, str]:
        """In place of :meth:`finish`, where the output breaks off: what is sure, and the text that is not."""
        return self._converter.release() if self.odd else ("", "")
