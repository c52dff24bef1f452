"""What the model may write in one turn, in the notations of engines that have a grammar of their own."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from dragoman.dialect import facts
from dragoman.dialect.request import DialectRequest
from dragoman.dialect.writer.calls import CALL_RULE
from dragoman.engine import GrammarForm, GrammarSpec, Trigger
from dragoman.errors import GrammarError, LimitError
from dragoman.grammar.nodes import Grammar
from dragoman.grammar.notation.ebnf import to_ebnf
from dragoman.grammar.notation.gbnf import to_gbnf
from dragoman.grammar.notation.lark import to_lark
from dragoman.grammar.notation.rest import behind
from dragoman.grammar.notation.structural_tag import to_structural_tag
from dragoman.vocab import Vocabulary

if TYPE_CHECKING:
    from dragoman.format import ChatFormat


class TurnGrammar:
    """What the model may write in one turn, for engines with a grammar of their own.

    lazy: it applies from a trigger word on only; triggers: those words, best first.
    """

    def __init__(self, fmt: ChatFormat, request: DialectRequest) -> None:
        self._format = fmt
        self._request = request
        self.triggers: tuple[str, ...] = facts.triggers(fmt.profile, request)
        # Before a trigger a lazy grammar would let the model think on.
        self.lazy: bool = bool(self.triggers) and request.answer is None and request.reasoning_chars is None

    @property
    def constrains(self) -> bool:
        """False: anything may be written, so an engine needs no grammar."""
        request = self._request
        return bool(request.callable_tools) or request.answer is not None or request.reasoning_chars is not None

    def to_gbnf(self) -> str:
        """The grammar in llama.cpp's notation. Lazy: from the trigger on. Raises: SchemaError."""
        return to_gbnf(self._format.lazy_grammar(self._request) if self.lazy else self._from_first_token())

    def to_lark(self) -> str:
        """The grammar from the first token on in llguidance's notation. Raises: SchemaError."""
        vocab = self._format.vocab
        return to_lark(self._from_first_token(vocab), None if vocab is None else vocab.controls)

    def to_ebnf(self) -> str:
        """The grammar from the first token on in xgrammar's EBNF. Raises: SchemaError."""
        return to_ebnf(self._from_first_token())

    def to_structural_tag(self) -> dict[str, Any]:
        """The grammar from the first token on as a structural tag of xgrammar. Raises: SchemaError."""
        return to_structural_tag(self._from_first_token(), CALL_RULE)

    def _from_first_token(self, vocab: Vocabulary | None = None) -> Grammar:
        """What may be written behind the prompt."""
        return behind(self._format.writer(self._request, vocab), self._request.prefix.encode())

    def spec(self, forms: Sequence[GrammarForm] = ("gbnf",)) -> GrammarSpec | None:
        """The same in the first of ``forms`` that can say it; None: nothing is constrained. Raises: SchemaError."""
        if not self.constrains or not forms:
            return None
        for form in forms[:-1]:
            try:
                return self._spec(form)
            except (GrammarError, LimitError):  # what one notation cannot say (bytes, depth) another may
                continue
        return self._spec(forms[-1])

    def _spec(self, form: GrammarForm) -> GrammarSpec:
        return self._format.exported(self._request, form, lambda: self._written(form))

    def _written(self, form: GrammarForm) -> GrammarSpec:
        if form == "gbnf":
            return GrammarSpec(self.to_gbnf(), self.lazy, tuple(Trigger(word) for word in self.triggers))
        if form == "structural_tag":
            return GrammarSpec(json.dumps(self.to_structural_tag()), form=form)
        return GrammarSpec(self.to_lark() if form == "lark" else self.to_ebnf(), form=form)
