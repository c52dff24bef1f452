"""Masks of another engine behind our cursor: what every such engine has in common.

Rules of this file: an end of turn is ours to tell (any of the turn's end tokens, where the engine's grammar is
complete), so that engines with one end token or none behave alike; a refused token changes nothing.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from concurrent.futures import Executor, Future
from importlib import import_module
from typing import Any, TypeVar

import numpy as np
from typing_extensions import Self

from dragoman.constraint.checks import Words, count_of, token_of, tokens_of, words_of
from dragoman.constraint.constraint import background
from dragoman.constraint.tokens import TurnTokens
from dragoman.errors import UsageError
from dragoman.grammar.nodes import Grammar

C = TypeVar("C", bound="Borrowed")


def kind_of(engine: str) -> type[Borrowed]:
    """The cursor class of an engine. Raises: UsageError."""
    names = {"llguidance": "LlguidanceCursor", "xgrammar": "XgrammarCursor"}
    if not isinstance(engine, str) or engine not in names:
        raise UsageError(f"engine must be own, {' or '.join(names)}, not {engine!r:.40}", param="engine")
    kind: type[Borrowed] = getattr(import_module(f"dragoman.integrations.{engine}_masks"), names[engine])
    return kind


class Borrowed(ABC):
    """A cursor over another engine's matcher. Single owner, as :class:`dragoman.Constraint`; ``engine`` names it."""

    engine: str

    def __init__(self, tokens: TurnTokens) -> None:
        self.tokens = tokens
        self._accepted = 0  # by the engine
        self._ended = False
        self._ahead: Future[Words] | None = None  # the mask of this place, being made

    # What an engine does.

    @staticmethod
    @abstractmethod
    def vocabulary(tokens: TurnTokens) -> Any:
        """The engine's own form of a vocabulary. UsageError where its package is missing."""

    @classmethod
    @abstractmethod
    def start(cls, tokens: TurnTokens, vocabulary: Any, grammar: Grammar) -> Borrowed:
        """A cursor at the start of ``grammar``. GrammarError where the engine refuses it."""

    @abstractmethod
    def _mask(self) -> Words:
        """The mask of this place, uint32[words] that nobody else writes until the next call."""

    @abstractmethod
    def _take(self, token: int) -> bool: ...
    @abstractmethod
    def _undo(self, count: int) -> None: ...
    @abstractmethod
    def _copy(self: C) -> C: ...
    @abstractmethod
    def _complete(self) -> bool:
        """True: the grammar is satisfied here."""

    @abstractmethod
    def _forced(self) -> bytes: ...

    # The cursor.

    @property
    def words(self) -> int:
        return (self.tokens.size + 31) // 32

    @property
    def ends(self) -> tuple[int, ...]:
        return self.tokens.eos_ids

    @property
    def accepted(self) -> int:
        return self._accepted + self._ended

    @property
    def ended(self) -> bool:
        return self._ended

    @property
    def can_stop(self) -> bool:
        return self._ended or self._settled()._complete()

    def fill(self, row: Any) -> None:
        """As :meth:`dragoman.Constraint.fill`."""
        view = words_of(row, self.words)
        view.fill(0)
        if self._ended:
            return
        ahead, self._ahead = self._ahead, None
        view[: self.words] = self._mask() if ahead is None else ahead.result()
        rest = self.tokens.size % 32
        if rest:
            view[self.words - 1] &= np.uint32((1 << rest) - 1)
        if self._complete():
            for token in self.tokens.eos_ids:
                view[token // 32] |= np.uint32(1 << token % 32)

    def accept(self, token_id: int) -> bool:
        """As :meth:`dragoman.Constraint.accept`."""
        token = token_of(token_id)
        if self._ended or not 0 <= token < self.tokens.size:
            return False
        self._moved()
        if token in self.tokens.eos_ids and self._complete():
            self._ended = True
            return True
        if not self._take(token):
            return False
        self._accepted += 1
        return True

    def rollback(self, count: int) -> None:
        """As :meth:`dragoman.Constraint.rollback`."""
        count = count_of(count)
        if not 0 <= count <= self.accepted:
            raise UsageError(f"cannot roll back {count} tokens, {self.accepted} were accepted", param="count")
        if count and self._ended:
            self._ended = False
            count -= 1
        if count:
            self._moved()
            self._undo(count)
            self._accepted -= count

    def fork(self) -> Self:
        """As :meth:`dragoman.Constraint.fork`."""
        other = self._settled()._copy()
        other._accepted, other._ended = self._accepted, self._ended
        return other

    def validate(self, token_ids: Sequence[int]) -> int:
        """As :meth:`dragoman.Constraint.validate`."""
        tokens = tokens_of(token_ids)
        probe = self.fork()
        return next((at for at, token in enumerate(tokens) if not probe.accept(token)), len(tokens))

    def forced(self) -> bytes:
        """The bytes that must come next, as far as the engine finds them."""
        return b"" if self._ended else self._settled()._forced()

    def forced_tokens(self, encode: Callable[[str], Sequence[int]] | None = None) -> list[int]:
        """None: an engine's forced tokens need not be those of the model's own tokenizer. :meth:`forced` has bytes."""
        return []

    def explain(self, token_id: int) -> str:
        """Whether ``token_id`` is allowed; why is known to our own masks only."""
        token = token_of(token_id)
        allowed = self.validate([token]) == 1
        return f"token {token} is {'allowed' if allowed else 'refused'} by {self.engine}, which tells no reason"

    def prefetch(self, executor: Executor | None = None) -> Future[None]:
        """As :meth:`dragoman.Constraint.prefetch`; the other verbs wait for it."""
        done: Future[None] = Future()
        if self._ended or self._ahead is not None:
            done.set_result(None)
            return done
        self._ahead = (executor or background()).submit(self._mask)
        self._ahead.add_done_callback(lambda _: done.set_result(None))
        return done

    def _settled(self) -> Self:
        """This, once no thread uses its matcher any more."""
        if self._ahead is not None:
            self._ahead.exception()
        return self

    def _moved(self) -> None:
        """The mask that was made ahead is of another place now."""
        self._settled()
        self._ahead = None
