"""Strings that are listed, and strings that are none of a list: prefix trees over characters."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace

from ..json import JsonStyle, free_of, json_char, json_text
from ..nodes import EMPTY, Choice, Literal, Node, Repeat, alt, lit, seq

# Below this many texts a flat choice is smaller and easier to read than a tree.
FLAT = 24


def one_of(texts: Iterable[str], new_rule: Callable[[Node], Node]) -> Node:
    """Exactly one of the texts. Many texts share their beginnings, so that few alternatives live at a time."""
    unique = list(dict.fromkeys(texts))
    if len(unique) <= FLAT:
        return alt(*map(lit, unique)) if unique else Choice(())
    # Built from the longest beginnings up, each branching in a rule of its own: no deep nesting, whatever the texts.
    unique.sort()
    built: dict[tuple[int, int, int], Node] = {}
    work = [(0, len(unique), 0)]
    while work:
        span = work[-1]
        start, end, at = span
        shared = _shared(unique[start], unique[end - 1], at)
        groups = list(_groups(unique, start, end, shared))
        missing = [group for group in groups if group not in built and group[1] - group[0] > 1]
        if missing and end - start > 1:
            work.extend(missing)
            continue
        work.pop()
        head = Literal(unique[start][at:shared].encode())
        if end - start == 1:
            built[span] = Literal(unique[start][at:].encode())
            continue
        items = [built[g] if g in built else Literal(unique[g[0]][shared:].encode()) for g in groups]
        ends = [EMPTY] if len(unique[start]) == shared else []
        built[span] = new_rule(seq(head, Choice((*items, *ends))))
    return built[0, len(unique), 0]


def _shared(first: str, last: str, at: int) -> int:
    """The length of the common beginning; of a sorted list its first and last member suffice."""
    while at < len(first) and at < len(last) and first[at] == last[at]:
        at += 1
    return at


def _groups(texts: list[str], start: int, end: int, at: int) -> Iterable[tuple[int, int, int]]:
    """Spans of ``texts[start:end]`` with the same character at ``at``; a text that ends there is left out."""
    if len(texts[start]) == at:
        start += 1
    while start < end:
        stop = start + 1
        while stop < end and texts[stop][at] == texts[start][at]:
            stop += 1
        yield start, stop, at
        start = stop


def none_of(names: Iterable[str], style: JsonStyle, new_rule: Callable[[Node], Node]) -> Node:
    """A JSON string, in canonical spelling, whose text is none of ``names``.

    The tree goes along the names; where a text leaves it, anything may follow, and only off the names it may end.
    """
    style = replace(style, escapes="canonical")
    banned = {text.decode("utf-8", "replace") for text in style.banned}
    char = json_char(style)
    rest = new_rule(seq(Repeat(char, 0, style.string_max), lit('"')))
    children: list[dict[str, int]] = [{}]  # state -> character -> state
    ends: set[int] = set()
    for name in dict.fromkeys(names):
        state = 0
        for letter in name:
            if letter not in children[state]:
                children[state][letter] = len(children)
                children.append({})
            state = children[state][letter]
        ends.add(state)
    nodes: dict[int, Node] = {}
    for state in range(len(children) - 1, -1, -1):  # states are numbered after their parents
        letters = [letter for letter in children[state] if letter not in banned]
        options: list[Node] = [seq(lit(json_text(c)[1:-1]), nodes.pop(children[state][c])) for c in letters]
        options.append(seq(json_char(style, without=children[state]), rest))
        if state not in ends:
            options.append(lit('"'))
        nodes[state] = new_rule(alt(*options))
    return seq(lit('"'), free_of(nodes[0], style))
