"""Cases for ``dragoman check``: an output, the request it answers, and the message that it is.

A case is one JSON object a line: ``id``, ``template`` (the name of a .jinja file), ``request`` (arguments of
``ChatFormat.turn``), ``output``, ``expect`` (content, reasoning_content, tool_calls). Optional: ``partial`` (compare
what was delivered before the end), ``chunks`` (where the output was cut), ``kind`` (``robustness``: nothing is
compared, it may only not fail), ``stage`` (``reasoning``: only reasoning is compared where calls are read).
"""

from __future__ import annotations

import inspect
import json
import random
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from dragoman.chat import Delta, Message
from dragoman.cli.files import read_text
from dragoman.errors import DragomanError, UsageError
from dragoman.format import ChatFormat
from dragoman.server.answers.jobs import Sum

_WANTED = "one case a line: a JSON object with template, request, output and expect"
_ARGUMENTS = frozenset(inspect.signature(ChatFormat.turn).parameters) - {"self", "id_seed"}

_TEXTS = ("content", "reasoning_content")
# What a message may say of itself; its role is always the same.
_EXPECTED = frozenset((*_TEXTS, "tool_calls", "role"))


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


@dataclass(frozen=True, slots=True)
class Fault:
    """What is wrong with one reading: ``what`` was expected and what was found, or only what happened."""

    what: str
    expected: str | None = None
    found: str | None = None

    def __str__(self) -> str:
        return self.what if self.expected is None else f"{self.what}: {self.found} instead of {self.expected}"

    def to_dict(self) -> dict[str, str | None]:
        return {"what": self.what, "expected": self.expected, "found": self.found}


def load_cases(name: str) -> list[Case]:
    """Raises UsageError that names the line."""
    cases = []
    for number, line in enumerate(read_text(name, param="CASES.jsonl", wanted=_WANTED).splitlines(), 1):
        if not line.strip():
            continue
        try:
            cases.append(_case(json.loads(line), number))
        except (ValueError, TypeError) as error:
            raise UsageError(f"{name}, line {number} is no case: {error}; {_WANTED}", param="CASES.jsonl") from error
    return cases


def _case(row: Any, number: int) -> Case:
    """Raises ValueError, TypeError."""
    if not isinstance(row, dict):
        raise TypeError("it is no object")
    for key, kind in (("template", str), ("request", dict), ("output", str), ("expect", dict)):
        if not isinstance(row.get(key), kind):
            raise TypeError(f"{key!r} is missing or no {'text' if kind is str else 'object'}")
    if unknown := sorted(row["request"].keys() - _ARGUMENTS):
        raise ValueError(f"the request holds {', '.join(map(repr, unknown))}, which no turn takes")
    chunks = row.get("chunks") or []
    if not (isinstance(chunks, list) and all(isinstance(chunk, str) for chunk in chunks)):
        raise TypeError("'chunks' is no list of texts")
    for text in (row["output"], *chunks):
        text.encode()  # half a surrogate pair is a ValueError
    _check_expected(row["expect"])
    return Case(
        id=str(row.get("id", number)),
        template=row["template"],
        request=row["request"],
        output=row["output"],
        expect=row["expect"],
        partial=bool(row.get("partial")),
        chunks=tuple(chunks),
        kind=row.get("kind", "well_formed"),
        stage=row.get("stage", "turn"),
    )


def _check_expected(expect: Mapping[str, Any]) -> None:
    """What is expected is all compared: nothing of it may go unseen. Raises ValueError, TypeError."""
    if unknown := sorted(expect.keys() - _EXPECTED):
        raise ValueError(
            f"'expect' holds {', '.join(map(repr, unknown))}; compared are {', '.join(_TEXTS)}, tool_calls"
        )
    for key in _TEXTS:
        if not isinstance(expect.get(key) or "", str):
            raise TypeError(f"'expect.{key}' is no text")
    calls = expect.get("tool_calls") or []
    if not (
        isinstance(calls, list)
        and all(isinstance(call, dict) and {"name", "arguments"} <= call.keys() for call in calls)
    ):
        raise TypeError("'expect.tool_calls' is no list of calls, each with name and arguments")


def check_case(fmt: ChatFormat, case: Case, seed: int = 0) -> dict[str, Fault | None]:
    """Way of cutting -> what is wrong, None if nothing is: whole, byte by byte, at random, and as recorded."""
    first: Message | None = None
    faults: dict[str, Fault | None] = {}
    for way, pieces in _ways(case, seed):
        try:
            message = _read(fmt, case, pieces)
        except DragomanError as error:
            faults[way] = Fault(f"raises {type(error).__name__}: {error}")
            continue
        except AssertionError as error:
            faults[way] = Fault(str(error))
            continue
        fault = None if case.kind == "robustness" else difference(case, message)
        if fault is None and first is not None and _values(message) != _values(first):
            fault = Fault("another cut gives another message", repr(_values(first)), repr(_values(message)))
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


def difference(case: Case, message: Message) -> Fault | None:
    """Where the message is not the expected one. Text is compared without outer white space, arguments as JSON."""
    wanted = case.expect
    calls = wanted.get("tool_calls") or []
    if (fault := _text_fault("reasoning_content", wanted, message.reasoning_content)) is not None:
        return fault
    if case.stage == "reasoning" and message.tool_calls and not calls:
        return None
    if len(calls) != len(message.tool_calls):
        found = ", ".join(call.name for call in message.tool_calls) or "none"
        return Fault("the calls", ", ".join(call["name"] for call in calls) or "none", found)
    for number, (call, read) in enumerate(zip(calls, message.tool_calls, strict=True)):
        if call["name"] != read.name:
            return Fault(f"the name of call {number}", repr(call["name"]), repr(read.name))
        if call.get("id") and call["id"] != read.id:
            return Fault(f"the id of call {number}", repr(call["id"]), repr(read.id))
        if _canonical(call["arguments"]) != _canonical(read.arguments):
            return Fault(f"the arguments of call {number}", _canonical(call["arguments"]), read.arguments)
    return _text_fault("content", wanted, message.content)


def _text_fault(name: str, wanted: Mapping[str, Any], found: str) -> Fault | None:
    text = (wanted.get(name) or "").strip()
    return None if text == found.strip() else Fault(name, repr(text), repr(found))


def _canonical(arguments: Any) -> str:
    """JSON in one spelling, keys in their order; text that is no JSON as it is."""
    if isinstance(arguments, str):
        try:
            arguments = json.loads(arguments)
        except ValueError:
            return str(arguments)
    return json.dumps(arguments, ensure_ascii=False)
