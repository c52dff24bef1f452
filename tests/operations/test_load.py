"""A shorter run of bench/serving.py: nothing lost, nothing in another order, and who hangs up frees the engine."""

from __future__ import annotations

import asyncio

from bench import serving


def test_many_streams_at_once_lose_nothing_and_who_leaves_frees_his_work() -> None:
    async def work(address: tuple[str, int]) -> tuple[serving.Tally, int]:
        tally = await serving.load(address, streams=40, words=25, seconds=2.0)
        _, running = await serving.hang_up(address, streams=40)
        return tally, running

    with serving.server("--serve", 0.02) as (_, address):
        tally, running = asyncio.run(asyncio.wait_for(work(address), 120.0))
    assert tally.errors == []
    assert tally.wrong == []
    assert tally.requests >= 40
    assert tally.tokens == 25 * tally.requests
    assert running == 20


def test_nothing_is_lost_over_an_upstream_either() -> None:
    work = serving.behind(streams=8, words=12, pace=0.01, seconds=0.5)
    through, alone = asyncio.run(asyncio.wait_for(work, 120.0))
    for tally in (through, alone):
        assert (tally.errors, tally.wrong) == ([], [])
        assert tally.tokens == 12 * tally.requests >= 12 * 8


def test_the_readers_see_what_is_lost_or_reordered() -> None:
    """The bench's own check: it would be worth nothing if it could not fail."""
    for words, complaint in (("0@5 2@5 ", "word 2"), ("0@5 1@5 1@5 ", "word 1"), ("0@5 ", "1 words of 3")):
        tally = serving.Tally()
        reader = serving._Reader(tally)
        for char in words:
            reader.text(char)
        reader.done(3)
        assert complaint in " ".join(tally.wrong)
