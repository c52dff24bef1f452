"""Reading values that are written in an object notation that is not JSON: own quotes, bare keys.

The notation tells the type of every value, so no schema is asked. A string ends at its closing quote, at once.
"""

from __future__ import annotations

from dragoman.dialect.markers import GAP, SPACES, TEXT, marker, run_of
from dragoman.grammar.json import PLAIN
from dragoman.grammar.nodes import AnyChar, Class, Commit, Node, Ref, Repeat, Tag, alt, chars, lit, opt, seq
from dragoman.template.profile import ObjectSyntax

_VALUE = Ref("syntax.value")
_JSON_CHARS = Repeat(alt(Class(PLAIN), seq(lit("\\"), AnyChar())))
_MARKS = ",:{}[]"


def syntax_rules(syntax: ObjectSyntax, controls: frozenset[str]) -> dict[str, Node]:
    """The rule ``syntax.value``: one value in this notation. Strings in JSON's own quotes are read too."""
    opened, closed = marker(syntax.quote_open, controls), marker(syntax.quote_close, controls)
    string = seq(opened, Tag("value.string", TEXT), closed, Commit("body"))
    json_string = Tag("value.json", seq(lit('"'), _JSON_CHARS, lit('"')))
    ends = syntax.quote_open[:1] + syntax.comma.strip()[:1]
    first = run_of(SPACES + _MARKS + '"' + ends)
    bare = Tag("value.json", seq(first, opt(run_of(_MARKS + ends))))
    member = Tag("arg", seq(syntax_key(syntax, controls), GAP, marker(syntax.colon.strip(), controls), GAP, _VALUE))
    return {
        "syntax.value": alt(
            string,
            Tag("value.object", _listed("{", member, syntax.comma.strip(), "}", controls)),
            Tag("value.array", _listed("[", _VALUE, syntax.comma.strip(), "]", controls)),
            json_string,
            bare,
        )
    }


def syntax_key(syntax: ObjectSyntax, controls: frozenset[str]) -> Node:
    """A key: bare, or in quotes of either kind."""
    quoted = seq(marker(syntax.quote_open, controls), Tag("key", TEXT), marker(syntax.quote_close, controls))
    json_key = seq(lit('"'), Tag("key.json", _JSON_CHARS), lit('"'))
    # White space in front of the colon is layout, between words of a key it is the key's.
    word = run_of(SPACES + _MARKS + '"' + syntax.quote_open[:1] + syntax.colon.strip()[:1])
    bare = Tag("key", seq(word, Repeat(seq(Repeat(chars(" \t"), min=1), word))))
    return alt(bare, quoted, json_key)


def _listed(opens: str, item: Node, comma: str, closes: str, controls: frozenset[str]) -> Node:
    """Items between brackets; a comma may follow the last one."""
    between = seq(GAP, marker(comma, controls), GAP)
    items = seq(item, Repeat(seq(between, item)), opt(between))
    return seq(lit(opens), GAP, opt(items), GAP, lit(closes))
