"""Parts of masks: what one local state allows of a vocabulary, found once.

A part holds the tokens that stay inside the base, by the rounds of the base's loop that they need, and the trie nodes
where threads leave the base, by (rounds, conditions). What follows a node is walked from the state behind the base.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from dragoman.constraint.trie import Ints, TokenTrie
from dragoman.errors import LimitError
from dragoman.grammar.lazy_automaton import NEVER, Automaton
from dragoman.grammar.program import Op, Program
from dragoman.grammar.walk import COMPILED, Walk
from dragoman.limits import Limits

# Below this share of the vocabulary a set of tokens is kept as the words that it touches.
_SPARSE = 50
# Uncompiled, a walk of more steps than this is done level by level in numpy.
_NARROW = 2_000
# A state that goes on with fewer bytes than this is as cheap to walk as to look up.
_WIDE = 32
# Parts that all grammars of a vocabulary share; past it they are forgotten.
_SHARED_PARTS = 512
# States that depend on more instructions than this are not shared between grammars.
_SHARED_CODE = 2_000


class Bits:
    """A set of tokens: a whole row of words, or, where it is small, the words that are not zero."""

    __slots__ = ("row", "size", "values", "words")

    def __init__(self, tokens: Ints, words: int) -> None:
        self.row: npt.NDArray[np.uint32] | None = None
        if len(tokens) * _SPARSE < words * 32:
            self._gather(tokens >> 5, np.uint32(1) << (tokens & 31).astype(np.uint32))
            return
        allowed = np.zeros(words * 32, dtype=bool)
        allowed[tokens] = True
        self.row = np.packbits(allowed, bitorder="little").view(np.uint32)
        self.size = self.row.nbytes

    def _gather(self, places: Ints, values: npt.NDArray[np.uint32]) -> None:
        """Keep the words ``places`` with all the bits that ``values`` give to each."""
        order = np.argsort(places, kind="stable")
        places = places[order]
        starts = np.flatnonzero(np.concatenate([places[:1] == places[:1], places[1:] != places[:-1]]))
        self.row = None
        self.words = places[starts]
        self.values = np.bitwise_or.reduceat(values[order], starts) if len(starts) else values
        self.size = self.words.nbytes + self.values.nbytes

    def add_to(self, row: npt.NDArray[np.uint32]) -> None:
        """Set these tokens in ``row``."""
        if self.row is not None:
            np.bitwise_or(row[: len(self.row)], self.row, out=row[: len(self.row)])
        else:
            row[self.words] |= self.values

    def write(self, row: npt.NDArray[np.uint32]) -> None:
        """Overwrite ``row``."""
        if self.row is None:
            row.fill(0)
            row[self.words] = self.values
        elif len(row) == len(self.row):
            np.copyto(row, self.row)
        else:
            row[: len(self.row)] = self.row
            row[len(self.row) :] = 0

    def has(self, token: int) -> bool:
        word, bit = token >> 5, token & 31
        if self.row is not None:
            return bool(self.row[word] >> np.uint32(bit) & 1)
        at = int(np.searchsorted(self.words, word))
        return at < len(self.words) and self.words[at] == word and bool(int(self.values[at]) >> bit & 1)


def union(parts: Sequence[Bits], words: int) -> Bits:
    """All tokens of ``parts``."""
    if len(parts) == 1:
        return parts[0]
    out = Bits.__new__(Bits)
    if all(part.row is None for part in parts):
        if parts:
            out._gather(*(np.concatenate(arrays) for arrays in zip(*((p.words, p.values) for p in parts), strict=True)))
        else:
            out._gather(np.zeros(0, np.int32), np.zeros(0, np.uint32))
        return out
    row = np.zeros(words, dtype=np.uint32)
    for part in parts:
        part.add_to(row)
    out.row = row
    out.size = row.nbytes
    return out


class Exits:
    """Trie nodes at which threads left a base under the same conditions; compare by identity."""

    __slots__ = ("nodes",)

    def __init__(self, nodes: Ints) -> None:
        self.nodes = nodes


class Part:
    """What one local state allows, from the root of the trie or from the nodes of an exit."""

    def __init__(self, tokens: Ints, needs: Ints, exits: dict[tuple[int, int], Ints], words: int) -> None:
        self.size = 2 * tokens.nbytes + sum(nodes.nbytes for nodes in exits.values())
        if len(needs) and needs.min() != needs.max():
            order = np.argsort(needs.astype(np.int16), kind="stable")  # needs are at most as large as the trie is deep
            tokens, needs = tokens[order], needs[order]
        self._tokens = tokens
        self._starts = np.flatnonzero(np.concatenate([needs[:1] == needs[:1], needs[1:] != needs[:-1]]))
        self._needs = needs[self._starts]
        self._most_needed = int(self._needs[-1]) if len(self._needs) else 0
        self._words = words
        self._exits = exits
        self._upto: dict[int, Bits | None] = {}
        self._leaving: dict[tuple[int, int, int], Exits | None] = {}
        self.conditions = tuple(sorted({guard for _, guard in exits}))
        self._deepest = max((rounds for rounds, _ in exits), default=0)

    def upto(self, room: int) -> Bits | None:
        """The tokens that need at most ``room`` rounds; None where there are none."""
        groups = (
            int(np.searchsorted(self._needs, room, side="right")) if room <= self._most_needed else len(self._needs)
        )
        if groups not in self._upto:
            before = max((number for number in self._upto if number < groups), default=0)
            pieces = [self._upto[before]] if before else []
            if len(self._tokens):
                starts = [*self._starts.tolist(), len(self._tokens)]
                pieces += [Bits(self._tokens[starts[i] : starts[i + 1]], self._words) for i in range(before, groups)]
            found = [piece for piece in pieces if piece is not None]
            self._upto[groups] = union(found, self._words) if found else None
        return self._upto[groups]

    def leaving(self, guard: int, least: int, most: int) -> Exits | None:
        """Where threads under ``guard`` leave after ``least`` to ``most`` rounds; None where nowhere."""
        key = guard, max(least, 0), min(most, self._deepest)
        if key not in self._leaving:
            found = [
                nodes for (rounds, other), nodes in self._exits.items() if other == guard and key[1] <= rounds <= key[2]
            ]
            self._leaving[key] = Exits(_ascending(np.concatenate(found))) if found else None
        return self._leaving[key]


class PartMaker:
    """Makes the parts of one automaton over one trie."""

    def __init__(self, automaton: Automaton, program: Program, trie: TokenTrie, limits: Limits) -> None:
        self._automaton = automaton
        self._program = program
        self._trie = trie
        self._limits = limits
        self._rows_seen = 0
        self._root: Ints = np.zeros(1, dtype=np.int32)

    def initial(self, state: int, loop: int) -> Part:
        """The part of ``state`` from the root; shared with all grammars whose state depends on the same code.

        loop: the LOOP that the base counts for, -1 where it is no counted loop.
        """
        key = fingerprint(self._automaton, self._program, state, loop) if self._is_wide(state) else None
        if key is None:
            return self.behind(self._root, state)
        known = self._trie.shared.get(key)
        if not isinstance(known, Part):
            if len(self._trie.shared) >= _SHARED_PARTS:
                self._trie.shared.clear()
            known = self._trie.shared[key] = self.behind(self._root, state)
        return known

    def _is_wide(self, state: int) -> bool:
        automaton = self._automaton
        automaton.step(state, 0)
        if automaton.byte[state] != -1:
            return False
        row = automaton.after[state] * 256
        return sum(after >= 0 for after in automaton.rows[row : row + 256]) >= _WIDE

    def behind(self, nodes: Ints, state: int) -> Part:
        """The part of ``state`` at each of ``nodes``: the tokens that end there or under it."""
        walk = self._trie.walk()
        budget = self._limits.mask_steps if COMPILED else _NARROW
        found: list[tuple[Ints, Ints, Ints, Ints]] = []
        at = 0
        walk.clear()
        while True:
            at = walk.under(self._automaton, nodes, at, state, budget)
            if at < len(nodes) and not walk.full:
                if COMPILED:
                    raise LimitError("one mask takes too many steps", bound="mask_steps", limit=budget)
                return self._by_levels(nodes, state)
            found.append(_taken(walk))
            if at == len(nodes):
                break
            walk.clear()
        tokens, needs, reached, states = (np.concatenate(arrays) for arrays in zip(*found, strict=True))
        return Part(tokens, needs, self._sorted_exits(reached, states), self._trie.words)

    def _sorted_exits(self, nodes: Ints, states: Ints) -> dict[tuple[int, int], Ints]:
        exits: dict[tuple[int, int], list[Ints]] = {}
        if not len(nodes):
            return {}
        order = np.argsort(states, kind="stable")
        nodes, states = nodes[order], states[order]
        starts = np.flatnonzero(states[1:] != states[:-1]) + 1
        for state, group in zip(states[[0, *starts]].tolist(), np.split(nodes, starts), strict=True):
            for leaving in self._automaton.exits[state]:
                exits.setdefault(leaving, []).append(group)
        return {leaving: np.concatenate(groups) for leaving, groups in exits.items()}

    # -- uncompiled, wide states -----------------------------------------------------------------------------------

    def _by_levels(self, start: Ints, state: int) -> Part:
        """The same as a walk, all nodes of a level at once."""
        automaton, trie = self._automaton, self._trie
        first, count, children = trie.children()
        nodes, states = start, np.full(len(start), state, dtype=np.int32)
        tokens, needs, reached, leaving = [], [], [], []
        steps = 0
        while len(nodes):
            need = np.asarray(automaton.need, dtype=np.int32)[states]
            counts = np.where(need == NEVER, 0, trie.token_start[nodes + 1] - trie.token_start[nodes])
            at = np.repeat(trie.token_start[nodes], counts) + _inside(counts)
            tokens.append(trie.tokens[at])
            needs.append(np.repeat(need, counts))
            leaves = np.asarray(automaton.leaves)[states] != 0
            reached.append(nodes[leaves])
            leaving.append(states[leaves])
            counts = count[nodes]
            steps += int(counts.sum())
            if steps > self._limits.mask_steps:
                raise LimitError(
                    "one mask takes too many steps", bound="mask_steps", limit=self._limits.mask_steps, size=steps
                )
            below = children[np.repeat(first[nodes], counts) + _inside(counts)]
            after = self._next(np.repeat(states, counts), trie.byte[below])
            nodes, states = below[after >= 0], after[after >= 0]
        exits = self._sorted_exits(np.concatenate(reached), np.concatenate(leaving))
        return Part(np.concatenate(tokens), np.concatenate(needs), exits, trie.words)

    def _next(self, states: Ints, symbols: npt.NDArray[np.uint8]) -> Ints:
        automaton = self._automaton
        for state in np.flatnonzero(np.bincount(states)).tolist():
            automaton.step(state, 0)  # its steps are known afterwards
        only = np.asarray(automaton.byte, dtype=np.int32)[states]
        behind = np.asarray(automaton.after, dtype=np.int32)[states]
        rows = np.asarray(automaton.rows, dtype=np.int32)
        table = rows[np.where(only < 0, behind, 0).astype(np.int64) * 256 + symbols]
        return np.where(only < 0, table, np.where(only == symbols, behind, -1)).astype(np.int32)


def _inside(counts: Ints) -> Ints:
    """0 .. n - 1 for every n of ``counts``, one after the other."""
    return (np.arange(int(counts.sum())) - np.repeat(np.cumsum(counts) - counts, counts)).astype(np.int32)


def _ascending(nodes: Ints) -> Ints:
    """The nodes in order, each once; numpy's own way hashes, which is slow."""
    nodes = np.sort(nodes)
    once: Ints = nodes[np.concatenate([nodes[:1] == nodes[:1], nodes[1:] != nodes[:-1]])]
    return once


def _taken(walk: Walk) -> tuple[Ints, Ints, Ints, Ints]:
    """Copies of what the walk found."""
    tokens, nodes = walk.token_count, walk.node_count
    return (
        np.array(walk.tokens[:tokens], dtype=np.int32),
        np.array(walk.needs[:tokens], dtype=np.int32),
        np.array(walk.nodes[:nodes], dtype=np.int32),
        np.array(walk.states[:nodes], dtype=np.int32),
    )


def fingerprint(automaton: Automaton, program: Program, state: int, loop: int) -> object | None:
    """What the walk of ``state`` depends on, the same for equal code anywhere; None: too much, or look-aheads.

    The bounds of ``loop``, which the base counts for, do not matter to the walk, unless the loop is entered anew.
    """
    order: dict[int, int] = {}
    out: list[object] = []

    def number(at: int) -> int:
        return order.setdefault(at, len(order))

    frames: dict[int, object] = {}

    def shape(frame: int) -> object:
        if frame < automaton.bases:
            return frame
        if frame not in frames:
            frames[frame] = tuple((number(at), k, shape(parent)) for at, k, parent in automaton.links[frame])
        return frames[frame]

    for thread in automaton.threads[state]:
        if thread & 0xFFFF or automaton.depth[thread >> 16 & 0xFFFFFF] > 50:
            return None
        out.append((number(thread >> 40), shape(thread >> 16 & 0xFFFFFF)))
    done = 0
    while done < len(order):
        if len(order) > _SHARED_CODE:
            return None
        for at in list(order)[done:]:
            done += 1
            op, argument, following = program.code[at]
            if op in _LOOKS_AHEAD or (op == Op.CALL and loop >= 0):
                return None
            if at == loop:
                out.append(number(argument[2]))
                continue
            out.append((op, _numbered(op, argument, number), number(following) if following >= 0 else -1))
            out.append(program.live[at])
    return tuple(out)


_LOOKS_AHEAD = frozenset({Op.SCAN, Op.LEAVE, Op.DROP, Op.REQUIRE, Op.REQUIRE_OR_END, Op.REFUSE, Op.SYMBOL})


def _numbered(op: int, argument: Any, number: Any) -> object:
    if op == Op.SPLIT:
        return tuple(number(target) for target in argument)
    if op == Op.CALL:
        return number(argument)
    if op == Op.LOOP:
        return (argument[0], argument[1], number(argument[2]), number(argument[3]))
    if op == Op.PERM:
        return (tuple(map(number, argument[0])), tuple(map(number, argument[1])), argument[2], number(argument[3]))
    return argument
