"""The machine: a Pike simulation over bytes and control tokens, determinised lazily, as RE2 does.

Rules of this file:
- A thread is (instruction, frame, conditions, history class). Only threads that wait at a choice or at a byte are kept
  (*kernel* threads): moves without a choice run at once, choices expand on the byte that decides them.
- Frames (see :mod:`dragoman.grammar.frames`) are shared by threads that stand at the same instruction, so ambiguous
  recursion stays linear.
- A history class is a set of threads with the same events so far; a step says from which class each new class comes
  and which events it adds. One class means that nothing is disputed.
- Steps are memoised in the State objects. A cursor holds States, not numbers, so a flushed memo never dangles.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable
from typing import Final, TypeVar

from dragoman.errors import LimitError
from dragoman.grammar import guards as g
from dragoman.grammar.frames import Frame, Frames, passes, shared_above
from dragoman.grammar.program import Op, Program
from dragoman.limits import DEFAULT, Limits

# kind (0 opened, 1 closed), tag, offset (0: before the byte of this step, 1: after it)
Move = tuple[int, str, int]
ClassMove = tuple[int, tuple[Move, ...]]
Thread = tuple[int, Frame, int, int]
Arrival = tuple[Thread, tuple[Move, ...], tuple[str, ...]]  # a thread, the events and the commits on its way
T = TypeVar("T")


class _Shared(Exception):
    """A shared frame is about to be left while other threads are still inside: it has to be taken apart first."""

    def __init__(self, frame: Frame) -> None:
        super().__init__()
        self.frame = frame


class State:
    """A set (ordered in a reader) of threads, with its memo of steps.

    next: symbol -> (state, class moves or None where the only class goes on without events, commits passed).
    pieces: short runs of bytes, as models write them, without moves and commits on the way -> the state behind them.
    """

    __slots__ = (
        "accepting",
        "classes",
        "loop_bytes",
        "loops",
        "next",
        "number",
        "pieces",
        "skip",
        "skip_size",
        "threads",
    )

    def __init__(self, threads: tuple[Thread, ...], classes: int, number: int) -> None:
        self.threads = threads
        self.classes = classes
        self.number = number
        self.next: dict[int, tuple[State, tuple[ClassMove, ...] | None, tuple[str, ...]]] = {}
        self.pieces: dict[bytes, State] = {}
        self.loops: set[int] = set()  # bytes that change nothing
        self.loop_bytes = b""  # the same
        self.skip: object | None = None  # compiled pattern over `loops`
        self.skip_size = 0
        self.accepting: tuple[int, tuple[Move, ...]] | bool | None = None

    @property
    def dead(self) -> bool:
        return not self.threads


class Machine:
    """The memo of one program, shared by all runs; the lock guards the making of states, reading needs none."""

    def __init__(self, program: Program, limits: Limits = DEFAULT) -> None:
        self.program = program
        self.limits = limits
        self.lock: Final = threading.RLock()
        self.guards = g.Guards(program)
        self.frames = Frames(limits)
        self.flushes = 0
        self._numbers = 0
        self._reset()

    def _reset(self) -> None:
        self._states: dict[tuple[Thread, ...], State] = {}
        self._spare_pieces = self.limits.machine_pieces
        self.frames.reset()
        self._starts: dict[str, State] = {}

    @classmethod
    def of(cls, program: Program) -> Machine:
        """The machine of ``program``: made once, shared."""
        with _MAKING:
            if program.memo is None:
                object.__setattr__(program, "memo", cls(program))
            memo = program.memo
            assert isinstance(memo, cls)
            return memo

    def start(self, rule: str | None = None) -> State:
        """The state at the start of ``rule`` (the start rule, or that of a recovery point)."""
        name = self.program.start if rule is None else rule
        with self.lock:
            state = self._starts.get(name)
            if state is None:
                seed: Thread = (self.program.entries[name], self.frames.root, 0, 0)
                settled = self._run_on(seed, (), 1)
                threads = [] if settled is None else [settled[0]]
                # Events of moves that need no byte stay with the first step: the start has one class and no history.
                if settled is not None and (settled[1] or settled[2]):
                    threads = [seed]
                state = self._starts[name] = self._state(threads, 1)
            return state

    def step(self, state: State, symbol: int) -> tuple[State, tuple[ClassMove, ...] | None, tuple[str, ...]]:
        """The state after ``symbol``; memoised. A state without threads is dead."""
        known = state.next.get(symbol)
        if known is None:
            with self.lock:
                known = state.next.get(symbol)
                if known is None:
                    known = self._step(state, symbol)
                    state.next[symbol] = known
                    if known[0] is state and known[1] is None and not known[2]:
                        state.loops.add(symbol)
                        state.loop_bytes = bytes(loop for loop in state.loops if loop < 256)
        return known

    def remember(self, state: State, piece: bytes, after: State) -> None:
        """``piece`` leads from ``state`` to ``after`` and tells nothing on its way."""
        if self._spare_pieces:
            self._spare_pieces -= 1
            state.pieces[piece] = after

    def accept(self, state: State) -> tuple[int, tuple[Move, ...]] | None:
        """(history class, further events) of the best thread that is complete here, if one is."""
        if state.accepting is None:
            with self.lock:
                state.accepting = self._accept(state)
        return None if state.accepting is False else state.accepting  # type: ignore[return-value]

    def waits(self, state: State) -> set[int]:
        """The consuming instructions that some thread of ``state`` waits at."""
        with self.lock:
            return self._exact(state, self._closure)[0]

    # -- making states ---------------------------------------------------------------------------------------------

    def _state(self, threads: list[Thread], classes: int) -> State:
        key = tuple(threads)
        state = self._states.get(key)
        if state is None:
            if len(self._states) >= self.limits.machine_states:
                self.flushes += 1
                self._reset()
            self._numbers += 1
            state = self._states[key] = State(key, classes, self._numbers)
        return state

    def _step(self, state: State, symbol: int) -> tuple[State, tuple[ClassMove, ...] | None, tuple[str, ...]]:
        arrived = self._exact(state, lambda threads, leave: self._consume(threads, symbol, leave))
        commits: tuple[str, ...] = ()
        if any(item[2] for item in arrived):
            arrived = [item for item in arrived if item[2]]
            labels: dict[str, None] = {}
            for item in arrived:
                labels.update(dict.fromkeys(item[2]))
            commits = tuple(labels)
        if not self.program.ordered:
            return self._state(self._merged(arrived), 1), None, commits
        return (*self._classed(arrived, state.classes), commits)

    def _classed(self, arrived: list[Arrival], before: int) -> tuple[State, tuple[ClassMove, ...] | None]:
        threads: dict[tuple[int, Frame, int], int] = {}
        classes: dict[ClassMove, int] = {}
        for (at, frame, guard, old), events, _ in arrived:
            if (at, frame, guard) not in threads:
                threads[at, frame, guard] = classes.setdefault((old, events), len(classes))
        state = self._state(self._joined((*key, number) for key, number in threads.items()), len(classes))
        moves: tuple[ClassMove, ...] | None = tuple(classes)
        if moves == ((0, ()),) and before == 1:
            moves = None
        return state, moves

    def _joined(self, threads: Iterable[Thread]) -> list[Thread]:
        """Neighbours that differ in their frames only become one thread."""
        out: list[Thread] = []
        waiting = list(threads)
        for number, (at, frame, guard, old) in enumerate(waiting):
            joined = None
            if out and out[-1][0] == at and out[-1][2:] == (guard, old):
                others = [thread[1] for thread in (*out[:-1], *waiting[number + 1 :])]
                joined = self.frames.join(out[-1][1], frame, others)
            if joined is None:
                out.append((at, frame, guard, old))
            else:
                out[-1] = (at, joined, guard, old)
        return out

    def _parted(self, threads: tuple[Thread, ...], shared: Frame) -> tuple[Thread, ...]:
        """The threads with one shared frame taken apart: all of them for its first link, then all for the next.

        That is ``shared``, or the one that lies farthest above it: what is joined inside comes apart first.
        """
        above = {frame for thread in threads for frame in shared_above(thread[1], shared)}
        shared = max(above, key=lambda frame: frame.depth, default=shared)
        inside = [passes(thread[1], shared) for thread in threads]
        first, last = inside.index(True), len(inside) - inside[::-1].index(True)
        copies = [self.frames.split(thread[1], shared) for thread in threads[first:last]]
        group = [
            (thread[0], copy[i], *thread[2:])
            for i in range(len(shared.links))
            for thread, copy in zip(threads[first:last], copies, strict=True)
        ]
        return (*threads[:first], *dict.fromkeys(group), *threads[last:])

    def _merged(self, arrived: list[Arrival]) -> list[Thread]:
        """A writer's threads: one for each instruction and look-ahead, in a fixed order."""
        frames: dict[tuple[int, int], Frame] = {}
        for (at, frame, guard, _), _, _ in arrived:
            known = frames.get((at, guard))
            frames[at, guard] = frame if known is None else self.frames.merge(known, frame)
        return sorted(
            ((at, frame, guard, 0) for (at, guard), frame in frames.items()), key=lambda thread: (thread[0], thread[2])
        )

    def _exact(self, state: State, explore: Callable[[tuple[Thread, ...], frozenset[Frame]], T]) -> T:
        """``explore`` the threads; where that would mix up priorities, again with the shared frame taken apart."""
        threads = state.threads
        while True:
            try:
                return explore(threads, self._leavable(threads))
            except _Shared as shared:
                threads = self._parted(threads, shared.frame)

    def _leavable(self, threads: tuple[Thread, ...]) -> frozenset[Frame]:
        """Shared frames that may be left as they are: their only thread leaves at once, with no choice before."""
        if not self.program.ordered:
            return frozenset()
        ready = [
            (i, t[1]) for i, t in enumerate(threads) if len(t[1].links) > 1 and self.program.code[t[0]][0] in _FORKS
        ]
        return frozenset(
            frame for i, frame in ready if not any(passes(t[1], frame) for j, t in enumerate(threads) if j != i)
        )

    def _consume(self, threads: tuple[Thread, ...], symbol: int, leavable: frozenset[Frame]) -> list[Arrival]:
        """Every way of ``threads`` to consume ``symbol``, best first, each with the events and commits on its way."""
        code = self.program.code
        live = self.program.live
        out: list[Arrival] = []
        seen: set[tuple[int, Frame, int, bool]] = set()
        stack: list[Arrival] = [(thread, (), ()) for thread in reversed(threads)]
        while stack:
            thread, events, commits = stack.pop()
            at, frame, guard, old = thread
            key = (at, frame, guard, bool(commits))
            if key in seen or not live[at]:
                continue
            seen.add(key)
            op, argument, following = code[at]
            if op == Op.BYTES or op == Op.SYMBOL:
                if (symbol < 256 and argument >> symbol & 1) if op == Op.BYTES else argument == symbol:
                    after = self.guards.step(guard, symbol)
                    if after != g.DEAD:
                        arrived = self._run_on((following, frame, after, old), events, 1, commits)
                        if arrived is not None:
                            out.append(arrived)
                            if len(out) > self.limits.machine_threads:
                                raise LimitError(
                                    "too many ways to read the same text",
                                    bound="machine_threads",
                                    limit=self.limits.machine_threads,
                                )
                continue
            self._check_shared(op, frame, leavable)
            stack.extend(reversed(self._branches(thread, events, 0, commits)))
        return out

    def _check_shared(self, op: int, frame: Frame, leavable: frozenset[Frame]) -> None:
        if len(frame.links) > 1 and self.program.ordered and op in _LEAVES and frame not in leavable:
            raise _Shared(frame)

    def _branches(
        self, thread: Thread, events: tuple[Move, ...], offset: int, commits: tuple[str, ...]
    ) -> list[Arrival]:
        """Where a thread may go without consuming, best first."""
        at, frame, guard, old = thread
        op, argument, following = self.program.code[at]
        if op == Op.SPLIT:
            return [((target, frame, guard, old), events, commits) for target in argument]
        if op == Op.LOOP:
            return self._loop(thread, events, commits)
        if op == Op.PERM:
            return self._permute(thread, events, commits)
        if op == Op.RETURN:
            return [((back, parent, guard, old), events, commits) for back, _, parent in frame.links]
        if op == Op.AGAIN:
            return [
                ((following, self.frames.push(back, k + argument, parent), guard, old), events, commits)
                for back, k, parent in frame.links
            ]
        simple = self._simple(thread, events, offset, commits)
        return [] if simple is None else [simple]

    def _loop(self, thread: Thread, events: tuple[Move, ...], commits: tuple[str, ...]) -> list[Arrival]:
        at, frame, guard, old = thread
        least, most, body, leave, lazy = self.program.code[at][1]
        out: list[Arrival] = []
        for link in frame.links:
            _, k, parent = link
            if most is None and k > least:  # past the minimum nothing is counted: the number of states stays finite
                k = least
            again = ((body, self.frames.of(((at, k, parent),)), guard, old), events, commits)
            done = ((leave, parent, guard, old), events, commits)
            ways = [done, again] if lazy else [again, done]
            if k < least:
                ways = [again]
            elif most is not None and k >= most:
                ways = [done]
            out.extend(ways)
        return out

    def _permute(self, thread: Thread, events: tuple[Move, ...], commits: tuple[str, ...]) -> list[Arrival]:
        at, frame, guard, old = thread
        first, later, required, leave = self.program.code[at][1]
        out: list[Arrival] = []
        for _, used, parent in frame.links:
            entries = later if used else first
            for i, entry in enumerate(entries):
                if not used >> i & 1:
                    marked = self.frames.of(((at, used | 1 << i, parent),))
                    out.append(((entry, marked, guard, old), events, commits))
            if used & required == required:
                out.append(((leave, parent, guard, old), events, commits))
        return out

    def _simple(
        self, thread: Thread, events: tuple[Move, ...], offset: int, commits: tuple[str, ...]
    ) -> Arrival | None:
        """One move that leaves no choice; None: the thread dies."""
        at, frame, guard, old = thread
        op, argument, following = self.program.code[at]
        if op == Op.CALL:
            return (argument, self.frames.push(following, 0, frame), guard, old), events, commits
        if op == Op.OPEN or op == Op.CLOSE:
            event = (0 if op == Op.OPEN else 1, argument, offset)
            return (following, frame, guard, old), (*events, event), commits
        if op == Op.COMMIT:
            return (following, frame, guard, old), events, (*commits, argument)
        if op == Op.COUNT or op == Op.MARK:
            return (following, self.frames.push(following, 0, frame), guard, old), events, commits
        if op in _ENTERS:
            guard = self.guards.enter(guard, _ENTERS[op], argument)
        elif op == Op.LEAVE or op == Op.DROP:
            guard = self.guards.leave(guard, argument, drop=op == Op.DROP)
        elif op != Op.JUMP:
            return None
        return None if guard == g.DEAD else ((following, frame, guard, old), events, commits)

    def _run_on(
        self, thread: Thread, events: tuple[Move, ...], offset: int, commits: tuple[str, ...] = ()
    ) -> Arrival | None:
        """Follow ``thread`` while there is no choice; None where it dies."""
        code = self.program.code
        while True:
            at, frame, _guard, _old = thread
            if not self.program.live[at]:
                return None
            op = code[at][0]
            if op in _WAITS or (op in _FORKS and len(frame.links) > 1):
                return thread, events, commits
            ways = self._branches(thread, events, offset, commits)
            if len(ways) != 1:
                return (thread, events, commits) if ways else None
            thread, events, commits = ways[0]

    def _accept(self, state: State) -> tuple[int, tuple[Move, ...]] | bool:
        best = self._exact(state, self._closure)[1]
        return False if best is None else best

    def _closure(
        self, threads: tuple[Thread, ...], leavable: frozenset[Frame]
    ) -> tuple[set[int], tuple[int, tuple[Move, ...]] | None]:
        """What is reachable without consuming: the consuming instructions, and the best complete thread."""
        code = self.program.code
        waits: set[int] = set()
        best: tuple[int, tuple[Move, ...]] | None = None
        stack: list[Arrival] = [(thread, (), ()) for thread in reversed(threads)]
        seen: set[tuple[int, Frame, int]] = set()
        while stack:
            thread, events, commits = stack.pop()
            at, frame, guard, old = thread
            if (at, frame, guard) in seen:
                continue
            seen.add((at, frame, guard))
            op = code[at][0]
            if op == Op.ACCEPT:
                if best is None and self.guards.settled_at_end(guard):
                    best = old, events
            elif op in (Op.BYTES, Op.SYMBOL):
                if self.program.live[at]:
                    waits.add(at)
            else:
                self._check_shared(op, frame, leavable)
                stack.extend(reversed(self._branches(thread, events, 0, commits)))
        return waits, best


_ENTERS: dict[int, int] = {
    Op.SCAN: g.SCAN,
    Op.REQUIRE: g.REQUIRE,
    Op.REQUIRE_OR_END: g.REQUIRE_OR_END,
    Op.REFUSE: g.REFUSE,
}
_WAITS = frozenset({Op.BYTES, Op.SYMBOL, Op.SPLIT, Op.ACCEPT, Op.MATCH})
_FORKS = frozenset({Op.RETURN, Op.AGAIN})
_LEAVES = frozenset({Op.RETURN, Op.AGAIN, Op.LOOP, Op.PERM})
_MAKING = threading.Lock()
