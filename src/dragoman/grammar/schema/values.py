"""Does a value satisfy a goal? Asked for the values that a schema lists itself; and which values a goal has, if few."""

from __future__ import annotations

import json
from collections.abc import Callable
from fractions import Fraction
from json.encoder import encode_basestring_ascii
from typing import Any

from dragoman.errors import LimitError
from dragoman.grammar.schema.atoms import (
    Among,
    Atom,
    Branch,
    Count,
    Except,
    Goal,
    Items,
    Keys,
    Member,
    Members,
    Multiple,
    Name,
    Not,
    Range,
    Size,
    Text,
    Texts,
    Unique,
    kind_of,
)
from dragoman.grammar.schema.expand import Expander
from dragoman.grammar.schema.keywords import FRACTION, INTEGER
from dragoman.grammar.schema.languages import Languages
from dragoman.grammar.schema.literals import decimal


class Values:
    """Values of one document's goals."""

    def __init__(self, expander: Expander, languages: Languages) -> None:
        self.expander = expander
        self.languages = languages
        self._listed: dict[tuple[int, str], frozenset[str]] = {}

    def holds(self, goal: Goal, value: Any) -> bool:
        """Whether ``value`` satisfies ``goal``."""
        try:
            return any(self.satisfies(branch, value) for branch in self.expander.branches(goal))
        except RecursionError:
            limit = self.expander.limits.schema_nodes
            raise LimitError("a listed value is nested too deep", bound="schema_nodes", limit=limit) from None

    def satisfies(self, branch: Branch, value: Any) -> bool:
        """Whether ``value`` is one of the branch's."""
        kind = kind_name(value)
        if kind not in branch.kinds:
            return False
        about = (kind, None) if kind not in (INTEGER, FRACTION) else ("number", None)
        return all(self._atom(atom, value) for atom in branch.atoms if kind_of(atom) in about)

    def _atom(self, atom: Atom, value: Any) -> bool:
        match atom:
            case Among(place, keyword):
                return canonical(value) in self.listed(place, keyword)
            case Not(place, keyword):
                return isinstance(value, (list, dict)) or canonical(value) not in self.listed(place, keyword)
            case Size(_, least, most):
                return least <= len(value) and (most is None or len(value) <= most)
            case Text(_, _, _, negative):
                return self.languages.text(atom).accepts(value) != negative
            case Range(low, high):
                number = decimal(value)
                above = low is None or number > low[0] or (number == low[0] and not low[1])
                return above and (high is None or number < high[0] or (number == high[0] and not high[1]))
            case Multiple(step, _, negative):
                return ((Fraction(decimal(value)) / Fraction(step)).denominator == 1) != negative
            case Items(start, stop, goal):
                return all(self.holds(goal, item) for item in value[start:stop])
            case Count(start, goal, least, most):
                count = sum(self.holds(goal, item) for item in value[start:])
                return least <= count and (most is None or count <= most)
            case Unique(_, negative):
                return (len(set(map(canonical, value))) < len(value)) == negative
            case Members(keys, goal):
                return all(self.holds(goal, item) for key, item in value.items() if self.has(keys, key))
            case Member(keys, goal):
                return any(self.has(keys, key) and self.holds(goal, item) for key, item in value.items())

    def has(self, keys: Keys, key: str) -> bool:
        """Whether ``key`` is one of ``keys``."""
        match keys:
            case Name(name):
                return key == name
            case Except(sets):
                return not any(self.has(each, key) for each in sets)
            case Texts(goal):
                return self.holds(goal, key)
        return self.languages.keys(keys).accepts(key)

    def listed(self, place: int, keyword: str) -> frozenset[str]:
        """The canonical texts of the values that ``enum`` or ``const`` lists."""
        if (place, keyword) not in self._listed:
            self._listed[place, keyword] = frozenset(map(canonical, self.raw(place, keyword)))
        return self._listed[place, keyword]

    def raw(self, place: int, keyword: str) -> list[Any]:
        schema = self.expander.document.schema(place)
        assert isinstance(schema, dict)
        return list(schema["enum"]) if keyword == "enum" else [schema["const"]]

    def enumerated(self, branch: Branch) -> list[Any] | None:
        """The branch's values, where it lists them by enum or const; else None."""
        lists = [self.raw(atom.place, atom.keyword) for atom in branch.about(Among)]
        if not lists:
            return None
        unique = {canonical(value): value for value in min(lists, key=len)}
        if len(branch.atoms) == 1:
            return [value for value in unique.values() if kind_name(value) in branch.kinds]
        return [value for value in unique.values() if self.satisfies(branch, value)]

    def few(self, goal: Goal, limit: int) -> list[Any] | None:
        """All values of ``goal``; None where there are, or may be, more than ``limit``."""
        found: dict[str, Any] = {}
        for branch in self.expander.branches(goal):
            values = self.enumerated(branch)
            if values is None:
                values = self._of_kinds(branch, limit)
            if values is None:
                return None
            found.update((canonical(value), value) for value in values)
            if len(found) > limit:
                return None
        return list(found.values())

    def _of_kinds(self, branch: Branch, limit: int) -> list[Any] | None:
        listing: dict[str, Callable[[], list[Any] | None]] = {
            "null": lambda: [None],
            "boolean": lambda: [True, False],
            "string": lambda: self.languages.words(branch, limit),
            INTEGER: lambda: _whole(branch, limit),
            "array": lambda: [[]] if _most(branch, "array") == 0 else None,
            "object": lambda: [{}] if _most(branch, "object") == 0 else None,
        }
        out: list[Any] = []
        for kind in branch.kinds:
            values = listing[kind]() if kind in listing else None
            if values is None:
                return None
            out += [value for value in values if self.satisfies(branch, value)]
        return out


def _most(branch: Branch, kind: str) -> int | None:
    sizes = [size.most for size in branch.about(Size) if size.kind == kind and size.most is not None]
    return min(sizes, default=None)


def _whole(branch: Branch, limit: int) -> list[Any] | None:
    lows = [bound.low[0] for bound in branch.about(Range) if bound.low is not None]
    highs = [bound.high[0] for bound in branch.about(Range) if bound.high is not None]
    if not lows or not highs or min(highs) - max(lows) > limit:
        return None
    return list(range(int(max(lows)) - 1, int(min(highs)) + 2))


def kind_name(value: Any) -> str:
    """The kind of a value."""
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "boolean"
    if isinstance(value, (int, float)):
        return INTEGER if isinstance(value, int) or value.is_integer() else FRACTION
    return "string" if isinstance(value, str) else "array" if isinstance(value, list) else "object"


def canonical(value: Any) -> str:
    """A text that is equal for values that JSON Schema holds equal: 1 and 1.0, objects in any order; not 1 and true."""
    if isinstance(value, str):
        return encode_basestring_ascii(value)
    if isinstance(value, (dict, list)):
        return json.dumps(_plain(value), sort_keys=True)
    return json.dumps(_plain(value))


def _plain(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _plain(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_plain(item) for item in value]
    if isinstance(value, float) and value.is_integer():
        return int(value)
    return value
