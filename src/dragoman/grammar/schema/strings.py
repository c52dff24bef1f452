"""Texts that are listed and texts that are none of a list, as prefix trees over characters; automata as rules."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace
from functools import lru_cache, partial
from typing import TypeAlias

from dragoman.grammar.json import JsonStyle, Ranges, free_of, json_char, json_text, subtract
from dragoman.grammar.nodes import EMPTY, NOTHING, Choice, Literal, Node, Ref, Repeat, alt, lit, seq
from dragoman.grammar.regex.automata import Dfa, Edges

# Makes a rule of what a function returns, when the rule is asked for.
Later: TypeAlias = Callable[[Callable[[], Node]], Node]
# Below this many texts a flat choice is smaller and easier to read than a tree.
FLAT = 24


def one_of(texts: Iterable[str], new_rule: Callable[[Node], Node]) -> Node:
    """Exactly one of the texts. Many texts share their beginnings, so that few alternatives live at a time."""
    unique = list(dict.fromkeys(texts))
    if len(unique) <= FLAT:
        return lit(unique[0]) if len(unique) == 1 else Choice(tuple(map(lit, unique)))
    return one_of_then([(text, EMPTY) for text in unique], new_rule)


def one_of_then(pairs: Iterable[tuple[str, Node]], new_rule: Callable[[Node], Node]) -> Node:
    """One of the texts and then what belongs to it. Texts are unique; those in JSON quotes never begin another."""
    behind = dict(pairs)
    unique = list(behind)
    # Built from the longest beginnings up, each branching in a rule of its own: no deep nesting, whatever the texts.
    unique.sort()

    def leaf(text: str, at: int) -> Node:
        rest = Literal(text[at:].encode())
        return rest if behind[text] is EMPTY else seq(rest, behind[text])

    if len(unique) == 1:
        return leaf(unique[0], 0)
    built: dict[tuple[int, int, int], Node] = {}
    groups: dict[tuple[int, int, int], list[tuple[int, int, int]]] = {}
    work = [(0, len(unique), 0)]
    while work:
        span = work[-1]
        start, end, at = span
        if span not in groups:
            shared = _shared(unique[start], unique[end - 1], at)
            groups[span] = list(_groups(unique, start, end, shared))
            missing = [group for group in groups[span] if group[1] - group[0] > 1]
            if missing:
                work.extend(missing)
                continue
        work.pop()
        inside = groups.pop(span)
        shared = inside[0][2]
        head = Literal(unique[start][at:shared].encode())
        items = [built.pop(g) if g in built else leaf(unique[g[0]], shared) for g in inside]
        ends = [behind[unique[start]]] if len(unique[start]) == shared else []
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


def none_of(
    names: Iterable[str], style: JsonStyle, new_rule: Callable[[Node], Node], later: Later | None = None
) -> Node:
    """A JSON string, in canonical spelling, whose text is none of ``names``.

    The tree goes along the names; where a text leaves it, anything may follow, and only off the names it may end.
    ``later``: puts off what is behind the first letters, and then behind so many more, until it is asked for.
    """
    style = replace(style, escapes="canonical")
    tree = _Tree(style, new_rule, later)
    for name in dict.fromkeys(names):
        tree.add(name)
    node = tree.made(0)
    return seq(_QUOTE, free_of(node if later else new_rule(node), style))


class _Tree:
    """The letters of some names, one state for each beginning."""

    def __init__(self, style: JsonStyle, new_rule: Callable[[Node], Node], later: Later | None) -> None:
        self._style, self._new_rule, self._later = style, new_rule, later
        self._banned = {text.decode("utf-8", "replace") for text in style.banned}
        self._rest = new_rule(seq(Repeat(json_char(style), 0, style.string_max), _QUOTE))
        self._wide = new_rule(_beyond_ascii(style))
        self._children: list[dict[str, int]] = [{}]  # state -> character -> state
        self._depth = [0]
        self._ends: set[int] = set()
        self._off: dict[tuple[str, ...], Node] = {}  # by the letters that stay on the tree: another one, and the rest

    def add(self, name: str) -> None:
        state = 0
        children = self._children
        for letter in name:
            following = children[state].get(letter)
            if following is None:
                following = children[state][letter] = len(children)
                children.append({})
                self._depth.append(self._depth[state] + 1)
            state = following
        self._ends.add(state)

    def made(self, first: int) -> Node:
        """What may follow where a text has come to the state ``first``."""
        nodes: dict[int, Node] = {}
        states = [first]
        for state in states:
            for child in self._children[state].values():
                if self._later is not None and self._depth[child] % _NESTED == _SOON:
                    nodes[child] = self._later(partial(self.made, child))
                else:
                    states.append(child)
        for state in reversed(states):  # states stand behind their parents
            letters = tuple(self._children[state])
            options = [
                seq(_spelled(letter), nodes.pop(child))
                for letter, child in self._children[state].items()
                if letter not in self._banned
            ]
            options.append(self._leaving(letters))
            if state not in self._ends:
                options.append(_QUOTE)
            node: Node = options[0] if len(options) == 1 else Choice(tuple(options))
            # A rule for so many letters: less would cost more, and deeper trees are none to be nested.
            apart = state != first and (self._depth[state] % _NESTED == 0 or not letters)
            nodes[state] = self._new_rule(node) if apart else node
        return nodes[first]

    def _leaving(self, letters: tuple[str, ...]) -> Node:
        found = self._off.get(letters)
        if found is None:
            found = self._off[letters] = seq(_other(self._style, letters, self._wide), self._rest)
        return found


_QUOTE = lit('"')
# So many letters of a name are written into one rule.
_NESTED = 8
# Where rules may wait, so many letters do not: the first one is asked for as soon as a key may begin.
_SOON = 2


@lru_cache(maxsize=512)
def _spelled(letter: str) -> Literal:
    return lit(json_text(letter)[1:-1])


@lru_cache(maxsize=64)
def _beyond_ascii(style: JsonStyle) -> Node:
    return json_char(style, without=[chr(c) for c in range(0x20, 0x7F) if chr(c) not in '"\\'])


@lru_cache(maxsize=4096)
def _other(style: JsonStyle, letters: tuple[str, ...], wide: Node) -> Node:
    """A character that is none of the letters; what is not printable ASCII is written once, as ``wide``."""
    if any(not " " <= letter <= "~" or letter in '"\\' for letter in letters):
        return json_char(style, without=letters)
    banned = [text.decode("utf-8", "replace") for text in style.banned]
    plain = subtract(((0x20, 0x21), (0x23, 0x5B), (0x5D, 0x7E)), [*letters, *(b for b in banned if len(b) == 1)])
    return alt(plain, wide)


def automaton(
    edges: tuple[Edges, ...],
    close: Callable[[int], Node],
    char: Callable[[Ranges], Node],
    rules: dict[str, Node],
    name: str,
) -> Node:
    """The body of a JSON string as rules ``name`` and a number, one for each state; ``close`` ends it where it may."""
    for state, row in enumerate(edges):
        behind: dict[int, list[tuple[int, int]]] = {}
        for low, high, target in row:
            behind.setdefault(target, []).append((low, high))
        options = [seq(char(tuple(ranges)), Ref(f"{name}.{target}")) for target, ranges in behind.items()]
        end = close(state)
        if end != NOTHING:
            options.append(end)
        rules[f"{name}.{state}"] = alt(*options) if options else NOTHING
    return Ref(f"{name}.0")


def as_repeat(dfa: Dfa) -> tuple[tuple[tuple[int, int], ...], int, int | None] | None:
    """Where all texts are repeats of one class, of every length from a least to a most: that class and the lengths."""
    ranges: tuple[tuple[int, int], ...] | None = None
    for row in dfa.edges:
        here = tuple((low, high) for low, high, _ in row)
        if not row:
            continue
        if len({target for _, _, target in row}) > 1 or here != (ranges or here):
            return None
        ranges = here
    least, most = dfa.lengths()
    states = len(dfa.edges)
    if ranges is None:
        return None
    # One way through: state n is behind n characters; the last may lead to itself. It may end from ``least`` on.
    loops = any(target == state for state, row in enumerate(dfa.edges) for _, _, target in row)
    if len(dfa.accepting) != states - least or (most is None) != loops:
        return None
    order, at = [0], 0
    while dfa.edges[at] and dfa.edges[at][0][2] not in order:
        at = dfa.edges[at][0][2]
        order.append(at)
    if not all(state in dfa.accepting for state in order[least:]):
        return None
    return ranges, least, most
