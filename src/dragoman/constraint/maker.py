"""Makes parts of masks: by the compiled walk, or level by level in numpy; what grammars share is made once."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import numpy.typing as npt

from dragoman.constraint.alike import Alike, Like
from dragoman.constraint.parts import Exits, Leaving, Part
from dragoman.constraint.sharing import fingerprint, place
from dragoman.constraint.trie import Ints, TokenTrie, inside
from dragoman.errors import LimitError
from dragoman.grammar.lazy_automaton import DEAD, NEVER, Automaton
from dragoman.grammar.program import Program
from dragoman.grammar.walk import COMPILED, Record, Walk, scatter
from dragoman.limits import Limits

# Uncompiled, a walk of more steps than this is done level by level in numpy.
_STEPS = 1 << 30 if COMPILED else 2_000
# A state that goes on with fewer bytes than this is as cheap to walk as to look up.
_WIDE = 32
# Parts that all grammars of a vocabulary share; past it they are forgotten.
_SHARED_PARTS = 512
# States of JSON strings that records are kept of; each takes some 1.5 MB.
_RECORDS = 16
# Exits at more nodes than this are looked up by byte.
_FEW_NODES = 256

_NO_NODES: Ints = np.zeros(0, dtype=np.int32)
# tokens, needs (one for all, or one for each), nodes with exits, their states
Found = tuple[Ints, Ints, Ints, Ints]


class PartMaker:
    """Makes the parts of one automaton over one trie."""

    def __init__(self, automaton: Automaton, program: Program, trie: TokenTrie, limits: Limits) -> None:
        self._automaton = automaton
        self._program = program
        self._trie = trie
        self._walk = trie.walk()
        self._limits = limits
        self._budget = min(limits.mask_steps, _STEPS)
        self._root: Ints = np.zeros(1, dtype=np.int32)
        self._alike = Alike(automaton, trie, self._recorded, self._alone, self._leaving, self._budget)

    def initial(self, state: int, loop: int) -> Part:
        """The part of ``state`` from the root; shared with all grammars whose state depends on the same code.

        loop: the LOOP that the base counts for, -1 where it is no counted loop.
        """
        if self._automaton.width(state) < _WIDE:
            return self._part(self._walked(self._root, state))
        walked = self._walked if COMPILED else self._by_levels
        shared = self._trie.shared
        here = place(self._automaton, self._program, state, loop)
        known = shared.get(here) if here else None
        if not isinstance(known, Part):
            near = self._alike.part(state, alone=False) if COMPILED else None
            key = fingerprint(self._automaton, state, loop) if near is None else None
            known = near or (shared.get(key) if key else None)
            if not isinstance(known, Part):
                near = self._alike.part(state, alone=True) if COMPILED else None
                known = near or self._part(walked(self._root, state))
            if len(shared) >= _SHARED_PARTS:
                shared.clear()
            shared.update({name: known for name in (here, key) if name})
        return known

    def behind(self, exits: Exits, state: int) -> Part:
        """The part of ``state`` at the nodes of ``exits``: the tokens that end there or under it."""
        if len(exits.nodes) <= _FEW_NODES:
            return self._part(self._walked(exits.nodes, state))
        # Most of the nodes lead nowhere: those that do are looked up by the bytes that the state goes on with.
        automaton, need = self._automaton, self._automaton.need[state]
        tokens = exits.tokens() if need != NEVER else _NO_NODES
        nodes = exits.nodes if automaton.leaves[state] else _NO_NODES
        found = [self._walked(exits.children(byte), automaton.step(state, byte)) for byte in self._bytes(state)]
        if len(tokens) or len(nodes) or not found:
            states = np.full(len(nodes), state, np.int32)
            found.append((tokens, np.full(min(len(tokens), 1), need, np.int32), nodes, states))
        return self._part(found[0] if len(found) == 1 else _joined(found))

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
        walk = self._walk
        found: list[Found] = []
        at = 0
        while True:
            walk.clear()
            first = at
            at = walk.under(self._automaton, nodes, at, state, self._budget)
            if walk.asked >= 0:
                at, asked = first, walk.asked  # making the record is a walk too, which forgets what was asked for
                number = self._recorded(asked)
                self._automaton.record[asked] = number
                continue
            if at < len(nodes) and not walk.full:
                if COMPILED:
                    raise LimitError("one mask takes too many steps", bound="mask_steps", limit=self._budget)
                return self._by_levels(nodes, state)
            found.append(_taken(walk))
            if at == len(nodes):
                return found[0] if len(found) == 1 else _joined(found)

    def _alone(self, state: int) -> Like | None:
        tokens, needs, nodes, states = self._walked(self._root, state)
        if len(needs) != 1:
            return None
        row = np.zeros(self._trie.words, np.uint32)
        scatter(row, tokens, clear=False)
        return Like(row, int(needs[0]), nodes, states)

    def _recorded(self, state: int) -> int:
        """The number of the record that serves ``state``, made if it is the first of its kind; -1: none does."""
        automaton, trie, walk = self._automaton, self._trie, self._walk
        threads = automaton.threads[state]
        if len(threads) > 1 or not COMPILED or not self._plain(state):
            return -1
        known = trie.recorded
        local = automaton.state((threads[0] & ~(0xFFFFFF << 16),))
        here = place(automaton, self._program, local, -1)
        if here is not None and here in known:
            return known[here]
        key = fingerprint(automaton, local, -1)
        number = -1 if key is None else known.get(key, 0)
        if not number:
            record = self._record(local) if len(walk.records) < _RECORDS else None
            number = -1
            if record is not None:
                walk.records.append(record)
                number = len(walk.records)
        if len(known) < _SHARED_PARTS:
            known.update({name: number for name in (here, key) if name is not None})
        return number

    def _plain(self, state: int) -> bool:
        """Whether what a character of one byte leads to is ``state`` again or narrow, as escapes and a closer are.

        Any other is a place in a pattern, which is mostly left from elsewhere too: no record comes of it.
        """
        automaton = self._automaton
        at = automaton.after[state] * 256
        behind = set(automaton.rows[at : at + 128]) - {state, DEAD}
        return all(automaton.narrow(after, _WIDE) for after in behind)

    def _record(self, state: int) -> Record | None:
        """A walk of ``state`` from the root, to be taken in pieces; None where rounds count or it is left elsewhere."""
        automaton, trie, walk = self._automaton, self._trie, self._walk
        walk.clear()
        np.asarray(walk.home)[:] = 0
        walk.seek = state
        try:
            done = walk.under(automaton, self._root, 0, state, self._budget)
        finally:
            walk.seek = -1
        home = np.array(walk.home, dtype=np.uint8)
        tokens, needs, nodes, states = _taken(walk)
        if not done or needs.tolist() != [1]:
            return None
        pure = all(automaton.need[left] == NEVER for left in set(states.tolist()))
        if not pure or not home[trie.parent[nodes]].all():
            return None
        found = np.zeros(trie.size, dtype=bool)
        found[tokens] = True
        found = found[trie.tokens]
        before = np.concatenate([np.zeros(1, np.int32), np.cumsum(found, dtype=np.int32)])
        row = np.zeros(trie.words, np.uint32)
        scatter(row, tokens, clear=False)
        return Record(home, trie.tokens[found], before, nodes, row)

    def _part(self, found: Found) -> Part:
        tokens, needs, nodes, states = found
        return Part(tokens, needs, self._leaving(nodes, states) if len(nodes) else {}, self._trie.words)

    def _leaving(self, nodes: Ints, states: Ints) -> dict[int, Leaving]:
        """The exits of ``states``, each reached at its node, by conditions."""
        exits = self._automaton.exits
        met = set(states.tolist()) if len(states) <= _FEW_NODES else np.flatnonzero(np.bincount(states)).tolist()
        kinds = {exits[state] for state in met}
        if len(kinds) == 1:
            (ways,) = kinds
            nodes = _ascending(nodes)
            # Mostly there is one way, after no round or after one count of them.
            if len({guard for _, guard in ways}) == len(ways):
                return {guard: Leaving(nodes, [count], [0, len(nodes)], self._trie) for count, guard in ways}
        if all(len(ways) == 1 and ways[0][1] == 0 for ways in kinds):
            # A counted loop: every state is left after so many rounds, on no conditions.
            rounds = np.zeros(max(met) + 1, dtype=np.int16)
            rounds[list(met)] = [exits[state][0][0] for state in met]
            left = rounds[states]
            order = np.argsort(left, kind="stable")
            left = left[order]
            cuts = (np.flatnonzero(left[1:] != left[:-1]) + 1).tolist()
            nodes = nodes[order]
            groups = {int(left[start]): [nodes[start:end]] for start, end in _spans(cuts, len(nodes))}
            return {0: self._way(groups)}
        order = np.argsort(states, kind="stable")
        nodes, states = nodes[order], states[order]
        starts = (np.flatnonzero(states[1:] != states[:-1]) + 1).tolist()
        found: dict[int, dict[int, list[Ints]]] = {}
        for start, end in _spans(starts, len(nodes)):
            for count, guard in exits[states[start]]:
                found.setdefault(guard, {}).setdefault(count, []).append(nodes[start:end])
        return {guard: self._way(groups) for guard, groups in found.items()}

    def _way(self, groups: dict[int, list[Ints]]) -> Leaving:
        rounds = sorted(groups)
        nodes = [
            _ascending(groups[count][0] if len(groups[count]) == 1 else np.concatenate(groups[count]))
            for count in rounds
        ]
        starts = [0]
        for group in nodes:
            starts.append(starts[-1] + len(group))
        return Leaving(nodes[0] if len(nodes) == 1 else np.concatenate(nodes), rounds, starts, self._trie)

    # -- uncompiled, wide states -----------------------------------------------------------------------------------

    def _by_levels(self, start: Ints, state: int) -> Found:
        """The same as a walk, all nodes of a level at once."""
        if len(start) == 1 and not start[0]:
            return self._from_root(state)
        automaton, trie = self._automaton, self._trie
        first, count, children = trie.children()
        nodes, states = start, np.full(len(start), state, dtype=np.int32)
        reached: list[Ints] = []
        told: list[Ints] = []
        steps = 0
        while len(nodes):
            reached.append(nodes)
            told.append(states)
            counts = count[nodes]
            steps += int(counts.sum())
            self._check(steps)
            below = children[np.repeat(first[nodes], counts) + inside(counts)]
            after = self._next(np.repeat(states, counts), trie.byte[below])
            nodes, states = below[after >= 0], after[after >= 0]
        nodes, states = np.concatenate(reached), np.concatenate(told)
        need = np.asarray(automaton.need, dtype=np.int32)[states]
        counts = np.where(need == NEVER, 0, trie.token_start[nodes + 1] - trie.token_start[nodes])
        tokens = trie.tokens[np.repeat(trie.token_start[nodes], counts) + inside(counts)]
        leaves = np.asarray(automaton.leaves)[states] != 0
        return tokens, np.repeat(need, counts), nodes[leaves], states[leaves]

    def _check(self, steps: int) -> None:
        if steps > self._limits.mask_steps:
            raise LimitError(
                "one mask takes too many steps", bound="mask_steps", limit=self._limits.mask_steps, size=steps
            )

    def _from_root(self, state: int) -> Found:
        """The same from the root, where most nodes are reached: every node has a state, which may be none.

        States have numbers of their own here, 0 for none, and a row of such numbers each.
        """
        automaton, trie = self._automaton, self._trie
        levels = trie.levels()
        numbers = {DEAD: 0, state: 1}
        table = np.zeros((64, 256), dtype=np.int32)
        names: list[int] = []  # the states by their numbers, as far as they were asked for
        here: Ints = np.zeros(len(trie), dtype=np.int32)
        here[0] = 1
        start, steps = 0, 0
        done: set[int] = {0}
        for end, past, up, edge in levels.steps:
            for number in np.flatnonzero(np.bincount(here[start:end])).tolist():
                if number in done:
                    continue
                done.add(number)
                if number >= len(names):
                    names = list(numbers)
                row = self._row(names[number], numbers)
                if len(numbers) > len(table):
                    table = np.concatenate([table, np.zeros((len(numbers), 256), dtype=np.int32)])
                table[number] = row
            below = table.reshape(-1)[here[up] * 256 + edge]
            here[end:past] = below
            alive = int(np.count_nonzero(below))
            if not alive:
                break
            steps += alive
            self._check(steps)
            start = end
        own = np.fromiter(numbers, dtype=np.int32, count=len(numbers))
        dead = own < 0
        need = np.where(dead, NEVER, np.asarray(automaton.need, dtype=np.int32)[own])[here[levels.token_at]]
        leaves = np.where(dead, 0, np.asarray(automaton.leaves)[own])[here] != 0
        lives = need != NEVER
        reached = np.zeros(len(trie), dtype=np.int32)
        reached[levels.nodes[leaves]] = here[leaves]
        nodes = np.flatnonzero(reached).astype(np.int32)  # in their order again
        return levels.tokens[lives], need[lives].astype(np.int32), nodes, own[reached[nodes]]

    def _row(self, state: int, numbers: dict[int, int]) -> Ints:
        """What ``state`` goes on to, by byte, as numbers; new states get the next ones."""
        automaton = self._automaton
        automaton.step(state, 0)
        row = np.zeros(256, dtype=np.int32)
        if automaton.byte[state] >= 0:
            row[automaton.byte[state]] = numbers.setdefault(automaton.after[state], len(numbers))
            return row
        at = automaton.after[state] * 256
        after = np.asarray(automaton.rows[at : at + 256], dtype=np.int32)
        # A row leads to few states, in long runs: one look at each run.
        cuts = np.flatnonzero(after[1:] != after[:-1]) + 1
        starts = [0, *cuts.tolist()]
        known = [numbers.setdefault(target, len(numbers)) for target in after[starts].tolist()]
        return np.repeat(np.array(known, dtype=np.int32), np.diff([*starts, 256]))

    def _next(self, states: Ints, symbols: npt.NDArray[np.uint8]) -> Ints:
        automaton = self._automaton
        for state in np.flatnonzero(np.bincount(states)).tolist():
            automaton.step(state, 0)  # its steps are known afterwards
        only = np.asarray(automaton.byte, dtype=np.int32)[states]
        behind = np.asarray(automaton.after, dtype=np.int32)[states]
        rows = np.asarray(automaton.rows, dtype=np.int32)
        table = rows[np.where(only < 0, behind, 0).astype(np.int64) * 256 + symbols]
        return np.where(only < 0, table, np.where(only == symbols, behind, -1)).astype(np.int32)


def _spans(cuts: list[int], end: int) -> Iterator[tuple[int, int]]:
    """What lies between the cuts, from 0 to ``end``."""
    return zip([0, *cuts], [*cuts, end], strict=True)


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
