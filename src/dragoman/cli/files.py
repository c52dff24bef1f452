"""Files that a command line names, read with errors that say which, where and what is wanted."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

from dragoman.errors import UsageError

STDIN = "-"
_JSON = ("{", "[", '"')  # what a text begins with that is meant as JSON


def read_bytes(name: str, *, param: str, wanted: str) -> bytes:
    """The content of the file ``name``, ``-``: of stdin. Raises UsageError."""
    if name == STDIN:
        return sys.stdin.buffer.read()
    path = Path(name).expanduser()
    try:
        return path.read_bytes()
    except FileNotFoundError as error:
        raise UsageError(f"{param}: {_absent(name)}; wanted is {wanted}", param=param) from error
    except IsADirectoryError as error:
        raise UsageError(f"{param}: {name} is a folder; wanted is {wanted}", param=param) from error
    except (OSError, ValueError) as error:  # ValueError: a NUL in the name
        if name.lstrip()[:1] in _JSON:  # too long for a name
            raise UsageError(f"{param}: {_absent(name)}; wanted is {wanted}", param=param) from error
        reason = error.strerror if isinstance(error, OSError) else str(error)
        raise UsageError(f"{param}: {name} cannot be read ({reason}); wanted is {wanted}", param=param) from error


def _absent(name: str) -> str:
    """What to say of a file that is not there."""
    if name.lstrip()[:1] in _JSON:
        return f"this takes the name of a file, not JSON itself ({name[:40]}): put it into one, or give - for stdin"
    return f"there is no file {name}"


def read_text(name: str, *, param: str, wanted: str) -> str:
    """The same as text. Raises UsageError."""
    if name == STDIN and not hasattr(sys.stdin, "buffer"):
        return sys.stdin.read()
    data = read_bytes(name, param=param, wanted=wanted)
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise UsageError(
            f"{param}: {name} is no UTF-8 text (byte {error.start}); wanted is {wanted}", param=param
        ) from error


def read_json(name: str, *, param: str, wanted: str) -> Any:
    """The same as JSON. Raises UsageError that names the line and the column."""
    text = read_text(name, param=param, wanted=wanted)
    try:
        return json.loads(text)
    except json.JSONDecodeError as error:
        place = f"line {error.lineno}, column {error.colno}"
        raise UsageError(
            f"{param}: {name} is no JSON ({error.msg}, {place}); wanted is {wanted}", param=param
        ) from error
    except RecursionError as error:
        raise UsageError(f"{param}: {name} is nested too deep; wanted is {wanted}", param=param) from error
