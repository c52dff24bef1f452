"""How a template writes tool calls: one call, two calls and calls without arguments compared."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from string import digits
from typing import get_args

from dragoman.template.anchors import Anchors
from dragoman.template.arguments import Arguments, learn_arguments, widened
from dragoman.template.atoms import common_prefix, common_suffix, first_marker, tags
from dragoman.template.escapes import learn_escapes
from dragoman.template.json_object import merged
from dragoman.template.probe import Content, Prober, Rung, Said
from dragoman.template.profile import (
    ContentMode,
    ContentProfile,
    Escapes,
    JsonShape,
    Marker,
    Piece,
    Slot,
    ToolFormat,
    ToolProfile,
)
from dragoman.template.sentinels import FIRST, SECOND, ProbeCall, Sentinels
from dragoman.template.written import CallText, NotLearned, flaws, read_calls

_LONG_ID = "call_a1b2c3d4e5f6g7h8i9j0k1l2"
_NUMBER = re.compile(r"\d+")


@dataclass(frozen=True, slots=True)
class Body:
    """An assistant's turn with calls, end of turn left out, and where its calls stand."""

    text: str
    calls: tuple[CallText, ...]

    @property
    def before(self) -> str:
        return self.text[: self.calls[0].start]

    @property
    def between(self) -> str:
        return self.text[self.calls[0].end : self.calls[1].start]

    @property
    def after(self) -> str:
        return self.text[self.calls[-1].end :]


@dataclass(frozen=True, slots=True)
class Outer:
    """What stands around calls: before the first, around each, between two, after the last."""

    section_open: str
    open: str
    close: str
    separator: str
    section_close: str
    open_again: str = ""  # the opener of a second call where a number in it counts


@dataclass(frozen=True, slots=True)
class Learned:
    """The calls of a template. ``call_end``: how a turn with calls ends where that differs from a turn of text."""

    tools: ToolProfile
    kept_with_calls: bool
    layout: str  # what stands between content and the first call where it is no part of the section
    call_end: str
    two_calls: bool  # two calls were rendered and compared
    second_set: bool  # other words gave the same markers
    content: ContentProfile  # the answer's, with the markers that stand around it beside calls


class CallLearner:
    """Compares renderings of one template, all made on one rung."""

    def __init__(
        self,
        prober: Prober,
        rung: Rung,
        anchors: Anchors,
        empty_block: str,
        tool_start: str,
        wrapper: ContentProfile | None = None,
    ) -> None:
        self._prober = prober
        self._rung = rung
        self._anchors = anchors
        self._empty_block = empty_block
        self._tool_start = tool_start
        self._wrapper = wrapper or ContentProfile()
        self._whole = True  # a JSON object that holds a call is one; else all calls are members of one object

    def body(
        self,
        calls: Sequence[ProbeCall],
        *,
        words: Sentinels = FIRST,
        content: str | None = None,
        rung: Rung | None = None,
    ) -> Body | None:
        """The turn in which the assistant makes ``calls``; None: refused, or not all of them are written."""
        rung = rung or self._rung
        text = self._prober.after_user(Said(content, tuple(calls)), rung, words=words)
        if text is None:
            return None
        text = self._anchors.body(text)
        text = self._without_empty_answer(self._without_empty_block(text))
        text = text.removeprefix(self._wrapper.open.written) if self._wrapper.holds_calls else text
        read = read_calls(text, calls, whole=self._whole)
        if read is None or flaws(read):
            return None
        return Body(self._without_end(text, read[-1].end, words), tuple(read))

    def _without_empty_block(self, text: str) -> str:
        block = self._empty_block
        if block.strip() and text.startswith(block):
            return text[len(block) :]
        core = text.lstrip()
        return core[len(block.strip()) :] if block.strip() and core.startswith(block.strip()) else text

    def _without_empty_answer(self, text: str) -> str:
        """``text`` without the markers of an answer that says nothing, where they are written all the same."""
        around = self._wrapper.open.written + self._wrapper.close.written
        return text.removeprefix(around) if self._wrapper.open.text and self._wrapper.close.text else text

    def _without_end(self, text: str, at: int, words: Sentinels) -> str:
        end = self._anchors.text_end
        if self._rung.tail != "none":
            found = text.find(end.strip(), at) if end.strip() else text.find(words.result, at)
            return text[:found] if found >= 0 else text
        if end.strip():
            # Some write an empty answer as a turn of its own behind the turn of the calls.
            again = text.find(end.strip() + self._anchors.header.strip(), at) if self._anchors.header.strip() else -1
            if again >= 0:
                return text[:again]
            tail = common_suffix([end, text[at:]])
            if tail.strip():
                return text[: len(text) - len(tail)]
            found = text.find(end.strip(), at)
            return text[:found] if found >= 0 else text
        return text

    def learn(self) -> Learned:
        """All facts about calls; :class:`NotLearned` says why they cannot be told in our terms."""
        self._wrapper = self._wrapper_beside_calls() or self._wrapper
        self._wrapper = replace(self._wrapper, holds_calls=self._wrapped_with_answer())
        one = self.body(FIRST.calls[:1])
        if one is None:
            raise NotLearned("a call cannot be found again in the turn that it is written in")
        two = self.body(FIRST.calls)
        if one.calls[0].shape is not None and two is not None and Slot.OBJECT not in two.calls[0].slots:
            self._whole = False
            one = self.body(FIRST.calls[:1]) or one
        if two is not None and two.calls[0].slots != two.calls[1].slots:
            two = None
        arguments = None
        slots = one.calls[0].slots
        escapes = learn_escapes(self._prober, self._rung, name=Slot.NAME in slots, tagged=Slot.KEY in slots)
        if Slot.KEY in slots:
            arguments = learn_arguments(self._prober, self._rung, one.text, one.calls[0], escapes)
            if arguments.syntax or arguments.nested or arguments.quotes[0]:
                escapes = Escapes(name=escapes.name)  # these notations have rules of their own
            one, two = _widen(one, arguments), two and _widen(two, arguments)
        outer = self._outer(one, two, arguments)
        outer, call_end = self._end_apart(outer, two is not None)
        object_shape = self._shape(one, two)
        ids = Slot.ID in one.calls[0].slots or (object_shape is not None and object_shape.id_path is not None)
        kept, layout = self._content(one)
        number = _count_apart(one.before, two.before, outer) if two is not None else None
        opened, behind = (outer.section_open, "") if number is None else _around(outer.section_open, number)
        section_open = Marker.of(opened)
        tools = ToolProfile(
            format=_format(one.calls[0]),
            section_open=replace(section_open, before=section_open.before or layout)
            if not layout.strip()
            else section_open,
            section_count=Marker.of(behind),
            section_close=Marker.of(outer.section_close),
            separator=Marker.of(outer.separator),
            call=self._pieces(one, two, outer, arguments),
            object=object_shape,
            argument=arguments.pieces if arguments else (),
            argument_separator=Marker.of(arguments.separator) if arguments else Marker(),
            value_styles=arguments.styles if arguments else (),
            type_words=arguments.type_words if arguments else (),
            syntax=arguments.syntax if arguments else None,
            nested=arguments.nested if arguments else None,
            parallel=two is not None,
            array=_is_array(outer) and object_shape is not None,
            ids_in_history=ids,
            id_length=self._id_length(ids),
            needs_object_arguments=self._needs_objects(one),
            escapes=escapes,
            beside_calls=self._beside(),
            per_message=bool(self._anchors.header.strip()) and self._anchors.header.strip() in outer.separator,
        )
        same = self._same_with_other_words(one, arguments, number)
        return Learned(tools, kept, layout, call_end, two is not None, same, self._wrapper)

    def _wrapper_beside_calls(self) -> ContentProfile | None:
        """Markers around the text beside calls that other answers do not have, written without a text too."""
        if self._wrapper.mode is not ContentMode.PLAIN:
            return None
        bare = self.body(FIRST.calls[:1])
        said = self.body(FIRST.calls[:1], content=FIRST.content)
        if bare is None or said is None or FIRST.content not in said.before:
            return None
        opened, _, rest = said.before.rpartition(FIRST.content)
        found = tags(rest)
        if not tags(opened) or not found or not rest.startswith(found[0]) or bare.before != opened + rest:
            return None
        return replace(
            self._wrapper,
            mode=ContentMode.WRAPPED_WITH_CALLS,
            open=Marker.of(opened),
            close=Marker.of(found[0]),
        )

    def _wrapped_with_answer(self) -> bool:
        """True: what opens answers opens calls as well, once for both where a text stands in front of them."""
        opened = self._wrapper.open
        if self._wrapper.mode is not ContentMode.WRAPPED or not opened.text or self._wrapper.close.text:
            return False
        bare = self.body(FIRST.calls[:1])
        said = self.body(FIRST.calls[:1], content=FIRST.content)
        return (
            bare is not None
            and said is not None
            and bare.before.startswith(opened.written)
            and said.before.startswith(opened.written + FIRST.content)
            and opened.text not in said.before[len(opened.written) :]
        )

    def _outer(self, one: Body, two: Body | None, arguments: Arguments | None) -> Outer:
        cut = len(arguments.close) if arguments and not _behind_arguments(one.calls[0]) else 0
        lead = arguments.open if arguments and one.calls[0].slots[0] is Slot.KEY else ""
        outer = self._outer_with(one, two, cut)
        if not lead:
            return outer
        if not outer.open.endswith(lead):
            raise NotLearned("what stands before the arguments is part of them")
        return replace(outer, open=outer.open.removesuffix(lead), open_again=outer.open_again.removesuffix(lead))

    def _outer_with(self, one: Body, two: Body | None, cut: int) -> Outer:
        if two is None:
            return Outer("", one.before, one.after[cut:], "", "")
        between, after = two.between[cut:], two.after[cut:]
        counted = _numbers_apart(two.before, between)
        if counted is not None:
            # The second opener with the first one's number: what is left differs in nothing.
            between = between[: counted.second.start()] + counted.first[0] + between[counted.second.end() :]
        opened = common_suffix([two.before, between])
        closed = common_prefix([after, between])
        over = len(opened) + len(closed) - len(between)
        if over > 0:  # both claim the layout between two calls, or what every tag begins with on a new line
            shared = opened[:over]
            layout = max(shared.rfind(space) for space in " \n") + 1 or over
            opened, closed = opened[layout:], closed[: len(closed) - over + layout]
        separator = between[len(closed) : len(between) - len(opened)]
        again = ""
        if counted is not None:
            at = counted.first.start() - (len(two.before) - len(opened))
            again = opened[:at] + counted.second[0] + opened[at + len(counted.first[0]) :]
        section_open = two.before[: len(two.before) - len(opened)]
        return Outer(section_open, opened, closed, separator, after[len(closed) :], again)

    def _end_apart(self, outer: Outer, parallel: bool) -> tuple[Outer, str]:
        """Where text and calls end in different markers, the last marker after a call is the end of its turn.

        Not so where results follow in the same turn, without a marker that starts a new one; what closes a section that
        nothing opened is an end all the same.
        """
        starts_turn = tags(self._tool_start) and self._tool_start.strip().startswith(tags(self._tool_start)[0])
        if not starts_turn and not (parallel and outer.section_close.strip() and not outer.section_open.strip()):
            return outer, ""
        end = self._anchors.text_end
        field = "section_close" if parallel else "close"
        closing = outer.section_close if parallel else outer.close
        if not (end.strip() and self._anchors.end_after_last) or not closing.strip() or self._rung.tail != "none":
            return outer, ""
        text = self._prober.after_user(Said(None, FIRST.calls if parallel else FIRST.calls[:1]), self._rung)
        if text is None or (tags(end) or [end.strip()])[-1] in self._anchors.body(text):
            return outer, ""
        last = closing.rstrip()
        at = max(last.rfind("<"), last.rfind("["))
        if at < 0:
            return outer, ""
        return replace(outer, **{field: closing[:at]}), first_marker(closing[at:])

    def _shape(self, one: Body, two: Body | None) -> JsonShape | None:
        first = one.calls[0].shape
        if first is None:
            return None
        if first.name_is_key:
            return replace(first, args_path=(), order=())
        second = two.calls[1].shape if two else first
        shape = second and merged(first, second, *FIRST.calls)
        if shape is None:
            raise NotLearned("two calls are written as JSON objects of different form")
        return shape

    def _pieces(self, one: Body, two: Body | None, outer: Outer, arguments: Arguments | None) -> tuple[Piece, ...]:
        call = one.calls[0]
        inner = [call.between(one.text), two.calls[1].between(two.text) if two else call.between(one.text)]
        count = call.slots.index(Slot.KEY) if Slot.KEY in call.slots else len(call.marks)
        pieces: list[Piece] = _counted(outer.open, outer.open_again or outer.open)
        for number, mark in enumerate(call.marks[:count]):
            pieces.append(mark.slot)
            if number + 1 < count:
                pieces += _counted(inner[0][number], inner[1][number])
        if arguments is not None and not count:
            pieces += [Slot.ARGS, *self._pieces_behind(one, two, arguments)]
        elif arguments is not None:
            head = inner[0][count - 1]
            head = head[: len(head) - len(arguments.open)]
            other = inner[1][count - 1]
            other = other[: len(other) - len(arguments.open)]
            pieces += [*_counted(head, other), Slot.ARGS, *self._pieces_behind(one, two, arguments)]
        if outer.close:
            pieces.append(Marker.of(outer.close))
        return tuple(pieces)

    def _pieces_behind(self, one: Body, two: Body | None, arguments: Arguments) -> list[Piece]:
        """The slots behind the arguments and what stands in front of each: a name said late, or once more."""
        call, other = one.calls[0], two.calls[1] if two else one.calls[0]
        out: list[Piece] = []
        count = len(_behind_arguments(call))
        inner = call.between(one.text), other.between(two.text if two else one.text)
        for at in range(len(call.marks) - count, len(call.marks)):
            cut = len(arguments.close) if not out else 0
            out += [*_counted(inner[0][at - 1][cut:], inner[1][at - 1][cut:]), call.marks[at].slot]
        return out

    def _same_with_other_words(self, one: Body, arguments: Arguments | None, number: re.Match[str] | None) -> bool:
        other = self.body(SECOND.calls[:1], words=SECOND)
        if other is not None and arguments is not None:
            other = _widen(other, arguments)
        first, second = one.calls[0], other.calls[0] if other else None
        at = number.start() if number is not None else len(one.before)
        same = (
            other is not None
            and second is not None
            and one.before[:at] == other.before[:at]
            and one.before[at:].lstrip(digits) == other.before[at:].lstrip(digits)
            and (one.after, first.slots) == (other.after, second.slots)
            and first.between(one.text) == second.between(other.text)
        )
        if not same:
            raise NotLearned("other names and arguments give other markers")
        return same

    def _content(self, one: Body) -> tuple[bool, str]:
        """(the history keeps text beside calls, what stands between the text and the calls)."""
        with_text = self.body(FIRST.calls[:1], content=FIRST.content)
        if with_text is None or FIRST.content not in with_text.before:
            return False, ""
        before = with_text.before[with_text.before.rindex(FIRST.content) + len(FIRST.content) :]
        before = before.removeprefix(self._wrapper.close.written) if self._wrapper.close.text else before
        own = one.before if before.endswith(one.before) else one.before.lstrip()
        shared = own if before.endswith(own) else common_suffix([before, one.before])
        return True, before[: len(before) - len(shared)]

    def _beside(self) -> tuple[str, ...]:
        """The forms of content with which the calls of a message are written; beside others they are left out."""
        return tuple(
            form
            for form in get_args(Content)
            if self.body(FIRST.calls[:1], rung=replace(self._rung, content=form)) is not None
        )

    def _id_length(self, ids: bool) -> int | None:
        call = replace(FIRST.calls[0], id=_LONG_ID)
        text = self._prober.after_user(Said(None, (call,)), self._rung)
        if text is None:
            return len(FIRST.calls[0].id)
        return len(FIRST.calls[0].id) if ids and _LONG_ID not in text and _LONG_ID[-9:] in text else None

    def _needs_objects(self, one: Body) -> bool:
        if self._rung.arguments != "object":
            return False
        other = self.body(FIRST.calls[:1], rung=replace(self._rung, arguments="text"))
        if other is None or other.calls[0].slots[:1] != one.calls[0].slots[:1]:
            return True
        return (other.before, other.after, other.calls[0].shape) != (one.before, one.after, one.calls[0].shape)


def _widen(body: Body, arguments: Arguments) -> Body:
    """``body`` with marks of values that take in the quotes around them, where quotes belong to the value."""
    if not arguments.quotes[0]:
        return body
    calls = [replace(call, marks=tuple(widened(mark, arguments.quotes) for mark in call.marks)) for call in body.calls]
    return Body(body.text, tuple(calls))


def _behind_arguments(call: CallText) -> tuple[Slot, ...]:
    """The slots behind tagged arguments."""
    last = max((at for at, slot in enumerate(call.slots) if slot in (Slot.KEY, Slot.VALUE)), default=-1)
    return call.slots[last + 1 :] if last >= 0 else ()


def _format(call: CallText) -> ToolFormat:
    if Slot.OBJECT in call.slots:
        return ToolFormat.JSON_NATIVE
    return ToolFormat.TAG_WITH_TAGGED if Slot.KEY in call.slots else ToolFormat.TAG_WITH_JSON


@dataclass(frozen=True, slots=True)
class _Numbers:
    """A number in the opener of a first call, and the next one in that of a second."""

    first: re.Match[str]
    second: re.Match[str]


def _numbers_apart(before: str, between: str) -> _Numbers | None:
    """The numbers in which the openers at the end of both texts differ (``<call 1>``, ``<call 2>``); None: in none."""
    firsts, seconds = list(_NUMBER.finditer(before)), list(_NUMBER.finditer(between))
    if not firsts or not seconds:
        return None
    first, second = firsts[-1], seconds[-1]
    tail = before[first.end() :]
    heads = common_suffix([before[: first.start()], between[: second.start()]])
    same = bool(tail.strip()) and between[second.end() :] == tail and "<" in heads
    return _Numbers(first, second) if same and int(second[0]) == int(first[0]) + 1 else None


def _count_apart(one: str, two: str, outer: Outer) -> re.Match[str] | None:
    """The number in a section's opener that says how many calls follow: with one call it is another than with two."""
    for number in _NUMBER.finditer(outer.section_open):
        other = _NUMBER.match(one, number.start())
        if other and one[: other.start()] == two[: number.start()] and one[other.end() :] == two[number.end() :]:
            return number if number[0] != other[0] and outer.section_open[: number.start()].strip() else None
    return None


def _around(text: str, number: re.Match[str]) -> tuple[str, str]:
    return text[: number.start()], text[number.end() :]


def _is_array(outer: Outer) -> bool:
    opens, closes = outer.section_open.rstrip().endswith("["), outer.section_close.lstrip().startswith("]")
    return opens and closes and outer.separator.strip() == ","


def _counted(first: str, second: str) -> list[Piece]:
    """The text between two slots as pieces: a number that differs from call to call is an index."""
    if first == second:
        return [Marker.of(first)] if first else []
    numbers = list(_NUMBER.finditer(first))
    for match in numbers:
        other = _NUMBER.match(second, match.start())
        if (
            other
            and first[: match.start()] == second[: match.start()]
            and first[match.end() :] == second[other.end() :]
        ):
            out: list[Piece] = [Marker.of(first[: match.start()]), Slot.INDEX, Marker.of(first[match.end() :])]
            return [piece for piece in out if not isinstance(piece, Marker) or piece]
    raise NotLearned(f"the text between two parts of a call differs from call to call: {first!r}, {second!r}")
