"""What any protocol's request comes to: a conversation or a raw prompt, how to sample, when to stop, how often."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from dragoman.engine import Sampling
from dragoman.errors import UsageError

_MESSAGE = re.compile(r"messages\[(\d+)\]")
# Proxies give up after a minute of silence, and a long prompt takes minutes to read.
PING_SECONDS = 15.0


@dataclass(frozen=True, slots=True)
class Words:
    """What a protocol calls the arguments of a turn.

    names: our word -> the protocol's, changed one after the other; one that begins with a point is the end of a place.
    origins: where the request has each message of the turn.
    """

    names: Mapping[str, str] = field(default_factory=dict)
    origins: Callable[[], Sequence[str]] = tuple

    def place(self, place: str) -> str:
        """A place in the arguments of a turn, as a place in the request."""
        return self._told(place, self._names(place))

    def error(self, error: UsageError) -> UsageError:
        """The error, about the request."""
        if not self.names:
            return error
        names = self._names(error.param or "")
        return UsageError(self._told(str(error), names), param=error.param and self._told(error.param, names))

    def _names(self, place: str) -> Mapping[str, str]:
        found = _MESSAGE.match(place)
        origins = self.origins() if found is not None else ()
        return (
            {found[0]: origins[int(found[1])], **self.names} if found and int(found[1]) < len(origins) else self.names
        )

    def _told(self, text: str, names: Mapping[str, str]) -> str:
        for ours, theirs in names.items():
            pattern = re.escape(ours) if ours.startswith(".") else rf"(?<![\w.]){re.escape(ours)}"
            text = re.sub(pattern, theirs.replace("\\", r"\\"), text)
        return text


NO_WORDS = Words()


@dataclass(frozen=True, slots=True)
class Ask:
    """A checked request for answers.

    turn: arguments of ``ChatFormat.turn``. stop: the client's own stop texts. n: how many answers are wanted.
    reasoning_budget: the most tokens of reasoning, None: as many as the model likes. ping_seconds: of silence in a
    stream, after which it shows that it is alive; None: it never does. tell_reasoning: the answer shows what was
    thought. ignored: fields of the request that nobody knows. words: how the request calls the turn's arguments.
    """

    turn: Mapping[str, Any]
    sampling: Sampling = field(default_factory=Sampling)
    stop: tuple[str, ...] = ()
    stream: bool = False
    n: int = 1
    reasoning_budget: int | None = None
    ping_seconds: float | None = PING_SECONDS
    tell_reasoning: bool = True
    ignored: tuple[str, ...] = ()
    words: Words = NO_WORDS


@dataclass(frozen=True, slots=True)
class RawAsk:
    """A checked request for what follows a prompt: text in which control tokens count, or token ids."""

    prompts: tuple[str | tuple[int, ...], ...]
    sampling: Sampling = field(default_factory=Sampling)
    stop: tuple[str, ...] = ()
    stream: bool = False
    n: int = 1
    ignored: tuple[str, ...] = ()
