"""vLLM's general plug-in: the tool parser and the reasoning parser ``dragoman``.

vLLM calls :func:`register` in each of its processes (entry point group ``vllm.general_plugins``), so dragoman has only
to be installed beside it; ``--tool-call-parser dragoman --reasoning-parser dragoman`` then choose the parsers.
"""

from __future__ import annotations

from functools import wraps
from typing import Any

NAME = "dragoman"
_WRAPPED = "_dragoman_wrapped"


def register() -> None:
    """Make both parsers known by name; nothing of them is imported before one is chosen. May be called again.

    vLLM composes a tool parser and a reasoning parser into one that hands text from the second to the first. Where one
    of them is ours and no stranger is beside it, the composed parser is replaced by one that reads the whole turn.
    """
    from vllm.parser import ParserManager
    from vllm.reasoning import ReasoningParserManager
    from vllm.tool_parsers import ToolParserManager

    ToolParserManager.register_lazy_module(NAME, "dragoman.plugins.vllm_tools", "DragomanToolParser")
    ReasoningParserManager.register_lazy_module(NAME, "dragoman.plugins.vllm_reasoning", "DragomanReasoningParser")
    composed = ParserManager.get_parser
    if getattr(composed, _WRAPPED, False):
        return

    @wraps(composed)
    def get_parser(*args: Any, **kwargs: Any) -> Any:
        found = composed(*args, **kwargs)
        if found is None or not _ours(found):
            return found
        from dragoman.plugins.vllm_parser import whole_turn

        return whole_turn(found)

    setattr(get_parser, _WRAPPED, True)
    ParserManager.get_parser = staticmethod(get_parser)


def _ours(composed: Any) -> bool:
    """True: at least one part of a composed parser is ours, and none is another's."""
    parts = [part for part in (composed.reasoning_parser_cls, composed.tool_parser_cls) if part is not None]
    return bool(parts) and all(getattr(part, "is_dragoman", False) for part in parts)
