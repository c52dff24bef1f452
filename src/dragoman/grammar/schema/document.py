"""A schema document: places in it, ``$ref``, and the check of every keyword that is met.

A place is a number; equal pointers have equal numbers, so sets of places name goals and recursion closes on itself.
"""

from __future__ import annotations

from typing import Any
from urllib.parse import unquote

from ...errors import LimitError, SchemaError
from ...limits import Limits
from .keywords import (
    ANNOTATIONS,
    APPLICATORS,
    EMPTY_ASSERTIONS,
    ENFORCED,
    FORMS,
    REFUSED,
    ROOT_ONLY,
    STRING_FORMATS,
    TYPES,
    VALUES,
    is_schema,
)

ROOT = 0


class Document:
    """One schema and its places. Grows as places are visited; nothing that no place leads to is looked at."""

    def __init__(self, schema: Any, limits: Limits) -> None:
        self._limit = limits.schema_nodes
        self._values: list[Any] = [schema]
        self._parents: list[tuple[int, str | int]] = [(-1, "")]
        self._children: dict[tuple[int, str | int], int] = {}
        self._checked: set[int] = set()
        self._refs: dict[int, int] = {}
        self.listed: dict[
            int, frozenset[str]
        ] = {}  # place -> canonical texts of the values that it lists, if it was asked
        self.one_of: set[int] = set()  # places whose oneOf was taken for anyOf

    def schema(self, place: int) -> dict[str, Any] | bool:
        """The schema at ``place``, with the form of its keywords checked."""
        value = self._values[place]
        if place not in self._checked:
            if not is_schema(value):
                raise self.error(place, f"a schema is an object or a boolean, not {value!r:.60}")
            if isinstance(value, dict):
                self._check(place, value)
            self._checked.add(place)
        return value  # type: ignore[no-any-return]

    def child(self, place: int, *path: str | int) -> int:
        """The place below ``place``."""
        for key in path:
            known = self._children.get((place, key))
            if known is None:
                known = len(self._values)
                if known >= self._limit:
                    raise LimitError("the schema is too large", bound="schema_nodes", limit=self._limit)
                self._values.append(self._values[place][key])
                self._parents.append((place, key))
                self._children[place, key] = known
            place = known
        return place

    def pointer(self, place: int, *path: str | int) -> str:
        """The JSON pointer of a place, or of what is below it."""
        keys: list[str | int] = list(reversed(path))
        while place != ROOT:
            place, key = self._parents[place]
            keys.append(key)
        return "".join("/" + str(key).replace("~", "~0").replace("/", "~1") for key in reversed(keys))

    def error(self, place: int, message: str, *path: str | int) -> SchemaError:
        return SchemaError(message, pointer=self.pointer(place, *path))

    def target(self, place: int) -> int:
        """The place that the ``$ref`` of the schema at ``place`` leads to."""
        if place not in self._refs:
            self._refs[place] = self._resolve(place, self._values[place]["$ref"])
        return self._refs[place]

    def _resolve(self, place: int, ref: str) -> int:
        base, _, fragment = ref.partition("#")
        root = self._values[ROOT]
        own = root.get("$id", root.get("id")) if isinstance(root, dict) else None
        if base and base != (own.partition("#")[0] if isinstance(own, str) else None):
            raise self.error(place, f"$ref to another document, {ref!r}: put the schema into $defs", "$ref")
        pointer = unquote(fragment)
        if pointer and not pointer.startswith("/"):
            raise self.error(place, f"$ref by anchor, {ref!r}: write a JSON pointer such as #/$defs/name", "$ref")
        at = ROOT
        for raw in pointer.split("/")[1:]:
            key: str | int = raw.replace("~1", "/").replace("~0", "~")
            value = self._values[at]
            if isinstance(value, list) and str(key).isdecimal() and int(key) < len(value):
                key = int(key)
            elif not (isinstance(value, dict) and key in value):
                raise self.error(place, f"$ref to {ref!r}, which is not in the schema", "$ref")
            at = self.child(at, key)
        return at

    def _check(self, place: int, schema: dict[str, Any]) -> None:
        types = self.types(schema) if "type" not in schema or FORMS["type"][0](schema["type"]) else frozenset(TYPES)
        for keyword, value in schema.items():
            if keyword in ANNOTATIONS or keyword == "const":
                continue
            if keyword in ROOT_ONLY:
                if place != ROOT:
                    raise self.error(place, f"{keyword} below the root is not supported", keyword)
                continue
            kind = REFUSED.get(keyword) or ENFORCED.get(keyword)
            if keyword == "format" and value not in STRING_FORMATS:
                kind = None  # a format of someone's own may speak of any type
            if kind is not None and kind not in types and not (kind == "number" and "integer" in types):
                continue  # the keyword is silent on every type that the schema allows
            if keyword in EMPTY_ASSERTIONS and EMPTY_ASSERTIONS[keyword] == value:
                continue
            self._check_form(place, keyword, value)
        if "properties" in schema and "object" in types:
            wrong = [name for name, value in schema["properties"].items() if not is_schema(value)]
            if wrong:
                raise self.error(place, "a schema is an object or a boolean", "properties", wrong[0])

    def _check_form(self, place: int, keyword: str, value: Any) -> None:
        if keyword not in ENFORCED and keyword not in APPLICATORS and keyword not in VALUES:
            what = f"{keyword} {value!r:.40}" if keyword == "format" else keyword
            raise self.error(place, f"the keyword {what} is not supported; take it out or say it another way", keyword)
        holds, form = FORMS[keyword]
        if not holds(value):
            raise self.error(place, f"{keyword} must be {form}, not {value!r:.60}", keyword)

    @staticmethod
    def types(schema: dict[str, Any]) -> frozenset[str]:
        """The types that the schema's own ``type`` allows; ``number`` implies ``integer``."""
        if "type" not in schema:
            return frozenset(TYPES)
        names = schema["type"] if isinstance(schema["type"], list) else [schema["type"]]
        return frozenset(names) | ({"integer"} if "number" in names else frozenset())
