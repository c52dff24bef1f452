"""Can two schemas share a value? Only a proof counts: "no" here lets a oneOf be written without denying the others."""

from __future__ import annotations

from dragoman.grammar.regex.automata import TooLarge
from dragoman.grammar.schema.atoms import Branch, Except, Goal, Items, Keys, Member, Members, Name, Range, Size, Text
from dragoman.grammar.schema.expand import Expander
from dragoman.grammar.schema.keywords import FRACTION, INTEGER
from dragoman.grammar.schema.languages import Languages
from dragoman.grammar.schema.values import Values

# Discriminators sit at most this deep below the alternatives: {"kind": {"type": {"const": ...}}}.
DEPTH = 4


class Overlap:
    def __init__(self, values: Values) -> None:
        self.values = values
        self.expander = values.expander
        self._indices: dict[int, MemberIndex] = {}

    def pairs_apart(self, places: tuple[int, ...], kinds: frozenset[str]) -> frozenset[tuple[int, int]]:
        """The pairs (by index, ascending) of the schemas at ``places`` that share no value of these kinds."""
        branches = [self.expander.branches((place,)) for place in places]
        return frozenset(
            (i, j)
            for j in range(len(places))
            for i in range(j)
            if not any(self._meet(a, b, kinds) for a in branches[i] for b in branches[j])
        )

    def _meet(self, a: Branch, b: Branch, kinds: frozenset[str]) -> bool:
        both = a.kinds & b.kinds & kinds
        return bool(both) and self.possible(Branch(both, tuple(dict.fromkeys((*a.atoms, *b.atoms)))), DEPTH)

    def possible(self, branch: Branch, depth: int) -> bool:
        """False: the branch has no value. True says nothing."""
        listed = self.values.enumerated(branch)
        if listed is not None:
            return bool(listed)
        return any(self._kind_possible(branch, kind, depth) for kind in branch.kinds)

    def _kind_possible(self, branch: Branch, kind: str, depth: int) -> bool:
        if kind in (INTEGER, FRACTION):
            return _numbers_possible(branch)
        least, most = sizes(branch, kind)
        if most is not None and least > most:
            return False
        if kind == "string":
            return self._string_possible(branch)
        if depth == 0:
            return True
        if kind == "array":
            return all(self._goal_possible(item_goal(branch, index), depth) for index in range(min(least, 8)))
        if kind == "object":
            needed = dict.fromkeys(m.keys.name for m in branch.about(Member) if isinstance(m.keys, Name))
            return all(self._goal_possible(self.member_goal(branch, name), depth) for name in needed)
        return True

    def _string_possible(self, branch: Branch) -> bool:
        if not branch.about(Text):
            return True
        try:
            return not self.values.languages.of_branch(branch).empty
        except TooLarge:
            return True

    def _goal_possible(self, goal: Goal, depth: int) -> bool:
        return any(self.possible(branch, depth - 1) for branch in self.expander.branches(goal))

    def member_goal(self, branch: Branch, name: str) -> Goal:
        """What the value of a member ``name`` satisfies that is known to be there."""
        index = self._indices.get(id(branch))
        if index is None or index.branch is not branch:
            index = self._indices[id(branch)] = MemberIndex(branch)
        goal = dict.fromkeys(index.named.get(name, ()))
        for left_out, sets, below in index.others:
            if name not in left_out and not any(self.values.has(keys, name) for keys in sets):
                goal.update(dict.fromkeys(below))
        for keys, below in index.patterned:
            if self.values.has(keys, name):
                goal.update(dict.fromkeys(below))
        return tuple(sorted(goal))


class MemberIndex:
    """What a branch says of members, by name, so that thousands of names are looked up one by one."""

    def __init__(self, branch: Branch) -> None:
        self.branch = branch
        self.named: dict[str, tuple[int, ...]] = {}
        self.others: list[tuple[frozenset[str], tuple[Keys, ...], Goal]] = []
        self.patterned: list[tuple[Keys, Goal]] = []
        for atom in branch.about(Members, Member):
            keys = atom.keys
            if isinstance(keys, Name):
                self.named[keys.name] = (*self.named.get(keys.name, ()), *atom.goal)
            elif isinstance(atom, Member):
                continue  # some member, not known which
            elif isinstance(keys, Except):
                names = frozenset(each.name for each in keys.sets if isinstance(each, Name))
                self.others.append((names, tuple(e for e in keys.sets if not isinstance(e, Name)), atom.goal))
            else:
                self.patterned.append((keys, atom.goal))


def item_goal(branch: Branch, index: int | None) -> Goal:
    """What the item at ``index`` satisfies; None: the items behind all that are told apart."""
    goal: dict[int, None] = {}
    for items in branch.about(Items):
        inside = index is not None and items.start <= index and (items.stop is None or index < items.stop)
        if inside or (index is None and items.stop is None):
            goal.update(dict.fromkeys(items.goal))
    return tuple(sorted(goal))


def sizes(branch: Branch, kind: str) -> tuple[int, int | None]:
    """The bounds of a length, all atoms together."""
    found = [size for size in branch.about(Size) if size.kind == kind]
    most = [size.most for size in found if size.most is not None]
    return max((size.least for size in found), default=0), min(most, default=None)


def _numbers_possible(branch: Branch) -> bool:
    lows = [bound.low for bound in branch.about(Range) if bound.low is not None]
    highs = [bound.high for bound in branch.about(Range) if bound.high is not None]
    if not lows or not highs:
        return True
    low = max(lows, key=lambda bound: (bound[0], bound[1]))
    high = min(highs, key=lambda bound: (bound[0], not bound[1]))
    return low[0] < high[0] or (low[0] == high[0] and not low[1] and not high[1])


def tell_apart(expander: Expander, places: tuple[int, ...], kinds: frozenset[str]) -> frozenset[tuple[int, int]]:
    """See :class:`~dragoman.grammar.schema.expand.Expander`."""
    return Overlap(Values(expander, Languages(expander))).pairs_apart(places, kinds)
