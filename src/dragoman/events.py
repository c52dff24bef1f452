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
