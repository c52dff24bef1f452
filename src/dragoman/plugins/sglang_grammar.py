"""SGLang's grammar backend ``dragoman``: our masks, over the whole turn from its first token on.

SGLang asks for a grammar by a key and, before that, shows the request's prompt: its end goes into the key, so that one
grammar holds reasoning, answer and calls, and no gate has to wait for the end of reasoning. Regular expressions are not
taken; EBNF is read as GBNF, whose rules are written alike.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

import torch
from sglang.srt.constrained.base_grammar_backend import BaseGrammarBackend, BaseGrammarObject, InvalidGrammarObject

from dragoman.constraint.constraint import Constraint
from dragoman.errors import DragomanError, UsageError
from dragoman.plugins.reading import Asked, decoder, prompt_end, turn_of
from dragoman.plugins.sglang_detectors import REQUEST
from dragoman.plugins.tokenizer import format_of, vocabulary_of

# What SGLang writes for "any JSON".
_ANY = "$$ANY$$"


class DragomanGrammar(BaseGrammarObject):  # type: ignore[misc, unused-ignore]
    """One output being written. Masks are int32 [batch, ceil(vocab / 32)]: bit i % 32 of word i // 32 = token i."""

    def __init__(self, start: Constraint, words: int) -> None:
        super().__init__()
        self._start = start
        self._words = words
        self.constraint = start.fork()

    def accept_token(self, token: int) -> None:
        """Raises: ValueError for a token that is not allowed here."""
        if not self.finished and not self.constraint.accept(token):
            raise ValueError(f"token {token} is not allowed here")

    def rollback(self, k: int) -> None:
        if k > 0:
            self.finished = False
            self.constraint.rollback(k)

    def is_terminated(self) -> bool:
        return self.constraint.ended

    def allocate_vocab_mask(self, vocab_size: int, batch_size: int, device: Any) -> Any:
        """On the CPU: masks are filled there, and moved."""
        return torch.full((batch_size, max(self._words, -(-vocab_size // 32))), -1, dtype=torch.int32)

    def fill_vocab_mask(self, vocab_mask: Any, idx: int) -> None:
        row = vocab_mask[idx]
        row[self._words :] = 0
        self.constraint.fill(row.numpy())

    @staticmethod
    def reset_vocab_mask(vocab_mask: Any) -> None:
        vocab_mask.fill_(-1)

    @staticmethod
    def move_vocab_mask(vocab_mask: Any, device: Any) -> Any:
        return vocab_mask.to(device, non_blocking=True)

    @staticmethod
    def apply_vocab_mask(logits: Any, vocab_mask: Any) -> None:
        """In place, on whatever device: logits [batch, vocab] of tokens that are not allowed become -inf."""
        shifts = torch.arange(32, device=vocab_mask.device, dtype=torch.int32)
        bits = (vocab_mask.unsqueeze(-1) >> shifts) & 1
        allowed = bits.reshape(vocab_mask.shape[0], -1).bool()
        width = min(allowed.shape[1], logits.shape[1])
        logits[:, :width].masked_fill_(~allowed[:, :width], float("-inf"))
        logits[:, width:] = float("-inf")

    def copy(self) -> DragomanGrammar:
        """The same grammar at its beginning."""
        return DragomanGrammar(self._start, self._words)

    def try_jump_forward(self, tokenizer: Any) -> None:
        """SGLang's scheduler has no caller for it."""
        return


class DragomanGrammarBackend(BaseGrammarBackend):  # type: ignore[misc, unused-ignore]
    """Grammars of one model. vocab_size: the number of its logits.

    Raises: UsageError for a tokenizer without a tokenizer.json, TemplateError without a chat template.
    """

    def __init__(self, tokenizer: Any, vocab_size: int) -> None:
        super().__init__()
        vocab = vocabulary_of(tokenizer, size=vocab_size)
        if vocab is None:
            raise UsageError(
                "the grammar backend dragoman needs a tokenizer with a tokenizer.json; "
                f"{type(tokenizer).__name__} has none. Take --grammar-backend xgrammar",
                param="tokenizer",
            )
        self.format = format_of(tokenizer).with_vocab(vocab)
        self._words = -(-vocab.size // 32)
        self._decode = decoder(self.format, tokenizer)

    def get_request_grammar_key(
        self, key: tuple[str, str], *, input_ids: Sequence[int], thinking_budget: int | None = None
    ) -> tuple[str, str]:
        """The key with the prompt's end, on which the grammar depends too."""
        return key[0], json.dumps([key[1], prompt_end(self.format, list(input_ids), self._decode)])

    def dispatch_json(self, key_string: str) -> Any:
        def asked(text: str, end: str | None) -> Any:
            form = {"type": "json_object"} if text == _ANY else _schema(json.loads(text))
            return self._grammar(Asked(response_format=form, prompt_end=end))

        return self._made("json", key_string, asked)

    def dispatch_ebnf(self, key_string: str) -> Any:
        return self._made("ebnf", key_string, lambda text, end: self._grammar(Asked(grammar=text, prompt_end=end)))

    def dispatch_structural_tag(self, key_string: str) -> Any:
        def asked(text: str, end: str | None) -> Any:
            request = json.loads(text).get(REQUEST)
            if not isinstance(request, Mapping):
                raise UsageError(
                    "the grammar backend dragoman takes the structural tags of --tool-call-parser dragoman only"
                )
            return self._grammar(
                Asked(
                    tools=tuple(request["tools"]),
                    tool_choice=request["tool_choice"],
                    parallel=request["parallel"],
                    prompt_end=end,
                )
            )

        return self._made("structural_tag", key_string, asked)

    def dispatch_regex(self, key_string: str) -> Any:
        return InvalidGrammarObject(
            "the grammar backend dragoman takes no regular expressions: use ebnf or json_schema"
        )

    def _made(self, kind: str, key_string: str, make: Any) -> Any:
        try:
            text, end = _parts(key_string)
            return make(text, end)
        except (DragomanError, ValueError) as error:
            return InvalidGrammarObject(f"{kind}: {error}")

    def _grammar(self, asked: Asked) -> DragomanGrammar:
        return DragomanGrammar(turn_of(self.format, asked).constraint(), self._words)


def _parts(key_string: str) -> tuple[str, str | None]:
    """A key as :meth:`DragomanGrammarBackend.get_request_grammar_key` made it, or a bare one."""
    try:
        found = json.loads(key_string)
    except ValueError:
        return key_string, None
    if isinstance(found, list) and len(found) == 2 and isinstance(found[0], str):
        return found[0], found[1]
    return key_string, None


def _schema(schema: Any) -> dict[str, Any]:
    return {"type": "json_schema", "json_schema": {"name": "answer", "schema": schema}}
