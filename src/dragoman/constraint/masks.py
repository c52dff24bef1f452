"""Which tokens may come next: the trie walked through the writer program's states, level by level.

A mask is kept in the machine's State, so a state that comes again costs one copy. Transition rows grow as they are
needed: ``-1`` dead, ``-2`` not known yet.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol

import numpy as np
import numpy.typing as npt

from dragoman.constraint.trie import TokenTrie
from dragoman.errors import VocabularyError
from dragoman.grammar.compile import compile_writer
from dragoman.grammar.machine import Machine, State
from dragoman.grammar.nodes import Grammar
from dragoman.grammar.program import Op, Program

_DEAD, _UNKNOWN = -1, -2

# Rows kept for one program; past it they are dropped and filled anew.
_ROWS = 8_192


class TokenSource(Protocol):
    """What masks need of a vocabulary; :class:`dragoman.vocab.Vocabulary` is one."""

    @property
    def size(self) -> int: ...
    @property
    def token_bytes(self) -> Sequence[bytes | None]: ...
    @property
    def controls(self) -> Mapping[str, int]: ...
    @property
    def eos_ids(self) -> Sequence[int]: ...


class Masks:
    """The masks of one writer program over one vocabulary. Shared by requests; the machine's lock guards its growth."""

    def __init__(self, program: Program, vocab: TokenSource, trie: TokenTrie) -> None:
        self.machine = Machine.of(program)
        self.vocab = vocab
        self.trie = trie
        self.token_bytes = vocab.token_bytes
        self.symbols = program.symbols
        self.eos_ids = tuple(vocab.eos_ids)
        self._reset()

    def _reset(self) -> None:
        self._numbers: dict[State, int] = {}
        self._states: list[State] = []
        self._rows: npt.NDArray[np.int32] = np.full((64, 256), _UNKNOWN, dtype=np.int32)

    def of(self, state: State) -> npt.NDArray[np.uint32]:
        """The mask of ``state``, uint32[words], read-only; end-of-turn ids are set where the turn may end."""
        kept = state.mask
        if isinstance(kept, tuple) and kept[0] is self:
            mask: npt.NDArray[np.uint32] = kept[1]
            return mask
        with self.machine.lock:
            mask = self._make(state)
            state.mask = (self, mask)
        return mask

    def after(self, state: State, token: int) -> State | None:
        """The state after ``token``, None where it is not allowed; end-of-turn is not asked here."""
        symbol = self.symbols.get(token)
        if symbol is not None:
            after = self.machine.step(state, symbol)[0]
            return after if after.threads else None
        data = self.token_bytes[token] if 0 <= token < len(self.token_bytes) else None
        if not data:
            return None
        for byte in data:
            state = self.machine.step(state, byte)[0]
            if not state.threads:
                return None
        return state

    def after_text(self, state: State, data: bytes, token: int | None) -> State | None:
        """The state after text that the prompt wrote, or after its control token ``token``; None where none follows."""
        if token is not None and token in self.symbols:
            after = self.machine.step(state, self.symbols[token])[0]
            return after if after.threads else None
        for byte in data:
            state = self.machine.step(state, byte)[0]
            if not state.threads:
                return None
        return state

    def can_stop(self, state: State) -> bool:
        return self.machine.accept(state) is not None

    def _make(self, state: State) -> npt.NDArray[np.uint32]:
        if len(self._states) > _ROWS:
            self._reset()
        allowed = np.zeros(self.trie.words * 32, dtype=bool)
        self._walk(state, allowed)
        for token, symbol in self.symbols.items():
            if self.machine.step(state, symbol)[0].threads:
                allowed[token] = True
        if self.can_stop(state):
            allowed[list(self.eos_ids)] = True
        mask = np.packbits(allowed, bitorder="little").view(np.uint32)
        mask.flags.writeable = False
        return mask

    def _walk(self, state: State, allowed: npt.NDArray[np.bool_]) -> None:
        trie = self.trie
        nodes = np.zeros(1, dtype=np.int32)
        states = np.array([self._number(state)], dtype=np.int32)
        while len(nodes):
            counts = trie.count[nodes]
            total = int(counts.sum())
            if not total:
                return
            # Children of all nodes in a row: start of each run plus the offset inside it.
            offsets = np.arange(total, dtype=np.int32) - np.repeat(np.cumsum(counts) - counts, counts).astype(np.int32)
            children = np.repeat(trie.first[nodes], counts) + offsets
            parents = np.repeat(states, counts)
            after = self._next(parents, trie.byte[children])
            alive = after >= 0
            nodes, states = children[alive], after[alive]
            self._mark(nodes, allowed)

    def _mark(self, nodes: npt.NDArray[np.int32], allowed: npt.NDArray[np.bool_]) -> None:
        starts = self.trie.token_start[nodes]
        counts = self.trie.token_start[nodes + 1] - starts
        for extra in range(int(counts.max(initial=0))):
            allowed[self.trie.tokens[starts[counts > extra] + extra]] = True

    def _next(self, states: npt.NDArray[np.int32], symbols: npt.NDArray[np.uint8]) -> npt.NDArray[np.int32]:
        after = self._rows[states, symbols]
        unknown = after == _UNKNOWN
        if unknown.any():
            pairs = np.unique(states[unknown].astype(np.int64) * 256 + symbols[unknown])
            for pair in pairs.tolist():
                here, byte = divmod(pair, 256)
                target = self.machine.step(self._states[here], byte)[0]
                number = self._number(target) if target.threads else _DEAD
                self._rows[here, byte] = number
            after = self._rows[states, symbols]
        return after

    def _number(self, state: State) -> int:
        number = self._numbers.get(state)
        if number is None:
            number = self._numbers[state] = len(self._states)
            self._states.append(state)
            if number >= len(self._rows):
                self._rows = np.concatenate([self._rows, np.full_like(self._rows, _UNKNOWN)])
        return number


def possible(machine: Machine, state: State) -> tuple[int, frozenset[int]]:
    """(256-bit set of bytes, control symbols) that some thread waits for; look-ahead may still refuse some."""
    waits = machine.waits(state)
    bits = 0
    symbols: set[int] = set()
    for op, argument, _ in (machine.program.code[at] for at in waits):
        if op == Op.BYTES:
            bits |= argument
        else:
            symbols.add(argument)
    return bits, frozenset(symbols)


def masks_for(grammar: Grammar, vocab: TokenSource, trie: TokenTrie) -> Masks:
    """Compile a lowered writer grammar for ``vocab``; VocabularyError where it cannot spell the grammar's text."""
    program = compile_writer(grammar, controls=vocab.controls)
    producible = 0
    for data in vocab.token_bytes:
        for byte in data or b"":
            producible |= 1 << byte
    missing = [
        at
        for at, (op, argument, _) in enumerate(program.code)
        if op == Op.BYTES and program.live[at] and not argument & producible
    ]
    if missing:
        byte = program.code[missing[0]][1].bit_length() - 1
        raise VocabularyError(
            f"no token of the vocabulary contains the byte {byte:#04x} that the grammar needs; "
            "use the tokenizer that belongs to the template"
        )
    return Masks(program, vocab, trie)
