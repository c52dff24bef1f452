"""What answers say beside their text: their head, notes of our own, and which models there are."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class Head:
    """What every piece of one answer says: its id, when it was made (seconds since 1970), by which model."""

    id: str
    created: int
    model: str


def notes(problems: tuple[Any, ...], unconstrained: str | None) -> dict[str, Any]:
    """What an answer says beyond its protocol, under a key of our own; nothing where there is nothing to say."""
    said: dict[str, Any] = {}
    if problems:
        said["problems"] = [problem.to_dict() for problem in problems]
    if unconstrained:
        said["unconstrained"] = unconstrained
    return {"dragoman": said} if said else {}


def models(name: str, created: int) -> dict[str, Any]:
    return {"object": "list", "data": [model(name, created)]}


def model(name: str, created: int) -> dict[str, Any]:
    return {"id": name, "object": "model", "created": created, "owned_by": "dragoman"}
