"""The ladder: the first way of writing a probe conversation with which a template renders a call as it should."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

from dragoman.template.probe import Prober, Rung, Said
from dragoman.template.sentinels import FIRST
from dragoman.template.written import UNNAMED, flaws, read_calls


@dataclass(frozen=True, slots=True)
class Climb:
    """What the ladder found. flaw: what is wrong with the best rendering; failure: why there is none at all."""

    rung: Rung | None
    flaw: str | None = None
    failure: str | None = None
    tried: int = 0


def rungs() -> Iterator[Rung]:
    """All ways, the plainest first."""
    axes = (
        ("object", "text"),
        ("empty", "null", "absent", "text"),
        ("none", "result", "result_user"),
        (True, False),
        (False, True),
        (False, True),
    )
    numbered = itertools.product(*(list(enumerate(axis)) for axis in axes))
    for combination in sorted(numbered, key=lambda steps: sum(number for number, _ in steps)):
        arguments, content, tail, tools, system, typed = (value for _, value in combination)
        yield Rung(arguments, content, tail, system, tools, typed)  # type: ignore[arg-type]


def climb(prober: Prober, most: int = 96, variables: tuple[tuple[str, Any], ...] = ()) -> Climb:
    """The first rung that renders a call without a flaw, else the one with the least flaw."""
    found = _climb(prober, most, variables, named_ids=False)
    if found.flaw != UNNAMED:
        return found
    named = _climb(prober, most, variables, named_ids=True)
    return named if named.rung is not None and named.flaw is None else found


def _climb(prober: Prober, most: int, variables: tuple[tuple[str, Any], ...], *, named_ids: bool) -> Climb:
    flawed: tuple[Rung, str] | None = None
    rendered = tried = 0
    for rung in itertools.islice(rungs(), most):
        if flawed is not None and rung.tail != "none":
            continue  # what a tool result repeats of its call would pass for the call
        tried += 1
        rung = replace(rung, variables=variables, named_ids=named_ids)
        text = prober.after_user(Said(calls=FIRST.calls[:1]), rung)
        if text is None:
            continue
        rendered += 1
        read = read_calls(text, FIRST.calls[:1])
        if read is None:
            continue
        flaw = flaws(read)
        if flaw is None:
            return Climb(rung, tried=tried)
        if flawed is None:
            flawed = rung, flaw
        elif rung == replace(flawed[0], arguments="text") or tried > 24:
            # The other form of arguments has the same flaw: it is how this template writes, not what we gave it.
            break
    if flawed is not None:
        return Climb(flawed[0], flaw=flawed[1], tried=tried)
    refused = not rendered and prober.error is not None
    return Climb(None, failure=f"raises: {prober.error}" if refused else "nothing renders", tried=tried)
