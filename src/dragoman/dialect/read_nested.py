"""Reading arguments whose key is the tag, and whose objects and arrays are such tags again.

Only the schema tells a string from an object here, so the declared types decide how a value is read; where they leave
it open, a next opener decides. What settles an opener is its whole tag: closers may begin with the same text.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from dragoman.chat_schema import declared_types, item_schema, parameter_schema, resolve, value_kind
from dragoman.dialect.markers import GAP, SOME_TEXT, TEXT, marker, other_than, run_of
from dragoman.grammar.nodes import Commit, Node, Ref, Repeat, Tag, alt, lit, seq
from dragoman.template.profile import NestedTags

_ANY = Ref("nested.any")
_DEPTH = 8


class NestedReader:
    """The values of one format with nested tags."""

    def __init__(self, tags: NestedTags, controls: frozenset[str]) -> None:
        self.tags = tags
        self.controls = controls
        self.open = marker(tags.open, controls)
        self.close = marker(tags.close, controls)
        self.end_open = marker(tags.end_open, controls)
        self.end_close = marker(tags.end_close, controls)
        # A closer may be an opener with one more character, which then cannot begin a key.
        further = tags.end_open.removeprefix(tags.open)[:1] if tags.end_open.startswith(tags.open) else ""
        self.key_ends = "\n\r" + tags.close[:1] + tags.end_close[:1] + further

    def rules(self) -> dict[str, Node]:
        """The rule of values of which nothing is declared."""
        ways = [self._items(None, None, _DEPTH, 1), self._object(None, None, _DEPTH, 1)] if self.tags.item else []
        return {"nested.any": alt(*ways, Tag("value.typed", TEXT))}

    def members(self, declared: Any, root: Any, depth: int = 0) -> Node:
        """One member of an object with this schema, its ``arg`` region around it."""
        keys = list(dict.fromkeys(_properties(declared, root)))
        ways = [
            self._element(lit(key), "key", self.value(parameter_schema(declared, key, root), root, depth + 1))
            for key in keys
            if not set(key) & set(self.key_ends)
        ]
        other = other_than(keys, self.key_ends, (self.tags.close,), self.controls) if keys else run_of(self.key_ends)
        return Tag("arg", alt(*ways, self._element(other, "key", _ANY)))

    def value(self, wanted: Any, root: Any, depth: int) -> Node:
        """A value with this schema, up to its closing tag."""
        types = declared_types(wanted, root)
        if wanted is None or not types or depth > _DEPTH:
            return _ANY
        region = {"string": "value.string", "json": "value.json"}.get(value_kind(wanted, root), "value.typed")
        if not self.tags.item or not types & {"object", "array"}:
            return Tag(region, TEXT)
        least = 1 if "string" in types else 0
        ways: list[Node] = []
        if "object" in types:
            ways.append(self._object(wanted, root, depth, least))
        if "array" in types:
            ways.append(self._items(wanted, root, depth, least))
        in_place = [Tag("value.json", seq(lit(bracket), TEXT)) for bracket in "{["]
        if types <= {"object", "array"}:
            return alt(*ways, *(seq(GAP, way) for way in in_place), Tag("value.typed", SOME_TEXT))
        return alt(*ways, Tag("value.typed", TEXT if least else SOME_TEXT))

    def _object(self, declared: Any, root: Any, depth: int, least: int) -> Node:
        return Tag("value.object", seq(Repeat(seq(GAP, self.members(declared, root, depth)), min=least), GAP))

    def _items(self, declared: Any, root: Any, depth: int, least: int) -> Node:
        value = self.value(item_schema(declared, root) if declared is not None else None, root, depth + 1)
        item = self._element(lit(self.tags.item_key), None, value)
        return Tag("value.array", seq(Repeat(seq(GAP, item), min=least), GAP))

    def _element(self, key: Node, tag: str | None, value: Node) -> Node:
        start = seq(self.open, key if tag is None else Tag(tag, key), self.close, Commit("body"))
        return seq(start, value, self.end_open, key, self.end_close)


def _properties(schema: Any, root: Any, depth: int = 0) -> Iterator[str]:
    """The names that a schema or one of its alternatives declares."""
    schema = resolve(schema, root)
    if not isinstance(schema, Mapping) or depth > _DEPTH:
        return
    properties = schema.get("properties")
    yield from (key for key in (properties if isinstance(properties, Mapping) else ()) if key)
    for keyword in ("anyOf", "oneOf", "allOf"):
        parts = schema.get(keyword)
        for part in parts if isinstance(parts, list) else ():
            yield from _properties(part, root, depth + 1)
