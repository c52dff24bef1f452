"""What the parts of the schema compiler share: the document, the options, and new rules under one prefix."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field

from ...errors import LimitError
from ...limits import Limits
from ..json import JsonStyle, Layout, json_layout, json_text
from ..nodes import Literal, Node, Ref
from .document import Document
from .goals import Goal, asserts_nothing
from .options import SchemaOptions


@dataclass(slots=True)
class Rules:
    """Rules under construction. Goals are queued, never compiled in place: nesting costs no Python stack."""

    document: Document
    name: str
    json: str  # the prefix of the rules for any JSON
    options: SchemaOptions
    limits: Limits
    rules: dict[str, Node] = field(default_factory=dict)
    queue: deque[tuple[str, Goal]] = field(default_factory=deque)
    _goals: dict[frozenset[int], Ref] = field(default_factory=dict)
    _count: int = 0

    @property
    def style(self) -> JsonStyle:
        return self.options.style

    @property
    def layout(self) -> Layout:
        return json_layout(self.options.whitespace, self.json)

    def any(self, kind: str = "value") -> Ref:
        """Any JSON value, or any of one kind."""
        return Ref(f"{self.json}.{kind}")

    def goal(self, goal: Goal) -> Ref:
        """A value for which all schemas of ``goal`` hold."""
        goal = tuple(place for place in dict.fromkeys(goal) if not asserts_nothing(self.document, place))
        if not goal:
            return self.any()
        key = frozenset(goal)
        if key not in self._goals:
            self._goals[key] = Ref(self._new_name())
            self.queue.append((self._goals[key].name, goal))
        return self._goals[key]

    def rule(self, node: Node) -> Node:
        """``node`` under a name, so that it can be used in many places; what is small already stays as it is."""
        if isinstance(node, (Ref, Literal)):
            return node
        name = self._new_name()
        self.rules[name] = node
        return Ref(name)

    def text(self, text: str) -> Literal:
        """A constant string or key as written."""
        return Literal(json_text(text, self.options.banned).encode())

    def _new_name(self) -> str:
        self._count += 1
        limit = self.limits.program_instructions
        if self._count > limit:
            raise LimitError("the schema is too large", bound="program_instructions", limit=limit)
        return f"{self.name}.{self._count}"
