"""Reading an object or array that is the value of a tagged argument: a closer inside one of its strings is text.

JSON and Python literals, mixed as models mix them. Text behind such a closer waits for the end of its string, within
the line; where the string has none, reading goes on in front of the closer with other rules. Everything else is read
as it comes.
"""

from __future__ import annotations

from dragoman.dialect.literals import STRING_PREFIX
from dragoman.dialect.markers import GAP
from dragoman.grammar.nodes import (
    AnyChar,
    Commit,
    Negate,
    Node,
    Ref,
    Repeat,
    Tag,
    alt,
    chars,
    complement,
    lit,
    opt,
    seq,
)

# Two ways that read the same text and tell it differently: until one of them is gone, nothing of it is delivered.
_HELD = "held"
_ESCAPE = seq(lit("\\"), AnyChar())
_BARE_ENDS = " \t\r\n\"'()[]{},:=\\<>"


def container(prefix: str, label: str) -> Node:
    """An object or array by the rules of :func:`container_rules`. From its bracket on nothing else is tried: where it
    breaks, the recovery point ``label`` goes on."""
    return alt(
        seq(lit("{"), Commit(label), Ref(f"{prefix}container.members")),
        seq(lit("["), Commit(label), Ref(f"{prefix}container.items")),
    )


def container_rules(prefix: str, closer: str) -> dict[str, Node]:
    """The rests of an object and of an array behind their brackets. closer: the text that may stand in strings; empty
    where it is a control token, which no string holds."""
    value, pair = Ref(f"{prefix}container.value"), Ref(f"{prefix}container.pair")
    one = seq(STRING_PREFIX, alt(_string('"', closer), _string("'", closer)))
    string = seq(one, Repeat(seq(GAP, one)))
    bare = Repeat(complement(chars(_BARE_ENDS + closer[:1]).ranges), min=1)
    return {
        f"{prefix}container.members": _listed(pair, "}"),
        f"{prefix}container.items": _listed(seq(value, GAP), "]"),
        f"{prefix}container.pair": seq(alt(string, bare), GAP, lit(":"), GAP, value, GAP),
        f"{prefix}container.value": alt(
            string,
            seq(lit("{"), Ref(f"{prefix}container.members")),
            seq(lit("["), Ref(f"{prefix}container.items")),
            seq(lit("("), _listed(seq(value, GAP), ")")),
            bare,
        ),
    }


def _listed(item: Node, closes: str) -> Node:
    """Items and the closing bracket; a comma may follow the last one."""
    comma = seq(lit(","), GAP)
    return seq(GAP, opt(seq(item, Repeat(seq(comma, item)), opt(comma))), lit(closes))


def _string(quote: str, closer: str) -> Node:
    plain = complement(chars(quote + "\\" + closer[:1]).ranges)
    if not closer:
        return seq(lit(quote), Repeat(alt(plain, _ESCAPE)), lit(quote))
    other = seq(Negate(lit(closer)), lit(closer[:1]))
    line = Repeat(alt(complement(chars(quote + "\\\n").ranges), _ESCAPE))
    held = seq(lit(closer), line, lit(quote))
    return seq(lit(quote), Repeat(alt(plain, _ESCAPE, other)), alt(lit(quote), held, Tag(_HELD, held)))
