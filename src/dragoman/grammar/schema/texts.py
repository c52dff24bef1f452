"""String values: bounds of length stay counts, patterns and formats become automata, else a pattern's own tree."""

from __future__ import annotations

from contextlib import suppress

from dragoman.errors import LimitError
from dragoman.grammar.json import free_of, json_string
from dragoman.grammar.nodes import NOTHING, Choice, Class, Node, Repeat, Sequence, alt, lit, seq
from dragoman.grammar.regex import automata
from dragoman.grammar.regex.automata import Dfa, TooLarge, intersection, of_length
from dragoman.grammar.regex.automaton import EVERYTHING, parts
from dragoman.grammar.regex.parse import Anchor, Look, Tree
from dragoman.grammar.schema.atoms import Among, Branch, Not, Text
from dragoman.grammar.schema.overlap import sizes
from dragoman.grammar.schema.rules import Rules
from dragoman.grammar.schema.strings import as_repeat, automaton, none_of

# States of a pattern together with a bound of its length.
SIZED_MAX = 6_000


def string(rules: Rules, branch: Branch) -> Node:
    """The strings of ``branch``, quotes included."""
    least, most = sizes(branch, "string")
    if most is not None and least > most:
        return NOTHING
    texts = branch.about(Text)
    excluded = [
        value
        for atom in branch.about(Not)
        for value in rules.values.raw(atom.place, atom.keyword)
        if isinstance(value, str)
    ]
    if not texts and not excluded:
        return (
            rules.any("string")
            if least == 0 and most is None
            else json_string(rules.style, minimum=least, maximum=most)
        )
    if not texts and least == 0 and most is None:
        return none_of(excluded, rules.style, rules.rule)
    key = (frozenset(texts), frozenset(excluded), least, most, rules.style.string_max)
    if key not in rules.shared:
        rules.shared[key] = rules.rule(_constrained(rules, branch, least, most))
    return rules.shared[key]


def merged_strings(rules: Rules, branches: list[Branch]) -> tuple[list[Branch], Node | None]:
    """The branches, and the strings of those that have patterns or the like as one automaton, if not too large.

    Several automata that run beside each other cost more than one that knows all of them.
    """
    chosen = [b for b in branches if "string" in b.kinds and b.about(Text, Not) and not b.about(Among)]
    if len(chosen) < 2:
        return branches, None
    bounds = {sizes(branch, "string") for branch in chosen}
    dfa = automata.NOTHING
    try:
        for branch in chosen:
            dfa = automata.union(dfa, rules.languages.of_branch(branch, sized=len(bounds) > 1))
        node = _of_automaton(rules, dfa, *(next(iter(bounds)) if len(bounds) == 1 else (0, None)))
    except TooLarge:
        return branches, None
    rest = [Branch(b.kinds - {"string"}, b.atoms) if b in chosen else b for b in branches]
    return [branch for branch in rest if branch.kinds], rules.rule(node)


def _constrained(rules: Rules, branch: Branch, least: int, most: int | None) -> Node:
    texts = branch.about(Text)
    try:
        dfa = rules.languages.of_branch(
            Branch(branch.kinds, tuple(a for a in branch.atoms if not isinstance(a, Among))), sized=False
        )
        return _of_automaton(rules, dfa, least, most)
    except TooLarge:
        pass
    if len(texts) == 1 and not texts[0].negative and texts[0].keyword == "pattern" and not branch.about(Not):
        node = _of_tree(rules, rules.languages.tree(texts[0]), least, most)
        if node is not None:
            return node
    at = texts[0] if texts else None
    where = rules.document.pointer(at.place, at.keyword) if at is not None else "a string"
    raise LimitError(
        f"the automaton of the strings at {where} is too large; shorten its counts or take the length out",
        bound="program_instructions",
        limit=rules.limits.program_instructions,
    )


def _of_automaton(rules: Rules, dfa: Dfa, least: int, most: int | None) -> Node:
    """The strings of ``dfa`` within the bounds, and within the writer's own where there is no upper one.

    The writer's is a wish: where an automaton that counts so far is too large, a smaller one is tried, then none.
    """
    if dfa.empty:
        return NOTHING
    low, high = dfa.lengths()
    cap = rules.style.string_max
    if most is None and high is None and cap is not None:
        floor = max(least, low + 8)
        # Far beyond what can be counted, trying would cost seconds.
        wish = max(min(cap, 5 * SIZED_MAX // len(dfa.edges)), floor)
        while wish >= floor:
            with suppress(TooLarge):
                return _bounded(rules, dfa, least, wish)
            wish = wish * 3 // 4
    return _bounded(rules, dfa, least, most)


def _bounded(rules: Rules, dfa: Dfa, least: int, most: int | None) -> Node:
    low, high = dfa.lengths()
    least = 0 if least <= low else least
    most = None if most is not None and high is not None and high <= most else most
    loop = as_repeat(dfa)
    style = rules.style
    if loop is not None:
        ranges, shortest, longest = loop
        least = max(least, shortest)
        most = longest if most is None else most if longest is None else min(most, longest)
        if most is not None and least > most:
            return NOTHING
        char = rules.char(ranges)
        body: Node = Repeat(char, least, most) if most != 0 else lit("")
        return seq(lit('"'), free_of(body, style), lit('"'))
    if least or most is not None:
        if (least if most is None else most) * len(dfa.edges) > 100 * SIZED_MAX:
            raise TooLarge
        dfa = intersection(dfa, of_length(least, most))
        if len(dfa.edges) > SIZED_MAX:
            raise TooLarge
    close = lit('"')
    body = automaton(
        dfa.edges, lambda state: close if state in dfa.accepting else NOTHING, rules.char, rules.rules, rules.new_name()
    )
    return seq(lit('"'), free_of(body, style))


def _of_tree(rules: Rules, tree: Tree, least: int, most: int | None) -> Node | None:
    """The pattern as it is written, counts kept as counts; None where an anchor or a length stands in the way."""
    options = tree.items if isinstance(tree, Choice) else (tree,)
    found: list[Node] = []
    for option in options:
        items: list[Tree] = list(option.items) if isinstance(option, Sequence) else [option]
        before, after = [EVERYTHING], [EVERYTHING]
        if items and items[0] == Anchor("^"):
            items, before = items[1:], []
        if items and items[-1] == Anchor("$"):
            items, after = items[:-1], []
        whole = Sequence((*before, *items, *after))  # type: ignore[arg-type]
        low, high = _lengths(whole)
        if least > low or (most is not None and (high is None or high > most)):
            return None
        node = _written(rules, whole)
        if node is None:
            return None
        found.append(node)
    return seq(lit('"'), free_of(alt(*found), rules.style), lit('"'))


def _lengths(tree: Tree) -> tuple[int, int | None]:
    if isinstance(tree, Class):
        return 1, 1
    if isinstance(tree, Sequence):
        pairs = [_lengths(item) for item in tree.items]
        most = [high for _, high in pairs]
        return sum(low for low, _ in pairs), None if None in most else sum(high or 0 for high in most)
    if isinstance(tree, Choice):
        pairs = [_lengths(item) for item in tree.items]
        most = [high for _, high in pairs]
        return min(low for low, _ in pairs), None if None in most else max(high or 0 for high in most)
    if isinstance(tree, Repeat):
        low, high = _lengths(tree.item)
        return low * tree.min, None if tree.max is None or high is None else high * tree.max
    return 0, 0


def _written(rules: Rules, tree: Tree) -> Node | None:
    """The tree with its characters as JSON writes them; None where it looks around."""
    if isinstance(tree, (Anchor, Look)) or any(_written(rules, part) is None for part in parts(tree)):
        return None
    if isinstance(tree, Class):
        return rules.char(tree.ranges)
    if isinstance(tree, Sequence):
        return seq(*(_written(rules, item) or lit("") for item in tree.items))
    if isinstance(tree, Choice):
        return Choice(tuple(dict.fromkeys(_written(rules, item) or lit("") for item in tree.items)))
    if isinstance(tree, Repeat):
        item = _written(rules, _consuming(tree.item) if nullable(tree.item) else tree.item)
        least = 0 if nullable(tree.item) else tree.min
        return None if item is None else Repeat(item, least, tree.max)
    return lit("")


def nullable(tree: Tree) -> bool:
    if isinstance(tree, Class):
        return False
    if isinstance(tree, Sequence):
        return all(map(nullable, tree.items))
    if isinstance(tree, Choice):
        return any(map(nullable, tree.items))
    return not isinstance(tree, Repeat) or tree.min == 0 or nullable(tree.item)


def _consuming(tree: Tree) -> Tree:
    """The texts of ``tree`` that are not empty: a repeat in the machine takes only what consumes."""
    if not nullable(tree):
        return tree
    if isinstance(tree, Choice):
        live = tuple(_consuming(item) for item in tree.items)
        return Choice(tuple(item for item in live if item != NOTHING))  # type: ignore[misc]
    if isinstance(tree, Repeat):
        return Repeat(_consuming(tree.item), 1, tree.max)  # type: ignore[arg-type]
    if isinstance(tree, Sequence) and tree.items:
        first, rest = tree.items[0], Sequence(tree.items[1:])
        return Choice((Sequence((_consuming(first), rest)), _consuming(rest)))  # type: ignore[arg-type]
    return NOTHING
