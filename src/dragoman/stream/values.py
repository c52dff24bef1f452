"""Tagged values: the text between a parameter's markers as JSON text, by the declared schema.

Rules of this file
    string   raw text; streams as a JSON string
    json     JSON (or Python) text; streams as it comes, without outer white space
    typed    decided at the closer; a union with string streams as soon as the text can be nothing but a string
A conversion that fails is a JSON string and a problem. Nothing raises for any text.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any, Final, Protocol

from dragoman.chat_schema import Declared, admits, declared_types
from dragoman.stream.json_text import NOT_JSON, WHITE, escaped, is_json, quoted, read_json
from dragoman.stream.pythonic import PythonToJson, begins_scalar, begins_string, json_scalar

_ALL: Final = frozenset({"null", "boolean", "number", "integer", "object", "array"})
# How a scalar of a type may begin; matched against the whole text so far.
_NUMBER_PREFIX: Final = re.compile(r"[-+]?[0-9]*\.?[0-9]*(?:[eE][-+]?[0-9]*)?")
_LOOSE_NUMBER: Final = re.compile(r"([-+]?)([0-9]*)(\.[0-9]*)?([eE][-+]?[0-9]+)?")
_WORDS: Final = {"boolean": ("true", "false", "True", "False"), "null": ("null", "None")}
# Longer text is no scalar that is worth asking about again with every piece.
_SCALAR: Final = 512
_SHOWN: Final = 200  # characters of a value that a problem quotes
# A string that no schema lists: admitted only where any string is.
_ANY_STRING: Final = "\x00 any other string"


class ValueReader(Protocol):
    """The text of one value in pieces -> pieces of its JSON text. ``problem`` is set once something did not fit."""

    problem: str | None

    def start(self) -> str: ...
    def feed(self, text: str) -> str: ...
    def finish(self) -> str: ...

    def release(self) -> tuple[str, str]:
        """In place of finish, where the output breaks off: what is sure of the rest, and the text that is not."""


class StringValue:
    """Every character is data: a JSON string that streams."""

    __slots__ = ("problem",)

    def __init__(self) -> None:
        self.problem: str | None = None

    def start(self) -> str:
        return '"'

    def feed(self, text: str) -> str:
        return escaped(text)

    def finish(self) -> str:
        return '"'

    def release(self) -> tuple[str, str]:
        return "", ""


class JsonValue:
    """JSON text as it comes, Python's spellings translated; text that does not even begin like JSON is a string.

    Held: white space at the end, and a number or word that is the whole value.
    """

    __slots__ = ("_converter", "_held", "_nested", "_scalar", "_string", "_written", "problem")

    def __init__(self) -> None:
        self.problem: str | None = None
        # Before the value has begun: its first word; afterwards: white space that may be the end.
        self._held: list[str] = []
        self._nested = False  # it is an object, an array or in quotes
        self._scalar: list[str] | None = None
        self._string: StringValue | None = None
        self._converter = PythonToJson()
        self._written: list[str] = []

    def start(self) -> str:
        return ""

    def feed(self, text: str) -> str:
        if self._nested:
            if self._held or text[-1:] in WHITE:
                text = self._without_end(text)
            out = self._converter.feed(text)
            self._written.append(out)
            return out
        if self._string is not None:
            return self._string.feed(text)
        if self._scalar is not None:
            self._scalar.append(text)
            return ""
        begun = "".join([*self._held, text]).lstrip(WHITE)
        kind = _kind(begun, whole=False)
        if kind is None:
            self._held = [begun]
            return ""
        self._held = []
        if kind == "text":
            return self._as_string(begun)
        if kind == "scalar":
            self._scalar = [begun]
            return ""
        self._nested = True
        return self.feed(begun)

    def _without_end(self, text: str) -> str:
        """What goes on: white space at the end of a piece may be the end of the value."""
        body = text.rstrip(WHITE)
        if not body:
            self._held.append(text)
            return ""
        held, self._held = self._held, [text[len(body) :]] if len(body) < len(text) else []
        return "".join([*held, body])

    def finish(self) -> str:
        if self._string is not None:
            return self._string.finish()
        if not self._nested:
            text = "".join(self._held if self._scalar is None else self._scalar).rstrip(WHITE)
            scalar = json_scalar(text)
            return self._as_string(text) + '"' if scalar is None else scalar
        self._written.append(out := self._converter.finish())
        if not is_json("".join(self._written)):
            self.problem = "is no JSON"
        elif self._converter.odd is not None:
            self.problem = f"holds {_shown(self._converter.odd)}, which is no JSON: taken as a string"
        return out

    def release(self) -> tuple[str, str]:
        if self._string is not None:
            return self._string.release()
        if self._scalar is not None:
            text = "".join(self._scalar).rstrip(WHITE)
            return (text, "") if begins_scalar(text) else ("", text)
        return self._converter.release() if self._nested else ("", "".join(self._held).strip(WHITE))

    def _as_string(self, text: str) -> str:
        self.problem = "is no JSON, taken as a string"
        self._string = StringValue()
        return self._string.start() + self._string.feed(text)


def _shown(text: str) -> str:
    return repr(text if len(text) <= _SHOWN else text[:_SHOWN] + "…")


def _kind(text: str, *, whole: bool) -> str | None:
    """What the text begins: a "nested" value or one in quotes, a "scalar", other "text"; None: more has to tell."""
    if not text:
        return "text" if whole else None
    if text[0] in "{[(\"'":
        return "nested"
    if text[0] in "-+.0123456789":
        return "scalar"
    prefixed = begins_string(text)
    if prefixed:
        return "nested"
    words = _WORDS["boolean"] + _WORDS["null"]
    match = re.match(r"[A-Za-z]+", text)
    word = match[0] if match else ""
    if word == text and not whole and (prefixed is None or any(known.startswith(word) for known in words)):
        return None
    return "scalar" if word in words else "text"


class TypedValue:
    """Text held to its closer and then read as the schema says; streams once it can only be a string.

    closer: the text that ends it. At the end of what is no value of its type it is a closer that was written twice.
    """

    __slots__ = ("_closer", "_declared", "_held", "_others", "_string", "problem")

    def __init__(self, declared: Declared | None, closer: str = "") -> None:
        self.problem: str | None = None
        self._declared = declared
        self._closer = closer
        self._held: list[str] = []
        self._string: StringValue | None = None
        # The other types that keep a string waiting; None: it never streams.
        self._others = _beside_string(declared)

    def start(self) -> str:
        return ""

    def feed(self, text: str) -> str:
        if self._string is not None:
            return self._string.feed(text)
        self._held.append(text)
        # White space changes nothing: it is outside of every scalar.
        if self._others is None or not text.strip(WHITE):
            return ""
        so_far = "".join(self._held)
        bare = so_far.strip(WHITE)
        if len(bare) > _SCALAR or (bare.startswith(("{", "[", "(")) and self._others & {"object", "array"}):
            self._others = None
            return ""
        if _may_become(bare, self._others):
            return ""
        self._string = StringValue()
        return self._string.start() + self._string.feed(so_far)

    def finish(self) -> str:
        if self._string is not None:
            return self._string.finish()
        text = "".join(self._held)
        written, self.problem = convert(text, self._declared)
        if self.problem is not None and self._closer and text.rstrip(WHITE).endswith(self._closer):
            return self._without_closer(text, written)
        return written

    def _without_closer(self, text: str, written: str) -> str:
        """What is no value may be one whose closer was written twice."""
        while (bare := text.rstrip(WHITE)).endswith(self._closer):
            text = bare[: -len(self._closer)]
        shorter, problem = convert(text, self._declared)
        if problem is not None:
            return written
        self.problem = f"has {self._closer!r} behind it twice"
        return shorter

    def release(self) -> tuple[str, str]:
        if self._string is not None:
            return self._string.release()
        return "", "".join(self._held).strip(WHITE)


def _beside_string(declared: Declared | None) -> frozenset[str] | None:
    """The types that a value may have instead of being any string; None where not every string is allowed."""
    if declared is None:
        return _ALL
    types = declared_types(declared.schema, declared.root) or _ALL | {"string"}
    if "string" not in types or not admits(declared.schema, declared.root, _ANY_STRING):
        return None
    return types - {"string"}


def _may_become(bare: str, types: frozenset[str]) -> bool:
    """False: no text that begins so, white space at the ends apart, is a scalar of these types."""
    if not bare:
        return True
    if types & {"number", "integer"} and _NUMBER_PREFIX.fullmatch(bare):
        return True
    return any(word.startswith(bare) for kind in types & _WORDS.keys() for word in _WORDS[kind])


def convert(text: str, declared: Declared | None) -> tuple[str, str | None]:
    """The JSON text of a value written as raw ``text``, and what was wrong with it (None: nothing).

    The first reading that the schema admits, ``enum`` and ``const`` included, else the first of a declared type.
    """
    bare = text.strip(WHITE)
    types = declared_types(declared.schema, declared.root) if declared else frozenset()
    if declared is None or not types:
        value = read_json(bare)
        return (quoted(text) if value is NOT_JSON or isinstance(value, str) else bare), None
    readings = list(_readings(text, bare, types))
    for spelling, value in readings:
        if admits(declared.schema, declared.root, value):
            return spelling, None
    shape = {"type": sorted(types)}
    for spelling, value in readings:
        if admits(shape, None, value):
            return spelling, None
    return quoted(text), f"is no {' or '.join(sorted(types))}, taken as a string"


def _readings(text: str, bare: str, types: frozenset[str]) -> Iterator[tuple[str, Any]]:
    """What the text can mean, as (JSON text, value), the best first."""
    value = read_json(bare)
    if value is not NOT_JSON and not isinstance(value, str):
        yield bare, value
    if value is NOT_JSON:
        if (spelled := _from_python(bare)) is not None:
            yield spelled, read_json(spelled)
        loose = None if "string" in types else _loose_number(bare)
        if loose is not None:
            yield loose, read_json(loose)
    if "string" in types:
        yield quoted(text), text
        yield quoted(bare), bare
        if isinstance(value, str):
            yield bare, value


def _from_python(bare: str) -> str | None:
    """JSON for an object, array or word that Python spells; None for other text, and where something in it is odd."""
    if not bare.startswith(("{", "[", "(")):
        return json_scalar(bare) if bare in ("True", "False", "None") else None
    reader = PythonToJson()
    spelled = reader.feed(bare) + reader.finish()
    value = NOT_JSON if reader.odd is not None else read_json(spelled)
    return None if value is NOT_JSON or isinstance(value, str) else spelled


def _loose_number(bare: str) -> str | None:
    """JSON for a number that is written with a plus sign, leading zeros or a bare point; None for other text."""
    match = _LOOSE_NUMBER.fullmatch(bare)
    if match is None:
        return None
    sign, whole, fraction, exponent = match[1], match[2], match[3] or "", match[4] or ""
    if not whole and len(fraction) < 2:
        return None
    decimals = fraction if len(fraction) > 1 else ""
    return f"{'-' if sign == '-' else ''}{whole.lstrip('0') or '0'}{decimals}{exponent}"


def value_reader(tag: str, declared: Declared | None, closer: str = "") -> ValueReader:
    """The reader for a ``value.string``, ``value.json`` or ``value.typed`` region. closer: the text behind values."""
    if tag == "value.string":
        return StringValue()
    return JsonValue() if tag == "value.json" else TypedValue(declared, closer)
