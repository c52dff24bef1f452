"""Profiles written by hand, one for each way of calling, with markers of our own; and how a turn is read with them."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import count

from dragoman.chat import Message
from dragoman.dialect.build import build
from dragoman.dialect.facts import ids_after_name
from dragoman.dialect.request import DialectRequest, Tool
from dragoman.grammar.compile import compile_reader, compile_writer
from dragoman.grammar.lower import lower
from dragoman.grammar.program import Program
from dragoman.grammar.run import Run
from dragoman.stream.message import MessageBuilder
from dragoman.stream.reader import Reader
from dragoman.template.profile import (
    ContentProfile,
    JsonShape,
    Marker,
    Profile,
    ReasoningMode,
    ReasoningProfile,
    Slot,
    ToolFormat,
    ToolProfile,
    ValueStyle,
)

THINK = ReasoningProfile(
    mode=ReasoningMode.TAGGED,
    open=Marker("", "<muse>", "\n"),
    close=Marker("\n", "</muse>", "\n\n"),
    empty_block="<muse>\n\n</muse>\n\n",
)
STOPS = ("<|fin|>", "<|eot|>")
_RAW = (("string", ValueStyle.RAW), ("object", ValueStyle.JSON), ("array", ValueStyle.JSON))


def profile(
    tools: ToolProfile | None, *, reasoning: ReasoningProfile = THINK, content: ContentProfile | None = None
) -> Profile:
    return Profile(reasoning=reasoning, content=content or ContentProfile(), tools=tools, end_of_turn=STOPS)


# One JSON object for each call, between two tags.
NATIVE = ToolProfile(
    format=ToolFormat.JSON_NATIVE,
    call=(Marker("\n", "<zq7>", "\n"), Slot.OBJECT, Marker("\n", "</zq7>", "")),
    object=JsonShape(),
    separator=Marker("", "", ""),
    parallel=True,
)
# All calls in one array, the id behind the arguments.
ARRAY = ToolProfile(
    format=ToolFormat.JSON_NATIVE,
    section_open=Marker("", "[CALLS][", ""),
    section_close=Marker("", "]", ""),
    separator=Marker("", ",", " "),
    call=(Slot.OBJECT,),
    object=JsonShape(id_path=("id",), order=(("name",), ("arguments",), ("id",))),
    parallel=True,
    array=True,
    id_length=9,
)
# The OpenAI shape: the function in an object of its own, between section tags.
NESTED = ToolProfile(
    format=ToolFormat.JSON_NATIVE,
    section_open=Marker("", "<calls>", "["),
    section_close=Marker("", "]</calls>", ""),
    separator=Marker("", ",", " "),
    call=(Slot.OBJECT,),
    object=JsonShape(
        name_path=("function", "name"),
        args_path=("function", "arguments"),
        id_path=("id",),
        order=(("id",), ("type",), ("function", "name"), ("function", "arguments")),
        constants=((("type",), '"function"'),),
    ),
    parallel=True,
    array=True,
)
# {"get_weather": {...}}
NAME_AS_KEY = ToolProfile(
    format=ToolFormat.JSON_NATIVE,
    section_open=Marker("", "<|tools|>[", ""),
    section_close=Marker("", "]<|/tools|>", ""),
    separator=Marker("", ",", " "),
    call=(Slot.OBJECT,),
    object=JsonShape(name_is_key=True),
    parallel=True,
    array=True,
)
# The object alone: nothing but its own text tells that it is a call.
BARE = ToolProfile(
    format=ToolFormat.JSON_NATIVE,
    call=(Slot.OBJECT,),
    object=JsonShape(args_path=("parameters",), order=(("name",), ("parameters",))),
)
# [CALL]name[ID]id[ARGS]{...}
HEADED = ToolProfile(
    format=ToolFormat.TAG_WITH_JSON,
    call=(Marker("", "[CALL]", ""), Slot.NAME, Marker("", "[ID]", ""), Slot.ID, Marker("", "[ARGS]", ""), Slot.ARGS),
    parallel=True,
    id_length=9,
)
# A section, a fence around the arguments, the name on a line of its own.
FENCED = ToolProfile(
    format=ToolFormat.TAG_WITH_JSON,
    section_open=Marker("", "<|calls|>", ""),
    section_close=Marker("", "<|/calls|>", ""),
    separator=Marker("\n", "", ""),
    call=(
        Marker("", "<|call|>function<|sep|>", ""),
        Slot.NAME,
        Marker("\n", "```json", "\n"),
        Slot.ARGS,
        Marker("\n", "```<|/call|>", ""),
    ),
    parallel=True,
)
# <tool>\n<fn=name>\n<par=key>\nvalue\n</par>\n</fn>\n</tool>
TAGGED = ToolProfile(
    format=ToolFormat.TAG_WITH_TAGGED,
    call=(
        Marker("\n", "<tool>\n<fn=", ""),
        Slot.NAME,
        Marker("", ">", "\n"),
        Slot.ARGS,
        Marker("", "</fn>\n</tool>", ""),
    ),
    argument=(Marker("", "<par=", ""), Slot.KEY, Marker("", ">", "\n"), Slot.VALUE, Marker("\n", "</par>", "\n")),
    value_styles=_RAW,
    separator=Marker("", "", ""),
    parallel=True,
)
# <invoke> inside a section, values on the tag's line, types in the tag.
INVOKE = ToolProfile(
    format=ToolFormat.TAG_WITH_TAGGED,
    section_open=Marker("\n\n", "<x:calls>", "\n"),
    section_close=Marker("\n", "</x:calls>", ""),
    separator=Marker("\n", "", ""),
    call=(Marker("", '<invoke name="', ""), Slot.NAME, Marker("", '">', "\n"), Slot.ARGS, Marker("", "</invoke>", "")),
    argument=(
        Marker("", '<parameter name="', ""),
        Slot.KEY,
        Marker("", '" string="', ""),
        Slot.TYPE,
        Marker("", '">', ""),
        Slot.VALUE,
        Marker("", "</parameter>", "\n"),
    ),
    value_styles=_RAW,
    type_words=(
        ("string", "true"),
        *((kind, "false") for kind in ("number", "integer", "boolean", "null", "object", "array")),
    ),
    parallel=True,
)
# The name ends at a line break, keys and values in tags of their own.
PAIRS = ToolProfile(
    format=ToolFormat.TAG_WITH_TAGGED,
    call=(Marker("\n", "<call>", ""), Slot.NAME, Marker("\n", "", ""), Slot.ARGS, Marker("", "</call>", "")),
    argument=(
        Marker("", "<key>", ""),
        Slot.KEY,
        Marker("", "</key>\n<val>", ""),
        Slot.VALUE,
        Marker("", "</val>", "\n"),
    ),
    value_styles=_RAW,
    parallel=True,
)
FORMATS = {
    "native": NATIVE,
    "array": ARRAY,
    "nested": NESTED,
    "name_as_key": NAME_AS_KEY,
    "bare": BARE,
    "headed": HEADED,
    "fenced": FENCED,
    "tagged": TAGGED,
    "invoke": INVOKE,
    "pairs": PAIRS,
}

WEATHER = Tool(
    "get_weather",
    {
        "type": "object",
        "properties": {
            "city": {"type": "string"},
            "days": {"type": "integer", "minimum": 0, "maximum": 20},
            "unit": {"enum": ["celsius", "fahrenheit"]},
            "tags": {"type": "array", "items": {"type": "string"}, "maxItems": 3},
        },
        "required": ["city"],
    },
)
PING = Tool("ping-pong.v2", {"type": "object", "properties": {}})
TOOLS = (WEATHER, PING)


def openai_tools(tools: Sequence[Tool]) -> list[dict[str, object]]:
    return [{"type": "function", "function": {"name": t.name, "parameters": t.parameters}} for t in tools]


def reader_program(given: Profile, request: DialectRequest) -> Program:
    return compile_reader(lower(build(given, request, write=False), "reader"))


def writer_program(given: Profile, request: DialectRequest, controls: dict[str, int] | None = None) -> Program:
    grammar = build(given, request, controls=frozenset(controls or ()))
    return compile_writer(lower(grammar, "writer", options=request.schema_options), controls=controls)


class Reading:
    """One turn that is being read."""

    def __init__(
        self, program: Program, request: DialectRequest, *, strict: bool = False, late_ids: bool = False
    ) -> None:
        numbers = count()
        self.reader = Reader(program, strict=strict, prefix=[request.prefix.encode()] if request.prefix else ())
        self.builder = MessageBuilder(
            openai_tools(request.tools),
            id_source=lambda: f"id{next(numbers):07d}",
            ids_after_arguments=late_ids,
            constants=("type",),  # of the nested format
        )
        for event in self.reader.opening():
            self.builder.push(event)

    def feed(self, data: bytes) -> Reading:
        for event in self.reader.feed(data):
            self.builder.push(event)
        return self

    def finish(self, reason: str = "stop") -> Message:
        for event in self.reader.finish(reason):
            self.builder.push(event)
        self.builder.finish(reason)  # type: ignore[arg-type]
        return self.builder.message


def read(
    given: Profile, request: DialectRequest, text: str, *, reason: str = "stop", program: Program | None = None
) -> Message:
    reading = Reading(program or reader_program(given, request), request, late_ids=ids_after_name(given))
    return reading.feed(text.encode()).finish(reason)


def can_write(program: Program, text: str) -> bool:
    run = Run(program)
    data = text.encode()
    return run.feed(data) == len(data) and run.machine.accept(run.state) is not None
