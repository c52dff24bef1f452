# cython: language_level=3, annotation_typing=False, boundscheck=False, wraparound=False, initializedcheck=False
"""The writer's automaton over bytes, for masks: the first of the two hot files (the other one is walk.py).

Rules of this file: plain Python, typed for Cython by ``lazy_automaton.pxd`` beside it; compiled where a C compiler was
found at installation, else run as it is, with the same results.

A thread is (instruction, frame, conditions) packed into one int; a state is a set of threads. Frames are numbers:
those below ``bases`` stand for an unknown frame, the *base*, with so many rounds of its counted loop added. A state
over a base is *local*: what it allows is found once, whatever the base turns out to be. Where a thread leaves the base
the state has an *exit* (rounds, conditions). ``need`` is the number of rounds that the base's loop must still allow.
"""

from __future__ import annotations

from array import array
from typing import Any

import numpy as np

from dragoman.errors import LimitError
from dragoman.grammar.byte_sets import ByteSets
from dragoman.grammar.guards import Guards
from dragoman.grammar.program import Program
from dragoman.limits import Limits

DEAD = -1
NEVER = 1 << 30  # a need that no base can meet: the state lives on through its exits only
_NEW = -2  # no step of the state is known yet
_ASK, _TAIL = -1, -2  # of ``same``: not known yet; ends in a return
_DEAD, _NEVER = DEAD, NEVER  # the same as C numbers
_NOTHING: tuple[Any, ...] = ()
_SPARE = 64  # room for instructions of the automaton's own
_FEW = 64  # threads that are looked through one by one
_LONGEST = 3  # bytes behind the first one of a character

# Numbers of program.Op, where the loops of this file need them as constants.
_BYTES, _SYMBOL, _SPLIT, _JUMP, _CALL, _RETURN = 0, 1, 2, 3, 4, 5
_COUNT, _LOOP, _AGAIN, _MARK, _PERM = 9, 10, 11, 12, 13
_SCAN, _LEAVE, _DROP, _REQUIRE, _REQUIRE_OR_END, _REFUSE, _MATCH, _ACCEPT, _ENTER = 14, 15, 16, 17, 18, 19, 20, 21, 22


class Position:
    """Where a writer stands: the threads of the local ``state`` over the frame ``base``. Compare by identity.

    generation: whose position it is. absolute: the state with real frames, DEAD until it is asked for. mask, next: for
    the owner to keep what may come next, and the positions after tokens.
    """

    def __init__(self, generation: object, state: int, base: int) -> None:
        self.generation = generation
        self.state = state
        self.base = base
        self.absolute = _DEAD
        self.mask: Any = None
        self.next: dict[int, Any] = {}


class Automaton:
    """States, frames and steps of one writer program; grows as it is walked. The owner's lock holds it.

    exits, symbols, accepts: by state; what it can do without a byte.
    """

    def __init__(self, program: Program, guards: Guards, bases: int, limits: Limits):
        self.program = program
        code = program.code[: len(program.live)]
        spare = max(_SPARE, len(code) // 2)
        self.args = [argument for _, argument, _ in code]
        self.code_size = len(code)
        self.op = array("b", bytes([op for op, _, _ in code]) + bytes(spare))
        self.then = array("i", np.array([following for _, _, following in code] + [0] * spare, np.int32).tobytes())
        self.live = array("B", program.live + b"\1" * spare)
        # By instruction, of those that wait for one of several bytes: the one that stands for all that do the same.
        self.same = array("i", b"\xff" * 4 * (len(code) + spare))
        self.heads = program.heads
        self.guards = guards
        self.limits = limits
        self.bases = bases
        self.links: list[tuple[Any, ...]] = [()] * (bases + 1)
        self.depth = array("i", [0] * (bases + 1))
        self.rounds = array("i", [*range(bases), 0])
        self.root = bases
        self.frames: dict[Any, int] = {}
        self.merges: dict[Any, int] = {}
        self.numbers: dict[Any, int] = {}
        self.threads: list[tuple[int, ...]] = []
        self.exits: list[tuple[tuple[int, int], ...]] = []
        self.symbols: list[tuple[int, ...]] = []
        self.accepts: list[bool] = []
        self.waiting: list[Any] = []  # consuming threads of states that were never stepped
        self.size = 0
        self.byte = array("i", bytes(4 * 256))  # the only byte that leads on, -1: several, _NEW: not known yet
        self.after = array("i", bytes(4 * 256))  # the state behind it, or the number of the row
        self.need = array("i", bytes(4 * 256))
        self.most = array("i", bytes(4 * 256))  # the largest need of one of its threads
        self.leaves = array("b", bytes(256))
        self.wide = array("h", bytes(2 * 256))  # how many bytes lead on, once that is known
        self.record = array("b", bytes(256))  # the walk's: its record, counted from 1; -1: none, 0: not known yet
        self.loops = array("Q", bytes(8 * 256))  # the walk's: the kinds of bytes that change nothing; 0: not known yet
        self.rows = array("i", b"\xff" * (4 * 32 * 256))  # _DEAD everywhere
        self.row_count = 0
        self.stack, self.met_first = (array("q", bytes(8 * _FEW)) for _ in range(2))
        self.met_later: set[int] = set()
        self.met_count = 0
        self.tails: dict[int, int] = {}  # of ``returning``
        self.reached = _DEAD
        self.stopped = 0
        self.set_of = array("i", b"\xff" * 4 * (len(code) + spare))  # by instruction: the number of its set of bytes
        self.byte_sets = ByteSets()
        self.runs, self.set_numbers = self.byte_sets.runs, self.byte_sets.numbers
        self.class_of = array("i", bytes(4 * 256))  # by byte
        self.class_above, self.class_next, self.class_state = (array("i", bytes(4 * 1024)) for _ in range(3))
        self.class_turn, self.class_thread = (array("q", bytes(8 * 1024)) for _ in range(2))
        self.class_count = 1
        self.turn = 0
        self.read()

    # -- frames ----------------------------------------------------------------------------------------------------

    def frame(self, links: tuple[Any, ...]) -> int:
        """The frame with these links (instruction, count, parent). LimitError past ``limits.machine_depth``."""
        known = self.frames.get(links)
        if known is not None:
            return known
        depth = 0
        rounds = _NEVER
        for link in links:
            parent = link[2]
            depth = max(depth, self.depth[parent])
            rounds = min(rounds, self.rounds[parent])
        if depth >= self.limits.machine_depth:
            raise LimitError("nested too deep", bound="machine_depth", limit=self.limits.machine_depth)
        number = len(self.links)
        if number >= 1 << 24:
            raise LimitError("too many frames", bound="mask_states", limit=self.limits.mask_states)
        self.frames[links] = number
        self.links.append(links)
        self.depth.append(depth + 1)
        self.rounds.append(rounds)
        return number

    def merged(self, a: int, b: int) -> int:
        """A frame that returns to wherever ``a`` or ``b`` does; _DEAD where different bases lie below."""
        if a == b:
            return a
        stack = [(a, b)]
        while stack:
            left, right = stack[len(stack) - 1]
            if left < self.bases or right < self.bases or (not self.links[left]) != (not self.links[right]):
                self.merges[left, right] = _DEAD
                stack.pop()
                continue
            links = {(at, count): parent for at, count, parent in self.links[left]}
            missing = []
            failed = False
            for at, count, parent in self.links[right]:
                known = links.get((at, count), parent)
                if known == parent:
                    links[at, count] = parent
                elif (known, parent) not in self.merges:
                    missing.append((known, parent))
                elif self.merges[known, parent] == _DEAD:
                    failed = True
                else:
                    links[at, count] = self.merges[known, parent]
            if missing and not failed:
                stack += missing
                continue
            ordered = tuple(sorted([(at, count, parent) for (at, count), parent in links.items()]))
            self.merges[left, right] = _DEAD if failed else self.frame(ordered)
            stack.pop()
        return self.merges[a, b]

    # -- threads without a byte ------------------------------------------------------------------------------------

    def ways(self, at: int, frame: int, guard: int) -> list[int]:
        """Where a thread that stands at no BYTES, SYMBOL, ACCEPT or MATCH goes, inside of its base."""
        op = self.op[at]
        argument = self.args[at]
        if op == _SPLIT:
            return [_packed(target, frame, guard) for target in argument]
        if op == _RETURN:
            if frame < self.bases:
                return []
            return [_packed(link[0], link[2], guard) for link in self.links[frame]]
        if op == _AGAIN:
            if frame < self.bases:
                return [_packed(self.then[at], frame + argument, guard)]
            return [
                _packed(self.then[at], self.frame(((link[0], link[1] + argument, link[2]),)), guard)
                for link in self.links[frame]
            ]
        if op == _LOOP:
            return self.loop_ways(at, frame, guard)
        if op == _PERM:
            return self.perm_ways(at, frame, guard)
        if op == _CALL:
            return [_packed(argument, self.frame(((self.then[at], 0, frame),)), guard)]
        if op == _ENTER:
            return [_packed(self.entered(at), frame, guard)]
        if op in (_COUNT, _MARK):
            return [_packed(self.then[at], self.frame(((self.then[at], 0, frame),)), guard)]
        if op in (_BYTES, _SYMBOL, _ACCEPT, _MATCH):
            return []
        guard = self.looking(op, argument, guard)
        return [] if guard < 0 else [_packed(self.then[at], frame, guard)]

    def looking(self, op: int, argument: Any, guard: int) -> int:
        """The conditions after an instruction that begins or ends one."""
        if op in (_LEAVE, _DROP):
            return self.guards.leave(guard, argument, drop=op == _DROP)
        return self.guards.enter(guard, _ENTERS[op], argument) if op in _ENTERS else guard

    def loop_ways(self, at: int, frame: int, guard: int) -> list[int]:
        argument = self.args[at]
        least, most, body, leave = argument[0], argument[1], argument[2], argument[3]
        if frame < self.bases:  # the base's count is not known: one more round, and leaving is an exit
            return [_packed(body, frame, guard)]
        out = []
        for link in self.links[frame]:
            count = link[1]
            if most is None and count > least:
                count = least
            if most is None or count < most:
                out.append(_packed(body, self.frame(((at, count, link[2]),)), guard))
            if count >= least:
                out.append(_packed(leave, link[2], guard))
        return out

    def perm_ways(self, at: int, frame: int, guard: int) -> list[int]:
        first, later, required, leave = self.args[at]
        out = []
        for link in self.links[frame]:
            used = link[1]
            for i, entry in enumerate(later if used else first):
                if not used >> i & 1:
                    out.append(_packed(entry, self.frame(((at, used | 1 << i, link[2]),)), guard))
            if used & required == required:
                out.append(_packed(leave, link[2], guard))
        return out

    def settled(self, thread: int) -> int:
        """The thread where it first has a choice, waits for a byte or stands at its base's edge; _DEAD if it ends."""
        while True:
            at = thread >> 40
            if not self.live[at]:
                return _DEAD
            op = self.op[at]
            if op in (_SYMBOL, _SPLIT, _ACCEPT, _MATCH):
                return thread
            frame = thread >> 16 & 0xFFFFFF
            if op == _BYTES:
                known = self.same[at]
                if known == _ASK:
                    known = self.known(at)
                if known >= 0:
                    return _packed(known, frame, thread & 0xFFFF)
                if frame < self.bases or len(self.links[frame]) != 1:
                    return thread
                link = self.links[frame][0]
                thread = _packed(self.returning(at, link[0]), link[2], thread & 0xFFFF)
                continue
            if frame < self.bases and op in (_RETURN, _LOOP):
                return thread
            after = self.onward(at, op, frame, thread & 0xFFFF)
            if after >= 0:
                thread = after
                continue
            if op in (_RETURN, _AGAIN) and frame >= self.bases and len(self.links[frame]) > 1:
                return thread
            ways = self.ways(at, frame, thread & 0xFFFF)
            if len(ways) != 1:
                return thread if ways else _DEAD
            thread = ways[0]

    def onward(self, at: int, op: int, frame: int, guard: int) -> int:
        """Where a thread goes at the most frequent instructions of one way; _DEAD: see :meth:`ways`."""
        if op == _JUMP:
            return _packed(self.then[at], frame, guard)
        if op == _CALL:
            return _packed(self.args[at], self.frame(((self.then[at], 0, frame),)), guard)
        if op == _RETURN and len(self.links[frame]) == 1:
            link = self.links[frame][0]
            return _packed(link[0], link[2], guard)
        return _DEAD

    # -- instructions that do the same -----------------------------------------------------------------------------

    # The rest of a character of several bytes stands in the code once for each place where a character may stand. To
    # tell that two ways have met again such instructions are taken for one, and where nothing but a return follows
    # they are taken out of their rule: (bytes, what comes after the call) is an instruction of its own then.

    def target(self, at: int) -> int:
        """The instruction that a jump at ``at`` leads to."""
        while self.op[at] in (_JUMP, _ENTER):
            at = self.then[at] if self.op[at] == _JUMP else self.entered(at)
        return at

    def entered(self, at: int) -> int:
        """Where the ENTER at ``at`` leads: the rule is compiled if it was not."""
        self.program.enter(at)
        self.read()
        self.op[at], self.then[at] = _JUMP, self.program.code[at][2]
        return self.then[at]

    def read(self) -> None:
        """Take over the instructions that the program got since."""
        code = self.program.code
        size = len(code)
        if size > len(self.op):
            more = max(size, 2 * len(self.op)) - len(self.op)
            self.op, self.live = longer("b", self.op, more), longer("B", self.live, more, b"\1")
            self.then = longer("i", self.then, 4 * more)
            self.same = longer("i", self.same, 4 * more, b"\xff")
            self.set_of = longer("i", self.set_of, 4 * more, b"\xff")
        for at in range(self.code_size, size):
            op, argument, following = code[at]
            self.args.append(argument)
            self.op[at], self.then[at] = op, following
            if op == _BYTES:
                self.live[at] = self.live[following]
        self.code_size = size

    def known(self, at: int) -> int:
        """What ``same`` says of the BYTES at ``at``."""
        chain = []
        found = _ASK
        while found == _ASK:
            bits = self.args[at]
            if bits & (bits - 1) == 0:
                found = self.same[at] = at
                break
            chain.append(at)
            at = self.target(self.then[at])
            if self.op[at] == _RETURN:
                found = _TAIL
            elif self.op[at] == _BYTES:
                found = self.same[at]
            else:
                found = at
        size = 0
        while chain:
            at = chain.pop()
            size += 1
            if found != _TAIL:
                found = self.heads.setdefault((self.args[at], found), at)
                if found >= self.code_size:
                    self.read()
            elif size > _LONGEST:
                found = at
            self.same[at] = found
        return found

    def returning(self, at: int, back: int) -> int:
        """The BYTES at ``at``, a tail, with what follows the call in place of the return."""
        key = _packed(at, back, 0)
        known = self.tails.get(key)
        if known is not None:
            return known
        chain = []
        while self.op[at] == _BYTES:
            chain.append(self.args[at])
            at = self.target(self.then[at])
        back = self.target(back)
        while chain:
            back = self.head(chain.pop(), back)
        self.tails[key] = back
        return back

    def head(self, bits: Any, following: int) -> int:
        """The BYTES of ``bits`` with ``following``, made where the code has none."""
        if self.op[following] == _BYTES:
            known = self.same[following]
            if known == _ASK:
                known = self.known(following)
            following = following if known < 0 else known
        at = self.heads.get((bits, following), _DEAD)
        if at < 0:
            code = self.program.code
            at = self.heads[bits, following] = len(code)
            code.append((_BYTES, bits, following))
        if at >= self.code_size:
            self.read()
            self.known(at)
        return at

    # -- states ----------------------------------------------------------------------------------------------------

    def state(self, threads: Any) -> int:
        """The state of these settled threads; _DEAD of none. LimitError past the bounds."""
        if len(threads) == 1:
            return self.alone(threads[0])
        key = self.joined(threads)
        if len(key) < 2:
            return self.alone(key[0]) if key else _DEAD
        known = self.numbers.get(key)
        if known is not None:
            return known
        if len(key) > self.limits.machine_threads:
            raise LimitError(
                "too many ways to go on", bound="machine_threads", limit=self.limits.machine_threads, size=len(key)
            )
        number = self.made(key)
        self.numbers[key] = number
        return number

    def alone(self, thread: int) -> int:
        """The state of one settled thread."""
        known = self.numbers.get(thread)
        if known is not None:
            return known
        number = self.made((thread,))
        self.numbers[thread] = number
        return number

    def joined(self, threads: Any) -> tuple[int, ...]:
        """One thread for each instruction and conditions, as far as frames can be merged; sorted."""
        by_place: dict[int, Any] = {}
        for thread in threads:
            if thread < 0:
                continue
            frame = thread >> 16 & 0xFFFFFF
            place = thread ^ (frame << 16)
            known = by_place.get(place)
            if known is None:
                by_place[place] = frame
                continue
            frames = known if isinstance(known, list) else [known]
            for i, other in enumerate(frames):
                merged = self.merged(other, frame)
                if merged != _DEAD:
                    frames[i] = merged
                    break
            else:
                frames.append(frame)
            by_place[place] = frames if len(frames) > 1 else frames[0]
        out: list[int] = []
        for place, found in by_place.items():
            if isinstance(found, list):
                out += [place | frame << 16 for frame in sorted(set(found))]
            else:
                out.append(place | found << 16)
        out.sort()
        return tuple(out)

    def made(self, key: tuple[int, ...]) -> int:
        number = self.size
        if number >= len(self.byte):
            self.grow()
        thread = key[0]
        if len(key) == 1 and self.op[thread >> 40] == _BYTES:  # most states are a place in a key
            frame = thread >> 16 & 0xFFFFFF
            least = most = self.rounds[frame] + 1
            self.note(key, least, most, key, _NOTHING, _NOTHING, False)
            return number
        least, most = _NEVER, 0
        for thread in key:
            frame = thread >> 16 & 0xFFFFFF
            if frame >= self.bases or self.op[thread >> 40] != _RETURN:
                need = self.rounds[frame] + 1
                least = min(least, need)
                most = max(most, need)
        waiting: list[int] = []
        symbols: list[int] = []
        exits: set[tuple[int, int]] = set()
        accepts = False
        todo = self.pushed(0, key)
        self.met_count = 0
        while todo:
            todo -= 1
            thread = self.stack[todo]
            at = thread >> 40
            op = self.op[at]
            if not self.live[at] or (op != _BYTES and self.met(thread)):
                continue
            frame = thread >> 16 & 0xFFFFFF
            if op == _BYTES:
                waiting.append(thread)
            elif op == _SPLIT:
                todo = self.split(todo, at, thread & 0xFFFFFFFFFF)
            elif op == _SYMBOL:
                symbols.append(thread)
            elif op == _ACCEPT:
                accepts = accepts or self.guards.settled_at_end(thread & 0xFFFF)
            else:
                if frame < self.bases and op in (_RETURN, _LOOP):
                    exits.add((frame, thread & 0xFFFF))
                after = self.onward(at, op, frame, thread & 0xFFFF) if frame >= self.bases else _DEAD
                todo = self.pushed(todo, self.ways(at, frame, thread & 0xFFFF) if after < 0 else (after,))
        self.note(
            key, least, most, tuple(waiting), tuple(sorted(exits)) if exits else _NOTHING, tuple(symbols), accepts
        )
        return number

    def met(self, thread: int) -> bool:
        """Whether the thread was met since ``met_count`` was 0; from now on it was."""
        count = self.met_count
        for i in range(min(count, _FEW)):
            if self.met_first[i] == thread:
                return True
        if count < _FEW:
            self.met_first[count] = thread
        elif count == _FEW:
            self.met_later = {thread}
        elif thread in self.met_later:
            return True
        else:
            self.met_later.add(thread)
        self.met_count = count + 1
        return False

    def pushed(self, todo: int, threads: Any) -> int:
        """Put threads on the stack, of which ``todo`` are there; how many are then."""
        if todo + len(threads) > len(self.stack):
            self.stack = longer("q", self.stack, 8 * (len(self.stack) + len(threads)))
        for thread in threads:
            self.stack[todo] = thread
            todo += 1
        return todo

    def split(self, todo: int, at: int, rest: int) -> int:
        """As ``pushed``, for the ways of a SPLIT; ``rest``: the frame and conditions of the thread."""
        ways = self.args[at]
        if todo + len(ways) > len(self.stack):
            self.stack = longer("q", self.stack, 8 * (len(self.stack) + len(ways)))
        for target in ways:
            self.stack[todo] = target << 40 | rest
            todo += 1
        return todo

    def note(self, key: Any, least: int, most: int, waiting: Any, exits: Any, symbols: Any, accepts: bool) -> None:
        number = self.size
        self.size = number + 1
        self.threads.append(key)
        self.exits.append(exits)
        self.symbols.append(symbols)
        self.accepts.append(accepts)
        self.waiting.append(waiting)
        self.byte[number] = _NEW
        self.need[number] = least
        self.most[number] = most
        self.leaves[number] = 1 if exits else 0

    def grow(self) -> None:
        size = len(self.byte)
        if size >= self.limits.mask_states:
            raise LimitError("too many states of masks", bound="mask_states", limit=self.limits.mask_states)
        self.byte = longer("i", self.byte, 4 * size)
        self.after = longer("i", self.after, 4 * size)
        self.need = longer("i", self.need, 4 * size)
        self.most = longer("i", self.most, 4 * size)
        self.leaves = longer("b", self.leaves, size)
        self.wide = longer("h", self.wide, 2 * size)
        self.record = longer("b", self.record, size)
        self.loops = longer("Q", self.loops, 8 * size)

    # -- steps -----------------------------------------------------------------------------------------------------

    def step(self, state: int, byte: int) -> int:
        """The local state after ``byte``, or _DEAD; exits are not followed."""
        only = self.byte[state]
        if only == _NEW:
            self.expand(state)
            only = self.byte[state]
        if only >= 0:
            return self.after[state] if only == byte else _DEAD
        return self.rows[self.after[state] * 256 + byte]

    def width(self, state: int) -> int:
        """How many bytes lead on from ``state``."""
        if self.byte[state] == _NEW:
            self.expand(state)
        return self.wide[state]

    def narrow(self, state: int, most: int) -> bool:
        """Whether fewer than ``most`` bytes lead on; mostly that is told without finding the steps."""
        if self.byte[state] == _NEW:
            count = 0
            for thread in self.waiting[state]:
                count += self.args[thread >> 40].bit_count()
            if count < most:
                return True
        return self.width(state) < most

    def stays(self, state: int) -> bool:
        """True: nothing is at the base's edge or in a further round, and some thread is in the base itself.

        Put over any base and taken apart again, the state is what it was.
        """
        if self.leaves[state] or self.most[state] > 1:
            return False
        # Not any(): compiled, this is a loop, and that an object.
        for thread in self.threads[state]:  # noqa: SIM110
            if thread >> 16 & 0xFFFFFF == 0:
                return True
        return False

    def ahead(self, state: int, data: bytes, at: int, room: int) -> int:
        """Step through ``data[at:]`` while nothing can leave the base and its count allows ``room`` rounds.

        Returns where it stopped; ``reached`` is the state there, DEAD where no thread goes on with that byte.
        """
        end = len(data)
        while at < end and not self.leaves[state]:
            after = self.step(state, data[at])
            if after < 0:
                state = _DEAD
                break
            if self.most[after] > room:
                break
            state = after
            at += 1
        self.reached = state
        return at

    def along(self, position: Position, data: bytes, known: dict[Any, Position], room: int) -> Position | None:
        """The position after ``data`` where that stays in its base, noted in ``known``.

        None: ``stopped`` bytes were passed on the way to the state ``reached``, and threads may have left the base.
        """
        self.stopped = self.ahead(position.state, data, 0, room)
        if self.reached < 0 or self.stopped < len(data):
            return None
        key = (self.reached, position.base)
        found = known.get(key)
        if found is None and self.stays(self.reached):
            found = known[key] = Position(position.generation, self.reached, position.base)
        return found

    def step_symbol(self, state: int, symbol: int) -> int:
        """The state after a control token, or _DEAD."""
        out = []
        for thread in self.symbols[state]:
            at = thread >> 40
            if self.args[at] == symbol:
                guard = self.guards.step(thread & 0xFFFF, symbol)
                after = _DEAD if guard < 0 else self.settled(_packed(self.then[at], thread >> 16 & 0xFFFFFF, guard))
                if after >= 0:
                    out.append(after)
        return self.state(out) if out else _DEAD

    def expand(self, state: int) -> None:
        """Find every step of ``state``."""
        waiting = self.waiting[state]
        if len(waiting) == 1 and self.only(state, waiting[0]):
            return
        self.class_count = 1
        for i in range(256):
            self.class_of[i] = 0
        for thread in waiting:
            self.follow(thread)
        row = self.new_row() * 256
        width = 0
        for i in range(256):
            number = self.class_of[i]
            if number:
                width += 1
                if self.class_state[number] == _NEW:
                    self.class_state[number] = self.class_reached(number)
                self.rows[row + i] = self.class_state[number]
        self.wide[state] = width
        self.after[state] = row >> 8
        self.byte[state] = -1
        self.waiting[state] = None

    def only(self, state: int, thread: int) -> bool:
        """Note the step of a state of one thread that waits for one byte; False for any other."""
        at = thread >> 40
        if thread & 0xFFFF or self.set_at(at) >= 256:
            return False
        after = self.settled(_packed(self.then[at], thread >> 16 & 0xFFFFFF, 0))
        self.after[state] = _DEAD if after < 0 else self.alone(after)
        self.byte[state] = self.set_at(at)
        self.wide[state] = 0 if after < 0 else 1
        self.waiting[state] = None
        return True

    def set_at(self, at: int) -> int:
        """The number of the set of bytes of the BYTES at ``at``."""
        if self.set_of[at] < 0:
            known = self.set_numbers.get(self.args[at])
            self.set_of[at] = self.byte_sets.number(self.args[at]) if known is None else known
        return self.set_of[at]

    def follow(self, thread: int) -> None:
        """Note where a waiting thread goes: with one byte, or with each byte of a set."""
        at = thread >> 40
        frame = thread >> 16 & 0xFFFFFF
        if thread & 0xFFFF:
            for some, guard in self.guards.row(thread & 0xFFFF):
                bits = self.args[at] & some
                if bits:
                    after = self.settled(_packed(self.then[at], frame, guard))
                    self.sort_in(self.byte_sets.number(bits), after)
        else:
            self.sort_in(self.set_at(at), self.settled(_packed(self.then[at], frame, 0)))

    # While the steps of a state are looked for its bytes are in classes: those that the same threads go on with. Class
    # 0 goes nowhere; any other is one thread more (``class_thread``) than the class that its bytes came from
    # (``class_above``). ``class_next``: the class that bytes of this one go over to, in the turn ``class_turn``.

    def sort_in(self, number: int, after: int) -> None:
        """Note that the bytes of a set lead to the thread ``after``."""
        if after < 0:
            return
        if self.class_count + 256 > len(self.class_above):
            self.more_classes()
        if number < 256:
            self.class_of[number] = self.new_class(self.class_of[number], after)
            return
        self.turn += 1
        runs = self.runs[number - 256]
        at = 0
        end = len(runs)
        while at < end:
            for i in range(runs[at], runs[at + 1] + 1):
                above = self.class_of[i]
                if self.class_turn[above] != self.turn:
                    self.class_turn[above] = self.turn
                    self.class_next[above] = self.new_class(above, after)
                self.class_of[i] = self.class_next[above]
            at += 2

    def new_class(self, above: int, after: int) -> int:
        number = self.class_count
        self.class_count = number + 1
        self.class_above[number] = above
        self.class_thread[number] = after
        self.class_turn[number] = 0
        self.class_state[number] = _NEW
        return number

    def class_reached(self, number: int) -> int:
        """The state of the threads that go on with the bytes of a class."""
        if not self.class_above[number]:
            return self.alone(self.class_thread[number])
        out = []
        while number:
            out.append(self.class_thread[number])
            number = self.class_above[number]
        return self.state(out)

    def more_classes(self) -> None:
        size = len(self.class_above)
        self.class_above = longer("i", self.class_above, 4 * size)
        self.class_next = longer("i", self.class_next, 4 * size)
        self.class_state = longer("i", self.class_state, 4 * size)
        self.class_turn = longer("q", self.class_turn, 8 * size)
        self.class_thread = longer("q", self.class_thread, 8 * size)

    def new_row(self) -> int:
        row = self.row_count
        if row * 256 >= len(self.rows):
            if row >= self.limits.mask_rows:
                raise LimitError("too many rows of masks", bound="mask_rows", limit=self.limits.mask_rows)
            self.rows = longer("i", self.rows, 4 * len(self.rows), b"\xff")
        self.row_count = row + 1
        return row


def longer(kind: str, values: Any, more: int, byte: bytes = b"\0") -> Any:
    """The array ``values`` with ``more`` times the byte behind it."""
    out = array(kind)
    out.frombytes(memoryview(values).cast("B"))
    out.frombytes(byte * more)
    return out


_ENTERS = {_SCAN: 0, _REFUSE: 2, _REQUIRE: 3, _REQUIRE_OR_END: 4}


def _packed(at: int, frame: int, guard: int) -> int:
    return at << 40 | frame << 16 | guard
