"""All small grammars and all short texts over the alphabet {a, b}.

Trees that mean the same at a glance are left out: sequences and choices lean to one side, no empty item stands in a
sequence, no alternative is repeated, and of two grammars that differ by swapping a and b one is kept, where the family
has nothing that tells a from b.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import product

from dragoman.grammar.nodes import EMPTY, Choice, Literal, Node, Repeat, Sequence, Tag
from tests.oracles.wellformed import descendants

A, B = Literal(b"a"), Literal(b"b")


@dataclass(frozen=True)
class Family:
    """The constructs of a family of trees; a tree's size is the number of its nodes."""

    leaves: tuple[Node, ...]
    unary: tuple[Callable[[Node], Node], ...]
    symmetric: bool = False

    def trees(self, size: int) -> list[Node]:
        """All trees of exactly this size."""
        by_size: list[list[Node]] = [[], list(self.leaves)]
        for n in range(2, size + 1):
            found = [wrap(item) for wrap in self.unary for item in by_size[n - 1]]
            for left_size in range(1, n - 1):
                for left, right in product(by_size[left_size], by_size[n - 1 - left_size]):
                    if not isinstance(left, Sequence) and EMPTY not in (left, right):
                        found.append(Sequence((left, *(right.items if isinstance(right, Sequence) else (right,)))))
                    others = right.items if isinstance(right, Choice) else (right,)
                    if not isinstance(left, Choice) and left not in others:
                        found.append(Choice((left, *others)))
            by_size.append(found)
        return by_size[size]

    def up_to(self, size: int) -> Iterator[Node]:
        """All trees of at most this size; in a symmetric family those that only swap a and b are left out."""
        for n in range(1, size + 1):
            yield from (tree for tree in self.trees(n) if not (self.symmetric and b_comes_first(tree)))


def star(item: Node) -> Node:
    return Repeat(item)


def lazy_star(item: Node) -> Node:
    return Repeat(item, lazy=True)


def optional(item: Node) -> Node:
    return Repeat(item, 0, 1)


def tag(item: Node) -> Node:
    return Tag("t", item)


def b_comes_first(node: Node) -> bool:
    return next((leaf == B for leaf in descendants(node) if leaf in (A, B)), False)


def all_texts(length: int) -> list[bytes]:
    """Every text over {a, b} of at most this length, shortest first."""
    return [bytes(text) for n in range(length + 1) for text in product(b"ab", repeat=n)]
