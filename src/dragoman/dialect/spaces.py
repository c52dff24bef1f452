"""The space that some tokenizers put in front of every stretch of text: it may stand behind each control token.

Such a model was trained on ``[TOOL_CALLS]`` and ``▁name``, so it writes that space; it belongs to the marker and not to
what follows. It may be missing too: tokenizers disagree about text that begins with a space anyway.
"""

from __future__ import annotations

from dataclasses import replace

from dragoman.grammar.nodes import (
    EMPTY,
    Atomic,
    Choice,
    Control,
    Duplex,
    Negate,
    Node,
    Peek,
    Permutation,
    Repeat,
    Schema,
    Sequence,
    Tag,
    UntilConfirmed,
    Without,
    alt,
    lit,
    seq,
)

SPACE_OF_TOKENIZER = alt(lit(" "), EMPTY)


def spaced_controls(node: Node) -> Node:
    """``node`` with that space behind each control token, except in front of another one."""
    match node:
        case Control():
            return seq(node, SPACE_OF_TOKENIZER)
        case Sequence(items):
            following = (*items[1:], None)
            return seq(
                *(
                    item if isinstance(item, Control) and isinstance(after, Control) else spaced_controls(item)
                    for item, after in zip(items, following, strict=True)
                )
            )
        case Choice(items):
            return replace(node, items=tuple(map(spaced_controls, items)))
        case Permutation(items, _, separator):
            return replace(node, items=tuple(map(spaced_controls, items)), separator=spaced_controls(separator))
        case Duplex(reader, writer):
            return Duplex(spaced_controls(reader), spaced_controls(writer))
        case Schema(_, reader):
            return replace(node, reader=spaced_controls(reader))
        case UntilConfirmed(_, follow):
            return replace(node, follow=spaced_controls(follow))
        case Repeat(item) | Without(item) | Peek(item) | Negate(item) | Tag(_, item) | Atomic(item):
            return replace(node, item=spaced_controls(item))
    return node
