"""Writes a lowered writer grammar as the EBNF of xgrammar: GBNF's look, without its dot and its limits.

What it cannot say is written coarser (see :mod:`dragoman.grammar.notation.plain`), and a control token is its text.
"""

from __future__ import annotations

from dragoman.grammar.nodes import Grammar, complement
from dragoman.grammar.notation.plain import Notation, PlainGrammar
from dragoman.grammar.notation.printing import Printer

_NOTATION = Notation("root", separator="_")
_ANY = complement(()).ranges


def to_ebnf(grammar: Grammar) -> str:
    """The grammar as EBNF with the start rule ``root``: the same language, or one that includes it (see above).

    Raises: GrammarError for bytes that are no UTF-8, LimitError for nodes that are nested too deep.
    """
    plain = PlainGrammar(grammar, _NOTATION)
    return "".join(f"{name} ::= {body}\n" for name, body in plain.written(_EbnfPrinter(plain).body))


class _EbnfPrinter(Printer):
    def literal(self, text: str) -> str:
        return '"' + "".join(_char(ord(char), '"\\') for char in text) + '"'

    def char_class(self, ranges: tuple[tuple[int, int], ...]) -> str:
        special = '"\\[]^-'
        parts = (
            _char(low, special) if low == high else f"{_char(low, special)}-{_char(high, special)}"
            for low, high in ranges
        )
        return f"[{''.join(parts)}]"

    def any_char(self) -> str:
        return self.char_class(_ANY)


def _char(point: int, special: str) -> str:
    """One character between quotes or brackets. Never ``\\x``: it takes as many hexadecimal digits as follow."""
    char = chr(point)
    if char in special:
        return "\\" + char
    if 0x20 <= point < 0x7F:
        return char
    return f"\\u{point:04X}" if point < 0x10000 else f"\\U{point:08X}"
