"""Numbers as texts: bounds by digit rules; multiples, exclusions and non-integers by automata over the digits."""

from __future__ import annotations

from collections.abc import Iterator
from decimal import Decimal

from dragoman.errors import LimitError
from dragoman.grammar.json import DIGIT
from dragoman.grammar.nodes import NOTHING, Choice, Class, Node, Ref, Repeat, alt, lit, opt, seq
from dragoman.grammar.regex import automata
from dragoman.grammar.regex.automata import Dfa, TooLarge, explore
from dragoman.grammar.regex.automaton import of_node
from dragoman.grammar.schema.atoms import Branch, Multiple, Not, Range
from dragoman.grammar.schema.keywords import FRACTION, INTEGER
from dragoman.grammar.schema.literals import decimal
from dragoman.grammar.schema.numbers import Bound, decimals, integers
from dragoman.grammar.schema.rules import Rules

# Remainders of one multipleOf; each is a state of its own.
REMAINDERS_MAX = 10_000


def numbers(rules: Rules, branch: Branch) -> Node:
    """The numbers of ``branch``: whole ones, others, or both, as its kinds say."""
    low, high = bounds(branch)
    options = rules.options
    whole, other = INTEGER in branch.kinds, FRACTION in branch.kinds
    excluded = {
        decimal(value)
        for atom in branch.about(Not)
        for value in rules.values.raw(atom.place, atom.keyword)
        if isinstance(value, (int, float)) and not isinstance(value, bool)
    }
    steps = branch.about(Multiple)
    plain = not excluded and not steps
    if plain and whole and other and low is None and high is None:
        return rules.any("number")
    if whole and not other:
        base = integers(low, high, options.number_digits)
    else:
        base = decimals(low, high, options.number_digits, options.fraction_digits)
    if base == NOTHING or (plain and whole):
        return base
    key = ("numbers", whole, other, low, high, frozenset(steps), frozenset(excluded))
    if key not in rules.shared:
        try:
            dfa = _automaton(base, steps, excluded, whole)
        except TooLarge:
            where = rules.document.pointer(steps[0].place, "multipleOf") if steps else "a number"
            raise LimitError(
                f"the automaton of the numbers at {where} is too large",
                bound="program_instructions",
                limit=rules.limits.program_instructions,
            ) from None
        rules.shared[key] = as_rules(dfa, rules)
    return rules.shared[key]


def bounds(branch: Branch) -> tuple[Bound | None, Bound | None]:
    """The tightest lower and upper bound; None where there is none."""
    lows = [atom.low for atom in branch.about(Range) if atom.low is not None]
    highs = [atom.high for atom in branch.about(Range) if atom.high is not None]
    low = max(lows, key=lambda bound: (bound[0], bound[1]), default=None)
    high = min(highs, key=lambda bound: (bound[0], not bound[1]), default=None)
    return low, high


def _automaton(base: Node, steps: list[Multiple], excluded: set[Decimal], whole: bool) -> Dfa:
    dfa = of_node(base)
    for atom in steps:
        multiple = multiples(atom.step)
        dfa = automata.difference(dfa, multiple) if atom.negative else automata.intersection(dfa, multiple)
    if excluded:
        dfa = automata.difference(dfa, of_node(alt(*map(_spellings, sorted(excluded)))))
    if not whole:
        zeros = opt(seq(lit("."), Repeat(lit("0"), 1)))
        dfa = automata.difference(dfa, of_node(seq(opt(lit("-")), Repeat(DIGIT, 1), zeros)))
    return dfa


def _spellings(value: Decimal) -> Node:
    """A number in all ways in which it is written without exponent."""
    text = f"{value.normalize():f}"
    zeros = Repeat(lit("0"), 1)
    if "." in text:
        return seq(lit(text), opt(zeros))
    return seq(opt(lit("-")) if text == "0" else lit(""), lit(text), opt(seq(lit("."), zeros)))


def multiples(step: Decimal) -> Dfa:
    """Digit texts, with a sign and a fraction, whose value is a multiple of ``step``; leading zeros are not looked at.

    In units of the step's last digit the value must be a multiple of a whole number: its remainder is the state.
    """
    _, digits, exponent = step.normalize().as_tuple()
    places = max(-int(exponent), 0)
    unit = int("".join(map(str, digits))) * 10 ** max(int(exponent), 0)
    if unit > REMAINDERS_MAX:
        raise TooLarge

    def follow(state: tuple[int, int]) -> Iterator[tuple[int, int, tuple[int, int]]]:
        remainder, behind = state
        if behind == -2:
            yield 0x2D, 0x2D, (0, -1)
        if behind == -1:
            yield 0x2E, 0x2E, (remainder, 0)
        for digit in range(10):
            after = (remainder * 10 + digit) % unit
            if behind < 0:
                yield 0x30 + digit, 0x30 + digit, (after, -1)
            elif behind < places:
                yield 0x30 + digit, 0x30 + digit, (after, behind + 1)
            elif digit == 0:
                yield 0x30, 0x30, (remainder, behind)

    def ends(state: tuple[int, int]) -> bool:
        remainder, behind = state
        missing = places - max(behind, 0)
        return behind != -2 and remainder * 10**missing % unit == 0

    return explore((0, -2), follow, ends)


def as_rules(dfa: Dfa, rules: Rules) -> Node:
    """The texts of an automaton, as they are."""
    name = rules.new_name()
    if dfa.empty:
        return NOTHING
    for state, edges in enumerate(dfa.edges):
        behind: dict[int, list[tuple[int, int]]] = {}
        for low, high, target in edges:
            behind.setdefault(target, []).append((low, high))
        options: list[Node] = [seq(Class(tuple(ranges)), Ref(f"{name}.{to}")) for to, ranges in behind.items()]
        if state in dfa.accepting:
            options.append(lit(""))
        rules.rules[f"{name}.{state}"] = Choice(tuple(options))
    return Ref(f"{name}.0")
