"""Reading a model's output to its end, whatever it holds: the machine's run, and where to go on when it breaks.

Rules of this file: nothing delivered is taken back; nothing raises for model output unless the caller asked for
``strict``; every byte ends up in a region or belonged to a marker; each recovery moves forward.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from dragoman.errors import OutputError
from dragoman.events import Closed, Event, Failed, Opened, Text, text_event
from dragoman.grammar.program import Program
from dragoman.grammar.run import Run

# Bytes behind the stop that are kept to see what they are.
_BEHIND = 512
# Stands for text behind the stop that was read to see that it is one.
_TOLD = "\ufffd".encode()
# Regions whose own text is markers alone; the text of all others is delivered.
_STRUCTURE = frozenset({"opening", "call", "arg", "stop"})


@dataclass(frozen=True, slots=True)
class ControlToken:
    """A control token of the output: its symbol in the program (None: the grammar knows no such token) and its text.

    ends_turn: the vocabulary calls it an end; where the grammar does not expect it, the turn is over all the same.
    """

    symbol: int | None
    text: bytes
    ends_turn: bool = False


Item = bytes | ControlToken


class BrokenError(OutputError):
    """The output broke its format. ``events``: what the same piece had settled in front of the break."""

    def __init__(self, message: str, position: int, events: Sequence[Event]) -> None:
        super().__init__(message, position=position)
        self.events = events


class Reader:
    """Events of one output, from well-formed UTF-8 and control tokens.

    position: bytes of output read so far; what the prompt wrote counts from below zero. ended: the stop was read.
    behind: how the output behind it begins. ``prefix`` is what the prompt already wrote of the turn; its regions open,
    its text is delivered with ``echo`` only.
    """

    def __init__(
        self, program: Program, *, prefix: Sequence[Item] = (), echo: bool = False, strict: bool = False
    ) -> None:
        self._program = program
        self._strict = False
        self._echo = echo
        self._controls: list[tuple[int, ControlToken]] = []  # (position, token), not yet settled
        self._last_recovery: tuple[int, str] | None = None
        self._inside: list[str] = []  # the open regions, as told so far
        self._named = False  # the open call has its name: its own text is no longer kept for an answer
        self._loose = bytearray()  # what was told of the innermost region's own text since its last event
        self._run = Run(program, position=-sum(len(_text(item)) for item in prefix))
        self.ended = False
        self.behind = b""
        self._stopped = 0  # where the end of the turn was over
        self._complete = False  # the grammar itself read the stop
        self._opening: list[Event] = []
        for item in prefix:
            self._opening += self.feed(item)
        self.ended = self._complete = False
        self.behind = b""
        self._strict = strict

    @property
    def position(self) -> int:
        return self._run.position

    @property
    def path(self) -> tuple[str, ...]:
        """The open regions, outermost first."""
        return tuple(self._run.path)

    @property
    def symbols(self) -> Mapping[int, int]:
        """Control token id -> symbol of the program."""
        return self._program.symbols

    @property
    def run(self) -> Run:
        """The machine's cursor, for people who watch it."""
        return self._run

    def opening(self) -> list[Event]:
        """The events of the prefix; once."""
        events, self._opening = self._opening, []
        return events

    def feed(self, item: Item) -> list[Event]:
        """Read one piece; what has settled. After the stop nothing is read."""
        run = self._run
        at = run.position
        if at >= 0 and item and type(item) is bytes and not (self.ended or self._controls) and run.feed_text(item):
            self._keep(item)
            return [text_event(item, at)]
        out: list[Event] = []
        if self.ended:
            self._add_behind(item)
            return out
        rest = self._consume(item)
        self._settle(out)
        queue: list[Item] = []
        while not self.ended:
            if rest is not None:
                before, withheld = self._last_recovery, self._run.withheld + self._half_read()
                again = self._recover(out)
                if before == self._last_recovery and not withheld:
                    # For the second time no way begins with what comes: it is text, or reading would not go on.
                    rest = self._passed_over(rest, out)
                queue[:0] = [*again, *([] if rest is None else [rest])]
            if not queue:
                break
            rest = self._consume(queue.pop(0))
            self._settle(out)
        for unread in ([] if rest is None else [rest]) + queue:
            self._add_behind(unread)
        return out

    def _add_behind(self, item: Item) -> None:
        """Output behind the stop; a further end of turn is none."""
        if isinstance(item, bytes) or not item.ends_turn:
            self.behind = (self.behind + _text(item))[:_BEHIND]

    def _consume(self, item: Item) -> Item | None:
        """Feed the run; what it could not take, if anything."""
        if isinstance(item, bytes):
            count = self._run.feed(item)
            return None if count == len(item) else item[count:]
        if item.symbol is not None:
            at = self._run.position
            if self._run.feed_symbol(item.symbol, item.text):
                self._controls.append((at, item))
                return None
        if item.ends_turn:
            self.ended = True
            return None
        if item.symbol is not None and self._recoverable():
            return item
        return self._consume(item.text)

    def _recoverable(self) -> bool:
        """True: after recovery this token may still be a marker, so it is not turned into text yet."""
        return self._last_recovery is None or self._last_recovery[0] < self._run.position

    def _settle(self, out: list[Event]) -> None:
        for event in self._run.take():
            if isinstance(event, Text):
                if event.position < 0 and not self._echo:
                    if event.position + len(event.data) <= 0:
                        continue
                    event = Text(event.data[-event.position :], 0)
                self._keep(event.data)
            else:
                self._bracket(event)
            out.append(event)
        if self._controls:
            settled = self._run.settled - len(self._loose)
            self._controls = [(at, token) for at, token in self._controls if at >= settled]

    def _keep(self, told: bytes) -> None:
        """Text of a call itself, not of its arguments: a marker, or what turns out to be none."""
        if self._named and self._inside[-1] in _STRUCTURE:
            self._loose += told

    def _bracket(self, event: Event) -> None:
        """A region opens or closes."""
        self._loose.clear()
        if isinstance(event, Opened):
            self._inside.append(event.tag)
            if event.tag == "stop":
                self.ended = self._complete = True
            elif event.tag == "call":
                self._named = False
        elif isinstance(event, Closed):
            self._inside.pop()
            self._named |= event.tag.startswith("name")
            self._named &= bool(self._inside)
            if event.tag == "stop" and event.position < self._run.position:
                self._stopped = event.position
                self.behind = _TOLD  # text that the end was told by

    def _half_read(self) -> bytes:
        """What was told of a marker that the run failed in: the open region's own text behind the last commit."""
        run = self._run
        begin = run.settled - len(self._loose)
        return bytes(self._loose[max(0, run.label_position - begin) :])

    def _recover(self, out: list[Event]) -> list[Item]:
        """Start a new run after a failure; the pieces to read again."""
        run = self._run
        quiet = self._quiet()
        if self._strict and not quiet:
            where = f"inside {run.path[-1]!r}" if run.path else "between regions"
            raise BrokenError(f"the output breaks its format at byte {run.position}, {where}", run.position, out)
        label = run.label if run.label in self._program.recovery else next(iter(self._program.recovery), None)
        half = self._half_read()
        pending, settled = half + run.withheld, run.settled - len(half)
        if label is not None and not self._applies(label, run):
            label = next(iter(self._program.recovery))
        stuck = self._last_recovery == (settled, label or "")
        keep = self._program.recovery[label].keep if label is not None and not stuck else ()
        start = max(settled, run.label_position)
        if not quiet or stuck:
            out.append(Failed(label or "", run.position))
        skipped = pending[: start - settled]
        if stuck:
            skipped = _one_more(pending, start - settled)
            start = settled + len(skipped)
        if skipped and run.path and run.path[-1] not in _STRUCTURE:
            out.append(Text(skipped, settled))
            skipped = b""
        out += [Closed(tag, start) for tag in reversed(run.path[len(keep) :])]
        if skipped:
            out += [Opened("content", settled), Text(skipped, settled), Closed("content", start)]
        self._last_recovery = (settled, label or "")
        again = self._between(start, pending)
        rule = None
        if label is not None:
            rule = next(iter(self._program.recovery.values())).rule if stuck else self._program.recovery[label].rule
        self._run = Run(self._program, rule=rule, position=start, path=run.path[: len(keep)])
        self._inside = run.path[: len(keep)]
        self._named &= bool(self._inside)
        self._loose.clear()
        self._controls = []
        return again

    def _passed_over(self, item: Item, out: list[Event]) -> Item | None:
        """Tell the first character of ``item`` as content, or what is left of one; the rest of it, if any."""
        data = item if isinstance(item, bytes) else item.text
        count = 1
        while count < len(data) and data[count] & 0xC0 == 0x80:
            count += 1
        start = self._run.position
        end = start + count
        out += [Opened("content", start), Text(data[:count], start), Closed("content", end)]
        rule = next((recovery.rule for recovery in self._program.recovery.values()), None)
        self._run = Run(self._program, rule=rule, position=end)
        return data[count:] or None

    def _quiet(self) -> bool:
        """True: only one way to read a value failed, there is another."""
        recovery = self._program.recovery.get(self._run.label or "")
        return recovery is not None and recovery.quiet and self._applies(self._run.label or "", self._run)

    def _applies(self, label: str, run: Run) -> bool:
        keep = list(self._program.recovery[label].keep)
        return run.path[: len(keep)] == keep

    def _between(self, start: int, data: bytes) -> list[Item]:
        """The part of ``data``, which was read last, from ``start`` on, control tokens as such."""
        end = self._run.position
        base = end - len(data)
        out: list[Item] = []
        at = start
        for position, token in self._controls:
            if position >= at:
                if position > at:
                    out.append(data[at - base : position - base])
                out.append(token)
                at = position + len(token.text)
        if at < end:
            out.append(data[at - base :])
        return out

    def finish(self, reason: str) -> list[Event]:
        """The output ends. ``stop``: the best complete reading, else what is open is closed as it stands.

        ``length``: what is withheld is text of the open region, and nothing is closed.
        Raises: OutputError where reading is strict and ``stop`` comes inside a region that needs its end.
        """
        out: list[Event] = []
        if self._complete:
            return out
        if reason != "length":
            for _ in range(2):
                withheld = self._run.withheld
                if self._run.finish():
                    self._settle(out)
                    if self.behind is _TOLD:  # by the end of the output alone
                        self.behind = withheld[len(withheld) - (self._run.position - self._stopped) :]
                    return out
                if not self._quiet() and (self._run.path or not self._run.withheld):
                    break
                for item in self._recover(out):
                    out += self.feed(item)
            if self._strict and self._run.path:
                at = self._run.position
                raise BrokenError(f"the output ends at byte {at}, inside {self._run.path[-1]!r}", at, out)
        self._leave(out)
        if reason != "length" and self._run.path:
            out.append(Failed(self._run.label or "", self._run.position))
            out += [Closed(tag, self._run.position) for tag in reversed(self._run.path)]
        return out

    def _leave(self, out: list[Event]) -> None:
        """What is still withheld belongs to the open region, to the answer where none is open."""
        tail = self._run.withheld
        at = self._run.position - len(tail)
        if at < 0 and not self._echo:
            tail = tail[-at:]
            at = 0
        if not tail:
            return
        path = self._run.path
        if not path:
            out += [Opened("content", at), Text(tail, at), Closed("content", self._run.position)]
        else:  # inside a call too: what is no region's may be all that there is of a call without a name
            out.append(Text(tail, at))


def _one_more(pending: bytes, size: int) -> bytes:
    """The same failure twice: one character behind ``size`` bytes becomes text, so that reading moves on."""
    size += 1
    while size < len(pending) and pending[size] & 0xC0 == 0x80:
        size += 1
    return pending[:size]


def _text(item: Item) -> bytes:
    return item if isinstance(item, bytes) else item.text
