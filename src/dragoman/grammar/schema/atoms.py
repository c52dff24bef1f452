"""Atoms: the single facts that schemas come down to, each about values of one kind and silent on all others.

A *goal* is a set of signed places: ``place`` its schema holds, ``~place`` it does not. A goal comes down to *branches*,
one of which must hold; a branch is a set of kinds and a conjunction of atoms. Negation is closed: what denies an atom
is again a few atoms (see expand.py), so ``not``, ``oneOf`` and ``if`` need no cases of their own further down.
"""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Decimal
from typing import Any, TypeAlias

Goal: TypeAlias = tuple[int, ...]
ANY: Goal = ()


@dataclass(frozen=True, slots=True)
class Name:
    """The key of this name."""

    name: str


@dataclass(frozen=True, slots=True)
class Pattern:
    """The keys in which the regular expression is found; ``place`` says where it stands."""

    source: str
    place: int


@dataclass(frozen=True, slots=True)
class Except:
    """The keys of none of these sets."""

    sets: tuple[Keys, ...]


@dataclass(frozen=True, slots=True)
class Texts:
    """The keys that, as strings, satisfy ``goal``."""

    goal: Goal
    place: int


Keys: TypeAlias = Name | Pattern | Except | Texts
ALL_KEYS = Except(())


@dataclass(frozen=True, slots=True)
class Size:
    """Characters, items or members (by ``kind``): from ``least`` to ``most``."""

    kind: str
    least: int
    most: int | None


@dataclass(frozen=True, slots=True)
class Among:
    """A value that the keyword at ``place`` lists; about every kind."""

    place: int
    keyword: str


@dataclass(frozen=True, slots=True)
class Not:
    """None of the scalars that the keyword at ``place`` lists."""

    place: int
    keyword: str


@dataclass(frozen=True, slots=True)
class Text:
    """A string that matches ``pattern`` or ``format``, or (``negative``) does not."""

    keyword: str
    source: str
    place: int
    negative: bool = False


@dataclass(frozen=True, slots=True)
class Range:
    """A number inside the bounds; each with whether it is itself excluded."""

    low: tuple[Decimal, bool] | None
    high: tuple[Decimal, bool] | None


@dataclass(frozen=True, slots=True)
class Multiple:
    """A multiple of ``step``, or (``negative``) none."""

    step: Decimal
    place: int
    negative: bool = False


@dataclass(frozen=True, slots=True)
class Items:
    """Every item from index ``start`` up to ``stop`` (None: the end) satisfies ``goal``."""

    start: int
    stop: int | None
    goal: Goal


@dataclass(frozen=True, slots=True)
class Count:
    """From ``least`` to ``most`` items at index ``start`` or behind satisfy ``goal``; ``place`` has the keyword."""

    start: int
    goal: Goal
    least: int
    most: int | None
    place: int


@dataclass(frozen=True, slots=True)
class Unique:
    """No two items are equal, or (``negative``) some are."""

    place: int
    negative: bool = False


@dataclass(frozen=True, slots=True)
class Members:
    """Every member with a key of ``keys`` has a value that satisfies ``goal``."""

    keys: Keys
    goal: Goal


@dataclass(frozen=True, slots=True)
class Member:
    """Some member has a key of ``keys`` and a value that satisfies ``goal``; ``place`` has the keyword."""

    keys: Keys
    goal: Goal
    place: int


Atom: TypeAlias = Size | Among | Not | Text | Range | Multiple | Items | Count | Unique | Members | Member

KIND_OF: dict[type[Any], str] = {
    Text: "string", Range: "number", Multiple: "number", Items: "array", Count: "array", Unique: "array",
    Members: "object", Member: "object",
}  # fmt: skip


def kind_of(atom: Atom) -> str | None:
    """The kind of values that ``atom`` speaks of; None: every kind."""
    return atom.kind if isinstance(atom, Size) else KIND_OF.get(type(atom))


@dataclass(frozen=True, slots=True)
class Branch:
    """The values of these kinds for which all atoms of their kind hold."""

    kinds: frozenset[str]
    atoms: tuple[Atom, ...]

    def about(self, *kinds: type[Any]) -> list[Any]:
        """The atoms of these classes, in order."""
        return [atom for atom in self.atoms if isinstance(atom, kinds)]
