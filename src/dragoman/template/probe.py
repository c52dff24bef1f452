"""Rendering probe conversations: cached, counted, and None instead of an exception where a template refuses."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any, Literal, Protocol

from dragoman.errors import LimitError, TemplateError
from dragoman.limits import Limits
from dragoman.template.sentinels import FIRST, ProbeCall, Sentinels, tool, tools_of

# The "key" of reasoning that is given as a part of the content, of type thinking.
THINKING_PART = "content.thinking"
# The id of a call from which its name can be told. No template shows this form: it is what models write that are
# trained on histories in which the id is all that is written of a name.
NAMED_ID = "functions.{}:{}"

Content = Literal["empty", "null", "absent", "text"]
Tail = Literal["none", "result", "result_user", "user"]


class Renderable(Protocol):
    """The part of :class:`dragoman.template.render.Template` that learning uses."""

    @property
    def source(self) -> str: ...
    @property
    def eos_token(self) -> str: ...
    def render_text(
        self,
        messages: Any,
        *,
        tools: Any = None,
        add_generation_prompt: bool = False,
        now: Any = None,
        variables: Any = None,
    ) -> str: ...


@dataclass(frozen=True, slots=True)
class Rung:
    """How probe conversations are written so that a template renders them."""

    arguments: Literal["object", "text"] = "object"
    content: Content = "empty"
    tail: Tail = "none"
    system: bool = False
    tools: bool = True
    typed: bool = False  # content as a list of parts
    named_ids: bool = False  # ids hold the tool's name and the call's number, for templates that write the id alone
    variables: tuple[tuple[str, Any], ...] = ()

    def to_dict(self) -> dict[str, Any]:
        return {**asdict(self), "variables": dict(self.variables)}


@dataclass(frozen=True, slots=True)
class Said:
    """What the assistant says in a probe. ``content`` None: as the rung has it beside calls."""

    content: str | None = None
    calls: tuple[ProbeCall, ...] = ()
    reasoning: tuple[tuple[str, str], ...] = ()  # message key (or THINKING_PART) -> text


class Prober:
    """Renders conversations of one template and keeps what came out."""

    def __init__(self, template: Renderable, limits: Limits) -> None:
        self.template = template
        self.count = 0
        self.error: str | None = None  # the last refusal
        self._limits = limits
        self._cache: dict[str, str | None] = {}
        self._errors: dict[str, str | None] = {}

    def render(
        self, messages: Sequence[dict[str, Any]], rung: Rung, *, words: Sentinels = FIRST, generation: bool = False
    ) -> str | None:
        """The rendered text; None where the template refuses (the reason is in ``error``)."""
        tools = tools_of(words) if rung.tools else None
        key = json.dumps([messages, words.user if rung.tools else "", generation, rung.variables])
        if key not in self._cache:
            self._cache[key] = self._render(messages, tools, generation, dict(rung.variables))
            self._errors[key] = self.error if self._cache[key] is None else None
        self.error = self._errors[key] or self.error
        return self._cache[key]

    def refusal_of_any_tool(self, messages: Any, variables: dict[str, Any]) -> str | None:
        """Why not even the plainest tool is rendered; None where it is."""
        plainest = [tool(FIRST.calls[0].name, {"place": "string"})]
        return self.error if self._render(messages, plainest, False, variables) is None else None

    def _render(self, messages: Any, tools: Any, generation: bool, variables: dict[str, Any]) -> str | None:
        self.count += 1
        if self.count > self._limits.probe_renders:
            raise LimitError(
                "learning the chat template needs too many renderings",
                bound="probe_renders",
                limit=self._limits.probe_renders,
            )
        try:
            return self.template.render_text(
                json.loads(json.dumps(messages)),
                tools=tools,
                add_generation_prompt=generation,
                variables=variables or None,
            )
        except (TemplateError, LimitError) as error:
            self.error = str(error)
            return None

    def after_user(
        self,
        said: Said | None,
        rung: Rung,
        *,
        words: Sentinels = FIRST,
        generation: bool = False,
        tail: Tail | None = None,
    ) -> str | None:
        """What is written after the first user's words when the assistant says ``said``. None: refused or not found."""
        messages = conversation(said, rung, words, rung.tail if tail is None else tail)
        text = self.render(messages, rung, words=words, generation=generation)
        if text is None:
            return None
        at = text.rfind(words.user)
        return None if at < 0 else text[at + len(words.user) :]


def conversation(said: Said | None, rung: Rung, words: Sentinels, tail: Tail) -> list[dict[str, Any]]:
    """A conversation with one assistant turn (none where ``said`` is None) and what ``tail`` says after it."""
    messages = [_message("system", words.system, rung)] if rung.system else []
    messages.append(_message("user", words.user, rung))
    if said is None:
        return messages
    messages.append(_assistant(said, rung, words))
    if said.calls and tail in ("result", "result_user"):
        for number, call in enumerate(said.calls):
            result = _message("tool", words.result, rung)
            messages.append({**result, "tool_call_id": _id(call, number, rung), "name": call.name})
    if tail == "result_user" and said.calls:
        messages.append(_message("assistant", words.content, rung))
    if tail in ("user", "result_user"):
        messages.append(_message("user", words.follow_up, rung))
    return messages


def _message(role: str, text: str, rung: Rung) -> dict[str, Any]:
    return {"role": role, "content": [{"type": "text", "text": text}] if rung.typed else text}


def _assistant(said: Said, rung: Rung, words: Sentinels) -> dict[str, Any]:
    message: dict[str, Any] = {"role": "assistant"}
    if said.content is not None:
        message = _message("assistant", said.content, rung)
    elif rung.content == "text":
        message = _message("assistant", words.content, rung)
    elif rung.content == "empty":
        message["content"] = ""
    elif rung.content == "null":
        message["content"] = None
    for key, text in said.reasoning:
        if key == THINKING_PART:
            words_of = message.get("content") or []
            parts = [{"type": "text", "text": words_of}] if isinstance(words_of, str) else words_of
            message["content"] = [{"type": "thinking", "thinking": text}, *parts]
        else:
            message[key] = text
    if said.calls:
        message["tool_calls"] = [_call(call, number, rung) for number, call in enumerate(said.calls)]
    return message


def _id(call: ProbeCall, number: int, rung: Rung) -> str:
    return NAMED_ID.format(call.name, number) if rung.named_ids else call.id


def _call(call: ProbeCall, number: int, rung: Rung) -> dict[str, Any]:
    arguments: Any = call.args if rung.arguments == "object" else json.dumps(call.args)
    function = {"name": call.name, "arguments": arguments}
    return {"type": "function", "id": _id(call, number, rung), "function": function}


def with_variables(rung: Rung, **variables: Any) -> Rung:
    """``rung`` with further template variables."""
    return replace(rung, variables=(*rung.variables, *variables.items()))
