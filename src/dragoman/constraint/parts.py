"""Parts of masks: what one local state allows of a vocabulary, found once.

A part holds the tokens that stay inside the base, by the rounds of the base's loop that they need, and the trie nodes
where threads leave the base, by (rounds, conditions). What follows a node is walked from the state behind the base.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right

import numpy as np

from dragoman.constraint.bits import Bits, Row
from dragoman.constraint.trie import Ints, TokenTrie, inside


class Exits:
    """Trie nodes at which threads left a base under the same conditions, after some rounds; compare by identity.

    Where the rounds are counted, a thread that has room for one more is still inside the base, and so its part knows
    the tokens that end there: only those after the last round are told here.
    """

    __slots__ = ("_first", "_leaving", "_past", "_tokens", "nodes")

    def __init__(self, leaving: Leaving, first: int, past: int, *, last: bool) -> None:
        self._leaving, self._first, self._past = leaving, first, past
        self._tokens = past - 1 if last else past
        starts = leaving.starts
        self.nodes = leaving.nodes[starts[first] : starts[past]]

    def tokens(self) -> Ints:
        """The tokens that end at the nodes."""
        return self._leaving.tokens(self._tokens, self._past)

    def children(self, byte: int) -> Ints:
        """The nodes behind ``byte`` after these."""
        nodes, starts = self._leaving.children(byte)
        return nodes[starts[self._first] : starts[self._past]]


class Leaving:
    """All nodes where threads leave under the same conditions, by rounds; nodes below them by byte, when asked for.

    starts: the nodes left after ``rounds[i]`` rounds are nodes[starts[i]:starts[i + 1]].
    """

    __slots__ = ("_children", "_exits", "_tokens", "nodes", "rounds", "starts", "trie")

    def __init__(self, nodes: Ints, rounds: list[int], starts: list[int], trie: TokenTrie) -> None:
        self.nodes, self.rounds, self.starts, self.trie = nodes, rounds, starts, trie
        self._exits: dict[tuple[int, int, bool], Exits] = {}
        self._children: dict[int, tuple[Ints, list[int]]] = {}
        self._tokens: dict[tuple[int, int], Ints] = {}

    def between(self, least: int, most: int) -> Exits | None:
        """The exits after ``least`` to ``most`` rounds; None where there are none."""
        first, past = bisect_left(self.rounds, least), bisect_right(self.rounds, most)
        if first >= past:
            return None
        key = first, past, self.rounds[past - 1] == most
        found = self._exits.get(key)
        if found is None:
            found = self._exits[key] = Exits(self, first, past, last=key[2])
        return found

    def tokens(self, first: int, past: int) -> Ints:
        """The tokens that end at the nodes left after rounds[first:past]."""
        found = self._tokens.get((first, past))
        if found is None:
            nodes = self.nodes[self.starts[first] : self.starts[past]]
            found = self._tokens[first, past] = self.trie.ending_at(nodes)
        return found

    def children(self, byte: int) -> tuple[Ints, list[int]]:
        """The nodes that ``byte`` leads to, and where those of each count of rounds begin."""
        found = self._children.get(byte)
        if found is None:
            below = self.trie.behind(byte)
            parents = self.trie.parent[below]
            if len(self.rounds) == 1:
                marked = np.zeros(len(self.trie), dtype=bool)
                marked[self.nodes] = True
                nodes = below[marked[parents]]
                found = nodes, [0, len(nodes)]
            else:
                found = self._by_rounds(below, parents)
            self._children[byte] = found
        return found

    def _by_rounds(self, below: Ints, parents: Ints) -> tuple[Ints, list[int]]:
        counts = np.diff(self.starts)
        number = np.repeat(np.arange(len(counts), dtype=np.int16), counts)
        marked = np.full(len(self.trie), -1, dtype=np.int16)
        marked[self.nodes] = number
        if (marked[self.nodes] == number).all():  # each node is left in one way
            number = marked[parents]
            below, number = below[number >= 0], number[number >= 0]
        else:
            order = np.argsort(self.nodes, kind="stable")
            nodes, number = self.nodes[order], number[order]
            first = np.searchsorted(nodes, parents)
            ways: Ints = (np.searchsorted(nodes, parents, side="right") - first).astype(np.int32)
            below = np.repeat(below, ways)
            number = number[np.repeat(first, ways) + inside(ways)]
        order = np.argsort(number, kind="stable")
        starts = np.searchsorted(number[order], np.arange(len(self.rounds) + 1, dtype=np.int16))
        return below[order], starts.tolist()


class Part:
    """What one local state allows, from the root of the trie or from the nodes of an exit.

    leaving: conditions -> where threads leave under them. ``row``: all tokens, which have one need, in place of them.
    """

    __slots__ = ("_needs", "_starts", "_tokens", "_upto", "_words", "leaving", "size")

    def __init__(
        self, tokens: Ints, needs: Ints, leaving: dict[int, Leaving], words: int, row: Row | None = None
    ) -> None:
        self._words = words
        self.leaving = leaving
        self._upto: dict[int, Bits] = {}  # by the number of groups
        if len(needs) > 1:
            order = np.argsort(needs.astype(np.int16), kind="stable")  # needs are at most as large as the trie is deep
            tokens, needs = tokens[order], needs[order]
            self._starts: list[int] = [0, *(np.flatnonzero(needs[1:] != needs[:-1]) + 1).tolist(), len(tokens)]
            self._needs: list[int] = needs[self._starts[:-1]].tolist()
        else:
            self._starts = [0, len(tokens)]
            self._needs = needs.tolist()
        self.size = 2 * tokens.nbytes
        if len(self._needs) == 1:  # a row says as much as 150,000 tokens do, in a thirtieth of the room
            only = self._upto[1] = Bits(tokens, words, row)
            self.size, tokens = only.size, tokens[:0]
        self._tokens = tokens
        self.size += sum(2 * way.nodes.nbytes for way in leaving.values())

    def upto(self, room: int) -> Bits | None:
        """The tokens that need at most ``room`` rounds; None where there are none."""
        groups = bisect_right(self._needs, room)
        if not groups:
            return None
        found = self._upto.get(groups)
        if found is None:
            # What fewer rounds allow is allowed as well.
            before = max((k for k in self._upto if k < groups), default=0)
            tokens = self._tokens[self._starts[before] : self._starts[groups]]
            row = self._upto[before].row if before else None
            if before and row is None:
                tokens = self._tokens[: self._starts[groups]]
            found = self._upto[groups] = Bits(tokens, self._words, None if row is None else row.copy())
        return found
