"""Members in their declared order where none are counted: as few rules as that order needs.

What follows a required member has one place that leads to it and is written on; only what may be reached in two ways,
behind an optional member and past it, is a rule of its own. So an object whose members are all required is one rule.
"""

from __future__ import annotations

from collections.abc import Callable
from collections.abc import Sequence as Listed
from functools import partial

from dragoman.grammar.nodes import NOTHING, Choice, Literal, Node, Ref, Repeat, Sequence, lit, seq
from dragoman.grammar.schema.rules import Rules

OPEN = lit("{")
CLOSE = lit("}")
COMMA = lit(",")


def in_order(rules: Rules, members: Listed[tuple[Node, bool]], further: Node, most: int | None) -> Node:
    """An object of ``members``, each (key and value, whether it is required), then up to ``most`` of ``further``.

    NOTHING stands for a member that there can never be, and as ``further`` for none.
    """
    live = [pair for pair in members if pair[0] is not NOTHING and pair[0] != NOTHING]
    if len(live) < len(members) and _missing(members):
        return NOTHING
    layout = rules.layout
    # What follows behind a member that was written, the last first; and what may be written before there is any.
    later: list[Node] = [CLOSE]
    ends: list[Node] = [CLOSE]
    if further != NOTHING and most != 0:
        next_one = seq(COMMA, layout.comma, further)
        later = [rules.named(seq(Repeat(next_one, 0, most), CLOSE))]
        rest = later[0] if most is None else seq(Repeat(next_one, 0, most - 1), CLOSE)
        ends.append(seq(further, rest))
    start = next((at for at, (_, required) in enumerate(live) if required), None)
    before = len(live) if start is None else start + 1  # so many members may be the first one
    first: list[Node] = []
    for at in range(len(live) - 1, -1, -1):
        member, required = live[at]
        past = None if required else _once(rules, later)
        if past is not None:
            later = [past]
        if type(member) is Sequence:
            later += reversed(member.items)
        else:
            later.append(member)
        if at < before:
            if at:
                later = [_once(rules, later)]
            first.append(_joined(later))
        if at:
            later += (layout.comma, COMMA)
            if past is not None:
                later = [Choice((_joined(later), past))]
    first.reverse()
    if start is None:
        first += ends
    return seq(OPEN, layout.pad, first[0] if len(first) == 1 else Choice(tuple(first)))


def step_by_step(
    rules: Rules, required: Listed[bool], member: Callable[[int, bool], Node], further: Callable[[], Node] | None
) -> Node:
    """As :func:`in_order`, where all members can be: what follows one is a rule that is made when it is entered.

    ``member``: the one of that number; its value is needed soon, or may be made later.
    """
    comma = rules.layout.comma
    behind: dict[int, Node] = {}

    def tail(at: int) -> Node:
        """What follows where the next member is that one or a later one."""
        if at not in behind:
            ends = at == len(required)
            behind[at] = CLOSE if ends and further is None else rules.later(end if ends else partial(step, at))
        return behind[at]

    def end() -> Node:
        assert further is not None
        return seq(Repeat(seq(COMMA, comma, further())), CLOSE)

    def step(at: int) -> Node:
        taken = seq(COMMA, comma, member(at, required[at]), tail(at + 1))
        return taken if required[at] else Choice((taken, tail(at + 1)))

    start = next((at for at, needed in enumerate(required) if needed), None)
    first = [seq(member(at, False), tail(at + 1)) for at in range(len(required) if start is None else start + 1)]
    if start is None:
        first += [CLOSE] if further is None else [CLOSE, seq(further(), tail(len(required)))]
    return seq(OPEN, rules.layout.pad, first[0] if len(first) == 1 else Choice(tuple(first)))


def _missing(members: Listed[tuple[Node, bool]]) -> bool:
    """True: a required member cannot be."""
    return any(member == NOTHING and required for member, required in members)


def _joined(items: list[Node]) -> Node:
    return seq(*reversed(items))


def _once(rules: Rules, items: list[Node]) -> Node:
    """The same as one node that may stand in several places."""
    if len(items) == 1 and isinstance(items[0], (Literal, Ref)):
        return items[0]
    return rules.named(_joined(items))
