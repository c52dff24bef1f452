"""Random walks through what a writer's program allows, byte by byte: towards markers first, then to an end.

A walk is any text of the writer's language; how likely it is, is chosen here. While it is short it tries to spell the
given fragments (markers, halves of markers, what looks like another type), else it takes a random way on. Once it is
long, it takes the way with the shortest rest, counted along the instructions and the frames.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Any

from dragoman.grammar.frames import Frame
from dragoman.grammar.machine import Machine, State
from dragoman.grammar.program import Op, Program

FAR = 10**6
_MOST = 4_000
# Bytes that tell structure, escapes, types and characters apart.
_ASCII = (1 << 128) - 1
_FAVOURITES = b"ab01 9-\"\\/<>{}[]:,.'\n\tnt\xc3\xa9\xe2"


class Walker:
    """Walks of one writer program; ``start``: the state behind what the prompt wrote."""

    def __init__(self, program: Program, prefix: bytes, fragments: Sequence[str]) -> None:
        self.machine = Machine.of(program)
        self.rest = _Rest(program)
        self.fragments = [fragment.encode() for fragment in fragments if fragment]
        self.start = self.machine.start()
        for byte in prefix:
            self.start = self.machine.step(self.start, byte)[0]
        assert self.start.threads, f"the writer does not go on from what the prompt wrote: {prefix!r}"

    def walk(self, seed: int | str, size: int) -> bytes | None:
        """A text of the language; from ``size`` bytes on it heads for an end. None: no end within 4,000 bytes."""
        pick = random.Random(seed)
        state, out = self.start, bytearray()
        while len(out) < _MOST:
            if self.machine.accept(state) is not None and (len(out) >= size or pick.random() < 0.02):
                return bytes(out)
            ways = self._ways(state)
            if not ways:
                assert self.machine.accept(state) is not None, f"a dead end behind {bytes(out)!r}"
                return bytes(out)
            if len(out) >= size:
                byte = self._nearest(state, ways, pick)
                out.append(byte)
                state = self._step(state, byte)
                continue
            if self.fragments and pick.random() < 0.3:
                state = self._spell(state, pick.choice(self.fragments), out)
                continue
            byte = self._any(state, ways, pick)
            out.append(byte)
            state = self._step(state, byte)
        return None

    def _step(self, state: State, byte: int) -> State:
        return self.machine.step(state, byte)[0]

    def _ways(self, state: State) -> list[tuple[int, int]]:
        """(instruction, its byte set) that some thread waits at."""
        code = self.machine.program.code
        found = [(at, code[at][1]) for at in sorted(self.machine.waits(state)) if code[at][0] == Op.BYTES]
        alive: list[tuple[int, int]] = []
        for at, bits in found:
            if bits.bit_count() > 16 or any(self._step(state, byte).threads for byte in _members(bits)):
                alive.append((at, bits))
        return alive

    def _spell(self, state: State, fragment: bytes, out: bytearray) -> State:
        for byte in fragment:
            after = self._step(state, byte)
            if not after.threads:
                break
            out.append(byte)
            state = after
        return state

    def _any(self, state: State, ways: list[tuple[int, int]], pick: random.Random) -> int:
        plain = [way for way in ways if way[1] & _ASCII] if pick.random() < 0.85 else []
        for _ in range(400):
            _, bits = pick.choice(plain or ways)
            members = _members(bits)
            known = [byte for byte in members if byte in _FAVOURITES] if pick.random() < 0.7 else []
            byte = pick.choice(known or members)
            if self._step(state, byte).threads:
                return byte
        return next(byte for _, bits in ways for byte in _members(bits) if self._step(state, byte).threads)

    def _nearest(self, state: State, ways: list[tuple[int, int]], pick: random.Random) -> int:
        """The byte behind which the rest is shortest."""
        best, choice = FAR * FAR, -1
        for _, bits in ways:
            members = _members(bits)
            tried = members if len(members) <= 4 else [pick.choice(members) for _ in range(4)]
            for byte in tried:
                after = self._step(state, byte)
                if after.threads:
                    rest = self.rest.of(after)
                    if rest < best:
                        best, choice = rest, byte
        return choice if choice >= 0 else self._any(state, ways, pick)


class _Rest:
    """How many bytes a state needs at least to be complete; forbidden strings and look-ahead left aside."""

    def __init__(self, program: Program) -> None:
        self.code = program.code
        self.live = program.live
        self.to_end = self._instructions()
        self._frames: dict[Frame, int] = {}
        self._states: dict[State, int] = {}

    def of(self, state: State) -> int:
        known = self._states.get(state)
        if known is None:
            known = min((self.to_end[t[0]] + self._frame(t[1]) for t in state.threads), default=FAR)
            self._states[state] = known
        return known

    def _frame(self, frame: Frame) -> int:
        known = self._frames.get(frame)
        if known is None:
            known = 0
            if frame.links:
                known = min(self._link(at, count) + self._frame(parent) for at, count, parent in frame.links)
            self._frames[frame] = known
        return known

    def _link(self, at: int, count: int) -> int:
        op, argument, _ = self.code[at]
        if op == Op.LOOP:
            least, leave = int(argument[0]), int(argument[3])
            return max(0, least - count - 1) * self.to_end[int(argument[2])] + self.to_end[leave]
        if op == Op.PERM:
            first, _, required, leave = argument
            missing: list[int] = [entry for i, entry in enumerate(first) if required >> i & 1 and not count >> i & 1]
            return sum(self.to_end[entry] for entry in missing) + self.to_end[int(leave)]
        return self.to_end[at]

    def _instructions(self) -> list[int]:
        """For each instruction, the bytes to the end of its rule, round or item."""
        known = [FAR] * len(self.code)
        changed = True
        while changed:
            changed = False
            for at in range(len(self.code)):
                value = min(self._one(self.code[at], known), FAR)
                if self.live[at] and value < known[at]:
                    known[at] = value
                    changed = True
        return known

    def _one(self, instruction: tuple[int, Any, int], known: list[int]) -> int:
        op, argument, following = instruction
        if op in (Op.RETURN, Op.AGAIN, Op.ACCEPT):
            return 0
        if op == Op.SPLIT:
            return min((known[target] for target in argument), default=FAR)
        if op == Op.LOOP:
            least, leave = int(argument[0]), int(argument[3])
            return least * known[int(argument[2])] + known[leave]
        if op == Op.PERM:
            first, _, required, leave = argument
            needed: list[int] = [entry for i, entry in enumerate(first) if required >> i & 1]
            return sum(known[entry] for entry in needed) + known[int(leave)]
        if op == Op.CALL:
            return known[int(argument)] + known[following]
        if op == Op.MATCH:
            return FAR
        return known[following] + (op in (Op.BYTES, Op.SYMBOL))


_MEMBERS: dict[int, list[int]] = {}


def _members(bits: int) -> list[int]:
    known = _MEMBERS.get(bits)
    if known is None:
        known = _MEMBERS[bits] = [byte for byte in range(256) if bits >> byte & 1]
    return known
