"""From goals to branches: references, combinators and negation are multiplied out here and known nowhere else.

One thing that needs an order: clauses with one option first, then the others, each only if it does not hold already.
``unevaluated*`` needs to know what other schemas of the same value looked at: their places carry *owners*, and where an
owner is present a disjunction is split so that every schema is known to hold or not.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from typing import Any, TypeAlias

from dragoman.errors import LimitError
from dragoman.grammar.schema.atoms import ALL_KEYS, Atom, Branch, Count, Except, Goal, Items, Keys, Members, Texts
from dragoman.grammar.schema.document import PLACES, Document
from dragoman.grammar.schema.keywords import KINDS
from dragoman.grammar.schema.literals import Option, absent, denied, facts, kinds_of, present
from dragoman.limits import Limits

ALL_KINDS = frozenset(KINDS)
# Branches of one goal; past it a schema is refused rather than multiplied out.
BRANCHES_MAX = 5_000
# Options of an anyOf whose every subset is looked at, because unevaluated* asks which of them hold.
SUBSETS_MAX = 7

# Keywords that say something of other schemas of the same value, or depend on them.
COMBINING = frozenset(
    ("$ref", "$dynamicRef", "$recursiveRef", "allOf", "anyOf", "oneOf", "not", "if", "dependentSchemas", "dependencies")
) | {"unevaluatedProperties", "unevaluatedItems", PLACES}

Owners: TypeAlias = tuple[int, ...]
TellApart: TypeAlias = "Callable[[Expander, tuple[int, ...], frozenset[str]], frozenset[tuple[int, int]]]"


@dataclass(frozen=True, slots=True)
class Chain:
    """The signed places that led to one without anything consumed."""

    at: int
    via: Chain | None

    def __iter__(self) -> Iterator[int]:
        chain: Chain | None = self
        while chain is not None:
            yield chain.at
            chain = chain.via


@dataclass(frozen=True, slots=True)
class Todo:
    signed: int
    via: Chain | None = None
    owners: Owners = ()


@dataclass(frozen=True, slots=True)
class Clause:
    """One of the options holds."""

    options: tuple[Option, ...]
    via: Chain | None
    owners: Owners


@dataclass(slots=True)
class Seen:
    """What the schemas of one owner's value have looked at."""

    keys: tuple[Keys, ...] = ()
    items: int = 0
    all_items: bool = False
    contains: tuple[int, ...] = ()


@dataclass(slots=True)
class State:
    """One branch under construction."""

    todo: list[Todo]
    clauses: list[Clause] = field(default_factory=list)
    kinds: frozenset[str] = ALL_KINDS
    atoms: dict[Atom, None] = field(default_factory=dict)
    done: dict[tuple[int, Owners], None] = field(default_factory=dict)
    signs: set[int] = field(default_factory=set)
    seen: dict[int, Seen] = field(default_factory=dict)

    def copy(self) -> State:
        seen = {owner: replace(what) for owner, what in self.seen.items()}
        return State(
            list(self.todo), list(self.clauses), self.kinds, dict(self.atoms), dict(self.done), set(self.signs), seen
        )


class Expander:
    """The branches of goals of one document, remembered.

    ``tell_apart`` says which pairs of the options of a oneOf provably share no value of the given kinds.
    """

    def __init__(self, document: Document, limits: Limits, tell_apart: TellApart) -> None:
        self.document = document
        self.limits = limits
        self._tell_apart = tell_apart
        self._facts_of: dict[int, tuple[Option, list[tuple[Option, ...]]]] = {}
        self._known: dict[Goal, list[Branch]] = {}
        self._apart: dict[int, frozenset[tuple[int, int]]] = {}
        self._busy: set[int] = set()

    def branches(self, goal: Goal) -> list[Branch]:
        """The branches of ``goal``, in the order of the schema. None at all: no value; one without atoms: any value.

        Raises SchemaError for a schema that refers to itself with nothing in between, LimitError for too many branches.
        """
        known = self._known.get(goal)
        if known is None:
            known = self._alone(goal)
            if known is None:
                known = self._expanded(goal)
            self._known[goal] = known
        return known

    def _alone(self, goal: Goal) -> list[Branch] | None:
        """The branches of one schema that combines no others, which most are; None for all else."""
        if len(goal) != 1 or goal[0] < 0:
            return None
        schema = self.document.schema(goal[0])
        if isinstance(schema, bool) or not COMBINING.isdisjoint(schema):
            return None
        fact, clauses = self._facts(goal[0], schema)
        if clauses or fact.signed:
            return None
        return [_branch(fact.kinds, dict.fromkeys(fact.atoms))] if fact.kinds else []

    def _facts(self, place: int, schema: dict[str, Any]) -> tuple[Option, list[tuple[Option, ...]]]:
        if place not in self._facts_of:
            self._facts_of[place] = facts(self.document, place, schema)
        return self._facts_of[place]

    def holds_always(self, goal: Goal) -> bool:
        """True: every value satisfies ``goal``. False says nothing."""
        for signed in goal:
            schema = self.document.schema(signed if signed >= 0 else ~signed)
            if isinstance(schema, bool):
                if schema == (signed < 0):
                    return False
            elif signed < 0 or any(not asserts_nothing(keyword, schema) for keyword in schema):
                return False
        return True

    def _expanded(self, goal: Goal) -> list[Branch]:
        out: dict[Branch, None] = {}
        work = [State([Todo(signed) for signed in goal])]
        steps = 0
        while work:
            state = work.pop()
            steps += 1
            most = min(BRANCHES_MAX, self.limits.schema_nodes)
            if len(work) + len(out) > most or steps > 20 * most:
                raise LimitError(
                    f"{self._where(goal)} has too many combinations of alternatives",
                    bound="schema_nodes",
                    limit=most,
                )
            if not self._settle(state):
                continue
            if not state.clauses:
                out[self._finished(state)] = None
                continue
            work.extend(reversed(list(self._split(state))))
        return list(out)

    def _where(self, goal: Goal) -> str:
        places = {self.document.pointer(s if s >= 0 else ~s) or "the root" for s in goal}
        return f"the schema at {', '.join(sorted(places)[:3])}"

    def _settle(self, state: State) -> bool:
        """Work off what leaves no choice; False: no value is left."""
        while state.todo:
            todo = state.todo.pop(0)
            if not self._visit(state, todo):
                return False
        return bool(state.kinds)

    def _split(self, state: State) -> Iterator[State]:
        clause = state.clauses.pop(0)
        viable = [option for option in clause.options if state.kinds & option.kinds]
        for option in viable:
            if _holds_already(option, state, clause.owners):
                yield state
                return
        for option in viable:
            after = state if len(viable) == 1 else state.copy()
            after.kinds &= option.kinds
            after.atoms.update(dict.fromkeys(option.atoms))
            after.todo.extend(
                Todo(signed, clause.via, clause.owners if signed >= 0 else ()) for signed in option.signed
            )
            yield after

    def _visit(self, state: State, todo: Todo) -> bool:
        signed, via, owners = todo.signed, todo.via, todo.owners
        place = signed if signed >= 0 else ~signed
        if via is not None and signed in via:
            raise self.document.error(place, "the schema refers to itself with nothing in between")
        schema = self.document.schema(place)
        if isinstance(schema, bool):
            return schema == (signed >= 0)
        if (signed, owners) in state.done:
            return True
        if ~signed in state.signs:
            return False
        state.signs.add(signed)
        state.done[signed, owners] = None
        chain = Chain(signed, via)
        if signed < 0:
            self._deny(state, place, schema, chain)
            return bool(state.kinds)
        return self._assert(state, place, schema, chain, owners)

    def _deny(self, state: State, place: int, schema: dict[str, Any], chain: Chain) -> None:
        for keyword in ("unevaluatedProperties", "unevaluatedItems"):
            if keyword in schema:
                raise self.document.error(place, f"{keyword} is not supported inside not, if and oneOf", keyword)
        options = [*denied(self.document, place, schema), *self._denied_combinators(place, schema)]
        if len(options) == 1:
            self._take(state, options[0], chain, ())
        else:
            state.clauses.append(Clause(tuple(options), chain, ()))

    def _denied_combinators(self, place: int, schema: dict[str, Any]) -> Iterator[Option]:
        """The ways in which the schemas that hold for the same value may fail."""
        child = self.document.child
        for option in self._options(place, schema, "allOf"):
            yield Option(signed=(~option,))
        for key in ("anyOf", PLACES):
            if key in schema:
                yield Option(signed=tuple(~option for option in self._options(place, schema, key)))
        if "oneOf" in schema:
            yield from self._denied_one(place, schema)
        for keyword in ("$ref", "$dynamicRef", "$recursiveRef"):
            if keyword in schema:
                yield Option(signed=(~self.document.target(place, keyword),))
        if "not" in schema:
            yield Option(signed=(child(place, "not"),))
        if "if" in schema:
            condition = child(place, "if")
            if "then" in schema:
                yield Option(signed=(condition, ~child(place, "then")))
            if "else" in schema:
                yield Option(signed=(~condition, ~child(place, "else")))
        for name, below in self._dependent(place, schema):
            yield Option(frozenset(("object",)), (present(name, place),), (~below,))

    def _denied_one(self, place: int, schema: dict[str, Any]) -> Iterator[Option]:
        """A oneOf fails where none of its options holds, or two do."""
        places = self._options(place, schema, "oneOf")
        yield Option(signed=tuple(~option for option in places))
        apart = self._told_apart(place, schema)
        for j in range(len(places)):
            for i in range(j):
                if (i, j) not in apart:
                    yield Option(signed=(places[i], places[j]))

    def _take(self, state: State, option: Option, chain: Chain, owners: Owners) -> None:
        state.kinds &= option.kinds
        state.atoms.update(dict.fromkeys(option.atoms))
        state.todo.extend(Todo(signed, chain, owners if signed >= 0 else ()) for signed in option.signed)

    def _options(self, place: int, schema: dict[str, Any], key: Any) -> tuple[int, ...]:
        if key == PLACES:
            return tuple(schema[PLACES])
        return tuple(self.document.child(place, key, index) for index in range(len(schema.get(key, ()))))

    def _assert(self, state: State, place: int, schema: dict[str, Any], chain: Chain, owners: Owners) -> bool:
        document = self.document
        if "unevaluatedProperties" in schema or "unevaluatedItems" in schema:
            self._note(state, place, schema, owners, outer_only=True)
            owners = (*owners, place)
            state.seen[place] = Seen()
        self._note(state, place, schema, owners, outer_only=False)
        fact, clauses = self._facts(place, schema)
        self._take(state, fact, chain, owners)
        for options in clauses:
            state.clauses.append(Clause(options, chain, owners))
        for keyword in ("$ref", "$dynamicRef", "$recursiveRef"):
            if keyword in schema:
                state.todo.append(Todo(document.target(place, keyword), chain, owners))
        for index in range(len(schema.get("allOf", ()))):
            state.todo.append(Todo(document.child(place, "allOf", index), chain, owners))
        if "not" in schema:
            state.todo.append(Todo(~document.child(place, "not"), chain))
        for key in ("anyOf", PLACES):
            if key in schema:
                options = self._any(place, self._options(place, schema, key), owners)
                state.clauses.append(Clause(options, chain, owners))
        if "oneOf" in schema:
            state.clauses.append(Clause(self._one(place, schema), chain, owners))
        if "if" in schema and ("then" in schema or "else" in schema or owners):
            condition = document.child(place, "if")
            then = (document.child(place, "then"),) if "then" in schema else ()
            other = (document.child(place, "else"),) if "else" in schema else ()
            both = (Option(signed=(condition, *then)), Option(signed=(~condition, *other)))
            state.clauses.append(Clause(both, chain, owners))
        for name, below in self._dependent(place, schema):
            without = Option(atoms=(absent(document, name),))
            beside = Option(atoms=(present(name, place),), signed=(below,))
            state.clauses.append(Clause((without, beside), chain, owners))
        return bool(state.kinds)

    def _dependent(self, place: int, schema: dict[str, Any]) -> Iterator[tuple[str, int]]:
        """The names and schemas of dependentSchemas and, in the manner of older drafts, dependencies."""
        for keyword in ("dependentSchemas", "dependencies"):
            for name, entry in schema.get(keyword, {}).items():
                if not isinstance(entry, list):
                    yield name, self.document.child(place, keyword, name)

    def _any(self, place: int, places: tuple[int, ...], owners: Owners) -> tuple[Option, ...]:
        if not owners:
            return tuple(Option(signed=(option,)) for option in places)
        if len(places) > SUBSETS_MAX:
            raise self.document.error(place, "anyOf with so many options beside unevaluated* is not supported", "anyOf")
        return tuple(
            Option(signed=tuple(p if subset >> i & 1 else ~p for i, p in enumerate(places)))
            for subset in range(2 ** len(places) - 1, 0, -1)
        )

    def _one(self, place: int, schema: dict[str, Any]) -> tuple[Option, ...]:
        """Each option of a oneOf, with those denied that it may meet."""
        places = self._options(place, schema, "oneOf")
        apart = self._told_apart(place, schema)
        return tuple(
            Option(
                signed=(
                    option,
                    *(~other for j, other in enumerate(places) if j != i and (min(i, j), max(i, j)) not in apart),
                )
            )
            for i, option in enumerate(places)
        )

    def _told_apart(self, place: int, schema: dict[str, Any]) -> frozenset[tuple[int, int]]:
        """The pairs of options of a oneOf that provably share no value."""
        if place not in self._apart:
            if place in self._busy:
                return frozenset()
            self._busy.add(place)
            self._apart[place] = self._tell_apart(self, self._options(place, schema, "oneOf"), kinds_of(schema))
            self._busy.discard(place)
        return self._apart[place]

    def _note(self, state: State, place: int, schema: dict[str, Any], owners: Owners, *, outer_only: bool) -> None:
        """Remember for each owner what this schema looks at."""
        for owner in owners:
            seen = state.seen[owner]
            if outer_only:
                if "unevaluatedProperties" in schema:
                    seen.keys = (*seen.keys, ALL_KEYS)
                seen.all_items = seen.all_items or "unevaluatedItems" in schema
                continue
            for atom in self._facts(place, schema)[0].atoms:
                if isinstance(atom, Members) and not isinstance(atom.keys, Texts):
                    seen.keys = (*seen.keys, atom.keys)
                elif isinstance(atom, Items):
                    if atom.stop is None:
                        seen.all_items = True
                    else:
                        seen.items = max(seen.items, atom.stop)
            if "contains" in schema and self.document.draft(place) >= 2020:
                seen.contains = (*seen.contains, self.document.child(place, "contains"))

    def _finished(self, state: State) -> Branch:
        for owner, seen in state.seen.items():
            schema = self.document.schema(owner)
            assert isinstance(schema, dict)
            if "unevaluatedProperties" in schema:
                below = self.document.child(owner, "unevaluatedProperties")
                state.atoms[Members(Except(tuple(dict.fromkeys(seen.keys))), (below,))] = None
            if "unevaluatedItems" in schema and not seen.all_items:
                below = self.document.child(owner, "unevaluatedItems")
                if seen.contains:
                    below = self.document.any_of((*seen.contains, below))
                state.atoms[Items(seen.items, None, (below,))] = None
        return _branch(state.kinds, state.atoms)


def _branch(kinds: frozenset[str], atoms: dict[Atom, None]) -> Branch:
    """The branch of these atoms, but for those that hold always."""
    kept = [atom for atom in atoms if not (type(atom) is Count and atom.least == 0 and atom.most is None)]
    return Branch(kinds, tuple(kept))


def asserts_nothing(keyword: Any, schema: dict[str, Any]) -> bool:
    """True: this keyword holds for every value."""
    if keyword in ("if", "then", "else"):
        return "if" not in schema or ("then" not in schema and "else" not in schema)
    return keyword in ("minContains", "maxContains", "additionalItems") or (
        schema[keyword] in (False, {}, 0) and keyword in ("uniqueItems", "properties", "patternProperties", "minItems")
    )


def _holds_already(option: Option, state: State, owners: Owners) -> bool:
    return (
        state.kinds <= option.kinds
        and all(atom in state.atoms for atom in option.atoms)
        and all((signed, owners if signed >= 0 else ()) in state.done for signed in option.signed)
    )
