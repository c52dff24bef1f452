"""One tree, two sides: the reader's or the writer's grammar, in the nodes that compilation and export know.

Rules of this file: what a side does not have is gone afterwards (``Duplex``, ``Schema``, ``Gbnf`` always; commits, tags
and ``Atomic`` for the writer); the language of a side is kept; the rules that nothing leads to are dropped.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Literal as OneOf

from dragoman.errors import GrammarError, LimitError
from dragoman.grammar.nodes import (
    EMPTY,
    Atomic,
    Choice,
    Commit,
    Duplex,
    Gbnf,
    Grammar,
    Later,
    Negate,
    Node,
    Peek,
    Permutation,
    Ref,
    Repeat,
    Schema,
    Sequence,
    Tag,
    UntilConfirmed,
    Without,
    seq,
)
from dragoman.grammar.notation.gbnf_read import read_gbnf
from dragoman.grammar.schema import SchemaOptions, begin_schema, compile_schema
from dragoman.limits import DEFAULT, Limits

Mode = OneOf["reader", "writer"]


def lower(
    grammar: Grammar,
    mode: Mode,
    *,
    options: SchemaOptions | None = None,
    limits: Limits = DEFAULT,
    warnings: list[str] | None = None,
    on_demand: bool = False,
) -> Grammar:
    """The side ``mode`` of ``grammar``; the writer's has no recovery points.

    ``warnings`` takes what ``options.lenient`` leaves out of a schema. on_demand: rules of schemas in which nothing can
    be wrong are made when they are asked for: for programs that are compiled on demand, see ``Grammar.later``.
    Raises GrammarError for a reference to no rule, and what :func:`compile_schema` and :func:`read_gbnf` raise.
    """
    lowering = _Lowering(grammar, mode, options or SchemaOptions(), limits, warnings)
    later = lowering.later = _Later() if on_demand else None
    roots = [grammar.start]
    if mode == "reader":
        roots += [recovery.rule for recovery in grammar.recovery.values()]
    work, lowered = list(reversed(roots)), dict[str, Node]()
    while work:
        name = work.pop()
        if name not in lowered and not (later is not None and name in later and not lowering.has(name)):
            lowered[name] = lowering.rule(name)
            work.extend(reversed(lowering.take_references()))
    recovery = dict(grammar.recovery) if mode == "reader" else {}
    return Grammar(lowered, grammar.start, recovery, later if later is not None and later.by_head else None)


class _Later:
    """The rules of several schemas that were not made at once."""

    def __init__(self) -> None:
        self.by_head: dict[str, Later] = {}

    def __contains__(self, name: object) -> bool:
        return name in (self._of(str(name)) or ())

    def __getitem__(self, name: str) -> Node:
        found = self._of(name)
        if found is None:
            raise KeyError(name)
        return found[name]

    def _of(self, name: str) -> Later | None:
        """Where the rule ``name`` would be; the rules for any JSON are the same for all."""
        head, _, rest = name.partition(".")
        found = self.by_head.get(head)
        if found is None and head == "schema" and rest.startswith("json."):
            return next(iter(self.by_head.values()), None)
        return found


class _Lowering:
    """Rewrites rule by rule. Rules of schemas and foreign grammars appear beside the given ones, once for each text."""

    def __init__(
        self, grammar: Grammar, mode: Mode, options: SchemaOptions, limits: Limits, warnings: list[str] | None
    ) -> None:
        self._warnings = warnings
        self._rules: Mapping[str, Node] = grammar.rules
        self._heads = {name.partition(".")[0] for name in grammar.rules}
        self._writer = mode == "writer"
        self._options = options
        self._limits = limits
        self._added: dict[str, Node] = {}
        self._expanded: dict[tuple[str, str], Ref] = {}
        self._references: list[str] = []
        self.later: _Later | None = None

    def has(self, name: str) -> bool:
        """Whether there is a rule of this name that is made already."""
        return name in self._added or name in self._rules

    def rule(self, name: str) -> Node:
        """The rule ``name``, lowered."""
        node = self._added.get(name, self._rules.get(name))
        if node is None:
            raise GrammarError("no rule has this name; a reference leads to it", rule=name)
        try:
            return self._lower(node)
        except RecursionError:
            raise LimitError(
                f"rule {name!r} is nested too deep: give its inner parts names",
                bound="program_instructions",
                limit=self._limits.program_instructions,
            ) from None

    def take_references(self) -> list[str]:
        """The rules named by what was lowered since the last call."""
        taken, self._references = self._references, []
        return taken

    def _lower(self, node: Node) -> Node:
        """``node`` for this side; the very same object where nothing changes."""
        match node:
            case Ref(name):
                self._references.append(name)
                return node
            case Duplex(reader, writer):
                return self._lower(writer if self._writer else reader)
            case Schema(text, reader):
                return self._lower(self._schema(text) if self._writer else reader)
            case Gbnf(text):
                return self._lower(self._gbnf(text))
            case Commit() if self._writer:
                return EMPTY
            case Tag(_, item) | Atomic(item) if self._writer:
                return self._lower(item)
            case Sequence(items):
                lowered = self._all(items)
                return node if lowered is items else seq(*lowered)
            case Choice(items):
                lowered = self._all(items)
                return node if lowered is items else Choice(lowered)
            case Permutation(items, _, separator):
                lowered = self._all(items)
                return replace(node, items=lowered, separator=self._lower(separator))
            case UntilConfirmed(_, follow, tag):
                return replace(node, follow=self._lower(follow), tag=None if self._writer else tag)
            case Repeat() | Without() | Peek() | Negate() | Tag() | Atomic():
                item = self._lower(node.item)
                return node if item is node.item else replace(node, item=item)
        return node

    def _all(self, items: tuple[Node, ...]) -> tuple[Node, ...]:
        lowered = tuple(self._lower(item) for item in items)
        return items if all(a is b for a, b in zip(lowered, items, strict=True)) else lowered

    def _schema(self, text: str) -> Ref:
        def rules(name: str) -> tuple[str, dict[str, Node]]:
            try:
                parsed = json.loads(text)
            except RecursionError:
                limit = self._limits.schema_nodes
                raise LimitError("the schema is nested too deep", bound="schema_nodes", limit=limit) from None
            # Any-JSON rules are the same for all schemas, so they share one set.
            json_prefix = "schema.json" if "schema" not in self._heads else f"{name}.json"
            making = begin_schema if self.later is not None else compile_schema
            made = making(
                parsed,
                name=name,
                options=self._options,
                limits=self._limits,
                json_prefix=json_prefix,
                warnings=self._warnings,
            )
            if self.later is None or isinstance(made, dict):
                assert isinstance(made, dict)
                return name, made
            self.later.by_head[name] = made[1]
            return name, made[0]

        return self._expand("schema", text, rules)

    def _gbnf(self, text: str) -> Ref:
        def rules(name: str) -> tuple[str, dict[str, Node]]:
            return f"{name}.root", {f"{name}.{key}": _renamed(node, name) for key, node in read_gbnf(text).items()}

        return self._expand("gbnf", text, rules)

    def _expand(self, kind: str, text: str, rules: Callable[[str], tuple[str, dict[str, Node]]]) -> Ref:
        """A reference to the entry of the rules for ``text``, which are added where they are new."""
        known = self._expanded.get((kind, text))
        if known is None:
            number = len(self._expanded)
            while f"{kind}{number}" in self._heads:
                number += len(self._rules)
            entry, added = rules(f"{kind}{number}")
            self._added.update(added)
            known = self._expanded[kind, text] = Ref(entry)
        return known


def _renamed(node: Node, prefix: str) -> Node:
    """``node`` of a foreign grammar with its references under ``prefix``."""
    match node:
        case Ref(name):
            return Ref(f"{prefix}.{name}")
        case Sequence(items) | Choice(items):
            return replace(node, items=tuple(_renamed(item, prefix) for item in items))
        case Repeat(item):
            return replace(node, item=_renamed(item, prefix))
    return node
