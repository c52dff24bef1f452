"""Which grammars are refused, by definition, looked for by naive search.

Refused are left recursion (also behind a prefix that may be empty) and repeat bodies or permutation items that may be
empty, in any rule, needed or not; and look-ahead that is not regular and bounded.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from dragoman.grammar.nodes import (
    Atomic,
    Choice,
    Class,
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

Look = Peek | Negate | UntilConfirmed


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
            return not any(node.required)  # items that may be empty are refused
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
        case _:
            for child in children(node):
                yield from leftmost(grammar, child)


def left_recursive(grammar: Grammar) -> set[str]:
    """The rules that can meet themselves before any byte is read."""
    first = {name: set(leftmost(grammar, grammar.rules[name])) for name in grammar.rules}
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


def has_nullable_round(grammar: Grammar) -> bool:
    """True where the body of some repeat or some item of a permutation may match the empty string."""
    nodes = [node for rule in grammar.rules.values() for node in descendants(rule)]
    repeats = any(isinstance(node, Repeat) and nullable(grammar, node.item) for node in nodes)
    return repeats or any(
        isinstance(node, Permutation) and any(nullable(grammar, item) for item in node.items) for node in nodes
    )


def has_wide_look(grammar: Grammar) -> bool:
    """True where some look-ahead holds anything but literals, characters, sequences, choices and bounded repeats."""
    nodes = [node for rule in grammar.rules.values() for node in descendants(rule)]
    looks = [node.follow if isinstance(node, UntilConfirmed) else node.item for node in nodes if isinstance(node, Look)]
    return any(not is_bounded(grammar, look, frozenset()) for look in looks)


def is_bounded(grammar: Grammar, node: Node, inside: frozenset[str]) -> bool:
    """True where the node is regular and bounded. ``inside``: the rules that it is part of."""
    if isinstance(node, Ref):
        name = node.name
        return name not in inside and is_bounded(grammar, grammar.rules[name], inside | {name})
    wide = isinstance(node, Until | UntilConfirmed | Without | Peek | Negate | Permutation)
    endless = isinstance(node, Repeat) and node.max is None
    return not wide and not endless and all(is_bounded(grammar, child, inside) for child in children(node))


def productive(rules: Mapping[str, Node], node: Node, inside: frozenset[str] = frozenset()) -> bool:
    """True where some text matches the node, look-ahead taken to succeed. ``inside``: the rules that it is part of."""
    match node:
        case Class():
            return bool(node.ranges)
        case Choice():
            return any(productive(rules, item, inside) for item in node.items)
        case Repeat():
            return node.min == 0 or productive(rules, node.item, inside)
        case Ref():
            # A rule that needs itself ends only if it can end without itself.
            name = node.name
            return name not in inside and productive(rules, rules[name], inside | {name})
        case Permutation():
            needed = [item for item, flag in zip(node.items, node.required, strict=True) if flag]
            return all(productive(rules, item, inside) for item in (*needed, *[node.separator] * (len(needed) > 1)))
        case Peek() | Negate() | UntilConfirmed():
            return True
    return all(productive(rules, child, inside) for child in children(node))


def refused(grammar: Grammar) -> bool:
    """True where the grammar must be refused."""
    return bool(left_recursive(grammar)) or has_nullable_round(grammar) or has_wide_look(grammar)
