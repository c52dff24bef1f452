"""Programs, states and grammar trees as text for people: debugging is a feature, not a print."""

from __future__ import annotations

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
    for at, (op, argument, following) in enumerate(program.code):
        if at in program.rule_at:
            lines.append(f"{program.rule_at[at]}:")
        shown = byte_set(argument) if op == Op.BYTES else "" if argument is None else str(argument)
        after = "" if following < 0 else f" -> {following}"
        lines.append(f"{at:6d}{' ' if program.live[at] else 'x'} {Op(op).name:14s} {shown}{after}")
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
        return repr(node.data.decode("utf-8", "backslashreplace"))
    if isinstance(node, n.Sequence):
        return " ".join(f"({tree(i)})" if isinstance(i, n.Choice) else tree(i) for i in node.items)
    if isinstance(node, n.Choice):
        return " / ".join(tree(item) for item in node.items) or "nothing"
    if isinstance(node, n.Repeat):
        most = "" if node.max is None else str(node.max)
        suffix = {(0, None): "*", (1, None): "+", (0, 1): "?"}.get((node.min, node.max), f"{{{node.min},{most}}}")
        return f"({tree(node.item)}){suffix}{'?' if node.lazy else ''}"
    if isinstance(node, n.Tag):
        return f"<{node.name}: {tree(node.item)}>"
    if isinstance(node, n.Ref):
        return node.name
    if isinstance(node, n.Class):
        return "[" + "".join(f"{chr(a)!r}-{chr(b)!r} " for a, b in node.ranges).strip() + "]"
    if isinstance(node, n.Duplex):
        return f"read({tree(node.reader)}) write({tree(node.writer)})"
    return _other(node)


def _other(node: n.Node) -> str:
    if isinstance(node, n.AnyChar):
        return "."
    if isinstance(node, n.Until):
        return f"until({', '.join(map(repr, node.delimiters))})"
    if isinstance(node, n.UntilConfirmed):
        return f"until_confirmed({node.closer!r}, {tree(node.follow)})"
    if isinstance(node, n.Without):
        return f"without({tree(node.item)}; {', '.join(map(repr, node.forbidden))})"
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


def grammar(grammar: n.Grammar) -> str:
    """Every rule of a grammar tree, a line each; the start rule first."""
    names = [grammar.start, *(name for name in grammar.rules if name != grammar.start)]
    lines = [f"{name} = {tree(grammar.rules[name])}" for name in names]
    lines += [f"# after {label}: {point.rule}, open: {list(point.keep)}" for label, point in grammar.recovery.items()]
    return "\n".join(lines)
