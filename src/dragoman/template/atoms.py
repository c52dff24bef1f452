"""Common beginnings and ends of template texts, never cutting through a marker.

``<tool_calls><tool_call>`` and ``</tool_call><tool_call>`` share the characters ``><tool_call>`` at their end, but the
first ``>`` belongs to another tag in each. So texts are compared atom by atom: a bracketed tag, a word, or one other
character is an atom.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

_ATOM = re.compile(r"<[^<>\s]*>?|\[/?\w+\]|\w+|.", re.DOTALL)
_TAG = re.compile(r"<[^<>\s]{1,80}>|\[/?[A-Z][A-Z0-9_ ]{1,40}\]|\][~!<]\w*\[?\S{0,20}\[")
# How the end of a pair is made from its beginning; the first rule that applies wins.
_MIRRORS = (
    (re.compile(r"^<(\|?)(?![/|])"), r"<\1/"),
    (re.compile(r"^\[(?!/)"), "[/"),
)
_WORD_PAIRS = (("START", "END"), ("begin", "end"), ("BEGIN", "END"), ("start", "end"), ("open", "close"))


def atoms(text: str) -> list[str]:
    """The atoms of ``text``, in order; joined they are ``text``."""
    return _ATOM.findall(text)


def common_prefix(texts: Iterable[str]) -> str:
    """The longest beginning, in whole atoms, that all texts share."""
    lists = [atoms(text) for text in texts]
    if not lists:
        return ""
    count = 0
    for column in zip(*lists, strict=False):
        if any(atom != column[0] for atom in column):
            break
        count += 1
    return "".join(lists[0][:count])


def common_suffix(texts: Iterable[str]) -> str:
    """The longest end, in whole atoms, that all texts share."""
    lists = [atoms(text)[::-1] for text in texts]
    if not lists:
        return ""
    count = 0
    for column in zip(*lists, strict=False):
        if any(atom != column[0] for atom in column):
            break
        count += 1
    return "".join(reversed(lists[0][:count]))


def tags(text: str) -> list[str]:
    """The tag-like parts of ``text`` (``<x>``, ``<|x|>``, ``[X]``), in order."""
    return _TAG.findall(text)


def from_tags(text: str) -> list[str]:
    """``text`` from each of its tags on, the longest first."""
    return [text[found.start() :] for found in _TAG.finditer(text)]


def first_marker(text: str) -> str:
    """The first tag of ``text`` where it starts with one, else its first line without outer white space."""
    core = text.strip()
    found = tags(core)
    if found and core.startswith(found[0]):
        return found[0]
    return core.split("\n", 1)[0].rstrip()


def closers(opener: str) -> list[str]:
    """Texts that by their spelling alone may close ``opener``; guesses, to be confirmed elsewhere."""
    core = opener.strip()
    out = [rule.sub(to, core, count=1) for rule, to in _MIRRORS if rule.search(core)]
    out += [core.replace(a, b) for a, b in _WORD_PAIRS if a in core]
    if core.startswith("<|") and core.endswith(">") and not core.endswith("|>"):  # <|channel> ... <channel|>
        out.append("<" + core[2:-1] + "|>")
    return [text for text in out if text != core]


def openers(closer: str) -> list[str]:
    """Texts that by their spelling alone may open what ``closer`` closes; guesses, to be confirmed elsewhere."""
    core = closer.strip()
    out = [core.replace(a, b, 1) for a, b in (("</", "<"), ("<|/", "<|"), ("[/", "[")) if core.startswith(a)]
    out += [core.replace(b, a) for a, b in _WORD_PAIRS if b in core]
    return [text for text in out if text != core and core in closers(text)]
