"""Objects and arrays that say no more than most do, straight to nodes: see scalars.py for what that means."""

from __future__ import annotations

from typing import Any

from dragoman.grammar.nodes import NOTHING, Node, alt
from dragoman.grammar.schema.arrays import times_array
from dragoman.grammar.schema.atoms import Goal
from dragoman.grammar.schema.objects import TREE_FROM, other_key, pair_of
from dragoman.grammar.schema.order import in_order, step_by_step
from dragoman.grammar.schema.rules import Rules
from dragoman.grammar.schema.scalars import possible_value, scalar, value

_MEMBERS = frozenset(("type", "properties", "required", "additionalProperties"))
_ITEMS = frozenset(("type", "items", "minItems", "maxItems"))


def plain(rules: Rules, goal: Goal) -> Node | None:
    """The values of ``goal`` where it is one schema of one type that combines no others; None for all else."""
    if len(goal) != 1 or goal[0] < 0 or rules.room == 0:
        return None
    place = rules.document.led_to(goal[0])
    view = rules.document.schema(place)
    if isinstance(view, bool):
        return None
    if len(view) == 1 and "anyOf" in view:
        return _any(rules, place, view["anyOf"])
    kind = view.get("type")
    if kind == "object":
        return _object(rules, place, view) if _MEMBERS.issuperset(view) else None
    if kind == "array":
        return _array(rules, place, view) if _ITEMS.issuperset(view) else None
    return scalar(rules, view)


def _any(rules: Rules, place: int, options: list[Any]) -> Node | None:
    """One of several plain schemas."""
    found: dict[Node, None] = {}
    for at in range(len(options)):
        goal = (rules.document.child(place, "anyOf", at),)
        view = rules.document.schema(rules.document.led_to(goal[0]))
        if isinstance(view, bool) or "anyOf" in view:
            return None
        node = plain(rules, goal)
        if node is None:
            return None
        if node != NOTHING:
            found[node] = None
    return alt(*found) if found else NOTHING


def _object(rules: Rules, place: int, view: dict[str, Any]) -> Node | None:
    declared, required = view.get("properties", {}), dict.fromkeys(view.get("required", ()))
    # What is only required comes after what is declared.
    names = [*declared, *(name for name in required if name not in declared)]
    if not names or len(names) > TREE_FROM or rules.options.any_order:
        return None
    child = rules.document.child
    others: Goal = (child(place, "additionalProperties"),) if "additionalProperties" in view else ()
    if rules.sound and rules.waits(place):
        closed = (others and rules.impossible(others)) or (not others and rules.options.closed_objects)

        def member(at: int, soon: bool) -> Node:
            def below() -> Node:
                return value(rules, (child(place, "properties", names[at]),))

            return pair_of(rules, rules.text(names[at]), below() if soon else rules.later(below))

        def rest() -> Node:
            return pair_of(rules, other_key(rules, names, later=True), value(rules, others))

        return step_by_step(rules, [name in required for name in names], member, None if closed else rest)
    members: list[tuple[Node, bool]] = []
    some = False
    for name in names:
        goal = (child(place, "properties", name),) if name in declared else others
        below = possible_value(rules, goal)
        some = some or (below is not NOTHING and name in declared)
        node = NOTHING if below is NOTHING else pair_of(rules, rules.text(name), below)
        members.append((node, name in required))
    below = NOTHING if some and not others and rules.options.closed_objects else possible_value(rules, others)
    further = NOTHING if below is NOTHING else pair_of(rules, other_key(rules, names), below)
    return in_order(rules, members, further, rules.room)


def _array(rules: Rules, place: int, view: dict[str, Any]) -> Node | None:
    if isinstance(view.get("items"), list):
        return None
    goal: Goal = (rules.document.child(place, "items"),) if "items" in view else ()
    least, most = int(view.get("minItems", 0)), view.get("maxItems")
    most = None if most is None else int(most)
    if rules.impossible(goal):
        most = 0
    if most is not None and least > most:
        return NOTHING
    if most is None and rules.room is not None:
        most = max(rules.room, least)
    return times_array(rules, goal, least, most)
