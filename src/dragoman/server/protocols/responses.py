"""``/v1/responses``, without a memory: the request's fields, and its input items as the messages of a chat.

How answers are told: :mod:`dragoman.server.protocols.responses_replies`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from dragoman.engine import NO_SETTINGS, ModelSettings
from dragoman.errors import UsageError
from dragoman.server.requests import harmless
from dragoman.server.requests.ask import Ask, Words
from dragoman.server.requests.harmless import ignored
from dragoman.server.requests.kinds import (
    ANYTHING,
    FLAG,
    INTEGER,
    LIST,
    OBJECT,
    OBJECTS,
    TEXT,
    TEXT_OR_LIST,
    TEXT_OR_OBJECT,
    Kind,
    given,
    integer,
    needed,
    one_of,
    options,
    shown,
)
from dragoman.server.requests.refusals import (
    OPENAI_REFUSALS,
    SAMPLER_REFUSALS,
    STREAM_REFUSALS,
    VERBOSITY,
    Refusal,
    refuse,
)
from dragoman.server.requests.sampling import SAMPLERS, TOP_LOGPROBS_MAX, sampling
from dragoman.server.requests.shapes import shape, strange
from dragoman.template.variables import PRESERVE

SAMPLING = ("max_output_tokens", *SAMPLERS)
FIELDS: Mapping[str, Kind] = {
    "input": TEXT_OR_LIST,
    "instructions": TEXT,
    "tools": Kind("a list", LIST.check, OBJECTS),
    "tool_choice": TEXT_OR_OBJECT,
    "parallel_tool_calls": FLAG,
    "text": OBJECT,
    "reasoning": OBJECT,
    "include": LIST,
    "stream": FLAG,
    "metadata": OBJECT,
    "logit_bias": OBJECT,
    "stream_options": OBJECT,
    "top_logprobs": INTEGER,
    "chat_template_kwargs": OBJECT,
}
_INCLUDES = (
    "message.output_text.logprobs",
    "reasoning.encrypted_content",
    "message.input_image.image_url",
    "code_interpreter_call.outputs",
    "computer_call_output.output.image_url",
    "file_search_call.results",
    "web_search_call.action.sources",
    "web_search_call.results",
)
_SUMMARY = one_of("auto", "concise", "detailed")  # all that was thought is told, so its summary is too
_REASONING = {
    "effort": TEXT,
    "summary": _SUMMARY,
    "generate_summary": _SUMMARY,
    "context": one_of("auto", "current_turn", "all_turns"),
    "mode": TEXT,
}
_TEXT = {"format": OBJECT, "verbosity": ANYTHING}
# What an item of the input may hold.
_PART = shape("type", "text", "refusal", "image_url", "detail", "input_audio", "annotations", "logprobs")
_ITEM_KEYS = ("type", "role", "id", "status", "phase", "call_id", "name", "arguments", "encrypted_content")
_ITEM = shape(*_ITEM_KEYS, content=_PART, output=_PART, summary=_PART)
# The arguments of a turn that are told by other names here.
_NAMES = {
    "reasoning_effort": "reasoning.effort",
    "response_format.json_schema": "text.format",
    "response_format": "text.format",
    ".function.": ".",
    "'image_url'": "'input_image'",
    "give media_placeholder, the text that stands for it": "send text in its place",
}
_STATELESS = "nothing is kept between requests; send the whole conversation as input"
REFUSED: Mapping[str, Refusal] = {
    "previous_response_id": Refusal((), _STATELESS),
    "conversation": Refusal((), _STATELESS),
    "store": Refusal((False,), _STATELESS),
    "background": Refusal((False,), "wait for the answer, or stream it"),
    "prompt": Refusal((), "prompts are not kept here; send instructions and input"),
    "truncation": Refusal(("disabled",), "shorten the input"),
    **OPENAI_REFUSALS,
    "background_options": Refusal(({},), "wait for the answer, or stream it"),
    "access_programs": Refusal(({},), "there are no such programs here"),
    "image": Refusal(({},), "only text is written"),
    "n": Refusal((1,), "ask once for each answer"),
    "stop": Refusal(([],), "end the stream when you have read enough"),
    "messages": Refusal((), "give input"),
    "response_format": Refusal((), "give text.format"),
    "reasoning_effort": Refusal((), "give reasoning.effort"),
    "max_tokens": Refusal((), "give max_output_tokens"),
    "max_completion_tokens": Refusal((), "give max_output_tokens"),
}
KNOWN = (FIELDS, SAMPLING, REFUSED, SAMPLER_REFUSALS)
_LOGPROBS = "message.output_text.logprobs"
# Parts of a message's content -> the same for a chat; text parts are known there under these names too.
_TEXT_PARTS = ("input_text", "output_text", "text", "refusal")


@dataclass(frozen=True, slots=True)
class Echo:
    """What a response repeats of its request."""

    fields: Mapping[str, Any] = field(default_factory=dict)
    logprobs: bool = False


def read(body: Mapping[str, Any], settings: ModelSettings = NO_SETTINGS) -> tuple[Ask, Echo]:
    """The request, and what its answer repeats of it. Raises UsageError that names the field."""
    refuse(body, REFUSED)
    include = given(body, "include", LIST) or []
    for at, wanted in enumerate(include):
        if wanted not in _INCLUDES:
            raise UsageError(f"include[{at}] is {shown(wanted)}, which is not known here", param=f"include[{at}]")
    refuse(options(body, "stream_options", {"include_obfuscation": FLAG}), STREAM_REFUSALS, path="stream_options.")
    top = integer(body, "top_logprobs", 0, TOP_LOGPROBS_MAX)
    logprobs = (top or 0) if top or _LOGPROBS in include else None
    ask = Ask(
        turn=turn_of(body),
        sampling=replace(sampling(body, settings, SAMPLING), logprobs=logprobs),
        stream=bool(given(body, "stream", FLAG)),
        ignored=(*ignored(body, harmless.RESPONSES, *KNOWN, settings.engine_fields), *_strange(body)),
        words=Words(_names(body), lambda: _history(body).origins),
    )
    return ask, Echo(_echoed(body, ask), logprobs is not None)


def _strange(body: Mapping[str, Any]) -> list[str]:
    return [place for place, _, _ in strange(body.get("input"), _ITEM, "input")]


def turn_of(body: Mapping[str, Any]) -> dict[str, Any]:
    """The arguments of ``ChatFormat.turn``. Raises UsageError that names the field."""
    text = options(body, "text", _TEXT)
    refuse(text, {"verbosity": VERBOSITY}, path="text.")
    reasoning = options(body, "reasoning", _REASONING)
    refuse(reasoning, {"mode": Refusal(("standard",), "there is one mode here")}, path="reasoning.")
    variables = given(body, "chat_template_kwargs", OBJECT)
    if reasoning.get("context", "auto") != "auto":
        variables = {PRESERVE: reasoning["context"] == "all_turns", **(variables or {})}
    turn = {
        "messages": _messages(body),
        "tools": _tools(given(body, "tools", LIST)),
        "tool_choice": given(body, "tool_choice", TEXT_OR_OBJECT),
        "parallel_tool_calls": given(body, "parallel_tool_calls", FLAG),
        "response_format": _format(text["format"]) if "format" in text else None,
        "reasoning_effort": reasoning.get("effort"),
        "chat_template_kwargs": variables,
    }
    return {name: value for name, value in turn.items() if value is not None}


def _names(body: Mapping[str, Any]) -> Mapping[str, str]:
    own = body.get("chat_template_kwargs") or {}
    return _NAMES if PRESERVE in own else {**_NAMES, f"chat_template_kwargs.{PRESERVE}": "reasoning.context"}


def _echoed(body: Mapping[str, Any], ask: Ask) -> dict[str, Any]:
    """The fields that a response has to show, as they were given or as they are without a word of the request."""
    text = body.get("text") or {}
    reasoning = body.get("reasoning") or {}
    return {
        "instructions": body.get("instructions"),
        "max_output_tokens": ask.sampling.max_tokens,
        "metadata": given(body, "metadata", OBJECT) or {},
        "parallel_tool_calls": body.get("parallel_tool_calls") is not False,
        "previous_response_id": None,
        "reasoning": {"effort": reasoning.get("effort"), "summary": None},
        "store": False,
        "temperature": ask.sampling.temperature,
        "text": {**text, "format": text.get("format") or {"type": "text"}},
        "tool_choice": body.get("tool_choice") or "auto",
        "tools": [
            {"strict": None, "description": None, "parameters": None, **tool} for tool in body.get("tools") or ()
        ],
        "top_p": ask.sampling.top_p,
        "truncation": "disabled",
    }


def _format(value: Mapping[str, Any]) -> dict[str, Any]:
    """``text.format`` as a ``response_format``."""
    if value.get("type") != "json_schema":
        return dict(value)
    return {"type": "json_schema", "json_schema": {key: item for key, item in value.items() if key != "type"}}


def _tools(tools: list[Any] | None) -> list[Any] | None:
    """Functions in the flat form, which a turn knows; other kinds are services that only OpenAI has."""
    for at, tool in enumerate(tools or ()):
        kind = tool.get("type") if isinstance(tool, Mapping) else None
        if kind != "function":
            raise UsageError(
                f"tools[{at}].type is {shown(kind)}: only function tools can be called here", param=f"tools[{at}].type"
            )
    return tools


def _messages(body: Mapping[str, Any]) -> list[dict[str, Any]]:
    return _history(body).messages


def _history(body: Mapping[str, Any]) -> _History:
    history = _History()
    instructions = given(body, "instructions", TEXT)
    if instructions:
        history.add({"role": "system", "content": instructions}, "instructions")
    items = needed(body, "input", TEXT_OR_LIST)
    if isinstance(items, str):
        history.add({"role": "user", "content": items}, "input")
    else:
        for at, item in enumerate(items):
            history.item(item, f"input[{at}]")
    if len(history.messages) == bool(instructions):
        raise UsageError("input is empty: a conversation needs at least one message", param="input")
    return history


class _History:
    """Items in, messages out: the reasoning, the text and the calls of one turn are one message of a chat.

    origins: for each message where the request has it, or its first item.
    """

    def __init__(self) -> None:
        self.messages: list[dict[str, Any]] = []
        self.origins: list[str] = []
        self._place = ""
        self._open = False  # the last message is the assistant's and may still get more

    def add(self, message: dict[str, Any], place: str | None = None) -> None:
        self.messages.append(message)
        self.origins.append(place or self._place)
        self._open = False

    def item(self, item: Any, path: str) -> None:
        if not isinstance(item, Mapping):
            raise UsageError(f"{path} must be an object, not {shown(item)}", param=path)
        self._place = path
        kind = item.get("type", "message" if "role" in item else None)
        if kind == "message":
            self._message(item, path)
        elif kind == "reasoning":
            self._turn("content", "tool_calls")["reasoning_content"] = _reasoning(item, path)
        elif kind == "function_call":
            function = {name: needed(item, name, TEXT, path=f"{path}.") for name in ("name", "arguments")}
            call = {"id": needed(item, "call_id", TEXT, path=f"{path}."), "type": "function", "function": function}
            self._turn().setdefault("tool_calls", []).append(call)
        elif kind == "function_call_output":
            content = _content(item.get("output"), f"{path}.output")
            self.add(
                {"role": "tool", "tool_call_id": needed(item, "call_id", TEXT, path=f"{path}."), "content": content}
            )
        else:
            raise UsageError(
                f"{path}.type is {shown(kind)}: an item is a message, reasoning, function_call or function_call_output",
                param=f"{path}.type",
            )

    def _message(self, item: Mapping[str, Any], path: str) -> None:
        role = needed(item, "role", TEXT, path=f"{path}.")
        content = _content(item.get("content"), f"{path}.content")
        if role == "assistant":
            self._turn("content", "tool_calls")["content"] = content
        else:
            self.add({"role": role, "content": content})

    def _turn(self, *closing: str) -> dict[str, Any]:
        """The assistant's message that goes on; a new one where it has any of the fields ``closing`` already."""
        if not self._open or any(name in self.messages[-1] for name in closing):
            self.add({"role": "assistant"})
            self._open = True
        return self.messages[-1]


def _reasoning(item: Mapping[str, Any], path: str) -> str:
    """The reasoning text, its summary where there is no more. What is encrypted stays unread."""
    parts = given(item, "content", LIST, path=f"{path}.") or given(item, "summary", LIST, path=f"{path}.") or []
    texts = [part.get("text") for part in parts if isinstance(part, Mapping)]
    return "\n\n".join(text for text in texts if isinstance(text, str))


def _content(value: Any, path: str) -> Any:
    """The content of a chat message: pictures by the names that chats have for them."""
    if not isinstance(value, list):
        if not isinstance(value, str):
            raise UsageError(f"{path} must be a string or a list of parts, not {shown(value)}", param=path)
        return value
    return [_part(part, f"{path}[{at}]") for at, part in enumerate(value)]


def _part(part: Any, path: str) -> dict[str, Any]:
    kind = part.get("type") if isinstance(part, Mapping) else None
    if kind in _TEXT_PARTS:
        text = needed(part, "refusal" if kind == "refusal" else "text", TEXT, path=f"{path}.")
        return {"type": "text", "text": text}
    if kind == "input_image":
        if not isinstance(part.get("image_url"), str):
            raise UsageError(f"{path}.image_url is missing: files are not kept here, send the picture", param=path)
        return {"type": "image_url", "image_url": {"url": part["image_url"]}}
    if kind == "input_audio" and isinstance(part.get("input_audio"), Mapping):
        return {"type": "input_audio", "input_audio": part["input_audio"]}
    raise UsageError(
        f"{path}.type is {shown(kind)}: a part is input_text, output_text or input_image", param=f"{path}.type"
    )
