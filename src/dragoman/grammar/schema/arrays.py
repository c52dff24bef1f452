"""Arrays: items one by one as far as a prefix is declared, then a repeat; counts stay counts."""

from __future__ import annotations

from ..nodes import EMPTY, NOTHING, Node, Repeat, alt, lit, seq
from .goals import Parts, dicts, item_goal, prefix_length
from .ranges import counts
from .rules import Rules


def array(rules: Rules, parts: Parts) -> Node:
    """An array that satisfies all parts."""
    document = rules.document
    least, most = counts(dicts(document, parts), "minItems", "maxItems")
    prefix = prefix_length(document, parts)
    rest_goal = item_goal(document, parts, None)
    if not rest_goal and not prefix and least == 0 and most is None:
        return rules.any("array")
    if most is not None:
        prefix = min(prefix, most)
        if least > most:
            return NOTHING
    layout = rules.layout
    comma = seq(lit(","), layout.comma)
    rest = seq(rules.goal(rest_goal), layout.pad)
    bound = None if most is None else most - prefix
    # Behind item ``index``: what may follow, closing bracket included.
    node = seq(_times(seq(comma, rest), max(least - prefix, 0), bound), lit("]"))
    if prefix == 0:
        more = _times(seq(comma, rest), max(least - 1, 0), None if most is None else most - 1)
        some = NOTHING if most == 0 else seq(rest, more, lit("]"))
        node = _close_or(some, 0, least)
        return seq(lit("["), layout.pad, node)
    for index in range(prefix - 1, -1, -1):
        item = seq(rules.goal(item_goal(document, parts, index)), layout.pad)
        node = seq(comma if index else EMPTY, item, rules.rule(node))
        node = _close_or(node, index, least)
    return seq(lit("["), layout.pad, node)


def _close_or(more: Node, index: int, least: int) -> Node:
    """Items go on at ``index``, or the array ends where it is long enough."""
    if index < least:
        return more
    return lit("]") if more == NOTHING else alt(lit("]"), more)


def _times(item: Node, least: int, most: int | None) -> Node:
    return EMPTY if most == 0 else Repeat(item, least, most)
