"""Parts of states that nearly do what another one does: only where the two differ is walked.

Most wide states are places inside a string where some texts are special: a declared key, the next letter of a pattern.
Whatever else comes leads back to the inside of a plain string, and what that allows is known. So a state is walked
beside the one that it goes on to with most tokens, and under a trie node where both are in one state nothing is done.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import numpy as np

from dragoman.constraint.bits import Row
from dragoman.constraint.parts import Leaving, Part
from dragoman.constraint.trie import Ints, TokenTrie
from dragoman.grammar.lazy_automaton import Automaton
from dragoman.grammar.walk import Walk

# Steps of two states side by side; past it the one is better walked alone.
_STEPS = 60_000
# States of one automaton that others are compared with; each takes some 20 KB and its exits.
_LIKES = 64

_NOTHING: Ints = np.zeros(0, dtype=np.int32)


class Like:
    """What one state allows from the root: the tokens, which need as many rounds, and the exits with their states."""

    __slots__ = ("need", "nodes", "row", "states")

    def __init__(self, row: Row, need: int, nodes: Ints, states: Ints) -> None:
        self.row, self.need, self.nodes, self.states = row, need, nodes, states


class Alike:
    """Compares the states of one automaton.

    record: the number of a state's record, made where there is none; below 1: it has none.
    walk: from the root, all that a state allows; None where its tokens need different counts of rounds.
    leaving: exits by conditions. budget: steps of one walk.
    """

    def __init__(
        self,
        automaton: Automaton,
        trie: TokenTrie,
        record: Callable[[int], int],
        walk: Callable[[int], Like | None],
        leaving: Callable[[Ints, Ints], dict[int, Leaving]],
        budget: int,
    ) -> None:
        self._budget = min(budget, _STEPS)
        self._automaton, self._trie = automaton, trie
        self._record, self._alone, self._leaving = record, walk, leaving
        self._walk: Final[Walk] = trie.walk()
        self._known: dict[int, Like | None] = {}

    def part(self, state: int, *, alone: bool) -> Part | None:
        """The part of ``state``; None where it is like no other. ``alone``: also beside states that have no record."""
        other = self._walk.like(self._automaton, state)
        like = self._like(other, alone) if other >= 0 else None
        return None if like is None else self._beside(state, other, like)

    def _like(self, state: int, alone: bool) -> Like | None:
        known = self._known
        if state in known:
            return known[state]
        if not self._walk.repeats(self._automaton, state):
            known[state] = None
            return None
        number = self._recorded(state)
        if number < 1 and not alone:
            return None
        if len(known) >= _LIKES:
            known.clear()
        found = known[state] = self._from_record(state, number) if number > 0 else self._alone(state)
        return found

    def _recorded(self, state: int) -> int:
        number = self._automaton.record[state]
        if not number:
            number = self._automaton.record[state] = self._record(state)
        return number

    def _from_record(self, state: int, number: int) -> Like | None:
        automaton, walk = self._automaton, self._walk
        record = walk.records[number - 1]
        if not self._done(lambda: walk.left(automaton, record, state, self._budget)):
            return None
        need = automaton.need[state]
        if walk.token_count and not walk.low == walk.high == need:
            return None
        row = record.row
        if walk.token_count:
            row = row.copy()
            walk.turn(row)
        nodes, states = self._exits()
        return Like(row, need, nodes, states)

    def _beside(self, state: int, other: int, like: Like) -> Part | None:
        automaton, walk = self._automaton, self._walk
        walk.clear()
        if state != other and not self._done(lambda: walk.beside(automaton, state, other, self._budget)):
            return None
        if walk.token_count and not walk.low == walk.high == like.need:
            return None
        row, nodes, states = like.row, like.nodes, like.states
        if walk.span_count or walk.token_count:
            row = row.copy()
            walk.turn(row)
            nodes, states = self._merged(like)
        leaving = self._leaving(nodes, states) if len(nodes) else {}
        return Part(_NOTHING, np.array([like.need], np.int32), leaving, self._trie.words, row)

    def _done(self, job: Callable[[], bool]) -> bool:
        """``job`` of the walk, again with the records that it asks for."""
        walk = self._walk
        while True:
            walk.clear()
            if job():
                return True
            if walk.asked < 0:
                return False
            asked = walk.asked
            self._automaton.record[asked] = self._record(asked)

    def _exits(self) -> tuple[Ints, Ints]:
        """Copies of the exits that the walk has found."""
        _, _, nodes, states = self._walk.arrays
        count = self._walk.node_count
        return nodes[:count].copy(), states[:count].copy()

    def _merged(self, like: Like) -> tuple[Ints, Ints]:
        """The exits of ``like`` outside of where it differs, and those that were found there."""
        nodes, states = self._exits()
        count = self._walk.span_count
        if not len(like.nodes):
            return nodes, states
        spans = np.asarray(self._walk.spans)[: 2 * count]
        at = np.searchsorted(spans[0::2], like.nodes, side="right") - 1
        kept = (at < 0) | (like.nodes >= spans[1::2][at]) if count else slice(None)
        return np.concatenate([like.nodes[kept], nodes]), np.concatenate([like.states[kept], states])
