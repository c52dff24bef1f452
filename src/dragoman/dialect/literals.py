"""Reading values that end by themselves: JSON and Python literals, mixed as models mix them."""

from __future__ import annotations

from dragoman.dialect.markers import GAP
from dragoman.grammar.nodes import AnyChar, Node, Ref, Repeat, alt, chars, complement, lit, opt, seq
from dragoman.template.profile import Marker

# What ends the name of an argument in front of a literal.
KEY_ENDS = " \t\n\r'\"()[]{},<>"
# Between two values where a template forgets to write anything.
COMMA = Marker("", ",", " ")
_VALUE = Ref("literal.value")
_ESCAPE = seq(lit("\\"), AnyChar())
# Numbers and words (true, True, None, -1.5e3): anything that neither nests nor ends a value.
_BARE = Repeat(complement(chars(" \t\r\n\"'()[]{},:=\\<>").ranges), min=1)


def literal_rules() -> dict[str, Node]:
    """The rule ``literal.value`` and what it needs."""
    item = seq(_VALUE, GAP)
    member = seq(_VALUE, GAP, lit(":"), GAP, _VALUE, GAP)
    nested = alt(_listed("[", item, "]"), _listed("(", item, ")"), _listed("{", member, "}"))
    return {"literal.value": alt(_quoted("'"), _quoted('"'), nested, _BARE)}


def _quoted(quote: str) -> Node:
    return seq(lit(quote), Repeat(alt(complement(chars(quote + "\\").ranges), _ESCAPE)), lit(quote))


def _listed(opens: str, item: Node, closes: str) -> Node:
    """Items between brackets; a comma may follow the last one."""
    comma = seq(lit(","), GAP)
    return seq(lit(opens), GAP, opt(seq(item, Repeat(seq(comma, item)), opt(comma))), lit(closes))
