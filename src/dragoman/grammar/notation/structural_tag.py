"""Writes a lowered writer grammar as a structural tag of xgrammar 0.2: JSON that tells calls, text and layout apart.

A call is a tag: what stands before the arguments, the arguments, what stands behind them. Free text is ``any_text``
with the texts at which something else begins. Arguments and answers in a form are grammars in EBNF, so that they say
what the grammar says and not what another reading of a schema would. Control tokens are their text.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any, TypeAlias

from dragoman.errors import GrammarError
from dragoman.grammar.nodes import EMPTY, AnyChar, Choice, Control, Grammar, Literal, Node, Ref, Repeat, Without, seq
from dragoman.grammar.nodes import Sequence as NodeSequence
from dragoman.grammar.notation.ebnf import to_ebnf

Format: TypeAlias = dict[str, Any]
_ROOT = "tag"


def to_structural_tag(grammar: Grammar, calls: str) -> Format:
    """The grammar as a structural tag; ``calls`` names the rule whose alternatives are the calls.

    Raises: GrammarError for bytes that are no UTF-8, LimitError for nodes that are nested too deep.
    """
    return {"type": "structural_tag", "format": _Tagging(grammar, calls).format(Ref(grammar.start))}


class _Tagging:
    def __init__(self, grammar: Grammar, calls: str) -> None:
        self.grammar = grammar
        self.rules = grammar.rules
        self.calls = calls
        self._open: list[str] = []  # the rules that are being written

    def format(self, node: Node) -> Format:
        """``node`` as one format."""
        match node:
            case Literal() | Control():
                return _constant(_text(node))
            case Ref(name) if name == self.calls:
                return _either(self._tags())
            case Ref(name) if self._is_layout(node):
                self._open.append(name)
                found = self.format(self.rules[name])
                self._open.pop()
                return found
            case NodeSequence(items):
                return self._sequence(items)
            case Choice(items) if items and self._is_layout(node):
                return self._choice(items)
            case Repeat(item, least, most) if self._is_layout(item) and not isinstance(item, AnyChar):
                return _repeated(self.format(item), least, most)
        excluded = self._free_text(node)
        return self._grammar(node) if excluded is None else _any_text(excluded)

    def _sequence(self, items: Sequence[Node]) -> Format:
        out: list[Format] = []
        at = 0
        while at < len(items):
            separator = self._separator(items, at)
            if separator is not None:
                tags = {"tags": self._tags(), "separator": separator, "at_least_one": True}
                out.append({"type": "tags_with_separator", **tags})
                at += 2
                continue
            end = at
            while end < len(items) and not self._is_layout(items[end]):
                end += 1
            found = self.format(items[at]) if end == at else self._grammar(seq(*items[at:end]))
            out += found["elements"] if found["type"] == "sequence" else [found]
            at = max(end, at + 1)
        return out[0] if len(out) == 1 else {"type": "sequence", "elements": out}

    def _choice(self, items: Sequence[Node]) -> Format:
        rest = [item for item in items if item != EMPTY]
        if len(rest) == len(items):
            return _either([self.format(item) for item in items])
        if not rest:
            return _constant("")
        excluded = self._free_text(rest[0], least=1) if len(rest) == 1 else None
        if excluded is not None:
            return _any_text(excluded)
        return {"type": "optional", "content": _either([self.format(item) for item in rest])}

    def _separator(self, items: Sequence[Node], at: int) -> str | None:
        """The text between calls where a list of calls begins at ``at``."""
        if items[at] != Ref(self.calls) or at + 1 == len(items):
            return None
        more = items[at + 1]
        if not isinstance(more, Repeat) or (more.min, more.max) != (0, None):
            return None
        between, call = _split(more.item)
        return between if call == (Ref(self.calls),) else None

    # Calls.

    def _tags(self) -> list[Format]:
        return [self._tag(begin, body) for begin, body in self._beginnings("", (Ref(self.calls),))]

    def _beginnings(self, begin: str, items: tuple[Node, ...]) -> Iterator[tuple[str, tuple[Node, ...]]]:
        """(text, what follows) for each way to begin: choices between texts are taken apart."""
        text, rest = _split(seq(*items))
        begin += text
        head = rest[0] if rest else EMPTY
        if head == Ref(self.calls):
            yield from self._beginnings(begin, (self.rules[self.calls], *rest[1:]))
        elif isinstance(head, Choice) and head.items and all(_split(item)[0] for item in head.items):
            for item in head.items:
                yield from self._beginnings(begin, (item, *rest[1:]))
        else:
            yield begin, rest

    def _tag(self, begin: str, body: tuple[Node, ...]) -> Format:
        end = ""
        while body and isinstance(body[-1], Literal | Control):
            end = _text(body[-1]) + end
            body = body[:-1]
        content = self._grammar(seq(*body)) if body else _constant("")
        return {"type": "tag", "begin": begin, "content": content, "end": end}

    def _grammar(self, node: Node) -> Format:
        name = next(name for n in range(len(self.rules) + 1) if (name := f"{_ROOT}{n or ''}") not in self.rules)
        inner = replace(self.grammar, rules={**self.rules, name: node}, start=name)
        return {"type": "grammar", "grammar": to_ebnf(inner)}

    # What has a format of its own.

    def _is_layout(self, node: Node) -> bool:
        """True: ``node`` is made of texts, free text and calls; the rest is left to a grammar."""
        if self._free_text(node) is not None or self._free_text(node, least=1) is not None:
            return True
        match node:
            case Literal() | Control():
                return True
            case Ref(name):
                return name == self.calls or (name not in self._open and self._in(name))
            case NodeSequence(items) | Choice(items):
                return all(map(self._is_layout, items)) or any(map(self._leads_to_calls, items))
            case Repeat(item):
                return self._is_layout(item)
        return False

    def _in(self, name: str) -> bool:
        self._open.append(name)
        found = self._is_layout(self.rules[name])
        self._open.pop()
        return found

    def _leads_to_calls(self, node: Node) -> bool:
        match node:
            case Ref(name):
                return name == self.calls or (name not in self._open and self._opened(name))
            case NodeSequence(items) | Choice(items):
                return any(map(self._leads_to_calls, items))
            case Repeat(item):
                return self._leads_to_calls(item)
        return False

    def _opened(self, name: str) -> bool:
        self._open.append(name)
        found = self._leads_to_calls(self.rules[name])
        self._open.pop()
        return found

    def _free_text(self, node: Node, *, least: int = 0) -> list[str] | None:
        """The texts that free text of at least ``least`` characters leaves out; None: ``node`` is something else."""
        while isinstance(node, Ref) and node.name not in (self.calls, *self._open):
            node = self.rules[node.name]
        forbidden = node.forbidden if isinstance(node, Without) else ()
        if isinstance(node, Without):
            node = node.item
        if node != Repeat(AnyChar(), least) and node != Repeat(AnyChar(), least, lazy=True):
            return None
        return [text.decode() for text in forbidden if text]


def _split(node: Node) -> tuple[str, tuple[Node, ...]]:
    """The text that ``node`` begins with, and the items behind it."""
    items = node.items if isinstance(node, NodeSequence) else () if node == EMPTY else (node,)
    text = ""
    while items and isinstance(items[0], Literal | Control):
        text += _text(items[0])
        items = items[1:]
    return text, items


def _text(node: Literal | Control) -> str:
    if isinstance(node, Control):
        return node.text
    try:
        return node.data.decode()
    except UnicodeDecodeError:
        raise GrammarError(
            f"the literal {node.data!r:.60} is no UTF-8, and this notation has characters only"
        ) from None


def _constant(text: str) -> Format:
    return {"type": "const_string", "value": text}


def _any_text(excluded: list[str]) -> Format:
    return {"type": "any_text", "excludes": excluded} if excluded else {"type": "any_text"}


def _either(formats: Sequence[Format]) -> Format:
    return formats[0] if len(formats) == 1 else {"type": "or", "elements": list(formats)}


def _repeated(content: Format, least: int, most: int | None) -> Format:
    signs = {(0, None): "star", (1, None): "plus", (0, 1): "optional"}
    if (least, most) in signs:
        return {"type": signs[least, most], "content": content}
    return {"type": "repeat", "min": least, "max": -1 if most is None else most, "content": content}
