"""Writing calls: the layout of the history, declared names only, arguments by their schema."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Any

from dragoman.chat_schema import resolve
from dragoman.dialect.markers import marker
from dragoman.dialect.request import DialectRequest, Tool
from dragoman.dialect.writer.values import ValueWriter
from dragoman.errors import SchemaError
from dragoman.grammar.json import DIGIT, NONZERO, json_text
from dragoman.grammar.nodes import EMPTY, Class, Node, Ref, Repeat, alt, lit, opt, schema, seq
from dragoman.template.escapes import escaped, undone
from dragoman.template.profile import JsonShape, Marker, Piece, Slot, ToolProfile

_ALPHANUMERIC = Class(((0x30, 0x39), (0x41, 0x5A), (0x61, 0x7A)))
# Ids where the template demands no length: as long as the ids that are made up where the model writes none.
_ID_LENGTH = 9
# The rule that writes one call.
CALL_RULE = "write.call"
_INDEX_DIGITS = 4
_NO_PARAMETERS = {"type": "object", "properties": {}, "additionalProperties": False}


class CallWriter:
    """The writer's rules of calls; ``write.calls`` is one call or, where that is allowed, several.

    forbidden: the texts on which the reader would act, wherever they stand.
    """

    def __init__(
        self,
        tools: ToolProfile,
        request: DialectRequest,
        controls: frozenset[str],
        forbidden: Sequence[bytes] = (),
    ) -> None:
        self.tools = tools
        self.forbidden = forbidden
        self.request = request
        self.controls = controls
        self.values = ValueWriter(tools, controls)

    def rules(self) -> dict[str, Node]:
        self._check_names()
        calls = [self._call(tool) for tool in self.request.callable_tools]
        first = self.tools.call[0] if self.tools.call and isinstance(self.tools.call[0], Marker) else Marker()
        head = marker(first.text + first.after, self.controls)
        one = seq(head, _shared(calls))
        tools = self.tools
        opening = Marker(tools.section_open.before, tools.section_open.text, tools.section_open.after)
        before = first.before if not opening else opening.before
        lead = opt(lit(before)) if before else EMPTY
        if opening:
            lead = seq(lead, marker(opening.text + opening.after, self.controls), self._count(), lit(first.before))
        more: Node = EMPTY
        if self.request.parallel and tools.parallel:
            between = marker(tools.separator.written + first.before, self.controls)
            more = Repeat(seq(between, Ref("write.call")))
        end = marker(tools.section_close.written, self.controls)
        return {**self.values.rules, "write.call": one, "write.calls": seq(lead, Ref("write.call"), more, end)}

    def _count(self) -> Node:
        """How many calls follow, where the section's opener tells; that so many follow is for the model to see to."""
        if not self.tools.section_count:
            return EMPTY
        several = self.request.parallel and self.tools.parallel
        number = seq(NONZERO, opt(DIGIT)) if several else lit("1")
        return seq(number, marker(self.tools.section_count.written, self.controls))

    def _check_names(self) -> None:
        """SchemaError for a tool whose name the format cannot carry: the reader would find another name, or none."""
        behind = [following for piece, following in pairwise(self.tools.call) if piece is Slot.NAME]
        ends = {marker.text[:1] for marker in behind if isinstance(marker, Marker)} - {""}
        for tool in self.request.callable_tools:
            escapes = self.tools.escapes.name
            raw = escaped(tool.name, escapes)
            written = raw if behind else json_text(tool.name)
            torn = bool(behind) and (
                raw != raw.strip() or "\n" in raw or any(e in raw for e in ends) or undone(raw, escapes) != tool.name
            )
            if not tool.name or torn or any(text in written.encode() for text in self.forbidden):
                at = self.request.tools.index(tool)
                raise SchemaError(
                    f"the model's format cannot carry the tool name {tool.name!r}",
                    pointer=f"/tools/{at}/function/name",
                    param="tools",
                )

    def _call(self, tool: Tool) -> list[Node]:
        """The pieces of one call behind its opening marker."""
        pieces = self.tools.call
        if pieces and isinstance(pieces[0], Marker):
            pieces = pieces[1:]
        return [self._piece(piece, tool) for piece in pieces]

    def _piece(self, piece: Piece, tool: Tool) -> Node:
        if isinstance(piece, Marker):
            return marker(piece.written, self.controls)
        if piece is Slot.NAME:
            return lit(escaped(tool.name, self.tools.escapes.name))
        if piece is Slot.ID:
            return self._id()
        if piece is Slot.INDEX:
            return Repeat(DIGIT, 1, _INDEX_DIGITS)
        if piece is Slot.OBJECT:
            return self._object(self.tools.object or JsonShape(), tool)
        if piece is Slot.ARGS and self.tools.argument:
            return self.values.arguments(tool)
        return json_arguments(tool)

    def _id(self) -> Node:
        size = self.tools.id_length or _ID_LENGTH
        return Repeat(_ALPHANUMERIC, size, size)

    def _object(self, shape: JsonShape, tool: Tool) -> Node:
        if shape.name_is_key:
            name = lit("{" + shape.open_pad + json_text(tool.name) + shape.colon)
            return seq(name, json_arguments(tool), lit(shape.close_pad + "}"))
        leaves: dict[tuple[str, ...], Node] = {path: lit(text) for path, text in shape.constants}
        leaves[shape.name_path] = lit(json_text(tool.name))
        leaves[shape.args_path] = json_arguments(tool)
        if shape.id_path is not None:
            leaves[shape.id_path] = seq(lit('"'), self._id(), lit('"'))
        order = list(dict.fromkeys((*shape.order, *leaves)))
        return _nested(shape, [(path, leaves[path]) for path in order if path in leaves])


def _nested(shape: JsonShape, leaves: Sequence[tuple[tuple[str, ...], Node]]) -> Node:
    """An object with these leaves, in this order; neighbours below one key share an object."""
    out: list[Node] = [lit("{" + shape.open_pad)]
    at = 0
    while at < len(leaves):
        path, value = leaves[at]
        end = at + 1
        if len(path) > 1:
            while end < len(leaves) and leaves[end][0][0] == path[0]:
                end += 1
            value = _nested(shape, [(below[1:], leaf) for below, leaf in leaves[at:end]])
        out += [lit(shape.comma if at else ""), lit(json_text(path[0]) + shape.colon), value]
        at = end
    return seq(*out, lit(shape.close_pad + "}"))


def json_arguments(tool: Tool) -> Node:
    """All arguments as one JSON object that the tool's schema allows."""
    # A tool that declares no parameters takes none.
    parameters: Mapping[str, Any] = _NO_PARAMETERS if tool.parameters is None else tool.parameters
    declared = resolve(parameters, parameters)
    kind = declared.get("type") if isinstance(declared, Mapping) else None
    if kind is not None and kind != "object":
        raise SchemaError(f"the parameters of tool {tool.name!r} must be an object", pointer="/type", param="tools")
    wanted = dict(parameters) if kind is not None or "$ref" in parameters else {"type": "object", **parameters}
    return schema(wanted, Ref("json.object"))


def _shared(calls: Sequence[Sequence[Node]]) -> Node:
    """One of the calls; what all of them begin with is written once, so that a thousand tools cost one opener."""
    first = calls[0]
    size = 0
    while len(calls) > 1 and all(size < len(call) and call[size] == first[size] for call in calls):
        size += 1
    return seq(*first[:size], alt(*(seq(*call[size:]) for call in calls)))
