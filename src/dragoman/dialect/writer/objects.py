"""Writing values whose objects and arrays are not JSON: by their schema, in a notation of the format's own.

Rules of this file: declared members in declared order; what the notation cannot carry is refused by its pointer; a
schema that refers to itself becomes a rule that refers to itself.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any, Protocol

from dragoman.chat_schema import declared_types, resolve
from dragoman.errors import SchemaError
from dragoman.grammar.nodes import EMPTY, AnyChar, Class, Node, Ref, Repeat, Without, alt, lit, opt, schema, seq
from dragoman.template.profile import ObjectSyntax

_ANNOTATIONS = frozenset(
    {"title", "description", "default", "examples", "$comment", "$schema", "$id", "deprecated", "readOnly", "writeOnly"}
)
_SHARED = _ANNOTATIONS | {"type", "enum", "const", "$defs", "definitions", "nullable"}
_OBJECT_WORDS = _SHARED | {"properties", "required", "additionalProperties"}
_ARRAY_WORDS = _SHARED | {"items", "minItems", "maxItems"}
_STRING_WORDS = _SHARED | {"minLength", "maxLength"}
_ANY = ("string", "number", "boolean", "null", "object", "array")
_LETTERS = Class(((0x41, 0x5A), (0x5F, 0x5F), (0x61, 0x7A)))
_KEY = seq(_LETTERS, Repeat(Class(((0x30, 0x39), (0x41, 0x5A), (0x5F, 0x5F), (0x61, 0x7A))), 0, 31))


class Notation(Protocol):
    """How one format spells strings and containers. ``others``: the further types that the value might have."""

    def string(self, text: Node | None, wanted: Any, others: Sequence[str], pointer: str) -> Node: ...
    def constant(self, value: Any, others: Sequence[str], pointer: str) -> Node: ...
    def key(self, key: str, pointer: str) -> Node: ...
    def member(self, key: Node, value: Node) -> Node: ...
    def item(self, value: Node) -> Node: ...
    def around(self, kind: str, inside: Node) -> Node: ...
    @property
    def between(self) -> Node: ...
    @property
    def free_key(self) -> Node: ...


class TreeWriter:
    """Values by their schema in one notation. ``rules`` collects the rules that the nodes refer to."""

    def __init__(self, notation: Notation) -> None:
        self.notation = notation
        self.rules: dict[str, Node] = {}
        self._names: dict[int, str] = {}
        self._kept: list[Any] = []  # keeps schemas alive while their ids are names

    def value(self, wanted: Any, root: Any, pointer: str, others: Sequence[str] = ()) -> Node:
        """A value that the schema allows."""
        wanted = resolve(wanted, root) if isinstance(wanted, Mapping) else wanted
        if not isinstance(wanted, Mapping) or not set(wanted) - _ANNOTATIONS - {"$defs", "definitions"}:
            return self._anything(root, pointer)
        known = self._names.get(id(wanted))
        if known is None:
            known = f"write.tree.{len(self._names)}"
            self._names[id(wanted)] = known
            self._kept.append(wanted)
            self.rules[known] = EMPTY  # holds the place: a schema may refer to itself
            self.rules[known] = self._one_of(wanted, root, pointer, others)
        return Ref(known)

    def _anything(self, root: Any, pointer: str) -> Node:
        name = "write.tree.any"
        if name not in self.rules:
            self.rules[name] = EMPTY
            self.rules[name] = alt(*(self._typed(kind, {}, root, pointer, _ANY) for kind in _ANY))
        return Ref(name)

    def _one_of(self, wanted: Mapping[str, Any], root: Any, pointer: str, others: Sequence[str]) -> Node:
        for keyword in ("anyOf", "oneOf", "allOf"):
            parts = wanted.get(keyword)
            if isinstance(parts, Sequence) and parts:
                if set(wanted) - _ANNOTATIONS - {keyword, "type", "$defs"} or (keyword == "allOf" and len(parts) > 1):
                    raise SchemaError(
                        f"{keyword!r} beside other keywords cannot be enforced in this format",
                        pointer=f"{pointer}/{keyword}",
                        param="tools",
                    )
                types = (*others, *declared_types(wanted, root))
                return alt(
                    *(self.value(part, root, f"{pointer}/{keyword}/{at}", types) for at, part in enumerate(parts))
                )
        listed = [wanted["const"]] if "const" in wanted else wanted.get("enum")
        types = tuple(sorted(declared_types(wanted, root))) or _ANY
        beside = (*others, *types)
        if isinstance(listed, Sequence) and not isinstance(listed, str):
            return alt(*(self.notation.constant(item, _apart(beside, "string"), pointer) for item in listed))
        return alt(*(self._typed(kind, wanted, root, pointer, beside) for kind in types))

    def _typed(self, kind: str, wanted: Mapping[str, Any], root: Any, pointer: str, beside: Sequence[str]) -> Node:
        if kind == "string":
            _refuse(wanted, _STRING_WORDS, beside, pointer)
            least, most = int(wanted.get("minLength", 0)), wanted.get("maxLength")
            text = Repeat(AnyChar(), least, None if most is None else int(most))
            limited = least > 0 or most is not None
            return self.notation.string(text if limited else None, wanted, _apart(beside, "string"), pointer)
        if kind == "object":
            return self._object(wanted, root, pointer, beside)
        if kind == "array":
            return self._array(wanted, root, pointer, beside)
        own = {word: value for word, value in wanted.items() if word not in _ANNOTATIONS}
        return schema({**own, "type": kind}, Ref("json.value"))

    def _object(self, wanted: Mapping[str, Any], root: Any, pointer: str, beside: Sequence[str]) -> Node:
        _refuse(wanted, _OBJECT_WORDS, beside, pointer)
        properties = wanted.get("properties")
        required = set(wanted.get("required") or ())
        if isinstance(properties, Mapping) and properties:
            if missing := required - set(properties):
                raise SchemaError(f"{min(missing)!r} is required but not declared", pointer=f"{pointer}/required")
            return self.notation.around("object", self.members(properties, required, root, pointer))
        further = wanted.get("additionalProperties", True)
        if required:
            raise SchemaError("required members have to be declared", pointer=f"{pointer}/required", param="tools")
        if further is False:
            return self.notation.around("object", EMPTY)
        value = self.value({} if further is True else further, root, pointer)
        member = self.notation.member(self.notation.free_key, value)
        # One member: names that the model makes up could otherwise repeat.
        return self.notation.around("object", opt(member))

    def members(self, properties: Mapping[str, Any], required: set[str], root: Any, pointer: str) -> Node:
        """Declared members: the required ones, and any of the others."""
        each = []
        for key, wanted in properties.items():
            at = f"{pointer}/properties/{key.replace('~', '~0').replace('/', '~1')}"
            one = self.notation.member(self.notation.key(key, at), self.value(wanted, root, at))
            each.append((one, key in required))
        name = f"write.tree.members.{len(self.rules)}"
        first: Node = EMPTY
        self.rules[f"{name}.{len(each)}"] = EMPTY
        for number in range(len(each) - 1, -1, -1):
            one, needed = each[number]
            rest = Ref(f"{name}.{number + 1}")
            following = seq(self.notation.between, one, rest)
            self.rules[f"{name}.{number}"] = following if needed else alt(following, rest)
            first = seq(one, rest) if needed else alt(seq(one, rest), first)
        return first

    def _array(self, wanted: Mapping[str, Any], root: Any, pointer: str, beside: Sequence[str]) -> Node:
        _refuse(wanted, _ARRAY_WORDS, beside, pointer)
        item = self.notation.item(self.value(wanted.get("items", {}), root, f"{pointer}/items"))
        least, most = int(wanted.get("minItems", 0)), wanted.get("maxItems")
        more = seq(self.notation.between, item)
        rest = Repeat(more, max(least - 1, 0), None if most is None else max(int(most) - 1, 0))
        inside = seq(item, rest) if most != 0 else EMPTY
        return self.notation.around("array", inside if least > 0 else opt(inside))


class QuotedNotation:
    """Strings in quotes of their own, bare or so quoted keys."""

    free_key: Node = _KEY

    def __init__(self, syntax: ObjectSyntax) -> None:
        self.syntax = syntax
        self.forbidden = tuple({syntax.quote_open.encode(), syntax.quote_close.encode()})

    @property
    def between(self) -> Node:
        return lit(self.syntax.comma)

    def string(self, text: Node | None, wanted: Any, others: Sequence[str], pointer: str) -> Node:
        free = Without(text or Repeat(AnyChar()), self.forbidden)
        return seq(lit(self.syntax.quote_open), free, lit(self.syntax.quote_close))

    def constant(self, value: Any, others: Sequence[str], pointer: str) -> Node:
        return lit(self._spelled(value, pointer))

    def _spelled(self, value: Any, pointer: str) -> str:
        if isinstance(value, str):
            if any(text.decode() in value for text in self.forbidden):
                raise SchemaError(f"the value {value!r} holds the quotes of this format", pointer=pointer)
            return self.syntax.quote_open + value + self.syntax.quote_close
        if isinstance(value, (dict, list)):
            raise SchemaError("an object or array as a constant cannot be enforced in this format", pointer=pointer)
        return json.dumps(value)

    def key(self, key: str, pointer: str) -> Node:
        if not key or key != key.strip() or set(key) & set('\n\r,:{}[]"' + self.syntax.quote_open[:1]):
            raise SchemaError(f"the model's format cannot carry the name {key!r}", pointer=pointer, param="tools")
        return lit(key)

    def member(self, key: Node, value: Node) -> Node:
        quotes = (self.syntax.quote_open, self.syntax.quote_close) if self.syntax.quoted_keys else ("", "")
        return seq(lit(quotes[0]), key, lit(quotes[1] + self.syntax.colon), value)

    def item(self, value: Node) -> Node:
        return value

    def around(self, kind: str, inside: Node) -> Node:
        return seq(lit("{"), inside, lit("}")) if kind == "object" else seq(lit("["), inside, lit("]"))


def _refuse(wanted: Mapping[str, Any], allowed: frozenset[str], beside: Sequence[str], pointer: str) -> None:
    """Refuse keywords that would not be enforced; those of other types that the value may have are theirs."""
    theirs: set[str] = set()
    for kind, words in (("string", _STRING_WORDS), ("object", _OBJECT_WORDS), ("array", _ARRAY_WORDS)):
        theirs |= words if kind in beside else set()
    if {"number", "integer"} & set(beside):
        theirs |= {"minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf"}
    for keyword in wanted:
        if keyword not in allowed and keyword not in theirs:
            raise SchemaError(
                f"{keyword!r} cannot be enforced in this format", pointer=f"{pointer}/{keyword}", param="tools"
            )


def _apart(types: Sequence[str], kind: str) -> tuple[str, ...]:
    return tuple(dict.fromkeys(one for one in types if one != kind))
