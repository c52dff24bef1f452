"""Character classes of regular expressions: ``\\d \\w \\s`` of ECMA-262 and the Unicode properties."""

from __future__ import annotations

import sys
import unicodedata
from collections.abc import Iterable
from functools import lru_cache
from typing import TypeAlias

Ranges: TypeAlias = tuple[tuple[int, int], ...]

DIGIT: Ranges = ((0x30, 0x39),)
WORD: Ranges = ((0x30, 0x39), (0x41, 0x5A), (0x5F, 0x5F), (0x61, 0x7A))
SPACE: Ranges = (
    (0x09, 0x0D), (0x20, 0x20), (0xA0, 0xA0), (0x1680, 0x1680), (0x2000, 0x200A), (0x2028, 0x2029),
    (0x202F, 0x202F), (0x205F, 0x205F), (0x3000, 0x3000), (0xFEFF, 0xFEFF),
)  # fmt: skip

# Long names of the general categories, as ECMA-262 lists them.
CATEGORIES = {
    "Letter": "L", "Cased_Letter": "LC", "Uppercase_Letter": "Lu", "Lowercase_Letter": "Ll", "Titlecase_Letter": "Lt",
    "Modifier_Letter": "Lm", "Other_Letter": "Lo", "Mark": "M", "Combining_Mark": "M", "Nonspacing_Mark": "Mn",
    "Spacing_Mark": "Mc", "Enclosing_Mark": "Me", "Number": "N", "Decimal_Number": "Nd", "digit": "Nd",
    "Letter_Number": "Nl", "Other_Number": "No", "Punctuation": "P", "punct": "P", "Connector_Punctuation": "Pc",
    "Dash_Punctuation": "Pd", "Open_Punctuation": "Ps", "Close_Punctuation": "Pe", "Initial_Punctuation": "Pi",
    "Final_Punctuation": "Pf", "Other_Punctuation": "Po", "Symbol": "S", "Math_Symbol": "Sm", "Currency_Symbol": "Sc",
    "Modifier_Symbol": "Sk", "Other_Symbol": "So", "Separator": "Z", "Space_Separator": "Zs", "Line_Separator": "Zl",
    "Paragraph_Separator": "Zp", "Other": "C", "Control": "Cc", "cntrl": "Cc", "Format": "Cf", "Surrogate": "Cs",
    "Private_Use": "Co", "Unassigned": "Cn",
}  # fmt: skip


def merged(ranges: Iterable[tuple[int, int]]) -> Ranges:
    """The same characters as ascending, disjoint ranges."""
    out: list[tuple[int, int]] = []
    for low, high in sorted(ranges):
        if out and low <= out[-1][1] + 1:
            out[-1] = (out[-1][0], max(out[-1][1], high))
        else:
            out.append((low, high))
    return tuple(out)


def property_ranges(name: str) -> Ranges | None:
    """The characters with a Unicode property, by this interpreter's Unicode version; None where it is not known."""
    key, equals, value = name.partition("=")
    if equals:
        if key not in ("General_Category", "gc"):
            return None
        name = value
    elif name == "Any":
        return ((0, 0x10FFFF),)
    elif name == "ASCII":
        return ((0, 0x7F),)
    elif name in ("White_Space", "space"):
        return merged([r for r in SPACE if r != (0xFEFF, 0xFEFF)] + [(0x85, 0x85)])
    elif name == "ASCII_Hex_Digit":
        return ((0x30, 0x39), (0x41, 0x46), (0x61, 0x66))
    elif name == "Assigned":
        return merged(r for short, ranges in _categories().items() if short != "Cn" for r in ranges)
    short = CATEGORIES.get(name, name)
    wanted = [c for c in _categories() if c in ("Lu", "Ll", "Lt")] if short == "LC" else None
    found = wanted or [c for c in _categories() if c == short or (len(short) == 1 and c[0] == short)]
    return merged(r for c in found for r in _categories()[c]) if found else None


@lru_cache(maxsize=1)
def _categories() -> dict[str, list[tuple[int, int]]]:
    """Each general category's ranges."""
    out: dict[str, list[tuple[int, int]]] = {}
    start, last = 0, unicodedata.category("\0")
    for point in range(1, sys.maxunicode + 2):
        kind = unicodedata.category(chr(point)) if point <= sys.maxunicode else ""
        if kind != last:
            out.setdefault(last, []).append((start, point - 1))
            start, last = point, kind
    return out
