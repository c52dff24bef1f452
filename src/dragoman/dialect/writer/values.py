"""Writing tagged arguments: declared order, each value so that its closer and its type are read back as meant.

Rules of this file: a raw string leaves out the text of its closer. Where a parameter may be a string or another type,
the raw string leaves out whatever would be read as that type. What cannot be said so is refused by its pointer.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from dragoman.chat_schema import JSON_TYPES, declared_types, parameter_schema, resolve
from dragoman.dialect.literals import COMMA, KEY_ENDS
from dragoman.dialect.markers import SPACES, marker, overlaps_itself
from dragoman.dialect.request import Tool
from dragoman.dialect.shape import closes_values, end_of_calls, quoted_values, string_word
from dragoman.dialect.tolerances import CDATA, wraps_values
from dragoman.dialect.writer.nested import NestedNotation
from dragoman.dialect.writer.objects import QuotedNotation, TreeWriter
from dragoman.errors import SchemaError
from dragoman.grammar.json import DIGIT
from dragoman.grammar.nodes import (
    EMPTY,
    AnyChar,
    Node,
    Ref,
    Repeat,
    Without,
    alt,
    chars,
    complement,
    lit,
    opt,
    schema,
    seq,
)
from dragoman.template.escapes import escaped, undone
from dragoman.template.profile import Marker, Pairs, Slot, ToolProfile, ValueStyle

ANNOTATIONS = frozenset(
    {"title", "description", "default", "examples", "$comment", "$schema", "$id", "deprecated", "readOnly", "writeOnly"}
)
_OBJECT_WORDS = ANNOTATIONS | {"type", "properties", "required", "additionalProperties", "$defs", "definitions"}
_STRING_WORDS = ANNOTATIONS | {"type", "enum", "const", "minLength", "maxLength", "$defs", "definitions"}
_OTHERS = ("number", "boolean", "null", "object", "array")
_PLAIN = frozenset({"number", "integer", "boolean", "null"})
# What the reader of typed values takes for something else than a string, by how it begins.
_WORDS = {"null": ("null", "none"), "boolean": ("true", "false"), "number": ("nan", "inf")}
_STARTS = {"number": "+-.0123456789", "object": "{", "array": "[("}
_INDEX_DIGITS = 4


class ValueWriter:
    """Tagged arguments of one format."""

    def __init__(self, profile: ToolProfile, controls: frozenset[str]) -> None:
        self.profile = profile
        self.controls = controls
        self.styles = dict(profile.value_styles)
        self.string_word = string_word(profile)
        self.quote = quoted_values(profile)
        self.escapes = profile.escapes
        self.char = _spelled_char(self.escapes.value)
        pieces = profile.argument
        self.closing = self._closing(pieces)
        # Nothing closes a value: it is a literal, which ends by itself and may hold any text.
        self.literal = not closes_values(profile)
        self.separator = profile.argument_separator or (COMMA if self.literal else Marker())
        self.forbidden = () if self.literal else tuple(text.encode() for text in self.closing)
        if any(map(wraps_values, self.closing)):
            self.forbidden += (CDATA[0].encode(),)
        self.rules: dict[str, Node] = {}
        self.tree: TreeWriter | None = None
        if profile.syntax is not None:
            self.tree = TreeWriter(QuotedNotation(profile.syntax))
        elif profile.nested is not None:
            self.tree = TreeWriter(NestedNotation(profile.nested, controls, _unlike, self._check_constant))
        if self.tree is not None:
            self.rules = self.tree.rules

    def _closing(self, pieces: Sequence[Marker | Slot]) -> tuple[str, ...]:
        """The texts that end a value where it stands: its closer, or without one whatever may follow."""
        at = pieces.index(Slot.VALUE) if Slot.VALUE in pieces else len(pieces)
        closers = [piece.text for piece in pieces[at + 1 : at + 2] if isinstance(piece, Marker) and piece.text]
        if pieces[at + 2 : at + 3] == (Slot.TYPE,):
            closers = [closers[0] + word for _, word in self.profile.type_words]
        if not closers:
            after = (*pieces[:1], *self.profile.call[-1:], self.profile.argument_separator)
            closers = [piece.text for piece in after if isinstance(piece, Marker) and piece.text]
        elif not (self.profile.syntax or self.profile.nested):
            closers.append(end_of_calls(self.profile))  # read as the end of a value whose closer is missing
        early = [overlaps_itself(text) for text in closers]
        return tuple(dict.fromkeys(text for text in (*closers, *early) if text))

    def arguments(self, tool: Tool) -> Node:
        """The arguments of one call of ``tool``: required ones, and any of the others, in declared order."""
        root = {} if tool.parameters is None else tool.parameters
        declared = resolve(root, root)
        properties, required = self._checked(tool, declared)
        each = [self._argument(tool, key, parameter_schema(root, key, root), root) for key in properties]
        if not self.separator:
            return seq(*(one if key in required else opt(one) for key, one in zip(properties, each, strict=True)))
        return self._separated(tool, [(one, key in required) for key, one in zip(properties, each, strict=True)])

    def _separated(self, tool: Tool, each: Sequence[tuple[Node, bool]]) -> Node:
        """Arguments with a separator between two: one rule for what may follow the arguments so far."""
        separator = marker(self.separator.written, self.controls)
        name = f"write.arguments.{tool.name}"
        first: Node = EMPTY
        self.rules[f"{name}.{len(each)}"] = EMPTY
        for at in range(len(each) - 1, -1, -1):
            one, needed = each[at]
            rest = Ref(f"{name}.{at + 1}")
            following = seq(separator, one, rest)
            self.rules[f"{name}.{at}"] = following if needed else alt(following, rest)
            first = seq(one, rest) if needed else alt(seq(one, rest), first)
        return first

    def _checked(self, tool: Tool, declared: Any) -> tuple[list[str], list[str]]:
        """The declared parameters and those that are required."""
        if not isinstance(declared, Mapping):
            return [], []
        if declared.get("type", "object") != "object":
            raise SchemaError(f"the parameters of tool {tool.name!r} must be an object", pointer="/type", param="tools")
        for keyword in declared:
            if keyword not in _OBJECT_WORDS:
                raise SchemaError(
                    f"{keyword!r} cannot be enforced for arguments that are written one by one (tool {tool.name!r})",
                    pointer=f"/{_escaped(keyword)}",
                    param="tools",
                )
        properties = list(declared.get("properties") or {})
        required = list(declared.get("required") or ())
        for i, key in enumerate(required):
            if key not in properties:
                raise SchemaError(
                    f"tool {tool.name!r} requires {key!r} but does not declare it",
                    pointer=f"/required/{i}",
                    param="tools",
                )
        return properties, required

    def _argument(self, tool: Tool, key: str, wanted: Any, root: Any) -> Node:
        pointer = f"/properties/{_escaped(key)}"
        types = declared_types(wanted, root)
        if self.quote and types != {"string"}:
            return self._with_literals(tool, key, wanted, root, pointer)
        if self.string_word is not None and (not types or (len(types) > 1 and "string" in types)):
            # The word tells which of them the value is, so both are chosen together.
            strings, others = self._apart(wanted, root, pointer)
            kinds = sorted((types or set(JSON_TYPES)) - {"string"})
            other = self._type_word({"type": kinds}, root, pointer)
            way = self._pieces(tool, key, pointer, lit(self.string_word), strings)
            return alt(way, self._pieces(tool, key, pointer, other, others))
        word = self._type_word(wanted, root, pointer) if Slot.TYPE in self.profile.argument else EMPTY
        return self._pieces(tool, key, pointer, word, self._value(wanted, root, pointer))

    def _with_literals(self, tool: Tool, key: str, wanted: Any, root: Any, pointer: str) -> Node:
        """An argument that need not be a string, where the template puts all values in the same quotes: those that are
        none stand without, as Python has them, as what they hold of quotes could not be told from the end."""
        types = declared_types(wanted, root)
        if not types:
            self._check_untyped(wanted, pointer)
        branches = _branches(wanted, root, pointer) if "string" in types else [(wanted, pointer)]
        strings: list[Node] = [] if types else [self._free_string(_OTHERS)]
        literals: list[Node] = [] if types else [self._others(root, pointer)]
        for branch, at in branches if types else ():
            found = declared_types(branch, root)
            if "string" in found:
                strings.append(self._string(branch, root, at, tuple(types - {"string"})))
            if found - {"string"}:
                literals.append(self._json(_without_string(branch, at) if "string" in found else branch, root, at))
        bare = seq(self._key(tool, key, 0, pointer), lit("="), alt(*literals))
        return alt(self._pieces(tool, key, pointer, EMPTY, alt(*strings)), bare) if strings else bare

    def _apart(self, wanted: Any, root: Any, pointer: str) -> tuple[Node, Node]:
        """(strings, other values) of a parameter that may be either, where a word beside the key tells them apart."""
        if not declared_types(wanted, root):
            self._check_untyped(wanted, pointer)
            return self._free_string(()), self._others(root, pointer)
        strings: list[Node] = []
        others: list[Node] = []
        for branch, at in _branches(wanted, root, pointer):
            types = declared_types(branch, root)
            if "string" in types:
                strings.append(self._string(branch, root, at, ()))
            if types - {"string"}:
                others.append(self._json(_without_string(branch, at), root, at))
        return alt(*strings), alt(*others)

    def _pieces(self, tool: Tool, key: str, pointer: str, word: Node, value: Node) -> Node:
        out: list[Node] = []
        for at, piece in enumerate(self.profile.argument):
            if isinstance(piece, Marker):
                out.append(marker(piece.written, self.controls))
            elif piece is Slot.KEY:
                out.append(self._key(tool, key, at, pointer))
            elif piece is Slot.VALUE:
                out.append(value)
            elif piece is Slot.INDEX:
                out.append(Repeat(DIGIT, 1, _INDEX_DIGITS))
            else:
                out.append(word)
        return seq(*out)

    def _key(self, tool: Tool, key: str, at: int, pointer: str) -> Node:
        if self.tree is not None:
            return self.tree.notation.key(key, pointer)
        following = self.profile.argument[at + 1] if at + 1 < len(self.profile.argument) else None
        ends = following.text if isinstance(following, Marker) else ""
        excluded = "\n\r" + ends[:1] + (KEY_ENDS if self.literal else "")
        written = escaped(key, self.escapes.key)
        if not key or key != key.strip() or set(written) & set(excluded) or undone(written, self.escapes.key) != key:
            raise SchemaError(
                f"the model's format cannot carry the parameter name {key!r} (tool {tool.name!r})",
                pointer=pointer,
                param="tools",
            )
        return lit(written)

    def _type_word(self, wanted: Any, root: Any, pointer: str) -> Node:
        """The word that tells a value's type: as the template writes it, JSON's own where it shows none."""
        known = dict(self.profile.type_words) or {kind: kind for kind in JSON_TYPES}
        types = declared_types(wanted, root) or frozenset(known)
        found = [lit(known[kind]) for kind in sorted(types) if kind in known]
        if not found:
            raise SchemaError("the template does not show how it writes this type", pointer=pointer, param="tools")
        return alt(*found)

    def _value(self, wanted: Any, root: Any, pointer: str) -> Node:
        if self.tree is not None:
            return self.tree.value({} if wanted is None else wanted, root, pointer)
        if self.literal:
            return self._json({} if wanted is None else wanted, root, pointer)
        types = declared_types(wanted, root)
        if types == {"string"}:
            if self.styles.get("string") is ValueStyle.JSON:
                return self._json(wanted, root, pointer)
            return self._string(wanted, root, pointer, ())
        if types and "string" not in types:
            return self._json(wanted, root, pointer)
        if not types:
            self._check_untyped(wanted, pointer)
            return alt(self._others(root, pointer), self._free_string(_OTHERS))
        return self._union(wanted, root, pointer)

    def _check_untyped(self, wanted: Any, pointer: str) -> None:
        if isinstance(wanted, Mapping) and set(wanted) - ANNOTATIONS:
            raise SchemaError("say which type this parameter has", pointer=pointer, param="tools")

    def _others(self, root: Any, pointer: str) -> Node:
        """Any value that is no string."""
        kinds = [kind for kind in _OTHERS if not self.escapes.json or kind in _PLAIN]
        return self._json({"type": kinds}, root, pointer)

    def _json(self, wanted: Any, root: Any, pointer: str) -> Node:
        if self.escapes.json and not declared_types(wanted, root) <= _PLAIN:
            raise SchemaError(
                "objects and arrays cannot be enforced in this format, which spells their quotes otherwise",
                pointer=pointer,
                param="tools",
            )
        shared = {name: root[name] for name in ("$defs", "definitions") if isinstance(root, Mapping) and name in root}
        document = {**shared, **wanted} if isinstance(wanted, Mapping) else wanted
        return Without(schema(document, Ref("json.value")), () if self.quote else self.forbidden)

    def _union(self, wanted: Any, root: Any, pointer: str) -> Node:
        """A string or something else."""
        ways: list[Node] = []
        others = tuple(declared_types(wanted, root) - {"string"})
        for branch, at in _branches(wanted, root, pointer):
            types = declared_types(branch, root)
            if "string" in types:
                ways.append(self._string(branch, root, at, others))
            if types - {"string"}:
                ways.append(self._json(_without_string(branch, at), root, at))
        return alt(*ways)

    def _free_string(self, others: Sequence[str]) -> Node:
        if not others:
            return Without(Repeat(self.char), self.forbidden)
        return Without(_unlike(others, self.escapes.value, self.char), self.forbidden)

    def _string(self, wanted: Any, root: Any, pointer: str, others: Sequence[str]) -> Node:
        """A raw string; ``others`` are the types that it must not be taken for."""
        ways = [self._one_string(part, at, others) for part, at in _branches(wanted, root, pointer)]
        return alt(*(way for way in ways if way is not None))

    def _one_string(self, wanted: Any, pointer: str, others: Sequence[str]) -> Node | None:
        if not isinstance(wanted, Mapping):
            return self._free_string(others)
        listed = [wanted["const"]] if "const" in wanted else wanted.get("enum")
        if listed is not None:
            texts = [value for value in listed if isinstance(value, str)]
            for text in texts:
                self._check_constant(text, pointer, others)
            return alt(*(lit(escaped(text, self.escapes.value)) for text in texts)) if texts else None
        if "string" not in _named_types(wanted):
            return None
        for keyword in wanted:
            if keyword not in _STRING_WORDS:
                raise SchemaError(
                    f"{keyword!r} cannot be enforced for a string that is written raw",
                    pointer=f"{pointer}/{_escaped(keyword)}",
                    param="tools",
                )
        least, most = int(wanted.get("minLength", 0)), wanted.get("maxLength")
        if others:
            if least > 1 or most is not None:
                raise SchemaError("the length of a string beside other types cannot be enforced", pointer=pointer)
            return self._free_string(others)
        return Without(Repeat(self.char, least, None if most is None else int(most)), self.forbidden)

    def _check_constant(self, text: str, pointer: str, others: Sequence[str]) -> None:
        written = escaped(text, self.escapes.value)
        held = next((closer for closer in self.closing if closer in written), None)
        if held is not None:
            raise SchemaError(f"the value {text!r} holds {held!r}, which ends a value here", pointer=pointer)
        if (others and not _clear(text, others)) or undone(written, self.escapes.value) != text:
            raise SchemaError(f"the string {text!r} would be read as another value", pointer=pointer)


def _branches(wanted: Any, root: Any, pointer: str, depth: int = 0) -> list[tuple[Any, str]]:
    """The alternatives of a schema, ``$ref`` and single ``allOf`` followed, each with its pointer."""
    if depth > 32:
        raise SchemaError("the schema refers to itself without end", pointer=pointer)
    if not isinstance(wanted, Mapping):
        return [(wanted, pointer)]
    if "$ref" in wanted:
        return _branches(resolve(wanted, root), root, pointer, depth + 1)
    for keyword in ("anyOf", "oneOf", "allOf"):
        parts = wanted.get(keyword)
        if isinstance(parts, Sequence) and parts:
            if set(wanted) - ANNOTATIONS - {keyword, "type"} or (keyword == "allOf" and len(parts) > 1):
                raise SchemaError(
                    f"{keyword!r} beside other keywords cannot be enforced for a string that is written raw",
                    pointer=f"{pointer}/{keyword}",
                    param="tools",
                )
            found: list[tuple[Any, str]] = []
            for i, part in enumerate(parts):
                found += _branches(part, root, f"{pointer}/{keyword}/{i}", depth + 1)
            return found
    return [(wanted, pointer)]


def _named_types(wanted: Mapping[str, Any]) -> frozenset[str]:
    named = wanted.get("type")
    if named is None:
        return declared_types(wanted, wanted) or frozenset({"string"})
    return frozenset([named] if isinstance(named, str) else named)


def _without_string(wanted: Any, pointer: str) -> Any:
    """The schema without its string values."""
    if not isinstance(wanted, Mapping):
        return {"type": list(_OTHERS)}
    out = dict(wanted)
    if "enum" in out:
        out["enum"] = [value for value in out["enum"] if not isinstance(value, str)]
    types = [name for name in sorted(_named_types(wanted)) if name != "string"]
    if "type" in out or "enum" not in out:
        if not types:
            raise SchemaError("say which type this parameter has", pointer=pointer, param="tools")
        out["type"] = types
    return out


def _spelled_char(pairs: Pairs) -> Node:
    """One character of a raw string, spelled as the template does."""
    if not pairs:
        return AnyChar()
    return alt(complement(chars(_spelled(pairs)).ranges), *(lit(written) for _, written in pairs))


def _spelled(pairs: Pairs) -> str:
    """The characters that never stand for themselves."""
    return "".join(dict.fromkeys(char for pair in pairs for char in (pair[0], pair[1][0])))


def _unlike(others: Sequence[str], pairs: Pairs = (), char: Node | None = None) -> Node:
    """One or more characters that do not begin like a value of one of the ``others``, nor with a quote or a space."""
    barred = SPACES + "\"'" + "".join(_STARTS.get(kind, "") for kind in others if kind != "integer")
    if "integer" in others:
        barred += _STARTS["number"]
    known = [word for kind in others for word in _WORDS.get("number" if kind == "integer" else kind, ())]
    return _not_starting(known, barred, _spelled(pairs), char or AnyChar())


def _not_starting(known: Sequence[str], barred: str, never: str, char: Node) -> Node:
    """One or more characters, the first not in ``barred``, that begin with none of the ``known`` words in any case.

    never: characters that are not among the first ones; char: one of those behind them.
    """
    heads = sorted({word[0] for word in known})
    letters = "".join(head + head.upper() for head in heads)
    rest = Repeat(char)
    ways: list[Node] = [seq(complement(chars(barred + never + letters).ranges), rest)]
    for head in heads:
        below = [word[1:] for word in known if word[0] == head]
        if all(below):
            ways.append(seq(chars(head + head.upper()), alt(_not_starting(below, "", never, char), EMPTY)))
    return alt(*ways)


def _clear(text: str, others: Sequence[str]) -> bool:
    """True: this string is read as a string though the value may be one of the ``others``."""
    if not text or text[0] in SPACES + "\"'":
        return False
    lowered = text.lower()
    kinds = {"number" if kind == "integer" else kind for kind in others}
    return not any(
        lowered.startswith(_WORDS.get(kind, ())) or text[0] in _STARTS.get(kind, "") for kind in sorted(kinds)
    )


def _escaped(key: str) -> str:
    return key.replace("~", "~0").replace("/", "~1")
