"""The keys that the objects of a request may have, by which strange ones are found and left out again."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

_SHOWN = 60


@dataclass(frozen=True, slots=True)
class Shape:
    """An object, or a list of such objects. inner: the shapes below some of its keys.

    kinds: where an object has a ``type``, only objects of these types are looked at; empty: all.
    """

    known: frozenset[str]
    inner: Mapping[str, Shape] = field(default_factory=dict)
    kinds: frozenset[str] = frozenset()

    def applies(self, value: Any) -> bool:
        return isinstance(value, Mapping) and (not self.kinds or value.get("type") in self.kinds)


def shape(*known: str, kinds: tuple[str, ...] = (), **inner: Shape) -> Shape:
    return Shape(frozenset((*known, *inner)), inner, frozenset(kinds))


def strange(value: Any, known: Shape, path: str) -> Iterator[tuple[str, Shape, str]]:
    """(place, the shape that it is strange to, key) of each key with a value that no shape knows.

    Null, false and what is empty ask for nothing, so their keys are none.
    """
    if isinstance(value, list):
        for at, item in enumerate(value):
            yield from strange(item, known, f"{path}[{at}]")
    elif known.applies(value):
        for key, item in value.items():
            if key in known.inner:
                yield from strange(item, known.inner[key], f"{path}.{key}")
            elif key not in known.known and item not in (None, False, "", [], {}):
                yield f"{path}.{key[:_SHOWN]}", known, key


def without(value: Any, known: Shape, left_out: frozenset[tuple[int, str]]) -> Any:
    """A copy without keys that are strange: each of ``left_out`` is the id of a shape and a key of its objects."""
    if isinstance(value, list):
        return [without(item, known, left_out) for item in value]
    if not known.applies(value):
        return value
    return {
        key: without(item, known.inner[key], left_out) if key in known.inner else item
        for key, item in value.items()
        if (id(known), key) not in left_out
    }
