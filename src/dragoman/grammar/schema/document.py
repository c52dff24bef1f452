"""Schema documents: places in them, references of every kind, and the check of each keyword that is met.

A *location* is a spot of a document; a *place* is a location together with what the dynamic anchors mean on the way
there, so ``$dynamicRef`` is resolved like any other reference. Places are numbers: equal places have equal numbers, so
sets of places name goals and recursion closes on itself. Place 0 is the root.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, TypeAlias
from urllib.parse import unquote, urldefrag, urljoin

from dragoman.errors import LimitError, SchemaError
from dragoman.grammar.schema.keywords import DRAFTS, FORMS, LISTS, MAPS, NEWEST, SINGLES, is_schema
from dragoman.limits import Limits

ROOT = 0
LONG_ENUM = 200
Key: TypeAlias = "str | int"
Bindings: TypeAlias = "tuple[tuple[str, int], ...]"
RECURSIVE = "$recursiveAnchor"
_SCHEMAS_BY_NAME = ("properties", "patternProperties", "dependentSchemas")
_LOOKED_BELOW = frozenset((*_SCHEMAS_BY_NAME, "exclusiveMinimum", "exclusiveMaximum"))
PLACES: Any = ("anyOf",)  # the keyword of :meth:`Document.any_of`; no JSON holds a key that is no text


@dataclass(slots=True)
class Resource:
    """A schema with a URI of its own. anchors, dynamic: name -> location."""

    uri: str
    location: int
    draft: int
    anchors: dict[str, int] = field(default_factory=dict)
    dynamic: dict[str, int] = field(default_factory=dict)


class Document:
    """A schema and the documents it may refer to. Grows as places are visited."""

    def __init__(
        self,
        schema: Any,
        limits: Limits,
        *,
        remotes: Mapping[str, Any] | None = None,
        ignored: frozenset[str] = frozenset(),
        synthetic: bool = False,
    ) -> None:
        self._limit = limits.schema_nodes
        self._values: list[Any] = []
        self._parents: list[tuple[int, Key]] = []
        self._children: dict[tuple[int, Key], int] = {}
        self._resource: list[Resource] = []
        self._by_uri: dict[str, Resource] = {}
        self._remotes = dict(remotes or {})
        self._ignored = ignored
        self._views: dict[int, dict[str, Any] | bool] = {}
        self._places: list[tuple[int, Bindings]] = []
        self._numbers: dict[tuple[int, Bindings], int] = {}
        self._synthetic: dict[object, int] = {}
        self._structure = Structure()
        self.parted = False  # something in a document, but for its root, has a name
        self._first: dict[tuple[int, int], int] = {}
        root = self._load(schema, "", NEWEST)
        self.root = schema
        self._place(root, self._bound((), self._resource[root]))

    # Locations

    def _load(self, value: Any, uri: str, draft: int) -> int:
        """A new document: its root location, with all resources and anchors in it known."""
        named, parted = named_in(value, self._limit * 4)
        self.parted = self.parted or parted
        root = self._new(value, (-1, ""), None)
        resource = Resource(uri, root, draft)
        self._resource[root] = resource
        self._by_uri.setdefault(uri, resource)
        if not named:  # nothing in it has a URI or an anchor, so its locations can wait until they are visited
            if isinstance(value, dict):
                self._register(root, value)
            return root
        work = [root]
        while work:
            at = work.pop()
            value = self._values[at]
            if not isinstance(value, dict):
                continue
            self._register(at, value)
            for key, below in value.items():
                if key in SINGLES and is_schema(below):
                    work.append(self._below(at, key))
                elif key in LISTS and isinstance(below, list):
                    spot = self._below(at, key)
                    work.extend(self._below(spot, index) for index in range(len(below)))
                elif key in MAPS and isinstance(below, dict):
                    spot = self._below(at, key)
                    work.extend(self._below(spot, name) for name in below)
        return root

    def _register(self, at: int, value: dict[str, Any]) -> None:
        resource = self._resource[at]
        draft = resource.draft
        if "$schema" in value:
            draft = DRAFTS.get(str(value["$schema"]).rstrip("#"), draft)
        own = value.get("$id", value.get("id") if draft <= 4 else None)
        if draft <= 7 and "$ref" in value and resource.location != at:
            own = None
        if isinstance(own, str):
            uri, fragment = urldefrag(joined(resource.uri, own))
            if uri != resource.uri or resource.location == at:
                if resource.location == at:
                    resource.uri, resource.draft = uri, draft
                else:
                    resource = self._resource[at] = Resource(uri, at, draft)
                self._by_uri[uri] = resource
            if fragment:
                resource.anchors[fragment] = at
        elif resource.location == at:
            resource.draft = draft
        if isinstance(value.get("$anchor"), str):
            resource.anchors[value["$anchor"]] = at
        if isinstance(value.get("$dynamicAnchor"), str):
            resource.dynamic[value["$dynamicAnchor"]] = resource.anchors[value["$dynamicAnchor"]] = at
        if value.get(RECURSIVE) is True and resource.location == at:
            resource.dynamic[RECURSIVE] = at

    def _new(self, value: Any, parent: tuple[int, Key], resource: Resource | None) -> int:
        if len(self._values) >= self._limit * 4:
            raise LimitError("the schema is too large", bound="schema_nodes", limit=self._limit)
        self._values.append(value)
        self._parents.append(parent)
        self._resource.append(resource)  # type: ignore[arg-type]
        return len(self._values) - 1

    def _below(self, at: int, key: Key) -> int:
        known = self._children.get((at, key))
        if known is None:
            known = self._new(self._values[at][key], (at, key), self._resource[at])
            self._children[at, key] = known
        return known

    # Places

    def _place(self, location: int, bindings: Bindings) -> int:
        # A root is met once; what is in the others is looked at when they are.
        same = None if self._parents[location][0] < 0 else self._structure.number(self._values[location])
        if same is not None:  # equal schemas of one resource are one place, wherever they stand
            location = self._first.setdefault((same, id(self._resource[location])), location)
        number = self._numbers.setdefault((location, bindings), len(self._places))
        if number == len(self._places):
            if number >= self._limit:
                raise LimitError("the schema is too large", bound="schema_nodes", limit=self._limit)
            self._places.append((location, bindings))
        return number

    def _bound(self, bindings: Bindings, resource: Resource) -> Bindings:
        """The bindings inside ``resource``: what was bound outside stays."""
        new = [(name, at) for name, at in resource.dynamic.items() if all(name != known for known, _ in bindings)]
        return tuple(sorted((*bindings, *new))) if new else bindings

    def child(self, place: int, *path: Key) -> int:
        """The place below ``place``."""
        at, bindings = self._places[place]
        for key in path:
            at = self._below(at, key)
        return self._place(at, self._bound(bindings, self._resource[at]))

    def made(self, schema: dict[str, Any], key: object) -> int:
        """The place of a schema that is in no document; the same for the same ``key``."""
        if key not in self._synthetic:
            self._synthetic[key] = self._place(self._load(schema, f"made:{len(self._synthetic)}", NEWEST), ())
        return self._synthetic[key]

    def any_of(self, places: tuple[int, ...]) -> int:
        """A place at which one of the schemas at ``places`` must hold."""
        return self.made({PLACES: places}, places)

    def written(self, place: int) -> Any:
        """The schema at ``place`` as it is written."""
        return self._values[self._places[place][0]]

    def draft(self, place: int) -> int:
        return self._resource[self._places[place][0]].draft

    def pointer(self, place: int, *path: Key) -> str:
        """The JSON pointer of a place, or of what is below it; in another document after that one's URI."""
        keys: list[Key] = list(reversed(path))
        at = self._places[place][0]
        while self._parents[at][0] >= 0:
            at, key = self._parents[at]
            keys.append(key)
        pointer = "".join("/" + str(key).replace("~", "~0").replace("/", "~1") for key in reversed(keys))
        return pointer if at == 0 else f"{self._resource[at].uri}#{pointer}"

    def error(self, place: int, message: str, *path: Key) -> SchemaError:
        return SchemaError(message, pointer=self.pointer(place, *path))

    # Schemas

    def schema(self, place: int) -> dict[str, Any] | bool:
        """The schema at ``place``, in the manner of the newest draft, the form of its keywords checked."""
        at = self._places[place][0]
        view = self._views.get(at)
        if view is None:
            value = self._values[at]
            if not is_schema(value):
                raise self.error(place, f"a schema is an object or a boolean, not {value!r:.60}")
            view = self._views[at] = self._view(place, value) if isinstance(value, dict) else value
        return view

    def _view(self, place: int, value: dict[str, Any]) -> dict[str, Any]:
        draft = self.draft(place)
        if draft <= 7 and "$ref" in value:
            value = {"$ref": value["$ref"]}  # its siblings do not count in these drafts
        view: dict[str, Any] = {}
        for keyword, entry in value.items():
            form = FORMS.get(keyword)
            if form is None:
                if keyword == PLACES:
                    view[keyword] = entry
                continue
            if self._ignored and self.pointer(place, keyword) in self._ignored:
                continue
            if not form[0](entry):
                raise self.error(place, f"{keyword} must be {form[1]}, not {entry!r:.60}", keyword)
            view[keyword] = entry
        if not _LOOKED_BELOW.isdisjoint(view):
            self._check_below(place, view)
        return view

    def _check_below(self, place: int, view: dict[str, Any]) -> None:
        """Flags of draft 4 become bounds; what stands in maps of schemas are schemas."""
        for strict, plain in (("exclusiveMinimum", "minimum"), ("exclusiveMaximum", "maximum")):
            if isinstance(view.get(strict), bool):
                if view.pop(strict) and plain in view:
                    view[strict] = view.pop(plain)
        for keyword in _SCHEMAS_BY_NAME:
            for name, entry in view[keyword].items() if keyword in view else ():
                if not isinstance(entry, (dict, bool)):
                    raise self.error(place, "a schema is an object or a boolean", keyword, name)

    def target(self, place: int, keyword: str) -> int:
        """The place that a reference of the schema at ``place`` leads to."""
        ref = self._values[self._places[place][0]][keyword]
        location, named = self._resolved(place, ref, keyword)
        bindings = self._places[place][1]
        if keyword == "$dynamicRef" and named is not None and named in self._resource[location].dynamic:
            location = dict(bindings).get(named, location)
        if keyword == "$recursiveRef" and RECURSIVE in self._resource[location].dynamic:
            location = dict(bindings).get(RECURSIVE, location)
        return self._place(location, self._bound(bindings, self._resource[location]))

    def led_to(self, place: int) -> int:
        """The place that a schema leads to which is nothing but a reference, and so on; ``place`` itself for others."""
        seen: list[int] = []
        at = place
        while at not in seen:
            view = self.schema(at)
            if isinstance(view, bool) or "$ref" not in view or len(view) != 1:
                return at
            seen.append(at)
            at = self.target(at, "$ref")
        return place

    def _resolved(self, place: int, ref: str, keyword: str) -> tuple[int, str | None]:
        """The location that ``ref`` names, and the anchor where it goes by one."""
        here = self._resource[self._places[place][0]]
        uri, fragment = urldefrag(joined(here.uri, ref))
        resource = here if uri == here.uri else self._by_uri.get(uri)
        if resource is None and uri in self._remotes:
            self._load(self._remotes[uri], uri, NEWEST)
            resource = self._by_uri.get(uri)
        if resource is None:
            raise self.error(
                place,
                f"{keyword} to another document, {ref!r}, that is not here: put what it refers to into $defs",
                keyword,
            )
        pointer = unquote(fragment)
        if pointer and not pointer.startswith("/"):
            if pointer not in resource.anchors:
                raise self.error(place, f"{keyword} to {ref!r}: the schema has no such anchor", keyword)
            return resource.anchors[pointer], pointer
        at = resource.location
        for raw in pointer.split("/")[1:]:
            key: Key = raw.replace("~1", "/").replace("~0", "~")
            value = self._values[at]
            if isinstance(value, list) and str(key).isdecimal() and int(key) < len(value):
                key = int(key)
            elif not (isinstance(value, dict) and key in value):
                raise self.error(place, f"{keyword} to {ref!r}, which is not in the schema", keyword)
            at = self._below(at, key)
        return at, None


def joined(base: str, ref: str) -> str:
    """``ref`` as an absolute URI."""
    return urldefrag(base)[0] + ref if ref.startswith("#") else urljoin(base, ref)


class Structure:
    """Numbers for JSON values, equal for equal ones (keys in the same order). Long lists of ``enum`` stay closed."""

    def __init__(self) -> None:
        self._by_identity: dict[int, int] = {}
        self._by_content: dict[object, int] = {}
        self._kept: list[Any] = []  # what identities speak of stays alive

    def number(self, value: Any) -> int | None:
        """The number of an object; None of all else."""
        if not isinstance(value, dict):
            return None
        known = self._by_identity.get(id(value))
        if known is None:
            self._learn(value)
            known = self._by_identity[id(value)]
        return known

    def _learn(self, root: dict[str, Any]) -> None:
        """Give numbers to ``root`` and all that is in it, innermost first."""
        self._kept.append(root)
        known = self._by_identity
        work: list[Any] = [root]
        while work:
            value = work[-1]
            if not isinstance(value, (dict, list)) or id(value) in known:
                work.pop()
                continue
            if isinstance(value, dict):
                below = [v for k, v in value.items() if isinstance(v, (dict, list)) and not _opaque(k, v)]
            else:
                below = [v for v in value if isinstance(v, (dict, list))]
            before = len(work)
            for entry in below:
                if id(entry) in known:
                    continue
                if type(entry) is dict and set(map(type, entry.values())) == _TEXT:
                    known[id(entry)] = self._by_content.setdefault(tuple(entry.items()), len(self._by_content))
                else:
                    work.append(entry)
            if len(work) > before:
                continue
            work.pop()
            content: object
            if isinstance(value, list):
                content = ("list", *(self._of("", entry) for entry in value))
            elif below or set(map(type, value.values())) != _TEXT:
                content = tuple((key, self._of(key, entry)) for key, entry in value.items())
            else:
                content = tuple(value.items())
            known[id(value)] = self._by_content.setdefault(content, len(self._by_content))

    def _of(self, key: Any, value: Any) -> object:
        if isinstance(value, (dict, list)):
            return id(value) if _opaque(key, value) else self._by_identity[id(value)]
        if type(value) is str:
            return value
        return type(value).__name__, value if isinstance(value, tuple) else repr(value)


# What gives a schema a name by which references may find it; and ``id``, in the older drafts.
_NAMES = frozenset(("$id", "$anchor", "$dynamicAnchor", RECURSIVE))
_TEXT = {str}


def named_in(root: Any, most: int) -> tuple[bool, bool]:
    """Whether something in a document has a name, and whether something but ``root`` has.

    LimitError for more than ``most`` objects and arrays.
    """
    named = parted = False
    seen: set[int] = set()
    work: list[Any] = [root]
    while work:
        value = work.pop()
        if id(value) in seen:
            continue
        if isinstance(value, dict):
            if not _NAMES.isdisjoint(value) or isinstance(value.get("id"), str):
                named = True
                parted = parted or value is not root
            work += [v for k, v in value.items() if isinstance(v, (dict, list)) and not _opaque(k, v)]
        elif isinstance(value, list):
            work += [v for v in value if isinstance(v, (dict, list))]
        seen.add(id(value))
        if len(seen) > most:
            raise LimitError("the schema is too large", bound="schema_nodes", limit=most // 4)
    return named, parted


def _opaque(key: Any, value: Any) -> bool:
    return key == "enum" and isinstance(value, list) and len(value) > LONG_ENUM
