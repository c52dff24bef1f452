"""The grammar tree: one dataclass per construct, frozen and hashable, meaning in the first line.

Meaning is ordered backtracking: the first complete parse in priority order wins (Perl, RE2), never possessive PEG.
All text is UTF-8 bytes. One tree has two compilations: *reader* (priorities, tags, commits) and *writer* (what may be
produced: tags and commits vanish). :class:`Duplex` and :class:`Schema` are where the two differ.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias

if TYPE_CHECKING:
    from dragoman.grammar.facts import Facts


class _Noted:
    """``facts``: what was found out about a node, kept with it (facts.py); no part of its value."""

    __slots__ = ("facts",)
    facts: Facts


@dataclass(frozen=True, slots=True)
class Literal(_Noted):
    """Exactly these bytes. Empty: matches the empty string."""

    data: bytes


@dataclass(frozen=True, slots=True)
class Class(_Noted):
    """One character whose code point lies in one of the inclusive ranges (ascending, disjoint). No ranges: nothing."""

    ranges: tuple[tuple[int, int], ...]


@dataclass(frozen=True, slots=True)
class AnyChar(_Noted):
    """One well-formed UTF-8 character."""


@dataclass(frozen=True, slots=True)
class Sequence(_Noted):
    """All items in this order."""

    items: tuple[Node, ...]


@dataclass(frozen=True, slots=True)
class Choice(_Noted):
    """One of the alternatives; the earlier the better (the writer takes any). No alternatives: nothing."""

    items: tuple[Node, ...]


@dataclass(frozen=True, slots=True)
class Repeat(_Noted):
    """``item`` min to max times (None: unbounded); more is better, unless ``lazy``. A nullable item is refused."""

    item: Node
    min: int = 0
    max: int | None = None
    lazy: bool = False


@dataclass(frozen=True, slots=True)
class Until(_Noted):
    """Any characters, none of which begins a delimiter; ends only in front of a delimiter or at the end of input."""

    delimiters: tuple[bytes, ...]


@dataclass(frozen=True, slots=True)
class UntilConfirmed(_Noted):
    """Any characters up to ``closer`` (consumed) that ``follow`` (regular, bounded, not consumed) comes after.

    A closer that is not followed so is data. The text before the closer is what ``tag`` marks, if given.
    """

    closer: bytes
    follow: Node
    tag: str | None = None


@dataclass(frozen=True, slots=True)
class Without(_Noted):
    """``item``, inside whose text no ``forbidden`` string occurs (one that reaches beyond its end does not count)."""

    item: Node
    forbidden: tuple[bytes, ...]


@dataclass(frozen=True, slots=True)
class Peek(_Noted):
    """Nothing consumed; what follows must begin with ``item`` (regular, bounded)."""

    item: Node


@dataclass(frozen=True, slots=True)
class Negate(_Noted):
    """Nothing consumed; what follows must not begin with ``item`` (regular, bounded)."""

    item: Node


@dataclass(frozen=True, slots=True)
class Atomic(_Noted):
    """``item``; its events are delivered together, when it is complete."""

    item: Node


@dataclass(frozen=True, slots=True)
class Commit(_Noted):
    """Nothing consumed; threads that pass a commit in a step silence those that do not. ``label``: recovery point."""

    label: str


@dataclass(frozen=True, slots=True)
class Tag(_Noted):
    """``item`` as a named region of the event stream.

    ``resumed``: the region is open already, a recovery point kept it; it ends after ``item``. For recovery rules only.
    """

    name: str
    item: Node
    resumed: bool = False


@dataclass(frozen=True, slots=True)
class Ref(_Noted):
    """The rule of this name."""

    name: str


@dataclass(frozen=True, slots=True)
class Permutation(_Noted):
    """Each item at most once (exactly once where ``required`` says so), in any order, ``separator`` between two."""

    items: tuple[Node, ...]
    required: tuple[bool, ...]
    separator: Node = field(default_factory=lambda: Literal(b""))


@dataclass(frozen=True, slots=True)
class Control(_Noted):
    """A control token of the vocabulary: its own symbol when tokens are read or written, its text when text is read."""

    text: str


@dataclass(frozen=True, slots=True)
class Schema(_Noted):
    """Writer: JSON text that validates against the schema ``text`` (JSON). Reader: ``reader``."""

    text: str
    reader: Node


@dataclass(frozen=True, slots=True)
class Gbnf(_Noted):
    """A grammar in llama.cpp's notation, from its root rule."""

    text: str


@dataclass(frozen=True, slots=True)
class Duplex(_Noted):
    """``reader`` where text is read, ``writer`` where it is written; the writer's language is inside the reader's."""

    reader: Node
    writer: Node


Node: TypeAlias = (
    Literal
    | Class
    | AnyChar
    | Sequence
    | Choice
    | Repeat
    | Until
    | UntilConfirmed
    | Without
    | Peek
    | Negate
    | Atomic
    | Commit
    | Tag
    | Ref
    | Permutation
    | Control
    | Schema
    | Gbnf
    | Duplex
)


@dataclass(frozen=True, slots=True)
class Recovery:
    """Where reading goes on after a failure: rule ``rule`` starts with exactly the regions ``keep`` still open.

    quiet: no failure of the output, only of one way to read it: nothing is noted, ``strict`` does not raise.
    """

    rule: str
    keep: tuple[str, ...] = ()
    quiet: bool = False


class Later(Protocol):
    """Rules that are made when they are asked for."""

    def __contains__(self, name: object) -> bool: ...
    def __getitem__(self, name: str) -> Node: ...


@dataclass(frozen=True, slots=True)
class Grammar:
    """Rules by name, the start rule, and the recovery point of each commit label.

    later: further rules of a writer, each made when it is asked for. Nothing is wrong with them, and none can be empty.
    """

    rules: Mapping[str, Node]
    start: str = "root"
    recovery: Mapping[str, Recovery] = field(default_factory=dict)
    later: Later | None = None

    def has(self, name: str) -> bool:
        """Whether there is a rule of this name, made or not."""
        return name in self.rules or (self.later is not None and name in self.later)

    def rule(self, name: str) -> Node:
        """The rule of this name; KeyError where there is none."""
        found = self.rules.get(name)
        if found is None and self.later is not None:
            return self.later[name]
        return self.rules[name] if found is None else found


EMPTY = Literal(b"")
NOTHING = Class(())


def lit(text: str) -> Literal:
    return Literal(text.encode())


def seq(*items: Node) -> Node:
    """A flat sequence: nested sequences spliced, empty literals dropped, adjacent literals merged."""
    flat: list[Node] = []
    last: Node | None = None
    for item in items:
        for part in item.items if type(item) is Sequence else (item,):
            if type(part) is Literal:
                if type(last) is Literal:
                    part = flat[-1] = Literal(last.data + part.data)
                elif part.data:
                    flat.append(part)
                else:
                    continue
            else:
                flat.append(part)
            last = part
    if not flat:
        return EMPTY
    return flat[0] if len(flat) == 1 else Sequence(tuple(flat))


def alt(*items: Node) -> Node:
    """An ordered choice, nested choices spliced, repeated alternatives dropped."""
    flat: list[Node] = []
    for item in items:
        for part in item.items if isinstance(item, Choice) else (item,):
            if part not in flat:
                flat.append(part)
    return flat[0] if len(flat) == 1 else Choice(tuple(flat))


def opt(item: Node) -> Node:
    return alt(item, EMPTY)


def chars(spec: str) -> Class:
    """The characters of ``spec``, as a class."""
    points = sorted({ord(c) for c in spec})
    ranges: list[tuple[int, int]] = []
    for point in points:
        if ranges and ranges[-1][1] == point - 1:
            ranges[-1] = (ranges[-1][0], point)
        else:
            ranges.append((point, point))
    return Class(tuple(ranges))


def complement(ranges: Iterable[tuple[int, int]]) -> Class:
    """All code points (surrogates left out) outside the ascending, disjoint ``ranges``."""
    out: list[tuple[int, int]] = []
    start = 0
    for low, high in [*ranges, (0x110000, 0x110000)]:
        for a, b in ((start, min(low - 1, 0xD7FF)), (max(start, 0xE000), low - 1)):
            if a <= b:
                out.append((a, b))
        start = high + 1
    return Class(tuple(out))


def schema(json_schema: Any, reader: Node) -> Schema:
    return Schema(json.dumps(json_schema, sort_keys=False, ensure_ascii=False), reader)
