"""A learned profile and a request become one grammar, to read with and to write with."""

from __future__ import annotations

from dragoman.dialect.reader.turn import reader_rules
from dragoman.dialect.request import DialectRequest
from dragoman.dialect.spaces import SPACE_OF_TOKENIZER, spaced_controls
from dragoman.dialect.writer.turn import writer_rules
from dragoman.grammar.nodes import Duplex, Grammar, Node, Ref, seq
from dragoman.template.profile import Profile


def build(
    profile: Profile,
    request: DialectRequest,
    *,
    controls: frozenset[str] = frozenset(),
    spaces: bool = False,
    write: bool = True,
) -> Grammar:
    """The grammar of one turn: rule ``turn`` reads it, rule ``write`` is what may be written.

    controls: texts that are single control tokens of the vocabulary. Give them where tokens are read or written; a turn
    that is read as text needs none. spaces: the vocabulary puts a space in front of each stretch of text. write: False
    leaves the writer out, so that a turn is still read whose tools the format cannot enforce.
    Raises: SchemaError for tools and answers that the format cannot carry.
    """
    reading, recovery = reader_rules(profile, request, controls)
    rules: dict[str, Node] = {"root": Ref("turn"), **reading}
    if write:
        rules |= {"root": Duplex(Ref("turn"), Ref("write")), **writer_rules(profile, request, controls)}
    if spaces:
        rules = {name: spaced_controls(node) for name, node in rules.items()}
        if request.after_control:
            rules["root"] = seq(SPACE_OF_TOKENIZER, rules["root"])
    return Grammar(rules=rules, start="root", recovery=recovery)
