"""What a grammar allows behind a text that is written already: an engine's grammar starts with its first token."""

from __future__ import annotations

from dataclasses import replace

from dragoman.errors import GrammarError
from dragoman.grammar.nodes import EMPTY, Choice, Control, Grammar, Literal, Node, Ref, Sequence, alt, seq

_FRESH = "rest"


def behind(grammar: Grammar, text: bytes) -> Grammar:
    """The texts that the grammar allows behind ``text``, which its literals and control tokens spell.

    Raises: GrammarError where they do not.
    """
    if not text:
        return grammar
    found = _behind(grammar, Ref(grammar.start), text)
    if not found:
        raise GrammarError(f"no text of the grammar begins with {text!r}", rule=grammar.start)
    start = next(name for n in range(len(grammar.rules) + 1) if (name := f"{_FRESH}{n or ''}") not in grammar.rules)
    return replace(grammar, rules={**grammar.rules, start: alt(*(node for node, _ in found))}, start=start)


def _behind(grammar: Grammar, node: Node, text: bytes) -> list[tuple[Node, bytes]]:
    """(what is left of ``node``, what is left of ``text``) for each way to read one to its end; only whole reads."""
    return [(rest, left) for rest, left in _cut(grammar, node, text) if not left]


def _cut(grammar: Grammar, node: Node, text: bytes) -> list[tuple[Node, bytes]]:
    """Like :func:`_behind`; where ``text`` goes on behind ``node``, nothing is left of the node."""
    match node:
        case Literal(data):
            if text.startswith(data):
                return [(EMPTY, text[len(data) :])]
            return [(Literal(data[len(text) :]), b"")] if data.startswith(text) else []
        case Control(name):
            return [(EMPTY, text[len(name.encode()) :])] if text.startswith(name.encode()) else []
        case Ref(name):
            return _cut(grammar, grammar.rules[name], text)
        case Choice(items):
            return [found for item in items for found in _cut(grammar, item, text)]
        case Sequence(items):
            ways: list[tuple[Node, bytes]] = [(EMPTY, text)]
            for at, item in enumerate(items):
                done = [(rest, left) for rest, left in ways if not left]
                going = [cut for _, left in ways if left for cut in _cut(grammar, item, left)]
                ways = [(seq(rest, item), left) for rest, left in done] + going
                if not going:
                    return [(seq(rest, *items[at + 1 :]), left) for rest, left in ways]
            return ways
    return []
