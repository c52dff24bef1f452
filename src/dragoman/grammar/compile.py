"""From the grammar tree to a program: one tree, two compilations.

Rules of this file: code is emitted back to front, so every instruction knows its successor; loops reserve a slot and
fill it in. Rules are compiled one by one and linked at the end. Nothing here runs the grammar.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from itertools import repeat
from typing import Any, NoReturn

from dragoman.errors import GrammarError, LimitError
from dragoman.grammar import analysis
from dragoman.grammar import nodes as n
from dragoman.grammar.blocks import Block, Code
from dragoman.grammar.facts import UNROLL, facts
from dragoman.grammar.liveness import live_in
from dragoman.grammar.program import ATOMIC, Op, Program
from dragoman.grammar.utf8 import ANY, byte_sets
from dragoman.limits import DEFAULT, Limits

_UNBOUNDED = 1 << 62

_BYTES = int(Op.BYTES)
_BIT = tuple(1 << byte for byte in range(256))


def compile_reader(
    grammar: n.Grammar, *, controls: Mapping[str, int] | None = None, limits: Limits = DEFAULT
) -> Program:
    """The reader program: priorities, regions, commits, recovery points.

    controls: control token text -> token id. With it each Control is a symbol of its own; without, its text.
    Raises: GrammarError for what analysis refuses, LimitError past ``limits.program_instructions``.
    """
    return _Compiler(grammar, controls, limits).program(ordered=True)


def compile_writer(
    grammar: n.Grammar,
    *,
    controls: Mapping[str, int] | None = None,
    limits: Limits = DEFAULT,
    on_demand: bool = False,
) -> Program:
    """The writer program: threads are a set, tags and commits vanish, what cannot be completed is cut away.

    on_demand: rules in which nothing can be wrong may be compiled when they are entered, see :meth:`Program.enter`.
    Raises: as compile_reader; GrammarError also where no text at all can be written.
    """
    if on_demand and (found := _Compiler(grammar, controls, limits).begun()) is not None:
        return found
    program = _Compiler(analysis.whole(grammar), controls, limits).program(ordered=False)
    if not program.live[program.entries[program.start]]:
        raise GrammarError("no text can be written: every way through ends in a dead end", rule=grammar.start)
    return program


class _Compiler:
    """One compilation. ``code`` grows; ``links`` are the calls to patch once all rules have an entry."""

    def __init__(self, grammar: n.Grammar, controls: Mapping[str, int] | None, limits: Limits) -> None:
        self.grammar = grammar
        self.controls = controls
        self.limits = limits
        self.known = analysis.check(grammar)
        self.most = limits.program_instructions
        self.code: list[Code] = []
        self.links: list[tuple[int, str]] = []
        self.rule_entry: dict[str, int] = {}
        self.complete_rules: list[tuple[int, int, n.Node]] = []
        self.doors: dict[str, int] | None = None  # rule -> ENTER, where rules are compiled on demand
        self.back = -1
        self.sets: set[int] = set()  # of bytes, but for single ones
        self.letters: set[int] = set()  # single bytes
        self.symbols: dict[int, int] = {}
        self.guards: dict[tuple[n.Node, bool], int] = {}
        self.ordered = True
        self.rule = grammar.start
        self.inlining: list[str] = []
        self.in_guard = False
        self.closed = True  # nothing outside the rule was asked for so far

    def program(self, *, ordered: bool) -> Program:
        """All of it."""
        self.ordered = ordered
        self.back = self.add(Op.RETURN, None, -1)
        # The start rule last: what it calls then stands before it, as inside a rule.
        for name in reversed(list(self.grammar.rules)):
            self.emit_rule(name)
        entries = self.entries()
        for at, name in self.links:
            op, _, following = self.code[at]
            target = self.rule_entry[name]
            self.code[at] = (Op.JUMP, None, target) if op == Op.JUMP else (op, target, following)
        live = bytes([1]) * len(self.code) if analysis.complete(self.grammar) else live_in(self.code)
        return self.made(entries, live)

    def begun(self) -> Program | None:
        """What a writer needs before it enters other rules; None where all must be compiled to tell what is wrong."""
        if not analysis.complete(self.grammar):
            return None
        self.ordered = False
        self.back = self.add(Op.RETURN, None, -1)
        self.doors = {}
        size = 0
        for name, node in self.grammar.rules.items():
            found = facts(node)
            if found.simple and name != self.grammar.start:
                size += found.size
        if size > self.most:
            return None
        for name, node in self.grammar.rules.items():
            if name == self.grammar.start or not facts(node).simple:
                self.emit_rule(name)
        entries = self.entries()
        if len(self.code) + size > self.most:
            return None
        program = self.made(entries, bytes([1]) * len(self.code))
        self.most = _UNBOUNDED  # what is still to come was counted
        return program

    def made(self, entries: dict[str, int], live: bytes) -> Program:
        return Program(
            code=self.code,
            entries=entries,
            start=self.grammar.start,
            recovery=dict(self.grammar.recovery),
            symbols=dict(self.symbols),
            live=live,
            ordered=self.ordered,
            rule_entry=self.rule_entry,
            closed=self.complete_rules,
            sets=frozenset(self.sets.union([_BIT[letter] for letter in self.letters])),
            open=self.entry if self.doors is not None else None,
        )

    def entries(self) -> dict[str, int]:
        accept = self.add(Op.ACCEPT, None, -1)
        names = (self.grammar.start, *(point.rule for point in self.grammar.recovery.values()))
        return {name: self.add(Op.CALL, self.rule_entry[name], accept) for name in names}

    def entry(self, name: str) -> int:
        """Where the rule ``name`` begins; it is compiled if it was not."""
        known = self.rule_entry.get(name)
        return self.emit_rule(name) if known is None else known

    def emit_rule(self, name: str) -> int:
        node = self.grammar.rule(name)
        self.rule = name
        self.closed = True
        start = len(self.code)
        entry = self.rule_entry[name] = self.block(node) if facts(node).plain else self.emit(node, self.back)
        if self.closed:
            self.complete_rules.append((start, len(self.code), node))
        return entry

    def door(self, name: str) -> int:
        """Where the rule ``name`` begins, or the instruction that will lead there."""
        assert self.doors is not None
        at = self.rule_entry.get(name, self.doors.get(name))
        if at is None:
            at = self.doors[name] = self.add(Op.ENTER, name, -1)
        return at

    def block(self, node: n.Node) -> int:
        """Code for a rule of characters alone, with a return of its own: copied where it was made before."""
        found = facts(node)
        base = len(self.code)
        if found.block is None:
            entry = self.emit(node, self.add(Op.RETURN, None, -1))
            found.uses += 1
            if found.uses > 1:
                found.block = Block(self.code[base:], base, entry)
            return entry
        block: Block = found.block
        self.sets |= block.sets
        entry = block.add(self.code)
        if len(self.code) > self.most:
            self.too_large()
        return entry

    def add(self, op: Op, argument: Any, following: int) -> int:
        if len(self.code) >= self.most:
            self.too_large()
        self.code.append((int(op), argument, following))
        return len(self.code) - 1

    def too_large(self) -> NoReturn:
        raise LimitError(
            f"the grammar is too large (in rule {self.rule!r})",
            bound="program_instructions",
            limit=self.limits.program_instructions,
        )

    def emit(self, node: n.Node, following: int) -> int:
        """Code for ``node`` that goes on at ``following``; its entry."""
        entry: int = self._EMIT.get(type(node), _unknown)(self, node, following)
        return entry

    def literal(self, node: n.Literal, following: int) -> int:
        code = self.code
        at = len(code)
        data = node.data
        if not data:
            return following
        self.letters.update(data)
        behind = (following, *range(at, at + len(data) - 1))
        code += zip(repeat(_BYTES), [_BIT[byte] for byte in reversed(data)], behind)
        if len(code) > self.most:
            self.too_large()
        return len(code) - 1

    def char_class(self, node: n.Class, following: int) -> int:
        ways = byte_sets(node.ranges)
        if len(ways) == 1:
            return self.chain(ways[0], following)
        return self.alternatives([self.chain(sets, following) for sets in ways])

    def any_char(self, node: n.AnyChar, following: int) -> int:
        return self.alternatives([self.chain(sets, following) for sets in byte_sets(ANY)])

    def chain(self, sets: Collection[int], following: int) -> int:
        """One byte of each of ``sets``, the last first."""
        code = self.code
        self.sets.update(sets)
        for bits in sets:
            code.append((_BYTES, bits, following))
            following = len(code) - 1
        if len(code) > self.most:
            self.too_large()
        return following

    def alternatives(self, targets: list[int]) -> int:
        return targets[0] if len(targets) == 1 else self.add(Op.SPLIT, tuple(targets), -1)

    def sequence(self, node: n.Sequence, following: int) -> int:
        emit = self._EMIT
        for item in reversed(node.items):
            following = emit.get(type(item), _unknown)(self, item, following)
        return following

    def choice(self, node: n.Choice, following: int) -> int:
        emit = self._EMIT
        return self.alternatives([emit.get(type(item), _unknown)(self, item, following) for item in node.items])

    def repeat(self, node: n.Repeat, following: int) -> int:
        if node.max is None and node.min <= 1:
            return self.star(node, following, at_least_one=node.min == 1)
        if node.max == 0:
            return following
        rounds = node.min + 1 if node.max is None else node.max
        if rounds == 1 or self.in_guard or rounds * analysis.weight(node.item) <= UNROLL:
            return self.unrolled(node, following)
        loop = self.add(Op.LOOP, None, -1)
        body = self.emit(node.item, self.add(Op.AGAIN, 1, loop))
        self.code[loop] = (Op.LOOP, (node.min, node.max, body, following, node.lazy), -1)
        return self.add(Op.COUNT, None, loop)

    def star(self, node: n.Repeat, following: int, *, at_least_one: bool) -> int:
        loop = self.add(Op.SPLIT, None, -1)
        body = self.emit(node.item, loop)
        self.code[loop] = (Op.SPLIT, (following, body) if node.lazy else (body, following), -1)
        return body if at_least_one else loop

    def unrolled(self, node: n.Repeat, following: int) -> int:
        end = following
        if node.max is None:
            following = self.star(node, following, at_least_one=False)
        for _ in range((node.max or node.min) - node.min):
            once = self.emit(node.item, following)
            following = self.alternatives([end, once] if node.lazy else [once, end])
        for _ in range(node.min):
            following = self.emit(node.item, following)
        return following

    def permutation(self, node: n.Permutation, following: int) -> int:
        perm = self.add(Op.PERM, None, -1)
        first = tuple(self.emit(item, self.add(Op.AGAIN, 0, perm)) for item in node.items)
        later = tuple(self.emit(node.separator, entry) for entry in first)
        required = sum(1 << i for i, flag in enumerate(node.required) if flag)
        self.code[perm] = (Op.PERM, (first, later, required, following), -1)
        return self.add(Op.MARK, None, perm)

    def until(self, node: n.Until, following: int) -> int:
        guard = self.guard(n.Choice(tuple(n.Literal(d) for d in node.delimiters)))
        out = self.add(Op.LEAVE, guard, self.add(Op.REQUIRE_OR_END, guard, following))
        return self.add(Op.SCAN, guard, self.star(n.Repeat(n.AnyChar(), lazy=True), out, at_least_one=False))

    def until_confirmed(self, node: n.UntilConfirmed, following: int) -> int:
        closer = n.Literal(node.closer)
        guard = self.guard(n.Sequence((closer, node.follow)))
        out = self.emit(closer, following)
        if node.tag is not None and self.ordered:
            out = self.add(Op.CLOSE, node.tag, out)
        out = self.add(Op.LEAVE, guard, self.add(Op.REQUIRE, guard, out))
        entry = self.add(Op.SCAN, guard, self.star(n.Repeat(n.AnyChar(), lazy=True), out, at_least_one=False))
        return self.add(Op.OPEN, node.tag, entry) if node.tag is not None and self.ordered else entry

    def without(self, node: n.Without, following: int) -> int:
        if not node.forbidden:
            return self.emit(node.item, following)
        guard = self.guard(n.Choice(tuple(n.Literal(text) for text in node.forbidden)))
        return self.add(Op.SCAN, guard, self.emit(node.item, self.add(Op.DROP, guard, following)))

    def peek(self, node: n.Peek, following: int) -> int:
        return self.add(Op.REQUIRE, self.guard(node.item), following)

    def negate(self, node: n.Negate, following: int) -> int:
        return self.add(Op.REFUSE, self.guard(node.item), following)

    def atomic(self, node: n.Atomic, following: int) -> int:
        return self.region(ATOMIC, node.item, following)

    def tag(self, node: n.Tag, following: int) -> int:
        if node.resumed and self.ordered and not self.in_guard:
            return self.emit(node.item, self.add(Op.CLOSE, node.name, following))
        return self.region(node.name, node.item, following)

    def region(self, name: str, item: n.Node, following: int) -> int:
        if not self.ordered or self.in_guard:
            return self.emit(item, following)
        return self.add(Op.OPEN, name, self.emit(item, self.add(Op.CLOSE, name, following)))

    def commit(self, node: n.Commit, following: int) -> int:
        return self.add(Op.COMMIT, node.label, following) if self.ordered and not self.in_guard else following

    def ref(self, node: n.Ref, following: int) -> int:
        self.closed = False
        if self.in_guard:
            return self.inlined(node, following)
        tail = self.code[following][0] == Op.RETURN
        if self.doors is not None:
            target = self.door(node.name)
            return self.add(Op.JUMP, None, target) if tail else self.add(Op.CALL, target, following)
        at = self.add(Op.JUMP, None, -1) if tail else self.add(Op.CALL, None, following)
        self.links.append((at, node.name))
        return at

    def inlined(self, node: n.Ref, following: int) -> int:
        if node.name in self.inlining:
            raise GrammarError(f"looks ahead through the recursive rule {node.name!r}", rule=self.rule)
        self.inlining.append(node.name)
        entry = self.emit(self.grammar.rule(node.name), following)
        self.inlining.pop()
        return entry

    def control(self, node: n.Control, following: int) -> int:
        self.closed = False
        token = None if self.controls is None else self.controls.get(node.text)
        if self.controls is None:
            return self.literal(n.Literal(node.text.encode()), following)
        if token is None:
            raise GrammarError(f"the vocabulary has no control token {node.text!r}", rule=self.rule)
        return self.add(Op.SYMBOL, self.symbols.setdefault(token, 256 + len(self.symbols)), following)

    def guard(self, item: n.Node) -> int:
        """The entry of a look-ahead's own code, which ends in MATCH. Regular and bounded, or GrammarError."""
        self.closed = False
        key = (item, self.ordered)
        if key not in self.guards:
            analysis.check_bounded(self.grammar, item, self.rule, self.inlining)
            outer, self.in_guard = self.in_guard, True
            if outer:
                raise GrammarError("looks ahead inside a look-ahead", rule=self.rule)
            self.guards[key] = self.emit(item, self.add(Op.MATCH, None, -1))
            self.in_guard = outer
        return self.guards[key]

    _EMIT: Mapping[type, Any] = {
        n.Literal: literal,
        n.Class: char_class,
        n.AnyChar: any_char,
        n.Sequence: sequence,
        n.Choice: choice,
        n.Repeat: repeat,
        n.Until: until,
        n.UntilConfirmed: until_confirmed,
        n.Without: without,
        n.Peek: peek,
        n.Negate: negate,
        n.Atomic: atomic,
        n.Commit: commit,
        n.Tag: tag,
        n.Ref: ref,
        n.Permutation: permutation,
        n.Control: control,
    }


def _unknown(self: _Compiler, node: n.Node, following: int) -> NoReturn:
    raise GrammarError(f"{type(node).__name__} must be lowered before it is compiled", rule=self.rule)
