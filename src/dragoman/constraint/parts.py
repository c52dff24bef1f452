"""Parts of masks: what one local state allows of a vocabulary, found once.

A part holds the tokens that stay inside the base, by the rounds of the base's loop that they need, and the trie nodes
where threads leave the base, by (rounds, conditions). What follows a node is walked from the state behind the base.
"""

from __future__ import annotations

from bisect import bisect_right
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
_STEPS = 1 << 30 if COMPILED else 2_000
# A state that goes on with fewer bytes than this is as cheap to walk as to look up.
_WIDE = 32
# Parts that all grammars of a vocabulary share; past it they are forgotten.
_SHARED_PARTS = 512
# Exits at more nodes than this are looked up by byte.
_FEW_NODES = 256
# States that depend on more instructions than this are not shared between grammars.
_SHARED_CODE = 2_000


_NO_NODES: Ints = np.zeros(0, dtype=np.int32)
# tokens, needs (one for all, or one for each), nodes with exits, their states
Found = tuple[Ints, Ints, Ints, Ints]


class Bits:
    """A set of tokens: a whole row of words, or, where it is small, one (word, bit) for each token."""

    __slots__ = ("row", "size", "values", "words")

    def __init__(self, tokens: Ints, words: int) -> None:
        self.row: npt.NDArray[np.uint32] | None = None
        if len(tokens) * _SPARSE < words * 32:
            self.words = tokens >> 5
            self.values = np.left_shift(1, tokens & 31, dtype=np.uint32, casting="unsafe")
            self.size = self.words.nbytes + self.values.nbytes
            return
        allowed = np.zeros(words * 32, dtype=bool)
        allowed[tokens] = True
        self.row = np.packbits(allowed, bitorder="little").view(np.uint32)
        self.size = self.row.nbytes

    def add_to(self, row: npt.NDArray[np.uint32]) -> None:
        """Set these tokens in ``row``."""
        if self.row is not None:
            np.bitwise_or(row[: len(self.row)], self.row, out=row[: len(self.row)])
        else:
            np.bitwise_or.at(row, self.words, self.values)

    def write(self, row: npt.NDArray[np.uint32]) -> None:
        """Overwrite ``row``."""
        if self.row is None:
            row.fill(0)
            np.bitwise_or.at(row, self.words, self.values)
        elif len(row) == len(self.row):
            np.copyto(row, self.row)
        else:
            row[: len(self.row)] = self.row
            row[len(self.row) :] = 0


def union(parts: Sequence[Bits], words: int) -> Bits:
    """All tokens of ``parts``."""
    if len(parts) == 1:
        return parts[0]
    out = Bits.__new__(Bits)
    if sum(part.size if part.row is None else words * 32 for part in parts) * _SPARSE < words * 32 * 8:
        out.words = np.concatenate([part.words for part in parts]) if parts else np.zeros(0, np.int32)
        out.values = np.concatenate([part.values for part in parts]) if parts else np.zeros(0, np.uint32)
        out.row = None
        out.size = out.words.nbytes + out.values.nbytes
        return out
    row = np.zeros(words, dtype=np.uint32)
    for part in parts:
        part.add_to(row)
    out.row = row
    out.size = row.nbytes
    return out


class Exits:
    """Trie nodes at which threads left a base under the same conditions, after some rounds; compare by identity."""

    __slots__ = ("_least", "_leaving", "_most", "nodes")

    def __init__(self, leaving: Leaving, least: int, most: int) -> None:
        self._leaving, self._least, self._most = leaving, least, most
        self.nodes = self._cut(leaving.nodes, leaving.rounds)

    def _cut(self, items: Ints, rounds: Ints) -> Ints:
        """Those of ``items``, sorted by their ``rounds``, that lie between the bounds."""
        return items[np.searchsorted(rounds, self._least) : np.searchsorted(rounds, self._most, side="right")]

    def tokens(self) -> Ints:
        """The tokens that end at the nodes."""
        return self._cut(*self._leaving.tokens())

    def children(self, byte: int) -> Ints:
        """The nodes behind ``byte`` after these."""
        return self._cut(*self._leaving.children(byte))


class Leaving:
    """All nodes where threads leave under the same conditions, by rounds; nodes below them by byte, when asked for."""

    def __init__(self, nodes: Ints, rounds: Ints, trie: TokenTrie) -> None:
        self.nodes, self.rounds, self._trie = nodes, rounds, trie
        self._exits: dict[tuple[int, int], Exits] = {}
        self._tokens: tuple[Ints, Ints] | None = None
        self._children: dict[int, tuple[Ints, Ints]] = {}

    def between(self, least: int, most: int) -> Exits | None:
        """The exits after ``least`` to ``most`` rounds; None where there are none."""
        key = max(least, 0), min(most, int(self.rounds[-1]))
        found = self._exits.get(key)
        if found is None:
            found = self._exits[key] = Exits(self, *key)
        return found if len(found.nodes) else None

    def tokens(self) -> tuple[Ints, Ints]:
        """The tokens at the nodes, and their rounds."""
        if self._tokens is None:
            starts = self._trie.token_start[self.nodes]
            counts = self._trie.token_start[self.nodes + 1] - starts
            tokens = self._trie.tokens[np.repeat(starts, counts) + _inside(counts)]
            self._tokens = tokens, np.repeat(self.rounds, counts)
        return self._tokens

    def children(self, byte: int) -> tuple[Ints, Ints]:
        """The nodes that ``byte`` leads to, and the rounds before it."""
        found = self._children.get(byte)
        if found is None:
            order = np.argsort(self.nodes, kind="stable")
            nodes, rounds = self.nodes[order], self.rounds[order]
            below = self._trie.behind(byte)
            parents = self._trie.parent[below]
            first = np.searchsorted(nodes, parents)
            counts = np.searchsorted(nodes, parents, side="right") - first  # several where it is left in several ways
            below = np.repeat(below, counts)
            rounds = rounds[np.repeat(first, counts) + _inside(counts)]
            order = np.argsort(rounds, kind="stable")
            found = self._children[byte] = below[order], rounds[order]
        return found


class Part:
    """What one local state allows, from the root of the trie or from the nodes of an exit.

    leaving: conditions -> where threads leave under them.
    """

    def __init__(self, tokens: Ints, needs: Ints, leaving: dict[int, Leaving], words: int) -> None:
        self.size = 2 * tokens.nbytes + sum(2 * way.nodes.nbytes for way in leaving.values())
        self._words = words
        self.leaving = leaving
        self._upto: list[Bits | None] = [None]  # by the number of groups
        if len(needs) > 1:
            order = np.argsort(needs.astype(np.int16), kind="stable")  # needs are at most as large as the trie is deep
            tokens, needs = tokens[order], needs[order]
            self._starts: list[int] = [0, *(np.flatnonzero(needs[1:] != needs[:-1]) + 1).tolist()]
        else:
            self._starts = [0] if len(needs) else []
        self._tokens = tokens
        self._needs: list[int] = [int(needs[start]) for start in self._starts]

    def upto(self, room: int) -> Bits | None:
        """The tokens that need at most ``room`` rounds; None where there are none."""
        groups = bisect_right(self._needs, room)
        starts = [*self._starts, len(self._tokens)]
        while len(self._upto) <= groups:
            at = len(self._upto) - 1
            more = Bits(self._tokens[starts[at] : starts[at + 1]], self._words)
            before = self._upto[at]
            self._upto.append(more if before is None else union([before, more], self._words))
        return self._upto[groups]


class PartMaker:
    """Makes the parts of one automaton over one trie."""

    def __init__(self, automaton: Automaton, program: Program, trie: TokenTrie, limits: Limits) -> None:
        self._automaton = automaton
        self._program = program
        self._trie = trie
        self._limits = limits
        self._root: Ints = np.zeros(1, dtype=np.int32)
        self._none = _NO_NODES

    def initial(self, state: int, loop: int) -> Part:
        """The part of ``state`` from the root; shared with all grammars whose state depends on the same code.

        loop: the LOOP that the base counts for, -1 where it is no counted loop.
        """
        key = fingerprint(self._automaton, self._program, state, loop) if self._is_wide(state) else None
        if key is None:
            return self._part([self._walked(self._root, state)])
        known = self._trie.shared.get(key)
        if not isinstance(known, Part):
            if len(self._trie.shared) >= _SHARED_PARTS:
                self._trie.shared.clear()
            known = self._trie.shared[key] = self._part([self._walked(self._root, state)])
        return known

    def _is_wide(self, state: int) -> bool:
        self._automaton.step(state, 0)
        return self._automaton.byte[state] == -1 and len(self._bytes(state)) >= _WIDE

    def behind(self, exits: Exits, state: int) -> Part:
        """The part of ``state`` at the nodes of ``exits``: the tokens that end there or under it."""
        if len(exits.nodes) <= _FEW_NODES:
            return self._part([self._walked(exits.nodes, state)])
        # Most of the nodes lead nowhere: those that do are looked up by the bytes that the state goes on with.
        automaton, need = self._automaton, self._automaton.need[state]
        tokens = exits.tokens() if need != NEVER else self._none
        nodes = exits.nodes if automaton.leaves[state] else self._none
        found = [(tokens, np.full(min(len(tokens), 1), need, np.int32), nodes, np.full(len(nodes), state, np.int32))]
        found += [self._walked(exits.children(byte), automaton.step(state, byte)) for byte in self._bytes(state)]
        return self._part(found)

    def _bytes(self, state: int) -> list[int]:
        """The bytes that ``state`` goes on with."""
        automaton = self._automaton
        automaton.step(state, 0)
        if automaton.byte[state] >= 0:
            return [automaton.byte[state]] if automaton.after[state] >= 0 else []
        row = automaton.after[state] * 256
        return [byte for byte, after in enumerate(automaton.rows[row : row + 256]) if after >= 0]

    def _walked(self, nodes: Ints, state: int) -> Found:
        """What a walk from ``state`` at each of ``nodes`` finds: tokens, needs, nodes with exits, their states."""
        walk = self._trie.walk()
        budget = min(self._limits.mask_steps, _STEPS)
        found: list[Found] = []
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
                return found[0] if len(found) == 1 else _joined(found)
            walk.clear()

    def _part(self, found: list[Found]) -> Part:
        tokens, needs, nodes, states = found[0] if len(found) == 1 else _joined(found)
        return Part(tokens, needs, self._leaving(nodes, states), self._trie.words)

    def _leaving(self, nodes: Ints, states: Ints) -> dict[int, Leaving]:
        """The exits of ``states``, each reached at its node, by conditions."""
        if not len(nodes):
            return {}
        ways: dict[int, list[tuple[int, Ints]]] = {}
        exits = self._automaton.exits
        if len(nodes) > 1:
            order = np.argsort(states, kind="stable")
            nodes, states = nodes[order], states[order]
            starts = (np.flatnonzero(states[1:] != states[:-1]) + 1).tolist()
        else:
            starts = []
        for start, end in zip([0, *starts], [*starts, len(nodes)], strict=True):
            for rounds, guard in exits[states[start]]:
                ways.setdefault(guard, []).append((rounds, nodes[start:end]))
        return {guard: self._way(groups) for guard, groups in ways.items()}

    def _way(self, groups: list[tuple[int, Ints]]) -> Leaving:
        groups.sort(key=lambda group: group[0])
        nodes = [_ascending(group) for _, group in groups]
        rounds = np.repeat(np.array([count for count, _ in groups], np.int32), [len(group) for group in nodes])
        return Leaving(nodes[0] if len(nodes) == 1 else np.concatenate(nodes), rounds, self._trie)

    # -- uncompiled, wide states -----------------------------------------------------------------------------------

    def _by_levels(self, start: Ints, state: int) -> Found:
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
        return np.concatenate(tokens), np.concatenate(needs), np.concatenate(reached), np.concatenate(leaving)

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
    if len(nodes) == 1 or bool((nodes[1:] > nodes[:-1]).all()):
        return nodes
    nodes = np.sort(nodes)
    once: Ints = nodes[np.concatenate([nodes[:1] == nodes[:1], nodes[1:] != nodes[:-1]])]
    return once


def _taken(walk: Walk) -> Found:
    """Copies of what the walk found."""
    tokens, needs, nodes, states = walk.arrays
    found, left = walk.token_count, walk.node_count
    if walk.low >= walk.high:  # one need for all tokens, told once
        needs = needs[: min(found, 1)]
    if not left:
        return tokens[:found].copy(), needs[:found].copy(), _NO_NODES, _NO_NODES
    return tokens[:found].copy(), needs[:found].copy(), nodes[:left].copy(), states[:left].copy()


def _joined(found: list[Found]) -> Found:
    tokens, _, nodes, states = (np.concatenate(arrays) for arrays in zip(*found, strict=True))
    told = {int(needs[0]) if len(needs) == 1 else -1 for _, needs, _, _ in found if len(needs)}
    if len(told) == 1 and -1 not in told:
        return tokens, np.array([*told], dtype=np.int32), nodes, states
    return tokens, np.concatenate([np.resize(item[1], len(item[0])) for item in found]), nodes, states


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
