"""Masks by xgrammar, from our export in its EBNF.

A control token is its text there: one that the grammar names may stand wherever its text may, for instance inside a
JSON string. Those that it does not name are taken out of the masks here.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from dragoman.constraint.checks import Words
from dragoman.constraint.tokens import TurnTokens
from dragoman.errors import GrammarError, UsageError
from dragoman.grammar.analysis import walk
from dragoman.grammar.nodes import Control, Grammar
from dragoman.grammar.notation.ebnf import to_ebnf
from dragoman.integrations.borrowed import Borrowed


class XgrammarCursor(Borrowed):
    """See :class:`dragoman.integrations.borrowed.Borrowed`. unnamed: control tokens that the grammar does not name."""

    engine = "xgrammar"

    def __init__(self, tokens: TurnTokens, matcher: Any, unnamed: Words) -> None:
        super().__init__(tokens)
        self._matcher = matcher
        self._unnamed = unnamed

    @staticmethod
    def vocabulary(tokens: TurnTokens) -> Any:
        """xgrammar's compiler for a vocabulary: made once, shared by all grammars."""
        try:
            import xgrammar
        except ImportError as error:
            raise UsageError(
                "masks by xgrammar need its package: pip install 'dragoman[peers]'", param="engine"
            ) from error
        names = {number: text.encode() for text, number in tokens.controls.items()}
        encoded = [names.get(at) or data or b"" for at, data in enumerate(tokens.token_bytes)]
        info = xgrammar.TokenizerInfo(
            encoded, vocab_size=tokens.size, stop_token_ids=[*tokens.eos_ids], vocab_type=xgrammar.VocabType.RAW
        )
        return xgrammar.GrammarCompiler(info, max_threads=1)

    @classmethod
    def start(cls, tokens: TurnTokens, vocabulary: Any, grammar: Grammar) -> XgrammarCursor:
        """A cursor at the grammar's start. Raises: GrammarError where xgrammar refuses the grammar."""
        import xgrammar

        try:
            compiled = vocabulary.compile_grammar(to_ebnf(grammar))
        except RuntimeError as error:
            raise GrammarError(f"xgrammar refuses the grammar: {error!s:.500}", param="engine") from error
        return cls(tokens, xgrammar.GrammarMatcher(compiled), _unnamed(tokens, grammar))

    def _mask(self) -> Words:
        row = np.zeros((1, self.words), np.int32)
        if not self._matcher.is_terminated():
            self._matcher.fill_next_token_bitmask(row, 0)
        words: Words = row[0].view(np.uint32) & ~self._unnamed
        return words

    def _take(self, token: int) -> bool:
        named = not self._unnamed[token // 32] >> np.uint32(token % 32) & 1
        return bool(named and self._matcher.accept_token(token))

    def _undo(self, count: int) -> None:
        self._matcher.rollback(count)

    def _copy(self) -> XgrammarCursor:
        return XgrammarCursor(self.tokens, self._matcher.fork(), self._unnamed)

    def _complete(self) -> bool:
        return bool(self._matcher.is_completed())

    def _forced(self) -> bytes:
        found = self._matcher.find_jump_forward_string()
        return found.encode() if isinstance(found, str) else bytes(found)


def _unnamed(tokens: TurnTokens, grammar: Grammar) -> Words:
    named = {node.text for rule in grammar.rules.values() for node in walk(rule) if isinstance(node, Control)}
    row = np.zeros((tokens.size + 31) // 32, np.uint32)
    for text, token in tokens.controls.items():
        if text not in named and token not in tokens.eos_ids:
            row[token // 32] |= np.uint32(1 << token % 32)
    return row
