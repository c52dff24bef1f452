"""Writes a lowered writer grammar as GBNF, the notation of llama.cpp.

What GBNF cannot say is written coarser (see :mod:`dragoman.grammar.notation.plain`), and a control token is its text.
U+0000 cannot be written.
"""

from __future__ import annotations

from dragoman.grammar.nodes import Grammar
from dragoman.grammar.notation.plain import Notation, PlainGrammar
from dragoman.grammar.notation.printing import Printer

# llama.cpp treats {0,2000} as unbounded and refuses more; below, a count costs nothing.
REPEAT_MAX = 1_999
_NOTATION = Notation("root", repeat_max=REPEAT_MAX)
_ESCAPES = {"\t": "\\t", "\r": "\\r", "\n": "\\n"}


def to_gbnf(grammar: Grammar) -> str:
    """The grammar as GBNF with the start rule ``root``: the same language, or one that includes it (see above).

    Raises: GrammarError for bytes that are no UTF-8, LimitError for nodes that are nested too deep.
    """
    plain = PlainGrammar(grammar, _NOTATION)
    return "".join(f"{name} ::= {body}\n" for name, body in plain.written(GbnfPrinter(plain).body))


class GbnfPrinter(Printer):
    def literal(self, text: str) -> str:
        return '"' + "".join(_char(ord(char), '"\\') for char in text) + '"'

    def char_class(self, ranges: tuple[tuple[int, int], ...]) -> str:
        """A class; U+0000 ends a text in llama.cpp, so it is left out."""
        special = '"\\[]^-'
        parts = []
        for low, high in ranges:
            low = max(low, 1)
            if low < high:
                parts.append(f"{_char(low, special)}-{_char(high, special)}")
            elif low == high:
                parts.append(_char(low, special))
        return f"[{''.join(parts)}]"

    def any_char(self) -> str:
        return "."


def _char(point: int, special: str) -> str:
    """One character as GBNF writes it between quotes or brackets."""
    char = chr(point)
    if char in '\\"[]' and char in special:
        return "\\" + char
    if char in _ESCAPES:
        return _ESCAPES[char]
    if 0x20 <= point < 0x7F and char not in special:
        return char
    if point < 0x100:
        return f"\\x{point:02X}"
    if char.isprintable():
        return char
    return f"\\u{point:04X}" if point < 0x10000 else f"\\U{point:08X}"
