"""vLLM's requests and messages, to and from ours."""

from __future__ import annotations

import importlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from vllm.tool_parsers import abstract_tool_parser

from dragoman.chat import Delta, Message
from dragoman.errors import DragomanError, SchemaError
from dragoman.format import ChatFormat
from dragoman.plugins.reading import Asked, summary, turn_of
from dragoman.template.profile import ReasoningMode

# The messages' module has moved between versions; the base class of parsers knows where it is.
protocol: Any = importlib.import_module(abstract_tool_parser.DeltaMessage.__module__)
# ToolStrictLevel: tags for strict tools only; for the frame of every call; for all arguments too.
AUTO, FUNCTION, PARAMETER = 0, 1, 2


def asked_of(
    request: Any,
    *,
    variables: Mapping[str, Any],
    prompt_end: str | None,
    read_reasoning: bool = True,
    read_tools: bool = True,
) -> Asked:
    """What a chat or responses request asks. read_tools: False where vLLM has no tool parser for it."""
    choice = _choice(getattr(request, "tool_choice", None))
    tools = _tools(getattr(request, "tools", None) or ()) if read_tools else ()
    return Asked(
        tools=tools,
        tool_choice=choice if tools else "none",
        parallel=False if getattr(request, "parallel_tool_calls", None) is False else None,
        variables=variables,
        prompt_end=prompt_end,
        read_reasoning=read_reasoning,
    )


def _tools(tools: Sequence[Any]) -> tuple[Mapping[str, Any], ...]:
    """The functions as the chat protocol writes them; other kinds of tools are never shown to a model."""
    try:
        from vllm.tool_parsers.utils import get_function_tools
    except ImportError:  # versions before namespaces and custom tools
        shown = list(tools)
    else:
        shown = get_function_tools(tools)
    found = [tool if isinstance(tool, Mapping) else tool.model_dump(mode="json", exclude_none=True) for tool in shown]
    return tuple(
        tool if "function" in tool else {"type": "function", "function": tool}
        for tool in found
        if tool.get("type") == "function"
    )


def _choice(choice: Any) -> Any:
    if choice is None or isinstance(choice, str):
        return choice or "auto"
    value = choice if isinstance(choice, Mapping) else choice.model_dump(mode="json", exclude_none=True)
    kind = value.get("type")
    if kind == "custom":
        return {"type": "function", "name": value.get("name")}
    return value if kind in ("function", "allowed_tools") else "auto"


def delta_message(deltas: Sequence[Delta]) -> Any:
    """A DeltaMessage of some deltas, None where they say nothing. Pieces of one call are one entry."""
    reasoning = "".join(delta.reasoning_content for delta in deltas)
    content = "".join(delta.content for delta in deltas)
    calls: list[Any] = []
    for piece in (piece for delta in deltas for piece in delta.tool_calls):
        if calls and calls[-1].index == piece.index:
            calls[-1].function.arguments += piece.arguments
            continue
        function = protocol.DeltaFunctionCall(name=piece.name, arguments=piece.arguments)
        first = {"id": piece.id, "type": "function"} if piece.name is not None else {"id": None, "type": None}
        calls.append(protocol.DeltaToolCall(index=piece.index, function=function, **first))
    fields: dict[str, Any] = {}
    if reasoning:
        fields["reasoning"] = reasoning
    if content:
        fields["content"] = content
    if calls:
        fields["tool_calls"] = calls
    return protocol.DeltaMessage(**fields) if fields else None


def extracted(message: Message) -> Any:
    """ExtractedToolCallInformation of a whole message."""
    calls = [
        protocol.ToolCall(
            id=call.id,
            type="function",
            function=protocol.FunctionCall(name=call.name, arguments=call.arguments),
        )
        for call in message.tool_calls
    ]
    return protocol.ExtractedToolCallInformation(
        tools_called=bool(calls), tool_calls=calls, content=message.content or None
    )


# Constraints.


def constrained(fmt: ChatFormat, asked: Asked, request: Any, level: int | None) -> dict[str, Any] | None:
    """The structural tag of a request's output from its first token on; None where nothing has to be enforced.

    level: vLLM's ToolStrictLevel. Raises: vLLM's validation error for what cannot be enforced.
    """
    try:
        answer = _answer(request)
        other = answer is None and _structured(request) is not None
        forced = asked.tool_choice == "required" or isinstance(asked.tool_choice, Mapping)
        held = bool(asked.tools) and (forced or _held(asked, level or AUTO))
        if asked.tools and asked.tool_choice != "none":
            turn_of(fmt, asked)  # tools that this format cannot carry are refused here, not in the middle of an answer
        if other and not forced:
            return None  # a regex, a grammar: vLLM's own, and it leaves no room for calls
        if forced:
            answer = None
        thinks = fmt.profile.reasoning.mode is not ReasoningMode.NONE
        if not held and not (answer and (thinks or asked.tools)):
            return None
        return _tag(fmt, asked, answer, level or AUTO, must=held)
    except DragomanError as error:
        raise refusal(error) from error


def _tag(
    fmt: ChatFormat, asked: Asked, answer: Mapping[str, Any] | None, level: int, *, must: bool
) -> dict[str, Any] | None:
    tried = [asked.tools]
    if level < PARAMETER:
        # Only strict tools promise their arguments; the others' schemas hold as far as they can be enforced.
        tried.append(tuple(tool if _strict(tool) else _without_schema(tool) for tool in asked.tools))
    for tools in tried:
        turn = turn_of(fmt, replace(asked, tools=tools, response_format=answer))
        try:
            return turn.grammar.to_structural_tag()
        except SchemaError:
            if tools is not tried[-1]:
                continue
            if must:
                raise
    return None  # the answer's schema is left to vLLM, which may know the keyword


def _held(asked: Asked, level: int) -> bool:
    if asked.tool_choice == "none":
        return False
    return level >= FUNCTION or asked.parallel is False or any(map(_strict, asked.tools))


def _strict(tool: Mapping[str, Any]) -> bool:
    return tool["function"].get("strict") is True


def _without_schema(tool: Mapping[str, Any]) -> dict[str, Any]:
    return {**tool, "function": {**tool["function"], "parameters": None}}


def _structured(request: Any) -> Any:
    extract = getattr(request, "extract_structured_outputs", None)
    return extract() if extract is not None else getattr(request, "structured_outputs", None)


def _answer(request: Any) -> dict[str, Any] | None:
    """The answer's form in our words, where it is JSON."""
    found = _structured(request)
    if found is None:
        return None
    if getattr(found, "json_object", None):
        return {"type": "json_object"}
    schema = getattr(found, "json", None)
    if schema is None:
        return None
    if isinstance(schema, str):
        schema = json.loads(schema)
    return {"type": "json_schema", "json_schema": {"name": "answer", "schema": schema}}


def constrain(request: Any, tag: dict[str, Any] | None) -> Any:
    """Put a tag into a request, and keep the markers in its text. The same request."""
    request.skip_special_tokens = False
    if hasattr(request, "spaces_between_special_tokens"):
        request.spaces_between_special_tokens = False
    if tag is None:
        return request
    request.structured_outputs = abstract_tool_parser.StructuredOutputsParams(structural_tag=json.dumps(tag))
    if hasattr(request, "response_format"):
        request.response_format = None
    elif hasattr(request, "text"):
        request.text = None
    if holds_reasoning(request):
        request._grammar_from_parser = True  # vLLM must not wait for the end of reasoning
    return request


def holds_reasoning(request: Any) -> bool:
    """True: a tag may begin with the first token. Responses of older versions are held from behind reasoning only."""
    return hasattr(request, "_grammar_from_parser")


def reads_text(request: Any) -> bool:
    """True: the text tells more than the ids: stop strings cut it, or a structural tag, which is of text, held it."""
    held = getattr(getattr(request, "structured_outputs", None), "structural_tag", None) is not None
    return held or bool(getattr(request, "stop", None)) or bool(getattr(request, "_grammar_from_parser", False))


def refusal(error: DragomanError) -> Exception:
    """vLLM's error for a request that cannot be done: a 400."""
    message, param = summary(error)
    try:
        from vllm.exceptions import VLLMValidationError
    except ImportError:
        return ValueError(message)
    made: Exception = VLLMValidationError(message, parameter=param)
    return made


def enforces() -> bool:
    """False: the operator switched structural tags for calls off (VLLM_ENFORCE_STRICT_TOOL_CALLING=0)."""
    return bool(getattr(abstract_tool_parser.envs, "VLLM_ENFORCE_STRICT_TOOL_CALLING", True))
