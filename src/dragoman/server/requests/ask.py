"""What any protocol's request comes to: a conversation or a raw prompt, how to sample, when to stop, how often."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from dragoman.engine import Sampling
from dragoman.errors import UsageError

_MESSAGE = re.compile(r"messages\[(\d+)\]")


def _unchanged(error: UsageError) -> UsageError:
    return error


# Proxies give up after a minute of silence, and a long prompt takes minutes to read.
PING_SECONDS = 15.0


@dataclass(frozen=True, slots=True)
class Ask:
    """A checked request for answers.

    turn: arguments of ``ChatFormat.turn``. stop: the client's own stop texts. n: how many answers are wanted.
    reasoning_budget: the most tokens of reasoning, None: as many as the model likes. ping_seconds: of silence in a
    stream, after which it shows that it is alive; None: it never does. tell_reasoning: the answer shows what was
    thought. ignored: fields of the request that nobody knows. blame: an error of the turn in the words of the
    request, where its protocol has others.
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
    blame: Callable[[UsageError], UsageError] = _unchanged


@dataclass(frozen=True, slots=True)
class RawAsk:
    """A checked request for what follows a prompt: text in which control tokens count, or token ids."""

    prompts: tuple[str | tuple[int, ...], ...]
    sampling: Sampling = field(default_factory=Sampling)
    stop: tuple[str, ...] = ()
    stream: bool = False
    n: int = 1
    ignored: tuple[str, ...] = ()


def renamed(error: UsageError, names: Mapping[str, str], origins: Sequence[str]) -> UsageError:
    """The error with the names that the protocol has for the turn's arguments.

    origins: where the request has each message of the turn.
    """
    message, param = str(error), error.param
    found = _MESSAGE.match(param or "")
    if found is not None and int(found[1]) < len(origins):
        names = {found[0]: origins[int(found[1])], **names}
    for ours, theirs in names.items():
        message, param = message.replace(ours, theirs), param and param.replace(ours, theirs)
    return UsageError(message, param=param)
