"""Stop texts and runs of equal pieces, against their obvious meaning on the whole text."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby

from hypothesis import example, given
from hypothesis import strategies as st

from dragoman.chat import Delta, ToolCallDelta
from dragoman.server.answers.repeats import RUN_MAX, Repeats
from dragoman.server.answers.stop_texts import StopTexts

WORDS = st.text("ab", min_size=1, max_size=4)


@given(pieces=st.lists(st.text("ab", min_size=1, max_size=5), max_size=12), stops=st.lists(WORDS, max_size=3))
def test_the_text_up_to_the_first_stop_text(pieces: list[str], stops: list[str]) -> None:
    filter = StopTexts(stops)
    sent = filter.push([Delta(content=piece) for piece in pieces]) + filter.rest()
    text = "".join(pieces)
    ended = (
        len(text[:end]) - max(map(len, hits)) for end in range(len(text) + 1) if (hits := _hits(text[:end], stops))
    )
    cut = next(ended, None)
    assert "".join(delta.content for delta in sent) == text[:cut]
    assert (filter.found is not None) == (cut is not None)


def _hits(text: str, stops: Sequence[str]) -> list[str]:
    return [stop for stop in stops if text.endswith(stop)]


@given(st.lists(st.tuples(st.sampled_from(["content", "reasoning"]), st.sampled_from("ab"), st.integers(1, 130))))
@example([("content", "a", RUN_MAX + 1), ("reasoning", "a", RUN_MAX + 2)])
def test_runs_are_broken_up_and_nothing_is_lost(runs: list[tuple[str, str, int]]) -> None:
    deltas = [
        Delta(content=text) if kind == "content" else Delta(reasoning_content=text)
        for kind, text, count in runs
        for _ in range(count)
    ]
    repeats = Repeats()
    sent = [delta for each in deltas for delta in repeats.push([each])] + repeats.rest()
    assert _merged(sent) == _merged(deltas)
    assert max((len(list(run)) for _, run in groupby(sent)), default=0) <= RUN_MAX + 1


def _merged(deltas: Sequence[Delta]) -> list[tuple[bool, str]]:
    """(is content, text) of each stretch of one kind."""
    stretches = groupby(deltas, key=lambda delta: bool(delta.content))
    return [(kind, "".join(delta.content or delta.reasoning_content for delta in run)) for kind, run in stretches]


def test_a_call_ends_a_held_piece() -> None:
    repeats = Repeats()
    call = Delta(tool_calls=(ToolCallDelta(0, "id", "f"),))
    sent = repeats.push([*[Delta(content="x")] * (RUN_MAX + 1), call])
    assert sent[-2:] == [Delta(content="x"), call]
    assert len(sent) == RUN_MAX + 2
