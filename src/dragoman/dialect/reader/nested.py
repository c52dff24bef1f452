"""Reading arguments whose key is the tag, and whose objects and arrays are such tags again.

Only the schema tells a string from an object here, so the declared types decide how a value is read; where they leave
it open, a next opener decides. What settles an opener is its whole tag: closers may begin with the same text.
Behind a value that holds no text of the model's own (numbers, objects, arrays) damage is told from data: a closer that
is missing, doubled or of another key, and text that belongs to nothing, are told as ``stray``, and reading goes on.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from dragoman.chat_schema import declared_types, item_schema, parameter_schema, resolve, value_kind
from dragoman.dialect.markers import GAP, SOME_TEXT, TEXT, marker, other_than, run_of
from dragoman.grammar.nodes import EMPTY, AnyChar, Commit, Negate, Node, Ref, Repeat, Tag, alt, lit, seq
from dragoman.template.profile import NestedTags

_ANY = Ref("nested.any")
_DEPTH = 8
# Text that belongs to no argument; a closer that is not there.
STRAY = Tag("stray", SOME_TEXT)
UNCLOSED = Tag("stray", EMPTY)


@dataclass(frozen=True, slots=True)
class _Value:
    """Ways to read one value, by what may stand behind it.

    told: it ends by itself; empty: an empty object or array; text: what only its closer ends. unclosed: the closer of
    what is told may be missing; textless: so may another's be there instead, as nothing inside it is text.
    """

    told: tuple[Node, ...] = ()
    empty: tuple[Node, ...] = ()
    text: tuple[Node, ...] = ()
    unclosed: bool = False
    textless: bool = False


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
        self.scalar = Repeat(seq(Negate(alt(self.open, self.end_open)), AnyChar()))

    def rules(self) -> dict[str, Node]:
        """The rule of values of which nothing is declared."""
        ways: list[Node] = []
        if self.tags.item:
            ways = [Tag("value.array", self._items(None, None, _DEPTH)[0])]
            ways.append(Tag("value.object", self._members(None, None, _DEPTH)))
        return {"nested.any": alt(*ways, Tag("value.typed", TEXT))}

    def members(self, declared: Any, root: Any, depth: int = 0) -> Node:
        """One member of an object with this schema, its ``arg`` region around it."""
        keys = list(dict.fromkeys(_properties(declared, root)))
        ways = [
            self._element(lit(key), "key", self._value(parameter_schema(declared, key, root), root, depth + 1))
            for key in keys
            if not set(key) & set(self.key_ends)
        ]
        other = other_than(keys, self.key_ends, (self.tags.close,), self.controls) if keys else run_of(self.key_ends)
        return Tag("arg", alt(*ways, self._element(other, "key", _Value(text=(_ANY,)))))

    def _value(self, wanted: Any, root: Any, depth: int) -> _Value:
        """A value with this schema, up to its closing tag."""
        types = declared_types(wanted, root)
        if wanted is None or not types or depth > _DEPTH:
            return _Value(text=(_ANY,))
        region = {"string": "value.string", "json": "value.json"}.get(value_kind(wanted, root), "value.typed")
        if not types & {"object", "array", "string"}:
            return _Value(told=(Tag(region, self.scalar),), unclosed=True, textless=True)
        if not self.tags.item or not types & {"object", "array"}:
            return _Value(text=(Tag(region, TEXT),))
        told: list[Node] = []
        empty: list[Node] = []
        unclosed = textless = "array" not in types
        if "object" in types:
            textless = False
            told.append(Tag("value.object", self._members(wanted, root, depth)))
            empty.append(Tag("value.object", GAP))
        if "array" in types:
            items, unclosed = self._items(wanted, root, depth)
            textless = unclosed and "object" not in types
            told.append(Tag("value.array", items))
            empty.append(Tag("value.array", GAP))
        if "string" in types:
            return _Value(text=(*told, Tag("value.typed", TEXT)))
        text: list[Node] = [Tag("value.typed", SOME_TEXT)]
        if types <= {"object", "array"}:
            text[:0] = [seq(GAP, Tag("value.json", seq(lit(bracket), TEXT))) for bracket in "{["]
        return _Value(tuple(told), tuple(empty), tuple(text), unclosed, textless)

    def _members(self, declared: Any, root: Any, depth: int) -> Node:
        """The members of an object, at least one."""
        return seq(Repeat(seq(GAP, self.members(declared, root, depth)), min=1), GAP)

    def _items(self, declared: Any, root: Any, depth: int) -> tuple[Node, bool]:
        """The items of an array, at least one; and whether none of them is text."""
        wanted = item_schema(declared, root) if declared is not None else None
        value = self._value(wanted, root, depth + 1)
        item = self._element(lit(self.tags.item_key), None, value)
        return seq(Repeat(seq(GAP, item), min=1), GAP), bool(value.told)

    def _element(self, key: Node, tag: str | None, value: _Value) -> Node:
        """One value between its tags, and what is stray behind it."""
        start = seq(self.open, key if tag is None else Tag(tag, key), self.close, Commit("body"))
        end = seq(self.end_open, key, self.end_close)
        ways: list[Node] = []
        if value.told:
            after = seq(end, alt(EMPTY, STRAY))
            behind = [after, seq(STRAY, after)] if value.textless and value.empty else [after]
            if value.unclosed:
                behind.append(UNCLOSED)
            if value.textless:
                behind.append(Tag("stray", seq(Negate(end), self.end_open, TEXT)))
            ways += [seq(alt(*value.told), alt(*behind)), seq(alt(*value.empty), after)]
        return seq(start, alt(*ways, seq(alt(*value.text), end)))


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
