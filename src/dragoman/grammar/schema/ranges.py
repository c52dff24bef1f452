"""Bounds of numbers and counts, from the keywords of all parts together."""

from __future__ import annotations

from collections.abc import Iterable
from decimal import Decimal
from typing import Any, TypeAlias

from .check import decimal

Bound: TypeAlias = tuple[Decimal, bool]  # the value, and whether it is itself excluded


def bounds(schemas: Iterable[dict[str, Any]]) -> tuple[Bound | None, Bound | None]:
    """The tightest lower and upper bound of a number; None where there is none."""
    lows: list[Bound] = []
    highs: list[Bound] = []
    for schema in schemas:
        for keyword, strict, into in (
            ("minimum", False, lows),
            ("exclusiveMinimum", True, lows),
            ("maximum", False, highs),
            ("exclusiveMaximum", True, highs),
        ):
            if keyword in schema:
                into.append((decimal(schema[keyword]), strict))
    low = max(lows, key=lambda bound: (bound[0], bound[1]), default=None)
    high = min(highs, key=lambda bound: (bound[0], not bound[1]), default=None)
    return low, high


def counts(schemas: Iterable[dict[str, Any]], least: str, most: str) -> tuple[int, int | None]:
    """The largest of the minima and the smallest of the maxima of a length."""
    minima, maxima = [0], []
    for schema in schemas:
        if least in schema:
            minima.append(int(schema[least]))
        if most in schema:
            maxima.append(int(schema[most]))
    return max(minima), min(maxima, default=None)
