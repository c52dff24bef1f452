"""Programs, states and grammar trees as text for people: debugging is a feature, not a print."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import fields, is_dataclass

from dragoman.grammar import nodes as n
from dragoman.grammar.frames import Frame
from dragoman.grammar.machine import Machine, State
from dragoman.grammar.program import Op, Program


def _byte(value: int) -> str:
    char = chr(value)
    return char if 0x20 < value < 0x7F and char not in "\\-]" else f"\\x{value:02x}"


def byte_set(bits: int) -> str:
    """A set of bytes as a character class; ``~`` marks a complement."""
    members = [b for b in range(256) if bits >> b & 1]
    if len(members) > 128:
        return "~" + byte_set(~bits & ((1 << 256) - 1))
    out, at = "", 0
    while at < len(members):
        end = at
        while end + 1 < len(members) and members[end + 1] == members[end] + 1:
            end += 1
        first, last = _byte(members[at]), _byte(members[end])
        out += first if at == end else f"{first}-{last}"
        at = end + 1
    return f"[{out}]"


def program(program: Program) -> str:
    """One line an instruction: index, operation, argument, successor; dead code is marked ``x``, rules are named."""
    lines = [f"# {'reader' if program.ordered else 'writer'} program, {len(program)} instructions"]
    rule_at = {at: name for name, at in program.rule_entry.items()}
    for at, (op, argument, following) in enumerate(program.code):
        if at in rule_at:
            lines.append(f"{rule_at[at]}:")
        shown = byte_set(argument) if op == Op.BYTES else "" if argument is None else str(argument)
        after = "" if following < 0 else f" -> {following}"
        dead = at < len(program.live) and not program.live[at]
        lines.append(f"{at:6d}{'x' if dead else ' '} {Op(op).name:14s} {shown}{after}")
    entries = ", ".join(f"{name} at {at}" for name, at in program.entries.items())
    return "\n".join([*lines, f"# entries: {entries}"])


def _frame(frame: Frame, seen: int = 0) -> str:
    if not frame.links:
        return "."
    if seen > 8:
        return "..."
    parts = (f"{at}{f'#{k}' if k else ''}>{_frame(parent, seen + 1)}" for at, k, parent in frame.links if parent)
    return "{" + " ".join(parts) + "}"


def state(machine: Machine, state: State) -> str:
    """The threads of a state, best first: instruction, frame (return address > ...), look-ahead, history class."""
    lines = [f"# state {state.number}: {len(state.threads)} threads, {state.classes} histories"]
    for at, frame, guard, history in state.threads:
        op, argument, _ = machine.program.code[at]
        shown = byte_set(argument) if op == Op.BYTES else "" if argument is None else str(argument)
        condition = f" if {machine.guards.describe(guard)}" if guard else ""
        lines.append(f"{at:6d} {Op(op).name:8s} {shown:20s} frame {_frame(frame)} history {history}{condition}")
    return "\n".join(lines)


def tree(node: n.Node) -> str:
    """A node in a notation near to the one of the papers: 'x' literals, / choice, * + ? {m,n} repeats, <tag: ...>."""
    if isinstance(node, n.Literal):
        return _texts([node.data])
    if isinstance(node, n.Sequence):
        return " ".join(f"({tree(i)})" if isinstance(i, n.Choice) and not _optional(i) else tree(i) for i in node.items)
    if isinstance(node, n.Choice):
        return _choice(node)
    if isinstance(node, n.Repeat):
        most = "" if node.max is None else str(node.max)
        exact = str(node.min) if node.max == node.min else f"{node.min},{most}"
        suffix = {(0, None): "*", (1, None): "+", (0, 1): "?"}.get((node.min, node.max), f"{{{exact}}}")
        return f"{_one(node.item)}{suffix}{'?' if node.lazy else ''}"
    if isinstance(node, n.Tag):
        return f"<{node.name}: {tree(node.item)}>"
    if isinstance(node, n.Ref):
        return node.name
    if isinstance(node, n.Class):
        return "[" + "".join(_span(a, b) for a, b in node.ranges) + "]"
    if isinstance(node, n.Duplex):
        return f"read({tree(node.reader)}) write({tree(node.writer)})"
    return _other(node)


def _texts(data: Iterable[bytes]) -> str:
    return ", ".join(repr(each.decode("utf-8", "backslashreplace")) for each in data)


def _choice(node: n.Choice) -> str:
    """The ways; where nothing is one of them, the others with a question mark, ``??`` where nothing comes first."""
    if not _optional(node):
        return " / ".join(map(tree, node.items)) or "nothing"
    ways = [item for item in node.items if not _is_nothing(item)]
    inner = _one(ways[0]) if len(ways) == 1 else f"({' / '.join(map(tree, ways))})"
    return inner + ("??" if _is_nothing(node.items[0]) else "?")


def _optional(node: n.Choice) -> bool:
    """True: one way is nothing, and there are others."""
    empty = sum(map(_is_nothing, node.items))
    return 0 < empty < len(node.items)


def _is_nothing(node: n.Node) -> bool:
    return (isinstance(node, n.Literal) and not node.data) or (isinstance(node, n.Sequence) and not node.items)


def _one(node: n.Node) -> str:
    """The node as one thing that a suffix can stand behind."""
    return tree(node) if isinstance(node, n.Literal | n.Class | n.AnyChar | n.Ref | n.Tag) else f"({tree(node)})"


def _span(first: int, last: int) -> str:
    if last - first < 2:
        return "".join(_character(code) for code in range(first, last + 1))
    return f"{_character(first)}-{_character(last)}"


def _character(code: int) -> str:
    text = chr(code)
    if text in "\\-]^":
        return "\\" + text
    if code == 0x20 or (text.isprintable() and code < 0xE000):
        return text
    return text.encode("unicode_escape").decode()


def _other(node: n.Node) -> str:
    if isinstance(node, n.AnyChar):
        return "."
    if isinstance(node, n.Until):
        return f"until({_texts(node.delimiters)})"
    if isinstance(node, n.UntilConfirmed):
        return f"until_confirmed({_texts([node.closer])}, {tree(node.follow)})"
    if isinstance(node, n.Without):
        return f"without({tree(node.item)}; {_texts(node.forbidden)})"
    if isinstance(node, n.Peek | n.Negate | n.Atomic):
        return f"{type(node).__name__.lower()}({tree(node.item)})"
    if isinstance(node, n.Commit):
        return f"commit({node.label})"
    if isinstance(node, n.Control):
        return f"control({node.text!r})"
    if isinstance(node, n.Permutation):
        items = (f"{tree(i)}{'' if needed else '?'}" for i, needed in zip(node.items, node.required, strict=True))
        return f"permutation({', '.join(items)}; {tree(node.separator)})"
    assert isinstance(node, n.Schema | n.Gbnf)
    return f"{type(node).__name__.lower()}({node.text})"


def rules(grammar: n.Grammar) -> list[tuple[str, list[str]]]:
    """Every rule of a grammar tree with its ways, best first; the start rule first."""
    names = [grammar.start, *(name for name in grammar.rules if name != grammar.start)]
    return [(name, _ways(grammar.rules[name])) for name in names]


def _ways(node: n.Node) -> list[str]:
    return [tree(item) for item in node.items] if isinstance(node, n.Choice) and not _optional(node) else [tree(node)]


def grammar(grammar: n.Grammar) -> str:
    """Every rule of a grammar tree, a line each; the start rule first."""
    lines = [f"{name} = {' / '.join(ways) or 'nothing'}" for name, ways in rules(grammar)]
    lines += [f"# after {label}: {point.rule}, open: {list(point.keep)}" for label, point in grammar.recovery.items()]
    return "\n".join(lines)


def references(grammar: n.Grammar) -> dict[str, list[str]]:
    """rule -> the rules that it names, in the order in which they stand there."""
    return {name: _named(node) for name, node in grammar.rules.items()}


def _named(node: n.Node) -> list[str]:
    found: dict[str, None] = {}
    stack: list[object] = [node]
    while stack:
        top = stack.pop()
        if isinstance(top, n.Ref):
            found[top.name] = None
        elif isinstance(top, n.Schema):
            continue  # its rules are its own
        elif isinstance(top, tuple):
            stack.extend(reversed(top))
        elif is_dataclass(top):
            stack.extend(getattr(top, item.name) for item in reversed(fields(top)))
    return list(found)
