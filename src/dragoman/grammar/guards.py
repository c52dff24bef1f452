"""Look-ahead as a condition that a thread carries: sets of positions in a guard's own code, advanced byte by byte.

A condition is ``(kind, guard, positions)``; a thread's conditions are a sorted tuple, interned to a small id, 0 = none.
Scans for the same language may lie inside one another: each has its own positions, those of an inner one among those
of the outer, so the one with the fewest is the innermost.

| kind | begins | a byte makes the guard match | a byte leaves no position | the input ends |
|---|---|---|---|---|
| scan | anew at every byte | the thread dies | goes on | goes on |
| trail | never again | the thread dies | settled | settled |
| refuse | once, here | the thread dies | settled | settled |
| require | once, here | settled | the thread dies | the thread dies |
| require_or_end | as require, but the end of input right here settles it | | | |
"""

from __future__ import annotations

from dragoman.errors import LimitError
from dragoman.grammar.program import Op, Program

Condition = tuple[int, int, frozenset[int]]

SCAN, TRAIL, REFUSE, REQUIRE, REQUIRE_OR_END = range(5)
DEAD = -1
_ALL = (1 << 256) - 1  # bytes


class Guards:
    """Interned condition sets of one program and their memoised steps. Not thread-safe: the machine's lock holds it."""

    def __init__(self, program: Program) -> None:
        self._code = program.code
        self._sets: list[tuple[Condition, ...]] = [()]
        self._ids: dict[tuple[Condition, ...], int] = {(): 0}
        self._steps: dict[tuple[int, int], int] = {}
        self._closures: dict[int, frozenset[int]] = {}
        self._rows: dict[int, list[tuple[int, int]]] = {}

    def _intern(self, conditions: list[Condition]) -> int:
        key = tuple(sorted(conditions, key=lambda c: (c[0], c[1], sorted(c[2]))))
        known = self._ids.get(key)
        if known is None:
            known = self._ids[key] = len(self._sets)
            self._sets.append(key)
        return known

    def closure(self, entry: int) -> frozenset[int]:
        """The consuming and MATCH instructions reachable from ``entry`` without consuming."""
        known = self._closures.get(entry)
        if known is None:
            seen, stack = set(), [entry]
            found = set()
            while stack:
                at = stack.pop()
                if at in seen:
                    continue
                seen.add(at)
                op, argument, following = self._code[at]
                if op == Op.SPLIT:
                    stack.extend(argument)
                elif op in (Op.BYTES, Op.SYMBOL, Op.MATCH):
                    found.add(at)
                else:
                    stack.append(following)
            known = self._closures[entry] = frozenset(found)
        return known

    def _matches(self, positions: frozenset[int]) -> bool:
        return any(self._code[at][0] == Op.MATCH for at in positions)

    def enter(self, guard_set: int, kind: int, guard: int) -> int:
        """``guard_set`` with one more condition that begins here, or DEAD."""
        start = self.closure(guard)
        met = self._matches(start)
        if kind == SCAN:
            return self._intern([*self._sets[guard_set], (SCAN, guard, frozenset())])
        if kind == REFUSE:
            return DEAD if met else self._intern([*self._sets[guard_set], (REFUSE, guard, start)])
        if met:
            return guard_set
        if not start and kind == REQUIRE:
            return DEAD
        return self._intern([*self._sets[guard_set], (kind, guard, start)])

    def leave(self, guard_set: int, guard: int, *, drop: bool) -> int:
        """``guard_set`` with the scan for ``guard`` ended: dropped, or trailing what has begun."""
        rest = list(self._sets[guard_set])
        scans = [condition for condition in rest if condition[:2] == (SCAN, guard)]
        innermost = min(scans, key=lambda condition: len(condition[2]))
        rest.remove(innermost)
        if innermost[2] and not drop:
            rest.append((TRAIL, guard, innermost[2]))
        return self._intern(rest)

    def step(self, guard_set: int, symbol: int) -> int:
        """The conditions after ``symbol``, or DEAD."""
        if guard_set == 0:
            return 0
        key = (guard_set, symbol)
        known = self._steps.get(key)
        if known is None:
            known = self._steps[key] = self._step(guard_set, symbol)
        return known

    def row(self, guard_set: int) -> list[tuple[int, int]]:
        """[(set of bytes, conditions after one of them)]; bytes after which it is DEAD are left out."""
        known = self._rows.get(guard_set)
        if known is None:
            parts = [_ALL]
            for bits in self.told_apart(guard_set):
                parts = [piece for part in parts for piece in (part & bits, part & ~bits) if piece]
            found: dict[int, int] = {}
            for part in parts:
                behind = self.step(guard_set, part.bit_length() - 1)
                if behind >= 1 << 16:
                    raise LimitError("too many look-aheads", bound="mask_states", limit=1 << 16)
                if behind != DEAD:
                    found[behind] = found.get(behind, 0) | part
            known = self._rows[guard_set] = [(bits, behind) for behind, bits in found.items()]
        return known

    def _step(self, guard_set: int, symbol: int) -> int:
        out: list[Condition] = []
        for kind, guard, positions in self._sets[guard_set]:
            old = positions | self.closure(guard) if kind == SCAN else positions
            new = self._move(old, symbol)
            met = self._matches(new)
            if kind in (REQUIRE, REQUIRE_OR_END):
                if not met and not new:
                    return DEAD
                if not met:
                    out.append((REQUIRE, guard, new))
            elif met:
                return DEAD
            elif new or kind == SCAN:
                out.append((kind, guard, new))
        return self._intern(out)

    def _move(self, positions: frozenset[int], symbol: int) -> frozenset[int]:
        found: set[int] = set()
        for at in positions:
            op, argument, following = self._code[at]
            if (op == Op.BYTES and symbol < 256 and argument >> symbol & 1) or (op == Op.SYMBOL and argument == symbol):
                found |= self.closure(following)
        return frozenset(found)

    def told_apart(self, guard_set: int) -> set[int]:
        """The byte sets (256 bits) that tell one byte from another under these conditions."""
        positions: set[int] = set()
        for kind, guard, own in self._sets[guard_set]:
            positions |= own | self.closure(guard) if kind == SCAN else own
        return {self._code[at][1] for at in positions if self._code[at][0] == Op.BYTES}

    def settled_at_end(self, guard_set: int) -> bool:
        """True: the input may end under these conditions."""
        return all(condition[0] != REQUIRE for condition in self._sets[guard_set])

    def describe(self, guard_set: int) -> str:
        names = ("scan", "trail", "refuse", "require", "require_or_end")
        conditions = self._sets[guard_set]
        return " ".join(f"{names[kind]}@{guard}{sorted(positions)}" for kind, guard, positions in conditions)
