"""Breaks up long runs of equal pieces: a client takes a hundred equal chunks in a row for a broken server."""

from __future__ import annotations

from collections.abc import Iterable

from dragoman.chat import Delta

RUN_MAX = 50  # litellm gives up at 100


class Repeats:
    """Deltas in, the same text out; after ``RUN_MAX`` equal content pieces one waits and comes with the next."""

    def __init__(self) -> None:
        self._last: Delta | None = None
        self._run = 0
        self._held: Delta | None = None

    def push(self, deltas: Iterable[Delta]) -> list[Delta]:
        out: list[Delta] = []
        for delta in deltas:
            if self._held is not None:
                joined = _joined(self._held, delta)
                out += [self._held, delta] if joined is None else [joined]
                self._held, self._last, self._run = None, out[-1], 1
                continue
            self._run = self._run + 1 if delta == self._last else 1
            self._last = delta
            if self._run > RUN_MAX and not delta.tool_calls:
                self._held = delta
            else:
                out.append(delta)
        return out

    def rest(self) -> list[Delta]:
        held, self._held = self._held, None
        return [] if held is None else [held]


def _joined(first: Delta, second: Delta) -> Delta | None:
    if first.content and second.content:
        return Delta(content=first.content + second.content)
    if first.reasoning_content and second.reasoning_content:
        return Delta(reasoning_content=first.reasoning_content + second.reasoning_content)
    return None
