"""How verbs print: JSON for programs, lines and tables for people, with colours where a terminal shows them.

Rules of this file: what goes into a pipe is plain and never wrapped, so that ``grep`` and ``cut`` work on it. Whether
there are colours is rich's business (NO_COLOR, FORCE_COLOR, TERM); rich itself is loaded only to print.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable

    from rich.console import Console
    from rich.text import Text

# What a word says, wherever it stands.
STYLES = {
    "proven": "green",
    "inferred": "yellow",
    "refuted": "red",
    "failed": "red",
    "yes": "green",
    "no": "dim",
    "not expressible": "dim",
}
HEADING = "bold"
WHY = "dim"
INPUT = "black on yellow"  # text that came with the request
CONTROL = "cyan"  # text of the template
# Control characters as their pictures; lines, columns and the text between them stay.
_PICTURES = {code: chr(0x2400 + code) for code in range(32) if chr(code) not in "\n\t"}
_PICTURES |= {0x7F: "\u2421"} | {code: f"\\x{code:02x}" for code in range(0x80, 0xA0)}


def console(*, stderr: bool = False) -> Console:
    """A console on the present stdout or stderr."""
    from rich.console import Console

    return Console(stderr=stderr, highlight=False, markup=False, emoji=False, soft_wrap=True)


def harmless(text: str) -> str:
    """``text`` of a model or a tool for a terminal, which would obey its control sequences (title, clipboard)."""
    return text.translate(_PICTURES)


def has_colours() -> bool:
    """True: what is printed on stdout may be told apart by its colour."""
    out = console()
    return out.color_system is not None and not out.no_color


def print_json(value: Any) -> None:
    print(json.dumps(value, ensure_ascii=False, indent=2))


def print_json_line(value: Any) -> None:
    print(json.dumps(value, ensure_ascii=False), flush=True)


def print_heading(text: str) -> None:
    print_styled(text, HEADING)


def print_styled(text: str, style: str | None = None, *, end: str = "\n") -> None:
    console().print(text, style=style, end=end)


def print_text(text: Text, *, end: str = "\n") -> None:
    console().print(text, end=end)


def print_table(rows: Iterable[Sequence[str]], *, head: Sequence[str] | None = None, indent: int = 0) -> None:
    """Columns as wide as they need, two blanks between them; the last one is not padded."""
    from rich.text import Text

    body = [list(row) for row in rows]
    table = [list(head), *body] if head is not None else body
    widths = [max(len(row[at]) for row in table) for at in range(len(table[0]))] if table else []
    out = console()
    for number, row in enumerate(table):
        line = Text(" " * indent)
        for at, (cell, width) in enumerate(zip(row, widths, strict=True)):
            style = HEADING if head is not None and number == 0 else STYLES.get(cell)
            line.append(cell, style)
            if at + 1 < len(row):
                line.append(" " * (width - len(cell) + 2))
        line.rstrip()
        out.print(line)


@contextmanager
def progress(what: str, total: int) -> Iterator[Callable[[], None]]:
    """A bar on stderr while the block runs, where that is a terminal; what is given is called after each step."""
    if not sys.stderr.isatty():
        yield lambda: None
        return
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    columns = (TextColumn(what), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(*columns, console=console(stderr=True), transient=True) as bar:
        task = bar.add_task(what, total=total)
        yield lambda: bar.advance(task)


def say(line: str) -> None:
    """To people, beside what a program reads."""
    print(line, file=sys.stderr, flush=True)
