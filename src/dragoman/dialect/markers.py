"""Nodes for text that a template writes, and for the words between such texts. Values never pass through here."""

from __future__ import annotations

import re
from collections.abc import Iterable
from collections.abc import Sequence as Several

from dragoman.grammar.nodes import (
    EMPTY,
    AnyChar,
    Class,
    Commit,
    Control,
    Literal,
    Negate,
    Node,
    Repeat,
    Sequence,
    alt,
    chars,
    complement,
    lit,
    seq,
)

SPACES = " \t\n\r"
SPACE = chars(SPACES)
GAP = Repeat(SPACE)
TEXT = Repeat(AnyChar(), lazy=True)
SOME_TEXT = Repeat(AnyChar(), min=1, lazy=True)
# The end of the output: no first byte of a character. To refuse a whole one would settle its first bytes as text before
# its last one refuses them.
END = Negate(alt(Class(((0, 0x7F),)), *(Literal(bytes([byte])) for byte in range(0xC2, 0xF5))))
_BEFORE_TAG = re.compile(r"(?<=\w)(?=<[^<>\s]+>\Z)")


def marker(text: str, controls: frozenset[str]) -> Node:
    """Exactly ``text``; each control token inside it (the longest where several begin) as that token."""
    known = sorted((name for name in controls if name and name in text), key=len, reverse=True)
    if not known:
        return lit(text)
    pieces: list[Node] = []
    at = 0
    for found in re.finditer("|".join(map(re.escape, known)), text):
        pieces += [lit(text[at : found.start()]), Control(found.group())]
        at = found.end()
    return seq(*pieces, lit(text[at:]))


def words(text: str) -> tuple[str, ...]:
    """``text`` cut at line breaks and behind tags: models vary the layout there."""
    return tuple(part for line in re.split(r"[ \t\r]*\n\s*", text.strip()) for part in _behind_tags(line) if part)


def _behind_tags(line: str) -> list[str]:
    """``line`` cut behind each complete tag ``<...>``."""
    return [part.strip() for part in re.split(r"(.*?<[^<>\[\]\s]*>)", line)]


def loose(text: str, controls: frozenset[str], *, settles: bool = False) -> Node:
    """``text`` with any white space where it breaks a line, and around a word between two of its tags. settles: each of
    its words is a commit."""
    first, *others = words(text) or ("",)
    inner = [part for word in others for part in _BEFORE_TAG.split(word)]
    behind = Commit("body") if settles else EMPTY
    return spaced([seq(marker(word, controls), behind) for word in (first, *inner)])


def spaced(items: Several[Node]) -> Node:
    """The items with any white space between two."""
    out: list[Node] = []
    for item in items:
        out += [GAP, item] if out else [item]
    return seq(*out)


def opening_words(text: str) -> tuple[tuple[str, ...], ...]:
    """The ways an opener may begin: all of its words, or the inner ones where each is a bracketed tag of its own.

    ``<tool_call>\\n<function=`` is also recognised by ``<function=``: models drop the outer tag.
    """
    all_words = words(text)
    ways = [all_words]
    first = all_words[0][:1] if all_words else ""
    for at in range(1, len(all_words)):
        if first.isalnum() or not all(word.startswith(first) and len(word) > 2 for word in all_words[: at + 1]):
            break
        ways.append(all_words[at:])
    return tuple(way for way in ways if way)


def opener(text: str, controls: frozenset[str]) -> Node:
    """An opener as models write it: see :func:`opening_words`."""
    return alt(*(spaced([marker(word, controls) for word in way]) for way in opening_words(text)))


def closer(all_words: Several[str], controls: frozenset[str]) -> Node:
    """A closer of one or more words behind any white space; each word confirms it, any but the last may be missing."""
    tail: Node | None = None
    for word in reversed(all_words):
        here = seq(GAP, marker(word, controls), Commit("body"))
        tail = here if tail is None else alt(seq(here, alt(tail, EMPTY)), tail)
    return EMPTY if tail is None else tail


def layout_after(written: str) -> Node:
    """White space that the template writes behind a marker: as much of it as is there."""
    node: Node = EMPTY
    for char in reversed(written):
        node = alt(seq(lit(char), node), EMPTY)
    return node


def layout_before(written: str) -> Node:
    """White space that the template writes in front of a marker: as much of its end as is there."""
    return alt(*(lit(written[at:]) for at in range(len(written) + 1)))


def run_of(excluded: str) -> Node:
    """One or more characters, none of them in ``excluded``."""
    return Repeat(complement(chars(excluded).ranges), min=1)


def other_than(
    known: Iterable[str], excluded: str, following: Iterable[str] = (), controls: frozenset[str] = frozenset()
) -> Node:
    """One or more characters outside ``excluded`` that are not just one of the ``known`` words.

    following: texts that may stand behind a word; one of ``excluded`` begins each, unless it is a control token.
    """
    taken = tuple(lit(word) for word in dict.fromkeys(known) if word and not set(word) & set(excluded))
    if not taken:
        return run_of(excluded)
    ends = [first for text in following if isinstance(first := _first(marker(text, controls)), Control)]
    return seq(Negate(seq(alt(*taken), alt(chars(excluded), *ends))), run_of(excluded))


def _first(node: Node) -> Node:
    return node.items[0] if isinstance(node, Sequence) else node


def overlaps_itself(text: str) -> str:
    """The shortest text that, in front of ``text``, makes it begin earlier; empty where none does (tags never do)."""
    for size in range(1, len(text)):
        if text.startswith(text[size:]):
            return text[:size]
    return ""
