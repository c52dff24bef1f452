"""Proves that longest match keeps the language of rules that are cut into lexemes.

Wherever two lexemes may be tried at one place, no text of one may be the beginning of the other where what follows the
first could go on in the same way. Positions are told apart by where they stand in the rules, not by the stack above
them, so the proof may fail for a good cut, never the reverse.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from functools import cache

from dragoman.grammar.compile import compile_writer
from dragoman.grammar.machine import Machine, State
from dragoman.grammar.nodes import Choice, Grammar, Literal, Node, Ref, Repeat, Sequence, Without
from dragoman.grammar.notation.prune import references
from dragoman.grammar.program import Op

# A reference to a place of the cut rules.
MARK = "\0"
_PAIRS_MAX = 20_000
_PRODUCT_MAX = 4_000
_END = -1


class Unproven(Exception):
    """The rules cannot be cut, or the cut cannot be proven within the bounds."""


@dataclass(frozen=True, slots=True)
class Lexemes:
    """Rules whose references ``MARK + str(n)`` are places: the lexeme there is ``nodes[at[n]]``.

    The empty text of a node is not of the lexeme. regular: the rules that lexemes refer to.
    """

    rules: dict[str, Node]
    nodes: list[Node]
    at: list[int]
    regular: dict[str, Node]


def prove(lexed: Lexemes, start: str) -> None:
    """Raises Unproven where a lexeme may hide another, or where that takes too long to find out."""
    _Proof(lexed, start).check()


class _Proof:
    """Which places may be tried together, and that no lexeme there hides another."""

    def __init__(self, lexed: Lexemes, start: str) -> None:
        self.lexed = lexed
        self.start = start
        self.nullable: dict[str, bool] = dict.fromkeys(lexed.rules, False)
        self.first: dict[str, frozenset[int]] = dict.fromkeys(lexed.rules, frozenset())
        self.follow: dict[str, set[int]] = {name: set() for name in lexed.rules}
        self.next: list[set[int]] = [set() for _ in lexed.at]
        self.relations = _Relations(lexed)

    def check(self) -> None:
        """Raises Unproven where a lexeme may hide another."""
        self._begin()
        self._go_on()
        pairs: set[tuple[int, int]] = set()
        work: list[tuple[int, int]] = []

        def add(left: Iterable[int], right: Iterable[int]) -> None:
            others = [place for place in right if place != _END]
            for a in left:
                for b in others:
                    pair = (min(a, b), max(a, b))
                    if a != _END and pair not in pairs:
                        pairs.add(pair)
                        work.append(pair)

        add(self.first[self.start], self.first[self.start])
        while work:
            if len(pairs) > _PAIRS_MAX:
                raise Unproven
            a, b = work.pop()
            if self._hides(a, b) or self._hides(b, a):
                raise Unproven
            if self.relations.meet(self.lexed.at[a], self.lexed.at[b]):
                add(self.next[a], self.next[b])

    def _hides(self, a: int, b: int) -> bool:
        """True: behind a whole text of ``a``, ``b`` may go on with a byte that could belong to what follows ``a``."""
        going_on = self.relations.going_on(self.lexed.at[a], self.lexed.at[b])
        return any(going_on & self.relations.first(self.lexed.at[k]) for k in self.next[a] if k != _END)

    def _begin(self) -> None:
        """Which rules may be empty, and the places at which they begin."""
        changed = True
        while changed:
            changed = False
            for name, node in self.lexed.rules.items():
                value = (self._nullable(node), self._first(node))
                if value != (self.nullable[name], self.first[name]):
                    self.nullable[name], self.first[name] = value
                    changed = True

    def _go_on(self) -> None:
        """What may follow each place."""
        self.follow[self.start].add(_END)
        size = -1
        while size != (size := sum(map(len, self.follow.values()))):
            for name, node in self.lexed.rules.items():
                self._visit(node, frozenset(self.follow[name]))

    def _visit(self, node: Node, after: frozenset[int]) -> None:
        match node:
            case Ref(name) if name.startswith(MARK):
                self.next[int(name[1:])] |= after
            case Ref(name):
                self.follow[name] |= after
            case Sequence(items):
                for item in reversed(items):
                    self._visit(item, after)
                    after = self._first(item) | (after if self._nullable(item) else frozenset())
            case Choice(items):
                for item in items:
                    self._visit(item, after)
            case Repeat(item, _, most):
                self._visit(item, after if most == 1 else after | self._first(item))

    def _nullable(self, node: Node) -> bool:
        match node:
            case Literal(data):
                return not data
            case Ref(name):
                return not name.startswith(MARK) and self.nullable[name]
            case Sequence(items):
                return all(map(self._nullable, items))
            case Choice(items):
                return any(map(self._nullable, items))
            case Repeat(item, least):
                return not least or self._nullable(item)
        return False

    def _first(self, node: Node) -> frozenset[int]:
        match node:
            case Ref(name):
                return frozenset({int(name[1:])}) if name.startswith(MARK) else self.first[name]
            case Sequence(items):
                found: frozenset[int] = frozenset()
                for item in items:
                    found |= self._first(item)
                    if not self._nullable(item):
                        break
                return found
            case Choice(items):
                return frozenset().union(*map(self._first, items))
            case Repeat(item):
                return self._first(item)
        return frozenset()


class _Relations:
    """Questions about two lexemes, answered by running both side by side."""

    def __init__(self, lexed: Lexemes) -> None:
        self.lexed = lexed
        self.regular = {name: _relaxed(node) for name, node in lexed.regular.items()}
        self.machine = cache(self._machine)
        self.first = cache(self._first)
        self._both = cache(self._run)

    def meet(self, a: int, b: int) -> bool:
        """True: a text is of both."""
        return a == b or self._both(*sorted((a, b)))[0]

    def going_on(self, a: int, b: int) -> frozenset[int]:
        """The bytes with which a text of ``b`` may go on behind a whole text of ``a``."""
        found = self._both(min(a, b), max(a, b))
        return found[1] if a <= b else found[2]

    def _machine(self, number: int) -> Machine:
        rules = {**self.regular, "": _relaxed(self.lexed.nodes[number])}
        return Machine(compile_writer(Grammar(_reached(rules), "")))

    def _first(self, number: int) -> frozenset[int]:
        node = self.lexed.nodes[number]
        if isinstance(node, Literal):
            return frozenset(node.data[:1])
        machine = self.machine(number)
        start = machine.start()
        return frozenset(byte for byte in range(256) if machine.step(start, byte)[0].threads)

    def _run(self, a: int, b: int) -> tuple[bool, frozenset[int], frozenset[int]]:
        left, right = self.lexed.nodes[a], self.lexed.nodes[b]
        if isinstance(left, Literal) and isinstance(right, Literal):
            on_left, on_right = (_behind(x.data, y.data) for x, y in ((left, right), (right, left)))
            return left == right, on_left, on_right
        if not self.first(a) & self.first(b):
            return False, frozenset(), frozenset()
        return self._side_by_side(a, b)

    def _side_by_side(self, a: int, b: int) -> tuple[bool, frozenset[int], frozenset[int]]:
        one, two = self.machine(a), self.machine(b)
        groups = _groups((one, two))
        seen: set[tuple[State, State]] = set()
        work = [(one.start(), two.start())]
        meet, on_b, on_a = False, set[int](), set[int]()
        while work:
            left, right = work.pop()
            at_start = not seen
            seen.add((left, right))
            if len(seen) > _PRODUCT_MAX:
                raise Unproven
            # The empty text is no lexeme.
            whole_a = not at_start and one.accept(left) is not None
            whole_b = not at_start and two.accept(right) is not None
            meet = meet or (whole_a and whole_b)
            for group in groups:
                next_a, next_b = one.step(left, group[0])[0], two.step(right, group[0])[0]
                if whole_a and next_b.threads:
                    on_b.update(group)
                if whole_b and next_a.threads:
                    on_a.update(group)
                if next_a.threads and next_b.threads and (next_a, next_b) not in seen:
                    work.append((next_a, next_b))
        return meet, frozenset(on_b), frozenset(on_a)


def _behind(word: bytes, other: bytes) -> frozenset[int]:
    """The byte with which ``other`` goes on behind ``word``."""
    return frozenset(other[len(word) : len(word) + 1]) if other.startswith(word) else frozenset()


def _groups(machines: Iterable[Machine]) -> list[list[int]]:
    """The bytes in groups that no instruction tells apart."""
    keys: list[list[object]] = [[] for _ in range(256)]
    for bits in {code[1] for machine in machines for code in machine.program.code if code[0] == Op.BYTES}:
        for byte in range(256):
            keys[byte].append(bits >> byte & 1)
    groups: dict[tuple[object, ...], list[int]] = {}
    for byte, key in enumerate(keys):
        groups.setdefault(tuple(key), []).append(byte)
    return list(groups.values())


def _relaxed(node: Node) -> Node:
    """``node`` with large counts made open: more texts, fewer states."""
    match node:
        case Repeat(item, least, most):
            large = least > 2 or (most is not None and most > 2)
            return Repeat(_relaxed(item), min(least, 1), None) if large else Repeat(_relaxed(item), least, most)
        case Sequence(items) | Choice(items):
            return replace(node, items=tuple(map(_relaxed, items)))
        case Without(item):
            return replace(node, item=_relaxed(item))
    return node


def _reached(rules: Mapping[str, Node]) -> dict[str, Node]:
    out: dict[str, Node] = {}
    work = [""]
    while work:
        name = work.pop()
        if name not in out:
            out[name] = rules[name]
            work += references(rules[name])
    return out
