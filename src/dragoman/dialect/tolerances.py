"""What models write beside their template, as one table keyed by marker. Everything here is read, nothing is written.

An entry says: where this marker means calls (or reasoning), this is accepted too. As few as possible: a form that the
template shows needs no entry.
"""

from __future__ import annotations

import re
from dataclasses import replace

from dragoman.template.profile import Marker, Piece, ReasoningMode, ReasoningProfile, Slot, ToolFormat, ToolProfile

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


# Tags around calls that have no tag of their own (opener, closer; the closer may be empty).
AROUND_BARE_CALLS: tuple[tuple[str, str], ...] = (("<|python_tag|>", ""), ("<|python_start|>", "<|python_end|>"))


def _headed(*after_name: str) -> ToolProfile:
    between = tuple(Marker("", text, "") for text in after_name)
    call: tuple[Piece, ...] = (Marker("", "[TOOL_CALLS]", ""), Slot.NAME, *between, Slot.ARGS)
    return ToolProfile(format=ToolFormat.TAG_WITH_JSON, call=call, parallel=True)


# Text that opens calls -> further forms of a call behind it: releases of one model family share templates.
FORMS: tuple[tuple[str, tuple[ToolProfile, ...]], ...] = (("[TOOL_CALLS]", (_headed("[ARGS]"), _headed())),)


def other_forms(tools: ToolProfile) -> tuple[ToolProfile, ...]:
    """Further forms that are read beside ``tools``; none that it shows itself."""
    first = tools.call[0] if tools.call and isinstance(tools.call[0], Marker) else Marker()
    text = tools.section_open.text or first.text
    for key, forms in FORMS:
        if text.startswith(key):
            return tuple(form for form in forms if form.call != tools.call)
    return ()
