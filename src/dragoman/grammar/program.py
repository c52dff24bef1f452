"""The compiled grammar: a flat list of instructions that requests share.

An instruction that is there stays as it is, but for ENTER; a writer's program grows where rules are compiled on demand.

Every instruction is a tuple ``(op, argument, next)``; ``next`` is the index of the instruction that follows.

| op | argument | meaning |
|---|---|---|
| BYTES | int, 256 bits | consume one byte of the set |
| SYMBOL | int >= 256 | consume one control token |
| SPLIT | tuple of targets | go on at each target, the earlier the better |
| JUMP | | go on at next |
| CALL | entry | run the rule at entry, then next |
| RETURN | | back to the caller |
| OPEN, CLOSE | tag | a region of the event stream begins, ends |
| COMMIT | label | silence the threads that pass no commit in this step |
| COUNT | | begin a counted loop at the LOOP in next |
| LOOP | (min, max, body, exit, lazy) | one more round of the counted loop, or leave it |
| AGAIN | 1 or 0 | a round or item is complete: add that to the count, go on at the LOOP or PERM in next |
| MARK | | begin a permutation at the PERM in next |
| PERM | (first entries, later entries, required mask, exit) | one more item, or leave |
| SCAN | guard | from here no byte may complete the guard's language, wherever it begins |
| LEAVE | guard | nothing new may begin it; what has begun must still not complete |
| DROP | guard | forget the scan |
| REQUIRE | guard | what follows must begin with the guard's language |
| REQUIRE_OR_END | guard | the same, or the input ends here |
| REFUSE | guard | what follows must not begin with it |
| MATCH | | a guard's language is complete |
| ACCEPT | | the parse is complete |
| ENTER | rule | compile the rule and go on there; the instruction is a JUMP from then on |
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import IntEnum
from typing import Any

from dragoman.grammar.nodes import Node, Recovery

# The tag of the brackets around an atomic region: they steer delivery and are no events.
ATOMIC = "@atomic"


class Op(IntEnum):
    BYTES = 0
    SYMBOL = 1
    SPLIT = 2
    JUMP = 3
    CALL = 4
    RETURN = 5
    OPEN = 6
    CLOSE = 7
    COMMIT = 8
    COUNT = 9
    LOOP = 10
    AGAIN = 11
    MARK = 12
    PERM = 13
    SCAN = 14
    LEAVE = 15
    DROP = 16
    REQUIRE = 17
    REQUIRE_OR_END = 18
    REFUSE = 19
    MATCH = 20
    ACCEPT = 21
    ENTER = 22


@dataclass(frozen=True, eq=False)
class Program:
    """A compiled grammar; ``memo`` is where :meth:`Machine.of` keeps the states made so far.

    code: the instructions. entries: rule -> index where a run of that rule starts (start rule and recovery rules).
    symbols: control token id -> symbol (>= 256). live[pc] is 1 where the parse can still be completed
    from pc, as it always can from what was added later.
    ordered: reader (priorities, events) or writer (threads are a set).
    sets: the byte sets (256 bits) of its instructions.
    rule_entry: rule -> its first instruction. closed: (start, end, node), ascending: code[start:end] is the whole of a
    rule that needs nothing but itself. open: compiles a rule and says where it begins; None where all are compiled.
    heads: (set of bytes, what follows) -> instruction, of those that an automaton added or takes for equal.
    """

    code: list[tuple[int, Any, int]]
    entries: Mapping[str, int]
    start: str
    recovery: Mapping[str, Recovery]
    symbols: Mapping[int, int]
    live: bytes
    ordered: bool
    rule_entry: Mapping[str, int] = field(default_factory=dict)
    closed: list[tuple[int, int, Node]] = field(default_factory=list)
    sets: frozenset[int] = frozenset()
    open: Callable[[str], int] | None = None
    heads: dict[tuple[int, int], int] = field(default_factory=dict)
    memo: object | None = None

    def __len__(self) -> int:
        return len(self.code)

    def enter(self, at: int) -> None:
        """Compile the rule behind the ENTER at ``at``, if that is still to be done. Its owner's lock holds it."""
        op, name, _ = self.code[at]
        if op == Op.ENTER:
            assert self.open is not None
            self.code[at] = (Op.JUMP, None, self.open(name))

    def closed_rule(self, at: int) -> tuple[int, int, Node] | None:
        """The entry of ``closed`` that ``at`` lies in."""
        number = bisect_right(self.closed, at, key=lambda rule: rule[0]) - 1
        return self.closed[number] if number >= 0 and at < self.closed[number][1] else None
