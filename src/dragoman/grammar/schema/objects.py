"""Objects: properties in their declared order, then further ones; a rule for each place where the order may go on.

A state is (next declared property, members written as far as that matters, whether any was written, which "some member"
atoms are still to be met). Optional properties make two choices of each, so the size is linear in their number. That a
further key is written twice is not excluded: no grammar remembers keys.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import combinations

from dragoman.errors import LimitError
from dragoman.grammar.json import free_of, json_text
from dragoman.grammar.nodes import EMPTY, NOTHING, Literal, Node, Permutation, Ref, Repeat, Sequence, alt, lit, seq
from dragoman.grammar.regex import automata
from dragoman.grammar.regex.automata import TooLarge
from dragoman.grammar.schema.atoms import Branch, Except, Goal, Keys, Member, Members, Name
from dragoman.grammar.schema.order import in_order
from dragoman.grammar.schema.overlap import sizes
from dragoman.grammar.schema.rules import Rules
from dragoman.grammar.schema.scalars import value
from dragoman.grammar.schema.strings import automaton, none_of, one_of_then

STATES_MAX = 20_000
# So many declared properties that may come next are told apart by a prefix tree; fewer are a list of alternatives.
TREE_FROM = 24
# Atoms "some member has ..." that no required property meets.
OWED_MAX = 4

COLON = lit(":")

Owed = frozenset[int]
NONE: Owed = frozenset()


def object_(rules: Rules, branch: Branch) -> Node:
    """The objects of ``branch``."""
    least, most = sizes(branch, "object")
    if most is not None and least > most:
        return NOTHING
    if not branch.about(Members, Member) and least == 0 and most is None:
        return rules.any("object")
    return _Object(rules, branch, least, most).node()


@dataclass(slots=True)
class _Object:
    rules: Rules
    branch: Branch
    least: int
    most: int | None
    names: list[str] = field(default_factory=list)
    required: set[str] = field(default_factory=set)
    owed: list[Member] = field(default_factory=list)
    closed: bool = False
    _pairs: dict[tuple[str | None, Owed], Node] = field(default_factory=dict)

    def __post_init__(self) -> None:
        # What is only required comes after what is declared, though it may be said first: beside a oneOf of properties.
        about: list[Members | Member] = [*self._members(), *self.branch.about(Member)]
        self.names = list(dict.fromkeys(name for atom in about for name in _named_in(atom.keys)))
        self.required = {atom.keys.name for atom in about if isinstance(atom, Member) and isinstance(atom.keys, Name)}
        self.owed = [atom for atom in self.branch.about(Member) if not isinstance(atom.keys, Name)]
        if len(self.owed) > OWED_MAX:
            place = self.owed[0].place
            raise self.rules.document.error(place, "too many conditions on some member of one object")
        declared = any(not self.rules.impossible(a.goal) for a in self._members() if isinstance(a.keys, Name))
        says = any(isinstance(a.keys, Except) for a in self._members())
        self.closed = self.rules.options.closed_objects and declared and not says

    def _members(self) -> list[Members]:
        return self.branch.about(Members)

    def goal_of(self, name: str, met: Owed) -> Goal:
        """What the value of a member ``name`` satisfies, where it meets those owed."""
        goal = dict.fromkeys(self.rules.overlap.member_goal(self.branch, name))
        goal.update(dict.fromkeys(signed for i in met for signed in self.owed[i].goal))
        return tuple(sorted(goal))

    @property
    def _further_max(self) -> int | None:
        """How many members beyond the declared ones; None: any number, as far as ``most`` allows."""
        room = self.rules.room
        return None if room is None or self.most is not None else max(room, self.least, len(self.owed))

    def node(self) -> Node:
        rules = self.rules
        further = self.pair(None, NONE) != NOTHING
        if self.least <= len(self.required) and not self.owed:
            self.least = 0
        if self.most is not None and not further and len(self.names) <= self.most:
            self.most = None
        counting = self.least or self.most is not None
        if not self.names and not self.owed and further and (counting or rules.room is not None):
            return self._only_further()
        if rules.options.any_order and self.names and not self.owed and not counting:
            return self._any_order(further)
        if self.owed or counting:
            return self._in_order(further)
        if len(self.names) > TREE_FROM:
            return self._in_long_order(further)
        members = [(self._member(name), name in self.required) for name in self.names]
        return in_order(rules, members, self.pair(None, NONE), self._further_max)

    def _only_further(self) -> Node:
        """No name is declared: members are counted as the machine counts, however many."""
        layout = self.rules.layout
        pair = self.pair(None, NONE)
        comma = seq(lit(","), layout.comma)
        most = self._further_max if self.most is None else self.most
        if most == 0:
            return seq(lit("{"), layout.pad, lit("}"))
        most = None if most is None else most - 1
        more = EMPTY if most == 0 else Repeat(seq(comma, pair), max(self.least - 1, 0), most)
        some = seq(pair, more, lit("}"))
        return seq(lit("{"), layout.pad, some if self.least else alt(lit("}"), some))

    def _any_order(self, further: bool) -> Node:
        layout = self.rules.layout
        comma = seq(lit(","), layout.comma)
        named = [(name, self.pair(name, NONE)) for name in self.names]
        if any(pair == NOTHING and name in self.required for name, pair in named):
            return NOTHING
        live = [(name, pair) for name, pair in named if pair != NOTHING]
        items = tuple(pair for _, pair in live)
        required = tuple(name in self.required for name, _ in live)
        if not items:
            return in_order(self.rules, (), self.pair(None, NONE), self._further_max)
        if not further:
            body: Node = Permutation(items, required, comma)
            return seq(lit("{"), layout.pad, body, lit("}"))
        extra, most = self.pair(None, NONE), self._further_max
        between = seq(comma, Repeat(seq(extra, comma), 0, most))
        around = Repeat(seq(extra, comma), 0, most), Repeat(seq(comma, extra), 0, most)
        body = seq(around[0], self._some(items, required, between), around[1])
        if any(required):
            return seq(lit("{"), layout.pad, body, lit("}"))
        only = seq(extra, around[1])
        return seq(lit("{"), layout.pad, alt(lit("}"), seq(only, lit("}")), seq(body, lit("}"))))

    def _some(self, items: tuple[Node, ...], required: tuple[bool, ...], between: Node) -> Node:
        """A permutation that is not empty: where nothing is required, one of the items is."""
        if any(required):
            return Permutation(items, required, between)
        return self._first_of(items, between)

    def _first_of(self, items: tuple[Node, ...], between: Node) -> Node:
        from dragoman.grammar.nodes import Negate

        # Behind further members and a comma only a declared one may follow; an empty permutation would leave the
        # comma or nothing before the bracket.
        return seq(Negate(lit("}")), Negate(lit(",")), Permutation(items, (False,) * len(items), between))

    def _in_order(self, further: bool) -> Node:
        layout = self.rules.layout
        comma = seq(lit(","), layout.comma)
        cap = self.least if self.most is None else self.most
        if cap * (len(self.names) + 1) > STATES_MAX:
            raise LimitError(
                "an object with so many declared properties cannot be counted that far",
                bound="program_instructions",
                limit=STATES_MAX,
                size=cap * (len(self.names) + 1),
            )
        start = (0, 0, False, frozenset(range(len(self.owed))), 0)
        extras = self._further_max
        names = {start: self.rules.new_name()}
        work = [start]

        def ref(state: tuple[int, int, bool, Owed, int]) -> Node:
            if state not in names:
                names[state] = self.rules.new_name()
                work.append(state)
                if len(names) > STATES_MAX:
                    raise LimitError("the object is too large", bound="program_instructions", limit=STATES_MAX)
            return Ref(names[state])

        while work:
            state = work.pop()
            index, count, written, owed, beyond = state
            options: list[Node] = []
            name = self.names[index] if index < len(self.names) else None
            full = self.most is not None and count >= self.most
            full = full or (name is None and extras is not None and beyond >= extras)
            if not full and (name is not None or further):
                after = (min(index + 1, len(self.names)), min(count + 1, cap), True)
                number = beyond if name is not None or extras is None else beyond + 1
                for met in self._subsets(owed, name):
                    pair = self.pair(name, met)
                    if pair != NOTHING:
                        options.append(seq(comma if written else EMPTY, pair, ref((*after, owed - met, number))))
            if name is None:
                if not owed and count >= self.least:
                    options.append(lit("}"))
            elif name not in self.required:
                options.append(ref((index + 1, count, written, owed, beyond)))
            self.rules.rules[names[state]] = alt(*options) if options else NOTHING
        return seq(lit("{"), layout.pad, Ref(names[start]))

    def _in_long_order(self, further: bool) -> Node:
        """As :meth:`_in_order` with nothing counted; the keys that may come next share their beginnings.

        From a place in the order the next key is one of a run of names, up to the first required one. Runs are put
        together from spans of a binary tree over all names, one prefix tree each: n log n in all.
        """
        rules, layout = self.rules, self.rules.layout
        count = len(self.names)
        tried = [i for i in range(count) if rules.room != 0 or self.names[i] in self.required]
        live = [i for i in tried if not rules.impossible(self.goal_of(self.names[i], NONE))]
        if any(name in self.required and i not in live for i, name in enumerate(self.names)):
            return NOTHING
        rest = [Ref(rules.new_name()) for _ in range(count + 1)]
        comma = seq(lit(","), layout.comma)
        values = {i: value(rules, self.goal_of(self.names[i], NONE)) for i in live}
        behind = {i: rules.rule(seq(pair_of(rules, EMPTY, below), rest[i + 1])) for i, below in values.items()}
        keys = {i: json_text(self.names[i], rules.options.banned) for i in live}
        needed = [i for i, name in enumerate(self.names) if name in self.required]
        spans: dict[tuple[int, int], Node] = {}

        def span(start: int, end: int) -> Node:
            if (start, end) not in spans:
                inside = [(keys[i], behind[i]) for i in range(start, end) if i in behind]
                spans[start, end] = rules.rule(one_of_then(inside, rules.rule)) if inside else NOTHING
            return spans[start, end]

        def following(start: int) -> tuple[list[Node], bool]:
            """The keys that may come next, and whether the end or a further key may."""
            at = bisect_left(needed, start)
            stop = needed[at] + 1 if at < len(needed) else count
            nodes = [node for a, b in _spans(start, stop) if (node := span(a, b)) != NOTHING]
            return nodes, at == len(needed)

        extra = self.pair(None, NONE)
        tail = rules.rule(seq(Repeat(seq(comma, extra), 0, self._further_max), lit("}"))) if further else lit("}")
        for start in range(count + 1):
            nodes, last = following(start)
            options: list[Node] = [seq(comma, alt(*nodes))] if nodes else []
            rules.rules[rest[start].name] = alt(*options, *([tail] if last else []))
        nodes, last = following(0)
        ends: list[Node] = [lit("}"), *([seq(extra, tail)] if further else [])] if last else []
        return seq(lit("{"), layout.pad, alt(*nodes, *ends))

    def _subsets(self, owed: Owed, name: str | None) -> list[Owed]:
        """What of that owed one member may meet."""
        able = [i for i in sorted(owed) if name is None or self.rules.values.has(self.owed[i].keys, name)]
        return [frozenset(each) for size in range(len(able) + 1) for each in combinations(able, size)]

    def pair(self, name: str | None, met: Owed) -> Node:
        """One member, of this name or a further one, that meets those owed; NOTHING if there can be none."""
        if self.rules.room == 0 and name not in self.required and not self.owed and self.least <= len(self.required):
            return NOTHING
        key = (name, met)
        if key not in self._pairs:
            made = self._further(met) if name is None else self._named(name, met)
            self._pairs[key] = made if made == NOTHING else self.rules.rule(made)
        return self._pairs[key]

    def _member(self, name: str) -> Node:
        """The one place of a member of this name, in the order."""
        if self.rules.room == 0 and name not in self.required:
            return NOTHING
        return self._named(name, NONE)

    def _named(self, name: str, met: Owed) -> Node:
        goal = self.goal_of(name, met)
        if self.rules.impossible(goal):
            return NOTHING
        return member(self.rules, name, goal)

    def _further(self, met: Owed) -> Node:
        sets: list[Keys] = list(dict.fromkeys(a.keys for a in self._members() if not isinstance(a.keys, Name)))
        sets += [self.owed[i].keys for i in met if self.owed[i].keys not in sets]
        if all(_plain(keys) for keys in sets):
            covering = [keys for keys in sets if _covers(keys)]
            if any(self.owed[i].keys not in covering for i in met):
                return NOTHING
            goal = self._goal_in(covering, met)
            if self.closed or self.rules.impossible(goal):
                return NOTHING
            return pair_of(self.rules, other_key(self.rules, self.names), value(self.rules, goal))
        try:
            return self._by_automaton(sets, met)
        except TooLarge:
            place = next(iter(self.branch.about(Member)), None)
            raise LimitError(
                "the patterns of an object's keys are too large together"
                + (f" (at {self.rules.document.pointer(place.place)})" if place else ""),
                bound="program_instructions",
                limit=automata.STATES_MAX,
            ) from None

    def _goal_in(self, sets: list[Keys], met: Owed) -> Goal:
        goal = {signed for atom in self._members() if atom.keys in sets for signed in atom.goal}
        return tuple(sorted(goal | {signed for i in met for signed in self.owed[i].goal}))

    def _by_automaton(self, sets: list[Keys], met: Owed) -> Node:
        """Keys are read by one automaton that knows, at their end, which sets they are in."""
        rules = self.rules
        parts = [automata.of_words(self.names), *(rules.languages.keys(keys) for keys in sets)]
        edges, labels = automata.labelled(parts)
        ends: dict[tuple[bool, ...], Node] = {}
        for label in dict.fromkeys(labels):
            inside = [keys for keys, yes in zip(sets, label[1:], strict=True) if yes]
            goal = self._goal_in(inside, met)
            owed = all(self.owed[i].keys in inside for i in met)
            loose = self.closed and not inside
            if label[0] or not owed or loose or rules.impossible(goal):
                ends[label] = NOTHING
            else:
                ends[label] = rules.rule(pair_of(rules, lit('"'), value(rules, goal)))
        if all(end == NOTHING for end in ends.values()):
            return NOTHING
        body = automaton(edges, lambda state: ends[labels[state]], rules.char, rules.rules, rules.new_name())
        return seq(lit('"'), free_of(body, rules.style))


def member(rules: Rules, name: str, goal: Goal) -> Node:
    """The member of this name with a value that satisfies ``goal``."""
    return pair_of(rules, rules.text(name), value(rules, goal))


def pair_of(rules: Rules, key: Node, below: Node) -> Node:
    """A key as written, and behind it the value ``below``."""
    layout = rules.layout
    if layout.pad is EMPTY and layout.colon is not EMPTY and type(key) is Literal and type(below) is Ref:
        return Sequence((Literal(key.data + b":"), layout.colon, below))
    return seq(key, layout.pad, COLON, layout.colon, below, layout.pad)


def other_key(rules: Rules, names: list[str], *, later: bool = False) -> Node:
    """A key that is none of the declared ones; the same names give the same rules. ``later``: most of them may wait."""
    if not names:
        return rules.any("string")
    key = ("none of", tuple(sorted(names)), rules.style.string_max)
    if key not in rules.shared:
        rules.shared[key] = rules.rule(none_of(names, rules.style, rules.rule, rules.later if later else None))
    return rules.shared[key]


def _spans(start: int, stop: int) -> Iterator[tuple[int, int]]:
    """``range(start, stop)`` as aligned spans whose sizes are powers of two, at least 8 where there is room."""
    while start < stop:
        size = 8
        while start % (2 * size) == 0 and start + 2 * size <= stop:
            size *= 2
        end = min(start - start % 8 + 8, stop) if start % 8 or start + size > stop else start + size
        yield start, end
        start = end


def _named_in(keys: Keys) -> Iterator[str]:
    """Every name that a set of keys mentions: the order keeps a place for each, so that the others are told apart."""
    work = [keys]
    while work:
        at = work.pop()
        if isinstance(at, Name):
            yield at.name
        elif isinstance(at, Except):
            work.extend(reversed(at.sets))


def _plain(keys: Keys) -> bool:
    """Whether the set is made of names alone."""
    if isinstance(keys, Except):
        return all(map(_plain, keys.sets))
    return isinstance(keys, Name)


def _covers(keys: Keys) -> bool:
    """Whether a plain set has the keys that are no declared name."""
    return isinstance(keys, Except) and not any(map(_covers, keys.sets))
