# cython: language_level=3, annotation_typing=False, boundscheck=False, wraparound=False, initializedcheck=False
"""The walk of a token trie through the writer's automaton: the second hot file, compiled as lazy_automaton.py is."""

from __future__ import annotations

from array import array
from typing import Any

import numpy as np
import numpy.typing as npt

from dragoman.grammar.lazy_automaton import NEVER, Automaton

# True: a C compiler was found at installation.
COMPILED = not __file__.endswith((".py", ".pyc"))

_DEAD = -1
_NEVER = NEVER
_WIDE = 32  # bytes
_ONE, _ALL = 1, 0xFFFFFFFF
_KNOWN, _EVERY = 1 << 63, (1 << 64) - 1  # of ``loops``: found out; all kinds
_TARGETS = 16
_SPANS = 1 << 14  # two states that differ at more places are not worth a comparison


def scatter(row: Any, tokens: Any, clear: bool) -> None:
    """Set bit token % 32 of word token // 32 of ``row``, uint32[words], for each of ``tokens``, int32[*].

    ``clear``: all other bits become 0. ValueError for a row that does not lie in one piece.
    """
    if clear:
        for i in range(len(row)):
            row[i] = 0
    for i in range(len(tokens)):
        row[tokens[i] >> 5] |= _ONE << (tokens[i] & 31)


def _kinds() -> npt.NDArray[np.uint8]:
    """The kind of each byte, 63 at most: bytes that grammars seldom tell apart are of one kind."""
    kinds = np.zeros(256, dtype=np.uint8)
    ranges = ((0x30, 0x3A), (0x41, 0x47), (0x47, 0x5B), (0x61, 0x67), (0x67, 0x7B), (0x80, 0xC0), (0xC0, 0xC2))
    for kind, (first, past) in enumerate((*ranges, (0xC2, 0xE0), (0xE0, 0xF0), (0xF0, 0xF5), (0xF5, 0x100)), 1):
        kinds[first:past] = kind
    alone = [byte for byte in range(0x20, 0x80) if not kinds[byte]]
    kinds[alone] = np.arange(12, 12 + len(alone))
    return kinds


class Record:
    """What one state finds from the root, so that a walk that comes upon the state again takes a piece of it.

    home: uint8[nodes], 1 where the state is found again: what is under such a node is the same from any node.
    tokens: what may be written under the root, int32[*], in the trie's order; those among the first i tokens of the
    trie are tokens[:before[i]]. exits: the nodes, ascending, behind one byte from a node at home where nothing but the
    exits of the state is left. row: the tokens as a mask.
    """

    def __init__(self, home: Any, tokens: Any, before: Any, exits: Any, row: Any) -> None:
        self.row = row
        self.home, self.tokens, self.before, self.exits = home, tokens, before, exits

    def first_exit(self, node: int) -> int:
        """How many of the exits lie before ``node``."""
        low, high = 0, len(self.exits)
        while low < high:
            middle = (low + high) >> 1
            if self.exits[middle] < node:
                low = middle + 1
            else:
                high = middle
        return low


def _inside(kinds: Any, end: Any) -> npt.NDArray[np.uint64]:
    """The kinds of the edges under each node, as a set; the nodes under node i are i + 1 to end[i]."""
    nodes = len(end)
    sets = np.append(np.left_shift(np.uint64(1), kinds.astype(np.uint64)), np.uint64(0))
    bounds = np.empty(2 * nodes, dtype=np.int64)
    bounds[0::2] = np.arange(1, nodes + 1)
    bounds[1::2] = end
    found: npt.NDArray[np.uint64] = np.bitwise_or.reduceat(sets, bounds)[::2]
    found[end == bounds[0::2]] = 0
    return found


class Walk:
    """The trie's nodes that a state reaches, in order; buffers are used again by the next walk.

    arrays: the four buffers, for numpy.
    low, high: the least and the largest of the needs.
    tokens, needs: what may be written and the rounds that it needs; nodes, states: where the state behind has exits.
    records: of states that many walks come upon; ``automaton.record`` says which state has which.
    inside: the kinds of bytes that are under a node, as a set.
    spans: of two states that were walked side by side, where they differ: (first node, past the last node), ascending.
    asked: a state that may be worth a record, upon which the walk stopped; -1: none.
    seek: the state whose nodes are noted in ``home``; -1: none.
    """

    def __init__(
        self, byte: Any, end: Any, token_start: Any, token_ids: Any, child_start: Any, child: Any, depth: int
    ) -> None:
        self.byte = array("B", byte.tobytes())
        self.end = array("i", end.tobytes())
        self.child_start = array("i", child_start.tobytes())
        self.child = array("i", child.tobytes())
        self.child_byte = array("B", byte[child].tobytes())
        self.token_start = array("i", token_start.tobytes())
        self.token_ids = array("i", token_ids.tobytes())
        buffers = [array("i", bytes(4 * (len(token_ids) + 1))) for _ in range(2)]
        buffers += [array("i", bytes(4 * len(byte))) for _ in range(2)]
        self.tokens, self.needs, self.nodes, self.states = buffers
        self.arrays = [np.frombuffer(buffer, dtype=np.int32) for buffer in buffers]
        self.at_stack = array("i", bytes(4 * (depth + 2)))
        self.end_stack = array("i", bytes(4 * (depth + 2)))
        self.state_stack = array("i", bytes(4 * (depth + 2)))
        self.like_stack = array("i", bytes(4 * (depth + 2)))
        self.narrow_stack = array("b", bytes(depth + 2))
        kinds = _kinds()
        self.kind = array("B", kinds.tobytes())
        self.inside = array("Q", _inside(kinds[byte], end).tobytes())
        children = np.asarray(child[child_start[0] : child_start[1]])
        weight = np.zeros(256, dtype=np.int32)
        weight[byte[children]] = token_start[end[children]] - token_start[children]
        self.weight = array("i", weight.tobytes())
        self.target = array("i", bytes(4 * _TARGETS))
        self.weighs = array("i", bytes(4 * _TARGETS))
        self.spans = array("i", bytes(8 * _SPANS))
        self.span_count = 0
        self.records: list[Record] = []
        self.later_nodes: list[int] = []
        self.later_states: list[int] = []
        self.home = array("B", bytes(len(byte)))
        self.seek = -1
        self.asked = -1
        self.top = -1
        self.node = 0
        self.token_count = 0
        self.node_count = 0
        self.steps = 0
        self.full = False
        self.low = _NEVER
        self.high = 0

    def clear(self) -> None:
        self.token_count = 0
        self.node_count = 0
        self.steps = 0
        self.low = _NEVER
        self.high = 0
        self.asked = -1
        self.span_count = 0
        self.later_nodes = []
        self.later_states = []

    def mark(self, automaton: Automaton, node: int, state: int) -> None:
        """Note ``node`` as reached in ``state``."""
        need = automaton.need[state]
        if need != _NEVER:
            self.low = min(self.low, need)
            self.high = max(self.high, need)
            for i in range(self.token_start[node], self.token_start[node + 1]):
                self.tokens[self.token_count] = self.token_ids[i]
                self.needs[self.token_count] = need
                self.token_count += 1
        if automaton.leaves[state]:
            self.nodes[self.node_count] = node
            self.states[self.node_count] = state
            self.node_count += 1
        if state == self.seek:
            self.home[node] = 1

    def under(self, automaton: Automaton, nodes: Any, first: int, state: int, budget: int) -> int:
        """Walk from ``state`` at each of ``nodes[first:]``: what ends there, and what is under it.

        Returns the index of the node to go on with: past the last one when all are done. Less: the buffers have no
        room for it (``full``), or the budget of steps is used up or a state is ``asked`` for, and what was found is to
        be thrown away.
        """
        count = len(nodes)
        self.full = False
        for at in range(first, count):
            node = nodes[at]
            end = self.end[node]
            if self.token_count + self.token_start[end] - self.token_start[node] > len(
                self.tokens
            ) or self.node_count + end - node > len(self.nodes):
                self.full = True
                return at
            self.mark(automaton, node, state)
            if end > node + 1 and not self.below(automaton, node, state, budget):
                return at
        return count

    # Arrays are read in place here: compiled, a local name for one costs more than a step.

    def below(self, automaton: Automaton, node: int, state: int, budget: int) -> bool:
        """Walk what is under ``node`` from ``state``. False: the budget of steps is used up, or a state asked for."""
        self.top = -1
        self.enter(automaton, node, state)
        while True:
            state = self.following(automaton)
            if self.steps > budget:
                return False
            if state < 0:
                if not self.later_nodes:
                    return True
                self.enter(automaton, self.later_nodes.pop(), self.later_states.pop())
                continue
            node = self.node
            if self.end[node] == node + 1:  # a state that is only seen here need not know its steps
                self.mark(automaton, node, state)
                continue
            record = automaton.record[state]
            if record >= 0 and self.seek < 0:
                if record == 0 and self.repeats(automaton, state):
                    self.asked = state
                    return False
                if record > 0:
                    kept = self.records[record - 1]
                    if kept.home[node]:
                        self.take(automaton, kept, node, state)
                        continue
            if self.inside[node] & ~self.loops(automaton, state) == 0:
                self.whole(automaton, node, state)
            else:
                self.mark(automaton, node, state)
                self.enter(automaton, node, state)

    def loops(self, automaton: Automaton, state: int) -> int:
        """The kinds of bytes that change nothing in ``state``; none where it has exits."""
        found = automaton.loops[state]
        if found == 0:
            found = _KNOWN
            if automaton.width(state) >= _WIDE and not automaton.leaves[state] and automaton.need[state] != _NEVER:
                row = automaton.after[state] * 256
                found = _EVERY
                for i in range(256):
                    if automaton.rows[row + i] != state:
                        found &= _EVERY ^ (_KNOWN >> (63 - self.kind[i]))
                found |= _KNOWN
            automaton.loops[state] = found
        return found

    def whole(self, automaton: Automaton, node: int, state: int) -> None:
        """Note ``node`` and all that is under it as reached in ``state``, which has no exits."""
        end = self.end[node]
        need = automaton.need[state]
        first, past = self.token_start[node], self.token_start[end]
        if first < past:
            self.low = min(self.low, need)
            self.high = max(self.high, need)
        count = self.token_count - first
        for i in range(first, past):
            self.tokens[count + i] = self.token_ids[i]
        for i in range(first, past):
            self.needs[count + i] = need
        self.token_count = count + past
        if state == self.seek:
            for i in range(node, end):
                self.home[i] = 1
        self.steps += 1

    # -- two states side by side -----------------------------------------------------------------------------------

    def like(self, automaton: Automaton, state: int) -> int:
        """The state that ``state`` goes on to with most of the vocabulary; _DEAD where there is none such."""
        row = automaton.after[state] * 256
        count = 0
        total = 0
        for i in range(256):
            after = automaton.rows[row + i]
            if after < 0:
                continue
            total += self.weight[i]
            at = 0
            while at < count and self.target[at] != after:
                at += 1
            if at == _TARGETS:
                continue
            if at == count:
                self.target[at] = after
                self.weighs[at] = 0
                count += 1
            self.weighs[at] += self.weight[i]
        best = 0
        for at in range(1, count):
            if self.weighs[at] > self.weighs[best]:
                best = at
        return self.target[best] if count and self.weighs[best] * 3 >= total else _DEAD

    def beside(self, automaton: Automaton, state: int, like: int, budget: int) -> bool:
        """Walk from ``state`` where it goes elsewhere than ``like`` does: what it finds there, and where that is.

        Under a node that both reach in one state they allow the same, and so most of the trie is passed over.
        False: they differ too much, or a state is ``asked`` for, and what was found is to be thrown away.
        """
        self.top = -1
        if not self.pair(automaton, 0, state, like):
            return False
        while self.top >= 0:
            top = self.top
            at = self.at_stack[top]
            if at >= self.end_stack[top]:
                self.top -= 1
                continue
            self.at_stack[top] = self.end[at]
            self.steps += 1
            state = automaton.step(self.state_stack[top], self.byte[at])
            like = automaton.step(self.like_stack[top], self.byte[at])
            if state != like and not self.pair(automaton, at, state, like):
                return False
            if self.steps > budget:
                return False
        if self.later_nodes:
            node, state = self.later_nodes.pop(), self.later_states.pop()
            return self.below(automaton, node, state, budget)
        return True

    def pair(self, automaton: Automaton, node: int, state: int, like: int) -> bool:
        """Two states that differ, at ``node``. False: at too many places."""
        if self.span_count == _SPANS:
            return False
        if like >= 0:
            self.spans[2 * self.span_count] = node
            self.spans[2 * self.span_count + 1] = node + 1 if state >= 0 else self.end[node]
            self.span_count += 1
        if state < 0:
            return True
        self.mark(automaton, node, state)
        if self.end[node] == node + 1:
            return True
        if like < 0:
            self.later_nodes.append(node)
            self.later_states.append(state)
            return True
        self.top += 1
        self.state_stack[self.top] = state
        self.like_stack[self.top] = like
        self.at_stack[self.top] = node + 1
        self.end_stack[self.top] = self.end[node]
        return True

    def left(self, automaton: Automaton, record: Record, state: int, budget: int) -> bool:
        """What is behind the exits of ``record``, which is that of ``state``; False as in :meth:`below`."""
        self.exits(automaton, record, 0, state)
        if self.later_nodes:
            node, state = self.later_nodes.pop(), self.later_states.pop()
            return self.below(automaton, node, state, budget)
        return True

    def turn(self, row: Any) -> None:
        """Make ``row``, uint32[words], that of the one state, where it was that of the other."""
        for i in range(self.span_count):
            first, past = self.token_start[self.spans[2 * i]], self.token_start[self.spans[2 * i + 1]]
            for at in range(first, past):
                row[self.token_ids[at] >> 5] &= _ALL ^ (_ONE << (self.token_ids[at] & 31))
        for at in range(self.token_count):
            row[self.tokens[at] >> 5] |= _ONE << (self.tokens[at] & 31)

    def repeats(self, automaton: Automaton, state: int) -> bool:
        """Whether ``state`` goes on to itself with many bytes, and so may be worth a record; if not, that is noted."""
        count = 0
        if automaton.width(state) >= _WIDE:
            row = automaton.after[state] * 256
            for i in range(row, row + 256):
                if automaton.rows[i] == state:
                    count += 1
        if count < _WIDE:
            automaton.record[state] = -1
        return count >= _WIDE

    def take(self, automaton: Automaton, record: Record, node: int, state: int) -> None:
        """What ends at ``node`` and under it, from the record of ``state``; what is behind its exits comes later."""
        end = self.end[node]
        need = automaton.need[state]
        first, past = record.before[self.token_start[node]], record.before[self.token_start[end]]
        if first < past:
            self.low = min(self.low, need)
            self.high = max(self.high, need)
        for i in range(first, past):
            self.tokens[self.token_count] = record.tokens[i]
            self.needs[self.token_count] = need
            self.token_count += 1
        self.exits(automaton, record, node, state)
        self.steps += 1

    def exits(self, automaton: Automaton, record: Record, node: int, state: int) -> None:
        """Note the exits of ``record``, which is that of ``state``, under ``node``; what is behind comes later."""
        end = self.end[node]
        at = record.first_exit(node)
        while at < len(record.exits) and record.exits[at] < end:
            node = record.exits[at]
            after = automaton.step(state, self.byte[node])
            if after >= 0:
                self.mark(automaton, node, after)
                if self.end[node] > node + 1:
                    self.later_nodes.append(node)
                    self.later_states.append(after)
            at += 1

    def enter(self, automaton: Automaton, node: int, state: int) -> None:
        """Go on with what is under ``node``, from ``state``.

        Where a state goes on with many bytes the nodes are taken as they lie in memory; where with few, the list of the
        node's children is looked through instead, and the subtrees that lead nowhere are not touched.
        """
        self.top += 1
        top = self.top
        self.state_stack[top] = state
        if automaton.width(state) < _WIDE:
            self.narrow_stack[top] = 1
            self.at_stack[top] = self.child_start[node]
            self.end_stack[top] = self.child_start[node + 1]
        else:
            self.narrow_stack[top] = 0
            self.at_stack[top] = node + 1
            self.end_stack[top] = self.end[node]

    def following(self, automaton: Automaton) -> int:
        """The state at the next node that some thread lives to see, which is ``node`` then; _DEAD: there is none."""
        while self.top >= 0:
            top = self.top
            state = self.state_stack[top]
            if self.narrow_stack[top]:
                only = automaton.byte[state]
                after = self.among(automaton, state) if only < 0 else self.child_at(only, automaton.after[state])
            else:
                after = self.within(automaton, automaton.after[state] * 256)
            if after >= 0:
                return after
            self.top -= 1
        return _DEAD

    def child_at(self, only: int, after: int) -> int:
        """The child of the open node at the byte ``only``; the other children are done with."""
        at, last = self.at_stack[self.top], self.end_stack[self.top]
        self.at_stack[self.top] = last
        if after < 0:
            return _DEAD
        # Children stand in the order of their bytes.
        while at < last and self.child_byte[at] < only:
            at += 1
        self.steps += 1
        if at == last or self.child_byte[at] != only:
            return _DEAD
        self.node = self.child[at]
        return after

    def among(self, automaton: Automaton, state: int) -> int:
        """The next child of the open node that ``state`` goes on to."""
        at, last = self.at_stack[self.top], self.end_stack[self.top]
        row = automaton.after[state] * 256
        after = _DEAD
        first = at
        while at < last:
            after = automaton.rows[row + self.child_byte[at]]
            at += 1
            if after >= 0:
                self.node = self.child[at - 1]
                break
        self.steps += at - first
        self.at_stack[self.top] = at
        return after

    def within(self, automaton: Automaton, row: int) -> int:
        """The next child of the open node for which the row has a state, found by passing over subtrees."""
        at, last = self.at_stack[self.top], self.end_stack[self.top]
        after = _DEAD
        while at < last:
            self.steps += 1
            after = automaton.rows[row + self.byte[at]]
            if after >= 0:
                self.node = at
                at = self.end[at]
                break
            at = self.end[at]
        self.at_stack[self.top] = at
        return after
