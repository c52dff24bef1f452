"""Cuts plain rules into lexemes for engines whose lexer takes the longest match and never goes back.

Lexemes are strings in quotes, free text, and single characters. Free text is joined with the marker behind it, since
alone it would swallow the marker's first characters. Then the cut is proven by
:mod:`dragoman.grammar.notation.lexeme_proof`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from dragoman.grammar.nodes import (
    EMPTY,
    AnyChar,
    Choice,
    Class,
    Control,
    Literal,
    Node,
    Ref,
    Repeat,
    Sequence,
    Without,
    alt,
    seq,
)
from dragoman.grammar.notation.lexeme_proof import MARK, Lexemes, Unproven, prove
from dragoman.grammar.notation.prune import parts, references

# Joining text with what follows: steps for one sequence.
_STEPS_MAX = 200
# A literal in tokens: strings in quotes, and characters. One that opens a string, one that closes it.
_TOKENS = re.compile(rb'"(?:[^"\\]|\\.)*"|[\x00-\x7F]|[\xC0-\xFF][\x80-\xBF]*', re.DOTALL)
_OPENED = re.compile(rb'((?:[^"]|"(?:[^"\\]|\\.)*")*)("(?:[^"\\]|\\.)*)', re.DOTALL)
_CLOSED = re.compile(rb'((?:[^"\\]|\\.)*")(.*)', re.DOTALL)
# A class with this many characters is text: what follows it is joined with it.
_WIDE = 64


def nullable(node: Node, rules: Mapping[str, Node]) -> bool:
    """True: ``node`` has the empty text. ``rules``: those that it refers to."""
    match node:
        case Literal(data):
            return not data
        case Sequence(items):
            return all(nullable(item, rules) for item in items)
        case Choice(items):
            return any(nullable(item, rules) for item in items)
        case Repeat(item, least):
            return not least or nullable(item, rules)
        case Without(item):
            return nullable(item, rules)
        case Ref(name):
            return nullable(rules[name], rules)
    return False


def cut(rules: Mapping[str, Node], start: str) -> Lexemes | None:
    """The rules in lexemes; None where no cut was found that is proven to keep the language."""
    try:
        cutting = _Cutting(rules)
        lexed = cutting.lexemes(start)
        prove(lexed, start)
    except (Unproven, RecursionError):
        return None
    return lexed


@dataclass
class _Cutting:
    rules: Mapping[str, Node]
    regular: set[str] = field(default_factory=set)
    nodes: dict[Node, int] = field(default_factory=dict)
    nodes_at: list[int] = field(default_factory=list)  # the lexeme at each place

    def __post_init__(self) -> None:
        changed = True
        while changed:
            found = {name for name, node in self.rules.items() if name not in self.regular and self._is_regular(node)}
            changed = bool(found)
            self.regular |= found

    def lexemes(self, start: str) -> Lexemes:
        out: dict[str, Node] = {}
        work = [start]
        while work:
            name = work.pop()
            if name not in out:
                out[name] = self._cut(self.rules[name])
                work += [ref for ref in references(out[name]) if not ref.startswith(MARK)]
        return Lexemes(out, list(self.nodes), self.nodes_at, {name: self.rules[name] for name in self.regular})

    def _is_regular(self, node: Node) -> bool:
        if isinstance(node, Control):
            return False
        return all(map(self._is_regular, parts(node))) if not isinstance(node, Ref) else node.name in self.regular

    def _cut(self, node: Node) -> Node:
        match node:
            case Literal(data):
                return seq(*(self._lexeme(Literal(token)) for token in _TOKENS.findall(data)))
            case Sequence(items):
                return self._sequence(list(items))
            case Choice(items):
                return alt(*map(self._cut, items))
            case Repeat(item) if not self._is_text(node):
                return replace(node, item=self._cut(item))
            case Ref() | Control():
                return node
        return self._lexeme(node)

    def _sequence(self, items: list[Node]) -> Node:
        out: list[Node] = []
        while items:
            if self._is_text(items[0]):
                return seq(*out, self._text([items[0]], items[1:]))
            string = self._string(items)
            if string:
                out += string
            else:
                out.append(self._cut(items.pop(0)))
        return seq(*out)

    def _text(self, run: list[Node], items: list[Node]) -> Node:
        """The text ``run``, joined with what follows until that is a marker."""
        for _ in range(_STEPS_MAX):
            if not items or isinstance(items[0], Control) or not self._ends_open(seq(*run)):
                return seq(self._lexeme(seq(*run)), self._sequence(items))
            item, items = items[0], items[1:]
            if isinstance(item, Sequence):
                items = [*item.items, *items]
            elif isinstance(item, Ref) and not self._is_text(item):
                items = [self.rules[item.name], *items]
            elif self._is_regular(item):
                run = [*run, item]
            else:
                return alt(*(self._text(run, [*way, *items]) for way in _ways(item)))
        raise Unproven

    def _string(self, items: list[Node]) -> list[Node]:
        """The string in quotes that opens in the first of ``items``, which are used up; nothing where none does."""
        first = items[0]
        opened = _OPENED.fullmatch(first.data) if isinstance(first, Literal) else None
        if opened is None:
            return []
        run: list[Node] = [Literal(opened[2])]
        for at, item in enumerate(items[1:], 1):
            closed = _CLOSED.fullmatch(item.data) if isinstance(item, Literal) else None
            if closed is not None:
                run.append(Literal(closed[1]))
                items[: at + 1] = [Literal(closed[2])] if closed[2] else []
                break
            if not self._is_regular(item):
                return []
            run.append(item)
            if self._ends_quoted(item):
                del items[: at + 1]
                break
        else:
            return []
        before = [self._cut(Literal(opened[1]))] if opened[1] else []
        return [*before, self._lexeme(seq(*run))]

    def _is_text(self, node: Node) -> bool:
        """True: ``node`` is regular and is, or ends with, text that goes on."""
        return self._is_regular(node) and not isinstance(node, Sequence) and self._ends_open(node)

    def _ends_quoted(self, node: Node) -> bool:
        """True: every text of ``node`` ends with a quote."""
        match node:
            case Literal(data):
                return data.endswith(b'"')
            case Sequence(items):
                return self._ends_quoted(items[-1])
            case Choice(items):
                return all(map(self._ends_quoted, items))
            case Ref(name):
                return self._ends_quoted(self.rules[name])
        return False

    def _lexeme(self, node: Node) -> Node:
        """``node`` as a lexeme at a place of its own; the empty text is no lexeme."""
        if node == EMPTY:
            return node
        number = self.nodes.setdefault(node, len(self.nodes))
        self.nodes_at.append(number)
        place = Ref(MARK + str(len(self.nodes_at) - 1))
        return alt(place, EMPTY) if nullable(node, self.rules) else place

    def _ends_open(self, node: Node) -> bool:
        """True: ``node`` ends with text, which would go on into what follows."""
        match node:
            case Sequence(items):
                for item in reversed(items):
                    if self._ends_open(item):
                        return True
                    if not nullable(item, self.rules):
                        return False
                return False
            case Choice(items):
                return any(map(self._ends_open, items))
            case Repeat(item, _, most):
                return (most != 1 and self._is_wide(item)) or self._ends_open(item)
            case Without(item):
                return self._ends_open(item)
            case Ref(name):
                return self._ends_open(self.rules[name])
        return False

    def _is_wide(self, node: Node) -> bool:
        match node:
            case AnyChar():
                return True
            case Class(ranges):
                return sum(high - low + 1 for low, high in ranges) >= _WIDE
            case Choice(items):
                return any(map(self._is_wide, items))
            case Ref(name):
                return name in self.regular and self._is_wide(self.rules[name])
        return False


def _ways(node: Node) -> list[list[Node]]:
    """The ways to begin ``node``, each a sequence."""
    if isinstance(node, Choice):
        return [[item] for item in node.items]
    if isinstance(node, Repeat):
        most = None if node.max is None else node.max - 1
        more = [node.item] if most == 0 else [node.item, replace(node, min=max(node.min - 1, 0), max=most)]
        return [more] if node.min else [more, []]
    raise Unproven
