"""One tool call while it comes in: its regions -> pieces that go on the wire in the order that clients need.

The first piece has id, name and no arguments. It waits for the name and for the arguments to begin: a call that breaks
off before them is none. Arguments in front of the name wait with it. They are the model's own JSON text, or are written
from tagged parameters.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any, Final

from dragoman.chat import ToolCall, ToolCallDelta, argument_piece
from dragoman.chat_schema import declared_name, parameter_schema, tool_names, tool_parameters
from dragoman.stream.arguments import NO_SPELLINGS, ArgumentsWriter, Spellings
from dragoman.stream.call_object import CallObject
from dragoman.stream.json_text import WHITE, is_json_object, quoted
from dragoman.stream.odd_json import JsonText
from dragoman.stream.unescape import JsonUnescaper, respelled, unescape

_WHOLE: Final = frozenset({"id", "id.json", "name", "name.json", "key", "key.json"})  # read when they are complete
_ARGUMENTS: Final = frozenset({"args", "args.json", "arg"})
_SHOWN: Final = 200  # characters of a value that a problem quotes


class CallBuilder:
    """Call number ``index``. ``problems``: (code, message) pairs that the owner takes away.

    ids_after_name: an id may stand between name and arguments, so the first piece waits for it or for the arguments.
    ids_after_arguments: an id may still follow the arguments, so the first piece waits for it or for the call's end.
    constants: keys that the format itself writes into the object of a call.
    value_closer: the text behind a tagged value.
    spellings: of characters in names, keys and values, by their region.
    """

    def __init__(
        self,
        index: int,
        *,
        tools: Sequence[Mapping[str, Any]],
        new_id: Callable[[], str],
        ids_after_name: bool = False,
        ids_after_arguments: bool = False,
        constants: Collection[str] = (),
        value_closer: str = "",
        spellings: Spellings = NO_SPELLINGS,
    ) -> None:
        self.problems: list[tuple[str, str]] = []
        self._object = CallObject(constants)
        self._spellings = spellings
        self._value_closer = value_closer
        self._index = index
        self._tools = tools
        self._new_id = new_id
        self._wait_for_id = ids_after_name or ids_after_arguments
        self._begun = False  # arguments have: there is text of them
        self._wait_for_arguments = not ids_after_arguments
        self._id = ""
        self._name: str | None = None
        self._started = False  # the first piece is out
        self._broken = False
        self._closed = False
        self._arguments: list[str] = []  # delivered, or waiting for the first piece
        self._text: list[str] = []  # of the open region of _WHOLE
        self._outer: list[str] = []  # of the id around an open name
        self._in_id = False
        self._odd: list[str] = []  # of an open region of that name
        self._repaired = False  # something of it was read otherwise than it is written
        self._literal: JsonText = JsonText()
        self._unescaper: JsonUnescaper | None = None
        self._writer: ArgumentsWriter | None = None
        self._stray: list[str] | None = None  # of an open region of text that belongs to no argument
        self._early: list[tuple[str, str, str]] = []  # tagged arguments in front of the name, which tells their types

    @property
    def started(self) -> bool:
        return self._started

    @property
    def broken(self) -> bool:
        """It left its format, and what was delivered of its arguments is no object."""
        return self._broken and not is_json_object("".join(self._arguments))

    @property
    def left(self) -> bool:
        """It has a name and left its format in front of its arguments: where other text follows it is no call."""
        return self._broken and self._name is not None and not (self._begun or self._started)

    def to_tool_call(self) -> ToolCall:
        return ToolCall(self._id, self._name or "", "".join(self._arguments))

    def open(self, tag: str) -> list[ToolCallDelta]:
        """A region inside the call starts."""
        if self._name is None and _is_tagged(tag):
            self._early.append(("open", tag, ""))
            return []
        out: list[ToolCallDelta] = []
        self._object.open(tag)
        if tag in _ARGUMENTS:
            self._wait_for_id &= not self._wait_for_arguments
        if tag in _WHOLE:
            self._outer = self._text if self._in_id else []
            self._in_id |= tag.startswith("id")
            self._text = []
        elif tag == "args.json":
            self._unescaper = JsonUnescaper()
        elif tag == "stray":
            self._stray = []
        elif tag == "odd":
            self._odd = []
        elif tag.startswith("value."):
            out += self._deliver(self._tagged().begin_value(tag))
        return out

    def text(self, tag: str, text: str) -> list[ToolCallDelta]:
        """Text of the innermost region; that of the call itself are markers, and members of an object of its own."""
        if self._name is None and _is_tagged(tag):
            self._early.append(("text", tag, text))
            return []
        if tag == "args":
            return self._deliver(self._literal.feed(text))
        if tag == "call":
            self._object.text(text)
        if tag.startswith("value."):
            return self._deliver((self._writer or self._tagged()).feed(text))
        if tag in _WHOLE:
            self._text.append(text)
        elif tag == "stray" and self._stray is not None:
            self._stray.append(text)
        elif tag == "odd":
            self._odd.append(text)
        elif tag == "args.json" and self._unescaper is not None:
            return self._deliver(self._unescaper.feed(text))
        return []

    def close(self, tag: str) -> list[ToolCallDelta]:
        """A region inside the call is complete."""
        if self._name is None and _is_tagged(tag):
            self._early.append(("close", tag, ""))
            return []
        if tag in _WHOLE:
            return self._close_whole(tag)
        if tag == "stray":
            self._note_stray()
        if tag == "odd":
            self._close_odd()
        if tag == "args":
            return [] if self._broken else self._deliver(self._literal.finish())
        if tag == "args.json" and self._unescaper is not None:
            return self._deliver(self._unescaper.finish())
        if self._broken:
            return []  # as it stands: no quote and no brace is added
        if tag.startswith("value."):
            return self._deliver(self._tagged().end_value())
        if tag == "arg":
            return self._deliver(self._tagged().end_member())
        return []

    def fail(self) -> None:
        """The call left its format: from now on nothing is added that the model did not write."""
        self._broken = True

    def finish(self) -> list[ToolCallDelta]:
        """The call is over, complete or broken."""
        out = [*self._replay(), *self._start(final=True)]
        if self._broken:
            told = f"the call of {self.called} left its format and stays as it is"
            out += self._break_off("broken_call", told)
            self._note_repair()
            self._note_unread()
            return out
        arguments = "".join(self._arguments)
        if self._writer is not None:
            out += self._deliver(self._writer.finish())
            self._note_values()
        elif not arguments.strip(WHITE):
            out += self._deliver(self._flat_arguments() or "{}")
        self._note_repair()
        self._note_unread()
        if self._name is not None and not is_json_object("".join(self._arguments)):
            self.problems.append(("invalid_arguments", f"the arguments of {self.called} are no JSON object"))
        return out

    def truncate(self, written: str) -> list[ToolCallDelta]:
        """The output ends by length inside the call: what came is kept, nothing is added. written: all of its text."""
        out = [*self._replay(), *self._start(final=True)]
        called = self.called if self._name is not None or not written else f"{self.called}, which began {written!r}"
        self._note_stray()
        out += self._break_off("truncated", f"the output ended by length inside the call of {called}")
        self._note_unread()
        return out

    def _break_off(self, code: str, told: str) -> list[ToolCallDelta]:
        """The rest of arguments that do not end: what is sure of it, and a problem that has what is not."""
        sure, unsure = self._literal.release() if self._writer is None else self._writer.break_off()
        out = self._deliver(sure)
        self.problems.append((code, f"{told}; of the last value {unsure!r} is left" if unsure else told))
        return out

    def _flat_arguments(self) -> str:
        """Arguments that stand beside the name instead of inside an object of their own; empty where none do."""
        parameters = None if self._name is None else tool_parameters(self._tools, self._name)
        return self._object.take(lambda key: parameter_schema(parameters, key, parameters) is not None)

    def _note_unread(self) -> None:
        unread = self._object.unread()
        if unread and self._name is not None:
            told = ", ".join(f"{key!r}: {_shortened(value)}" for key, value in unread)
            self.problems.append(("unread_members", f"the call of {self.called} holds more than a call: {told}"))

    def _close_odd(self) -> None:
        """Text of the call's object that is no JSON."""
        text = "".join(self._odd)
        if self._broken:  # it goes on as something else
            self.problems.append(
                ("stray_text", f"the call of {self.called} breaks off behind {_shortened(repr(text))}")
            )
        self._object.text('"' if text == "'" else quoted(text.strip("'\"")))
        self._repaired = True

    def _note_repair(self) -> None:
        if self._repaired or self._literal.odd:
            told = "is not written as JSON, or names its arguments otherwise than its template; it is read as meant"
            self.problems.append(("repaired_call", f"the call of {self.called} {told}"))

    def _note_stray(self) -> None:
        if self._stray is None:
            return
        text, self._stray = "".join(self._stray).strip(WHITE), None
        told = f"holds text that belongs to no argument: {_shortened(repr(text))}" if text else "lacks a closer"
        self.problems.append(("stray_text", f"the call of {self.called} {told}"))

    @property
    def called(self) -> str:
        """Its tool, in words."""
        return "a tool not yet named" if self._name is None else repr(self._name)

    def _close_whole(self, tag: str) -> list[ToolCallDelta]:
        text = "".join(self._text)
        kind, _, encoded = tag.partition(".")
        self._in_id &= kind != "id"
        self._text = [*self._outer, text] if self._in_id else []
        if encoded:
            text = unescape(text)
        elif tag in self._spellings:
            text = respelled(text, self._spellings[tag])
        if kind == "key":
            return self._deliver(self._tagged().begin_member(text))
        if kind == "id" and not self._started:
            self._id = text
        elif kind == "name" and self._name is None and text:
            self._name = text = declared_name(self._tools, text)
            if self._tools and text not in tool_names(self._tools):
                self.problems.append(("unknown_tool", f"the model calls {text!r}, which is not among the tools"))
            return [*self._replay(), *self._start(final=False)]
        return self._start(final=False)

    def _replay(self) -> list[ToolCallDelta]:
        """Read the tagged arguments that came before the name, or of a call whose name never came."""
        early, self._early = self._early, []
        if not early:
            return []
        named, self._name = self._name, self._name or ""
        out: list[ToolCallDelta] = []
        for what, tag, text in early:
            out += self.text(tag, text) if what == "text" else self.open(tag) if what == "open" else self.close(tag)
        self._name = named
        return out

    def _start(self, *, final: bool) -> list[ToolCallDelta]:
        """The first piece, and the arguments that waited for it, as soon as both may go."""
        if self._started or self._name is None:
            return []
        if not (final or (self._begun and (self._id or not self._wait_for_id))):
            return []
        self._started = True
        self._id = self._id or self._new_id()
        out = [ToolCallDelta(self._index, id=self._id, name=self._name)]
        waiting = "".join(self._arguments)
        return [*out, ToolCallDelta(self._index, arguments=waiting)] if waiting else out

    def _tagged(self) -> ArgumentsWriter:
        if self._writer is None:
            parameters = None if self._name is None else tool_parameters(self._tools, self._name)
            self._writer = ArgumentsWriter(parameters, self._spellings, self._value_closer)
        return self._writer

    def _deliver(self, arguments: str) -> list[ToolCallDelta]:
        if self._writer is not None and self._writer.problems:
            self._note_values()
        if not arguments:
            return []
        self._arguments.append(arguments)
        if self._started:
            return [argument_piece(self._index, arguments)]
        self._begun = self._begun or bool(arguments.strip(WHITE))
        return self._start(final=False)

    def _note_values(self) -> None:
        if self._writer is not None and self._writer.problems:
            self.problems += [(code, f"call of {self.called}: {text}") for code, text in self._writer.problems]
            self._writer.problems = []


def _is_tagged(tag: str) -> bool:
    """True: a region of a tagged argument."""
    return tag in ("arg", "key", "key.json", "stray") or tag.startswith("value.")


def _shortened(text: str) -> str:
    return text if len(text) <= _SHOWN else text[:_SHOWN] + "…"
