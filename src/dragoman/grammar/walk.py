# cython: language_level=3, annotation_typing=False, boundscheck=False, wraparound=False, initializedcheck=False
"""The walk of a token trie through the writer's automaton: the second hot file, compiled as lazy_automaton.py is."""

from __future__ import annotations

from array import array
from typing import Any

import numpy as np

from dragoman.grammar.lazy_automaton import NEVER, Automaton

# True: a C compiler was found at installation.
COMPILED = not __file__.endswith((".py", ".pyc"))

_NEW = -2
_NEVER = NEVER
_ONE = 1


def scatter(row: Any, tokens: Any) -> None:
    """Set bit token % 32 of word token // 32 of ``row``, uint32[words], for each of ``tokens``, int32[*]."""
    for i in range(len(tokens)):
        row[tokens[i] >> 5] |= _ONE << (tokens[i] & 31)


class Walk:
    """The trie's nodes that a state reaches, in order; buffers are used again by the next walk.

    arrays: the four buffers, for numpy.
    low, high: the least and the largest of the needs.
    tokens, needs: what may be written and the rounds that it needs; nodes, states: where the state behind has exits.
    """

    def __init__(self, byte: Any, end: Any, token_start: Any, token_ids: Any, depth: int) -> None:
        self.byte = array("B", byte.tobytes())
        self.end = array("i", end.tobytes())
        self.token_start = array("i", token_start.tobytes())
        self.token_ids = array("i", token_ids.tobytes())
        buffers = [array("i", bytes(4 * (len(token_ids) + 1))) for _ in range(2)]
        buffers += [array("i", bytes(4 * len(byte))) for _ in range(2)]
        self.tokens, self.needs, self.nodes, self.states = buffers
        self.arrays = [np.frombuffer(buffer, dtype=np.int32) for buffer in buffers]
        self.ends_stack = array("i", bytes(4 * (depth + 2)))
        self.state_stack = array("i", bytes(4 * (depth + 2)))
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

    def under(self, automaton: Automaton, nodes: Any, first: int, state: int, budget: int) -> int:
        """Walk from ``state`` at each of ``nodes[first:]``: what ends there, and what is under it.

        Returns the index of the node to go on with: past the last one when all are done. Less: the buffers have no
        room for it (``full``), or the budget of steps is used up and what was found is to be thrown away.
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

    def below(self, automaton: Automaton, node: int, state: int, budget: int) -> bool:
        """Walk what is under ``node`` from ``state``. False: the budget of steps is used up."""
        edges, ends, starts = self.byte, self.end, self.token_start
        end_of, state_of = self.ends_stack, self.state_stack
        only_of, after_of, need_of, leaves_of = automaton.byte, automaton.after, automaton.need, automaton.leaves
        rows = automaton.rows
        i = node + 1
        limit = ends[node]
        top = 0
        end_of[0] = limit
        state_of[0] = state
        steps = self.steps
        while i < limit:
            while i >= end_of[top]:
                top -= 1
            state = state_of[top]
            steps += 1
            if steps > budget:
                return False
            byte = edges[i]
            only = only_of[state]
            if only == _NEW:
                automaton.expand(state)
                # The tables may have grown.
                only_of, after_of, need_of, leaves_of = (
                    automaton.byte,
                    automaton.after,
                    automaton.need,
                    automaton.leaves,
                )
                rows = automaton.rows
                only = only_of[state]
            if only >= 0:
                if byte != only:
                    # Children stand in the order of their bytes.
                    i = ends[i] if byte < only else end_of[top]
                    continue
                after = after_of[state]
            else:
                after = rows[after_of[state] * 256 + byte]
            if after < 0:
                i = ends[i]
                continue
            need = need_of[after]
            if need != _NEVER:
                self.low = min(self.low, need)
                self.high = max(self.high, need)
                for j in range(starts[i], starts[i + 1]):
                    self.tokens[self.token_count] = self.token_ids[j]
                    self.needs[self.token_count] = need
                    self.token_count += 1
            if leaves_of[after]:
                self.nodes[self.node_count] = i
                self.states[self.node_count] = after
                self.node_count += 1
            if ends[i] > i + 1:
                top += 1
                end_of[top] = ends[i]
                state_of[top] = after
            i += 1
        self.steps = steps
        return True
