"""Finite automata over characters: what regular expressions, lists of texts and number ranges come down to.

Rules of this file: state 0 is the start; an edge that is not there leads nowhere; nothing recurses; every operation
that makes states counts them and raises :class:`TooLarge` past ``STATES_MAX``, so that callers can choose another way.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from itertools import pairwise
from typing import TypeAlias, TypeVar

from dragoman.grammar.utf8 import ANY

Edge: TypeAlias = tuple[int, int, int]  # first and last code point, state behind
Edges: TypeAlias = tuple[Edge, ...]  # ascending, disjoint
S = TypeVar("S")

STATES_MAX = 20_000
# Past this many states minimising costs more than it saves.
MINIMISE_MAX = 3_000


class TooLarge(Exception):
    """The automaton would have too many states."""


@dataclass(frozen=True, slots=True)
class Dfa:
    """A deterministic automaton: ``edges[state]``, and the states in which a text may end."""

    edges: tuple[Edges, ...]
    accepting: frozenset[int]

    def step(self, state: int, point: int) -> int:
        """The state behind one character; -1 where no text goes on."""
        for low, high, target in self.edges[state]:
            if low <= point <= high:
                return target
        return -1

    def accepts(self, text: str) -> bool:
        state = 0
        for char in text:
            state = self.step(state, ord(char))
            if state < 0:
                return False
        return state in self.accepting

    @property
    def empty(self) -> bool:
        """True: no text is accepted. Of a trimmed automaton only."""
        return not self.accepting

    def words(self, limit: int) -> list[str] | None:
        """All accepted texts, or None where there are more than ``limit``. Of a trimmed automaton only."""
        out: list[str] = []
        work = [(0, "")]
        steps = 0
        while work:
            state, text = work.pop()
            steps += 1
            if steps > 50 * limit + 1000 or len(text) > len(self.edges):
                return None  # longer than the number of states: there is a cycle, and it is live
            if state in self.accepting:
                out.append(text)
            for low, high, target in self.edges[state]:
                if len(out) + len(work) + high - low >= 50 * limit + 1000:
                    return None
                work.extend((target, text + chr(point)) for point in range(low, high + 1))
            if len(out) > limit:
                return None
        return sorted(out)

    def lengths(self) -> tuple[int, int | None]:
        """The shortest and the longest length of an accepted text (None: no bound). Of a trimmed automaton only."""
        least, seen, layer = 0, {0}, {0}
        while layer and not layer & self.accepting:
            layer = {target for state in layer for _, _, target in self.edges[state]} - seen
            seen |= layer
            least += 1
        order = _topological(self)
        if order is None:
            return least, None
        depth = dict.fromkeys(order, 0)
        for state in order:
            for _, _, target in self.edges[state]:
                depth[target] = max(depth[target], depth[state] + 1)
        return least, max((depth[state] for state in self.accepting), default=0)


def _topological(dfa: Dfa) -> list[int] | None:
    """The states with every edge leading onward; None where there is a cycle."""
    entering = [0] * len(dfa.edges)
    for edges in dfa.edges:
        for _, _, target in edges:
            entering[target] += 1
    ready = [state for state, count in enumerate(entering) if not count]
    order: list[int] = []
    while ready:
        state = ready.pop()
        order.append(state)
        for _, _, target in dfa.edges[state]:
            entering[target] -= 1
            if not entering[target]:
                ready.append(target)
    return order if len(order) == len(dfa.edges) else None


NOTHING = Dfa(((),), frozenset())
ANYTHING = Dfa((tuple((low, high, 0) for low, high in ANY),), frozenset((0,)))


def explore(start: S, follow: Callable[[S], Iterable[tuple[int, int, S]]], ends: Callable[[S], bool]) -> Dfa:
    """The automaton whose states are the values reached from ``start``; trimmed and, where small, minimal."""
    numbers: dict[S, int] = {start: 0}
    order = [start]
    edges: list[Edges] = []
    for state in order:  # grows as it is walked
        found: list[Edge] = []
        for low, high, target in follow(state):
            number = numbers.get(target)
            if number is None:
                number = numbers[target] = len(order)
                order.append(target)
                if len(order) > STATES_MAX:
                    raise TooLarge
            found.append((low, high, number))
        edges.append(tuple(joined(found)))
    accepting = frozenset(number for number, state in enumerate(order) if ends(state))
    return minimal(trimmed(Dfa(tuple(edges), accepting)))


def joined(edges: Iterable[Edge]) -> Iterator[Edge]:
    """Ascending edges with neighbours that lead to the same state made one."""
    last: Edge | None = None
    for edge in sorted(edges):
        if last is not None and last[2] == edge[2] and last[1] + 1 == edge[0]:
            last = (last[0], edge[1], edge[2])
        else:
            if last is not None:
                yield last
            last = edge
    if last is not None:
        yield last


def trimmed(dfa: Dfa) -> Dfa:
    """The same texts, without states from which no text ends."""
    users: list[list[int]] = [[] for _ in dfa.edges]
    for state, edges in enumerate(dfa.edges):
        for _, _, target in edges:
            users[target].append(state)
    live = set(dfa.accepting)
    work = list(live)
    while work:
        for user in users[work.pop()]:
            if user not in live:
                live.add(user)
                work.append(user)
    if 0 not in live:
        return NOTHING
    if len(live) == len(dfa.edges):
        return dfa
    numbers = {state: number for number, state in enumerate(sorted(live))}
    edges_of = tuple(
        tuple((low, high, numbers[target]) for low, high, target in dfa.edges[state] if target in live)
        for state in numbers
    )
    return Dfa(edges_of, frozenset(numbers[state] for state in dfa.accepting))


def minimal(dfa: Dfa) -> Dfa:
    """The same texts with the fewest states (E. F. Moore, 1956); unchanged where it is large."""
    size = len(dfa.edges)
    if size > MINIMISE_MAX:
        return dfa
    block = [1 if state in dfa.accepting else 0 for state in range(size)]
    count = len(set(block))
    while True:
        known: dict[object, int] = {}
        after: list[int] = []
        for state in range(size):
            moves = tuple(joined((low, high, block[target]) for low, high, target in dfa.edges[state]))
            after.append(known.setdefault((block[state], moves), len(known)))
        block = after
        if len(known) == count:
            break
        count = len(known)
    if count == size:
        return dfa
    first: dict[int, int] = {}
    for state in range(size):  # state 0 comes first, so its block is 0
        first.setdefault(block[state], state)
    edges = tuple(
        tuple(joined((low, high, block[target]) for low, high, target in dfa.edges[first[number]]))
        for number in range(count)
    )
    return Dfa(edges, frozenset(block[state] for state in dfa.accepting))


def intersection(a: Dfa, b: Dfa) -> Dfa:
    return _product(a, b, lambda left, right: left and right)


def union(a: Dfa, b: Dfa) -> Dfa:
    return _product(a, b, lambda left, right: left or right)


def difference(a: Dfa, b: Dfa) -> Dfa:
    return _product(a, b, lambda left, right: left and not right)


def complement(a: Dfa) -> Dfa:
    return difference(ANYTHING, a)


def _product(a: Dfa, b: Dfa, keep: Callable[[bool, bool], bool]) -> Dfa:
    """Texts for which ``keep`` says yes to (accepted by a, accepted by b); it must say no to (False, False)."""
    alone = keep(True, False), keep(False, True)

    def follow(state: tuple[int, int]) -> Iterator[tuple[int, int, tuple[int, int]]]:
        left, right = state
        for low, high, p, q in overlaid(a.edges[left] if left >= 0 else (), b.edges[right] if right >= 0 else ()):
            if (p >= 0 and q >= 0) or (p >= 0 and alone[0]) or (q >= 0 and alone[1]):
                yield low, high, (p, q)

    def ends(state: tuple[int, int]) -> bool:
        left, right = state
        return keep(left in a.accepting, right in b.accepting)

    return explore((0, 0), follow, ends)


def overlaid(a: Edges, b: Edges) -> Iterator[tuple[int, int, int, int]]:
    """Two lists of edges as one: range, state behind in a, state behind in b (-1: none)."""
    cuts = sorted({point for low, high, _ in (*a, *b) for point in (low, high + 1)})
    i = j = 0
    for low, after in pairwise(cuts):
        while i < len(a) and a[i][1] < low:
            i += 1
        while j < len(b) and b[j][1] < low:
            j += 1
        p = a[i][2] if i < len(a) and a[i][0] <= low else -1
        q = b[j][2] if j < len(b) and b[j][0] <= low else -1
        if p >= 0 or q >= 0:
            yield low, after - 1, p, q


def of_words(words: Iterable[str]) -> Dfa:
    """Exactly these texts."""
    edges: list[dict[int, int]] = [{}]
    accepting: set[int] = set()
    for word in words:
        state = 0
        for char in word:
            point = ord(char)
            if point not in edges[state]:
                if len(edges) >= STATES_MAX:
                    raise TooLarge
                edges[state][point] = len(edges)
                edges.append({})
            state = edges[state][point]
        accepting.add(state)
    rows = tuple(tuple(joined((p, p, target) for p, target in row.items())) for row in edges)
    return minimal(Dfa(rows, frozenset(accepting)))


def of_length(least: int, most: int | None) -> Dfa:
    """Texts of ``least`` to ``most`` characters."""
    last = least if most is None else most
    if last >= STATES_MAX:
        raise TooLarge
    edges = [tuple((low, high, state + 1) for low, high in ANY) for state in range(last)]
    edges.append(tuple((low, high, last) for low, high in ANY) if most is None else ())
    return Dfa(tuple(edges), frozenset(range(least, last + 1)))


def labelled(parts: list[Dfa]) -> tuple[tuple[Edges, ...], tuple[tuple[bool, ...], ...]]:
    """One complete automaton over all characters, and for each state which of ``parts`` accept there."""
    numbers: dict[tuple[int, ...], int] = {(0,) * len(parts): 0}
    order = list(numbers)
    edges: list[Edges] = []
    for state in order:
        merged: list[tuple[int, int, tuple[int, ...]]] = [(low, high, ()) for low, high in ANY]
        for part, at in zip(parts, state, strict=True):
            merged = _refined(merged, part.edges[at] if at >= 0 else ())
        row: list[Edge] = []
        for low, high, target in merged:
            if target not in numbers:
                numbers[target] = len(order)
                order.append(target)
                if len(order) > STATES_MAX:
                    raise TooLarge
            row.append((low, high, numbers[target]))
        edges.append(tuple(joined(row)))
    labels = tuple(tuple(at in part.accepting for part, at in zip(parts, state, strict=True)) for state in order)
    return tuple(edges), labels


def _refined(ranges: list[tuple[int, int, tuple[int, ...]]], edges: Edges) -> list[tuple[int, int, tuple[int, ...]]]:
    out: list[tuple[int, int, tuple[int, ...]]] = []
    i = 0
    for low, high, targets in ranges:
        while low <= high:
            while i < len(edges) and edges[i][1] < low:
                i += 1
            if i == len(edges) or edges[i][0] > high:
                out.append((low, high, (*targets, -1)))
                break
            first, last, target = edges[i]
            if first > low:
                out.append((low, first - 1, (*targets, -1)))
                low = first
            end = min(last, high)
            out.append((low, end, (*targets, target)))
            low = end + 1
    return out
