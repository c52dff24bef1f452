"""What any protocol's request comes to: a conversation or a raw prompt, how to sample, when to stop, how often."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from dragoman.engine import Sampling
from dragoman.errors import UsageError

# Proxies give up after a minute of silence, and a long prompt takes minutes to read.
PING_SECONDS = 15.0


@dataclass(frozen=True, slots=True)
class Ask:
    """A checked request for answers.

    turn: arguments of ``ChatFormat.turn``. stop: the client's own stop texts. n: how many answers are wanted.
    reasoning_budget: the most tokens of reasoning, None: as many as the model likes. ping_seconds: of silence in a
    stream, after which it shows that it is alive; None: it never does. tell_reasoning: the answer shows what was
    thought. ignored: fields of the request that nobody knows. names: arguments of the turn that the protocol calls
    otherwise.
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
    names: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class RawAsk:
    """A checked request for what follows a prompt: text in which control tokens count, or token ids."""

    prompts: tuple[str | tuple[int, ...], ...]
    sampling: Sampling = field(default_factory=Sampling)
    stop: tuple[str, ...] = ()
    stream: bool = False
    n: int = 1
    ignored: tuple[str, ...] = ()


def renamed(error: UsageError, names: Mapping[str, str]) -> UsageError:
    """The error with the names that the protocol has for the turn's arguments."""
    message, param = str(error), error.param
    for ours, theirs in names.items():
        message, param = message.replace(ours, theirs), param and param.replace(ours, theirs)
    return UsageError(message, param=param)
