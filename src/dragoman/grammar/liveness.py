"""Where in a program a parse can still be completed."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from dragoman.grammar.blocks import Code
from dragoman.grammar.program import Op

_BYTES, _SPLIT, _CALL = int(Op.BYTES), int(Op.SPLIT), int(Op.CALL)
_ENDS = frozenset(map(int, (Op.ACCEPT, Op.MATCH, Op.RETURN)))


def live_in(code: list[Code]) -> bytes:
    """1 where a parse can still be completed: least fixpoint, look-aheads not considered (they only forbid)."""
    live = bytearray(len(code))
    # Code is emitted back to front, so most of what an instruction depends on comes before it: two looks at each
    # settle all but what loops and calls leave open.
    waiting: list[int] = []
    for at, (op, argument, following) in enumerate(code):
        if (argument and live[following]) if op == _BYTES else _is_live(op, argument, following, code, live):
            live[at] = 1
        else:
            waiting.append(at)
    waiting = [at for at in waiting if not _enlivened(at, code, live)]
    users: dict[int, list[int]] = {}
    for at in waiting:
        for below in _depends_on(code[at], code):
            users.setdefault(below, []).append(at)
    work = waiting
    while work:
        at = work.pop()
        if not live[at] and _enlivened(at, code, live):
            work += users.get(at, ())
    return bytes(live)


def _enlivened(at: int, code: list[Code], live: bytearray) -> bool:
    op, argument, following = code[at]
    if (argument and live[following]) if op == _BYTES else _is_live(op, argument, following, code, live):
        live[at] = 1
        return True
    return False


def _depends_on(instruction: Code, code: list[Code]) -> Iterable[int]:
    op, argument, following = instruction
    targets: tuple[int, ...]
    if op == Op.SPLIT:
        targets = argument
        return targets
    if op == Op.CALL:
        return (argument, following)
    if op == Op.LOOP:
        targets = argument[2:4]
        return targets
    if op == Op.PERM:
        return (*argument[0], *argument[1], argument[3])
    if op == Op.AGAIN:
        return (code[following][1][3],)
    return () if following < 0 else (following,)


def _is_live(op: int, argument: Any, following: int, code: list[Code], live: bytearray) -> bool:
    # The most frequent first; plain numbers compare faster than the names of the enum.
    if op == _SPLIT:
        return any(live[target] for target in argument)
    if op == _CALL:
        return bool(live[argument] and live[following])
    if op == _BYTES:
        return bool(argument and live[following])
    if op in _ENDS:
        return True
    if op == Op.LOOP:
        least, _, body, out, _ = argument
        return bool(live[out] and (least == 0 or live[body]))
    if op == Op.PERM:
        first, later, required, out = argument
        needed = [i for i in range(len(first)) if required >> i & 1]
        return bool(live[out] and all(live[first[i]] for i in needed) and all(live[later[i]] for i in needed[1:]))
    if op == Op.AGAIN:
        _loop, target, _ = code[following]
        return bool(live[target[3]])
    return bool(live[following])
