"""transformers: the learned format as a tokenizer's ``response_template``, so that ``parse_response`` reads the model.

The masks of a turn, as a LogitsProcessor for ``generate``, are another matter: see what runs a model in this process.
"""

from __future__ import annotations

from typing import Any, TypeVar

from dragoman.dialect.response_template import response_template
from dragoman.plugins.tokenizer import format_of

TokenizerT = TypeVar("TokenizerT")


def attach(tokenizer: TokenizerT, *, serving: bool = False) -> TokenizerT:
    """Set ``tokenizer.response_template`` to what its chat template shows. The same tokenizer.

    It is saved with the tokenizer. ``tokenizer.parse_response(output, prefix=prompt, tools=tools)`` then gives the
    message; the prompt tells whether reasoning was opened, the tools which type an argument has.
    serving: for vLLM's and SGLang's stock parsers (``hf``, ``response_template``), which take a narrower form: one
    block of reasoning, and where a format closes a section behind its calls, they stream that closer as text.
    Raises: UsageError where the notation cannot express the format, TemplateError for a tokenizer without a template.
    """
    _set(tokenizer, response_template(format_of(tokenizer).profile, serving=serving))
    return tokenizer


def _set(tokenizer: Any, template: dict[str, Any]) -> None:
    tokenizer.response_template = template
