"""Reading values that end by themselves: JSON and Python literals, mixed as models mix them."""

from __future__ import annotations

from dragoman.dialect.markers import GAP
from dragoman.grammar.nodes import AnyChar, Negate, Node, Ref, Repeat, alt, chars, complement, lit, opt, seq
from dragoman.template.profile import Marker

# What ends the name of an argument in front of a literal.
KEY_ENDS = " \t\n\r'\"()[]{},<>"
# Between two values where a template forgets to write anything.
COMMA = Marker("", ",", " ")
# Letters in front of a Python string.
STRING_PREFIX = Repeat(chars("rRbBfFuU"), 0, 2)
_VALUE = Ref("literal.value")
_ESCAPE = seq(lit("\\"), AnyChar())
# Numbers and words (true, True, None, -1.5e3): anything that neither nests nor ends a value.
_BARE = Repeat(complement(chars(" \t\r\n\"'()[]{},:=\\<>").ranges), min=1)


def literal_rules() -> dict[str, Node]:
    """The rule ``literal.value`` and what it needs."""
    item = seq(_VALUE, GAP)
    member = seq(_VALUE, GAP, lit(":"), GAP, _VALUE, GAP)
    nested = alt(_listed("[", item, "]"), _listed("(", item, ")"), _listed("{", member, "}"))
    # A string and others behind it, which go on with it.
    string = alt(_quoted("'"), _quoted('"'))
    return {"literal.value": alt(seq(string, Repeat(seq(GAP, string))), nested, _BARE)}


def _quoted(quote: str) -> Node:
    """One string; three quotes end where the next three are."""
    char = complement(chars(quote + "\\").ranges)
    inside = seq(Repeat(alt(char, _ESCAPE)), lit(quote))
    inner = alt(char, _ESCAPE, seq(Negate(lit(quote * 3)), lit(quote)))
    tripled = seq(lit(quote * 3), Repeat(inner), lit(quote * 3))
    return seq(STRING_PREFIX, alt(tripled, seq(lit(quote), Negate(lit(quote * 2)), inside)))


def _listed(opens: str, item: Node, closes: str) -> Node:
    """Items between brackets; a comma may follow the last one."""
    comma = seq(lit(","), GAP)
    return seq(lit(opens), GAP, opt(seq(item, Repeat(seq(comma, item)), opt(comma))), lit(closes))
