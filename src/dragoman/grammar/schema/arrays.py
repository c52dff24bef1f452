"""Arrays: items one by one as far as they are told apart, then a repeat; a count alone stays a count.

With ``contains`` a rule stands for "this many items written, this many of them counted"; with ``uniqueItems`` for the
set of values already used.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import product
from typing import Any, TypeAlias

from dragoman.errors import LimitError
from dragoman.grammar.nodes import EMPTY, NOTHING, Negate, Node, Permutation, Ref, Repeat, alt, lit, seq
from dragoman.grammar.schema.atoms import Branch, Count, Goal, Items, Unique
from dragoman.grammar.schema.overlap import item_goal, sizes
from dragoman.grammar.schema.rules import Rules
from dragoman.grammar.schema.scalars import value
from dragoman.grammar.schema.values import canonical

# Rules of one array whose items are counted.
STATES_MAX = 5_000
# Values of which each may be used once, where the array's length is bounded too.
USED_MAX = 10
DOMAIN_MAX = 1_000

Steps: TypeAlias = "list[tuple[Node, object]]"


def array(rules: Rules, branch: Branch) -> Node:
    """The arrays of ``branch``."""
    least, most = sizes(branch, "array")
    prefix = max((items.start if items.stop is None else items.stop for items in branch.about(Items)), default=0)
    if rules.impossible(item_goal(branch, None)):
        most = prefix if most is None else min(most, prefix)
    for index in range(prefix):
        if rules.impossible(item_goal(branch, index)):
            most = index if most is None else min(most, index)
            break
    if most is not None:
        prefix = min(prefix, most)
        if least > most:
            return NOTHING
    unique = [atom for atom in branch.about(Unique) if atom.negative or most is None or most > 1]
    if any(atom.negative for atom in unique):
        raise rules.document.error(
            unique[0].place, "uniqueItems is not supported inside not, if and oneOf", "uniqueItems"
        )
    counted = branch.about(Count)
    if unique:
        if counted:
            raise rules.document.error(unique[0].place, "uniqueItems beside contains is not supported", "uniqueItems")
        return _unique(rules, branch, unique[0], prefix, least, most)
    if most is None and rules.room is not None:
        asked = max((atom.start + atom.least for atom in counted), default=0)
        most = max(rules.room, least, asked, prefix if rules.room else 0)
        prefix = min(prefix, most)
    if counted:
        return _counted(rules, branch, counted, prefix, least, most)
    return _plain(rules, branch, prefix, least, most)


def times_array(rules: Rules, goal: Goal, least: int, most: int | None) -> Node:
    """Arrays of ``least`` to ``most`` items that all satisfy ``goal``."""
    if not goal and least == 0 and most is None:
        return rules.any("array")
    layout = rules.layout
    some: Node = NOTHING
    if most != 0:
        item = seq(value(rules, goal), layout.pad)
        comma = seq(lit(","), layout.comma)
        more = _times(seq(comma, item), max(least - 1, 0), None if most is None else most - 1)
        some = seq(item, more, lit("]"))
    return seq(lit("["), layout.pad, _close_or(some, 0, least))


def _plain(rules: Rules, branch: Branch, prefix: int, least: int, most: int | None) -> Node:
    rest_goal = item_goal(branch, None)
    if not prefix:
        return times_array(rules, rest_goal, least, most)
    layout = rules.layout
    comma = seq(lit(","), layout.comma)
    bound = None if most is None else most - prefix
    if bound == 0:
        node: Node = lit("]")
    else:
        rest = seq(value(rules, rest_goal), layout.pad)
        # Behind item ``index``: what may follow, closing bracket included.
        node = seq(_times(seq(comma, rest), max(least - prefix, 0), bound), lit("]"))
    for index in range(prefix - 1, -1, -1):
        item = seq(value(rules, item_goal(branch, index)), layout.pad)
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


def _explored(
    rules: Rules, start: object, steps: Callable[[Any], Steps], ends: Callable[[Any], bool], too_large: str
) -> Node:
    """The rest of an array behind its bracket: a rule for each state; ``steps`` gives items and the states behind."""
    layout = rules.layout
    comma = seq(lit(","), layout.comma)
    names = {start: rules.new_name()}
    work = [start]
    while work:
        state = work.pop()
        options: list[Node] = [lit("]")] if ends(state) else []
        for item, target in steps(state):
            if target not in names:
                names[target] = rules.new_name()
                work.append(target)
                if len(names) > STATES_MAX:
                    raise LimitError(too_large, bound="program_instructions", limit=STATES_MAX)
            options.append(seq(EMPTY if state == start else comma, item, layout.pad, Ref(names[target])))
        rules.rules[names[state]] = alt(*options) if options else NOTHING
    return seq(lit("["), layout.pad, Ref(names[start]))


def _counted(rules: Rules, branch: Branch, counted: list[Count], prefix: int, least: int, most: int | None) -> Node:
    """States are (items written, as far as that matters; items counted by each atom); the start is told by None."""
    last = max(prefix, least, *(atom.start for atom in counted)) if most is None else most
    where = rules.document.pointer(counted[0].place)
    message = f"the array at {where or 'the root'} counts too many items beside contains"
    if last > STATES_MAX:
        raise LimitError(message, bound="program_instructions", limit=STATES_MAX)

    def ends(state: Any) -> bool:
        index, counts, _ = state
        return index >= least and all(a.least <= n for a, n in zip(counted, counts, strict=True))

    def steps(state: Any) -> Steps:
        index, counts, _ = state
        if most is not None and index >= most:
            return []
        base = item_goal(branch, index if index < prefix else None)
        ways: list[list[tuple[Goal, int]]] = []
        for atom, n in zip(counted, counts, strict=True):
            ways.append(_ways(atom, n) if index >= atom.start else [((), n)])
        out: Steps = []
        for way in product(*ways):
            goal = tuple(sorted({*base, *(signed for extra, _ in way for signed in extra)}))
            if not rules.impossible(goal):
                after = (min(index + 1, last), tuple(n for _, n in way), True)
                out.append((value(rules, goal), after))
        return out

    return _explored(rules, (0, (0,) * len(counted), False), steps, ends, message)


def _ways(atom: Count, n: int) -> list[tuple[Goal, int]]:
    """How the next item may count: what it then satisfies, and the count behind it."""
    if atom.most is None:
        return [((), n)] if n >= atom.least else [(atom.goal, n + 1), ((), n)]
    (signed,) = atom.goal
    fails = ((~signed,), n)
    return [fails] if n >= atom.most else [(atom.goal, n + 1), fails]


def _unique(rules: Rules, branch: Branch, atom: Unique, prefix: int, least: int, most: int | None) -> Node:
    """Each value at most once: a permutation where nothing else is asked, else a rule for each set of values used."""
    domains: list[list[Any]] = []
    for index in [*range(prefix), None] if most is None or most > prefix else range(prefix):
        values = rules.values.few(item_goal(branch, index), DOMAIN_MAX)
        if values is None:
            raise rules.document.error(
                atom.place,
                "uniqueItems is supported only where the items have few values: list them with enum",
                "uniqueItems",
            )
        domains.append(values)
    layout = rules.layout
    # Look-ahead, which no other notation has, only where sets of values would be too many rules.
    few = least == 1 and len(domains[0]) <= USED_MAX
    if prefix == 0 and least <= 1 and not few and (most is None or most >= len(domains[0])):
        items = tuple(seq(lit(rules.constant(each)), layout.pad) for each in domains[0])
        if not items:
            return seq(lit("["), layout.pad, lit("]")) if least == 0 else NOTHING
        some = Permutation(items, (False,) * len(items), seq(lit(","), layout.comma))
        nonempty = Negate(lit("]")) if least else EMPTY
        return seq(lit("["), layout.pad, nonempty, some, lit("]"))
    texts = sorted({canonical(each) for values in domains for each in values})
    message = f"uniqueItems over {len(texts)} values with bounds of the length is too large"
    if len(texts) > USED_MAX:
        raise LimitError(message, bound="program_instructions", limit=STATES_MAX)

    def ends(state: Any) -> bool:
        return len(state) >= least

    def steps(state: Any) -> Steps:
        index = len(state)
        if most is not None and index >= most:
            return []
        values = domains[min(index, len(domains) - 1)]
        return [
            (lit(rules.constant(each)), state | {canonical(each)}) for each in values if canonical(each) not in state
        ]

    return _explored(rules, frozenset(), steps, ends, message)
