"""JSON Schema to grammar rules: every keyword enforced, or the schema refused with a pointer to it."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

from dragoman.errors import SchemaError
from dragoman.grammar.json import NESTED, json_rules
from dragoman.grammar.nodes import NOTHING, Choice, Node, lit
from dragoman.grammar.notation.prune import prune
from dragoman.grammar.schema.arrays import array
from dragoman.grammar.schema.atoms import Branch, Goal, Not
from dragoman.grammar.schema.document import ROOT, Document
from dragoman.grammar.schema.keywords import FRACTION, INTEGER, KINDS
from dragoman.grammar.schema.literals import constant_place
from dragoman.grammar.schema.number_sets import numbers
from dragoman.grammar.schema.objects import object_
from dragoman.grammar.schema.options import SchemaOptions
from dragoman.grammar.schema.plain import plain
from dragoman.grammar.schema.rules import Rules
from dragoman.grammar.schema.sound import sound
from dragoman.grammar.schema.strings import one_of
from dragoman.grammar.schema.texts import merged_strings, string
from dragoman.limits import DEFAULT, Limits

# Keywords that lenient mode may leave out of one schema.
IGNORED_MAX = 200


def compile_schema(
    schema: Any,
    *,
    name: str,
    options: SchemaOptions | None = None,
    limits: Limits = DEFAULT,
    json_prefix: str | None = None,
    warnings: list[str] | None = None,
) -> dict[str, Node]:
    """Rules for JSON texts that validate against ``schema``: rule ``name``, and others under ``name`` and a dot.

    The rules for any JSON are named after ``json_prefix`` where one is given, so that several schemas can share them.
    Every text that the rules produce validates. Not every valid text is produced: strings and numbers have one
    spelling, properties one order, unbounded ones a length (see :class:`SchemaOptions`). With ``options.lenient`` a
    keyword that cannot be enforced is left out and what would have been the error is added to ``warnings``.
    Raises SchemaError, with the JSON pointer, for what cannot be enforced and for a schema that no value satisfies;
    LimitError for one that is too large.
    """
    return _tolerant(schema, name, options, limits, json_prefix, warnings, wait=False)[0]


def begin_schema(
    schema: Any,
    *,
    name: str,
    options: SchemaOptions | None = None,
    limits: Limits = DEFAULT,
    json_prefix: str | None = None,
    warnings: list[str] | None = None,
) -> tuple[dict[str, Node], Later]:
    """As :func:`compile_schema`, but rules in which nothing can be wrong are made when they are asked for.

    Returns the rules that are made at once, and where those are that they name and that are missing.
    """
    made, rules = _tolerant(schema, name, options, limits, json_prefix, warnings, wait=True)
    return made, Later(rules)


class Later:
    """The rules of a schema that were not made at once."""

    def __init__(self, rules: Rules) -> None:
        self._rules = rules

    def __contains__(self, name: object) -> bool:
        return name in self._rules.pending or name in self._rules.rules

    def __getitem__(self, name: str) -> Node:
        rules = self._rules
        waits = rules.pending.pop(name, None)
        if callable(waits):
            rules.rules[name] = waits()
        elif waits is not None:
            rules.queue.append((name, waits, 0))
        _work_off(rules)
        return rules.rules[name]


def _tolerant(
    schema: Any,
    name: str,
    options: SchemaOptions | None,
    limits: Limits,
    json_prefix: str | None,
    warnings: list[str] | None,
    *,
    wait: bool,
) -> tuple[dict[str, Node], Rules]:
    """The rules, without what lenient mode leaves out."""
    options = options or SchemaOptions()
    ignored: list[str] = []
    while True:
        try:
            return _compiled(
                schema, name, options, limits, json_prefix or f"{name}.json", frozenset(ignored), wait=wait
            )
        except SchemaError as error:
            if not options.lenient or not error.pointer or error.pointer in ignored or len(ignored) >= IGNORED_MAX:
                raise
            ignored.append(error.pointer)
            if warnings is not None:
                warnings.append(f"left out: {error}")


def _compiled(
    schema: Any,
    name: str,
    options: SchemaOptions,
    limits: Limits,
    json_prefix: str,
    ignored: frozenset[str],
    *,
    wait: bool,
) -> tuple[dict[str, Node], Rules]:
    document = Document(schema, limits, remotes=options.remotes, ignored=ignored)
    rules = Rules(document, name, json_prefix, options, limits)
    if wait:
        rules.sound = sound(document, options, limits)
    rules.rules |= json_rules(prefix=rules.json, style=rules.style)
    rules.queue.append((name, (ROOT,), 0))
    _work_off(rules)
    if rules.sound and id(schema) in rules.sound:
        return {name: rules.rules[name]}, rules  # no dead ends, and all others may wait
    kept = prune(rules.rules, name, rules.pending)
    if kept is None and options.items_max is not None:
        # A plain value that was taken for the smallest turned out to have no text.
        return _compiled(schema, name, replace(options, items_max=None), limits, json_prefix, ignored, wait=wait)
    if kept is None:
        raise SchemaError("no finite value validates against this schema")
    return kept, rules


def _work_off(rules: Rules) -> None:
    while rules.queue:
        rule, goal, rules.level = rules.queue.popleft()
        rules.rules[rule] = _goal(rules, goal)


def _goal(rules: Rules, goal: Goal) -> Node:
    node = plain(rules, goal)
    if node is not None:
        return node
    branches, strings = merged_strings(rules, _smallest(rules, rules.expander.branches(goal)))
    return _choice([_branch(rules, branch) for branch in branches] + ([] if strings is None else [strings]))


def _smallest(rules: Rules, branches: list[Branch]) -> list[Branch]:
    """Where there is no room left: values without others inside, if there are any."""
    if rules.room != 0:
        return branches
    plain = [Branch(branch.kinds - set(NESTED), branch.atoms) for branch in branches]
    return [branch for branch in plain if branch.kinds and rules.overlap.possible(branch, 1)] or branches


def _choice(options: list[Node]) -> Node:
    flat = [item for option in options for item in (option.items if isinstance(option, Choice) else (option,))]
    unique = list(dict.fromkeys(flat))
    return unique[0] if len(unique) == 1 else Choice(tuple(unique))


def _branch(rules: Rules, branch: Branch) -> Node:
    """The values of one branch."""
    listed = rules.values.enumerated(branch)
    if listed is not None:
        loose = [v for v in listed if rules.options.any_order and isinstance(v, (list, dict)) and v]
        fixed = [v for v in listed if not any(v is other for other in loose)]
        options: list[Node] = (
            [one_of([_constant(rules, branch, value) for value in fixed], rules.rule)] if fixed else []
        )
        # The keys of a listed object may come in any order too.
        options += [rules.goal((constant_place(rules.document, ROOT, "const", value),)) for value in loose]
        return _choice(options) if options else NOTHING
    if len(branch.kinds) == len(KINDS) and not branch.atoms:
        return rules.any()
    return _choice([node for kind in KINDS if kind in branch.kinds for node in [_kind(rules, branch, kind)] if node])


def _kind(rules: Rules, branch: Branch, kind: str) -> Node | None:
    """The values of one kind; None for whole numbers that are written together with the others."""
    if kind == "object":
        return object_(rules, branch)
    if kind == "array":
        return array(rules, branch)
    if kind == "string":
        return string(rules, branch)
    if kind in (INTEGER, FRACTION):
        return None if kind == INTEGER and FRACTION in branch.kinds else numbers(rules, branch)
    excluded = {
        value
        for atom in branch.about(Not)
        for value in rules.values.raw(atom.place, atom.keyword)
        if value is None or isinstance(value, bool)
    }
    values = [value for value in ((None,) if kind == "null" else (True, False)) if value not in excluded]
    return _choice([lit(json.dumps(value)) for value in values]) if values else NOTHING


def _constant(rules: Rules, branch: Branch, value: Any) -> str:
    try:
        return rules.constant(value)
    except ValueError:
        at = branch.atoms[0]
        place = getattr(at, "place", ROOT)
        raise rules.document.error(place, f"{value!r:.60} is no JSON value") from None
