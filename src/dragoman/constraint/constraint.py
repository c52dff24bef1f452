"""The cursor that a sampler holds: masks, accept, rollback, forced text."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from concurrent.futures import Executor, Future, ThreadPoolExecutor
from typing import Any

from dragoman.constraint.checks import Words, count_of, shared_words, token_of, tokens_of, words_of
from dragoman.constraint.cursor import Cursor
from dragoman.constraint.explain import explained
from dragoman.constraint.forced import Encode, forced_bytes, forced_tokens
from dragoman.constraint.masks import Masks
from dragoman.constraint.positions import Position
from dragoman.errors import UsageError


class Constraint:
    """One output being written. Single owner; positions and masks are shared, and made under a lock.

    ``start``: where the writer stands after what the prompt already wrote of the turn. An end-of-turn token ends the
    turn: from there on nothing is allowed, no token is accepted and the mask is all zero, until it is rolled back. A
    batch that goes on with other rows gives None for such a row (:func:`fill_batch`) or does not sample it.
    """

    def __init__(self, masks: Masks, start: Position, *, history: Sequence[Position | None] = ()) -> None:
        self._masks = masks
        self._history: list[Position | None] = [*history] or [start]  # None: the turn has ended
        self._row: Any = None
        self._view: Words | None = None

    @property
    def words(self) -> int:
        """The length of a mask row: ceil(vocabulary / 32)."""
        return self._masks.trie.words

    @property
    def ends(self) -> tuple[int, ...]:
        """The tokens that end the turn, where it may end."""
        return self._masks.eos_ids

    @property
    def state(self) -> Position | None:
        """Where the writer stands, None after the end of the turn."""
        return self._history[-1]

    @property
    def accepted(self) -> int:
        """How many tokens were accepted and not rolled back."""
        return len(self._history) - 1

    @property
    def ended(self) -> bool:
        """True: an end-of-turn token was accepted; nothing may follow."""
        return self._history[-1] is None

    @property
    def can_stop(self) -> bool:
        """True: the turn may end here (end-of-turn tokens are allowed) or has ended."""
        here = self._history[-1]
        return here is None or self._masks.can_stop(here)

    def fill(self, row: Any) -> None:
        """Overwrite ``row``, int32 or uint32 [>= ceil(vocab / 32)]: bit i % 32 of word i // 32 = token i; the rest 0.

        ``row`` is anything that shares its memory with NumPy: an array or a view of one, a CPU tensor, a memoryview.
        Raises: UsageError for a row of another type, too short, or that cannot be written.
        """
        view = self._view if row is self._row else None
        self.write(self._viewed(row) if view is None else view)

    def write(self, view: Words) -> None:
        """The same for a row that was checked: uint32 [>= words]."""
        here = self._history[-1]
        if here is None:
            view.fill(0)
        else:
            self._masks.of(here).write(view)

    def _viewed(self, row: Any) -> Words:
        """``row`` as words; kept, since samplers fill the same row again and again."""
        view = words_of(row, self._masks.trie.words)
        self._row, self._view = row, view
        return view

    def prefetch(self, executor: Executor | None = None) -> Future[None]:
        """Make the mask of this place in a thread, so that the next :meth:`fill` is a copy.

        To be called after :meth:`accept`, while the model computes the logits. ``executor``: whose threads are used;
        None: one thread that all constraints share. What goes wrong is told by the :meth:`fill` that meets it.
        """
        here = self._history[-1]
        if here is None or here.mask is not None:  # a hand-over to a thread costs more than the copy
            return _DONE
        return (executor or background()).submit(self._make, here)

    def _make(self, here: Position) -> None:
        self._masks.of(here)

    def accept(self, token_id: int) -> bool:
        """Take ``token_id``. False: it is not allowed here and nothing changed. Raises: UsageError for no int."""
        token = token_id if type(token_id) is int else token_of(token_id)
        here = self._history[-1]
        if here is None:
            return False
        after = self._masks.after(here, token)
        if after is not None:
            self._history.append(after)
            return True
        if token in self._masks.eos_ids and self._masks.can_stop(here):
            self._history.append(None)
            return True
        return False

    def rollback(self, count: int) -> None:
        """Undo the last ``count`` accepted tokens, an end of turn among them. UsageError if fewer were accepted."""
        count = count_of(count)
        if not 0 <= count < len(self._history):
            raise UsageError(f"cannot roll back {count} tokens, {self.accepted} were accepted", param="count")
        if count:
            del self._history[-count:]

    def fork(self) -> Constraint:
        """An independent copy at the same place."""
        start = self._history[0]
        assert start is not None
        return Constraint(self._masks, start, history=self._history)

    def validate(self, token_ids: Sequence[int]) -> int:
        """How many of ``token_ids``, in order, would be accepted. Nothing changes. Raises: UsageError for no ids."""
        tokens = tokens_of(token_ids)
        probe = Constraint(self._masks, self._history[0], history=self._history[-1:])  # type: ignore[arg-type]
        for count, token in enumerate(tokens):
            if not probe.accept(token):
                return count
        return len(tokens)

    def forced(self) -> bytes:
        """The bytes that any continuation starts with, as far as they are certain; empty where there is a choice."""
        return forced_bytes(self._masks, self._history[-1])[0]

    def forced_tokens(self, encode: Encode | None = None) -> list[int]:
        """The tokens that any continuation starts with as the model's own tokenizer writes it: no need to ask a model.

        Control tokens that are the only choice are among them, ends of the turn are not. ``encode``: the tokenizer;
        None: the vocabulary's own. A token is given only where no token that could be written reaches from its bytes
        beyond the end of what is certain. All of them are accepted here, in order.
        """
        if encode is None:
            encode = getattr(self._masks.vocab, "encode", None)
        if not callable(encode):
            raise UsageError("forced tokens need a tokenizer: a function from text to token ids", param="encode")
        return forced_tokens(self._masks, self._history[-1], encode)

    def explain(self, token_id: int) -> str:
        """Why ``token_id`` is allowed or refused here, in words."""
        return explained(self._masks, self._history[-1], token_of(token_id))


def fill_batch(constraints: Sequence[Cursor | None], bitmask: Any) -> None:
    """Fill one row of ``bitmask`` (int32 or uint32 [batch, words]) for each constraint; None: everything is allowed.

    Rows beyond the constraints stay as they are. All is done in the calling thread: a mask that is kept is a copy of
    some 19 KB, and one that is not is made under the vocabulary's lock, so threads gain nothing here.
    Raises: UsageError where there are fewer rows than constraints, and what :meth:`Constraint.fill` raises.
    """
    if not isinstance(constraints, (list, tuple)):
        raise UsageError(
            f"constraints is a list, one for each row, not {type(constraints).__name__}", param="constraints"
        )
    table = shared_words(bitmask, 2, "bitmask")
    if len(table) < len(constraints):
        raise UsageError(f"{len(constraints)} constraints need as many rows, not {table.shape}", param="bitmask")
    width = table.shape[1]
    for at, constraint in enumerate(constraints):
        if type(constraint) is Constraint and constraint.words <= width:
            constraint.write(table[at])
        elif constraint is None:
            table[at] = 0xFFFFFFFF
        elif isinstance(constraint, Cursor):
            constraint.fill(table[at])
        else:
            raise UsageError(f"constraints[{at}] is no constraint but {type(constraint).__name__}", param="constraints")


_DONE: Future[None] = Future()
_DONE.set_result(None)
_lock = threading.Lock()
_thread: ThreadPoolExecutor | None = None


def background() -> Executor:
    """The thread of :meth:`Constraint.prefetch`, started when it is first used."""
    global _thread
    with _lock:
        if _thread is None:
            _thread = ThreadPoolExecutor(1, thread_name_prefix="dragoman-masks")
        return _thread
