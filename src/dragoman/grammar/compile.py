"""From the grammar tree to a program: one tree, two compilations.

Rules of this file: code is emitted back to front, so every instruction knows its successor; loops reserve a slot and
fill it in. Rules are compiled one by one and linked at the end. Nothing here runs the grammar.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from functools import lru_cache
from itertools import repeat
from typing import Any, NoReturn

from dragoman.errors import GrammarError, LimitError
from dragoman.grammar import analysis
from dragoman.grammar import nodes as n
from dragoman.grammar.blocks import Block, Code
from dragoman.grammar.facts import facts
from dragoman.grammar.program import ATOMIC, Op, Program
from dragoman.grammar.utf8 import ANY, byte_sequences
from dragoman.limits import DEFAULT, Limits

# A counted repeat whose copies stay below this many instructions is written out; longer ones count at run time.
_UNROLL = 24

_BYTES, _SPLIT, _CALL = int(Op.BYTES), int(Op.SPLIT), int(Op.CALL)
_BIT = tuple(1 << byte for byte in range(256))
_ENDS = frozenset(map(int, (Op.ACCEPT, Op.MATCH, Op.RETURN)))


def compile_reader(
    grammar: n.Grammar, *, controls: Mapping[str, int] | None = None, limits: Limits = DEFAULT
) -> Program:
    """The reader program: priorities, regions, commits, recovery points.

    controls: control token text -> token id. With it each Control is a symbol of its own; without, its text.
    Raises: GrammarError for what analysis refuses, LimitError past ``limits.program_instructions``.
    """
    return _Compiler(grammar, controls, limits).program(ordered=True)


def compile_writer(
    grammar: n.Grammar, *, controls: Mapping[str, int] | None = None, limits: Limits = DEFAULT
) -> Program:
    """The writer program: threads are a set, tags and commits vanish, what cannot be completed is cut away.

    Raises: as compile_reader; GrammarError also where no text at all can be written.
    """
    program = _Compiler(grammar, controls, limits).program(ordered=False)
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
        self.code: list[Code] = []
        self.links: list[tuple[int, str]] = []
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
        self.ordered = ordered
        back = self.add(Op.RETURN, None, -1)
        rule_entry: dict[str, int] = {}
        closed: list[tuple[int, int, n.Node]] = []
        # The start rule last: what it calls then stands before it, as inside a rule.
        for name, node in reversed(list(self.grammar.rules.items())):
            self.rule = name
            self.closed = True
            start = len(self.code)
            rule_entry[name] = self.block(node) if facts(node).plain else self.emit(node, back)
            if self.closed:
                closed.append((start, len(self.code), node))
        accept = self.add(Op.ACCEPT, None, -1)
        entries: dict[str, int] = {}
        for name in (self.grammar.start, *(point.rule for point in self.grammar.recovery.values())):
            entries[name] = self.add(Op.CALL, rule_entry[name], accept)
        for at, name in self.links:
            op, _, following = self.code[at]
            target = rule_entry[name]
            self.code[at] = (Op.JUMP, None, target) if op == Op.JUMP else (op, target, following)
        return Program(
            code=tuple(self.code),
            entries=entries,
            start=self.grammar.start,
            recovery=dict(self.grammar.recovery),
            symbols=dict(self.symbols),
            live=bytes([1]) * len(self.code) if analysis.complete(self.grammar) else _live(self.code),
            ordered=ordered,
            rule_at={at: name for name, at in rule_entry.items()},
            closed=tuple(closed),
            sets=frozenset(self.sets.union([_BIT[letter] for letter in self.letters])),
        )

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
        if len(self.code) > self.limits.program_instructions:
            self.too_large()
        return entry

    def add(self, op: Op, argument: Any, following: int) -> int:
        if len(self.code) >= self.limits.program_instructions:
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
        if len(code) > self.limits.program_instructions:
            self.too_large()
        return len(code) - 1

    def char_class(self, node: n.Class, following: int) -> int:
        ways = _byte_sets(node.ranges)
        if len(ways) == 1:
            return self.chain(ways[0], following)
        return self.alternatives([self.chain(sets, following) for sets in ways])

    def any_char(self, node: n.AnyChar, following: int) -> int:
        return self.alternatives([self.chain(sets, following) for sets in _byte_sets(ANY)])

    def chain(self, sets: Collection[int], following: int) -> int:
        """One byte of each of ``sets``, the last first."""
        code = self.code
        self.sets.update(sets)
        for bits in sets:
            code.append((_BYTES, bits, following))
            following = len(code) - 1
        if len(code) > self.limits.program_instructions:
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
        if rounds == 1 or self.in_guard or rounds * _weight(node.item) <= _UNROLL:
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
        at = self.add(Op.JUMP, None, -1) if tail else self.add(Op.CALL, None, following)
        self.links.append((at, node.name))
        return at

    def inlined(self, node: n.Ref, following: int) -> int:
        if node.name in self.inlining:
            raise GrammarError(f"looks ahead through the recursive rule {node.name!r}", rule=self.rule)
        self.inlining.append(node.name)
        entry = self.emit(self.grammar.rules[node.name], following)
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
            self._check_bounded(item)
            outer, self.in_guard = self.in_guard, True
            if outer:
                raise GrammarError("looks ahead inside a look-ahead", rule=self.rule)
            self.guards[key] = self.emit(item, self.add(Op.MATCH, None, -1))
            self.in_guard = outer
        return self.guards[key]

    def _check_bounded(self, item: n.Node) -> None:
        for node in analysis.walk(item):
            if isinstance(node, n.Repeat) and node.max is None:
                raise GrammarError("looks ahead over an unbounded repeat; give it a maximum", rule=self.rule)
            if isinstance(node, n.Until | n.UntilConfirmed | n.Without | n.Peek | n.Negate | n.Permutation):
                raise GrammarError(f"looks ahead over {type(node).__name__}, which is not regular", rule=self.rule)
            if isinstance(node, n.Ref) and node.name not in self.inlining:
                self.inlining.append(node.name)
                self._check_bounded(self.grammar.rules[node.name])
                self.inlining.pop()
            elif isinstance(node, n.Ref):
                raise GrammarError(f"looks ahead through the recursive rule {node.name!r}", rule=self.rule)

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


def _weight(node: n.Node) -> int:
    """About how many instructions ``node`` compiles to."""
    return sum(len(part.data) if isinstance(part, n.Literal) else 1 for part in analysis.walk(node))


@lru_cache(maxsize=512)
def _byte_sets(ranges: tuple[tuple[int, int], ...]) -> list[list[int]]:
    """The ways to write one of these characters, each a list of byte sets (256 bits), the last byte first."""
    return [[(1 << (high + 1)) - (1 << low) for low, high in reversed(sequence)] for sequence in byte_sequences(ranges)]


def _live(code: list[Code]) -> bytes:
    """1 where a parse can still be completed: least fixpoint, look-aheads not considered (they only forbid)."""
    live = bytearray(len(code))
    # Code is emitted back to front, so most of what an instruction depends on comes before it: two looks at each
    # settle all but what loops and calls leave open.
    waiting: list[int] = []
    for at, (op, argument, following) in enumerate(code):
        if (argument and live[following]) if op == _BYTES else _is_live(op, argument, following, code, live):
            live[at] = 1
        else:
            waiting.append(at)
    waiting = [at for at in waiting if not _enlivened(at, code, live)]
    users: dict[int, list[int]] = {}
    for at in waiting:
        for below in _depends_on(code[at], code):
            users.setdefault(below, []).append(at)
    work = waiting
    while work:
        at = work.pop()
        if not live[at] and _enlivened(at, code, live):
            work += users.get(at, ())
    return bytes(live)


def _enlivened(at: int, code: list[Code], live: bytearray) -> bool:
    op, argument, following = code[at]
    if (argument and live[following]) if op == _BYTES else _is_live(op, argument, following, code, live):
        live[at] = 1
        return True
    return False


def _depends_on(instruction: Code, code: list[Code]) -> Iterable[int]:
    op, argument, following = instruction
    if op == Op.SPLIT:
        return argument  # type: ignore[no-any-return]
    if op == Op.CALL:
        return (argument, following)
    if op == Op.LOOP:
        return argument[2:4]  # type: ignore[no-any-return]
    if op == Op.PERM:
        return (*argument[0], *argument[1], argument[3])
    if op == Op.AGAIN:
        return (code[following][1][3],)
    return () if following < 0 else (following,)


def _is_live(op: int, argument: Any, following: int, code: list[Code], live: bytearray) -> bool:
    # The most frequent first; plain numbers compare faster than the names of the enum.
    if op == _SPLIT:
        return any(live[target] for target in argument)
    if op == _CALL:
        return bool(live[argument] and live[following])
    if op == _BYTES:
        return bool(argument and live[following])
    if op in _ENDS:
        return True
    if op == Op.LOOP:
        least, _, body, out, _ = argument
        return bool(live[out] and (least == 0 or live[body]))
    if op == Op.PERM:
        first, later, required, out = argument
        needed = [i for i in range(len(first)) if required >> i & 1]
        return bool(live[out] and all(live[first[i]] for i in needed) and all(live[later[i]] for i in needed[1:]))
    if op == Op.AGAIN:
        _loop, target, _ = code[following]
        return bool(live[target[3]])
    return bool(live[following])
