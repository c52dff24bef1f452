"""Plain rules as text: what the notations share. Each notation adds its own characters."""

from __future__ import annotations

from abc import ABC, abstractmethod

from dragoman.errors import GrammarError
from dragoman.grammar.nodes import EMPTY, AnyChar, Choice, Class, Control, Literal, Node, Ref, Repeat, Sequence, Without
from dragoman.grammar.notation.plain import PlainGrammar


class Printer(ABC):
    """Writes the bodies of rules: ``|`` between alternatives, blanks between items, ``* + ? {m,n}`` behind an item."""

    def __init__(self, grammar: PlainGrammar) -> None:
        self.grammar = grammar

    def body(self, node: Node) -> str:
        """The right side of a rule."""
        if not isinstance(node, Choice) or EMPTY in node.items:
            return self._sequence(node)
        return " | ".join(map(self._sequence, node.items)) or self.char_class(())

    # What a notation says in its own way.

    @abstractmethod
    def literal(self, text: str) -> str:
        """Exactly this text."""

    @abstractmethod
    def char_class(self, ranges: tuple[tuple[int, int], ...]) -> str:
        """One character of the ranges; none where there are no ranges."""

    @abstractmethod
    def any_char(self) -> str:
        """One character."""

    def control(self, text: str) -> str:
        return self.literal(text)

    def reference(self, rule: str) -> str:
        return self.grammar.name(rule)

    def without(self, item: Node, forbidden: tuple[str, ...]) -> str:
        """``item`` without the forbidden texts, in notations that can say so; the others get such rules written out."""
        raise GrammarError("this notation cannot leave texts out: write the rules out first")

    def unit(self, node: Node) -> str:
        """An item that a sign may stand behind."""
        return self.atom(node)

    def _sequence(self, node: Node) -> str:
        return " ".join(map(self.atom, node.items)) if isinstance(node, Sequence) else self.atom(node)

    def atom(self, node: Node) -> str:
        match node:
            case Literal(data):
                return self.literal(self.grammar.characters(data))
            case Control(text):
                return self.control(text)
            case Class(ranges):
                return self.char_class(ranges)
            case AnyChar():
                return self.any_char()
            case Ref(name):
                return self.reference(name)
            case Without(item, forbidden):
                return self.without(item, tuple(map(self.grammar.characters, forbidden)))
            case Repeat(item, least, most):
                inner = f"({self.atom(item)})" if isinstance(item, Repeat) else self.unit(item)
                return inner + _sign(least, most)
            case Choice(items) if EMPTY in items:
                rest = Choice(tuple(item for item in items if item != EMPTY))
                if not rest.items:
                    return self.literal("")
                only = rest.items[0]
                single = len(rest.items) == 1 and isinstance(only, (Literal, Class, AnyChar, Ref)) and only != EMPTY
                return f"{self.unit(only) if single else f'({self.body(rest)})'}?"
        return f"({self.body(node)})"


def _sign(least: int, most: int | None) -> str:
    signs = {(0, None): "*", (1, None): "+", (0, 1): "?"}
    if (least, most) in signs:
        return signs[least, most]
    return f"{{{least},}}" if most is None else f"{{{least}}}" if least == most else f"{{{least},{most}}}"
