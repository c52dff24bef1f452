"""Cases for ``dragoman check``: an output, the request it answers, and the message that it is.

A case is one JSON object a line: ``id``, ``template`` (the name of a .jinja file), ``request`` (arguments of
``ChatFormat.turn``), ``output``, ``expect`` (content, reasoning_content, tool_calls). Optional: ``partial`` (compare
what was delivered before the end), ``chunks`` (where the output was cut), ``kind`` (``robustness``: nothing is
compared, it may only not fail), ``stage`` (``reasoning``: only reasoning is compared where calls are read).
"""

from __future__ import annotations

import json
import random
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from dragoman.chat import Delta, Message
from dragoman.errors import DragomanError, UsageError
from dragoman.format import ChatFormat
from dragoman.server.generate import Sum


@dataclass(frozen=True, slots=True)
class Case:
    id: str
    template: str
    request: Mapping[str, Any]
    output: str
    expect: Mapping[str, Any]
    partial: bool = False
    chunks: tuple[str, ...] = ()
    kind: str = "well_formed"
    stage: str = "turn"


def load_cases(path: Path) -> list[Case]:
    """Raises UsageError that names the line."""
    cases = []
    for number, line in enumerate(path.read_text("utf-8").splitlines(), 1):
        if not line.strip():
            continue
        try:
            row = json.loads(line)
            case = Case(
                id=str(row.get("id", number)),
                template=row["template"],
                request=dict(row["request"]),
                output=row["output"],
                expect=dict(row["expect"]),
                partial=bool(row.get("partial")),
                chunks=tuple(row.get("chunks") or ()),
                kind=row.get("kind", "well_formed"),
                stage=row.get("stage", "turn"),
            )
        except (ValueError, KeyError, TypeError) as error:
            raise UsageError(f"{path}, line {number} is no case: {error!r}") from error
        cases.append(case)
    return cases


def check_case(fmt: ChatFormat, case: Case, seed: int = 0) -> dict[str, str | None]:
    """Way of cutting -> what is wrong, None if nothing is: whole, byte by byte, at random, and as recorded."""
    first: Message | None = None
    faults: dict[str, str | None] = {}
    for way, pieces in _ways(case, seed):
        try:
            message = _read(fmt, case, pieces)
        except DragomanError as error:
            faults[way] = f"raises {type(error).__name__}: {error}"
            continue
        except AssertionError as error:
            faults[way] = str(error)
            continue
        fault = None if case.kind == "robustness" else difference(case, message)
        if fault is None and first is not None and _values(message) != _values(first):
            fault = "another cut gives another message"
        first = first or message
        faults[way] = fault
    return faults


def _ways(case: Case, seed: int) -> Iterator[tuple[str, Sequence[bytes]]]:
    data = case.output.encode()
    yield "whole", [data]
    yield "bytes", [data[at : at + 1] for at in range(len(data))]
    yield "random", list(_random_pieces(data, random.Random(f"{case.id} {seed}")))
    if case.chunks:
        yield "chunks", [chunk.encode() for chunk in case.chunks]


def _random_pieces(data: bytes, throw: random.Random) -> Iterator[bytes]:
    at = 0
    while at < len(data):
        size = throw.choice((1, 2, 3, 5, 8, 21))
        yield data[at : at + size]
        at += size


def _read(fmt: ChatFormat, case: Case, pieces: Sequence[bytes]) -> Message:
    """The message; AssertionError where the deltas do not add up to it."""
    turn = fmt.turn(**case.request, id_seed=0)
    deltas: list[Delta] = []
    for piece in pieces:
        deltas += turn.feed(piece)
    if not case.partial:
        deltas += turn.finish()
    total = Sum()
    total.add(deltas)
    if _values(total.message) != _values(turn.message):
        raise AssertionError("the deltas do not add up to the message")
    return turn.message


def _values(message: Message) -> tuple[Any, ...]:
    return message.content, message.reasoning_content, message.tool_calls


def difference(case: Case, message: Message) -> str | None:
    """Where the message is not the expected one. Text is compared without outer white space, arguments as JSON."""
    wanted = case.expect
    calls = wanted.get("tool_calls") or []
    if (fault := _text_fault("reasoning_content", wanted, message.reasoning_content)) is not None:
        return fault
    if case.stage == "reasoning" and message.tool_calls and not calls:
        return None
    if len(calls) != len(message.tool_calls):
        return f"{len(message.tool_calls)} calls instead of {len(calls)}"
    for call, found in zip(calls, message.tool_calls, strict=True):
        if call["name"] != found.name:
            return f"calls {found.name!r} instead of {call['name']!r}"
        if call.get("id") and call["id"] != found.id:
            return f"the call's id is {found.id!r} instead of {call['id']!r}"
        if _canonical(call["arguments"]) != _canonical(found.arguments):
            return f"arguments are {found.arguments} instead of {_canonical(call['arguments'])}"
    return _text_fault("content", wanted, message.content)


def _text_fault(name: str, wanted: Mapping[str, Any], found: str) -> str | None:
    text = (wanted.get(name) or "").strip()
    return None if text == found.strip() else f"{name} is {found!r} instead of {text!r}"


def _canonical(arguments: Any) -> str:
    """JSON in one spelling, keys in their order; text that is no JSON as it is."""
    if isinstance(arguments, str):
        try:
            arguments = json.loads(arguments)
        except ValueError:
            return str(arguments)
    return json.dumps(arguments, ensure_ascii=False)
