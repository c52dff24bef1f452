"""Which grammars are refused, by definition: nullable repeat bodies and left recursion, looked for by naive search."""

from __future__ import annotations

from collections.abc import Iterator

from dragoman.grammar.nodes import (
    Atomic,
    Choice,
    Commit,
    Control,
    Duplex,
    Grammar,
    Literal,
    Negate,
    Node,
    Peek,
    Permutation,
    Ref,
    Repeat,
    Sequence,
    Tag,
    Until,
    UntilConfirmed,
    Without,
)


def children(node: Node) -> tuple[Node, ...]:
    """The nodes directly below."""
    match node:
        case Sequence() | Choice():
            return node.items
        case Permutation():
            return (*node.items, node.separator)
        case Repeat() | Without() | Peek() | Negate() | Atomic() | Tag():
            return (node.item,)
        case UntilConfirmed():
            return (node.follow,)
        case Duplex():
            return (node.reader, node.writer)
    return ()


def descendants(node: Node) -> Iterator[Node]:
    """The node and everything below it; references are not followed."""
    yield node
    for child in children(node):
        yield from descendants(child)


def nullable(grammar: Grammar, node: Node, seen: frozenset[str] = frozenset()) -> bool:
    """True where the node may match the empty string, look-ahead taken to succeed."""
    match node:
        case Literal():
            return not node.data
        case Control():
            return not node.text
        case Sequence():
            return all(nullable(grammar, item, seen) for item in node.items)
        case Choice():
            return any(nullable(grammar, item, seen) for item in node.items)
        case Repeat():
            return node.min == 0 or nullable(grammar, node.item, seen)
        case Until() | Peek() | Negate() | Commit():
            return True
        case Without() | Atomic() | Tag():
            return nullable(grammar, node.item, seen)
        case Permutation():
            needed = [item for item, flag in zip(node.items, node.required, strict=True) if flag]
            gap = len(needed) < 2 or nullable(grammar, node.separator, seen)
            return gap and all(nullable(grammar, item, seen) for item in needed)
        case Ref():
            # A rule met again on the way to itself adds no shorter match.
            return node.name not in seen and nullable(grammar, grammar.rules[node.name], seen | {node.name})
        case Duplex():
            return nullable(grammar, node.reader, seen) or nullable(grammar, node.writer, seen)
    return False


def leftmost(grammar: Grammar, node: Node) -> Iterator[str]:
    """The rules that may start where the node starts."""
    match node:
        case Ref():
            yield node.name
        case Sequence():
            for item in node.items:
                yield from leftmost(grammar, item)
                if not nullable(grammar, item):
                    return
        case Permutation():
            for item in node.items:
                yield from leftmost(grammar, item)
            if any(nullable(grammar, item) for item in node.items):
                yield from leftmost(grammar, node.separator)
        case _:
            for child in children(node):
                yield from leftmost(grammar, child)


def reachable(grammar: Grammar) -> set[str]:
    """The rules that the start rule needs."""
    found: set[str] = set()
    waiting = [grammar.start]
    while waiting:
        name = waiting.pop()
        if name not in found:
            found.add(name)
            waiting += [node.name for node in descendants(grammar.rules[name]) if isinstance(node, Ref)]
    return found


def left_recursive(grammar: Grammar) -> set[str]:
    """The needed rules that can meet themselves before any byte is read."""
    first = {name: set(leftmost(grammar, grammar.rules[name])) for name in reachable(grammar)}
    bad = set()
    for name, direct in first.items():
        met: set[str] = set()
        waiting = list(direct)
        while waiting:
            other = waiting.pop()
            if other not in met:
                met.add(other)
                waiting += first[other]
        if name in met:
            bad.add(name)
    return bad


def has_nullable_repeat(grammar: Grammar) -> bool:
    """True where some repeat below the start rule has a body that may match the empty string."""
    return any(
        isinstance(node, Repeat) and nullable(grammar, node.item)
        for name in reachable(grammar)
        for node in descendants(grammar.rules[name])
    )


def refused(grammar: Grammar) -> bool:
    """True where the grammar must be refused: left recursion or a nullable repeat body."""
    return bool(left_recursive(grammar)) or has_nullable_repeat(grammar)
