"""A shorter run of bench/serving.py: nothing lost, nothing in another order, and who hangs up frees the engine."""

from __future__ import annotations

import asyncio

from bench import serving


def test_many_streams_at_once_lose_nothing_and_who_leaves_frees_his_work() -> None:
    async def work(address: tuple[str, int]) -> tuple[serving.Tally, int]:
        tally = await serving.load(address, streams=40, words=25, seconds=2.0)
        _, running = await serving.hang_up(address, streams=40)
        return tally, running

    with serving.server(0.02) as (_, address):
        tally, running = asyncio.run(asyncio.wait_for(work(address), 120.0))
    assert tally.errors == []
    assert tally.wrong == []
    assert tally.requests >= 40
    assert tally.tokens == 25 * tally.requests
    assert running == 20


def test_the_readers_see_what_is_lost_or_reordered() -> None:
    """The bench's own check: it would be worth nothing if it could not fail."""
    for words, complaint in (("0@5 2@5 ", "word 2"), ("0@5 1@5 1@5 ", "word 1"), ("0@5 ", "1 words of 3")):
        tally = serving.Tally()
        reader = serving._Reader(tally)
        for char in words:
            reader.text(char)
        reader.done(3)
        assert complaint in " ".join(tally.wrong)
