"""By what grammars recognise that the walk of a state was made already, for another grammar of the vocabulary."""

from __future__ import annotations

from typing import Any

from dragoman.grammar.lazy_automaton import Automaton
from dragoman.grammar.program import Op, Program
from dragoman.grammar.walk import COMPILED

# States that depend on more instructions than this are not shared: compiled, a walk is soon cheaper than to read them.
_SHARED_CODE = 300 if COMPILED else 2_000


class _Same:
    """A key that is equal for the very same object only, which it keeps alive."""

    __slots__ = ("_object",)

    def __init__(self, kept: object) -> None:
        self._object = kept

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Same) and self._object is other._object

    def __hash__(self) -> int:
        return id(self._object)


def place(automaton: Automaton, program: Program, state: int, loop: int) -> tuple[object, ...] | None:
    """Where ``state`` stands in a rule that many grammars share, the same for all of them; None elsewhere."""
    threads = automaton.threads[state]
    rule = program.closed_rule(threads[0] >> 40)
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


def fingerprint(automaton: Automaton, state: int, loop: int) -> object | None:
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
            op, argument, following = automaton.op[at], automaton.args[at], automaton.then[at]
            if op in _UNKNOWN or (op == Op.CALL and loop >= 0):
                return None
            if at == loop:
                out.append(number(argument[2]))
                continue
            out.append((op, _numbered(op, argument, number), number(following) if following >= 0 else -1))
            out.append(automaton.live[at])
    return tuple(out)


# Look-aheads, and rules that are not compiled yet.
_UNKNOWN = frozenset({Op.ENTER, Op.SCAN, Op.LEAVE, Op.DROP, Op.REQUIRE, Op.REQUIRE_OR_END, Op.REFUSE, Op.SYMBOL})


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
