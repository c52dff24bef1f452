"""What a writer meant: texts of its language taken apart by its own rules, and the requests that the laws try."""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from dragoman.dialect.facts import thinking_tags
from dragoman.errors import DragomanError
from dragoman.events import Closed, Opened, Text
from dragoman.format import ChatFormat
from dragoman.grammar.compile import compile_reader, compile_writer
from dragoman.grammar.nodes import Grammar, Tag
from dragoman.grammar.program import Program
from dragoman.grammar.run import Run
from dragoman.template.profile import Marker, Profile
from dragoman.turn import Turn
from tests.formats import SEED
from tests.toolsets import ANSWER_FORMAT, SETS, keys, names
from tests.walks import Walker

MESSAGES = [{"role": "user", "content": "Hello"}]
_PARTS = {"write.reasoning": "reasoning", "write.answer": "content", "write.call": "call"}


@dataclass(frozen=True)
class Meant:
    """A written text by the writer's own rules. spans: (part, first byte, byte behind), the prompt's part left out."""

    content: str
    reasoning: str
    calls: tuple[str, ...]
    spans: tuple[tuple[str, int, int], ...]


@dataclass
class Case:
    """One request to one format, and what may be written in it."""

    name: str
    fmt: ChatFormat
    arguments: Mapping[str, Any]
    turn: Turn = field(init=False)
    writer: Program = field(init=False)
    _labelled: Program = field(init=False)

    def __post_init__(self) -> None:
        self.turn = self.fmt.turn(MESSAGES, **self.arguments)
        grammar = self.turn.format.writer(self.turn.request)
        self.writer = compile_writer(grammar)
        rules = {name: Tag(_PARTS[name], node) if name in _PARTS else node for name, node in grammar.rules.items()}
        self._labelled = compile_reader(Grammar(rules, grammar.start))

    @property
    def tools(self) -> list[dict[str, Any]]:
        return list(self.arguments.get("tools") or [])

    @property
    def prefix(self) -> str:
        """What the prompt wrote of the turn."""
        return self.turn.request.prefix

    def new_turn(self, *, strict: bool = False) -> Turn:
        """A fresh turn of the same request; its prompt is not rendered again."""
        first = self.turn
        return Turn(
            first.format,
            first.request,
            first.prompt,
            tools=self.tools,
            generation_prompt=first.generation_prompt,
            echo=False,
            strict=strict,
            id_seed=1,
        )

    def walker(self) -> Walker:
        return Walker(self.writer, self.prefix.encode(), fragments(self.fmt.profile, self.tools))

    def meant(self, text: bytes) -> Meant:
        """``text`` taken apart; it must be of the writer's language."""
        prefix = self.prefix.encode()
        run = Run(self._labelled)
        whole = prefix + text
        complete = run.feed(whole) == len(whole) and run.finish()
        assert complete, f"not of the writer's language: {text!r}"
        parts: dict[str, list[bytes]] = {"content": [], "reasoning": [], "call": []}
        spans: list[tuple[str, int, int]] = []
        for event in run.take():
            if isinstance(event, Opened):
                parts[event.tag].append(b"")
                spans.append((event.tag, event.position, event.position))
            elif isinstance(event, Text):
                parts[spans[-1][0]][-1] += event.data
            elif isinstance(event, Closed):
                spans[-1] = (event.tag, spans[-1][1], event.position)
        _, close = thinking_tags(self.fmt.profile, self.turn.request) or ("", "")
        reasoning = b"".join(parts["reasoning"]).decode().rstrip().removesuffix(close.strip())
        return Meant(
            b"".join(parts["content"]).decode(),
            reasoning,
            tuple(call.decode() for call in parts["call"]),
            tuple((part, start - len(prefix), end - len(prefix)) for part, start, end in spans),
        )


def requests() -> Iterator[tuple[str, dict[str, Any]]]:
    """Every kind of request: tool sets, choices, answers in a form."""
    for name, tools in SETS.items():
        yield f"{name}-required", {"tools": tools, "tool_choice": "required"}
        yield f"{name}-auto", {"tools": tools}
    tools = SETS["strings"]
    named = {"type": "function", "function": {"name": "get_weather"}}
    yield "named", {"tools": tools, "tool_choice": named}
    yield "one-call", {"tools": tools, "parallel_tool_calls": False}
    yield "none", {"tools": tools, "tool_choice": "none"}
    yield "answer", {"response_format": ANSWER_FORMAT}
    yield "answer-or-calls", {"response_format": ANSWER_FORMAT, "tools": tools}
    yield "no-thinking", {"tools": tools, "enable_thinking": False}
    yield "plain", {}


def cases(name: str, fmt: ChatFormat, count: int) -> tuple[list[Case], list[str]]:
    """``count`` requests (others for each name) as far as the format can carry them, and why it refuses the others."""
    found: list[Case] = []
    refused: list[str] = []
    for kind, arguments in random.Random(f"{name} {SEED}").sample(list(requests()), count):
        try:
            found.append(Case(f"{name}-{kind}", fmt, arguments))
        except DragomanError as error:
            refused.append(f"{kind}: {error}")
    return found, refused


def marker_texts(profile: Profile) -> list[str]:
    """Every text that the profile's markers write, as written, and runs of them as they stand together."""
    tools, reasoning, content = profile.tools, profile.reasoning, profile.content
    found = [reasoning.open.written, reasoning.close.written, reasoning.empty_block]
    found += [content.open.written, content.close.written, *profile.end_of_turn]
    if tools is not None:
        first = next((piece.written for piece in tools.call[:1] if isinstance(piece, Marker)), "")
        found += [tools.section_open.written + first, tools.separator.written + first]
        around = (tools.section_open, tools.section_close, tools.separator, tools.argument_separator)
        pieces = (*around, *tools.call, *tools.argument)
        found += [piece.written for piece in pieces if isinstance(piece, Marker)]
    return list(dict.fromkeys(text for text in found if text.strip()))


def fragments(profile: Profile, tools: list[dict[str, Any]]) -> list[str]:
    """What leads a walk to the edges of a format: markers, halves of them, other types' looks, escapes, names."""
    markers = marker_texts(profile)
    pick = random.Random("fragments")
    halves = [text.strip()[: pick.randint(1, max(1, len(text.strip()) - 1))] for text in markers]
    looks = ["null", "None", "true", "42", "-1.5e3", "NaN", "{", "}", "[", "]", "{}", '{"a": 1}', "\n", "\n\n", " "]
    escapes = ['"', '\\"', "\\", "\\u00e9", "\\ud83d\\ude00", "\\\\", "é", "漢字", "😀", "'", "`", "```json\n", "```"]
    known = ["<think>", "</think>", "<tool_call>", "[TOOL_CALLS]", "<|im_end|>", "</"]
    declared = [*names(tools), *keys(tools), *(f'{{"name": "{name}"' for name in names(tools)), '{"name": "', "name"]
    # Markers thrice: they are what tells a format's parts apart.
    return [*markers, *markers, *(text.strip() for text in markers), *halves, *looks, *escapes, *known, *declared]
