"""A stand-in for vLLM where it is not installed: the classes that a plug-in subclasses, registers with and returns.

Written from vLLM's documented plug-in surface, with the attributes and calls that our plug-in relies on. What the real
classes do with it is shown by the same tests in ``make test-engines``.
"""

from __future__ import annotations

import importlib
import sys
from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import IntEnum
from types import ModuleType, SimpleNamespace
from typing import Any


class VLLMValidationError(Exception):
    def __init__(self, message: str, *, parameter: str | None = None) -> None:
        super().__init__(message)
        self.parameter = parameter


@dataclass
class DeltaFunctionCall:
    name: str | None = None
    arguments: str | None = None


@dataclass
class DeltaToolCall:
    index: int
    id: str | None = None
    type: str | None = None
    function: DeltaFunctionCall | None = None


@dataclass
class DeltaMessage:
    content: str | None = None
    reasoning: str | None = None
    tool_calls: list[DeltaToolCall] = field(default_factory=list)


@dataclass
class FunctionCall:
    name: str
    arguments: str
    id: str | None = None


@dataclass
class ToolCall:
    function: FunctionCall
    id: str = ""
    type: str = "function"


@dataclass
class ExtractedToolCallInformation:
    tools_called: bool
    tool_calls: list[ToolCall]
    content: str | None = None


@dataclass
class StructuredOutputsParams:
    json: Any = None
    regex: str | None = None
    json_object: bool | None = None
    structural_tag: str | None = None


class ToolStrictLevel(IntEnum):
    AUTO = 0
    FUNCTION = 1
    PARAMETER = 2


class ToolParser:
    supports_required_and_named = True
    structural_tag_model: str | None = None
    default_tool_strict_level = ToolStrictLevel.AUTO
    engine_based_streaming = False

    def __init__(self, tokenizer: Any, tools: Any = None) -> None:
        self.prev_tool_call_arr: list[dict[str, Any]] = []
        self.current_tool_id = -1
        self.current_tool_name_sent = False
        self.streamed_args_for_tool: list[str] = []
        self.model_tokenizer = tokenizer
        self.tools = list(tools or [])

    def get_remaining_unstreamed_args(self) -> str:
        if not self.prev_tool_call_arr:
            return ""
        last = len(self.prev_tool_call_arr) - 1
        return str(self.prev_tool_call_arr[last]["arguments"]).removeprefix(self.streamed_args_for_tool[last])


class ReasoningParser:
    engine_based_streaming = False

    def __init__(self, tokenizer: Any, *args: Any, **kwargs: Any) -> None:
        self.model_tokenizer = tokenizer


class _Manager:
    """A registry with lazy entries; each subclass has its own."""

    lazy_parsers: dict[str, tuple[str, str]]

    def __init_subclass__(cls) -> None:
        cls.lazy_parsers = {}

    @classmethod
    def register_lazy_module(cls, name: str, module_path: str, class_name: str) -> None:
        cls.lazy_parsers[name] = (module_path, class_name)

    @classmethod
    def list_registered(cls) -> list[str]:
        return sorted(cls.lazy_parsers)

    @classmethod
    def load(cls, name: str) -> Any:
        module, class_name = cls.lazy_parsers[name]
        return getattr(importlib.import_module(module), class_name)


class ToolParserManager(_Manager):
    @classmethod
    def get_tool_parser(cls, name: str) -> Any:
        return cls.load(name)


class ReasoningParserManager(_Manager):
    @classmethod
    def get_reasoning_parser(cls, name: str) -> Any:
        return cls.load(name)


class Parser:
    reasoning_parser_cls: Any = None
    tool_parser_cls: Any = None
    tool_strict_level: Any = None
    always_adjust_request = False

    def __init__(self, tokenizer: Any, tools: Any = None, *args: Any, model_config: Any = None, **kwargs: Any) -> None:
        self.model_tokenizer = tokenizer
        self._reasoning_parser = self._tool_parser = None
        if self.reasoning_parser_cls is not None:
            self._reasoning_parser = self.reasoning_parser_cls(tokenizer, model_config=model_config, **kwargs)
        if self.tool_parser_cls is not None:
            self._tool_parser = self.tool_parser_cls(tokenizer, tools)


class ParserManager:
    @classmethod
    def get_parser(
        cls,
        tool_parser_name: str | None = None,
        reasoning_parser_name: str | None = None,
        enable_auto_tools: bool = False,
        tokenizer: Any = None,
        **_: Any,
    ) -> Any:
        reasoning = reasoning_parser_name and ReasoningParserManager.get_reasoning_parser(reasoning_parser_name)
        tools = tool_parser_name and enable_auto_tools and ToolParserManager.get_tool_parser(tool_parser_name)
        if not reasoning and not tools:
            return None
        parts = {"reasoning_parser_cls": reasoning or None, "tool_parser_cls": tools or None}
        made = type("Composed", (Parser,), parts)
        if tokenizer is not None:
            try:
                made(tokenizer)
            except Exception as error:
                raise TypeError(f"cannot be used with the tokenizer: {error}") from error
        return made


class Request(SimpleNamespace):
    """A chat request, as far as parsers look at it."""

    def extract_structured_outputs(self) -> StructuredOutputsParams | None:
        form = self.response_format or {}
        if form.get("type") == "json_schema":
            return StructuredOutputsParams(json=form["json_schema"]["schema"])
        found: StructuredOutputsParams | None = self.structured_outputs
        return found


def request(**given: Any) -> Request:
    plain = {"stop": [], "structured_outputs": None, "response_format": None, "parallel_tool_calls": None}
    plain |= {"include_reasoning": True, "skip_special_tokens": True, "spaces_between_special_tokens": True}
    return Request(**{**plain, "tools": [], "tool_choice": "auto", "_grammar_from_parser": False, **given})


def install() -> None:
    """Put the modules where imports look for them."""
    places: dict[str, Sequence[Any]] = {
        "vllm": (),
        "vllm.exceptions": (VLLMValidationError,),
        "vllm.tool_parsers": (ToolParserManager,),
        "vllm.tool_parsers.abstract_tool_parser": (ToolParser, DeltaMessage, StructuredOutputsParams),
        "vllm.reasoning": (ReasoningParserManager,),
        "vllm.reasoning.abs_reasoning_parsers": (ReasoningParser,),
        "vllm.parser": (ParserManager,),
        "vllm.parser.abstract_parser": (Parser,),
    }
    for name, members in places.items():
        module = ModuleType(name)
        module.__path__ = []  # a package, so that what is missing in it is an ImportError
        module.__dict__.update({member.__name__: member for member in members})
        module.__dict__["STAND_IN"] = True
        sys.modules[name] = module
        parent, _, last = name.rpartition(".")
        if parent:
            setattr(sys.modules[parent], last, module)
    base = sys.modules["vllm.tool_parsers.abstract_tool_parser"]
    base.__dict__["envs"] = SimpleNamespace(VLLM_ENFORCE_STRICT_TOOL_CALLING=True)
