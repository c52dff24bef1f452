"""Where a constraint stands: a local state over a frame of the writer program, interned.

Rules of this file: a position is a state over the deepest frame that all its threads pass, so that what the state
allows is shared by all places from where its rule is called. Inside a token the local state is stepped alone; only
where threads leave the base, or its count may run out, the frames themselves are used (the *absolute* state).
"""

from __future__ import annotations

from collections.abc import Sequence

from dragoman.grammar.lazy_automaton import DEAD, Automaton, Position
from dragoman.grammar.program import Op, Program

__all__ = ["Position", "Positions"]

_FRAME, _GUARD = 0xFFFFFF, 0xFFFF
_PERM, _LOOP = int(Op.PERM), int(Op.LOOP)


class Positions:
    """The positions of one automaton. Its owner's lock holds it."""

    def __init__(self, automaton: Automaton, program: Program) -> None:
        self.automaton = automaton
        self._code = program.code
        self._known: dict[tuple[int, int], Position] = {}
        self._settled: dict[tuple[int, int], Position | None] = {}
        self._relative: dict[tuple[int, int], int] = {}
        self._absolute: dict[int, Position] = {}
        self._rooms: dict[int, int] = {}

    def start(self, entry: int) -> Position | None:
        """The position at an entry of the program."""
        return self.at([entry << 40 | self.automaton.root << 16])

    def at(self, threads: Sequence[int]) -> Position | None:
        """The position of threads with real frames; None where none lives on."""
        if len(threads) == 1:
            thread = self.automaton.settled(threads[0])
            return None if thread < 0 else self._of((thread,))
        settled = [after for after in map(self.automaton.settled, threads) if after >= 0]
        return self._of(self.automaton.joined(settled)) if settled else None

    def _of(self, threads: tuple[int, ...]) -> Position:
        base = threads[0] >> 16 & _FRAME
        links = self.automaton.links[base]
        if len(threads) == 1 and (not links or self._code[links[0][0]][0] != _PERM):
            local = [threads[0] & ~(_FRAME << 16)]
        else:
            base = self._base({thread >> 16 & _FRAME for thread in threads})
            local = [thread & ~(_FRAME << 16) | self._over(thread >> 16 & _FRAME, base) << 16 for thread in threads]
        return self._known_at(self.automaton.state(local), base)

    def _known_at(self, state: int, base: int) -> Position:
        known = self._known.get((state, base))
        if known is None:
            known = self._known[state, base] = Position(self, state, base)
        return known

    def _base(self, frames: set[int]) -> int:
        """The deepest frame that all ``frames`` pass on their way to the root, no permutation's."""
        links, depth = self.automaton.links, self.automaton.depth
        frames = set(frames)
        while True:
            if len(frames) == 1:
                (frame,) = frames
                above = links[frame]
                if not above or self._code[above[0][0]][0] != _PERM:
                    return frame
            deepest = max(frames, key=depth.__getitem__)
            frames.remove(deepest)
            frames.update(parent for _, _, parent in links[deepest])

    def _over(self, frame: int, base: int) -> int:
        """``frame`` as seen from ``base``, which becomes frame 0."""
        if frame == base:
            return 0
        known = self._relative
        stack = [frame]
        while stack:
            top = stack[-1]
            missing = [p for _, _, p in self.automaton.links[top] if p != base and (p, base) not in known]
            if missing:
                stack += missing
                continue
            known[top, base] = self.automaton.frame(
                tuple((at, k, 0 if p == base else known[p, base]) for at, k, p in self.automaton.links[top])
            )
            stack.pop()
        return known[frame, base]

    def adopted(self, position: Position) -> Position:
        """A position of other positions of the same program, as one of these."""
        old = position.generation
        assert isinstance(old, Positions)
        links = old.automaton.links
        threads = old.threads(position)
        done = {old.automaton.root: self.automaton.root}
        for thread in threads:
            stack = [thread >> 16 & _FRAME]
            while stack:
                top = stack[-1]
                missing = [parent for _, _, parent in links[top] if parent not in done]
                stack += missing
                if not missing:
                    if top not in done:
                        done[top] = self.automaton.frame(tuple((at, k, done[p]) for at, k, p in links[top]))
                    stack.pop()
        found = self.at([thread & ~(_FRAME << 16) | done[thread >> 16 & _FRAME] << 16 for thread in threads])
        assert found is not None, "what lives on there lives on here"
        return found

    def threads(self, position: Position) -> tuple[int, ...]:
        """The threads of ``position``, one of these, with real frames."""
        real = self._real(self.automaton.threads[position.state], position.base)
        return self.automaton.joined([self.automaton.settled(thread) for thread in real])

    # -- steps -----------------------------------------------------------------------------------------------------

    def after(self, position: Position, data: bytes) -> Position | None:
        """The position after ``data``; None where it is not allowed."""
        automaton = self.automaton
        base = position.base
        here: Position | None = automaton.along(position, data, self._known, self._rooms.get(base) or self.room(base))
        return here or self._across(automaton.reached, base, data, automaton.stopped)

    def _across(self, state: int, base: int, data: bytes, at: int) -> Position | None:
        """The position after ``data``, of which ``at`` bytes led to ``state`` over ``base``; threads may leave it."""
        automaton, end = self.automaton, len(data)
        while True:
            if state == DEAD:
                return None
            key = (state, base)
            here = self._known.get(key)
            if here is None and automaton.stays(state):
                here = self._known[key] = Position(self, state, base)
            elif here is None:
                here = self.settled(state, base)
            if at == end or here is None:
                return here
            there = self._after(here, data[at])
            if there is None:
                return None
            base = there.base
            at = automaton.ahead(there.state, data, at + 1, self._rooms.get(base) or self.room(base))
            state = automaton.reached

    def _after(self, position: Position, byte: int) -> Position | None:
        target = self.automaton.step(self.absolute(position), byte)
        if target < 0:
            return None
        known = self._absolute.get(target)
        if known is None:
            known = self._absolute[target] = self._of(self.automaton.threads[target])
        return known

    def after_symbol(self, position: Position, symbol: int) -> Position | None:
        target = self.automaton.step_symbol(self.absolute(position), symbol)
        return None if target < 0 else self._of(self.automaton.threads[target])

    def absolute(self, position: Position) -> int:
        """The state of the same threads with real frames."""
        if position.absolute == DEAD:
            position.absolute = self.automaton.state(self.threads(position))
        return position.absolute

    def room(self, base: int) -> int:
        """How many rounds every count of ``base`` still allows; 1 for a frame that counts nothing."""
        found = self._rooms.get(base)
        if found is None:
            links = self.automaton.links[base]
            most = 1
            if links and self._code[links[0][0]][0] == _LOOP:
                most = self._code[links[0][0]][1][1]
                most = 1 << 29 if most is None else most - max(count for _, count, _ in links)
            found = self._rooms[base] = most
        return found

    def settled(self, state: int, base: int) -> Position | None:
        """The position of a local state over ``base``, taken apart: threads that left the base go on behind it."""
        key = (state, base)
        if key not in self._settled:
            threads = self.automaton.threads[state]
            if len(threads) == 1 and not threads[0] >> 16 & _FRAME and not self._counts(base):
                real = [threads[0] | base << 16]  # the most frequent: a rule is left, or goes on
            else:
                real = self._real(threads, base)
            self._settled[key] = self.at(real)
        return self._settled[key]

    def _counts(self, base: int) -> bool:
        """Whether ``base`` is a counted loop's."""
        links = self.automaton.links[base]
        return bool(links) and self.automaton.op[links[0][0]] == _LOOP

    def _real(self, threads: tuple[int, ...], base: int) -> list[int]:
        """The threads over ``base`` with real frames; those for which its count has no room are left out."""
        done: dict[tuple[int, bool], int] = {}
        out = []
        for thread in threads:
            frame = thread >> 16 & _FRAME
            waits = frame < self.automaton.bases and self.automaton.op[thread >> 40] == _LOOP
            real = self._put(frame, base, waits, done)
            if real != DEAD:
                out.append(thread & ~(_FRAME << 16) | real << 16)
        return out

    def _put(self, frame: int, base: int, waits: bool, done: dict[tuple[int, bool], int]) -> int:
        """``frame`` over ``base`` as a real frame; ``waits``: no round has begun beyond those counted."""
        automaton = self.automaton
        stack = [frame]
        while stack:
            top = stack[-1]
            if top < automaton.bases:
                done[top, waits] = self._counted(base, top, waits)
                stack.pop()
                continue
            links = automaton.links[top]
            missing = [parent for _, _, parent in links if (parent, waits) not in done]
            if missing:
                stack += missing
                continue
            real = tuple((at, k, done[p, waits]) for at, k, p in links if done[p, waits] != DEAD)
            done[top, waits] = automaton.frame(real) if real else DEAD
            stack.pop()
        return done[frame, waits]

    def _counted(self, base: int, rounds: int, waits: bool) -> int:
        if not self._counts(base):
            return base
        links = self.automaton.links[base]
        least, most = self._code[links[0][0]][1][:2]
        out: dict[tuple[int, int, int], None] = {}
        for at, count, parent in links:
            count += rounds
            if most is None:
                out[at, min(count, least), parent] = None
            elif count < most or (waits and count == most):
                out[at, count, parent] = None
        return self.automaton.frame(tuple(sorted(out))) if out else DEAD
