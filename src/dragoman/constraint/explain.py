"""Why a token is refused: the byte at which it goes wrong, and what could have stood there."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from dragoman.constraint.masks import Masks
from dragoman.constraint.positions import Position

# Ranges of bytes that an explanation names.
_RANGES = 12


def explained(masks: Masks, here: Position | None, token: int) -> str:
    """One sentence on ``token`` at ``here`` (None: the turn has ended)."""
    name = f"token {token}"
    if here is None:
        return f"{name} is refused: the turn has ended, and nothing may follow"
    if token in masks.eos_ids and masks.can_stop(here):
        return f"{name} ends the turn, and the turn may end here"
    data = masks.token_bytes[token] if 0 <= token < len(masks.token_bytes) else None
    if token in masks.symbols:
        allowed = masks.after(here, token) is not None
        return f"control {name} is {'allowed' if allowed else 'refused'}: {_expected(masks, here, '', token)}"
    if token in masks.eos_ids:
        return f"{name} is refused: the turn may not end here, {_expected(masks, here, 'before', token)}"
    if not data:
        return f"{name} is refused: it has no text and the grammar does not name it as a control token"
    name = f"{name} ({data.decode('utf-8', 'backslashreplace')!r})"
    at: Position = here
    for count, byte in enumerate(data):
        after = masks.after_text(at, bytes([byte]), None)
        if after is None:
            behind = f" after {data[:count].decode('utf-8', 'backslashreplace')!r}" if count else ""
            return (
                f"{name} is refused at its byte {count + 1} ({_shown(byte)}){behind}: {_expected(masks, at, '', token)}"
            )
        at = after
    return f"{name} is allowed"


def _expected(masks: Masks, at: Position, when: str, token: int) -> str:
    ways = [named for named in (_ranges(masks.bytes_after(at)), _controls(masks, at)) if named]
    if masks.can_stop(at) and token not in masks.eos_ids:
        ways.append("the end of the turn")
    expected = " or ".join(ways) or "nothing"
    return f"{when + ' it ' if when else ''}{expected} may come" + ("" if when else " there")


def _controls(masks: Masks, at: Position) -> str:
    names = {number: text for text, number in masks.vocab.controls.items()}
    return ", ".join(f"the control token {names.get(token, token)!r}" for token in masks.symbols_after(at))


def _ranges(allowed: Sequence[int]) -> str:
    spans: list[tuple[int, int]] = []
    for byte in allowed:
        if spans and spans[-1][1] == byte - 1:
            spans[-1] = (spans[-1][0], byte)
        else:
            spans.append((byte, byte))
    shown = [_shown(low) if low == high else f"{_shown(low)} to {_shown(high)}" for low, high in spans]
    return _listed(shown)


def _listed(names: Iterable[str]) -> str:
    names = list(names)
    more = f" and {len(names) - _RANGES} further ranges" if len(names) > _RANGES else ""
    return ", ".join(names[:_RANGES]) + more


def _shown(byte: int) -> str:
    return repr(chr(byte)) if 0x20 <= byte < 0x7F else f"byte 0x{byte:02x}"
