"""One answer as the server handles it: what is asked of the engine, what is said piece by piece, how it ended."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Generic, Literal, TypeAlias, TypeVar

from dragoman.chat import Delta, Message, Problem, ToolCall
from dragoman.engine import FinishReason, Generation
from dragoman.server.answers.likelihood import Scored
from dragoman.server.answers.reading import Reading
from dragoman.server.answers.unasked import Unasked
from dragoman.vocab import Vocabulary

R = TypeVar("R", bound=Reading, covariant=True)


@dataclass(frozen=True, slots=True)
class Usage:
    """Tokens of one answer or of several to one prompt. reasoning_tokens are among the completion's."""

    prompt_tokens: int
    completion_tokens: int
    reasoning_tokens: int = 0

    def to_dict(self) -> dict[str, int]:
        return {
            "prompt_tokens": self.prompt_tokens,
            "completion_tokens": self.completion_tokens,
            "total_tokens": self.prompt_tokens + self.completion_tokens,
        }


@dataclass(frozen=True, slots=True)
class Budget:
    """A bound of the reasoning, in tokens. inside: is reasoning being written now.

    go_on: from the reasoning so far and the tokens used to the job that goes on behind it; takes long. None: the answer
    ends with its budget.
    """

    tokens: int
    inside: Callable[[], bool]
    go_on: Callable[[str, int], Job[Reading]] | None


@dataclass(frozen=True, slots=True)
class Job(Generic[R]):
    """One answer, ready for the engine; ``turn`` reads it.

    unconstrained: why the tools' schemas are not enforced, if they are not. vocab: for the bytes of tokens.
    budget: how much may be thought, and how the answer goes on after that. tell_reasoning: the answer shows what was
    thought. unasked: looks for calls where none may be made.
    """

    turn: R
    generation: Generation
    stop: tuple[str, ...] = ()
    unconstrained: str | None = None
    vocab: Vocabulary | None = None
    budget: Budget | None = None
    tell_reasoning: bool = True
    unasked: Unasked | None = None

    @property
    def prompt_tokens(self) -> int:
        return len(self.generation.prompt_ids)


@dataclass(frozen=True, slots=True)
class Said:
    """A piece of an answer, the tokens that its content is made of, and what was used so far."""

    delta: Delta
    usage: Usage
    logprobs: tuple[Scored, ...] = ()


@dataclass(frozen=True, slots=True)
class Ended:
    """How an answer ended; comes once, last. stop_text: the client's own stop text that ended it. unscored: the engine
    was asked for log probabilities and told none. unscored_calls: they were wanted, and the answer's calls have none.
    """

    finish_reason: FinishReason | Literal["tool_calls"]
    usage: Usage
    problems: tuple[Problem, ...] = ()
    stop_text: str | None = None
    unconstrained: str | None = None
    unscored: bool = False
    unscored_calls: bool = False


Piece: TypeAlias = Delta | Ended


def is_cut(ended: Ended) -> bool:
    """The model did not come to the end of what it wrote."""
    return ended.finish_reason in ("length", "content_filter")


class Sum:
    """Adds deltas up, so that a whole answer is the streamed one by construction."""

    def __init__(self) -> None:
        self._content: list[str] = []
        self._reasoning: list[str] = []
        self._calls: list[tuple[str, str, list[str]]] = []

    def add(self, deltas: Iterable[Delta]) -> None:
        for delta in deltas:
            self._content.append(delta.content)
            self._reasoning.append(delta.reasoning_content)
            for call in delta.tool_calls:
                if call.name is not None:
                    self._calls.append((call.id or "", call.name, []))
                self._calls[call.index][2].append(call.arguments)

    @property
    def message(self) -> Message:
        calls = tuple(ToolCall(id, name, "".join(arguments)) for id, name, arguments in self._calls)
        return Message("".join(self._content), "".join(self._reasoning), calls)
