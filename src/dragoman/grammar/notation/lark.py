"""Writes a lowered writer grammar in llguidance's dialect of Lark.

llguidance cuts its input into terminals, always the longest, and never goes back; a grammar that is cut otherwise would
lose texts. So terminals are what :mod:`dragoman.grammar.notation.lexemes` proves to be safe; where it finds no such
cut, every terminal is one character, which is exact too, but too slow for large vocabularies.
Control tokens are tokens: by their id where it is known, else by their name in angle brackets.
What it cannot say is written coarser (see :mod:`dragoman.grammar.notation.plain`).
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import replace

from dragoman.errors import GrammarError
from dragoman.grammar.nodes import Grammar, Literal, Node
from dragoman.grammar.notation.lexeme_proof import MARK, Lexemes
from dragoman.grammar.notation.lexemes import cut, nullable
from dragoman.grammar.notation.plain import Notation, PlainGrammar
from dragoman.grammar.notation.printing import Printer

_NOTATION = Notation("start", controls=True, separator="_", capitals=False)
_LEXING = replace(_NOTATION, exclusion=True)
_NAMED_TOKEN = re.compile(r"<[^<>\s\[\]]+>")
_SURROGATES = (0xD800, 0xDFFF)
_ANYTHING = "/(?s:.*)/"
_SOMETHING = "/(?s:.+)/"


def to_lark(grammar: Grammar, tokens: Mapping[str, int] | None = None) -> str:
    """The grammar as Lark with the start rule ``start``: the same language, or one that includes it (see above).

    tokens: the ids of control tokens. Raises: GrammarError for bytes that are no UTF-8 and for control tokens that
    cannot be named, LimitError for nodes that are nested too deep.
    """
    plain = PlainGrammar(grammar, _LEXING)
    lexed = cut(plain.rules, grammar.start)
    if lexed is None:
        plain = PlainGrammar(grammar, _NOTATION)
        return _rules(plain, _CharacterPrinter(plain, tokens or {}))
    plain.rules = lexed.rules
    printer = _LexemePrinter(plain, tokens or {}, lexed)
    return _rules(plain, printer) + printer.terminals()


def _rules(plain: PlainGrammar, printer: _LarkPrinter) -> str:
    return "".join(f"{name}: {body}\n" for name, body in plain.written(printer.body))


class _LarkPrinter(Printer):
    def __init__(self, grammar: PlainGrammar, tokens: Mapping[str, int]) -> None:
        super().__init__(grammar)
        self._tokens = tokens

    def literal(self, text: str) -> str:
        return json.dumps(text, ensure_ascii=False)

    def char_class(self, ranges: tuple[tuple[int, int], ...]) -> str:
        parts: list[str] = []
        for low, high in ranges:
            for first, last in ((low, min(high, _SURROGATES[0] - 1)), (max(low, _SURROGATES[1] + 1), high)):
                if first <= last:
                    parts.append(_point(first) if first == last else f"{_point(first)}-{_point(last)}")
        return f"/[{''.join(parts)}]/"

    def any_char(self) -> str:
        return "/(?s:.)/"

    def control(self, text: str) -> str:
        if text in self._tokens:
            return f"<[{self._tokens[text]}]>"
        if _NAMED_TOKEN.fullmatch(text):
            return text
        raise GrammarError(
            f"the control token {text!r} cannot be named in this notation: give its id", rule=self.grammar.current
        )


class _CharacterPrinter(_LarkPrinter):
    """Every terminal is one character."""

    def literal(self, text: str) -> str:
        return " ".join(json.dumps(char, ensure_ascii=False) for char in text) or '""'

    def unit(self, node: Node) -> str:
        several = isinstance(node, Literal) and len(node.data) > 1
        return f"({self.atom(node)})" if several else self.atom(node)


class _LexemePrinter(_LarkPrinter):
    """Terminals are lexemes; the rules that these refer to are terminals as well."""

    def __init__(self, grammar: PlainGrammar, tokens: Mapping[str, int], lexed: Lexemes) -> None:
        super().__init__(grammar, tokens)
        self._lexed = lexed
        self._parts: dict[str, str] = {}  # rule -> terminal
        self._work: list[str] = []
        self._in_terminals = False

    def reference(self, rule: str) -> str:
        if rule.startswith(MARK):
            return f"L{self._lexed.at[int(rule[len(MARK) :])]}"
        return self._part(rule) if self._in_terminals else self.grammar.name(rule)

    def without(self, item: Node, forbidden: tuple[str, ...]) -> str:
        words = " | ".join(map(self.literal, forbidden))
        return f"({self.atom(item)} & ~({_ANYTHING} ({words}) {_ANYTHING}))"

    def terminals(self) -> str:
        """The lexemes and what they refer to. An empty text is no lexeme."""
        self._in_terminals = True
        lines = [
            f"L{number}: ({self.body(node)}) & {_SOMETHING}\n"
            if nullable(node, self._lexed.regular)
            else f"L{number}: {self.body(node)}\n"
            for number, node in enumerate(self._lexed.nodes)
        ]
        while self._work:
            rule = self._work.pop()
            lines.append(f"{self._parts[rule]}: {self.body(self._lexed.regular[rule])}\n")
        return "".join(lines)

    def _part(self, rule: str) -> str:
        if rule not in self._parts:
            self._parts[rule] = "P_" + self.grammar.name(rule).upper()
            self._work.append(rule)
        return self._parts[rule]


def _point(code: int) -> str:
    char = chr(code)
    return char if char.isascii() and char.isalnum() else f"\\x{{{code:X}}}"
