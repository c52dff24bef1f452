"""A regular expression as a deterministic automaton: positions by Thompson's construction, sets of them as states.

An anchor is an edge that is open or not depending on the characters before and after it; so a set of positions is kept
as it was behind a character, together with what kind that character was, and closed once the next kind is known.
Look-ahead is an intersection with the rest of the text: decided from the right, therefore not inside a repeat.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from itertools import pairwise
from typing import TypeAlias

from dragoman.grammar.nodes import AnyChar, Choice, Class, Literal, Node, Repeat, Sequence
from dragoman.grammar.regex import automata
from dragoman.grammar.regex.automata import Dfa, TooLarge, explore
from dragoman.grammar.regex.classes import WORD, merged
from dragoman.grammar.regex.parse import Anchor, Look, RegexError, Tree
from dragoman.grammar.utf8 import ANY

POSITIONS_MAX = 100_000
# Moves looked at while sets of positions are made; bounds the time where many sets are large.
WORK_MAX = 2_000_000

Kept: TypeAlias = tuple[int, frozenset[int]]  # the kind of the last character, and the positions behind it
START, WORD_CHAR, OTHER, END = range(4)  # kinds of what stands beside a position
ALL = Class(ANY)
EVERYTHING = Repeat(ALL)


def language(tree: Tree, *, search: bool = False, states: int = automata.STATES_MAX) -> Dfa:
    """The texts that match ``tree`` as a whole; with ``search``: that hold a match.

    Raises TooLarge past ``states``, RegexError for look-ahead inside a repeat.
    """
    if not _has(tree, Look):
        if search:
            tree = Sequence((EVERYTHING, tree, EVERYTHING))  # type: ignore[arg-type]
        return _determinised(tree, None, states)
    found = automata.NOTHING
    for option in tree.items if isinstance(tree, Choice) else (tree,):
        found = automata.union(found, _before(_anchored(option, search), None, states))
    return found


def _anchored(tree: Tree, search: bool) -> Tree:
    """One alternative with look-ahead, its ``^`` taken off; what its pieces would take for the start is refused."""
    items = tree.items if isinstance(tree, Sequence) else (tree,)
    first: Tree = items[0]
    if first == Anchor("^"):
        items = items[1:]
    if any(_holds_start(item) for item in items):
        raise RegexError("beside look-ahead, ^ is supported only at the start and \\b not at all")
    around: tuple[Node, ...] = (EVERYTHING,) if search else ()
    before = () if first == Anchor("^") else around
    return Sequence((*before, *items, *around))


def _holds_start(tree: Tree) -> bool:
    work = [tree]
    while work:
        at = work.pop()
        if isinstance(at, Anchor) and at.kind != "$":
            return True
        work.extend(parts(at))
    return False


def _has(tree: Tree, kind: type | tuple[type, ...]) -> bool:
    work = [tree]
    while work:
        at = work.pop()
        if isinstance(at, kind):
            return True
        work.extend(parts(at))
    return False


def parts(tree: Tree) -> tuple[Tree, ...]:
    if isinstance(tree, (Sequence, Choice)):
        return tree.items
    return (tree.item,) if isinstance(tree, (Repeat, Look)) else ()


def _before(tree: Tree, rest: Dfa | None, states: int) -> Dfa:
    """The texts of ``tree`` followed by those of ``rest`` (None: the end)."""
    if isinstance(tree, Look):
        here = Sequence((tree.item, EVERYTHING))  # type: ignore[arg-type]
        seen = _before(here, None, states)
        rest = rest or automata.of_words([""])
        return automata.difference(rest, seen) if tree.negative else automata.intersection(rest, seen)
    if not _has(tree, Look):
        return _determinised(tree, rest, states)
    if isinstance(tree, Sequence):
        head: list[Tree] = []
        for item in reversed(tree.items):
            if _has(item, Look):
                if head:
                    rest = _determinised(Sequence(tuple(head)), rest, states)  # type: ignore[arg-type]
                    head = []
                rest = _before(item, rest, states)
            else:
                head.insert(0, item)
        if head:
            rest = _determinised(Sequence(tuple(head)), rest, states)  # type: ignore[arg-type]
        return rest or automata.of_words([""])
    if isinstance(tree, Choice):
        found = automata.NOTHING
        for item in tree.items:
            found = automata.union(found, _before(item, rest, states))
        return found
    raise RegexError("look-ahead inside a repeat is not supported")


@dataclass(slots=True)
class _Positions:
    """The positions of an expression. moves: position -> characters and position behind; gates: edges without one."""

    moves: list[tuple[tuple[tuple[int, int], ...], int] | None] = field(default_factory=list)
    gates: list[list[tuple[str, int]]] = field(default_factory=list)

    def new(self) -> int:
        if len(self.moves) >= POSITIONS_MAX:
            raise TooLarge
        self.moves.append(None)
        self.gates.append([])
        return len(self.moves) - 1

    def add(self, tree: Tree, end: int) -> int:
        """Positions for ``tree`` that lead on to ``end``; the first of them. Depth is bounded by the parser."""
        if isinstance(tree, Class):
            at = self.new()
            self.moves[at] = (_clipped(tree.ranges), end)
            return at
        if isinstance(tree, AnyChar):
            return self.add(ALL, end)
        if isinstance(tree, Literal):
            for char in reversed(tree.data.decode()):
                end = self.add(Class(((ord(char), ord(char)),)), end)
            return end
        if isinstance(tree, Sequence):
            for item in reversed(tree.items):
                end = self.add(item, end)
            return end
        at = self.new()
        if isinstance(tree, Choice):
            self.gates[at] = [("", self.add(item, end)) for item in tree.items]
        elif isinstance(tree, Anchor):
            self.gates[at] = [(tree.kind, end)]
        elif isinstance(tree, Repeat):
            self._repeat(tree, at, end)
        else:
            raise TypeError(f"not a regular expression: {tree!r:.60}")
        return at

    def _repeat(self, tree: Repeat, at: int, end: int) -> None:
        following = end
        if tree.max is None:
            following = self.new()
            self.gates[following] = [("", self.add(tree.item, following)), ("", end)]
        else:
            for _ in range(tree.max - tree.min):
                once = self.new()
                self.gates[once] = [("", self.add(tree.item, following)), ("", end)]
                following = once
        for _ in range(tree.min):
            following = self.add(tree.item, following)
        self.gates[at] = [("", following)]


def _clipped(ranges: Iterable[tuple[int, int]]) -> tuple[tuple[int, int], ...]:
    """Without surrogates, which no text in UTF-8 holds."""
    return tuple(
        (max(low, first), min(high, last))
        for low, high in ranges
        for first, last in ANY
        if low <= last and high >= first
    )


def _determinised(tree: Tree, rest: Dfa | None, limit: int) -> Dfa:
    """``tree``, then ``rest``. The start of ``tree`` is the start of the text as far as anchors are concerned."""
    net = _Positions()
    end = net.new()
    behind: list[int] = []
    if rest is not None:
        behind = [net.new() for _ in rest.edges]
    entry = net.add(tree, end)
    steps = _Steps(net, rest, end, behind, limit)
    return explore((START, frozenset((entry,))), steps.follow, steps.ends)


class _Steps:
    def __init__(self, net: _Positions, rest: Dfa | None, end: int, behind: list[int], limit: int) -> None:
        self.net = net
        self.end = end
        self.left = WORK_MAX
        self.limit = limit
        self.anchored = any(kind for gates in net.gates for kind, _ in gates)
        self.bounded = any(kind in ("b", "B") for gates in net.gates for kind, _ in gates)
        self.final: frozenset[int] = frozenset((end,))
        self.more: dict[int, list[tuple[tuple[tuple[int, int], ...], int]]] = {}
        if rest is not None:
            net.gates[end].append(("", behind[0]))
            self.final = frozenset(behind[state] for state in rest.accepting)
            for state, edges in enumerate(rest.edges):
                self.more[behind[state]] = [(((low, high),), behind[target]) for low, high, target in edges]

    def closure(self, positions: frozenset[int], before: int, after: int) -> set[int]:
        """The positions reached without a character, between characters of these kinds."""
        seen = set(positions)
        work = list(positions)
        word = (before == WORD_CHAR) != (after == WORD_CHAR)
        opened = {"": True, "^": before == START, "$": after == END, "b": word, "B": not word}
        while work:
            for kind, target in self.net.gates[work.pop()]:
                if target not in seen and opened[kind]:
                    seen.add(target)
                    work.append(target)
        self.left -= len(seen)
        if self.left < 0:
            raise TooLarge
        return seen

    def follow(self, state: Kept) -> Iterator[tuple[int, int, Kept]]:
        before, positions = state
        self.limit -= 1
        if self.limit < 0:
            raise TooLarge
        if self.bounded:
            yield from self._moved(self.closure(positions, before, WORD_CHAR), WORD, WORD_CHAR)
            yield from self._moved(self.closure(positions, before, OTHER), NOT_WORD, OTHER)
        else:
            yield from self._moved(self.closure(positions, before, OTHER), ANY, OTHER)

    def _moved(
        self, closed: set[int], among: tuple[tuple[int, int], ...], kind: int
    ) -> Iterator[tuple[int, int, Kept]]:
        starts: dict[int, list[int]] = {}
        stops: dict[int, list[int]] = {}
        for position in closed:
            moves = self.more.get(position, ())
            own = self.net.moves[position]
            for ranges, target in (own, *moves) if own is not None else moves:
                for low, high in ranges:
                    starts.setdefault(low, []).append(target)
                    stops.setdefault(high + 1, []).append(target)
        cuts = sorted({*starts, *stops})
        live: dict[int, int] = {}
        for low, after in pairwise([*cuts, 0x110000]):
            for target in starts.get(low, ()):
                live[target] = live.get(target, 0) + 1
            for target in stops.get(low, ()):
                live[target] -= 1
                if not live[target]:
                    del live[target]
            if live:
                self.left -= len(live)
                if self.left < 0:
                    raise TooLarge
                behind = (kind, frozenset(live))
                for first, last in among:
                    if first < after and last >= low:
                        yield max(first, low), min(last, after - 1), behind

    def ends(self, state: Kept) -> bool:
        before, positions = state
        return not self.final.isdisjoint(self.closure(positions, before, END))


NOT_WORD = tuple(
    (low, high)
    for low, high in merged(
        (max(a, first), min(b, last))
        for a, b in (((0, 0x2F), (0x3A, 0x40), (0x5B, 0x5E), (0x60, 0x60), (0x7B, 0x10FFFF)))
        for first, last in ANY
        if a <= last and b >= first
    )
)


def of_node(node: Node) -> Dfa:
    """A regular node without references (a range of numbers) as an automaton."""
    return _determinised(node, None, automata.STATES_MAX)
