"""How verbs print: JSON for programs, plain lines for people."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Sequence
from typing import Any


def print_json(value: Any) -> None:
    print(json.dumps(value, ensure_ascii=False, indent=2))


def print_json_line(value: Any) -> None:
    print(json.dumps(value, ensure_ascii=False), flush=True)


def print_table(rows: Iterable[Sequence[str]]) -> None:
    """Columns as wide as they need, two blanks between them; the last one is not padded."""
    table = [list(row) for row in rows]
    widths = [max(len(row[at]) for row in table) for at in range(len(table[0]))] if table else []
    for row in table:
        print("  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip())


def say(line: str) -> None:
    """To people, beside what a program reads."""
    print(line, file=sys.stderr, flush=True)
