"""What the grammar machine tells once it is settled: regions open, bytes belong to the innermost one, regions close."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias


@dataclass(frozen=True, slots=True)
class Opened:
    """A tagged region starts at byte ``position`` of the input."""

    tag: str
    position: int


@dataclass(frozen=True, slots=True)
class Text:
    """Bytes (whole UTF-8 characters are not guaranteed) of the innermost open region."""

    data: bytes
    position: int


@dataclass(frozen=True, slots=True)
class Closed:
    """The innermost region ends at byte ``position``."""

    tag: str
    position: int


@dataclass(frozen=True, slots=True)
class Failed:
    """The output broke the grammar at ``position``: regions are closed down to the recovery point, reading went on."""

    label: str
    position: int


Event: TypeAlias = Opened | Text | Closed | Failed


def text_event(data: bytes, position: int) -> Text:
    """``Text(data, position)`` at half its price, as :func:`dragoman.chat.call_delta`: one for each token."""
    made = _new(Text)
    _set_data(made, data)
    _set_position(made, position)
    return made


_new = object.__new__
_set_data, _set_position = (Text.__dict__[name].__set__ for name in ("data", "position"))
