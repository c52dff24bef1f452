"""Tagged arguments as the JSON text that ``json.dumps(..., ensure_ascii=False)`` writes, while they come in."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType

from dragoman.chat_schema import Declared, item_schema, parameter_schema
from dragoman.stream.json_text import WHITE, quoted, read_json
from dragoman.stream.unescape import SpellingUnescaper
from dragoman.stream.values import ValueReader, value_reader

# Region -> (character, its spelling) pairs of the text in it.
Spellings = Mapping[str, tuple[tuple[str, str], ...]]
NO_SPELLINGS: Spellings = MappingProxyType({})

# What models call all arguments together where they give them as one parameter that nobody declared.
_WRAPPERS = frozenset({"arguments", "parameters", "input"})
OBJECT = "value.object"
ARRAY = "value.array"


@dataclass(slots=True)
class _Container:
    """An object or array that is being written. ``key``: the member whose value is due; None: none is."""

    tag: str
    declared: Declared | None
    members: int = 0
    keys: set[str] = field(default_factory=set)
    key: str | None = None
    muted: bool = False  # the member is a repeated name: nothing of it is written


class ArgumentsWriter:
    """One call's tagged arguments -> pieces of one JSON object. Of a repeated name the first counts.

    closer: the text behind a value.
    ``muted`` members, whatever they hold, are read and not written. ``problems`` are collected, never raised.
    """

    def __init__(self, parameters: object, spellings: Spellings = NO_SPELLINGS, closer: str = "") -> None:
        self._spellings = spellings
        self._closer = closer
        self._unescaper: SpellingUnescaper | None = None
        declared = None if parameters is None else Declared(parameters, parameters)
        self._containers = [_Container(OBJECT, declared)]
        self._value: ValueReader | None = None
        self._muted = 0  # how many containers deep we are in a repeated member
        # What a parameter that may be all of them wrote so far; it waits for another one or for the end.
        self._held: list[str] | None = None
        self.problems: list[tuple[str, str]] = []  # (code, message)

    def begin_member(self, key: str) -> str:
        """An object's next member is called ``key``: everything up to its value."""
        here = self._containers[-1]
        if key in here.keys:
            here.muted = True
            here.key = key
            self._muted += 1
            self.problems.append(("duplicate_parameter", f"parameter {key!r} is given twice, the first counts"))
            return ""
        here.keys.add(key)
        here.key = key
        if len(self._containers) > 1:
            return self._out(self._separator() + quoted(key) + ": ")
        released = self.release()
        if not here.members and self._may_wrap(key):
            self._held = []
        return released + self._out(self._separator() + quoted(key) + ": ")

    def end_member(self) -> str:
        """The member is complete; one without a value gets the empty text's."""
        here = self._containers[-1]
        out = self.begin_value("value.typed") + self.end_value() if here.key is not None else ""
        if here.muted:
            here.muted = False
            self._muted -= 1
            return ""
        return out

    def begin_value(self, tag: str) -> str:
        """A value of the region ``tag`` starts, for the open member or as the next item of an array."""
        here = self._containers[-1]
        declared = self._declared_here()
        lead = self._separator() if here.tag == ARRAY else ""
        if tag in (OBJECT, ARRAY):
            self._containers.append(_Container(tag, declared))
            return self._out(lead)
        self._value = value_reader(tag, declared, self._closer)
        pairs = self._spellings.get(tag)
        self._unescaper = None
        if pairs:
            self._unescaper = SpellingUnescaper(pairs, except_json=tag == "value.typed" and not self._spells_json)
        return self._out(lead + self._value.start())

    def feed(self, text: str) -> str:
        if self._value is None:
            return ""
        return self._out(self._value.feed(text if self._unescaper is None else self._unescaper.feed(text)))

    def end_value(self) -> str:
        """The innermost value is complete, container or not."""
        if self._value is None:
            return self._end_container() if len(self._containers) > 1 else ""
        out = "" if self._unescaper is None else self._value.feed(self._unescaper.finish())
        out += self._value.finish()
        where = self._containers[-1]
        if self._value.problem is not None and not self._muted:
            name = "an item" if where.key is None else f"parameter {where.key!r}"
            self.problems.append(("invalid_value", f"{name} {self._value.problem}"))
        self._value = None
        where.key = None
        return self._out(out)

    def finish(self) -> str:
        """The closing brace; both braces where there was no argument."""
        if self._held is not None:
            inside = "".join(self._held[1:])
            value = read_json(inside)
            if isinstance(value, str):  # of a format that tells strings from objects, whatever its text holds
                inside = value.strip(WHITE)
                value = read_json(inside)
            if isinstance(value, dict) and all(self._declares(key) for key in value):
                self._held = None
                return inside
        return self.release() + ("}" if self._containers[0].members else "{}")

    def release(self) -> str:
        """What was held back, as it stands."""
        held, self._held = self._held, None
        return "".join(held or ())

    def break_off(self) -> tuple[str, str]:
        """In place of :meth:`finish`, where the output leaves the arguments: what is sure of the rest, nothing closed;
        and the text of a value of which not even the type is known yet."""
        value, self._value = self._value, None
        sure, unsure = ("", "") if value is None else value.release()
        if value is not None and self._unescaper is not None:
            unsure += self._unescaper.finish()
        written = self._out(sure)
        return self.release() + written, unsure

    @property
    def _spells_json(self) -> bool:
        return "value.json" in self._spellings

    def _may_wrap(self, key: str) -> bool:
        return key in _WRAPPERS and self._containers[0].declared is not None and not self._declares(key)

    def _declares(self, key: str) -> bool:
        declared = self._containers[0].declared
        return declared is None or parameter_schema(declared.schema, key, declared.root) is not None

    def _end_container(self) -> str:
        closed = self._containers.pop()
        self._containers[-1].key = None
        if closed.tag == ARRAY:
            return self._out("]" if closed.members else "[]")
        return self._out("}" if closed.members else "{}")

    def _separator(self) -> str:
        here = self._containers[-1]
        here.members += 1
        if here.members > 1:
            return ", "
        return "[" if here.tag == ARRAY else "{"

    def _declared_here(self) -> Declared | None:
        here = self._containers[-1]
        if here.declared is None:
            return None
        schema, root = here.declared.schema, here.declared.root
        found = item_schema(schema, root) if here.tag == ARRAY else parameter_schema(schema, here.key or "", root)
        return None if found is None else Declared(found, root)

    def _out(self, text: str) -> str:
        if self._muted:
            return ""
        if self._held is not None:
            self._held.append(text)
            return ""
        return text
