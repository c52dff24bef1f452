"""Reads GBNF, the grammar notation of llama.cpp, into nodes.

    root  ::= greeting (" " name)* [.!]?     # a rule ends with its line, except inside ( ) and behind | and ::=
    name  ::= [A-Z] [a-z]{1,19} | "\\u00c9" .

Rules of this file: one pass, no recursion; every error says line and column; what this notation allows and the grammar
machine does not (a repeat over something that may be empty) is rewritten to the same language.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from itertools import count

from dragoman.errors import GrammarError
from dragoman.grammar.analysis import nullable, nullable_rules
from dragoman.grammar.nodes import (
    EMPTY,
    AnyChar,
    Choice,
    Class,
    Control,
    Grammar,
    Literal,
    Node,
    Ref,
    Repeat,
    Sequence,
    alt,
    complement,
    opt,
    seq,
)
from dragoman.grammar.regex.classes import merged

_NAME = re.compile(r"[A-Za-z0-9_-]+")
_SPACE = re.compile(r"(?:[ \t]|#[^\r\n]*)*")
_SPACE_AND_LINES = re.compile(r"(?:[ \t\r\n]|#[^\r\n]*)*")
_COUNTS = re.compile(r"\{[ \t]*(\d*)[ \t]*(,?)[ \t]*(\d*)[ \t]*\}")
_CONTROL = re.compile(r"<[^\s<>\[\]][^\s<>]*>")
_HEX = {"x": 2, "u": 4, "U": 8}
_ESCAPES = {"t": "\t", "r": "\r", "n": "\n", "\\": "\\", '"': '"', "[": "[", "]": "]"}
# A count with more digits than this is a slip of the finger.
_COUNT_MAX = 10**9
# Nodes are visited by recursion; rules may refer to each other as deep as they like.
_DEPTH_MAX = 60
_SIGNS_MAX = 4


def read_gbnf(text: str) -> dict[str, Node]:
    """The rules of a grammar by name; ``root`` is among them.

    Raises: GrammarError, with line and column, for anything that is not a complete grammar.
    """
    rules = _Reader(text).read()
    return _without_empty_rounds(rules)


@dataclass(slots=True)
class _Group:
    """An open parenthesis, or the body of a rule: alternatives so far, and the items of the current one."""

    start: int
    alternatives: list[Node] = field(default_factory=list)
    items: list[Node] = field(default_factory=list)

    def end_alternative(self) -> None:
        self.alternatives.append(seq(*self.items))
        self.items = []

    def node(self) -> Node:
        self.end_alternative()
        return alt(*self.alternatives)


class _Reader:
    def __init__(self, text: str) -> None:
        self.text = text
        self.at = 0
        self.used: dict[str, int] = {}  # rule name -> where it is first referred to

    def read(self) -> dict[str, Node]:
        rules: dict[str, Node] = {}
        self._skip(_SPACE_AND_LINES)
        while self.at < len(self.text):
            start = self.at
            name = self._match(_NAME, "a rule name")
            if name in rules:
                raise self._error(f"rule {name!r} is defined twice", start)
            self._skip(_SPACE)
            if not self.text.startswith("::=", self.at):
                raise self._error(f"expected ::= after the rule name {name!r}")
            self.at += 3
            self._skip(_SPACE_AND_LINES)
            rules[name] = self._body()
            self._skip(_SPACE_AND_LINES)
        if "root" not in rules:
            raise self._error("the grammar has no rule 'root'", 0)
        for name, at in self.used.items():
            if name not in rules:
                raise self._error(f"rule {name!r} is not defined", at)
        return rules

    def _body(self) -> Node:
        """The alternatives of a rule, up to the end of its last line."""
        groups = [_Group(self.at)]
        while True:
            self._skip(_SPACE_AND_LINES if len(groups) > 1 else _SPACE)
            here = self.text[self.at : self.at + 1]
            if here == "|":
                self.at += 1
                groups[-1].end_alternative()
                self._skip(_SPACE_AND_LINES)
            elif here == "(":
                groups.append(_Group(self.at))
                self.at += 1
                if len(groups) > _DEPTH_MAX:
                    raise self._error(f"parentheses are nested more than {_DEPTH_MAX} deep: name the inner parts")
            elif here == ")" and len(groups) > 1:
                self.at += 1
                node = groups.pop().node()
                groups[-1].items.append(self._repeated(node))
            elif here in ("", "\n", "\r"):
                if len(groups) > 1:
                    raise self._error("this ( is never closed", groups[-1].start)
                return groups[0].node()
            else:
                groups[-1].items.append(self._repeated(self._item(here)))

    def _item(self, here: str) -> Node:
        """A literal, a class, a dot, a control token or the name of a rule."""
        start = self.at
        if here == '"':
            return Literal(self._quoted().encode())
        if here == "[":
            return self._class()
        if here == ".":
            self.at += 1
            return AnyChar()
        if here in "<!":
            token = _CONTROL.match(self.text, self.at)
            if not token:
                raise self._error("tokens are written by their text, <like_this>; ids and ! are not supported")
            self.at = token.end()
            return Control(token.group())
        name = self._match(_NAME, 'a literal "...", a class [...], a rule name, ( or |')
        self.used.setdefault(name, start)
        return Ref(name)

    def _repeated(self, item: Node) -> Node:
        """``item`` with the repeat signs behind it."""
        for signs in count():
            self._skip(_SPACE)
            sign = self.text[self.at : self.at + 1]
            if not sign or sign not in "*+?{":
                return item
            if signs == _SIGNS_MAX:
                raise self._error("too many repeat signs in a row")
            start = self.at
            least: int
            most: int | None
            if sign == "{":
                least, most = self._counts()
            else:
                self.at += 1
                least, most = (1 if sign == "+" else 0), (1 if sign == "?" else None)
            if most is not None and least > most:
                raise self._error(f"at least {least} and at most {most} is never", start)
            item = EMPTY if most == 0 else opt(item) if (least, most) == (0, 1) else Repeat(item, least, most)
        raise AssertionError("unreachable: the loop ends by return")

    def _counts(self) -> tuple[int, int | None]:
        counts = _COUNTS.match(self.text, self.at)
        if not counts or not (counts[1] or counts[3]):
            raise self._error("a repeat is written {n}, {n,}, {n,m} or {,m}")
        if max(int(counts[1] or 0), int(counts[3] or 0)) > _COUNT_MAX:
            raise self._error(f"a repeat count is at most {_COUNT_MAX}")
        self.at = counts.end()
        least = int(counts[1] or 0)
        return least, (int(counts[3]) if counts[3] else None) if counts[2] else least

    def _quoted(self) -> str:
        start = self.at
        self.at += 1
        out: list[str] = []
        while True:
            char = self.text[self.at : self.at + 1]
            if char in ("", "\n", "\r"):
                raise self._error("this literal is never closed", start)
            if char == '"':
                self.at += 1
                return "".join(out)
            out.append(chr(self._character()))

    def _class(self) -> Node:
        start = self.at
        self.at += 1
        negated = self.text.startswith("^", self.at)
        self.at += negated
        ranges: list[tuple[int, int]] = []
        while True:
            char = self.text[self.at : self.at + 1]
            if char in ("", "\n", "\r"):
                raise self._error("this class is never closed", start)
            if char == "]":
                self.at += 1
                break
            at = self.at
            low = high = self._character()
            if self.text[self.at : self.at + 1] == "-" and self.text[self.at + 1 : self.at + 2] not in ("]", ""):
                self.at += 1
                high = self._character()
                if high < low:
                    raise self._error("this range runs backwards", at)
            ranges.append((low, high))
        joined = merged(ranges)
        return complement(joined) if negated else complement(complement(joined).ranges)

    def _character(self) -> int:
        """The code point at the current position, escapes undone."""
        start = self.at
        char = self.text[self.at]
        self.at += 1
        if char != "\\":
            return ord(char)
        kind = self.text[self.at : self.at + 1]
        self.at += 1
        if kind in _ESCAPES:
            return ord(_ESCAPES[kind])
        digits = self.text[self.at : self.at + _HEX.get(kind, 0)]
        if kind not in _HEX or not re.fullmatch(rf"[0-9a-fA-F]{{{_HEX[kind]}}}", digits):
            raise self._error('the escapes are \\t \\r \\n \\\\ \\" \\[ \\] \\xHH \\uHHHH \\UHHHHHHHH', start)
        self.at += len(digits)
        code = int(digits, 16)
        if code > 0x10FFFF or 0xD800 <= code <= 0xDFFF:
            raise self._error(f"\\{kind}{digits} is no character; write one beyond U+FFFF as \\U with 8 digits", start)
        return code

    def _match(self, pattern: re.Pattern[str], what: str) -> str:
        found = pattern.match(self.text, self.at)
        if not found:
            raise self._error(f"expected {what}, found {self.text[self.at : self.at + 10]!r}")
        self.at = found.end()
        return found.group()

    def _skip(self, pattern: re.Pattern[str]) -> None:
        found = pattern.match(self.text, self.at)
        assert found is not None  # both patterns match the empty string
        self.at = found.end()

    def _error(self, message: str, at: int | None = None) -> GrammarError:
        at = self.at if at is None else at
        before = self.text[:at]
        line, column = before.count("\n") + 1, at - (before.rfind("\n") + 1) + 1
        return GrammarError(f"line {line}, column {column} of the grammar: {message}", param="grammar")


def _without_empty_rounds(rules: Mapping[str, Node]) -> dict[str, Node]:
    """The same language with no repeat over something nullable: ``(a?)*`` repeats what is not empty of ``a?``."""
    known = nullable_rules(Grammar(dict(rules), "root"))
    rewriter = _NonEmpty(rules, known)
    out = {name: rewriter.cleaned(node) for name, node in rules.items()}
    while rewriter.wanted:
        name = rewriter.wanted.pop()
        out[_solid(name)] = rewriter.solid(rules[name])
    return out


def _solid(name: str) -> str:
    return f"{name}.solid"  # a dot is in no name of the notation


class _NonEmpty:
    """Rewrites nodes so that repeats are over what is never empty; ``wanted``: rules needed without the empty text."""

    def __init__(self, rules: Mapping[str, Node], nullable_by_rule: Mapping[str, bool]) -> None:
        self.rules = rules
        self.known = nullable_by_rule
        self.wanted: list[str] = []
        self._seen: set[str] = set()

    def cleaned(self, node: Node) -> Node:
        """The same language, repeats made sound."""
        match node:
            case Sequence(items):
                return seq(*(self.cleaned(item) for item in items))
            case Choice(items):
                return Choice(tuple(self.cleaned(item) for item in items))
            case Repeat(item, least, most):
                if nullable(item, self.known):
                    return Repeat(self.solid(item), 0, most)
                return Repeat(self.cleaned(item), least, most)
        return node

    def solid(self, node: Node) -> Node:
        """The language of ``node`` without the empty text."""
        if not nullable(node, self.known):
            return self.cleaned(node)
        match node:
            case Ref(name):
                if name not in self._seen:
                    self._seen.add(name)
                    self.wanted.append(name)
                return Ref(_solid(name))
            case Choice(items):
                return Choice(tuple(option for option in map(self.solid, items) if option != Class(())))
            case Sequence(items):
                # All items are nullable. Halves, not one by one: n log n nodes instead of n squared.
                half = (len(items) + 1) // 2
                head, tail = Sequence(items[:half]), Sequence(items[half:])
                if not tail.items:
                    return self.solid(items[0])
                return alt(seq(self.solid(head), self.cleaned(tail)), self.solid(tail))
            case Repeat(item, _, most):
                return Repeat(self.solid(item), 1, most)
        return Class(())  # the empty literal has nothing else
