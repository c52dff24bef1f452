"""The promptness law: behind every byte all but W bytes of content, reasoning and arguments are delivered.

W is the longest run of markers that may still turn out to be one, plus the white space at the end of what was read.
Left out: values of tagged arguments that are no strings (they are known at their closer), arguments whose call waits
for an id or for its name behind them, arguments inside a JSON string, answers of formats whose calls are bare JSON.
"""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import pytest

from dragoman.chat import Delta, Message
from dragoman.chat_schema import declared_types
from dragoman.dialect.shape import call_shape
from dragoman.template.profile import Marker, Profile, Slot, ToolFormat, ToolProfile
from tests.formats import SEED, learned_format, sources, walks
from tests.toolsets import SETS, names, parameters_of
from tests.writing import Case, Meant, cases

WALKS = walks(500, 6)
_SPACE = b" \t\r\n"


@dataclass(frozen=True)
class Owed:
    """A stretch of output, bytes first to last of the text, and how much of one field is due behind each of them."""

    field: str  # content, reasoning, or the number of a call
    first: int
    due: tuple[int, ...]  # due[n]: characters of the field once n bytes of the stretch are read

    def at(self, read: int) -> int:
        return self.due[max(0, min(read - self.first, len(self.due) - 1))]


def owed(case: Case, text: bytes, meant: Meant, message: Message) -> list[Owed]:
    """What is due of ``message``, which was read from ``text``, by where the writer's own rules put it."""
    out: list[Owed] = []
    calls = iter(enumerate(message.tool_calls))
    for part, start, end in meant.spans:
        if part == "call":
            number, call = next(calls)
            out += _owed_call(case, text, (max(start, 0), end), number, call.arguments)
        elif part == "reasoning" or not bare(case):
            final = message.content if part == "content" else message.reasoning_content
            at = text.find(final.encode(), max(start, 0), end)
            if final and at >= 0:
                out.append(Owed(part, at, _counts(final.encode(), 0)))
    return out


def bare(case: Case) -> bool:
    """True: an answer may turn out to be a call at any brace, so it waits until a name settles it."""
    tools = case.fmt.profile.tools
    return tools is not None and case.turn.request.reads_calls and call_shape(tools).bare


def _counts(data: bytes, before: int, show: Callable[[str], str] = str) -> tuple[int, ...]:
    """The length of what is shown of each prefix of ``data``, behind ``before`` characters."""
    return tuple(before + len(show(data[:n].decode("utf-8", "ignore"))) for n in range(len(data) + 1))


def _owed_call(case: Case, text: bytes, span: tuple[int, int], number: int, arguments: str) -> Iterator[Owed]:
    tools = case.fmt.profile.tools
    assert tools is not None
    if tools.ids_after_arguments or (tools.object is not None and tools.object.args_as_text) or _name_is_last(tools):
        return
    if tools.format is not ToolFormat.TAG_WITH_TAGGED:
        at = text.find(arguments.encode(), *span)
        if at >= 0:
            yield Owed(str(number), at, _counts(arguments.encode(), 0))
        return
    written = text[span[0] : span[1]].decode()
    name = next(name for name in sorted(names(case.tools), key=len, reverse=True) if name in written)
    parameters = parameters_of(case.tools, name)
    cursor = span[0] + text[span[0] : span[1]].find(name.encode()) + len(name.encode())
    for key, value, before in _string_values(arguments):
        found = text.find(key.encode(), cursor, span[1])
        at = text.find(value.encode(), found + len(key.encode()), span[1])
        if value and at >= 0 and declared_types(parameters["properties"].get(key), parameters) == {"string"}:
            cursor = at + len(value.encode())
            yield Owed(str(number), at, _counts(value.encode(), before, _escaped))


def _name_is_last(tools: ToolProfile) -> bool:
    """The arguments stand before the name, so they wait for it."""
    places = [piece for piece in tools.call if piece in (Slot.NAME, Slot.ARGS)]
    return places == [Slot.ARGS, Slot.NAME]


def _escaped(text: str) -> str:
    return json.dumps(text, ensure_ascii=False)[1:-1]


def _string_values(arguments: str) -> Iterator[tuple[str, str, int]]:
    """(key, value, characters of ``arguments`` in front of its text) of each member that is a string."""
    decoder = json.JSONDecoder()
    at = 1
    while '"' in arguments[at:]:
        key, at = decoder.raw_decode(arguments, arguments.index('"', at))
        at = arguments.index(":", at) + 1
        at += len(arguments[at:]) - len(arguments[at:].lstrip())
        value, end = decoder.raw_decode(arguments, at)
        if isinstance(value, str):
            yield key, value, at + 1
        at = end


def window(profile: Profile, tool_names: list[str]) -> int:
    """The longest text that may wait: a marker, an opener up to its name, a closer and what confirms it."""
    reasoning, content, tools = profile.reasoning, profile.content, profile.tools
    runs = [reasoning.open.written, reasoning.close.written, content.open.written, content.close.written]
    runs += [*profile.end_of_turn]
    if tools is not None:
        runs += list(_call_runs(tools, max(tool_names, key=len, default="")))
    return max(len(run.encode()) for run in runs)


def _call_runs(tools: ToolProfile, name: str) -> Iterator[str]:
    first = tools.call[0] if isinstance(tools.call[0], Marker) else Marker()
    opening = tools.section_open.written + first.written
    shape = call_shape(tools)
    head = "".join(piece.written if isinstance(piece, Marker) else name for piece in shape.head[:2])
    if tools.object is not None:
        path = tools.object.name_path
        head = "{" + tools.object.open_pad + "".join(f'"{key}"{tools.object.colon}{{' for key in path) + f'"{name}"'
    yield opening + head
    yield tools.separator.written + opening + head
    if Slot.VALUE in tools.argument:
        at = tools.argument.index(Slot.VALUE)
        closing = "".join(piece.written for piece in tools.argument[at + 1 :] if isinstance(piece, Marker))
        opening = "".join(piece.written for piece in tools.argument[:1] if isinstance(piece, Marker))
        last = "".join(piece.written for piece in tools.call[-1:] if isinstance(piece, Marker))
        yield closing + tools.argument_separator.written + opening
        yield closing + last
    yield "".join(piece.written for piece in tools.call[-1:] if isinstance(piece, Marker)) + tools.section_close.written


def lags(text: bytes, feed: Callable[[bytes], list[Delta]], due: list[Owed]) -> Iterator[tuple[int, int, str]]:
    """(bytes read, bytes that are late beside trailing white space, field) behind every byte of ``text``."""
    given: dict[str, int] = {}
    for read in range(1, len(text) + 1):
        for delta in feed(text[read - 1 : read]):
            for field, piece in _pieces(delta):
                given[field] = given.get(field, 0) + len(piece)
        blank = read - len(text[:read].rstrip(_SPACE))
        for stretch in due:
            done = next((n for n in range(len(stretch.due)) if stretch.due[n] > given.get(stretch.field, 0)), None)
            if done is not None and stretch.at(read) > given.get(stretch.field, 0):
                late = min(read - stretch.first, len(stretch.due) - 1) - (done - 1)
                yield read, late - blank, stretch.field


def _pieces(delta: Delta) -> Iterator[tuple[str, str]]:
    yield "content", delta.content
    yield "reasoning", delta.reasoning_content
    for piece in delta.tool_calls:
        yield str(piece.index), piece.arguments


@pytest.mark.parametrize("name", sorted(sources()))
def test_all_but_a_marker_is_delivered_behind_every_byte(name: str) -> None:
    fmt = learned_format(name)
    if fmt.profile.tools is None or fmt.proof["tool_calls"] not in ("proven", "not expressible"):
        pytest.skip(f"calls are not proven: {fmt.proof.claims['tool_calls'].why}")
    possible, _ = cases(name, fmt, 8)
    walkers = [case.walker() for case in possible]
    flaws: list[str] = []
    measured = 0
    for number in range(WALKS):
        case, walker = possible[number % len(possible)], walkers[number % len(possible)]
        text = walker.walk(f"prompt {name} {number} {SEED}", random.Random(number).randint(40, 160))
        if text is None:
            continue
        whole = case.new_turn()
        whole.feed(text)
        whole.finish()
        due = owed(case, text, case.meant(text), whole.message)
        measured += sum(len(stretch.due) for stretch in due)
        most = window(fmt.profile, names(case.tools))
        for read, late, field in lags(text, case.new_turn().feed, due):
            if late > most:
                flaws.append(f"{case.name}: {late} bytes of {field} late (at most {most}) behind {text[:read]!r}")
    assert not flaws, f"{len(flaws)} flaws:\n" + "\n".join(flaws[:5])
    # Arguments wait for an id behind them, so little is due at once there.
    assert measured > 10 * WALKS or fmt.profile.tools.ids_after_arguments


@pytest.mark.parametrize("name", ["own.json_in_tags", "own.tagged", "own.reasoning"])
def test_delivering_at_the_end_is_found_out(name: str) -> None:
    """The law's own check: a reader that waits for a long value, or for the end, is late."""
    case = Case(name, learned_format(name), {"tools": SETS["strings"]})
    call = {
        "own.json_in_tags": '<qor>\n{"name": "get_weather", "arguments": {"city": "' + "a" * 90 + '"}}\n</qor>',
        "own.tagged": "<kul>\n<fun=get_weather>\n<par=city>\n" + "a" * 90 + "\n</par>\n</fun>\n</kul>",
        "own.reasoning": "<mull>\n" + "a" * 90 + "\n</mull>\n\nDone.",
    }
    text = call[name].encode()
    whole = case.new_turn()
    whole.feed(text)
    whole.finish()
    due = owed(case, text, case.meant(text), whole.message)
    assert sum(len(stretch.due) for stretch in due) > 90
    turn, kept = case.new_turn(), bytearray()

    def at_the_end(piece: bytes) -> list[Delta]:
        kept.extend(piece)
        return turn.feed(bytes(kept)) if len(kept) == len(text) else []

    most = window(case.fmt.profile, names(case.tools))
    assert max(late for _, late, _ in lags(text, at_the_end, due)) > most
    assert max((late for _, late, _ in lags(text, case.new_turn().feed, due)), default=0) <= most
