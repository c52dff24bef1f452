"""One reading: a cursor over the machine's states and the events that are no longer in dispute.

Each history class keeps its events as a persistent list; what all classes share is *settled* and handed on by
:meth:`Run.take`, the rest is withheld. Nothing that was taken is ever taken back.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from dragoman.errors import LimitError
from dragoman.events import Closed, Event, Opened, Text, text_event
from dragoman.grammar.machine import ClassMove, Machine, Move, State
from dragoman.grammar.program import ATOMIC, Program

# Runs of bytes that change nothing are skipped by a compiled pattern once this many such bytes are known.
_SKIP_FROM = 8
# Fewer bytes than this are looked at one by one: a token's bytes cost less than the pattern.
_SKIP_LEAST = 16
# Pieces of at most so many bytes are remembered: most tokens are shorter.
_PIECE = 16


class _Node:
    """One event of a history; ``parent`` is what came before. Equal events after equal histories are one node."""

    __slots__ = ("closes", "depth", "parent", "position", "tag")

    def __init__(self, parent: _Node | None, closes: int, tag: str, position: int) -> None:
        self.parent = parent
        self.closes = closes
        self.tag = tag
        self.position = position
        self.depth: int = 0 if parent is None else parent.depth + 1


class Run:
    """One reading of one input. Single owner; the program and its machine are shared.

    position: symbols consumed so far (a control token counts as the length of the text given for it).
    path: the open regions, outermost first, of what was taken. label: the last commit passed.
    """

    def __init__(
        self, program: Program, *, rule: str | None = None, position: int = 0, path: Sequence[str] = ()
    ) -> None:
        self.machine = Machine.of(program)
        self.state: State = self.machine.start(rule)
        self.position = position
        self.path: list[str] = list(path)
        self._depth = len(self.path)  # the same for what has settled but may be held
        self.label: str | None = None
        self.label_position = position
        self.limit: LimitError | None = None
        self._histories: list[_Node] = [_Node(None, 0, "", position)]
        self._settled = 0  # depth of the last event that was taken
        self._pending = bytearray()  # bytes from _taken on
        self._taken = position
        self._held: list[Event] = []  # events inside an open atomic region
        self._released: list[Event] = []  # events before it that the same call still has to give
        self._atomic = 0
        self._calm = False  # the last :meth:`take` left nothing disputed and nothing withheld, inside a region

    @property
    def alive(self) -> bool:
        return bool(self.state.threads)

    @property
    def withheld(self) -> bytes:
        """The bytes that are consumed but not settled."""
        return bytes(self._pending)

    @property
    def settled(self) -> int:
        """The position up to which everything was taken; what follows is withheld."""
        return self._taken

    def feed(self, data: bytes) -> int:
        """Consume ``data``; how many bytes before all threads died (``len(data)``: alive)."""
        before = state = self.state
        position = self.position
        self._calm = False
        at, end = 0, len(data)
        told = False
        while at < end:
            known = state.next.get(data[at])
            if known is None:
                try:
                    known = self.machine.step(state, data[at])
                except LimitError as error:
                    self.limit = error
                    break
            after, moves, commits = known
            if after is state and moves is None and not commits:
                at += 1
                if end - at >= _SKIP_LEAST:
                    at = self._skip(state, data, at, end)
                continue
            if not after.threads:
                break
            if commits:
                self.label, self.label_position = commits[0], position + at + 1
                told = True
            if moves is not None:
                self._move(moves, position + at)
                told = True
            state = after
            at += 1
        self.state = state
        self.position = position + at
        self._pending += data if at == end else data[:at]
        if not told and at == end <= _PIECE and data.translate(None, before.loop_bytes):
            self.machine.remember(before, data, state)
        return at

    def feed_text(self, data: bytes) -> bool:
        """True: ``data`` is text of the open region and nothing else, and is consumed and taken with that.

        False: nothing is known of it; nothing changed.
        """
        state = self.state
        if not self._calm:
            return False
        if data.translate(None, state.loop_bytes):
            after = state.pieces.get(data)
            if after is None:
                return False
            self.state = after
        self.position += len(data)
        self._taken = self.position
        return True

    def feed_symbol(self, symbol: int, text: bytes) -> bool:
        """Consume one control token, whose text is ``text``; False (nothing changed): no thread takes it."""
        self._calm = False
        try:
            after, moves, commits = self.machine.step(self.state, symbol)
        except LimitError as error:
            self.limit = error
            return False
        if not after.threads:
            return False
        if commits:
            self.label, self.label_position = commits[0], self.position + len(text)
        if moves is not None:
            self._move(moves, self.position, width=len(text))
        self.state = after
        self.position += len(text)
        self._pending += text
        return True

    def _skip(self, state: State, data: bytes, at: int, end: int) -> int:
        if len(state.loops) < _SKIP_FROM:
            return at
        if state.skip_size != len(state.loops):
            state.skip = re.compile(b"[" + b"".join(b"\\x%02x" % b for b in sorted(state.loops)) + b"]*")
            state.skip_size = len(state.loops)
        assert isinstance(state.skip, re.Pattern)
        match = state.skip.match(data, at, end)
        return at if match is None else match.end()

    def _move(self, moves: Iterable[ClassMove], position: int, width: int = 1) -> None:
        made: dict[tuple[int, int, str, int], _Node] = {}
        histories: list[_Node] = []
        for old, events in moves:
            histories.append(self._extended(self._histories[old], events, position, width, made))
        self._histories = histories

    def _extended(
        self,
        node: _Node,
        events: Iterable[Move],
        position: int,
        width: int,
        made: dict[tuple[int, int, str, int], _Node],
    ) -> _Node:
        for closes, tag, offset in events:
            key = (id(node), closes, tag, offset)
            known = made.get(key)
            if known is None:
                known = made[key] = _Node(node, closes, tag, position + offset * width)
            node = known
        return node

    def finish(self) -> bool:
        """The input ends here. True: the best complete parse is settled and :meth:`take` gives the rest."""
        self._calm = False
        best = self.machine.accept(self.state)
        if best is None:
            return False
        old, events = best
        self._histories = [self._extended(self._histories[old], events, self.position, 0, {})]
        return True

    def take(self) -> list[Event]:
        """The events that have settled since the last call, in order."""
        histories = self._histories
        if len(histories) == 1 and histories[0].depth == self._settled and not self._atomic:
            return self._take_text()
        out: list[Event] = []
        settled, until = self._agreement()
        for node in settled:
            self._text(node.position, out)
            if node.tag == ATOMIC:
                self._bracket(node, out)
            elif node.closes:
                out.append(Closed(node.tag, node.position))
                self._depth -= 1
            else:
                out.append(Opened(node.tag, node.position))
                self._depth += 1
        self._settled += len(settled)
        if len(self._histories) == 1:
            self._histories[0].parent = None
        self._text(until, out)
        released, self._released = self._released, []
        if self._atomic:
            self._held += out
        else:
            released += out
            self._calm = len(self._histories) == 1 and self._depth > 0 and not self._pending
        for event in released:
            if isinstance(event, Opened):
                self.path.append(event.tag)
            elif isinstance(event, Closed):
                self.path.pop()
        return released

    def _take_text(self) -> list[Event]:
        """What most pieces are: text of the open region, nothing opened or closed and nothing disputed."""
        self._histories[0].parent = None
        self._calm = self._depth > 0
        if not self._pending:
            return []
        data, at = bytes(self._pending), self._taken
        self._pending.clear()
        self._taken = self.position
        return [text_event(data, at)] if self._depth else []

    def _unsettled(self, node: _Node) -> list[_Node]:
        """The events of a history that were not taken yet, in order."""
        nodes: list[_Node] = []
        while node.depth > self._settled:
            nodes.append(node)
            assert node.parent is not None
            node = node.parent
        nodes.reverse()
        return nodes

    def _agreement(self) -> tuple[list[_Node], int]:
        """The events on which all histories agree, and the byte up to which nobody disputes what follows them.

        Histories are compared by what they tell, not by identity: the same event may be noted right after one byte on
        one way and in front of the next byte on another.
        """
        unsettled = [self._unsettled(node) for node in self._histories]
        first = unsettled[0]
        common = len(first)
        for other in unsettled[1:]:
            common = _agreed(first, other, common)
        until = self.position
        for history in unsettled:
            if len(history) > common:
                until = min(until, history[common].position)
        return first[:common], until

    def _text(self, until: int, out: list[Event]) -> None:
        count = until - self._taken
        if count <= 0:
            return
        if self._depth:
            out.append(Text(bytes(self._pending[:count]), self._taken))
        del self._pending[:count]
        self._taken = until

    def _bracket(self, node: _Node, out: list[Event]) -> None:
        """An atomic region begins or ends: what is inside waits for its end, its brackets are no events."""
        if not node.closes:
            if not self._atomic:
                self._released += out
                out.clear()
            self._atomic += 1
            return
        self._atomic -= 1
        if not self._atomic:
            out[:] = [*self._held, *out]
            self._held = []


def _agreed(a: list[_Node], b: list[_Node], most: int) -> int:
    """How many events two histories share, ``most`` at the most."""
    most = min(most, len(b))
    for i in range(most):
        one, other = a[i], b[i]
        if one is not other and (one.position, one.closes, one.tag) != (other.position, other.closes, other.tag):
            return i
    return most
