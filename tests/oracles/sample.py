"""Random texts of a grammar: a seeded walk down the nodes that turns to short endings once it is deep or long."""

from __future__ import annotations

import random
from collections.abc import Mapping

from dragoman.grammar.nodes import (
    AnyChar,
    Atomic,
    Choice,
    Class,
    Commit,
    Control,
    Grammar,
    Literal,
    Negate,
    Node,
    Peek,
    Permutation,
    Ref,
    Repeat,
    Sequence,
    Tag,
    Until,
    UntilConfirmed,
    Without,
)

INFINITE = 10**9
# Characters that tell encodings, escapes and ranges apart; a class is sampled from them where it can be.
FAVOURITES = [ord(c) for c in "ab01 9-\"\\/<>{}[]:,'\n\té€😀\x7f\x00\x1f\ufffd"]


class NoSample(Exception):
    """No text was found within the tries; the grammar may still have some."""


def sample(grammar: Grammar, seed: int, *, depth: int = 12) -> bytes:
    """One text of a grammar whose nodes are lowered. Look-ahead nodes are ignored: check the text where they matter."""
    return Sampler(grammar.rules, seed, depth).text(Ref(grammar.start))


class Sampler:
    def __init__(self, rules: Mapping[str, Node], seed: int, depth: int = 12) -> None:
        self.rules = rules
        self.random = random.Random(seed)
        self.depth = depth
        self.heights = heights(rules)

    def text(self, node: Node) -> bytes:
        return self._walk(node, self.depth)

    def _walk(self, node: Node, depth: int) -> bytes:
        pick = self.random
        match node:
            case Literal(data):
                return data
            case Class(ranges):
                return chr(self._point(ranges)).encode()
            case AnyChar():
                return chr(self._point(((0, 0xD7FF), (0xE000, 0x10FFFF)))).encode()
            case Sequence(items):
                return b"".join(self._walk(item, depth) for item in items)
            case Choice(items):
                return self._walk(self._option(items, depth), depth)
            case Repeat(item, least, most):
                room = 3 if depth > 0 and height(item, self.heights) < INFINITE else 0
                room = room if most is None else min(room, most - least)
                count = least + pick.randint(0, room)
                if most is not None and most > least and depth > 0 and pick.random() < 0.1 and most < 50:
                    count = most
                return b"".join(self._walk(item, depth - 1) for _ in range(count))
            case Ref(name):
                return self._walk(self.rules[name], depth - 1)
            case Tag(_, item) | Atomic(item):
                return self._walk(item, depth)
            case Control(text):
                return text.encode()
            case Commit() | Peek() | Negate():
                return b""
            case Until(delimiters):
                return self._without(Repeat(AnyChar()), delimiters, depth)
            case UntilConfirmed(closer, _, _):
                return self._without(Repeat(AnyChar()), (closer,), depth) + closer
            case Without(item, forbidden):
                return self._without(item, forbidden, depth)
            case Permutation(items, required, separator):
                order = [i for i in range(len(items)) if required[i] or (depth > 0 and pick.random() < 0.5)]
                pick.shuffle(order)
                return self._walk(separator, depth).join(self._walk(items[i], depth) for i in order)
        raise TypeError(f"not a lowered node: {node!r:.80}")

    def _without(self, item: Node, forbidden: tuple[bytes, ...], depth: int) -> bytes:
        for _ in range(200):
            text = self._walk(item, depth)
            if not any(word in text for word in forbidden):
                return text
        raise NoSample

    def _option(self, items: tuple[Node, ...], depth: int) -> Node:
        live = [(height(item, self.heights), item) for item in items]
        live = [pair for pair in live if pair[0] < INFINITE]
        if not live:
            raise NoSample
        if depth <= 0:
            least = min(pair[0] for pair in live)
            live = [pair for pair in live if pair[0] == least]
        return self.random.choice(live)[1]

    def _point(self, ranges: tuple[tuple[int, int], ...]) -> int:
        if not ranges:
            raise NoSample
        known = [point for point in FAVOURITES if any(low <= point <= high for low, high in ranges)]
        if known and self.random.random() < 0.7:
            return self.random.choice(known)
        low, high = self.random.choice(ranges)
        return self.random.choice((low, high, self.random.randint(low, high)))


def heights(rules: Mapping[str, Node]) -> dict[str, int]:
    """How many references deep the shallowest text of each rule is; INFINITE where it has none."""
    known = dict.fromkeys(rules, INFINITE)
    changed = True
    while changed:
        changed = False
        for name, node in rules.items():
            value = min(height(node, known) + 1, INFINITE)
            if value < known[name]:
                known[name], changed = value, True
    return known


def height(node: Node, known: Mapping[str, int]) -> int:
    match node:
        case Class(ranges):
            return 0 if ranges else INFINITE
        case Sequence(items):
            return max((height(item, known) for item in items), default=0)
        case Choice(items):
            return min((height(item, known) for item in items), default=INFINITE)
        case Repeat(item, least, _):
            return height(item, known) if least else 0
        case Ref(name):
            return known[name]
        case Tag(_, item) | Atomic(item) | Without(item, _):
            return height(item, known)
        case Permutation(items, required, _):
            return max((height(item, known) for item, needed in zip(items, required, strict=True) if needed), default=0)
    return 0
