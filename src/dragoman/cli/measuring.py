"""What ``dragoman bench`` measures: one template and one vocabulary, in this process, on this machine.

Rules of this file: processor time, the best of a few repeats, since only that repeats itself; nothing is measured whose
answer is wrong. A ratio tells more than a time: it does not depend on the machine.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from time import perf_counter, process_time
from typing import Any

import numpy

from dragoman.errors import DragomanError
from dragoman.format import ChatFormat, learned
from dragoman.inspector.example import TOOLS
from dragoman.turn import Turn
from dragoman.vocab import Vocabulary

_REPEATS = 3
_WORDS = "the harbour lies in the north and the wind comes from the sea "
_USER = {"role": "user", "content": "What is the weather in Lisbon?"}
_PIECE = 4  # bytes of a piece where no vocabulary cuts the output


@dataclass(frozen=True, slots=True)
class Output:
    """What a model would write, in pieces; ``calls``: how many calls are read from it."""

    pieces: tuple[bytes, ...]
    tokens: tuple[int, ...]
    calls: int


def best(work: Callable[[], Any], repeats: int = _REPEATS) -> float:
    """Seconds of processor time, the least of ``repeats``."""
    times = []
    for _ in range(repeats):
        start = process_time()
        work()
        times.append(process_time() - start)
    return min(times)


def measure_learning(fmt: ChatFormat) -> dict[str, Any]:
    """Learning and proving the template from its text, nothing kept."""
    template = fmt.template
    seconds = best(lambda: learned.__wrapped__(template.source, template.bos_token, template.eos_token))
    return {"ms": seconds * 1e3, "template_chars": len(template.source)}


def measure_prompt(fmt: ChatFormat, turns: int) -> dict[str, Any]:
    """A conversation of ``turns`` questions and one ten times as long: rendering with provenance, and encoding."""
    sizes = []
    for count in (turns, turns * 10):
        exchange = [_USER, {"role": "assistant", "content": _WORDS * 3}]
        messages = [*(exchange * count), _USER]
        turn = fmt.turn(messages)

        def render(messages: list[dict[str, Any]] = messages) -> Turn:
            return fmt.turn(messages)

        shown: dict[str, Any] = {"chars": len(turn.prompt.text), "render_ms": best(render) * 1e3}
        if fmt.vocab is not None:
            both = best(lambda: render().prompt.token_ids) * 1e3
            shown |= {"tokens": len(turn.prompt.token_ids), "encode_ms": max(0.0, both - shown["render_ms"])}
        sizes.append(shown)
    small, large = sizes
    return {"small": small, "large": large, "growth": _ratio(large, small, "render_ms", "chars")}


def measure_reading(fmt: ChatFormat, tokens: int) -> dict[str, Any]:
    """A call with one long argument of about ``tokens`` tokens, and one ten times as long, read token by token."""
    sizes = []
    for count in (tokens, tokens * 10):
        output = make_output(fmt, count)

        def read(output: Output = output) -> Turn:
            turn = _turn(fmt)
            for piece in output.pieces:
                turn.feed(piece)
            turn.finish()
            return turn

        calls = len(read().message.tool_calls)
        seconds = best(read)
        size = sum(map(len, output.pieces))
        sizes.append(
            {
                "tokens": len(output.pieces),
                "bytes": size,
                "calls": calls,
                "ms": seconds * 1e3,
                "us_per_token": seconds * 1e6 / max(len(output.pieces), 1),
                "mb_per_s": size / 1e6 / seconds if seconds else None,
            }
        )
    small, large = sizes
    return {"small": small, "large": large, "growth": _ratio(large, small, "ms", "tokens")}


def measure_masks(fmt: ChatFormat, vocab: Vocabulary) -> dict[str, Any]:
    """The masks along a call that is demanded: what is made once, the first walk, and the same walk again.

    setup: the vocabulary's trie, the grammar and its first position. next_tools: the same for another tool. A step is
    one mask and the token that is taken under it.
    """
    fresh = fmt.with_vocab(vocab)  # it keeps nothing of what was made before
    _, setup = _timed(lambda: _turn(fresh, tool_choice="required").constraint())
    other = copy.deepcopy(TOOLS)
    other[0]["function"]["name"] = "get_tide"
    _, again = _timed(lambda: _turn(fresh, tools=other, tool_choice="required").constraint())
    tokens = make_output(fresh, 60).tokens
    cold, warm = _walk(fresh, tokens), _walk(fresh, tokens)
    return {
        "vocabulary": vocab.size,
        "setup_ms": setup * 1e3,
        "next_tools_ms": again * 1e3,
        "steps": len(warm),
        "of_tokens": len(tokens),
        "first": _quantiles(cold),
        "again": _quantiles(warm),
        "first_to_again": sum(cold) / sum(warm) if warm else None,
    }


def make_output(fmt: ChatFormat, tokens: int) -> Output:
    """A call whose argument has about ``tokens`` tokens, as the template writes it in a history.

    Where the template shows none that is read back, plain text of that length.
    """
    vocab = fmt.vocab
    text = (_WORDS * (tokens // 12 + 1)).strip()
    written = _written(fmt, text) or text
    turn = _turn(fmt)
    turn.feed(written)
    turn.finish()
    calls = len(turn.message.tool_calls)
    if vocab is None:
        data = written.encode()
        return Output(tuple(data[at : at + _PIECE] for at in range(0, len(data), _PIECE)), (), calls)
    ids = tuple(vocab.encode([(written, False)]))
    return Output(tuple(vocab.decode([token]) for token in ids), ids, calls)


def _written(fmt: ChatFormat, text: str) -> str | None:
    """The call with ``text`` in it as the history writes it, behind the generation prompt; None: it is not there."""
    function = {"name": "get_weather", "arguments": {"city": text, "unit": "celsius"}}
    call = {
        "role": "assistant",
        "content": "",
        "tool_calls": [{"id": "a1B2c3D4e", "type": "function", "function": function}],
    }
    try:
        before = _turn(fmt).prompt.text
        after = fmt.turn([_USER, call], tools=TOOLS, add_generation_prompt=False).prompt.text
    except DragomanError:
        return None
    same = 0
    while same < min(len(before), len(after)) and before[same] == after[same]:
        same += 1
    body = after[same:]
    for stop in _turn(fmt).stops:
        at = body.rfind(stop)
        body = body[:at] if at > 0 else body
    turn = _turn(fmt)
    turn.feed(body)
    turn.finish()
    return body if turn.message.tool_calls else None


def _turn(fmt: ChatFormat, **more: Any) -> Turn:
    return fmt.turn([_USER], **{"tools": TOOLS, "id_seed": 0, **more})


def _walk(fmt: ChatFormat, tokens: Sequence[int]) -> list[float]:
    """Microseconds of each mask and its token, as far as the grammar goes with ``tokens``."""
    constraint = _turn(fmt, tool_choice="required").constraint()
    row = numpy.zeros(constraint.words, dtype=numpy.int32)
    times: list[float] = []
    for token in tokens:
        start = perf_counter()
        constraint.fill(row)
        taken = constraint.accept(token)
        passed = (perf_counter() - start) * 1e6
        if not taken:
            break
        times.append(passed)
    return times


def _quantiles(times: Sequence[float]) -> dict[str, float] | None:
    if not times:
        return None
    p50, p99 = numpy.percentile(times, (50, 99))
    return {"p50_us": float(p50), "p99_us": float(p99), "max_us": max(times)}


def _timed(work: Callable[[], Any]) -> tuple[Any, float]:
    start = process_time()
    made = work()
    return made, process_time() - start


def _ratio(large: dict[str, Any], small: dict[str, Any], time: str, size: str) -> dict[str, float | None]:
    """How much longer, for how much more."""
    return {"size": large[size] / small[size], "time": large[time] / small[time] if small[time] else None}
