"""What one look at a rule tells: found once for a node, however many grammars and passes ask.

The facts hold as long as no rule that the node names may be empty; where one may, analysis.py looks again.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from dragoman.grammar import nodes as n

if TYPE_CHECKING:
    from dragoman.grammar.blocks import Block


# A counted repeat whose copies stay below this many instructions is written out; longer ones count at run time.
UNROLL = 24
# Instructions for one range of characters, at most: as many sequences of up to four sets of bytes as it comes to.
_CHARACTER = 72


@dataclass(slots=True)
class Facts:
    """names: the rules it names, in order. first: those it may enter before it consumes anything.

    simple: it is made of characters and rules alone. size: instructions that it needs at most, where it is simple.

    plain: it is made of characters alone: its code is the same wherever it stands, and kept as ``block`` once it was
    asked for twice. empty: it may match the empty string. dead: some part of it has no text, whatever the rules are.
    odd: something in it must be looked at more closely: it may be wrong, or its emptiness is no matter of its parts.
    """

    names: list[str]
    first: list[str]
    empty: bool = False
    dead: bool = False
    odd: bool = False
    simple: bool = True
    size: int = 2
    plain: bool = True
    uses: int = 0
    block: Block | None = None


def facts(node: n.Node) -> Facts:
    """The facts of ``node``, kept with it."""
    try:
        return node.facts
    except AttributeError:
        found = Facts([], [])
        found.empty = _look(node, found, True)
        found.plain = found.simple and not found.names
        object.__setattr__(node, "facts", found)
        return found


def _look(node: n.Node, found: Facts, first: bool) -> bool:
    """Whether ``node`` may be empty; what is in it goes to ``found``. ``first``: nothing was consumed before it."""
    if type(node) is n.Literal:
        found.size += len(node.data)
        return not node.data
    found.size += 2
    if type(node) is n.Ref:
        found.names.append(node.name)
        if first:
            found.first.append(node.name)
        return False
    if type(node) is n.Sequence:
        empty = True
        for item in node.items:
            empty = _look(item, found, first and empty) and empty
        return empty
    if type(node) is n.Choice:
        empty = False
        for item in node.items:
            empty = _look(item, found, first) or empty
        found.dead = found.dead or not node.items
        return empty
    if type(node) is n.Class:
        found.dead = found.dead or not node.ranges
        found.size += len(node.ranges) * _CHARACTER
        return False
    if type(node) is n.Repeat:
        before = found.size
        empty = _look(node.item, found, first)
        found.size += (found.size - before) * UNROLL + 2 * UNROLL
        if empty or node.min < 0 or (node.max is not None and node.max < node.min):
            found.odd = True
        return empty or node.min == 0
    return _other(node, found, first)


def _other(node: n.Node, found: Facts, first: bool) -> bool:
    if type(node) is n.AnyChar:
        found.size += _CHARACTER
        return False
    found.simple = False
    if type(node) is n.Control:
        return False
    if type(node) is n.Commit:
        return True
    if type(node) is n.Tag or type(node) is n.Atomic:
        return _look(node.item, found, first)
    # The others are rare: analysis.py knows them.
    found.odd = True
    if isinstance(node, n.Permutation):
        for item in (*node.items, node.separator):
            _look(item, found, first)
        return not any(node.required)
    if isinstance(node, n.Without):
        return _look(node.item, found, first)
    if isinstance(node, n.Peek | n.Negate):
        _look(node.item, found, False)
        return True
    if isinstance(node, n.UntilConfirmed):
        _look(node.follow, found, False)
        return False
    return isinstance(node, n.Until)
