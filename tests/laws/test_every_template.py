"""One random text of a template's writer, read whole, in pieces and damaged: a sixth of all proven templates at hand.

The other laws take more texts of fewer templates; ``make laws`` runs this one and those on all. ``DRAGOMAN_SEED`` names
other templates, texts and requests.
"""

from __future__ import annotations

import random

import pytest

from dragoman.errors import DragomanError
from dragoman.format import ChatFormat
from tests.formats import ALL, SEED, every_source
from tests.laws.test_nothing_is_lost import damaged, words_of
from tests.laws.test_nothing_is_lost import flaw as lost
from tests.laws.test_promptness import lags, owed, window
from tests.laws.test_writer_law import flaw as misread
from tests.toolsets import names
from tests.writing import Case, marker_texts, requests

_SHARDS = 24
_TAKEN = range(_SHARDS) if ALL else random.Random(SEED).sample(range(_SHARDS), _SHARDS // 6)
_NAMES = sorted(every_source())


def case_of(name: str, fmt: ChatFormat, pick: random.Random) -> Case:
    """A request that the format can carry: the plain one at the least."""
    chosen = list(requests())
    pick.shuffle(chosen)
    for kind, arguments in chosen:
        try:
            return Case(f"{name}-{kind}", fmt, arguments)
        except DragomanError:
            continue
    raise AssertionError(f"{name} carries no request at all")


def flaw(case: Case, pick: random.Random) -> str | None:
    """What is wrong of one walk; empty where the walk found no end."""
    text = case.walker().walk(pick.randrange(10**9), pick.randint(20, 140))
    if text is None:
        return ""
    wrong = misread(case, text)
    if wrong is not None:
        return f"{text!r}: {wrong}"
    late = _late(case, text)
    if late is not None:
        return late
    spoilt = damaged(text.decode(), marker_texts(case.fmt.profile), pick)
    wrong = lost(case, words_of(case), spoilt)
    return None if wrong is None else f"{spoilt!r}: {wrong}"


def _late(case: Case, text: bytes) -> str | None:
    whole = case.new_turn()
    whole.feed(text)
    whole.finish()
    most = window(case.fmt.profile, names(case.tools))
    for read, late, field in lags(text, case.new_turn().feed, owed(case, text, case.meant(text), whole.message)):
        if late > most:
            return f"{late} bytes of {field} late (at most {most}) behind {text[:read]!r}"
    return None


@pytest.mark.parametrize("shard", sorted(_TAKEN))
def test_one_text_of_each_proven_template_is_read_as_meant(shard: int) -> None:
    flaws: list[str] = []
    proven = unfinished = 0
    for name in _NAMES[shard::_SHARDS]:
        fmt = ChatFormat.from_template(every_source()[name])
        if fmt.profile.tools is None or fmt.proof["tool_calls"] not in ("proven", "not expressible"):
            continue
        proven += 1
        pick = random.Random(f"{name} {SEED}")
        case = case_of(name, fmt, pick)
        wrong = flaw(case, pick)
        if wrong:
            flaws.append(f"{case.name} {wrong}")
        unfinished += wrong == ""
    assert not flaws, f"{len(flaws)} of {proven}:\n" + "\n".join(flaws)
    assert proven
    assert unfinished <= proven // 4, "too many walks found no end"
