"""Masks by llguidance, from our export in its dialect of Lark.

Its own policy: where one token is forced, its mask holds that token alone, though other tokens spell the same text.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from dragoman.constraint.checks import Words
from dragoman.constraint.tokens import TurnTokens
from dragoman.errors import GrammarError, UsageError
from dragoman.grammar.nodes import Grammar
from dragoman.grammar.notation.lark import to_lark
from dragoman.integrations.borrowed import Borrowed


class LlguidanceCursor(Borrowed):
    """See :class:`dragoman.integrations.borrowed.Borrowed`."""

    engine = "llguidance"

    def __init__(self, tokens: TurnTokens, matcher: Any) -> None:
        super().__init__(tokens)
        self._matcher = matcher

    @staticmethod
    def vocabulary(tokens: TurnTokens) -> Any:
        """llguidance's own form of a vocabulary: made once, shared by all grammars."""
        try:
            import llguidance
            from llguidance._tokenizer import TokenizerWrapper
        except ImportError as error:
            raise UsageError(
                "masks by llguidance need its package: pip install 'dragoman[peers]'", param="engine"
            ) from error
        if not tokens.eos_ids:
            raise UsageError("llguidance needs a token that ends the turn, the vocabulary has none", param="vocab")
        return llguidance.LLTokenizer(TokenizerWrapper(_Tokens(tokens)))

    @classmethod
    def start(cls, tokens: TurnTokens, vocabulary: Any, grammar: Grammar) -> LlguidanceCursor:
        """A cursor at the grammar's start. Raises: GrammarError where llguidance refuses the grammar."""
        import llguidance

        lark = llguidance.LLMatcher.grammar_from_lark(to_lark(grammar, tokens.controls))
        matcher = llguidance.LLMatcher(vocabulary, lark)
        if matcher.is_error():
            raise GrammarError(f"llguidance refuses the grammar: {matcher.get_error():.500}", param="engine")
        return cls(tokens, matcher)

    def _mask(self) -> Words:
        row = np.zeros(self.words, np.int32)
        if self._matcher.is_stopped():  # it would allow its end of turn
            return row.view(np.uint32)
        self._matcher.unsafe_compute_mask_ptr(row.ctypes.data, row.nbytes)
        self._checked()
        return row.view(np.uint32)

    def _take(self, token: int) -> bool:
        if self._matcher.is_stopped():
            return False
        taken = bool(self._matcher.try_consume_tokens([token]))
        self._checked()
        return taken

    def _undo(self, count: int) -> None:
        self._matcher.rollback(count)
        self._checked()

    def _copy(self) -> LlguidanceCursor:
        return LlguidanceCursor(self.tokens, self._matcher.deep_copy())

    def _complete(self) -> bool:
        return bool(self._matcher.is_accepting())

    def _forced(self) -> bytes:
        return bytes(self._matcher.compute_ff_bytes())

    def _checked(self) -> None:
        """An error of llguidance stays for good, and its masks mean nothing from then on."""
        if self._matcher.is_error():
            raise GrammarError(f"llguidance gave up: {self._matcher.get_error():.500}", param="engine")


class _Tokens:
    """A vocabulary as llguidance reads it."""

    bos_token_id = None

    def __init__(self, tokens: TurnTokens) -> None:
        names = {number: text.encode() for text, number in tokens.controls.items()}
        self.eos_token_id = tokens.eos_ids[0]
        self.tokens = tuple(names.get(at) or data or b"" for at, data in enumerate(tokens.token_bytes))
        self.special_token_ids = tuple(sorted(names))
        self._encode = tokens.encode

    def __call__(self, text: bytes | str) -> list[int]:
        return list(self._encode(text.decode() if isinstance(text, bytes) else text))
