"""Reading arguments that are tagged one by one.

A value ends where its closer is followed by the next argument or the end of the call: until that is read the closer is
data. So the text goes on beside every attempt to leave it, and the commit behind the next opener ends the dispute.
"""

from __future__ import annotations

from collections.abc import Iterable

from dragoman.chat_schema import parameter_schema, resolve, value_kind
from dragoman.dialect.literals import COMMA, KEY_ENDS, literal_rules
from dragoman.dialect.markers import (
    GAP,
    SPACES,
    TEXT,
    layout_after,
    layout_before,
    loose,
    marker,
    opener,
    other_than,
    run_of,
)
from dragoman.dialect.read_nested import NestedReader
from dragoman.dialect.read_objects import syntax_key, syntax_rules
from dragoman.dialect.request import Tool
from dragoman.dialect.shape import delimiter_after
from dragoman.dialect.tolerances import CDATA, wraps_values
from dragoman.grammar.nodes import EMPTY, NOTHING, Commit, Node, Ref, Repeat, Tag, alt, lit, opt, seq
from dragoman.template.profile import Marker, Slot, ToolProfile, ValueStyle


class TaggedReader:
    """The arguments of each tool of one request."""

    def __init__(self, profile: ToolProfile, tools: Iterable[Tool], controls: frozenset[str]) -> None:
        self.profile = profile
        self.controls = controls
        self.tools = {tool.name: tool for tool in reversed(tuple(tools))}
        self.styles = dict(profile.value_styles)
        pieces = profile.argument
        self.opening = pieces[0] if pieces and isinstance(pieces[0], Marker) else Marker()
        self.pieces = pieces[1:] if self.opening else pieces

    @property
    def literal(self) -> bool:
        """True: nothing closes a value, so it is a JSON or Python literal that ends by itself."""
        at = self.pieces.index(Slot.VALUE) if Slot.VALUE in self.pieces else len(self.pieces)
        return not any(isinstance(piece, Marker) and piece.text for piece in self.pieces[at + 1 :])

    def rules(self) -> dict[str, Node]:
        """The rules that :meth:`arguments` refers to."""
        if self.profile.syntax is not None:
            return syntax_rules(self.profile.syntax, self.controls)
        if self.profile.nested is not None:
            return NestedReader(self.profile.nested, self.controls).rules()
        return literal_rules() if self.literal else {}

    def arguments(self, tool: str | None) -> Node:
        """Any number of arguments of ``tool`` (None: of a tool that nobody declared)."""
        if Slot.VALUE not in self.pieces:
            return EMPTY
        if self.profile.nested is not None:
            root = None if tool is None or tool not in self.tools else self.tools[tool].parameters
            return Repeat(seq(GAP, NestedReader(self.profile.nested, self.controls).members(root, root)))
        separator = self.profile.argument_separator.text or (COMMA.text if self.literal else "")
        lead = opt(seq(GAP, marker(separator, self.controls))) if separator else EMPTY
        start = seq(GAP, opener(self.opening.text, self.controls), Commit("body")) if self.opening.text else GAP
        return Repeat(seq(lead, start, Tag("arg", self._argument(self._kinds(tool)))))

    def value_tag(self, kind: str) -> str:
        """The region in which a value is read whose schema asks for this kind of reading."""
        if kind == "string":
            return "value.json" if self.styles.get("string") is ValueStyle.JSON else "value.string"
        written = {self.styles.get(name, ValueStyle.JSON) for name in ("object", "array")}
        return "value.json" if kind == "json" and not written - {ValueStyle.JSON, ValueStyle.RAW} else "value.typed"

    def _kinds(self, name: str | None) -> dict[str, list[str]]:
        """Region -> the declared parameters that are read in it; the others are read as ``value.typed``."""
        tool = None if name is None else self.tools.get(name)
        root = None if tool is None else tool.parameters
        kinds: dict[str, list[str]] = {}
        declared = resolve(root, root)
        properties = declared.get("properties") if isinstance(declared, dict) else None
        for key in properties if isinstance(properties, dict) else ():
            region = self.value_tag(value_kind(parameter_schema(root, key, root), root))
            if region != "value.typed" and key:
                kinds.setdefault(region, []).append(key)
        return kinds

    def _argument(self, kinds: dict[str, list[str]]) -> Node:
        ways: list[Node] = []
        if self.profile.syntax is not None:
            colon = marker(self.profile.syntax.colon, self.controls)
            return seq(syntax_key(self.profile.syntax, self.controls), GAP, colon, GAP, Ref("syntax.value"))
        if self.literal:
            return self._written(run_of(self._key_ends()), "value.json")
        for region, keys in kinds.items():
            ways.append(self._written(alt(*(lit(key) for key in keys)), region))
        known = [key for keys in kinds.values() for key in keys]
        excluded = self._key_ends()
        ways.append(self._written(other_than(known, excluded) if known else run_of(excluded), "value.typed"))
        return alt(*ways)

    def _key_ends(self) -> str:
        at = self.pieces.index(Slot.KEY) if Slot.KEY in self.pieces else None
        following = self.pieces[at + 1] if at is not None and at + 1 < len(self.pieces) else None
        text = following.text if isinstance(following, Marker) else ""
        if self.literal:
            return KEY_ENDS + text[:1]
        return "\n\r" + (text[0] if text else SPACES)

    def _written(self, key: Node, region: str) -> Node:
        """One argument behind its opener, with this way to read the key, its value in this region."""
        out: list[Node] = []
        for at, piece in enumerate(self.pieces):
            before = self.pieces[at - 1] if at else self.opening
            if piece is Slot.KEY:
                out.append(Tag("key", key))
            elif piece is Slot.VALUE:
                lead = layout_after(before.after) if isinstance(before, Marker) else EMPTY
                value: Node = Tag("value.json", Ref("literal.value")) if self.literal else Tag(region, TEXT)
                if wraps_values(delimiter_after(self.pieces, at).text):
                    wrapped = seq(GAP, lit(CDATA[0]), Commit("body"), Tag(region, TEXT), lit(CDATA[1]), GAP)
                    value = alt(wrapped, value)
                out += [GAP if self.literal else lead, value]
            elif isinstance(piece, Marker):
                lead = layout_before(piece.before) if before is Slot.VALUE else GAP
                valued = at + 1 < len(self.pieces) and self.pieces[at + 1] is Slot.VALUE
                text = loose(piece.text, self.controls) if piece.text else EMPTY
                out += [lead, text, GAP if piece.after and not valued and at + 1 < len(self.pieces) else EMPTY]
            else:
                ends = self.pieces[at + 1] if at + 1 < len(self.pieces) else None
                out.append(run_of(SPACES + (ends.text[:1] if isinstance(ends, Marker) else "")))
        return seq(*out) if out else NOTHING
