"""Code of rules made of characters alone, kept so that it can be put into other programs."""

from __future__ import annotations

from typing import Any, TypeAlias

from dragoman.grammar.program import Op

Code: TypeAlias = tuple[int, Any, int]
_BYTES, _SPLIT = int(Op.BYTES), int(Op.SPLIT)


class Block:
    """Code that can stand anywhere, with a return of its own: its targets lie inside of it and are told from its start.

    sets: the sets of bytes in it.
    """

    __slots__ = ("_args", "_following", "_ops", "_targets", "entry", "sets")

    def __init__(self, code: list[Code], base: int, entry: int) -> None:
        self._ops = [op for op, _, _ in code]
        self._args = [argument for _, argument, _ in code]
        self._following = [following - base for _, _, following in code]
        self._targets = [(at, code[at]) for at, op in enumerate(self._ops) if op not in (_BYTES, Op.JUMP)]
        self._targets = [(at, _moved(instruction, -base)) for at, instruction in self._targets]
        self.entry = entry - base
        self.sets = {argument for op, argument, _ in code if op == _BYTES}

    def add(self, code: list[Code]) -> int:
        """Put it behind ``code``; its entry there."""
        base = len(code)
        code += zip(self._ops, self._args, [at + base for at in self._following], strict=True)
        for at, instruction in self._targets:
            code[base + at] = _moved(instruction, base)
        return base + self.entry


def _moved(instruction: Code, by: int) -> Code:
    op, argument, following = instruction
    if op == _SPLIT:
        return op, tuple([target + by for target in argument]), -1
    if op == Op.LOOP:
        argument = (*argument[:2], argument[2] + by, argument[3] + by, argument[4])
    return op, argument, following if following < 0 else following + by
