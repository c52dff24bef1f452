"""What answers say beside their text: their head, notes of our own, and which models there are."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from dragoman.server.answers.jobs import Ended


@dataclass(frozen=True, slots=True)
class Head:
    """What every piece of one answer says: its id, when it was made (seconds since 1970), by which model.

    ignored: what of the request changes nothing; its end tells it.
    """

    id: str
    created: int
    model: str
    ignored: tuple[str, ...] = ()


def notes(head: Head, ended: Ended) -> dict[str, Any]:
    """What an answer says beyond its protocol, under a key of our own; nothing where there is nothing to say."""
    said: dict[str, Any] = {}
    if ended.problems:
        said["problems"] = [problem.to_dict() for problem in ended.problems]
    if ended.unconstrained:
        said["unconstrained"] = ended.unconstrained
    if ended.unscored:
        said["logprobs"] = "the engine was asked for log probabilities and told none"
    elif ended.unscored_calls:
        said["logprobs"] = "they are told for the tokens of the answer's text; its calls have none"
    if head.ignored:
        said["ignored"] = list(head.ignored)
    return {"dragoman": said} if said else {}


def ignored(names: Sequence[str]) -> dict[str, Any]:
    """The note of an answer that is no message: what of its request changed nothing."""
    return {"dragoman": {"ignored": list(names)}} if names else {}


def models(name: str, created: int) -> dict[str, Any]:
    return {"object": "list", "data": [model(name, created)]}


def model(name: str, created: int) -> dict[str, Any]:
    return {"id": name, "object": "model", "created": created, "owned_by": "dragoman"}
