"""Rules without dead ends: what can never be completed is taken out, what is not reached is dropped."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping

from dragoman.grammar.analysis import productive
from dragoman.grammar.facts import Facts, facts
from dragoman.grammar.nodes import (
    EMPTY,
    NOTHING,
    Choice,
    Class,
    Node,
    Permutation,
    Ref,
    Repeat,
    Sequence,
    Without,
    seq,
)


def prune(rules: Mapping[str, Node], start: str, later: Collection[str] = ()) -> dict[str, Node] | None:
    """The rules reached from ``start``, without the choices that no finite text completes; None if nothing is left.

    later: names of rules that are not made yet; some finite text completes each.
    """
    reached: dict[str, Facts] = {}
    dead_ends = False
    work = [start]
    while work:
        name = work.pop()
        if name in reached:
            continue
        if name not in rules:
            dead_ends = dead_ends or name not in later
            continue
        found = reached[name] = facts(rules[name])
        dead_ends = dead_ends or found.dead
        work.extend([ref for ref in reversed(found.names) if ref not in reached])
    live = productive(rules, reached, later)
    if start not in live:
        return None
    if not dead_ends and len(live) == len(reached) + len(later):  # nothing to take out
        return {name: rules[name] for name in reached}
    kept: dict[str, Node] = {}
    work = [start]
    while work:
        name = work.pop()
        if name in kept or name in later:
            continue
        kept[name] = trimmed(rules[name], live)
        work.extend(reversed([ref for ref in references(kept[name]) if ref not in kept]))
    return kept


def references(node: Node) -> Iterator[str]:
    """The rules that ``node`` names, in order."""
    work: list[Node] = [node]
    while work:
        at = work.pop()
        if isinstance(at, Ref):
            yield at.name
        work.extend(reversed(parts(at)))


def parts(node: Node) -> tuple[Node, ...]:
    """The nodes that a schema's rule has directly below ``node``."""
    if isinstance(node, (Sequence, Choice)):
        return node.items
    if isinstance(node, Permutation):
        return (*node.items, node.separator)
    return (node.item,) if isinstance(node, (Repeat, Without)) else ()


def trimmed(node: Node, live: frozenset[str]) -> Node:
    """``node`` without what cannot be completed; NOTHING if that is all of it."""
    if isinstance(node, Ref):
        return node if node.name in live else NOTHING
    if isinstance(node, Class):
        return node
    if isinstance(node, Sequence):
        items = [trimmed(item, live) for item in node.items]
        if NOTHING in items:
            return NOTHING
        return node if _same(items, node.items) else seq(*items)
    if isinstance(node, Choice):
        options = [option for option in (trimmed(item, live) for item in node.items) if option != NOTHING]
        if not options:
            return NOTHING
        if _same(options, node.items):
            return node
        return options[0] if len(options) == 1 else Choice(tuple(options))
    if isinstance(node, Repeat):
        item = trimmed(node.item, live)
        if item == NOTHING:
            return NOTHING if node.min else EMPTY
        return node if item is node.item else Repeat(item, node.min, node.max, node.lazy)
    if isinstance(node, Without):
        item = trimmed(node.item, live)
        return item if item in (NOTHING, EMPTY) else Without(item, node.forbidden)
    if isinstance(node, Permutation):
        return _permutation(node, live)
    return node


def _permutation(node: Permutation, live: frozenset[str]) -> Node:
    pairs = [(trimmed(item, live), required) for item, required in zip(node.items, node.required, strict=True)]
    if any(item == NOTHING and required for item, required in pairs):
        return NOTHING
    kept = [(item, required) for item, required in pairs if item != NOTHING]
    if not kept:
        return EMPTY
    return Permutation(
        tuple(item for item, _ in kept), tuple(required for _, required in kept), trimmed(node.separator, live)
    )


def _same(new: Collection[Node], old: Collection[Node]) -> bool:
    return len(new) == len(old) and all(a is b for a, b in zip(new, old, strict=True))
