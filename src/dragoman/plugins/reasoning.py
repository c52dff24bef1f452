"""Where the reasoning of an output lies, token by token: what an engine asks besides the text itself."""

from __future__ import annotations

from collections.abc import Sequence

from dragoman.dialect.facts import thinking_tags
from dragoman.events import Closed, Event, Opened
from dragoman.format import ChatFormat
from dragoman.plugins.reading import Asked, turn_of
from dragoman.stream.reader import ControlToken, Item
from dragoman.stream.utf8 import Utf8Sanitizer
from dragoman.template.profile import ReasoningMode

_OPEN_END = 1 << 62
# What no reasoning is: the answer has begun.
_BEHIND = ("content", "opening", "call", "stop")


class Scan:
    """One output read by its token ids, for the places of its reasoning.

    ended: reasoning is over, or there can be none. content_from: index of the first token behind it, None until known.
    asked: only its variables and the prompt's end matter. by_text: markers by their text, as in :class:`Stream`. The
    format needs a vocabulary.
    """

    def __init__(self, fmt: ChatFormat, asked: Asked, *, by_text: bool = False) -> None:
        self._fmt = fmt
        self._by_text = by_text
        turn = turn_of(fmt, Asked(variables=asked.variables, prompt_end=asked.prompt_end, undeclared_calls=True))
        turn.feed("" if by_text else [])  # from here on the reader reads the one or the other
        self._reader = turn.reader
        self._utf8 = Utf8Sanitizer()
        self._starts: list[int] = []  # of each token, in bytes of output
        self._spans: list[tuple[int, int]] = []
        self._opened: int | None = 0 if "reasoning" in self._reader.path else None
        self.content_from: int | None = None
        if self._opened is None and self._prompt_ends_it(turn.prompt.written, turn.request.thinking):
            self.content_from = 0

    def _prompt_ends_it(self, written: Sequence[tuple[str, bool]], thinking: bool | None) -> bool:
        """True: the prompt closed reasoning, or no reasoning can follow."""
        tags = thinking_tags(self._fmt.profile)
        text = "".join(part for part, _ in written)
        if tags is not None and tags[1] in text:
            return True
        return thinking is False or self._fmt.profile.reasoning.mode is ReasoningMode.NONE

    @property
    def ended(self) -> bool:
        return self.content_from is not None

    @property
    def size(self) -> int:
        """How many tokens were read."""
        return len(self._starts)

    def feed(self, token_ids: Sequence[int]) -> None:
        """Read on."""
        for token in token_ids:
            self._starts.append(self._reader.position)
            for item in self._items(token):
                self._take(self._reader.feed(item))

    def count(self) -> int:
        """How many of the tokens read belong to reasoning; its markers do not count."""
        spans = self._spans if self._opened is None else [*self._spans, (self._opened, _OPEN_END)]
        ends = [*self._starts[1:], self._reader.position]
        return sum(
            any(begin < max(end, start + 1) and start < close for begin, close in spans)
            for start, end in zip(self._starts, ends, strict=True)
        )

    def _take(self, events: Sequence[Event]) -> None:
        for event in events:
            if isinstance(event, Opened) and event.tag == "reasoning":
                self._opened = event.position
            elif isinstance(event, Closed) and event.tag == "reasoning":
                self._spans.append((self._opened or 0, event.position))
                self._opened = None
                if self.content_from is None:
                    self.content_from = self._behind(event.position, events)
            elif isinstance(event, Opened) and event.tag in _BEHIND and self.content_from is None:
                self.content_from = 0

    def _behind(self, position: int, events: Sequence[Event]) -> int:
        """The first token behind reasoning that ended at ``position``: behind its closer, or the call's own opener."""
        if any(isinstance(event, Opened) and event.tag == "call" for event in events):
            return next((i for i, start in enumerate(self._starts) if start >= position), len(self._starts))
        return len(self._starts)

    def _items(self, token: int) -> list[Item]:
        vocab = self._fmt.vocab
        assert vocab is not None
        if not 0 <= token < vocab.size:
            return []
        if self._by_text or not vocab.is_control(token):
            data = self._utf8.feed(vocab.decode((token,)))
            return [data] if data else []
        rest = self._utf8.finish()
        text = vocab.text_of(token).encode()
        control = ControlToken(self._reader.symbols.get(token), text, ends_turn=token in vocab.eos_ids)
        return [rest, control] if rest else [control]
