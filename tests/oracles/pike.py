"""What a commit means, written straight from its definition: explicit threads, nothing shared, nothing remembered.

A thread is what it has still to match and what it has told. It waits where it has a choice and in front of a byte. One
step of the input is: each thread takes its choices until it stands in front of a byte, consumes it, and goes on to its
next choice or byte. When some threads pass a commit in a step, those that passed none in that step are dropped.

ASCII only, and no look-ahead but ``Until``: the machine learns byte by byte what lies ahead, this oracle at once.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import TypeAlias

from dragoman.events import Closed, Event, Opened, Text
from dragoman.grammar.nodes import (
    AnyChar,
    Atomic,
    Choice,
    Class,
    Commit,
    Control,
    Grammar,
    Literal,
    Node,
    Ref,
    Repeat,
    Sequence,
    Tag,
    Until,
)
from tests.oracles.backtrack import OutOfFuel, inside_regions, merged
from tests.oracles.wellformed import productive


@dataclass(frozen=True)
class Close:
    """The region of this name ends here."""

    name: str


Todo: TypeAlias = tuple[Node | Close, ...]


@dataclass(frozen=True)
class Thread:
    """One way to read the input so far. ``committed``: it passed a commit in this step."""

    todo: Todo
    told: tuple[Event, ...] = ()
    committed: bool = False


class Pike:
    """The threads after each byte of ``data``, best first."""

    def __init__(self, grammar: Grammar, data: bytes, *, most_threads: int = 3_000) -> None:
        self.rules = grammar.rules
        self.data = data
        self.most_threads = most_threads
        self.threads = [Thread((Ref(grammar.start),))] if productive(grammar.rules, Ref(grammar.start)) else []
        self.consumed = 0
        while self.consumed < len(data) and self.threads:
            self.step()

    def step(self) -> None:
        """One byte. Where no thread is left, ``consumed`` does not count the byte that killed them."""
        pos = self.consumed
        arrived: list[Thread] = []
        for thread in self.threads:
            for waiting in self.in_front_of_bytes(replace(thread, committed=False), pos):
                arrived += self.consume(waiting, pos)
        if any(thread.committed for thread in arrived):
            arrived = [thread for thread in arrived if thread.committed]
        if len(arrived) > self.most_threads:
            raise OutOfFuel
        self.threads = arrived
        self.consumed += bool(arrived)

    def finish(self) -> list[Event] | None:
        """The events of the best thread that is complete at the end of the input."""
        for thread in self.threads if self.consumed == len(self.data) else []:
            for end in self.in_front_of_bytes(thread, self.consumed):
                if not end.todo:
                    return merged(inside_regions(end.told))
        return None

    def in_front_of_bytes(self, thread: Thread, pos: int) -> Iterator[Thread]:
        """Every outcome of the thread's choices, best first: it has to consume, or has nothing left to match."""
        for way in self.choices(thread, pos):
            moved = self.run_on(way, pos)
            if moved.todo and self.is_choice(moved.todo[0]):
                yield from self.in_front_of_bytes(moved, pos)
            else:
                yield moved

    def is_choice(self, node: Node | Close) -> bool:
        """True where a thread waits for the byte that decides."""
        return isinstance(node, Choice | Until) or (isinstance(node, Repeat) and node.min == 0 and node.max != 0)

    def choices(self, thread: Thread, pos: int) -> list[Thread]:
        """The alternatives of the choice the thread waits at; the thread itself where it waits at none."""
        if not thread.todo or not self.is_choice(thread.todo[0]):
            return [thread]
        node, rest = thread.todo[0], thread.todo[1:]
        if isinstance(node, Choice):
            return [replace(thread, todo=(item, *rest)) for item in node.items]
        if isinstance(node, Until):
            if pos == len(self.data) or any(self.data.startswith(d, pos) for d in node.delimiters):
                return [replace(thread, todo=rest)]
            return [replace(thread, todo=(AnyChar(), node, *rest))]
        assert isinstance(node, Repeat)
        fewer = replace(node, max=None if node.max is None else node.max - 1)
        ways = [replace(thread, todo=(node.item, fewer, *rest)), replace(thread, todo=rest)]
        return ways[::-1] if node.lazy else ways

    def run_on(self, thread: Thread, pos: int) -> Thread:
        """The thread at its next choice or byte, or with nothing left to match."""
        while thread.todo and not self.is_choice(thread.todo[0]):
            node, rest = thread.todo[0], thread.todo[1:]
            match node:
                case Sequence():
                    thread = replace(thread, todo=(*node.items, *rest))
                case Repeat():
                    fewer = replace(node, min=max(0, node.min - 1), max=None if node.max is None else node.max - 1)
                    thread = replace(thread, todo=rest if node.max == 0 else (node.item, fewer, *rest))
                case Ref():
                    thread = replace(thread, todo=(self.rules[node.name], *rest))
                case Atomic():
                    thread = replace(thread, todo=(node.item, *rest))
                case Tag():
                    told = (*thread.told, Opened(node.name, pos))
                    thread = replace(thread, todo=(node.item, Close(node.name), *rest), told=told)
                case Close():
                    thread = replace(thread, todo=rest, told=(*thread.told, Closed(node.name, pos)))
                case Commit():
                    thread = replace(thread, todo=rest, committed=True)
                case Control():
                    thread = replace(thread, todo=(Literal(node.text.encode()), *rest))
                case Literal(data=b""):
                    thread = replace(thread, todo=rest)
                case Literal() | Class() | AnyChar():
                    return thread
                case _:
                    raise NotImplementedError(type(node).__name__)
        return thread

    def consume(self, thread: Thread, pos: int) -> list[Thread]:
        """The thread behind the byte at ``pos``, at its next choice or byte; nothing where it does not match."""
        if not thread.todo:
            return []
        node, rest = thread.todo[0], thread.todo[1:]
        byte = self.data[pos]
        assert byte < 0x80, "this oracle reads ASCII"
        if isinstance(node, Literal):
            fits = node.data[0] == byte
            rest = (Literal(node.data[1:]), *rest)
        elif isinstance(node, Class):
            fits = any(low <= byte <= high for low, high in node.ranges)
        else:
            fits = isinstance(node, AnyChar)
        told = (*thread.told, Text(bytes([byte]), pos))
        moved = self.run_on(replace(thread, todo=rest, told=told), pos + 1)
        return [moved] if fits and self.has_a_future(moved) else []

    def has_a_future(self, thread: Thread) -> bool:
        """False where no text can complete what the thread has still to match."""
        return all(isinstance(node, Close) or productive(self.rules, node) for node in thread.todo)
