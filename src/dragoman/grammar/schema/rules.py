"""What the parts of the schema compiler share: the document, the options, and new rules under one prefix."""

from __future__ import annotations

import json
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

from dragoman.errors import LimitError
from dragoman.grammar.json import (
    JsonStyle,
    Layout,
    Ranges,
    json_class,
    json_layout,
    json_name,
    json_text,
    last_level,
    room,
    text_room,
)
from dragoman.grammar.nodes import NOTHING, Literal, Node, Ref, alt
from dragoman.grammar.schema.atoms import Goal
from dragoman.grammar.schema.document import Document
from dragoman.grammar.schema.expand import COMBINING, Expander
from dragoman.grammar.schema.languages import Languages
from dragoman.grammar.schema.options import SchemaOptions
from dragoman.grammar.schema.overlap import Overlap, tell_apart
from dragoman.grammar.schema.values import Values
from dragoman.limits import Limits


@dataclass(slots=True)
class Rules:
    """Rules under construction. Goals are queued, never compiled in place: nesting costs no Python stack."""

    document: Document
    name: str
    json: str  # the prefix of the rules for any JSON
    options: SchemaOptions
    limits: Limits
    expander: Expander = field(init=False)
    languages: Languages = field(init=False)
    values: Values = field(init=False)
    layout: Layout = field(init=False)
    overlap: Overlap = field(init=False)
    rules: dict[str, Node] = field(default_factory=dict)
    queue: deque[tuple[str, Goal, int]] = field(default_factory=deque)
    sound: frozenset[int] = frozenset()  # identities of schemas that may be compiled later, see sound.py
    pending: dict[str, Goal | Callable[[], Node]] = field(default_factory=dict)  # rules that wait to be asked for
    shared: dict[object, Node] = field(default_factory=dict)
    inner: dict[tuple[int, int], Node] = field(default_factory=dict)  # values inside others, by place and level there
    level: int = 0  # of nesting of the goal that is being compiled, as far as that matters
    _styles: dict[int, JsonStyle] = field(default_factory=dict)
    _goals: dict[tuple[Goal, int], Ref] = field(default_factory=dict)
    _chars: dict[Ranges, Node] = field(default_factory=dict)
    _count: int = 0

    def __post_init__(self) -> None:
        self.layout = json_layout(self.options.whitespace, self.json)
        self.expander = Expander(self.document, self.limits, tell_apart)
        self.languages = Languages(self.expander)
        self.values = Values(self.expander, self.languages)
        self.overlap = Overlap(self.values)

    @property
    def style(self) -> JsonStyle:
        """The spelling of strings in the place of the goal that is being compiled."""
        known = self._styles.get(self.level)
        if known is None:
            style = self.options.style
            style = replace(style, string_max=text_room(style.string_max, self.level)) if self.level else style
            known = self._styles[self.level] = style
        return known

    @property
    def room(self) -> int | None:
        """Items of an array, or further members, where the schema has no bound; None: any number."""
        return room(self.options.items_max, self.level)

    @property
    def inner_level(self) -> int:
        """The level of what is inside of the goal that is being compiled."""
        return min(self.level + 1, last_level(self.options.items_max))

    def any(self, kind: str = "value") -> Ref:
        """Any JSON value, or any of one kind, in the place of the goal that is being compiled."""
        return Ref(json_name(self.json, kind, self.level))

    def goal(self, goal: Goal) -> Ref:
        """A value that satisfies ``goal``, inside of the one that is being compiled."""
        goal = tuple(sorted({signed for signed in goal if not self.expander.holds_always((signed,))}))
        level = self.inner_level
        if not goal:
            return Ref(json_name(self.json, "value", level))
        if (goal, level) not in self._goals:
            name = self.new_name()
            self._goals[goal, level] = Ref(name)
            if self.sound and len(goal) == 1 and self.waits(goal[0]):
                self.pending[name] = goal
            else:
                self.queue.append((name, goal, level))
        return self._goals[goal, level]

    def waits(self, signed: int) -> bool:
        """True: the schema at this place can be compiled later as well."""
        return signed >= 0 and id(self.document.written(signed)) in self.sound

    def impossible(self, goal: Goal) -> bool:
        """True: no value satisfies ``goal``. False says nothing."""
        if len(goal) == 1 and goal[0] >= 0:
            view = self.document.schema(self.document.led_to(goal[0]))
            if isinstance(view, bool):
                return not view
            if COMBINING.isdisjoint(view):
                return False
            if len(view) == 1 and "anyOf" in view and any(map(self._plainly, view["anyOf"])):
                return False
        return not self.expander.branches(tuple(sorted(set(goal))))

    @staticmethod
    def _plainly(schema: Any) -> bool:
        """True: a schema as written that some value satisfies, well-formed or not."""
        return isinstance(schema, dict) and COMBINING.isdisjoint(schema)

    def rule(self, node: Node) -> Node:
        """``node`` under a name, the same for equal nodes; what is small already stays as it is."""
        if isinstance(node, (Ref, Literal)):
            return node
        known = self.shared.get(node)
        if known is None:
            name = self.new_name()
            self.rules[name] = node
            known = self.shared[node] = Ref(name)
        return known

    def named(self, node: Node) -> Ref:
        """``node`` under a name of its own, whether or not there are equal ones."""
        name = self.new_name()
        self.rules[name] = node
        return Ref(name)

    def later(self, make: Callable[[], Node]) -> Ref:
        """What ``make`` returns under a name of its own, made when it is asked for."""
        name = self.new_name()
        self.pending[name] = make
        return Ref(name)

    def char(self, ranges: Ranges) -> Node:
        """One character of a string, as JSON writes it; what lies beyond plain ASCII is written once for all."""
        known = self._chars.get(ranges)
        if known is None:
            plain = tuple((max(low, 0x20), min(high, 0x7F)) for low, high in ranges if low <= 0x7F and high >= 0x20)
            plain = tuple(r for low, high in plain for r in _without_escaped(low, high))
            wide = tuple(r for low, high in ranges for r in _beyond(low, high))
            options = [json_class(part, self.style) for part in (plain, wide) if part]
            if len(options) == 2 or len(wide) > 8:
                options[-1] = self.rule(options[-1])
            known = self._chars[ranges] = alt(*options) if options else NOTHING
        return known

    def text(self, text: str) -> Literal:
        """A constant string or key as written."""
        return Literal(json_text(text, self.options.banned).encode())

    def constant(self, value: Any) -> str:
        """A listed value as text, spelled as the options say. ValueError for what no JSON can say."""
        comma, colon = (",", ":") if self.options.whitespace == "compact" else (", ", ": ")
        try:
            return _written(value, comma, colon, self.options.banned)
        except RecursionError:
            limit = self.limits.schema_nodes
            raise LimitError("a listed value is nested too deep", bound="schema_nodes", limit=limit) from None

    def new_name(self) -> str:
        self._count += 1
        limit = self.limits.program_instructions
        if self._count > limit:
            raise LimitError("the schema is too large", bound="program_instructions", limit=limit)
        return f"{self.name}.{self._count}"


def _without_escaped(low: int, high: int) -> list[tuple[int, int]]:
    """A range of printable ASCII without the quote and the backslash."""
    parts = [(low, min(high, 0x21)), (max(low, 0x23), min(high, 0x5B)), (max(low, 0x5D), high)]
    return [(a, b) for a, b in parts if a <= b]


def _beyond(low: int, high: int) -> list[tuple[int, int]]:
    """What of a range is written with an escape or in several bytes."""
    parts = [(low, min(high, 0x1F)), (max(low, 0x22), min(high, 0x22)), (max(low, 0x5C), min(high, 0x5C))]
    return [(a, b) for a, b in (*parts, (max(low, 0x80), high)) if a <= b]


def _written(value: Any, comma: str, colon: str, banned: tuple[bytes, ...]) -> str:
    if isinstance(value, str):
        return json_text(value, banned)
    if isinstance(value, list):
        return f"[{comma.join(_written(item, comma, colon, banned) for item in value)}]"
    if isinstance(value, dict):
        pairs = (json_text(key, banned) + colon + _written(item, comma, colon, banned) for key, item in value.items())
        return "{" + comma.join(pairs) + "}"
    if isinstance(value, float) and value.is_integer() and abs(value) < 1e15:
        value = int(value)
    return json.dumps(value, allow_nan=False)
