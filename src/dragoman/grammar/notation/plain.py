"""A lowered writer grammar in the few constructs that every grammar notation has.

What is left are Literal, Class, AnyChar, Sequence, Choice, Repeat and Ref, and Control where the notation has tokens.
What a notation cannot say is written coarser, so that every text of the grammar stays possible: look-ahead is left out,
counts above its limit become open, an exclusion that would need too many rules is dropped. One thing is narrower: a
permutation of more than four items keeps its declared order.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from itertools import count
from typing import TypeVar

from dragoman.errors import GrammarError, LimitError
from dragoman.grammar.nodes import (
    EMPTY,
    AnyChar,
    Choice,
    Class,
    Commit,
    Control,
    Grammar,
    Literal,
    Negate,
    Node,
    Peek,
    Permutation,
    Ref,
    Repeat,
    Sequence,
    Until,
    UntilConfirmed,
    Without,
    alt,
    seq,
)
from dragoman.grammar.notation.avoid import avoiding
from dragoman.grammar.notation.prune import prune, references

T = TypeVar("T")

# A minimum above the limit is written as this many full chunks at most.
CHUNKS_MAX = 10
PERMUTED_MAX = 4
# Strings that a closer's look-ahead is spelled out to.
FOLLOW_MAX = 64


@dataclass(frozen=True, slots=True)
class Notation:
    """What a notation can say.

    start: the name of the start rule. repeat_max: the largest count, None: any. controls: it has tokens beside text.
    exclusion: regular expressions can leave texts out, so Without stays where its item is regular.
    separator: stands in rules' names for all that is neither letter nor digit. capitals: such names may hold capitals.
    """

    start: str
    repeat_max: int | None = None
    controls: bool = False
    exclusion: bool = False
    separator: str = "-"
    capitals: bool = True


class PlainGrammar:
    """One grammar for one notation: ``rules`` in plain nodes, without dead ends, the start rule first.

    Raises: GrammarError where no text matches, LimitError for nodes that are nested too deep.
    """

    def __init__(self, grammar: Grammar, notation: Notation) -> None:
        self._notation = notation
        self._names: dict[str, str] = {grammar.start: notation.start}
        self._taken = {notation.start}
        self.current = grammar.start
        self.rules = _Rewriting(grammar, notation).rules()

    def name(self, rule: str) -> str:
        """The rule's name in the characters of the notation."""
        if rule not in self._names:
            given = rule if self._notation.capitals else rule.lower()
            base = re.sub(r"[^A-Za-z0-9]+", self._notation.separator, given).strip(self._notation.separator)
            base = base if base[:1].isalpha() else f"rule{self._notation.separator}{base}" if base else "rule"
            names = (base if n == 1 else f"{base}{self._notation.separator}{n}" for n in count(1))
            free = next(name for name in names if name not in self._taken)
            self._names[rule] = free
            self._taken.add(free)
        return self._names[rule]

    def written(self, body: Callable[[Node], T]) -> list[tuple[str, T]]:
        """(name, ``body(node)``) of each rule. ``current`` is the rule at work."""
        out: list[tuple[str, T]] = []
        for rule, node in self.rules.items():
            self.current = rule
            out.append((self.name(rule), guarded(rule, body, node)))
        return out

    def characters(self, data: bytes) -> str:
        """``data`` as text. Raises GrammarError for bytes that are no UTF-8."""
        try:
            return data.decode()
        except UnicodeDecodeError:
            raise GrammarError(
                f"the literal {data!r:.60} is no UTF-8, and this notation has characters only", rule=self.current
            ) from None


def guarded(rule: str, visit: Callable[[Node], T], node: Node) -> T:
    """``visit(node)`` for the body of ``rule``; LimitError where it is nested too deep."""
    try:
        return visit(node)
    except RecursionError:
        message = f"rule {rule!r} is nested too deep: give its inner parts names"
        raise LimitError(message, bound="program_instructions", limit=0) from None


class _Rewriting:
    """The pending rules of one export."""

    def __init__(self, grammar: Grammar, notation: Notation) -> None:
        self._rules = dict(grammar.rules)
        self._start = grammar.start
        self._notation = notation
        self._products: dict[tuple[Node, tuple[bytes, ...]], Node] = {}
        self._current = grammar.start

    def rules(self) -> dict[str, Node]:
        plain: dict[str, Node] = {}
        work = [self._start]
        while work:
            name = work.pop()
            if name in plain:
                continue
            if name not in self._rules:
                raise GrammarError("no rule has this name; a reference leads to it", rule=name)
            self._current = name
            plain[name] = guarded(name, self._plain, self._rules[name])
            work.extend(references(plain[name]))
        # A dead end would end the generation with an error there, and a repeat of nothing is refused.
        kept = prune(plain, self._start)
        if kept is None:
            raise GrammarError("no text matches this grammar", rule=self._start)
        return kept

    def _plain(self, node: Node) -> Node:
        match node:
            case Sequence(items):
                return seq(*map(self._plain, items))
            case Choice(items):
                return Choice(tuple(dict.fromkeys(map(self._plain, items))))
            case Repeat(item, least, most):
                plain = self._plain(item)
                if (least > 1 or most not in (None, 1)) and not isinstance(plain, (Class, AnyChar, Ref)):
                    # llama.cpp bounds the count times the size of what is repeated; a rule's name has size one.
                    plain = self._named(plain)
                return _counted(plain, least, most, self._notation.repeat_max)
            case Control(text):
                return node if self._notation.controls else Literal(text.encode())
            case Until(delimiters):
                return self._avoid(Repeat(AnyChar()), delimiters)
            case UntilConfirmed(closer, follow, _):
                ends = tuple(closer + text for text in _some_texts(follow, self._rules))
                return seq(self._avoid(Repeat(AnyChar()), ends), Literal(closer))
            case Without(item, forbidden):
                return self._avoid(item, forbidden)
            case Permutation():
                return self._permuted(node)
            case Peek() | Negate() | Commit():
                return EMPTY
            case Literal() | Class() | AnyChar() | Ref():
                return node
        raise GrammarError(f"{type(node).__name__} must be lowered before it is written", rule=self._current)

    def _avoid(self, item: Node, forbidden: tuple[bytes, ...]) -> Node:
        if self._notation.exclusion and forbidden and not any(references(item)):
            return Without(self._plain(item), forbidden)
        key = (item, forbidden)
        if key not in self._products:
            node = avoiding(item, forbidden, self._rules, self._add) if forbidden else item
            self._products[key] = self._plain(node)
        return self._products[key]

    def _add(self, rules: dict[str, Node]) -> Ref:
        """Stores rules whose references are among themselves under fresh names; the first is the start."""
        base = next(f"{self._current}.free{n}" for n in count() if f"{self._current}.free{n}.0" not in self._rules)
        for name, node in rules.items():
            self._rules[f"{base}.{name}"] = _under(node, base)
        return Ref(f"{base}.{next(iter(rules))}")

    def _permuted(self, node: Permutation) -> Node:
        """Every order, by one rule for each set of items that are still to come; the declared order where too many."""
        size = len(node.items)
        if size > PERMUTED_MAX:
            return self._ordered(node)
        base = next(f"{self._current}.any{n}" for n in count() if f"{self._current}.any{n}.0" not in self._rules)
        everything = (1 << size) - 1
        for left in range(everything + 1):
            options: list[Node] = []
            for index in range(size):
                if left >> index & 1:
                    separator = EMPTY if left == everything else node.separator
                    options.append(seq(separator, node.items[index], Ref(f"{base}.{left & ~(1 << index)}")))
            if not any(node.required[index] for index in range(size) if left >> index & 1):
                options.append(EMPTY)
            self._rules[f"{base}.{left}"] = alt(*options)
        return Ref(f"{base}.{everything}")

    def _named(self, node: Node) -> Ref:
        name = next(name for n in count() if (name := f"{self._current}.item{n}") not in self._rules)
        self._rules[name] = node
        return Ref(name)

    def _ordered(self, node: Permutation) -> Node:
        """The items in their declared order, by two rules for each: something was written before it, or nothing."""
        base = next(f"{self._current}.any{n}" for n in count() if f"{self._current}.any{n}.rest" not in self._rules)
        rest: Node = Ref(f"{base}.rest")
        first: Node = EMPTY
        self._rules[f"{base}.rest"] = EMPTY
        for index in range(len(node.items) - 1, -1, -1):
            begun, more = seq(node.items[index], rest), seq(node.separator, node.items[index], rest)
            self._rules[f"{base}.first{index}"] = begun if node.required[index] else alt(begun, first)
            self._rules[f"{base}.rest{index}"] = more if node.required[index] else alt(more, rest)
            first, rest = Ref(f"{base}.first{index}"), Ref(f"{base}.rest{index}")
        return first


def _counted(item: Node, least: int, most: int | None, limit: int | None) -> Node:
    """A repeat whose counts the notation takes; open above where the maximum is too large."""
    if limit is None:
        return Repeat(item, least, most)
    if most is not None and most > limit:
        most = None
    if least <= limit:
        return Repeat(item, least, most)
    chunks, rest = divmod(least, limit)
    if chunks > CHUNKS_MAX:
        chunks, rest = CHUNKS_MAX, 0
    full = [Repeat(item, limit, limit)] * chunks
    return seq(*full, Repeat(item, rest, None))


def _some_texts(node: Node, rules: Mapping[str, Node]) -> list[bytes]:
    """Texts of ``node``, all or the first of them: to forbid fewer strings is to allow more."""
    match node:
        case Literal(data):
            return [data]
        case Control(text):
            return [text.encode()]
        case Class(ranges):
            points = [point for low, high in ranges for point in range(low, min(high, low + FOLLOW_MAX) + 1)]
            return [chr(point).encode() for point in points[:FOLLOW_MAX]]
        case Sequence(items):
            texts = [b""]
            for item in items:
                texts = [a + b for a in texts for b in _some_texts(item, rules)][:FOLLOW_MAX]
            return texts
        case Choice(items):
            return [text for item in items for text in _some_texts(item, rules)][:FOLLOW_MAX]
        case Repeat(item, least, most):
            once = _some_texts(item, rules)
            texts, out = [b""], [b""] if least == 0 else []
            for index in range(1, min(least + 2, least + 2 if most is None else most) + 1):
                texts = [a + b for a in texts for b in once][:FOLLOW_MAX]
                out += texts if index >= least else []
            return out[:FOLLOW_MAX]
        case Ref(name):
            return _some_texts(rules[name], rules)
    return []


def _under(node: Node, prefix: str) -> Node:
    """``node`` of a product with its references under ``prefix``."""
    match node:
        case Ref(name):
            return Ref(f"{prefix}.{name}")
        case Sequence(items):
            return Sequence(tuple(_under(item, prefix) for item in items))
        case Choice(items):
            return Choice(tuple(_under(item, prefix) for item in items))
    return node
