"""The keyboard of a chat: lines with a history, questions, and what Ctrl-C means."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from types import FrameType
from typing import TypeVar

from dragoman.errors import UsageError

T = TypeVar("T")

_HISTORY_LINES = 1_000
_BLOCK = '"""'


class Keyboard:
    """Lines of stdin. At a prompt Ctrl-C drops the line, and the end of input is EOFError."""

    def __init__(self) -> None:
        self.people = sys.stdin.isatty()

    def line(self, prompt: str = "> ") -> str:
        """One message: a line, several that end in a backslash, or a block between triple quotes."""
        with _as_usual():
            text = self._read(prompt)
            if text.strip().startswith(_BLOCK):
                return self._block(text.strip()[len(_BLOCK) :])
            while text.endswith("\\"):
                text = text[:-1] + "\n" + self._read(". ")
        return text

    def ask(self, question: str) -> str:
        """An answer to a question; empty where nobody is there to give one."""
        if not self.people:
            return ""
        with _as_usual(), suppress(EOFError):
            return input(question).strip()
        return ""

    def _block(self, text: str) -> str:
        lines = [text]
        while not lines[-1].endswith(_BLOCK):
            lines.append(self._read(". "))
        lines[-1] = lines[-1][: -len(_BLOCK)]
        return "\n".join(lines).strip("\n")

    def _read(self, prompt: str) -> str:
        """Raises UsageError for bytes that are no text, which come as half surrogates where the locale is plain C."""
        try:
            text = input(prompt if self.people else "")
            text.encode()
        except UnicodeError as error:
            raise UsageError("stdin is no UTF-8 text", param="stdin") from error
        return text


@contextmanager
def history(path: Path, words: Sequence[str]) -> Iterator[None]:
    """Arrow keys go through earlier lines, kept in ``path`` for this user alone; Tab completes ``words``.

    Where Python was built without readline there is no history.
    """
    try:
        import readline
    except ImportError:
        yield
        return
    with suppress(OSError):
        readline.read_history_file(path)
    readline.set_history_length(_HISTORY_LINES)
    readline.set_completer_delims(" \t\n")
    readline.set_completer(lambda text, at: ([word for word in words if text and word.startswith(text)] + [None])[at])
    # macOS has libedit in readline's place, with other words for the same.
    libedit = "libedit" in (readline.__doc__ or "")
    readline.parse_and_bind("bind ^I rl_complete" if libedit else "tab: complete")
    try:
        yield
    finally:
        with suppress(OSError):
            path.parent.mkdir(parents=True, exist_ok=True)
            path.touch(mode=0o600)
            os.chmod(path, 0o600)
            readline.write_history_file(path)
        readline.set_completer(None)


async def stoppable(work: Awaitable[T]) -> T:
    """``work``, which Ctrl-C cancels: it raises CancelledError then, and the program goes on."""
    task = asyncio.ensure_future(work)
    loop = asyncio.get_running_loop()

    def stop(number: int, frame: object) -> None:
        loop.call_soon_threadsafe(task.cancel)

    with _handling(stop):
        return await task


@contextmanager
def _as_usual() -> Iterator[None]:
    """Ctrl-C is a KeyboardInterrupt, also inside of asyncio.run, which would wait for the event loop."""
    with _handling(signal.default_int_handler):
        yield


@contextmanager
def _handling(handler: Callable[[int, FrameType | None], object]) -> Iterator[None]:
    try:
        before = signal.signal(signal.SIGINT, handler)
    except ValueError:  # not in the main thread, where no signal comes anyway
        yield
        return
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)
