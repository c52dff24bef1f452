"""Where the parts of probe calls stand in a rendered text: the text as markers and slots in turn."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from dragoman.template.json_object import Found, find_json
from dragoman.template.profile import JsonShape, Slot
from dragoman.template.sentinels import ProbeCall

# The flaw of a call of which only the id stands in the history.
UNNAMED = "the tool's name is not written"


class NotLearned(Exception):
    """A format that the profile cannot express; the text says why. Never leaves this package."""


@dataclass(frozen=True, slots=True)
class Mark:
    """One slot as it stands in a text. ``argument``: which argument of its call, -1 where that means nothing."""

    slot: Slot
    start: int
    end: int
    argument: int = -1


@dataclass(frozen=True, slots=True)
class CallText:
    """One call in a text: marks in order. shapes: of its JSON object. flaw: why it is not a usable rendering."""

    marks: tuple[Mark, ...]
    shape: JsonShape | None = None
    flaw: str | None = None

    @property
    def start(self) -> int:
        return self.marks[0].start

    @property
    def end(self) -> int:
        return self.marks[-1].end

    @property
    def slots(self) -> tuple[Slot, ...]:
        return tuple(mark.slot for mark in self.marks)

    def between(self, text: str) -> list[str]:
        """The texts between one mark and the next."""
        return [text[a.end : b.start] for a, b in zip(self.marks, self.marks[1:], strict=False)]


def read_calls(text: str, calls: Sequence[ProbeCall], *, whole: bool = True) -> list[CallText] | None:
    """Where each call stands in ``text``; None: one of them is not written there in this order.

    whole: False takes a JSON object that is one call apart, into the name and the arguments.
    """
    out: list[CallText] = []
    at = 0
    for index, call in enumerate(calls):
        limit = len(text)
        if index + 1 < len(calls):
            limit = _begin_of(text, calls[index + 1], at)
        read = _read_call(text, at, limit, call, whole)
        if read is None:
            return None
        out.append(read)
        at = read.end
    return out


def _begin_of(text: str, call: ProbeCall, at: int) -> int:
    """Where the first word of ``call`` stands; a JSON object around it may begin earlier."""
    words = [call.id, call.name, call.arguments[0][0] if call.arguments else call.name]
    places = [place for place in (text.find(word, at) for word in words) if place >= 0]
    return min(places, default=len(text))


def _read_call(text: str, start: int, limit: int, call: ProbeCall, whole: bool) -> CallText | None:
    part = text[start:limit]
    found = find_json(part, call, whole=whole)
    marks: list[Mark] = []
    if found is not None:
        slot = Slot.OBJECT if found.shape is not None else Slot.ARGS
        marks.append(Mark(slot, start + found.start, start + found.end))
    rest = [(Slot.NAME, call.name, -1), (Slot.ID, call.id, -1)]
    if found is None:
        for number, (key, value) in enumerate(call.arguments):
            rest += [(Slot.KEY, key, number), (Slot.VALUE, str(value), number)]
    for slot, word, number in rest:
        places = _outside(text, word, start, limit, found)
        marks += [Mark(slot, place, place + len(word), number) for place in places]
    marks.sort(key=lambda mark: mark.start)
    slots = [mark.slot for mark in marks]
    if Slot.NAME not in slots and Slot.OBJECT not in slots:
        return None if Slot.ID not in slots else CallText(tuple(marks), flaw=UNNAMED)
    return CallText(tuple(marks), found.shape if found else None, _flaw(part, marks, found, call))


def _outside(text: str, word: str, start: int, limit: int, found: Found | None) -> Iterator[int]:
    """Where ``word`` stands in ``text[start:limit]``, the found JSON left out."""
    parts = [(start, limit)] if found is None else [(start, start + found.start), (start + found.end, limit)]
    for begin, end in parts:
        place = text.find(word, begin, end)
        while place >= 0:
            yield place
            place = text.find(word, place + len(word), end)


def _flaw(part: str, marks: list[Mark], found: Found | None, call: ProbeCall) -> str | None:
    """Why this rendering is not one to learn from; None: it is."""
    if found is not None:
        if found.as_text and found.shape is None:
            return "the arguments are written as a string that holds JSON"
        return None
    if call.arguments and (str(call.args) in part or str(call.args)[1:-1] in part):
        return "the arguments are written as a Python dict"
    order = [(mark.slot, mark.argument) for mark in marks if mark.argument >= 0]
    wanted = [(slot, i) for i in range(len(call.arguments)) for slot in (Slot.KEY, Slot.VALUE)]
    closed = [(slot, i) for i in range(len(call.arguments)) for slot in (Slot.KEY, Slot.VALUE, Slot.KEY)]
    if order == closed:
        return None  # <key>value</key>
    if order != wanted and sorted(set(order), key=order.index) == wanted:
        return "the end of an argument repeats its key"
    if order != wanted:
        return "the arguments are not all written in order"
    return None


def flaws(read: Sequence[CallText]) -> str | None:
    return next((call.flaw for call in read if call.flaw), None)
