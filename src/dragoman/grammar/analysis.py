"""Questions about a grammar, answered before it is compiled.

Each function's first line is its promise. Nothing here recurses over rules: rules are solved by fixpoint, so a chain
of 100,000 rules is as good as one.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping

from dragoman.errors import GrammarError
from dragoman.grammar import nodes as n
from dragoman.grammar.facts import Facts, facts

# What has nothing below it that takes part in its language.
_LEAVES = frozenset({n.Literal, n.Class, n.AnyChar, n.Ref, n.Until, n.Control, n.Commit})


def children(node: n.Node) -> tuple[n.Node, ...]:
    """The nodes directly inside ``node`` that take part in its language."""
    if isinstance(node, n.Sequence | n.Choice | n.Permutation):
        inner = node.items
        return (*inner, node.separator) if isinstance(node, n.Permutation) else inner
    if isinstance(node, n.Repeat | n.Without | n.Peek | n.Negate | n.Atomic | n.Tag):
        return (node.item,)
    if isinstance(node, n.UntilConfirmed):
        return (node.follow,)
    if isinstance(node, n.Duplex | n.Schema | n.Gbnf):
        raise GrammarError(f"{type(node).__name__} must be lowered before it is compiled")
    return ()


def walk(node: n.Node) -> list[n.Node]:
    """``node`` and all nodes below it, parents first; rules are not followed."""
    found: list[n.Node] = []
    stack = [node]
    while stack:
        top = stack.pop()
        found.append(top)
        if type(top) is n.Sequence or type(top) is n.Choice:
            stack.extend(reversed(top.items))
        elif type(top) not in _LEAVES:
            stack.extend(reversed(children(top)))
    return found


_CONSUMING = frozenset({n.Class, n.AnyChar, n.UntilConfirmed, n.Control})
_LOOKING = frozenset({n.Until, n.Peek, n.Negate, n.Commit})


def nullable(node: n.Node, rules: Mapping[str, bool]) -> bool:
    """True: ``node`` may match the empty string. ``rules`` tells it of the rules."""
    if type(node) is n.Literal:
        return not node.data
    if type(node) is n.Ref:
        return rules.get(node.name, False)
    if type(node) is n.Sequence:
        return all(nullable(item, rules) for item in node.items)
    if type(node) is n.Choice:
        return any(nullable(item, rules) for item in node.items)
    if type(node) in _CONSUMING:
        return False
    if type(node) in _LOOKING:
        return True
    if type(node) is n.Repeat:
        return node.min == 0 or nullable(node.item, rules)
    if type(node) is n.Permutation:
        return not any(node.required)
    if type(node) is n.Without or type(node) is n.Atomic or type(node) is n.Tag:
        return nullable(node.item, rules)
    raise GrammarError(f"{type(node).__name__} must be lowered before it is compiled")


def nullable_rules(grammar: n.Grammar) -> dict[str, bool]:
    """rule -> may it match the empty string. Least fixpoint, linear in the size of the grammar."""
    known = dict.fromkeys(grammar.rules, False)
    waiting = []
    for name, body in grammar.rules.items():
        known[name] = facts(body).empty  # true whatever the others are, for emptiness only ever adds to emptiness
        if known[name]:
            waiting.append(name)
    if not waiting:
        return known
    users: dict[str, list[str]] = {}
    for name, body in grammar.rules.items():
        if not known[name]:
            for below in facts(body).names:
                users.setdefault(below, []).append(name)
    while waiting:
        for name in users.get(waiting.pop(), ()):
            if not known[name] and nullable(grammar.rules[name], known):
                known[name] = True
                waiting.append(name)
    return known


_CLOSED = frozenset({n.Peek, n.Negate, n.UntilConfirmed})


def _leftmost(node: n.Node, known: Mapping[str, bool]) -> set[str]:
    """The rules that may be entered before ``node`` consumes anything."""
    out: set[str] = set()
    stack = [node]
    while stack:
        top = stack.pop()
        if type(top) is n.Literal or type(top) is n.Class:
            continue
        if type(top) is n.Ref:
            out.add(top.name)
        elif type(top) is n.Sequence:
            for item in top.items:
                stack.append(item)
                if (type(item) is n.Literal and item.data) or not nullable(item, known):
                    break
        elif type(top) not in _CLOSED:
            stack.extend(children(top))
    return out


def check(grammar: n.Grammar) -> dict[str, bool]:
    """Nullability of the rules; GrammarError for what the machine cannot run.

    Raises: GrammarError for an unknown rule, left recursion (also behind nullable prefixes), a nullable repeat body or
    permutation item, an empty delimiter or closer.
    """
    known = nullable_rules(grammar)
    if grammar.start not in grammar.rules:
        raise GrammarError(f"the start rule {grammar.start!r} is not defined")
    for label, point in grammar.recovery.items():
        if point.rule not in grammar.rules:
            raise GrammarError(f"recovery point {label!r} names the unknown rule {point.rule!r}")
    edges: dict[str, Collection[str]] = {}
    empty = {name for name, may_be in known.items() if may_be}
    for name, body in grammar.rules.items():
        found = facts(body)
        if found.odd or not empty.isdisjoint(found.names):
            for node in walk(body):
                if type(node) not in _SAFE:
                    _check_node(name, node, grammar, known)
            edges[name] = _leftmost(body, known)
        else:
            for below in found.names:
                if below not in known and not grammar.has(below):
                    raise GrammarError(f"names the unknown rule {below!r}", rule=name)
            edges[name] = found.first
    _check_left_recursion(edges)
    return known


# Nothing can be wrong with these but what is in them.
_SAFE = frozenset({n.Literal, n.Class, n.AnyChar, n.Sequence, n.Choice, n.Control, n.Commit})


def _check_node(rule: str, node: n.Node, grammar: n.Grammar, known: Mapping[str, bool]) -> None:
    if isinstance(node, n.Ref) and not grammar.has(node.name):
        raise GrammarError(f"names the unknown rule {node.name!r}", rule=rule)
    if isinstance(node, n.Repeat):
        if nullable(node.item, known):
            raise GrammarError("repeats something that may be empty; make the repeated part consume", rule=rule)
        if node.min < 0 or (node.max is not None and node.max < node.min):
            raise GrammarError(f"repeats {node.min} to {node.max} times, which no text can do", rule=rule)
    if isinstance(node, n.Permutation):
        if len(node.required) != len(node.items):
            raise GrammarError("a permutation needs one required flag for each item", rule=rule)
        if any(nullable(item, known) for item in node.items):
            raise GrammarError("permutes something that may be empty; make each item consume", rule=rule)
    if isinstance(node, n.Until) and not all(node.delimiters):
        raise GrammarError("an empty delimiter stands everywhere", rule=rule)
    if isinstance(node, n.UntilConfirmed) and not node.closer:
        raise GrammarError("an empty closer stands everywhere", rule=rule)
    if isinstance(node, n.Without) and not all(node.forbidden):
        raise GrammarError("an empty forbidden string stands everywhere", rule=rule)


def _check_left_recursion(edges: Mapping[str, Collection[str]]) -> None:
    """``edges``: the rules that each may enter before it consumes anything."""
    done: set[str] = set()
    for root, below_root in edges.items():
        if not below_root:
            continue
        path: dict[str, Iterator[str]] = {root: iter(below_root)}
        while path and root not in done:
            top = next(reversed(path))
            below = next(path[top], None)
            if below is None:
                done.add(top)
                del path[top]
            elif below in path:
                raise GrammarError("refers to itself before it consumes anything (left recursion)", rule=below)
            elif below not in done and edges.get(below):
                path[below] = iter(edges[below])


def complete(grammar: n.Grammar) -> bool:
    """True: nothing in any rule leads into a dead end."""
    known = {name: facts(body) for name, body in grammar.rules.items()}
    if any(found.dead for found in known.values()):
        return False
    later = grammar.later
    waiting = () if later is None else {name for found in known.values() for name in found.names if name in later}
    live = productive(grammar.rules, known, waiting)
    return live.issuperset(known)


def whole(grammar: n.Grammar) -> n.Grammar:
    """``grammar`` with all rules made."""
    if grammar.later is None:
        return grammar
    rules = dict(grammar.rules)
    work = list(rules)
    while work:
        for name in facts(rules[work.pop()]).names:
            if name not in rules and name in grammar.later:
                rules[name] = grammar.later[name]
                work.append(name)
    return n.Grammar(rules, grammar.start, grammar.recovery)


def productive(rules: Mapping[str, n.Node], known: Mapping[str, Facts], live: Collection[str] = ()) -> frozenset[str]:
    """The rules among those of ``known`` that some finite text completes; look-aheads, which only forbid, aside.

    ``live``: others of which that is known.
    """
    live = set(live)
    waiting: list[str] = []
    for name in reversed(list(known)):  # what a rule needs mostly stands behind it
        found = known[name]
        if (not found.dead and live.issuperset(found.names)) or completes(rules[name], live):
            live.add(name)
        else:
            waiting.append(name)
    users: dict[str, list[str]] = {}
    for name in waiting:
        for ref in known[name].names:
            users.setdefault(ref, []).append(name)
    while waiting:
        name = waiting.pop()
        if name not in live and completes(rules[name], live):
            live.add(name)
            waiting.extend(user for user in users.get(name, ()) if user not in live)
    return frozenset(live)


def completes(node: n.Node, live: Collection[str]) -> bool:
    """True: some finite text completes ``node``, where the rules ``live`` are completed."""
    if type(node) is n.Literal:
        return True
    if type(node) is n.Ref:
        return node.name in live
    if type(node) is n.Sequence:
        return all(completes(item, live) for item in node.items)
    if type(node) is n.Choice:
        return any(completes(item, live) for item in node.items)
    if type(node) is n.Class:
        return bool(node.ranges)
    if type(node) is n.Repeat:
        return node.min == 0 or completes(node.item, live)
    if isinstance(node, n.Without | n.Tag | n.Atomic):
        return completes(node.item, live)
    if isinstance(node, n.Permutation):
        needed = [item for item, required in zip(node.items, node.required, strict=True) if required]
        joined = [node.separator] if len(needed) > 1 else []
        return all(completes(item, live) for item in (*needed, *joined))
    return True


def check_bounded(grammar: n.Grammar, item: n.Node, rule: str, inside: list[str]) -> None:
    """GrammarError where ``item``, looked for ahead in ``rule``, is not regular and bounded. inside: rules passed."""
    for node in walk(item):
        if isinstance(node, n.Repeat) and node.max is None:
            raise GrammarError("looks ahead over an unbounded repeat; give it a maximum", rule=rule)
        if isinstance(node, n.Until | n.UntilConfirmed | n.Without | n.Peek | n.Negate | n.Permutation):
            raise GrammarError(f"looks ahead over {type(node).__name__}, which is not regular", rule=rule)
        if isinstance(node, n.Ref):
            if node.name in inside:
                raise GrammarError(f"looks ahead through the recursive rule {node.name!r}", rule=rule)
            check_bounded(grammar, grammar.rule(node.name), rule, [*inside, node.name])


def weight(node: n.Node) -> int:
    """About how many instructions ``node`` compiles to."""
    return sum(len(part.data) if isinstance(part, n.Literal) else 1 for part in walk(node))
