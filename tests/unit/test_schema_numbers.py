"""Bounds of numbers are exact: every number near them, one by one."""

from __future__ import annotations

import random
import re
from decimal import Decimal

import pytest

from dragoman.grammar.nodes import Choice, Class, Literal, Node, Repeat, Sequence
from dragoman.grammar.schema.numbers import Bound, decimals, integers
from tests.oracles.schema import assert_valid, samples, written


def pattern(node: Node) -> str:
    """The node as a regular expression of Python, an independent matcher for digit automata."""
    match node:
        case Literal(data):
            return re.escape(data.decode())
        case Class(ranges):
            return "[" + "".join(f"{chr(low)}-{chr(high)}" for low, high in ranges) + "]" if ranges else "(?!)"
        case Sequence(items):
            return "".join(map(pattern, items))
        case Choice(items):
            return "(?:" + "|".join(map(pattern, items)) + ")" if items else "(?!)"
        case Repeat(item, least, most):
            return f"(?:{pattern(item)}){{{least},{'' if most is None else most}}}"
    raise AssertionError(node)


def inside(value: Decimal, low: Bound | None, high: Bound | None) -> bool:
    above = low is None or value > low[0] or (value == low[0] and not low[1])
    return above and (high is None or value < high[0] or (value == high[0] and not high[1]))


@pytest.mark.parametrize("seed", range(4))
def test_integers_are_exact(seed: int) -> None:
    pick = random.Random(seed)

    def bound() -> Bound | None:
        whole = pick.choice([None, pick.randint(-1300, 1300), pick.randint(-12, 12)])
        return None if whole is None else (Decimal(whole) + pick.choice([0, 0, Decimal("0.5")]), pick.random() < 0.5)

    for _ in range(40):
        low, high = bound(), bound()
        regex = re.compile(pattern(integers(low, high, 4)))
        for value in range(-1320, 1321):
            assert bool(regex.fullmatch(str(value))) == inside(Decimal(value), low, high), (low, high, value)
        assert not any(regex.fullmatch(text) for text in ("-0", "01", "-01", "", "-", "1.0"))


def decimal_texts() -> list[str]:
    texts = []
    for whole in range(31):
        texts.append(str(whole))
        texts += [f"{whole}.{digits}" for digits in range(10)]
        texts += [f"{whole}.{digits:02}" for digits in range(100)]
    texts += [f"{whole}.{digits:03}" for whole in range(3) for digits in range(1000)]
    return texts + [f"-{text}" for text in texts if Decimal(text) != 0]


@pytest.mark.parametrize("seed", range(3))
def test_decimals_are_exact(seed: int) -> None:
    pick = random.Random(seed)
    texts = [(text, Decimal(text)) for text in decimal_texts()]

    def bound() -> Bound | None:
        if pick.random() < 0.2:
            return None
        fraction = Decimal(pick.choice(["0", ".5", ".05", ".25", ".1", ".01", ".99"]))
        return Decimal(pick.randint(-30, 30)) + fraction, pick.random() < 0.5

    for _ in range(12):
        low, high = bound(), bound()
        regex = re.compile(pattern(decimals(low, high, 3, 3)))
        for text, value in texts:
            assert bool(regex.fullmatch(text)) == inside(value, low, high), (low, high, text)


def test_bounds_of_one_type_leave_others_alone() -> None:
    assert written({"minimum": 3}, "2", "3", '"x"', "null", "[]") == [False, True, True, True, True]


def test_int64_is_exact() -> None:
    schema = {"type": "integer", "minimum": -(2**63), "maximum": 2**63 - 1}
    texts = [str(2**63 - 1), str(2**63), str(-(2**63)), str(-(2**63) - 1), "0"]
    assert written(schema, *texts) == [True, False, True, False, True]


def test_floats_as_bounds_are_read_as_written() -> None:
    schema = {"type": "number", "minimum": 0.1, "exclusiveMaximum": 0.3}
    assert written(schema, "0.1", "0.10", "0.09", "0.299", "0.3", "0.30", "0") == [
        True, True, False, True, False, False, False,
    ]  # fmt: skip


def test_a_number_next_to_a_strict_bound_stays_off_it_as_a_float() -> None:
    schema = {"type": "number", "exclusiveMinimum": 123456}
    assert_valid(schema, samples(schema, 80))
    assert not written(schema, "123456.000000000000001")[0]  # equal to the bound once it is a float


def test_digits_are_capped() -> None:
    assert written({"type": "integer"}, "9" * 15, "9" * 16, "-0") == [True, False, False]
    assert written({"type": "number"}, "1.5e10", "1e100", "0." + "1" * 16, "-0.5") == [True, False, False, True]
    assert written({"type": "number"}, "1.123", "1.12", fraction_digits=2) == [False, True]


@pytest.mark.parametrize(
    "schema",
    [
        {"type": "number", "minimum": 0, "maximum": 1},
        {"type": "number", "exclusiveMinimum": 0},
        {"type": "number", "minimum": -2.5, "exclusiveMaximum": 1e3},
        {"type": "number", "maximum": -0.001},
        {"type": ["integer", "null"], "minimum": 12, "maximum": 207},
        {"type": "number", "minimum": 1e300},
        {"minimum": 5, "allOf": [{"maximum": 7.25}]},
    ],
)
def test_sampled_numbers_validate(schema: dict[str, object]) -> None:
    if schema.get("minimum") == 1e300:
        with pytest.raises(Exception, match="no finite value"):
            samples(schema)
    else:
        assert_valid(schema, samples(schema, 80))
