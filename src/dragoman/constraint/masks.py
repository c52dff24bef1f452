"""Which tokens may come next: parts of local states put together along the frames of a position.

A position's own part says which tokens stay inside its rule and at which trie nodes its threads leave; what follows
there is the part of the state behind the rule, and so on outwards until nothing leaves. Parts are kept, so a mask that
was not seen before is mostly a union of a few sets.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Final, Protocol, TypeVar

import numpy as np

from dragoman.constraint.bits import Bits, union
from dragoman.constraint.maker import PartMaker
from dragoman.constraint.parts import Exits, Part
from dragoman.constraint.positions import Position, Positions
from dragoman.constraint.trie import TokenTrie
from dragoman.errors import LimitError, VocabularyError
from dragoman.grammar.compile import compile_writer
from dragoman.grammar.guards import Guards
from dragoman.grammar.lazy_automaton import NEVER, Automaton
from dragoman.grammar.nodes import Grammar
from dragoman.grammar.program import Op, Program
from dragoman.limits import DEFAULT, Limits

__all__ = ["Masks", "TokenSource", "masks_for"]


T = TypeVar("T")
_BYTES, _LOOP = int(Op.BYTES), int(Op.LOOP)
_EVERY = (1 << 256) - 1
_UNKNOWN = Position(None, -1, -1)


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


class _Generation:
    """All that is kept for one automaton; a new one takes over where a bound is reached."""

    def __init__(self, program: Program, trie: TokenTrie, limits: Limits, guards: Guards) -> None:
        # A token may begin one round of a loop with every byte, and one more is looked at.
        self.automaton = Automaton(program, guards, trie.depth + 3, limits)
        self.positions = Positions(self.automaton, program)
        self.maker = PartMaker(self.automaton, program, trie, limits)
        self.initial: dict[int, Part] = {}
        self.behind: dict[tuple[Exits, int], Part] = {}
        self.masks: dict[tuple[object, ...], Bits] = {}
        self.bytes = 0


class Masks:
    """The masks of one writer program over one vocabulary. Shared by requests; the trie's lock guards growth."""

    def __init__(self, program: Program, vocab: TokenSource, trie: TokenTrie, limits: Limits = DEFAULT) -> None:
        self.program = program
        self.vocab = vocab
        self.trie = trie
        self.limits = limits
        self.lock: Final = trie.lock
        self.token_bytes = vocab.token_bytes
        self.symbols = program.symbols
        self.eos_ids = tuple(vocab.eos_ids)
        self._nothing = Bits(np.zeros(0, dtype=np.int32), trie.words)
        self._kept = _Generation(program, trie, limits, Guards(program))

    def start(self, rule: str | None = None) -> Position:
        """Where writing begins."""
        with self.lock:
            found = self._kept.positions.start(self.program.entries[rule or self.program.start])
            assert found is not None, "a writer program that writes nothing is refused when it is compiled"
            return found

    def of(self, position: Position) -> Bits:
        """The mask of ``position``; end-of-turn ids are in it where the turn may end."""
        found: Bits | None = position.mask
        if found is not None and position.generation is self._kept.positions:
            return found
        with self.lock:
            position.mask = found = self._retried(position, self._mask)
        return found

    def after(self, position: Position, token: int) -> Position | None:
        """The position after ``token``, None where it is not allowed; end-of-turn is not asked here."""
        found: Position | None = position.next.get(token, _UNKNOWN)
        if found is not _UNKNOWN:
            return found
        symbol = self.symbols.get(token)
        data = self.token_bytes[token] if 0 <= token < len(self.token_bytes) else None
        if symbol is None and not data:
            return None
        with self.lock:
            positions = self._kept.positions
            if data and symbol is None and position.generation is positions:
                try:
                    found = position.next[token] = positions.after(position, data)
                    return found
                except LimitError:
                    pass
            found = position.next[token] = self._retried(position, self._after, data if symbol is None else symbol)
        return found

    def after_text(self, position: Position, data: bytes, token: int | None) -> Position | None:
        """The position after text of the prompt, or after its control token ``token``; None where none follows."""
        if token is not None and token in self.symbols:
            return self.after(position, token)
        with self.lock:
            return self._retried(position, self._after, data)

    def can_stop(self, position: Position) -> bool:
        """True: the turn may end here."""
        with self.lock:
            return self._retried(position, self._may_end)

    def bytes_after(self, position: Position) -> list[int]:
        """The bytes that may come next."""
        with self.lock:
            return self._retried(position, self._bytes_after)

    def symbols_after(self, position: Position) -> list[int]:
        """The control tokens that may come next."""
        with self.lock:
            return self._retried(position, self._controls)

    # -- under the lock --------------------------------------------------------------------------------------------

    def _retried(self, position: Position, job: Callable[..., T], *arguments: object) -> T:
        """``job`` of the position; where a bound is reached, once more with nothing kept."""
        kept = self._kept
        if position.generation is not kept.positions:
            position = kept.positions.adopted(position)
        try:
            if kept.bytes <= self.limits.mask_bytes:
                return job(position, *arguments)
        except LimitError as error:
            if error.bound not in ("mask_states", "mask_rows"):
                raise
        self._kept = _Generation(self.program, self.trie, self.limits, kept.automaton.guards)
        return job(self._kept.positions.adopted(position), *arguments)

    def _may_end(self, position: Position) -> bool:
        return self._kept.automaton.accepts[self._told(position)]

    def _after(self, position: Position, consumed: bytes | int) -> Position | None:
        positions = self._kept.positions
        if isinstance(consumed, int):
            return positions.after_symbol(position, consumed)
        return positions.after(position, consumed)

    def _told(self, position: Position) -> int:
        """The state that tells whether the turn may end and which control tokens may come."""
        kept = self._kept
        leaves = kept.automaton.exits[position.state]
        return kept.positions.absolute(position) if leaves else position.state

    def _controls(self, position: Position) -> list[int]:
        if not self.symbols:
            return []
        automaton, state = self._kept.automaton, self._told(position)
        if not automaton.symbols[state]:
            return []
        return [token for token, symbol in self.symbols.items() if automaton.step_symbol(state, symbol) >= 0]

    def _bytes_after(self, position: Position) -> list[int]:
        kept = self._kept
        state = kept.positions.absolute(position)
        return [byte for byte in range(256) if kept.automaton.step(state, byte) >= 0]

    def _mask(self, position: Position) -> Bits:
        kept = self._kept
        extra = self._controls(position) if self.symbols else []
        if kept.automaton.accepts[self._told(position)]:
            extra += self.eos_ids
        part = kept.initial.get(position.state) or self._initial(position)
        if not part.leaving and not extra and len(kept.automaton.links[position.base]) < 2:
            # Nothing but the position's own rule: most places inside keys and numbers.
            return part.upto(kept.positions.room(position.base)) or self._nothing
        pieces = self._pieces(position, part)
        key = (*pieces, *extra)
        found = kept.masks.get(key)
        if found is None:
            if extra:
                pieces.append(Bits(np.array(extra, dtype=np.int32), self.trie.words))
            found = kept.masks[key] = union(pieces, self.trie.words)
            kept.bytes += found.size
        return found

    def _pieces(self, position: Position, part: Part) -> list[Bits]:
        """The sets of tokens that the mask is the union of, from the position's rule outwards."""
        kept = self._kept
        code, all_links = self.program.code, kept.automaton.links
        pieces: dict[Bits, None] = {}
        todo: list[tuple[Part, int]] = [(part, position.base)]
        seen: set[tuple[Part, int]] = set()
        while todo:
            part, base = todo.pop()
            if (part, base) in seen:
                continue
            seen.add((part, base))
            for at, count, parent in all_links[base] or ((-1, 0, base),):
                least, most, leave, room = 0, 0, at, 1
                if at >= 0 and code[at][0] == _LOOP:
                    least, most, _, leave = code[at][1][:4]
                    least, most = least - count, NEVER - 1 if most is None else most - count
                    room = most
                bits = part.upto(room)
                if bits is not None:
                    pieces[bits] = None
                if at < 0:
                    continue
                for guard, way in part.leaving.items():
                    exits = way.between(least, most)
                    there = exits and kept.positions.at((leave << 40 | parent << 16 | guard,))
                    if exits and there:
                        behind = kept.behind.get((exits, there.state)) or self._behind(exits, there)
                        todo.append((behind, there.base))
        return list(pieces)

    def _initial(self, position: Position) -> Part:
        kept = self._kept
        links = kept.automaton.links[position.base]
        loop = links[0][0] if links and self.program.code[links[0][0]][0] == _LOOP else -1
        part = kept.initial[position.state] = kept.maker.initial(position.state, loop)
        kept.bytes += part.size
        return part

    def _behind(self, exits: Exits, position: Position) -> Part:
        kept = self._kept
        part = kept.behind[exits, position.state] = kept.maker.behind(exits, position.state)
        kept.bytes += part.size
        return part


def masks_for(grammar: Grammar, vocab: TokenSource, trie: TokenTrie, limits: Limits = DEFAULT) -> Masks:
    """Compile a lowered writer grammar for ``vocab``; VocabularyError where it cannot spell the grammar's text."""
    producible = trie.bytes
    # Where every byte can be written, as with nearly all vocabularies, rules may wait until they are entered.
    every = producible == _EVERY
    program = compile_writer(grammar, controls=vocab.controls, limits=limits, on_demand=every)
    missing = set() if every else {bits for bits in program.sets if not bits & producible}
    if missing:
        missing &= {argument for at, (op, argument, _) in enumerate(program.code) if op == _BYTES and program.live[at]}
    if missing:
        byte = min(missing).bit_length() - 1
        raise VocabularyError(
            f"no token of the vocabulary contains the byte {byte:#04x} that the grammar needs; "
            "use the tokenizer that belongs to the template"
        )
    return Masks(program, vocab, trie, limits)
