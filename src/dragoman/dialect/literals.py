"""Reading values that end by themselves: JSON and Python literals, mixed as models mix them."""

from __future__ import annotations

from string import ascii_letters, digits

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
_WORD = Repeat(chars("_" + ascii_letters + digits), min=1)
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


def odd_rules() -> dict[str, Node]:
    """``odd.members``: the rest of an object behind its brace whose first key has the quotes of Python or none; what
    follows is JSON or Python. ``odd.key``: a plain string in the quotes of Python."""
    member, value, rest = Ref("odd.member"), Ref("odd.value"), Ref("odd.rest")
    text = seq(lit("'"), Repeat(alt(complement(chars("'\\").ranges), _ESCAPE)), lit("'"))
    string = alt(Ref("json.string"), text)
    items = seq(value, Repeat(seq(lit(","), GAP, value)), opt(seq(lit(","), GAP)))
    return {
        "odd.key": seq(lit("'"), Repeat(complement(chars("'\"\\\n").ranges)), lit("'")),
        "odd.members": seq(alt(Ref("odd.key"), _WORD), Ref("odd.behind_key"), rest),
        "odd.rest": alt(seq(lit(","), GAP, alt(seq(member, rest), lit("}"))), lit("}")),
        "odd.member": seq(alt(string, _WORD), Ref("odd.behind_key")),
        "odd.behind_key": seq(GAP, lit(":"), GAP, value),
        "odd.value": seq(
            alt(
                string,
                seq(lit("{"), GAP, alt(seq(member, rest), lit("}"))),
                seq(lit("["), GAP, opt(items), lit("]")),
                _BARE,
            ),
            GAP,
        ),
    }


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
