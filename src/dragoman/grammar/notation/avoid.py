"""Texts of a node in which forbidden strings do not occur, as right-linear rules: for notations without complement.

The node is walked as a list of what is still to be matched; beside it runs the automaton of Aho and Corasick (1975)
over the forbidden strings, in characters. A state is a pair of both, a rule is a state.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import TypeAlias

from dragoman.grammar.nodes import (
    EMPTY,
    AnyChar,
    Choice,
    Class,
    Commit,
    Control,
    Literal,
    Negate,
    Node,
    Peek,
    Ref,
    Repeat,
    Sequence,
    Until,
    Without,
    alt,
    complement,
    seq,
)
from dragoman.grammar.regex.classes import merged

Ranges: TypeAlias = tuple[tuple[int, int], ...]
ANY: Ranges = complement(()).ranges
# States of one product. Past it counts are given up, and then the exclusion.
STATES_MAX = 2_000
# Alternatives that are entered without consuming a character, for one state.
CLOSURE_MAX = 2_000


class _TooLarge(Exception):
    """The product has too many states, or the node is not regular."""


def avoiding(
    item: Node, forbidden: tuple[bytes, ...], rules: Mapping[str, Node], new_rules: Callable[[dict[str, Node]], Ref]
) -> Node:
    """``item`` without the forbidden strings, or a superset of that: where counts or the product would grow too large.

    ``new_rules`` stores rules by provisional names (the first is the start) and says where the start went.
    """
    words = tuple(word.decode("utf-8", "ignore") for word in forbidden)
    automaton = Automaton.of(tuple(word for word in words if word))
    for exact in (True, False):
        try:
            return new_rules(_Product(rules, automaton, exact).rules(item))
        except _TooLarge:
            continue
    return item


@dataclass(frozen=True, slots=True)
class Automaton:
    """Which forbidden string is under way: state -> character -> state; all other characters lead to state 0."""

    steps: tuple[dict[str, int], ...]
    ends: frozenset[int]  # states in which a forbidden string is complete

    @classmethod
    def of(cls, words: tuple[str, ...]) -> Automaton:
        trie: list[dict[str, int]] = [{}]
        ends: set[int] = set()
        for word in words:
            state = 0
            for char in word:
                if char not in trie[state]:
                    trie[state][char] = len(trie)
                    trie.append({})
                state = trie[state][char]
            ends.add(state)
        steps: list[dict[str, int]] = [dict(trie[0])] + [{}] * (len(trie) - 1)
        fail = [0] * len(trie)
        queue = list(trie[0].values())
        for state in queue:  # breadth first: the shorter suffix is finished before
            steps[state] = {**steps[fail[state]], **trie[state]}
            for char, child in trie[state].items():
                fail[child] = steps[fail[state]].get(char, 0)
                queue.append(child)
            if fail[state] in ends:
                ends.add(state)
        return cls(tuple(steps), frozenset(ends))


@dataclass(slots=True)
class _Product:
    source: Mapping[str, Node]
    automaton: Automaton
    exact: bool
    names: dict[tuple[int, int], str] = field(default_factory=dict)
    _rests: dict[tuple[Node, int], int] = field(default_factory=dict)
    _heads: list[tuple[Node, int]] = field(default_factory=list)
    _work: list[tuple[int, int]] = field(default_factory=list)

    def rules(self, item: Node) -> dict[str, Node]:
        """The rules of all states, the start first."""
        out: dict[str, Node] = {}
        self._name(self._rest(item, -1), 0)
        while self._work:
            state = self._work.pop()
            out[self.names[state]] = self._state(*state)
        return dict(sorted(out.items(), key=lambda pair: int(pair[0])))

    def _name(self, rest: int, word: int) -> str:
        key = (rest, word)
        if key not in self.names:
            if len(self.names) >= STATES_MAX:
                raise _TooLarge
            self.names[key] = str(len(self.names))
            self._work.append(key)
        return self.names[key]

    def _rest(self, node: Node, rest: int) -> int:
        """The number of "``node``, then ``rest``"; -1 is nothing left."""
        key = (node, rest)
        if key not in self._rests:
            self._rests[key] = len(self._heads)
            self._heads.append(key)
        return self._rests[key]

    def _state(self, rest: int, word: int) -> Node:
        targets: dict[str, list[tuple[int, int]]] = {}
        may_end = False
        for ranges, following in self._closure(rest):
            if ranges is None:
                may_end = True
                continue
            for low, high, state in self._split(ranges, word):
                if state not in self.automaton.ends:
                    targets.setdefault(self._name(following, state), []).append((low, high))
        options: list[Node] = [seq(Class(merged(ranges)), Ref(name)) for name, ranges in targets.items()]
        return alt(*options, *([EMPTY] if may_end else [])) if options or may_end else Choice(())

    def _split(self, ranges: Ranges, word: int) -> Iterator[tuple[int, int, int]]:
        """Pieces of the ranges with the automaton's state behind them."""
        steps = sorted((ord(char), state) for char, state in self.automaton.steps[word].items())
        for low, high in ranges:
            start = low
            for point, state in steps:
                if start <= point <= high:
                    if start < point:
                        yield start, point - 1, 0
                    yield point, point, state
                    start = point + 1
            if start <= high:
                yield start, high, 0

    def _closure(self, rest: int) -> Iterator[tuple[Ranges | None, int]]:
        """What may be read next, with what is left behind it; (None, -1): it may end here."""
        seen: set[int] = set()
        work = [rest]
        while work:
            at = work.pop()
            if at in seen:
                continue
            seen.add(at)
            if len(seen) > CLOSURE_MAX:
                raise _TooLarge
            if at == -1:
                yield None, -1
                continue
            node, after = self._heads[at]
            match node:
                case Class(ranges):
                    yield ranges, after
                case AnyChar():
                    yield ANY, after
                case Literal() | Control():
                    text = node.text if isinstance(node, Control) else node.data.decode("utf-8", "ignore")
                    if text:
                        point = ord(text[0])
                        yield ((point, point),), self._rest(Literal(text[1:].encode()), after) if text[1:] else after
                    else:
                        work.append(after)
                case _:
                    work.extend(self._opened(node, after))

    def _opened(self, node: Node, after: int) -> list[int]:
        """What ``node`` and then ``after`` comes down to before a character is read."""
        match node:
            case Sequence(items):
                for item in reversed(items):
                    after = self._rest(item, after)
                return [after]
            case Choice(items):
                return [self._rest(item, after) for item in items]
            case Repeat(item, least, most):
                if not self.exact and (least > 1 or most not in (None, 1)):
                    least, most = min(least, 1), None
                again = None if most is None else most - 1
                more = after if again == 0 else self._rest(Repeat(item, max(least - 1, 0), again), after)
                return [self._rest(item, more), *([] if least else [after])]
            case Ref(name):
                return [self._rest(self.source[name], after)]
            case Without(item, _):
                return [self._rest(item, after)]
            case Until():
                return [self._rest(Repeat(AnyChar()), after)]
            case Commit() | Peek() | Negate():
                return [after]
        raise _TooLarge
