"""What must come next, whatever the model thinks: its bytes, and the tokens that the model itself would use for them.

Rules of this file: a token is given only where every continuation, tokenised as a whole, begins with it. So the tail is
left where a token that could be written reaches beyond what is certain, and so is white space there: tokenisers split
a run of it by what follows.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from dragoman.constraint.masks import Masks
from dragoman.constraint.positions import Position

# Forced text is given in pieces of at most this many bytes, and this many tokens.
_FORCED = 4_096
_WHITE = b" \t\n\r\v\f"

Encode = Callable[[str], Sequence[int]]


def forced_bytes(masks: Masks, here: Position | None) -> tuple[bytes, Position | None]:
    """(the bytes that any continuation starts with, the position after them)."""
    out = bytearray()
    while here is not None and len(out) < _FORCED and not masks.can_stop(here):
        if masks.symbols_after(here):
            break
        ways = masks.bytes_after(here)
        if len(ways) != 1:
            break
        out.append(ways[0])
        here = masks.after_text(here, bytes(ways), None)
    return bytes(out), here


def forced_tokens(masks: Masks, here: Position | None, encode: Encode) -> list[int]:
    """The tokens that any continuation starts with, single control tokens among them; no end of turn."""
    out: list[int] = []
    while here is not None and len(out) < _FORCED and not masks.can_stop(here):
        data, there = forced_bytes(masks, here)
        if not data:
            symbols = masks.symbols_after(here)
            if len(symbols) != 1 or masks.bytes_after(here):
                break
            out += symbols
            here = masks.after(here, symbols[0])
            continue
        tokens, size = _settled(masks, data, there, encode)
        for token in tokens:
            after = masks.after(here, token) if here is not None else None
            if after is None:
                return out
            out.append(token)
            here = after
        if size < len(data):
            break
    return out


def _settled(masks: Masks, data: bytes, there: Position | None, encode: Encode) -> tuple[list[int], int]:
    """(the tokens of ``data`` that stay what they are, however it goes on; how many bytes they have)."""
    text = data.decode("utf-8", "ignore")  # the last character may be cut
    tokens = [int(token) for token in encode(text)] if text else []
    known = len(masks.token_bytes)
    pieces = [(masks.token_bytes[token] if 0 <= token < known else None) or b"" for token in tokens]
    if not data.startswith(b"".join(pieces)):
        return [], 0  # a tokenizer that changes the text cannot be trusted with its pieces
    certain = _seam(masks, data, there)
    at, kept = 0, 0
    while kept < len(pieces) and at + len(pieces[kept]) <= certain:
        at += len(pieces[kept])
        kept += 1
    return tokens[:kept], at


def _seam(masks: Masks, data: bytes, there: Position | None) -> int:
    """How many bytes of the forced ``data`` no token reaches across its end from."""
    onward = set(range(256)) if there is None else set(masks.bytes_after(there))
    if not onward:
        return len(data)  # a control token or the end follows, and no token reaches into it
    size = len(data.rstrip(_WHITE))
    for start in range(max(0, size - masks.trie.depth), size):
        behind = onward if size == len(data) else {data[size]}
        if not behind.isdisjoint(masks.trie.bytes_behind(data[start:size])):
            return start
    return size
