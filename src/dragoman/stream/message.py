"""Settled events -> a message and the deltas that add up to it.

Rules of this file
    Regions nest; text belongs to the innermost one. How the text is cut changes the deltas, never their sum.
    content     streams. White space that opens a stretch of it waits: in front of a call or reasoning it is layout and
                dropped, in front of other text and at the end of the turn it is content
    reasoning   streams; a block of nothing but white space is dropped
    call        see :mod:`dragoman.stream.call`; one is over before the next begins. One without a name, or that breaks
                off in front of its arguments, is content as it was written
    opening     layout and the opener of a section in front of a call: content where the call is
    list.open   a bracket in front of calls; content where no list.close follows them, which is content by itself
    stop        the turn is over, nothing after it is read; where one call is all that may be, so does a second one
A region that the output leaves without closing is closed when the next one opens.
"""

from __future__ import annotations

import codecs
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any, Final, Literal

from dragoman.chat import Delta, Message, Problem, ToolCallDelta, call_delta
from dragoman.errors import StateError
from dragoman.events import Closed, Event, Opened, Text
from dragoman.stream.arguments import NO_SPELLINGS, Spellings
from dragoman.stream.call import CallBuilder
from dragoman.stream.mismatch import Marks, markup_in

_ROOT: Final = frozenset(
    {"content", "reasoning", "call", "opening", "hollow", "unclosed", "stop", "list.open", "list.close"}
)
_IN_CALL: Final = frozenset({"id", "id.json", "name", "name.json", "args", "args.json", "odd"})
_NO_MARKS: Final = Marks()
_LAYOUT: Final = " \t\r\n\f\v"


class _Region:
    """An open region, and the bytes of a character that a cut left unfinished."""

    __slots__ = ("_rest", "tag")

    def __init__(self, tag: str) -> None:
        self.tag = tag
        self._rest = b""

    def decode(self, data: bytes, *, final: bool = False) -> str:
        """The text of the next bytes; what is no UTF-8 becomes U+FFFD."""
        if self._rest:
            data = self._rest + data
        elif data.isascii():
            return data.decode()
        text, used = codecs.utf_8_decode(data, "replace", final)
        self._rest = data[used:]
        return text


class MessageBuilder:
    """Events in, deltas out; ``message`` is at every moment the sum of the deltas so far.

    tools: the request's tool list, for the types of tagged arguments and for names that nobody declared.
    id_source: a fresh call id; asked only for calls to which the model gave none.
    ids_after_name: the format writes ids between name and arguments, so a call waits for its id.
    ids_after_arguments: it writes them behind the arguments.
    constants: keys that the format itself writes into the object of a call.
    value_closer: the text behind a tagged value. Where an answer behind a call holds it, that value may have gone on.
    spellings: of characters in names, keys and values of calls, by their region.
    one_call: the message ends where a second call begins.
    marks: markup that an answer does not hold.
    """

    def __init__(
        self,
        tools: Sequence[Mapping[str, Any]] | None = None,
        *,
        id_source: Callable[[], str],
        ids_after_name: bool = False,
        ids_after_arguments: bool = False,
        constants: Collection[str] = (),
        value_closer: str = "",
        spellings: Spellings = NO_SPELLINGS,
        one_call: bool = False,
        marks: Marks = _NO_MARKS,
    ) -> None:
        self._one_call = one_call
        self._marks = marks
        self.full = False  # a second call was begun where one is all that may be: nothing more is read
        self._tools = tools or ()
        self._constants = constants
        self._spellings = spellings
        self._value_closer = value_closer
        self._content_before_calls = 0  # pieces of content
        self._id_source = id_source
        self._ids_after_name = ids_after_name
        self._ids_after_arguments = ids_after_arguments
        self._regions: list[_Region] = []
        self._position = 0
        self._content: list[str] = []
        self._reasoning: list[str] = []
        # White space that opens a stretch and waits; None: the stretch has shown real text.
        self._blank_content: list[str] | None = []
        self._blank_reasoning: list[str] | None = []
        self._bracket: str | None = None  # of a list of calls that is open; empty: it is none of the answer's text
        self._calls: list[CallBuilder] = []
        self._call: CallBuilder | None = None
        self._left: CallBuilder | None = None  # a call that is none if other text follows
        self._lead = ""  # the text between the last region and a call
        self._written = bytearray()  # the text of the open call, from this byte on, until it is told
        self._written_from = 0
        self._problems: list[Problem] = []
        self._truncated = False
        self._cut = False
        self._inside: int | None = None  # where the open call was left last, or its inner region closed
        self._ended = False
        self._finished = False

    @property
    def message(self) -> Message:
        """All that was delivered."""
        return Message(
            "".join(self._content),
            "".join(self._reasoning),
            tuple(call.to_tool_call() for call in self._calls if call.started),
            self._truncated,
            tuple(self._problems),
        )

    @property
    def has_calls(self) -> bool:
        return any(call.started for call in self._calls[:1])

    @property
    def cut(self) -> bool:
        """Nothing follows a call that broke off before its arguments were an object and before any closer."""
        return self._cut

    @property
    def ended(self) -> bool:
        """The model has written its end of turn."""
        return self._ended

    def note(self, code: str, message: str, position: int) -> None:
        """Add a problem that only the caller can see."""
        self._problems.append(Problem(code, message, position))

    def push(self, event: Event) -> list[Delta]:
        """The deltas that one event releases."""
        if self._finished:
            raise StateError("the message is finished; use a new builder for another turn")
        if self.full:
            return []
        if isinstance(event, Text):
            self._position = event.position + len(event.data)
            if not self._regions:
                return []
            if self._call is not None and not self._call.started:
                if not self._written:
                    self._written_from = event.position
                self._written += event.data
            region = self._regions[-1]
            return self._text(region.tag, region.decode(event.data))
        self._position = event.position
        if isinstance(event, Opened):
            return self._open(event.tag)
        if isinstance(event, Closed):
            return self._close_through(event.tag)
        self._inside = event.position
        self.note("unexpected_text", f"the output left its format (behind {event.label!r})", event.position)
        if self._call is not None:
            self._call.fail()
        return []

    def push_all(self, events: Sequence[Event]) -> list[Delta]:
        if len(events) == 1:  # what most pieces are: some text
            return self.push(events[0])
        return [delta for event in events for delta in self.push(event)]

    def finish(self, reason: Literal["stop", "length"]) -> list[Delta]:
        """The output is over; the last deltas. ``length``: it was cut off, open calls stay as they are."""
        if self._finished:
            raise StateError("the message is finished already")
        out: list[Delta] = []
        if reason == "length" and self._regions:
            root, last = self._regions[0].tag, self._regions[-1]
            self._truncated |= root in ("call", "reasoning")
            out += self._text(last.tag, last.decode(b"", final=True))
            if self._call is not None:
                out += self._wrap(self._call.truncate(self._written.decode("utf-8", "replace")))
        else:
            out += self._abandon(0)
        out += self._settle_left(cut=True)
        out += self._end_content()
        self._note_markup()
        if self._calls and self._value_closer:
            behind = "".join(self._content[self._content_before_calls :])
            if self._value_closer in behind:
                told = f"the answer behind a call holds {self._value_closer!r}: the value before it may have gone on"
                self.note("stray_closer", told, self._position)
        self._finished = True
        return out

    def forget_marks(self, texts: Collection[str]) -> None:
        """These texts are no markup where an answer holds them."""
        self._marks = self._marks.without(texts)

    def _note_markup(self) -> None:
        """What of the format the answer holds, where no problem has told of that yet."""
        known = {problem.code for problem in self._problems}
        behind = "".join(self._content[self._content_before_calls :]) if self._calls else ""
        for code, message in markup_in("".join(self._content), behind, self._marks):
            if code == "stray_closer" or not known & {"broken_call", "nameless_call", "unexpected_text", "unread_call"}:
                self.note(code, message, self._position)

    def cut_before_name(self, written: bytes, position: int) -> None:
        """The output ended inside a call that had no name yet: there is nothing to tell of it but what was written."""
        self._truncated = self._cut = True
        self._blank_content = []  # layout in front of the call
        text = written.decode("utf-8", "replace").strip()
        self.note("truncated", f"the output ended inside a call that has no name yet: {text!r}", position)

    def _open(self, tag: str) -> list[Delta]:
        if self._ended:
            return []
        out = self._abandon(self._depth_for(tag))
        out += self._settle_left(cut=tag == "stop")
        if tag == "call" and self._one_call and self.has_calls:
            self.full = self._ended = True
            self._blank_content, self._bracket = [], None  # layout of the calls
            self.note("second_call", "the model began a second call, and one was asked for", self._position)
            return out
        self._regions.append(_Region(tag))
        if tag == "call":
            self._lead = "".join(self._blank_content or ()) + self._lead
            self._written.clear()
            self._blank_content, self._inside, self._cut = [], None, False
            self._call = CallBuilder(
                len(self._calls),
                tools=self._tools,
                new_id=self._id_source,
                ids_after_name=self._ids_after_name,
                ids_after_arguments=self._ids_after_arguments,
                constants=self._constants,
                value_closer=self._value_closer,
                spellings=self._spellings,
            )
            if not self._calls:
                self._content_before_calls = len(self._content)
            self._calls.append(self._call)
            return out
        if tag in _ROOT:
            self._lead = ""
        if tag == "reasoning":
            self._blank_content, self._blank_reasoning = [], []
            self._cut = False
        elif tag == "list.open":
            out += self._release_bracket()
            self._bracket = ""
        elif tag == "hollow":
            self.note("empty_call", "the marks of a call stand there with no call between them", self._position)
        elif tag == "unclosed":
            self.note("unclosed_reasoning", "the output ends inside reasoning, without an answer", self._position)
        elif tag == "stop":
            out += self._end_content()
            self._ended = True
        elif self._call is not None:
            out += self._wrap(self._call.open(tag))
        return out

    def _depth_for(self, tag: str) -> int:
        """How many of the open regions may stay open around ``tag``."""
        if tag in _ROOT:
            return 0
        parents: tuple[str, ...] = ("call",)
        if tag.startswith("name"):
            parents = ("call", "id")
        elif tag.startswith("key"):
            parents = ("arg",)
        elif tag.startswith("value."):
            parents = ("arg", "value.array")
        elif tag == "stray":
            parents = ("call", "arg", "value.array")
        elif tag not in _IN_CALL:
            parents = ("call", "value.object")
        tags = [region.tag for region in self._regions]
        return next((at + 1 for at in range(len(tags) - 1, -1, -1) if tags[at] in parents), len(tags))

    def _text(self, tag: str, text: str) -> list[Delta]:
        if not text:
            return []
        if self._call is not None:  # what lies outside calls closes them when it opens
            return self._wrap(self._call.text(tag, text))
        if tag == "opening":
            self._lead += text
            return []
        if tag == "list.open":
            self._bracket = text
            return []
        if tag == "list.close" and self._bracket is not None:
            self._bracket = None
            return []
        if tag in ("content", "list.close"):
            return self._add_content(text)
        return self._add_reasoning(text) if tag == "reasoning" else []

    def _close_through(self, tag: str) -> list[Delta]:
        """Close the innermost region of this tag, and first what the output left open inside it."""
        tags = [region.tag for region in self._regions]
        if tag not in tags:
            return []
        depth = len(tags) - 1 - tags[::-1].index(tag)
        out = self._abandon(depth + 1)
        return out + self._close_innermost()

    def _abandon(self, depth: int) -> list[Delta]:
        """Close all regions but the outer ``depth``; a call among them is broken, as nothing closed it."""
        out: list[Delta] = []
        while len(self._regions) > depth:
            if self._call is not None:
                self._call.fail()
            out += self._close_innermost()
        return out

    def _close_innermost(self) -> list[Delta]:
        region = self._regions.pop()
        out = self._text(region.tag, region.decode(b"", final=True))
        if self._call is None:
            return out
        if region.tag != "call":
            self._inside = self._position
            return out + self._wrap(self._call.close(region.tag))
        call = self._call
        del self._written[max(0, self._position - self._written_from) :]
        if call.left:
            self._left, self._call = call, None
            return out
        out += self._wrap(call.finish())
        self._call = None
        self._cut = call.started and call.broken and self._inside == self._position
        if not call.started:
            self.note("nameless_call", "a call has no name; its text is kept as content", self._position)
            out += self._give_back()
        return out

    def _settle_left(self, *, cut: bool) -> list[Delta]:
        """What follows a call that was left in front of its arguments. cut: nothing does, so it is one that is cut."""
        call, self._left = self._left, None
        if call is None:
            return []
        if not cut:
            told = f"the call of {call.called} left its format in front of its arguments; its text is kept as content"
            self.note("broken_call", told, self._position)
            return self._give_back()
        self._call, self._cut = call, True
        out = self._wrap(call.finish())
        self._call = None
        return out

    def _give_back(self) -> list[Delta]:
        """The last call is none: its text is the answer's."""
        self._calls.pop()
        return self._add_content(self._lead + self._written.decode("utf-8", "replace"))

    def _wrap(self, pieces: list[ToolCallDelta]) -> list[Delta]:
        """The call's pieces as deltas; its problems are taken over."""
        if self._call is not None and self._call.problems:
            self._problems += [Problem(code, message, self._position) for code, message in self._call.problems]
            self._call.problems = []
        if len(pieces) == 1:
            return [call_delta(pieces[0])]
        return [call_delta(piece) for piece in pieces]

    def _release_bracket(self) -> list[Delta]:
        """Nothing closed the list: its bracket was the answer's own."""
        text, self._bracket = self._bracket, None
        if not text:
            return []
        self._content.append(text)
        return [Delta(content=text)]

    def _add_content(self, text: str) -> list[Delta]:
        self._cut = False
        if self._bracket is not None and text.strip(_LAYOUT):
            return [*self._release_bracket(), *self._add_content(text)]
        if self._blank_content is not None:
            self._blank_content.append(text)
            if not text.strip(_LAYOUT):
                return []
            text = "".join(self._blank_content)
            self._blank_content = None
        self._content.append(text)
        return [Delta(content=text)]

    def _add_reasoning(self, text: str) -> list[Delta]:
        if self._blank_reasoning is not None:
            self._blank_reasoning.append(text)
            if not text.strip(_LAYOUT):
                return []
            text = "".join(self._blank_reasoning)
            self._blank_reasoning = None
        self._reasoning.append(text)
        return [Delta(reasoning_content=text)]

    def _end_content(self) -> list[Delta]:
        """White space that is still waiting is content: nothing followed it."""
        out = self._release_bracket()
        text, self._blank_content = "".join(self._blank_content or ()), []
        if not text:
            return out
        self._content.append(text)
        return [*out, Delta(content=text)]
