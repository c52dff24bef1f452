"""Parts of masks: what one local state allows of a vocabulary, found once.

A part holds the tokens that stay inside the base, by the rounds of the base's loop that they need, and the trie nodes
where threads leave the base, by (rounds, conditions). What follows a node is walked from the state behind the base.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from dragoman.constraint.trie import Ints, TokenTrie
from dragoman.errors import LimitError
from dragoman.grammar.lazy_automaton import DEAD, NEVER, Automaton
from dragoman.grammar.program import Op, Program
from dragoman.grammar.walk import COMPILED, Walk, scatter
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


Row = npt.NDArray[np.uint32]
_NO_NODES: Ints = np.zeros(0, dtype=np.int32)
# tokens, needs (one for all, or one for each), nodes with exits, their states
Found = tuple[Ints, Ints, Ints, Ints]


class Bits:
    """A set of tokens: a whole row of words, or, where it is small, the tokens themselves. Compare by identity."""

    __slots__ = ("row", "size", "tokens")

    def __init__(self, tokens: Ints, words: int, row: Row | None = None) -> None:
        """``row``, where one is given, is taken over, and ``tokens`` are added to it."""
        self.tokens = tokens
        self.row: Row | None = row
        if row is None and len(tokens) * _SPARSE >= words * 32:
            self.row = row = np.zeros(words, dtype=np.uint32)
        if row is None:
            self.size: int = tokens.nbytes
            return
        _set(row, tokens)
        self.tokens = _NO_NODES
        self.size = row.nbytes

    def add_to(self, row: Row) -> None:
        """Set these tokens in ``row``."""
        if self.row is not None:
            np.bitwise_or(row[: len(self.row)], self.row, out=row[: len(self.row)])
        else:
            _set(row, self.tokens)

    def write(self, row: Row) -> None:
        """Overwrite ``row``."""
        if self.row is None:
            _set(row, self.tokens, clear=True)
        elif len(row) == len(self.row):
            np.copyto(row, self.row)
        else:
            row[: len(self.row)] = self.row
            row[len(self.row) :] = 0


def _set(row: Row, tokens: Ints, *, clear: bool = False) -> None:
    """Set the bits of ``tokens`` in ``row``; ``clear``: and no others."""
    if COMPILED:
        try:
            return scatter(row, tokens, clear)
        except ValueError:  # not in one piece
            pass
    if clear:
        row.fill(0)
    if len(tokens) * _SPARSE < len(row) * 32:
        np.bitwise_or.at(row, tokens >> 5, np.left_shift(1, tokens & 31, dtype=np.uint32, casting="unsafe"))
    else:
        allowed = np.zeros(len(row) * 32, dtype=bool)
        allowed[tokens] = True
        row |= np.packbits(allowed, bitorder="little").view(np.uint32)
    return None


def union(parts: Sequence[Bits], words: int) -> Bits:
    """All tokens of ``parts``."""
    if len(parts) == 1:
        return parts[0]
    rows = [part.row for part in parts if part.row is not None]
    few = [part.tokens for part in parts if part.row is None]
    tokens = _NO_NODES if not few else few[0] if len(few) == 1 else np.concatenate(few)
    if not rows:
        return Bits(tokens, words)
    row = rows[0].copy()
    for other in rows[1:]:
        np.bitwise_or(row, other, out=row)
    return Bits(tokens, words, row)


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
            starts = self.trie.token_start[nodes]
            counts = self.trie.token_start[nodes + 1] - starts
            found = self._tokens[first, past] = self.trie.tokens[np.repeat(starts, counts) + _inside(counts)]
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
            number = number[np.repeat(first, ways) + _inside(ways)]
        order = np.argsort(number, kind="stable")
        starts = np.searchsorted(number[order], np.arange(len(self.rounds) + 1, dtype=np.int16))
        return below[order], starts.tolist()


class Part:
    """What one local state allows, from the root of the trie or from the nodes of an exit.

    leaving: conditions -> where threads leave under them.
    """

    __slots__ = ("_needs", "_starts", "_tokens", "_upto", "_words", "leaving", "size")

    def __init__(self, tokens: Ints, needs: Ints, leaving: dict[int, Leaving], words: int) -> None:
        self.size = 2 * tokens.nbytes + sum(2 * way.nodes.nbytes for way in leaving.values())
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
        self._tokens = tokens

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

    def initial(self, state: int, loop: int) -> Part:
        """The part of ``state`` from the root; shared with all grammars whose state depends on the same code.

        loop: the LOOP that the base counts for, -1 where it is no counted loop.
        """
        if self._automaton.width(state) < _WIDE:
            return self._part(self._walked(self._root, state))
        walked = self._walked if COMPILED else self._by_levels
        shared = self._trie.shared
        place = self._place(state, loop)
        known = shared.get(place) if place else None
        if not isinstance(known, Part):
            key = fingerprint(self._automaton, self._program, state, loop)
            known = shared.get(key) if key else None
            if not isinstance(known, Part):
                known = self._part(walked(self._root, state))
            if len(shared) >= _SHARED_PARTS:
                shared.clear()
            shared.update({name: known for name in (place, key) if name})
        return known

    def _place(self, state: int, loop: int) -> tuple[object, ...] | None:
        """Where ``state`` stands in a rule that many grammars share, the same for all of them; None elsewhere."""
        automaton = self._automaton
        threads = automaton.threads[state]
        rule = self._program.closed_rule(threads[0] >> 40)
        if rule is None:
            return None
        start, end, body = rule
        out: list[object] = [_Same(body), loop - start if loop >= 0 else -1]
        for thread in threads:
            at, frame = thread >> 40, thread >> 16 & 0xFFFFFF
            if thread & 0xFFFF or frame >= automaton.bases or not start <= at < end:
                return None
            out += (at - start, frame)
        return tuple(out)

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
            at = walk.under(self._automaton, nodes, at, state, self._budget)
            if at < len(nodes) and not walk.full:
                if COMPILED:
                    raise LimitError("one mask takes too many steps", bound="mask_steps", limit=self._budget)
                return self._by_levels(nodes, state)
            found.append(_taken(walk))
            if at == len(nodes):
                return found[0] if len(found) == 1 else _joined(found)

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
            below = children[np.repeat(first[nodes], counts) + _inside(counts)]
            after = self._next(np.repeat(states, counts), trie.byte[below])
            nodes, states = below[after >= 0], after[after >= 0]
        nodes, states = np.concatenate(reached), np.concatenate(told)
        need = np.asarray(automaton.need, dtype=np.int32)[states]
        counts = np.where(need == NEVER, 0, trie.token_start[nodes + 1] - trie.token_start[nodes])
        tokens = trie.tokens[np.repeat(trie.token_start[nodes], counts) + _inside(counts)]
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
        targets, places = np.unique(after, return_inverse=True)
        known = [numbers.setdefault(target, len(numbers)) for target in targets.tolist()]
        return np.array(known, dtype=np.int32)[places]

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


class _Same:
    """A key that is equal for the very same object only, which it keeps alive."""

    __slots__ = ("_object",)

    def __init__(self, kept: object) -> None:
        self._object = kept

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Same) and self._object is other._object

    def __hash__(self) -> int:
        return id(self._object)


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
