"""Writes a lowered writer grammar in llguidance's dialect of Lark.

llguidance cuts its input into terminals, always the longest, and never goes back; a grammar that is cut otherwise would
lose texts. So every terminal here is one character, and what the grammar's nodes say is said by rules alone. Control
tokens are tokens: by their id where it is known, else by their name in angle brackets.
What it cannot say is written coarser (see :mod:`dragoman.grammar.plain`).
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping

from ..errors import GrammarError
from .nodes import Grammar, Literal, Node
from .plain import Notation, PlainGrammar
from .printing import Printer

_NOTATION = Notation("start", controls=True, separator="_", capitals=False)
_NAMED_TOKEN = re.compile(r"<[^<>\s\[\]]+>")
_SURROGATES = (0xD800, 0xDFFF)


def to_lark(grammar: Grammar, tokens: Mapping[str, int] | None = None) -> str:
    """The grammar as Lark with the start rule ``start``: the same language, or one that includes it (see above).

    tokens: the ids of control tokens. Raises: GrammarError for bytes that are no UTF-8 and for control tokens that
    cannot be named, LimitError for nodes that are nested too deep.
    """
    plain = PlainGrammar(grammar, _NOTATION)
    printer = _LarkPrinter(plain, tokens or {})
    return "".join(f"{name}: {body}\n" for name, body in plain.written(printer.body))


class _LarkPrinter(Printer):
    def __init__(self, grammar: PlainGrammar, tokens: Mapping[str, int]) -> None:
        super().__init__(grammar)
        self._tokens = tokens

    def literal(self, text: str) -> str:
        return " ".join(json.dumps(char, ensure_ascii=False) for char in text) or '""'

    def unit(self, node: Node) -> str:
        several = isinstance(node, Literal) and len(node.data) > 1
        return f"({self.atom(node)})" if several else self.atom(node)

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


def _point(code: int) -> str:
    char = chr(code)
    return char if char.isascii() and char.isalnum() else f"\\x{{{code:X}}}"
