"""A turn watched while it is read: what each piece settled, and where the reader stands."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Literal

from dragoman.chat import Delta
from dragoman.engine import FinishReason
from dragoman.errors import UsageError
from dragoman.turn import Chunk, Turn


def pieces_of(output: bytes, size: int) -> list[bytes]:
    """``output`` in pieces of ``size`` bytes. Raises UsageError."""
    if size < 1:
        raise UsageError(f"a piece of {size} bytes cannot be fed; give 1 or more", param="chunk")
    return [output[at : at + size] for at in range(0, len(output), size)]


def replay(turn: Turn, pieces: Iterable[bytes], reason: Literal["stop", "length"] = "stop") -> Iterator[dict[str, Any]]:
    """One step for each piece and one for the end, as of :func:`fed` and :func:`finished`."""
    for piece in pieces:
        yield fed(turn, piece, piece.decode("utf-8", "replace"))
    yield finished(turn, reason)


def fed(turn: Turn, chunk: Chunk, text: str) -> dict[str, Any]:
    """Feed ``chunk``; {"chunk": its text, "deltas", "reader": as of :func:`reader_state`}."""
    deltas = turn.feed(chunk)
    return {"chunk": text, "deltas": _told(deltas), "reader": reader_state(turn)}


def finished(turn: Turn, reason: FinishReason) -> dict[str, Any]:
    """Finish the turn; {"finish": why, "deltas", "reader", "result": as of :func:`result_of`}."""
    deltas = turn.finish(reason)
    return {"finish": reason, "deltas": _told(deltas), "reader": reader_state(turn), "result": result_of(turn)}


def reader_state(turn: Turn) -> dict[str, Any]:
    """threads: the ways to read on that are alive; histories: those that have told different events so far.

    position: bytes read. settled: bytes that no thread disputes. withheld: the text between both. path: the open
    regions. ended: the stop was read.
    """
    reader = turn.reader
    run = reader.run
    return {
        "threads": len(run.state.threads),
        "histories": run.state.classes,
        "position": run.position,
        "settled": run.settled,
        "withheld": run.withheld.decode("utf-8", "backslashreplace"),
        "path": list(reader.path),
        "ended": reader.ended,
    }


def result_of(turn: Turn) -> dict[str, Any]:
    """The message of a finished turn, why it ended, and what was wrong with it."""
    message = turn.message
    return {
        "message": message.to_dict(),
        "finish_reason": turn.finish_reason,
        "truncated": message.truncated,
        "problems": [problem.to_dict() for problem in message.problems],
    }


def _told(deltas: Sequence[Delta]) -> list[dict[str, Any]]:
    return [delta.to_dict() for delta in deltas]
