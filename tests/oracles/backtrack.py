"""The meaning of a grammar, as slowly and plainly as it can be written: ordered backtracking over the whole input.

Nothing is compiled, remembered or shared. Every node is a generator of all the ways it can match from a position, best
first; a parse is the first way that reaches the end of the input. The grammar machine has to agree with this.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from itertools import product
from typing import TypeAlias

from dragoman.events import Closed, Event, Opened, Text
from dragoman.grammar.nodes import (
    AnyChar,
    Atomic,
    Choice,
    Class,
    Commit,
    Control,
    Duplex,
    Grammar,
    Literal,
    Negate,
    Node,
    Peek,
    Permutation,
    Ref,
    Repeat,
    Sequence,
    Tag,
    Until,
    UntilConfirmed,
    Without,
)

Events: TypeAlias = tuple[Event, ...]
Way: TypeAlias = tuple[int, Events]  # where the match ends, what it tells


class OutOfFuel(Exception):
    """The search took more steps than allowed: the question is too large for this oracle, not wrong."""


def parse(grammar: Grammar, data: bytes, *, fuel: int = 1_000_000) -> list[Event] | None:
    """The events of the first complete parse in priority order, text merged; None where there is none."""
    return next(parses(grammar, data, fuel=fuel), None)


def parses(grammar: Grammar, data: bytes, *, fuel: int = 1_000_000) -> Iterator[list[Event]]:
    """The events of every complete parse, best first."""
    matcher = Matcher(grammar.rules, data, fuel=fuel)
    for end, events in matcher.ways(Ref(grammar.start), 0):
        if end == len(data):
            yield merged(inside_regions(events))


def accepts(grammar: Grammar, data: bytes, *, writer: bool = False, fuel: int = 1_000_000) -> bool:
    """True where a complete parse exists."""
    matcher = Matcher(grammar.rules, data, writer=writer, fuel=fuel)
    return any(end == len(data) for end, _ in matcher.ways(Ref(grammar.start), 0))


def completions(grammar: Grammar, prefix: bytes, alphabet: tuple[bytes, ...], length: int) -> Iterator[bytes]:
    """Every accepted text that is ``prefix`` and at most ``length`` symbols of the alphabet, shortest first."""
    for count in range(length + 1):
        for symbols in product(alphabet, repeat=count):
            text = prefix + b"".join(symbols)
            if accepts(grammar, text):
                yield text


def parses_prefix(grammar: Grammar, prefix: bytes, alphabet: tuple[bytes, ...], length: int) -> bool:
    """True: some accepted text starts with ``prefix``. False: none that is up to ``length`` symbols longer."""
    return next(completions(grammar, prefix, alphabet, length), None) is not None


def inside_regions(events: Events) -> Iterator[Event]:
    """The events without the text that stands in no region: the stream tells of regions only."""
    depth = 0
    for event in events:
        depth += isinstance(event, Opened) - isinstance(event, Closed)
        if depth or not isinstance(event, Text):
            yield event


def merged(events: Iterator[Event] | Events | list[Event]) -> list[Event]:
    """The same events with adjacent texts joined and empty texts gone."""
    out: list[Event] = []
    for event in events:
        last = out[-1] if out else None
        if isinstance(event, Text) and not event.data:
            continue
        if isinstance(event, Text) and isinstance(last, Text) and last.position + len(last.data) == event.position:
            out[-1] = Text(last.data + event.data, last.position)
        else:
            out.append(event)
    return out


def units(events: Iterator[Event] | Events | list[Event]) -> list[Event]:
    """The same events with every text cut into single bytes, so that "so far" is "is a prefix of the list"."""
    out: list[Event] = []
    for event in events:
        if isinstance(event, Text):
            out += (Text(event.data[i : i + 1], event.position + i) for i in range(len(event.data)))
        else:
            out.append(event)
    return out


def starts_with(whole: list[Event], part: list[Event]) -> bool:
    """True where ``part``, seen byte by byte, is a prefix of ``whole``."""
    long, short = units(whole), units(part)
    return long[: len(short)] == short


class Matcher:
    """All matches of nodes in one text. ``writer`` chooses the writer's half of a Duplex."""

    def __init__(self, rules: Mapping[str, Node], data: bytes, *, writer: bool = False, fuel: int = 1_000_000) -> None:
        self.rules = rules
        self.data = data
        self.writer = writer
        self.fuel = fuel
        self.table: dict[type, Callable[..., Iterator[Way]]] = {
            Literal: self.literal,
            Class: self.klass,
            AnyChar: self.any_char,
            Sequence: lambda node, pos: self.sequence(node.items, pos),
            Choice: self.choice,
            Repeat: self.repeat,
            Until: self.until,
            UntilConfirmed: self.until_confirmed,
            Without: self.without,
            Peek: lambda node, pos: self.nothing(pos, if_=self.begins(node.item, pos)),
            Negate: lambda node, pos: self.nothing(pos, if_=not self.begins(node.item, pos)),
            Atomic: lambda node, pos: self.ways(node.item, pos),
            Commit: lambda node, pos: self.nothing(pos),
            Tag: self.tag,
            Ref: lambda node, pos: self.ways(self.rules[node.name], pos),
            Permutation: lambda node, pos: self.permutation(node, pos, frozenset()),
            Control: lambda node, pos: self.literal(Literal(node.text.encode()), pos),
            Duplex: lambda node, pos: self.ways(node.writer if self.writer else node.reader, pos),
        }

    def ways(self, node: Node, pos: int) -> Iterator[Way]:
        """Every match of the node that starts at ``pos``, best first."""
        self.fuel -= 1
        if self.fuel < 0:
            raise OutOfFuel
        return self.table[type(node)](node, pos)

    def begins(self, node: Node, pos: int) -> bool:
        """True where the rest of the input begins with the node."""
        return next(self.ways(node, pos), None) is not None

    def nothing(self, pos: int, *, if_: bool = True) -> Iterator[Way]:
        """One empty match, under a condition."""
        if if_:
            yield pos, ()

    def character(self, pos: int) -> tuple[int, int] | None:
        """The well-formed UTF-8 character at ``pos``: (code point, its end)."""
        for size in range(1, 5):
            piece = self.data[pos : pos + size]
            if len(piece) == size:
                try:
                    return ord(piece.decode()), pos + size
                except UnicodeDecodeError:
                    continue
        return None

    def span(self, start: int, end: int) -> Way:
        return end, ((Text(self.data[start:end], start),) if end > start else ())

    def literal(self, node: Literal, pos: int) -> Iterator[Way]:
        if self.data.startswith(node.data, pos):
            yield self.span(pos, pos + len(node.data))

    def klass(self, node: Class, pos: int) -> Iterator[Way]:
        found = self.character(pos)
        if found and any(low <= found[0] <= high for low, high in node.ranges):
            yield self.span(pos, found[1])

    def any_char(self, node: AnyChar, pos: int) -> Iterator[Way]:
        found = self.character(pos)
        if found:
            yield self.span(pos, found[1])

    def sequence(self, items: tuple[Node, ...], pos: int) -> Iterator[Way]:
        if not items:
            yield pos, ()
            return
        for middle, first in self.ways(items[0], pos):
            for end, rest in self.sequence(items[1:], middle):
                yield end, first + rest

    def choice(self, node: Choice, pos: int) -> Iterator[Way]:
        for item in node.items:
            yield from self.ways(item, pos)

    def repeat(self, node: Repeat, pos: int) -> Iterator[Way]:
        """One more item is better than stopping, unless lazy. The stack is explicit: long texts need no recursion."""
        # behind[k], after k items: where, what was told, the ways of the next item
        behind: list[tuple[int, Events, Iterator[Way]]] = []
        entered: tuple[int, Events] | None = (pos, ())
        while entered or behind:
            if entered:
                more = node.max is None or len(behind) < node.max
                behind.append((*entered, self.ways(node.item, entered[0]) if more else iter(())))
                if node.lazy and len(behind) > node.min:
                    yield entered
            at, told, search = behind[-1]
            way = next(search, None)
            if way:
                entered = (way[0], told + way[1])
            else:
                entered = None
                behind.pop()
                if not node.lazy and len(behind) >= node.min:
                    yield at, told

    def until(self, node: Until, pos: int) -> Iterator[Way]:
        """At most one match: up to the first delimiter, else to the end of the input."""
        start = pos
        while pos < len(self.data) and not any(self.data.startswith(d, pos) for d in node.delimiters):
            found = self.character(pos)
            if found is None:
                return
            pos = found[1]
        yield self.span(start, pos)

    def until_confirmed(self, node: UntilConfirmed, pos: int) -> Iterator[Way]:
        """At most one match: up to the first closer that is confirmed."""
        start = pos
        while True:
            after = pos + len(node.closer)
            if self.data.startswith(node.closer, pos) and self.begins(node.follow, after):
                break
            found = self.character(pos)
            if found is None:
                return
            pos = found[1]
        _, text = self.span(start, pos)
        _, closer = self.span(pos, after)
        if node.tag is not None:
            text = (Opened(node.tag, start), *text, Closed(node.tag, pos))
        yield after, text + closer

    def without(self, node: Without, pos: int) -> Iterator[Way]:
        for end, events in self.ways(node.item, pos):
            if not any(word in self.data[pos:end] for word in node.forbidden):
                yield end, events

    def tag(self, node: Tag, pos: int) -> Iterator[Way]:
        for end, events in self.ways(node.item, pos):
            yield end, (Opened(node.name, pos), *events, Closed(node.name, end))

    def permutation(self, node: Permutation, pos: int, used: frozenset[int]) -> Iterator[Way]:
        """One more item is better than stopping; of several the earlier."""
        for index, item in enumerate(node.items):
            if index in used:
                continue
            step = (node.separator, item) if used else (item,)
            for middle, first in self.sequence(step, pos):
                for end, rest in self.permutation(node, middle, used | {index}):
                    yield end, first + rest
        if all(index in used for index, needed in enumerate(node.required) if needed):
            yield pos, ()
