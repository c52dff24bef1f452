"""Nothing is lost, whatever a model writes: damaged outputs are read without an error, the same in any pieces, and each
of their bytes comes out in a region, is a marker of the format, or is named in a problem.
"""

from __future__ import annotations

import random
import re
from collections.abc import Iterator
from dataclasses import fields, is_dataclass
from typing import Any

import pytest

from dragoman.chat import Message
from dragoman.dialect.build import build
from dragoman.dialect.channels import bare_headers, header_tags
from dragoman.events import Closed, Event, Opened, Text
from dragoman.grammar.nodes import Control, Grammar, Literal
from dragoman.stream.reader import Reader
from dragoman.template.profile import Marker, Profile, Slot
from tests.formats import SEED, learned_format, sources, walks
from tests.writing import Case, cases, marker_texts

DAMAGES = walks(360, 6)  # of each template
# A word that no format has; letters alone, so that no notation of a string changes it.
WORD = "Zqjxv"
_STRUCTURE = ("opening", "call", "arg", "stop")
# What stands between members, items and arguments may be one character; elsewhere a single one is no marker.
_MARKS = "{}[](),:;=\"'"


def damaged(text: str, markers: list[str], pick: random.Random) -> str:
    """``text`` as a model might spoil it: one to three of its parts are lost, doubled, swapped, cut or made up."""
    for _ in range(pick.randint(1, 3)):
        text = pick.choice(_spoilt(text, markers, pick))
    return text


def _spoilt(text: str, markers: list[str], pick: random.Random) -> list[str]:
    """One damage each: at any place, and at a marker."""
    at, to = sorted(pick.choices(range(len(text) + 1), k=2))
    before, inside, behind = text[:at], text[at:to], text[to:]
    found = [(m.start(), m.group()) for word in markers for m in re.finditer(re.escape(word), text)]
    where, word = pick.choice(found) if found else (at, pick.choice(markers))
    left, right = text[:where], text[where + len(word) :]
    half, most = word[: pick.randint(1, len(word))], word[: pick.randint(0, len(word) - 1)]
    other, char = pick.choice(markers), pick.choice("<>{}[]\"'\\,:=\n|/ a")
    anywhere = [
        before + inside[6:] + behind,
        before + WORD + inside + behind,
        before + inside + inside + behind,
        before,
        before + other + inside + behind,
        before + char + inside + behind,
        before + inside.replace('"', pick.choice(("'", ""))) + behind,
    ]
    around = [left + most + right, left + right, left + word + word + right, left + half + word + right]
    return [*anywhere, *around, left + other + right, left + word + WORD + right]


def words_of(case: Case) -> re.Pattern[str]:
    """What the format's own grammar spells: markers, keys, punctuation; and words that only say how to read on."""
    profile = case.fmt.profile
    grammar = build(profile, case.turn.request)
    words = {word for node in grammar.rules.values() for word in _literals(node)}
    words |= {part for word in words for part in word.split()}
    marks = _MARKS + "".join(text.strip() for text in marker_texts(profile) if len(text.strip()) == 1)
    longest = sorted((word for word in words if len(word) > 1), key=len, reverse=True)
    ways = [*map(re.escape, longest), r"\s", r"\d", f"[{re.escape(marks)}]"]
    tags = [tag for tag in (*header_tags(profile), *bare_headers(profile)) if tag]
    if tags:  # of a header only the recipient and the channel say something
        ways.append(f"[^<\\n]+(?={'|'.join(map(re.escape, tags))})")
    argument = profile.tools.argument if profile.tools is not None else ()
    if Slot.TYPE in argument:
        behind = argument[argument.index(Slot.TYPE) + 1]
        ways.append(f"[^<>]+?(?={re.escape(behind.text)})" if isinstance(behind, Marker) else r"\w+")
    return re.compile(f"(?:{'|'.join(ways)})*")


def says_all(profile: Profile) -> bool:
    """True: every word of the format's own is a marker; else headers and types hold words that nobody is told."""
    tools = profile.tools
    return not header_tags(profile) and (tools is None or Slot.TYPE not in tools.argument)


def _literals(node: Any) -> Iterator[str]:
    if isinstance(node, Literal):
        yield node.data.decode("utf-8", "replace")
    elif isinstance(node, Control):
        yield node.text
    elif isinstance(node, tuple):
        for item in node:
            yield from _literals(item)
    elif is_dataclass(node) and not isinstance(node, Grammar):
        for part in fields(node):
            yield from _literals(getattr(node, part.name))


def lost(case: Case, known: re.Pattern[str], text: str) -> str:
    """What of ``text`` is in no region and no marker; a marker that the end cuts off is one."""
    for stretch in undelivered(case, text.encode()):
        rest = stretch.decode("utf-8", "replace")
        found = known.match(rest)
        rest = rest[found.end() if found else 0 :]
        if rest and not text.endswith(rest):
            return rest
    return ""


def undelivered(case: Case, data: bytes) -> list[bytes]:
    """The stretches of ``data`` that no region of text has, up to the end of the turn."""
    reader: Reader = case.new_turn().reader
    path = list(reader.path)  # what the prompt opened
    events: list[Event] = reader.feed(data)
    read = reader.position if not reader.ended else None
    events += reader.finish("stop")
    had = bytearray(len(data))
    end = len(data)
    for event in events:
        if isinstance(event, Opened):
            path.append(event.tag)
            end = min(end, event.position) if event.tag == "stop" else end
        elif isinstance(event, Closed):
            while path and path.pop() != event.tag:
                pass
        elif isinstance(event, Text) and path and path[-1] not in _STRUCTURE:
            for at in range(max(0, event.position), event.position + len(event.data)):
                had[at] = 1
    assert read is None or read == len(data)
    return [data[m.start() : m.end()] for m in re.finditer(rb"\x00+", bytes(had[:end]))]


def told(message: Message) -> str:
    """All that can be seen of a message; strings of arguments as they are."""
    out = [message.content, message.reasoning_content, *(problem.message for problem in message.problems)]
    for call in message.tool_calls:
        out += [call.id, call.name, call.arguments]
    return "\n".join(out)


def _read(case: Case, data: bytes, size: int) -> Message:
    turn = case.new_turn()
    for at in range(0, len(data), size or 1):
        turn.feed(data[at : at + size])
    turn.finish()
    return turn.message


def flaw(case: Case, known: re.Pattern[str], text: str) -> str | None:
    """What is wrong of the reading of ``text``."""
    data = text.encode()
    message = _read(case, data, len(data))
    for size in (1, 4):
        pieces = _read(case, data, size)
        if pieces != message:
            return f"in one piece {message}, in pieces of {size} {pieces}"
    codes = {problem.code for problem in message.problems}
    seen = told(message)
    cut = any(WORD[:at] in seen and WORD[at:] in seen for at in range(2, len(WORD)))  # where a call broke off
    if says_all(case.fmt.profile) and seen.count(WORD) < text.count(WORD) and not cut and "after_end" not in codes:
        return f"a word is lost: {message}"
    if not codes & {"unread_members", "stray_text"}:
        missing = lost(case, known, text)
        if missing:
            return f"{missing!r} is lost: {message}"
    return None


@pytest.mark.parametrize("name", sorted(sources()))
def test_nothing_of_a_damaged_output_is_lost(name: str) -> None:
    fmt = learned_format(name)
    if fmt.profile.tools is None or fmt.proof["tool_calls"] not in ("proven", "not expressible"):
        pytest.skip(f"calls are not proven: {fmt.proof.claims['tool_calls'].why}")
    possible, _ = cases(name, fmt, 6)
    markers = marker_texts(fmt.profile)
    walkers = [case.walker() for case in possible]
    known = [words_of(case) for case in possible]
    flaws: list[str] = []
    done = 0
    for seed in range(DAMAGES):
        case = possible[seed % len(possible)]
        pick = random.Random(f"{name} {seed} {SEED}")
        text = walkers[seed % len(possible)].walk(f"damage {name} {seed} {SEED}", pick.randint(40, 160))
        if text is None:
            continue
        spoilt = damaged(text.decode(), markers, pick)
        done += 1
        wrong = flaw(case, known[seed % len(possible)], spoilt)
        if wrong is not None:
            flaws.append(f"{case.name} {spoilt!r}: {wrong}")
    assert not flaws, f"{len(flaws)} of {done}:\n" + "\n".join(flaws[:5])
    assert done > DAMAGES // 2
