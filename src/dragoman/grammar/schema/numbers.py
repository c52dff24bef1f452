"""Numbers between bounds as digit automata: exact, without counting, linear in the number of digits.

Rules of this file: a magnitude is written without leading zeros; nothing here writes a sign twice, ``-0`` or an
exponent; helper languages over digit strings are named by what they compare: ``at least``, ``at most``, ``between``.
"""

from __future__ import annotations

from decimal import ROUND_CEILING, ROUND_FLOOR, Decimal
from functools import lru_cache

from dragoman.grammar.json import DIGIT, NONZERO
from dragoman.grammar.nodes import EMPTY, NOTHING, Class, Node, Repeat, alt, lit, opt, seq

Bound = tuple[Decimal, bool]  # the value, and whether it is itself excluded

# Bounds with more digits than this are astronomic: an upper one then only caps the number of digits.
DIGITS_MAX = 40


@lru_cache(maxsize=256)
def integers(low: Bound | None, high: Bound | None, digits: int) -> Node:
    """Whole numbers within the bounds; an open side has at most ``digits`` digits, or one more than the other side."""
    least = None if low is None else _whole(low, ROUND_CEILING, 1)
    most = None if high is None else _whole(high, ROUND_FLOOR, -1)
    positive = _natural(max(least or 0, 0), most, digits) if most is None or most >= 0 else NOTHING
    negative: Node = NOTHING
    if least is None or least < 0:
        nearest = 1 if most is None or most >= 0 else -most
        negative = seq(lit("-"), _natural(nearest, None if least is None else -least, digits))
    return alt(*(side for side in (positive, negative) if side != NOTHING)) if positive != NOTHING else negative


def _whole(bound: Bound, rounding: str, step: int) -> int:
    """The nearest whole number inside a bound."""
    value, strict = bound
    whole = int(value.to_integral_value(rounding))
    return whole + step if strict and whole == value else whole


def _natural(low: int, high: int | None, digits: int) -> Node:
    """Whole numbers from ``low`` >= 0 to ``high``."""
    limit = 10 ** max(digits, len(str(low)) + (low > 0)) - 1
    if high is None or high >= 10**DIGITS_MAX:
        high = limit
    if low > high or low >= 10**DIGITS_MAX:
        return NOTHING
    first, last = str(low), str(high)
    if len(first) == len(last):
        return _between(first, last)
    options = [_at_least(first)]
    if len(last) - len(first) > 1:
        options.append(seq(NONZERO, Repeat(DIGIT, len(first), len(last) - 2)))
    options.append(_between("1" + "0" * (len(last) - 1), last))
    return alt(*options)


def _digits(low: int, high: int) -> Node:
    return Class(((0x30 + low, 0x30 + high),)) if low <= high else NOTHING


def _some(count: int) -> Node:
    """Exactly ``count`` digits."""
    return Repeat(DIGIT, count, count) if count else EMPTY


def _either(*options: Node) -> Node:
    """A choice without the options that can never be taken."""
    live = [option for option in options if option != NOTHING]
    return alt(*live) if live else NOTHING


def _then(head: Node, tail: Node) -> Node:
    return NOTHING if NOTHING in (head, tail) else seq(head, tail)


def _at_least(low: str) -> Node:
    """Digit strings of the same length that are not below ``low``."""
    node: Node = EMPTY
    for index in range(len(low) - 1, -1, -1):
        rest = len(low) - 1 - index
        digit = int(low[index])
        if set(low[index:]) == {"0"}:  # a leading digit of a number is not zero here, so any digits do
            node = _some(rest + 1)
        else:
            node = _either(seq(lit(low[index]), node), _then(_digits(digit + 1, 9), _some(rest)))
    return node


def _at_most(high: str) -> Node:
    """Digit strings of the same length that are not above ``high``."""
    node: Node = EMPTY
    for index in range(len(high) - 1, -1, -1):
        rest = len(high) - 1 - index
        if set(high[index:]) == {"9"}:
            node = _some(rest + 1)
        else:
            node = _either(_then(_digits(0, int(high[index]) - 1), _some(rest)), seq(lit(high[index]), node))
    return node


def _between(low: str, high: str) -> Node:
    """Digit strings of the same length from ``low`` to ``high``."""
    common = 0
    while common < len(low) and low[common] == high[common]:
        common += 1
    if common == len(low):
        return lit(low)
    rest = len(low) - common - 1
    a, b = int(low[common]), int(high[common])
    # A closed end takes its digit into the middle: 10..39 is [1-3][0-9].
    if set(low[common + 1 :]) <= {"0"}:
        a -= 1
    if set(high[common + 1 :]) <= {"9"}:
        b += 1
    options = []
    if a == int(low[common]):
        options.append(seq(lit(low[common]), _at_least(low[common + 1 :])))
    options.append(_then(_digits(a + 1, b - 1), _some(rest)))
    if b == int(high[common]):
        options.append(seq(lit(high[common]), _at_most(high[common + 1 :])))
    return seq(lit(low[:common]), _either(*options))


@lru_cache(maxsize=256)
def decimals(low: Bound | None, high: Bound | None, digits: int, fraction: int) -> Node:
    """Numbers within the bounds, written without exponent."""
    positive: Node = NOTHING
    if high is None or high[0] > 0 or (high[0] == 0 and not high[1]):
        start = low if low is not None and low[0] >= 0 else (Decimal(0), False)
        positive = _magnitude(start, high, digits, fraction)
    negative: Node = NOTHING
    if low is None or low[0] < 0:
        nearest = (-high[0], high[1]) if high is not None and high[0] < 0 else (Decimal(0), True)
        farthest = None if low is None else (-low[0], low[1])
        negative = _then(lit("-"), _magnitude(nearest, farthest, digits, fraction))
    return _either(positive, negative)


def _magnitude(low: Bound, high: Bound | None, digits: int, fraction: int) -> Node:
    """Numbers from ``low`` >= 0 to ``high``."""
    if high is not None and high[0] >= 10**DIGITS_MAX:
        high = None
    if low[0] >= 10**DIGITS_MAX:
        return NOTHING
    room, needed = fraction, 0
    for bound in (low, high):
        if bound is not None:
            needed = max(needed, len(_fraction(bound[0])) + bound[1])
            if bound[1] and bound[0]:
                # Next to a strict bound more than 15 digits would round onto it when a reader takes them as floats.
                room = min(room, 15 - len(str(int(bound[0]))))
    room = max(room, needed)
    low_int, low_frac = int(low[0]), _fraction(low[0])
    if high is None:
        above = _then(_natural(low_int + 1, None, digits), _any_fraction(room))
        return _either(_then(lit(str(low_int)), _point(_frac_at_least(low_frac, low[1], room))), above)
    high_int, high_frac = int(high[0]), _fraction(high[0])
    if low_int > high_int:
        return NOTHING
    if low_int == high_int:
        return _then(lit(str(low_int)), _point(_frac_between(low_frac, low[1], high_frac, high[1], room)))
    inner = _natural(low_int + 1, high_int - 1, digits) if low_int + 1 < high_int else NOTHING
    return _either(
        _then(lit(str(low_int)), _point(_frac_at_least(low_frac, low[1], room))),
        _then(inner, _any_fraction(room)),
        _then(lit(str(high_int)), _point(_frac_at_most(high_frac, high[1], room))),
    )


def _fraction(value: Decimal) -> str:
    """The digits behind the point, without trailing zeros."""
    text = f"{value:f}"
    return text.partition(".")[2].rstrip("0")


def _any_fraction(room: int) -> Node:
    return opt(seq(lit("."), Repeat(DIGIT, 1, room))) if room else EMPTY


Fraction = tuple[bool, Node]  # whether no digits at all will do, and the digit strings of at least one digit


def _point(fraction: Fraction) -> Node:
    empty, some = fraction
    with_point = _then(lit("."), some)
    return _either(with_point, EMPTY) if empty else with_point


def _run(item: Node, least: int, most: int) -> Node:
    return NOTHING if most < least or item == NOTHING else Repeat(item, least, most)


def _tail(fraction: Fraction) -> Node:
    """The digits as the rest of a longer digit string."""
    empty, some = fraction
    return _either(some, EMPTY) if empty else some


def _free(room: int) -> Fraction:
    return True, _run(DIGIT, 1, room)


def _frac_at_least(low: str, strict: bool, room: int) -> Fraction:
    """Fractions of at most ``room`` digits that are not below ``low``."""
    fraction: Fraction = _positive(room - len(low)) if strict else _free(room - len(low))
    for index in range(len(low) - 1, -1, -1):
        rest = room - index - 1
        digit = int(low[index])
        larger = _then(_digits(digit + 1, 9), _tail(_free(rest)))
        fraction = False, _either(larger, _then(lit(low[index]), _tail(fraction)))
    return fraction


def _positive(room: int) -> Fraction:
    """Digit strings that hold a digit other than zero."""
    node: Node = NOTHING
    for rest in range(room):
        node = _either(_then(NONZERO, _tail(_free(rest))), _then(lit("0"), node))
    return False, node


def _frac_at_most(high: str, strict: bool, room: int) -> Fraction:
    """Fractions of at most ``room`` digits that are not above ``high``."""
    fraction: Fraction = (False, NOTHING) if strict else (True, _run(lit("0"), 1, room - len(high)))
    for index in range(len(high) - 1, -1, -1):
        rest = room - index - 1
        smaller = _then(_digits(0, int(high[index]) - 1), _tail(_free(rest)))
        fraction = True, _either(smaller, _then(lit(high[index]), _tail(fraction)))
    return fraction


def _frac_between(low: str, low_strict: bool, high: str, high_strict: bool, room: int) -> Fraction:
    """Fractions from ``low`` to ``high``."""
    length = max(len(low), len(high))
    common = 0
    while common < length and low[common : common + 1] == high[common : common + 1]:
        common += 1
    if common == length:
        if low_strict or high_strict:
            return False, NOTHING
        return _prefixed(low, (True, _run(lit("0"), 1, room - length)))
    a, b = int(low[common : common + 1] or 0), int(high[common : common + 1] or 0)
    if a == b == 0 and common == len(low):  # low has ended and high goes on with a zero
        zeros = len(high[common:]) - len(high[common:].lstrip("0"))
        inner = _frac_between("", low_strict, high[common + zeros :], high_strict, room - common - zeros)
        empty = not low_strict
        for _ in range(zeros):
            inner = empty, _then(lit("0"), _tail(inner))
        return _prefixed(low, inner)
    if a > b or (a == b and len(low) > len(high)):
        return False, NOTHING
    rest = room - common - 1
    ended = common >= len(low)  # what is left of low is nothing: no digit at all equals it
    from_low = _frac_at_least(low[common + 1 :], low_strict, rest)
    to_high = _frac_at_most(high[common + 1 :], high_strict, rest)
    some = _either(
        _then(lit(str(a)), _tail(from_low)),
        _then(_digits(a + 1, b - 1), _tail(_free(rest))),
        _then(lit(str(b)), _tail(to_high)),
    )
    return _prefixed(low[:common], (ended and not low_strict, some))


def _prefixed(digits: str, fraction: Fraction) -> Fraction:
    """``digits`` and then the fraction; digits that are cut short are less, so only the whole of them counts."""
    for digit in reversed(digits):
        fraction = False, _then(lit(digit), _tail(fraction))
    return fraction
