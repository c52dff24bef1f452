"""What models write beside their template, as one table keyed by marker. Everything here is read, nothing is written.

An entry says: where this marker means calls (or reasoning), this is accepted too. As few as possible: a form that the
template shows needs no entry.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import replace

from dragoman.dialect.request import DialectRequest
from dragoman.template.profile import (
    JsonShape,
    Marker,
    Piece,
    ReasoningMode,
    ReasoningProfile,
    Slot,
    ToolFormat,
    ToolProfile,
)

# Reasoning of a template that shows none: models tuned to reason open their answer with it whatever the template says.
REASONING = ReasoningProfile(
    mode=ReasoningMode.TAGGED, open=Marker("", "<think>", "\n"), close=Marker("\n", "</think>", "\n\n")
)

# A text that ends in an opened tag.
_OPENED = re.compile(r"<([A-Za-z][\w:.-]*)>(\s*)\Z")


def opened_block(written: str) -> ReasoningProfile | None:
    """The block that a prompt leaves open by ending in a tag: whatever its name, the model first reasons inside it."""
    found = _OPENED.search(written)
    if found is None:
        return None
    name, after = found.groups()
    return replace(REASONING, open=Marker("", f"<{name}>", after), close=Marker(after, f"</{name}>", "\n\n"))


# Opener of reasoning -> what is left of it where models leave its label out.
_SHORT_OPENERS = (("<|channel>thought", "<|channel>"),)


def short_opener(text: str) -> str | None:
    """The opener without its label; None where no model leaves it out."""
    return next((short for known, short in _SHORT_OPENERS if text == known), None)


# Text around calls that have no tag of their own (opener, closer; the closer may be empty).
_AROUND_BARE_CALLS: tuple[tuple[str, str], ...] = (
    ("<|python_tag|>", ""),  # Llama's token for code
    ("<|python_start|>", "<|python_end|>"),
    ("functools[", "]"),  # asked for by system prompts that the history does not follow
)
# Of those where the template itself shows bare calls: tuned models keep what their base model writes around calls.
_AROUND_SHOWN = (("[TOOL_CALLS]", ""), ("<tool_call>", "</tool_call>"))
# Around a list of calls alone: what stands here is kept out of answers that are written, and answers hold such fences.
_AROUND_LISTS = (("```json", "```"),)


def around_bare_calls(tools: ToolProfile, request: DialectRequest) -> tuple[tuple[str, str], ...]:
    """What may stand around calls without a tag: forced ones come as a JSON array too."""
    found = [*_AROUND_BARE_CALLS]
    if tools != _FORCED:
        found += [*_AROUND_SHOWN, *(_AROUND_LISTS if tools.array else ())]
    return (*found, ("[", "]")) if request.choice in ("required", "named") else tuple(found)


# Closers of values that models wrap in CDATA where they hold markup or line breaks, as such templates tell them to.
_CDATA_CLOSERS = ("</param>",)
CDATA = ("<![CDATA[", "]]>")


def wraps_values(closer: str) -> bool:
    """True: a value in front of this closer may stand in CDATA."""
    return closer in _CDATA_CLOSERS


# Text that ends a turn -> further stops, which engines leave in the output where the template never writes them.
_STOPS = (("<|message_sep|>", ("</s>",)),)


def further_stops(stops: Iterable[str]) -> tuple[str, ...]:
    """The stops that come beside these."""
    known = tuple(stops)
    return tuple(stop for key, further in _STOPS if key in known for stop in further)


def _headed(*after_name: str | Slot) -> ToolProfile:
    between = tuple(piece if isinstance(piece, Slot) else Marker("", piece, "") for piece in after_name)
    call: tuple[Piece, ...] = (Marker("", "[TOOL_CALLS]", ""), Slot.NAME, *between, Slot.ARGS)
    return ToolProfile(format=ToolFormat.TAG_WITH_JSON, call=call, parallel=True)


def _array(opens: str, *, ids: bool = False) -> ToolProfile:
    return ToolProfile(
        format=ToolFormat.JSON_NATIVE,
        section_open=Marker("", opens + "[", ""),
        section_close=Marker("", "]", ""),
        separator=Marker("", ",", " "),
        call=(Slot.OBJECT,),
        object=JsonShape(id_path=("id",) if ids else None),
        parallel=True,
        array=True,
    )


def _object(opens: str) -> ToolProfile:
    call: tuple[Piece, ...] = (Marker("", opens, ""), Slot.OBJECT)
    return ToolProfile(format=ToolFormat.JSON_NATIVE, call=call, object=JsonShape(), parallel=True)


# Text that opens calls -> further forms of a call: releases of one model family share templates.
FORMS: tuple[tuple[str, tuple[ToolProfile, ...]], ...] = (
    (
        "[TOOL_CALLS]",
        (
            _headed("[CALL_ID]", Slot.ID, "[ARGS]"),
            _headed("[ARGS]"),
            _headed(),
            _array("[TOOL_CALLS]", ids=True),
        ),
    ),
    ("<|tool_call|>", (_array("<tool_call>"),)),  # plain text in later releases
    ("<|message_sep|>\n\nfunction call<|role_sep|>", (_object("<|function_call|>"),)),  # a token in later releases
)
# A JSON array, as servers make models write that are forced to call.
_FORCED = ToolProfile(
    format=ToolFormat.JSON_NATIVE, call=(Slot.OBJECT,), object=JsonShape(args_path=("parameters",)), parallel=True
)
# Marker of a history -> the same one as the template's own instructions ask for it.
_MISSPELT = (("<｜tool_call_begin>｜>", "<｜tool_call_begin｜>"),)
_SUFFIXED = re.compile(r"<(/?\w+)(:\w+)>")


def other_forms(tools: ToolProfile, request: DialectRequest) -> tuple[ToolProfile, ...]:
    """Further forms that are read beside ``tools``; none that it shows itself."""
    first = tools.call[0] if tools.call and isinstance(tools.call[0], Marker) else Marker()
    text = tools.section_open.text or first.text
    bare = text.replace(" ", "")
    found = [form for key, forms in FORMS if text.startswith(key) for form in forms if form.section_open.text != bare]
    found += filter(None, [_without_suffix(tools), _as_asked_for(tools)])
    if request.choice in ("required", "named") and text.strip("[{"):
        found.append(_FORCED)
    return tuple(form for form in found if (form.section_open.text, form.call) != (tools.section_open.text, tools.call))


def _as_asked_for(tools: ToolProfile) -> ToolProfile | None:
    """The form with each misspelt marker put right; None where there is none."""
    first = tools.call[0] if tools.call else None
    for written, meant in _MISSPELT:
        if isinstance(first, Marker) and first.text.startswith(written):
            opening = replace(first, text=meant + first.text.removeprefix(written))
            return replace(tools, call=(opening, *tools.call[1:]))
    return None


def _without_suffix(tools: ToolProfile) -> ToolProfile | None:
    """The form whose tags lack the suffix that all tags share (``<call:v2>``): it names a release, not a meaning."""
    around = (tools.section_open, tools.section_close)
    markers = [piece for piece in (*around, *tools.call, *tools.argument) if isinstance(piece, Marker)]
    written = "".join(piece.text for piece in markers)
    suffixes = {suffix for _, suffix in _SUFFIXED.findall(written)}
    if len(suffixes) != 1 or len(_SUFFIXED.findall(written)) != written.count("<"):
        return None

    def bare(piece: Piece) -> Piece:
        return replace(piece, text=_SUFFIXED.sub(r"<\1>", piece.text)) if isinstance(piece, Marker) else piece

    opened, closed = (replace(part, text=_SUFFIXED.sub(r"<\1>", part.text)) for part in around)
    return replace(
        tools,
        section_open=opened,
        section_close=closed,
        call=tuple(map(bare, tools.call)),
        argument=tuple(map(bare, tools.argument)),
    )
