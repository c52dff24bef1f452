"""Writing arguments whose key is the tag: how :class:`~dragoman.dialect.writer.objects.TreeWriter` spells them."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from typing import Any

from dragoman.dialect.markers import marker
from dragoman.errors import SchemaError
from dragoman.grammar.nodes import EMPTY, AnyChar, Node, Repeat, Without, lit, seq
from dragoman.template.profile import NestedTags

# Raw text that is read as a string although the value might be one of these other types.
Unlike = Callable[[Sequence[str]], Node]


class NestedNotation:
    """Members are ``<key>value</key>``, items ``<item>value</item>``; strings are raw text."""

    free_key: Node = lit("value")  # a member is closed by its own key, so one that is made up is always this

    def __init__(
        self,
        tags: NestedTags,
        controls: frozenset[str],
        unlike: Unlike,
        check: Callable[[str, str, Sequence[str]], None],
    ) -> None:
        self.tags = tags
        self.controls = controls
        self.unlike = unlike
        self.check = check
        self.forbidden = (tags.open.encode(), tags.end_open.encode())

    @property
    def between(self) -> Node:
        return EMPTY

    def string(self, text: Node | None, wanted: Any, others: Sequence[str], pointer: str) -> Node:
        if not others:
            return Without(text or Repeat(AnyChar()), self.forbidden)
        if text is not None:
            raise SchemaError("the length of a string beside other types cannot be enforced", pointer=pointer)
        return Without(self.unlike(others), self.forbidden)

    def constant(self, value: Any, others: Sequence[str], pointer: str) -> Node:
        if isinstance(value, str):
            self.check(value, pointer, others)
            return lit(value)
        if isinstance(value, (dict, list)):
            raise SchemaError("an object or array as a constant cannot be enforced in this format", pointer=pointer)
        return lit(json.dumps(value))

    def key(self, key: str, pointer: str) -> Node:
        held = set("\n\r/" + self.tags.close[:1] + self.tags.end_close[:1])
        if not key or key != key.strip() or set(key) & held:
            raise SchemaError(f"the model's format cannot carry the name {key!r}", pointer=pointer, param="tools")
        return lit(key)

    def member(self, key: Node, value: Node) -> Node:
        start = seq(marker(self.tags.open, self.controls), key, marker(self.tags.close, self.controls))
        end = seq(marker(self.tags.end_open, self.controls), key, marker(self.tags.end_close, self.controls))
        return seq(start, value, end)

    def item(self, value: Node) -> Node:
        return self.member(lit(self.tags.item_key), value)

    def around(self, kind: str, inside: Node) -> Node:
        if not self.tags.item:
            raise SchemaError("objects and arrays cannot be enforced in this format", param="tools")
        return inside
