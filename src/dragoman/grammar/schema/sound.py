"""Which schemas may be compiled later: those in which nothing can be refused, too large or without values.

Looked at as they are written, once, before anything is compiled. A schema is sound where it says only what this file
knows to be harmless and all schemas below it are sound: whatever else it says, it is compiled at once, so that what is
wrong with it is told at once. Some recursion has no finite value; it needs required members all the way round.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any
from urllib.parse import unquote

from dragoman.grammar.schema.document import LONG_ENUM, Document
from dragoman.grammar.schema.formats import FORMATS, UNDECIDED
from dragoman.grammar.schema.keywords import FORMS, LISTS, MAPS, SINGLES
from dragoman.grammar.schema.options import SchemaOptions
from dragoman.limits import Limits

# More members than this are told apart by a tree, which takes its time; longer lists and larger numbers likewise.
_MEMBERS = 24
_ITEMS = 1_000
_WHOLE = 10**9
# Instructions of one sound schema, at most, beside those for the characters of its keys and values.
_SIZE = 2_000
_CHARACTER = 64
_SCALARS = frozenset((str, int, bool, type(None)))
_MEANT = UNDECIDED.union(FORMATS)
_OPTIONAL, _NEEDED = False, True
# The schemas below, each with whether a value needs one of it.
Below = list[tuple[Any, bool]]


def sound(document: Document, options: SchemaOptions, limits: Limits) -> frozenset[int]:
    """The identities of the sound schemas of ``document``; none where options ask for more than this file knows."""
    if document.parted or options.items_max is not None or options.any_order or options.banned or options.lenient:
        return frozenset()
    if options.number_digits < 10 or options.fraction_digits < 1:
        return frozenset()
    return _Walk(document.root, limits).found()


class _Walk:
    def __init__(self, root: Any, limits: Limits) -> None:
        self.root = root
        self.limits = limits
        self.size = 0
        self.below: dict[int, Below | None] = {}
        self.refs = False

    def found(self) -> frozenset[int]:
        work: list[Any] = [self.root]
        known = self.below
        most = self.limits.schema_nodes // 4
        while work:
            at = work.pop()
            if type(at) is not dict or id(at) in known:
                continue
            if len(known) > most:
                return frozenset()
            below = known[id(at)] = self._below(at)
            if below is None:
                work += _all_below(at)
            else:
                work += [schema for schema, _ in below]
        if self.size > self.limits.program_instructions:
            return frozenset()
        bad = {at for at, below in known.items() if below is None}
        if self.refs:
            bad |= self._endless()
        return frozenset(known.keys() - self._users(bad) if bad else known)

    def _users(self, bad: set[int]) -> set[int]:
        """``bad`` and all schemas that have one of those below them."""
        users: dict[int, list[int]] = {}
        for at, below in self.below.items():
            for schema, _ in below or ():
                users.setdefault(id(schema), []).append(at)
        found = set(bad)
        work = list(bad)
        while work:
            for user in users.get(work.pop(), ()):
                if user not in found:
                    found.add(user)
                    work.append(user)
        return found

    def _endless(self) -> set[int]:
        """The schemas that need one of themselves below them, and so on for ever."""
        needs = {at: [id(schema) for schema, needed in below or () if needed] for at, below in self.below.items()}
        users: dict[int, list[int]] = {}
        waiting = {at: len(below) for at, below in needs.items()}
        for at, below in needs.items():
            for other in below:
                users.setdefault(other, []).append(at)
        work = [at for at, count in waiting.items() if not count]
        while work:
            at = work.pop()
            for user in users.get(at, ()):
                waiting[user] -= 1
                if not waiting[user]:
                    work.append(user)
        return {at for at, count in waiting.items() if count}

    def _below(self, schema: dict[str, Any]) -> Below | None:
        """The schemas below a harmless one; None for all others."""
        said = [keyword for keyword in schema if keyword in FORMS]
        if "$ref" in schema:
            return self._led_to(schema["$ref"]) if len(said) == 1 else None
        if "anyOf" in schema:
            return self._any(schema["anyOf"]) if len(said) == 1 else None
        self.size += _SIZE
        if "enum" in schema or "const" in schema:
            return self._listed(schema, said)
        kind = schema.get("type")
        if type(kind) is str:
            look = _LOOKS.get(kind)
            return None if look is None else look(self, schema, said)
        if kind is None:
            return self._several(schema, said, _LOOKS) if said else []
        return self._several(schema, said, kind) if type(kind) is list and kind else None

    def _several(self, schema: dict[str, Any], said: list[str], kinds: Iterable[Any]) -> Below | None:
        """Values of several kinds, each with what is said of it."""
        below: Below = []
        unheard = set(said)
        for kind in kinds:
            look = _LOOKS.get(kind) if type(kind) is str else None
            found = look(self, schema, [keyword for keyword in said if keyword in _SAYS[kind]]) if look else None
            if found is None:
                return None
            unheard -= _SAYS[kind]
            below += found
        return None if unheard else below

    def _led_to(self, ref: Any) -> Below | None:
        self.refs = True
        if type(ref) is not str or not (ref == "#" or ref.startswith("#/")):
            return None
        at = self.root
        for raw in unquote(ref[1:]).split("/")[1:]:
            at = at.get(raw.replace("~1", "/").replace("~0", "~")) if type(at) is dict else None
        return [(at, _NEEDED)] if type(at) is dict else None

    def _any(self, options: Any) -> Below | None:
        """At most one of them has strings, for those of several are put together."""
        if type(options) is not list or not options or not all(type(option) is dict for option in options):
            return None
        texts = sum(type(option.get("type")) is not str or option["type"] == "string" for option in options)
        return [(option, _NEEDED) for option in options] if texts < 2 else None

    def _listed(self, schema: dict[str, Any], said: list[str]) -> Below | None:
        """Scalars, and strings where a type is said."""
        values = schema["enum"] if "enum" in schema else [schema["const"]]
        if (
            type(values) is not list
            or not values
            or len(values) > LONG_ENUM
            or not _SCALARS.issuperset(map(type, values))
        ):
            return None
        self.size += _CHARACTER * sum(len(str(value)) for value in values)
        if len(said) == 1:
            return []
        return [] if len(said) == 2 and schema.get("type") == "string" and set(map(type, values)) == {str} else None

    def _text(self, schema: dict[str, Any], said: list[str]) -> Below | None:
        if not _LENGTHS.issuperset(said):
            return None
        meant = schema.get("format", "")
        if type(meant) is not str or meant in _MEANT:
            return None
        return [] if _bounded(schema, "minLength", "maxLength") else None

    def _number(self, schema: dict[str, Any], said: list[str]) -> Below | None:
        if not _BOUNDS.issuperset(said):
            return None
        found = [schema[keyword] for keyword in said if keyword not in ("type", "format")]
        if not all(type(bound) is int and abs(bound) <= _WHOLE for bound in found):
            return None
        low = max(schema.get("minimum", -_WHOLE), schema.get("exclusiveMinimum", -_WHOLE) + 1)
        high = min(schema.get("maximum", _WHOLE), schema.get("exclusiveMaximum", _WHOLE) - 1)
        return [] if low <= high else None

    def _array(self, schema: dict[str, Any], said: list[str]) -> Below | None:
        if not _LISTS.issuperset(said) or not _bounded(schema, "minItems", "maxItems", _ITEMS):
            return None
        items = schema.get("items", True)
        if items is True:
            return []
        return [(items, schema.get("minItems", 0) > 0)] if type(items) is dict else None

    def _object(self, schema: dict[str, Any], said: list[str]) -> Below | None:
        if not _OBJECTS.issuperset(said):
            return None
        declared, required = schema.get("properties", {}), schema.get("required", [])
        if type(declared) is not dict or type(required) is not list or len(declared) > _MEMBERS:
            return None
        if not all(type(name) is str and name in declared for name in required):
            return None
        below: Below = []
        for name, value in declared.items():
            if type(value) is not dict or type(name) is not str:
                return None
            self.size += _CHARACTER * len(name)
            below.append((value, name in required))
        further = schema.get("additionalProperties", True)
        if type(further) is dict:
            below.append((further, _OPTIONAL))
        return below if type(further) in (dict, bool) else None

    def _constant(self, schema: dict[str, Any], said: list[str]) -> Below | None:
        return [] if len(said) == 1 else None


def _bounded(schema: dict[str, Any], least: str, most: str, largest: int = _WHOLE) -> bool:
    """True: the counts that ``schema`` gives, if it does, are whole numbers in the right order."""
    low, high = schema.get(least, 0), schema.get(most, largest)
    return type(low) is int and type(high) is int and 0 <= low <= high <= largest


def _all_below(schema: dict[str, Any]) -> list[Any]:
    """All that stands in ``schema`` where schemas stand."""
    found: list[Any] = []
    for keyword, entry in schema.items():
        if keyword in SINGLES and type(entry) is dict:
            found.append(entry)
        elif keyword in LISTS and type(entry) is list:
            found += entry
        elif keyword in MAPS and type(entry) is dict:
            found += entry.values()
    return found


_LENGTHS = frozenset(("type", "minLength", "maxLength", "format"))
_BOUNDS = frozenset(("type", "minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "format"))
_LISTS = frozenset(("type", "items", "minItems", "maxItems"))
_OBJECTS = frozenset(("type", "properties", "required", "additionalProperties"))
_ONLY = frozenset(("type",))
_SAYS = {
    "string": _LENGTHS,
    "integer": _BOUNDS,
    "number": _BOUNDS,
    "boolean": _ONLY,
    "null": _ONLY,
    "array": _LISTS,
    "object": _OBJECTS,
}
_LOOKS = {
    "string": _Walk._text,
    "integer": _Walk._number,
    "number": _Walk._number,
    "boolean": _Walk._constant,
    "null": _Walk._constant,
    "array": _Walk._array,
    "object": _Walk._object,
}
