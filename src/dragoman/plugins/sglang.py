"""SGLang's plug-in: the tool-call parser, the reasoning parser and the grammar backend ``dragoman``.

SGLang calls :func:`register` in each of its processes (entry point group ``sglang.srt.plugins``) before it reads its
arguments, so dragoman has only to be installed beside it:
``--tool-call-parser dragoman --reasoning-parser dragoman --grammar-backend dragoman``. Each of the three works without
the others. A process that loads no plug-ins (a router, a test) imports this module and calls :func:`register` itself.
"""

from __future__ import annotations

from typing import Any

NAME = "dragoman"


def register() -> None:
    """Make the three known by name. May be called again."""
    from sglang.srt.function_call.function_call_parser import FunctionCallParser
    from sglang.srt.parser.reasoning_parser import ReasoningParser

    from dragoman.plugins.sglang_detectors import DragomanDetector, DragomanReasoningDetector

    FunctionCallParser.ToolCallParserEnum[NAME] = DragomanDetector
    ReasoningParser.DetectorMap[NAME] = DragomanReasoningDetector
    _register_backend()


def _register_backend() -> None:
    """The grammar backend; SGLang's detectors alone, as routers carry them, have no place for one."""
    try:
        from sglang.srt.arg_groups.choices import GRAMMAR_BACKEND_CHOICES
        from sglang.srt.constrained.base_grammar_backend import register_grammar_backend
    except ImportError:
        return
    register_grammar_backend(NAME, _backend)
    if NAME not in GRAMMAR_BACKEND_CHOICES:
        GRAMMAR_BACKEND_CHOICES.append(NAME)


def _backend(server_args: Any, tokenizer: Any, vocab_size: int, eos_token_ids: Any) -> Any:
    from dragoman.plugins.sglang_grammar import DragomanGrammarBackend

    return DragomanGrammarBackend(tokenizer, vocab_size)
