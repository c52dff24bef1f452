"""From a request to the prompt: adapted to the template, rendered, and what the reader has to know of its end."""

from __future__ import annotations

import datetime
import html
import json
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import zip_longest
from typing import Any

from dragoman.dialect.generic import with_tool_instructions
from dragoman.dialect.history_calls import calls_left_out, with_calls_in_content
from dragoman.dialect.reader.turn import read_as_reasoning
from dragoman.dialect.request import DialectRequest, JsonAnswer
from dragoman.dialect.tolerances import opened_block
from dragoman.errors import TemplateError, UsageError
from dragoman.template.adapt import adapt
from dragoman.template.atoms import from_tags
from dragoman.template.capabilities import Capabilities
from dragoman.template.history import (
    broken_arguments,
    second_forms,
    with_broken_arguments_named,
    with_one_system,
    with_role,
)
from dragoman.template.profile import BESIDE_CALLS, ContentMode, Marker, Profile, ReasoningMode, ReasoningProfile
from dragoman.template.render import Template
from dragoman.template.tool_forms import tool_forms
from dragoman.vocab import Vocabulary

Part = tuple[str, bool]

# Roles that every template has, or that are rewritten for it; the system's at the start only.
_SURE_ROLES = frozenset(("system", "developer", "user", "assistant"))
_SYSTEM = frozenset(("system", "developer"))
# Roles of tools' results: what clients send, and what templates call them.
_RESULTS = frozenset(("tool", "function"))
_RESULT_ROLES = ("tool", "observation", "ipython", "function", "tool_response")
_NEEDLE = "xqzneedle"


@dataclass(frozen=True)
class Prompt:
    """What the engine gets.

    parts: (text, is_input); input is what came with the request and can hold no control token.
    written: the parts that belong to the turn which the model goes on with, after the assistant header.
    generation_prompt: all that was written for that turn: the header, and what the model goes on with.
    """

    parts: tuple[Part, ...]
    written: tuple[Part, ...]
    generation_prompt: str
    _vocab: Vocabulary | None = None
    _literals: tuple[str, ...] = ()

    @property
    def text(self) -> str:
        return "".join(text for text, _ in self.parts)

    @cached_property
    def token_ids(self) -> tuple[int, ...]:
        """The exact ids. UsageError without a vocabulary."""
        if self._vocab is None:
            raise UsageError("the format has no vocabulary: give vocab= to ChatFormat", param="vocab")
        return tuple(self._vocab.encode(self.parts, literals=self._literals))

    def ends_in_control(self, vocab: Vocabulary) -> bool:
        """True: the last token of the prompt is a control token, and nothing of the model's turn is written yet."""
        text, is_input = self.parts[-1] if self.parts else ("", True)
        return not is_input and not self.written and text.endswith(tuple(vocab.controls))


@dataclass(frozen=True, slots=True)
class Rendering:
    """How one request wants its prompt; see ``ChatFormat.turn`` for the arguments."""

    messages: Sequence[dict[str, Any]]
    tools: Sequence[Mapping[str, Any]]
    variables: Mapping[str, Any]
    now: datetime.datetime | None
    add_generation_prompt: bool
    continued: str | None  # the field of the last message that the model goes on with: content, reasoning_content
    media_placeholder: str | None = None  # the text that stands for each picture, sound or film


class Prompter:
    """Makes prompts for one format; immutable."""

    def __init__(
        self, template: Template, profile: Profile, capabilities: Capabilities, vocab: Vocabulary | None
    ) -> None:
        self._template = template
        self._profile = profile
        self._capabilities = capabilities
        self._vocab = vocab
        # A control token of the template is one in every prompt, whether or not the template writes it there.
        self._literals = (*profile.literals, *template.texts) if vocab is not None else ()

    def prompt(self, rendering: Rendering, request: DialectRequest) -> Prompt:
        """The prompt of a checked request.

        Results of tools that the template has no place for go under another role that it knows; system messages behind
        the first one, where it writes that alone, become part of it or of the user's.
        Raises: TemplateError, LimitError, UsageError, also for a message of a role that the template leaves out.
        """
        made = self._prompt(rendering, request)
        broken = broken_arguments(rendering.messages)
        if not _tells(made.text, broken):
            # A template that goes through the members of an object goes through the characters of a text.
            form = replace(rendering, messages=with_broken_arguments_named(rendering.messages))
            with suppress(TemplateError):
                told = self._prompt(form, request)
                made, rendering = (told, form) if _tells(told.text, broken) else (made, rendering)
        lost = self._lost(made, rendering, request)
        if lost is not None and rendering.messages[lost]["role"] in _SYSTEM:
            first = with_one_system(rendering.messages[: len(rendering.messages) - (rendering.continued is not None)])
            if rendering.continued is not None:
                first.append(rendering.messages[-1])
            rendering = replace(rendering, messages=first)
            made = self._prompt(rendering, request)
            lost = self._lost(made, rendering, request)
        if lost is None:
            return made
        role = rendering.messages[lost]["role"]
        for other in self._result_roles() if role in _RESULTS else ():
            form = replace(rendering, messages=with_role(rendering.messages, role, other))
            with suppress(TemplateError):
                made = self._prompt(form, request)
                if self._lost(made, form, request) is None:
                    return made
        raise UsageError(
            f"messages[{lost}].role is {role!r}, which this chat template does not write: the message would be lost; "
            "give it under a role that the template has (user, assistant, ...)",
            param=f"messages[{lost}].role",
        )

    def _result_roles(self) -> tuple[str, ...]:
        """Roles for a tool's result: those that the template asks for, the user's where it leaves calls out too."""
        known = tuple(role for role in _RESULT_ROLES if role in self._template.compared)
        return (*known, "user") if calls_left_out(self._profile) else known

    def _lost(self, made: Prompt, rendering: Rendering, request: DialectRequest) -> int | None:
        """The first message of an unusual role that the prompt leaves out."""
        written = made.text
        for at, message in enumerate(rendering.messages):
            role, text = message["role"], _content_text(message.get("content")).strip()
            sure = role in _SURE_ROLES and (at == 0 or role not in _SYSTEM)
            if sure or not text or (role in _RESULTS | _SYSTEM and text in written):
                continue
            # A template may write it in another form (as JSON, say): what becomes of a plain word tells.
            told = {**message, "content": _NEEDLE}
            messages = [*rendering.messages[:at], told, *rendering.messages[at + 1 :]]
            with suppress(TemplateError):
                if _NEEDLE not in self._prompt(replace(rendering, messages=messages), request).text:
                    return at
        return None

    def _prompt(self, rendering: Rendering, request: DialectRequest) -> Prompt:
        messages, tools = [*rendering.messages], [*rendering.tools]
        last: Mapping[str, Any] = {}
        if rendering.continued is not None:
            last = messages.pop()
            if not messages:
                raise UsageError("there is nothing before the message to continue", param="continue_final_message")
        if self._profile.generic_tools:
            schema = request.answer.schema if isinstance(request.answer, JsonAnswer) else None
            messages = [dict(m) for m in with_tool_instructions(messages, tools, schema, choice=request.choice)]
            tools = []
        elif calls_left_out(self._profile) and self._profile.tools is not None:
            messages = [dict(m) for m in with_calls_in_content(messages, self._profile.tools)]
        with_prompt, without = self._accepted(self._adapted(messages, rendering), tools, rendering)
        if not rendering.add_generation_prompt:
            return Prompt(without, (), "", self._vocab, self._literals)
        generation_prompt = self._generation_prompt(_text(with_prompt), _text(without))
        written: tuple[Part, ...] = ((self.after_header(generation_prompt), False),)
        if rendering.continued is not None:
            opened = written[0][0]
            shown = None
            if rendering.continued == "content":
                told = {key: value for key, value in last.items() if key != "tool_calls"} | {"content": _NEEDLE}
                with suppress(TemplateError):
                    _, history = self._accepted(self._adapted([*messages, told], rendering), tools, rendering)
                    shown = self._before_answer(history, _text(with_prompt), opened, last)
            if shown is not None:
                kept, more = "", [*shown, (_content_text(last.get("content")), True)]
            else:
                kept, more = self._continuation(last, rendering.continued, opened, request)
            with_prompt = (*_cut(with_prompt, len(opened) - len(kept)), *more)
            generation_prompt = generation_prompt[: len(generation_prompt) - len(opened)] + kept + _text(more)
            # Where reasoning is not told apart, only the field that goes on is the message's.
            written = ((kept, False), *(more if request.read_reasoning else more[-1:]))
            if not _text(written[:-1]).strip():
                written = written[-1:]  # layout in front of an answer is no part of it
        return Prompt(
            tuple(part for part in with_prompt if part[0]),
            tuple(part for part in written if part[0]),
            generation_prompt,
            self._vocab,
            self._literals,
        )

    def _adapted(self, messages: Sequence[dict[str, Any]], rendering: Rendering) -> list[dict[str, Any]]:
        return adapt(
            messages,
            self._capabilities,
            keys=self._template.keys,
            reasoning_key=self._profile.reasoning.message_key,
            media_placeholder=rendering.media_placeholder,
            beside_calls=self._profile.tools.beside_calls if self._profile.tools is not None else BESIDE_CALLS,
        )

    def _accepted(
        self, messages: list[dict[str, Any]], tools: list[Mapping[str, Any]], rendering: Rendering
    ) -> tuple[tuple[Part, ...], tuple[Part, ...]]:
        """The prompt with and without the generation prompt, in the first form that the template accepts."""
        # transformers tells a template that there are no tools; some take it amiss and want to hear nothing.
        null_tools = not tools and "tools" in self._template.undeclared
        if null_tools:
            with suppress(TemplateError):
                return self._rendered(messages, tools, rendering, null_tools=True)
        try:
            return self._rendered(messages, tools, rendering)
        except TemplateError as error:
            refusal = error
        # The template may need what a tool leaves out, or take a message in another form only.
        for tools_form in (tools, *tool_forms(tools)):
            forms = [messages] if tools_form is not tools else []
            for form in (*forms, *second_forms(messages)):
                try:
                    return self._rendered(form, tools_form, rendering)
                except TemplateError:
                    continue
        raise refusal

    def _rendered(
        self,
        messages: Sequence[Mapping[str, Any]],
        tools: Sequence[Mapping[str, Any]],
        rendering: Rendering,
        *,
        null_tools: bool = False,
    ) -> tuple[tuple[Part, ...], tuple[Part, ...]]:
        """The prompt with and without the generation prompt."""
        with_prompt, without = (
            tuple(
                self._template.render(
                    messages,
                    tools=tools or None,
                    add_generation_prompt=flag,
                    now=rendering.now,
                    variables=rendering.variables,
                    null_tools=null_tools,
                ).parts
            )
            for flag in (True, False)
        )
        return with_prompt, without

    def _generation_prompt(self, with_prompt: str, without: str) -> str:
        """What ``add_generation_prompt`` appends. Where both renderings go on alike for some characters of the header
        (``<|im_`` of ``<|im_end|>`` and ``<|im_start|>``), the header tells where it begins."""
        if with_prompt.startswith(without):
            return with_prompt[len(without) :]
        shared = next(at for at, (a, b) in enumerate(zip_longest(with_prompt, without)) if a != b)
        header = self._profile.assistant_header
        for known in filter(None, (header, *from_tags(header))):
            at = with_prompt.rfind(known)
            if 0 <= at < shared < at + len(known):
                return with_prompt[at:]
        return with_prompt[shared:]

    def after_header(self, generation_prompt: str) -> str:
        """The part of a generation prompt that belongs to the turn itself: an opened reasoning block, or nothing."""
        header = self._profile.assistant_header
        # From a tag on: what stands in front of it may differ with a switch (" /think_off <bot>"), or be the history's.
        for known in (header, header.strip(), *from_tags(header)):
            at = generation_prompt.rfind(known) if known else -1
            if at >= 0:
                return generation_prompt[at + len(known) :]
        return generation_prompt if self._opens_anything(generation_prompt) else ""

    def _opens_anything(self, text: str) -> bool:
        """True: ``text`` holds more than a header that was not learned."""
        reasoning, content = self._profile.reasoning, self._profile.content
        markers = (reasoning.open.text, reasoning.close.text, content.open.text)
        return any(marker in text for marker in markers if marker) or opened_block(text) is not None

    def _before_answer(
        self, history: Sequence[Part], prompt: str, opened: str, last: Mapping[str, Any]
    ) -> list[Part] | None:
        """What the history writes between the header and the answer of the last message; None: not to be gone by.

        Not so (docs/decisions/0016) where it begins otherwise than the prompt does, loses the reasoning that goes with
        the answer, leaves a block open, or says nothing of one that the prompt opened or closed.
        """
        text, base = _text(history), prompt[: len(prompt) - len(opened)]
        at = text.rfind(_NEEDLE)
        if not text.startswith(base) or at < len(base):
            return None
        reasoning, before = self._profile.reasoning, text[len(base) : at]
        closed = bool(reasoning.close.text) and reasoning.close.text in before
        if (last.get("reasoning_content") or "").strip() not in before or (opened.strip() and not closed):
            return None
        if _is_inside(before, reasoning.open.text, reasoning.close.text) or opened_block(before) is not None:
            return None
        return _between(history, len(base), at)

    def _continuation(
        self, message: Mapping[str, Any], field: str, opened: str, request: DialectRequest
    ) -> tuple[str, list[Part]]:
        """How ``message`` is written up to where the model goes on: what stays of ``opened``, and the parts behind."""
        thought, said = message.get("reasoning_content") or "", _content_text(message.get("content"))
        shown = self._profile.reasoning
        opens = opened_block(opened) if shown.mode is ReasoningMode.NONE or not shown.close.text else None
        can_think = opens is not None or (shown.mode is not ReasoningMode.NONE and bool(shown.close.text))
        wrapped = self._profile.content.mode is ContentMode.WRAPPED and bool(self._profile.content.open.text)
        reasoning = opens or shown
        wants = field == "reasoning_content" or (thought and request.read_reasoning)
        if wants and not can_think and not wrapped:
            # By the tags that models use unasked, which are read as reasoning too; their layout is the model's.
            unasked = read_as_reasoning(self._profile, request)
            reasoning, can_think = replace(unasked, open=Marker(text=unasked.open.text)), True
        inside = can_think and _is_inside(opened, reasoning.open.text, reasoning.close.text)
        out: list[Part] = []
        if can_think and (thought or inside or field == "reasoning_content"):
            if not inside:
                # A block that the prompt closed already would be a second one.
                opened = "" if _is_closed(opened, reasoning) else opened
                out.append((reasoning.open.written, False))
            out.append((thought, True))
            if field == "reasoning_content":
                return opened, out
            out.append((reasoning.close.written, False))
        if wrapped:
            out.append((self._profile.content.open.written, False))
        return opened, [*out, (said, True)]


def _is_closed(opened: str, reasoning: ReasoningProfile) -> bool:
    """True: ``opened`` is a reasoning block and its end."""
    return bool(reasoning.close.text) and opened.rstrip().endswith(reasoning.close.text)


def _cut(parts: Sequence[Part], count: int) -> tuple[Part, ...]:
    """The parts without their last ``count`` characters."""
    out = list(parts)
    while count > 0 and out:
        text, is_input = out.pop()
        if len(text) > count:
            out.append((text[: len(text) - count], is_input))
        count -= len(text)
    return tuple(out)


def _between(parts: Sequence[Part], start: int, end: int) -> list[Part]:
    """The parts from one character to another."""
    out: list[Part] = []
    at = 0
    for text, is_input in parts:
        piece = text[max(start - at, 0) : max(end - at, 0)]
        if piece:
            out.append((piece, is_input))
        at += len(text)
    return out


def _is_inside(written: str, opens: str, closes: str) -> bool:
    return bool(opens) and written.rfind(opens) > written.rfind(closes)


def _tells(prompt: str, texts: Sequence[str]) -> bool:
    """True: each of the texts is in the prompt, as it is or as a string of JSON, Python or markup."""
    return all(
        any(form in prompt for form in (text, json.dumps(text, ensure_ascii=False)[1:-1], json.dumps(text)[1:-1]))
        or repr(text)[1:-1] in prompt
        or html.escape(text) in prompt
        for text in texts
    )


def _text(parts: Sequence[Part]) -> str:
    return "".join(text for text, _ in parts)


def _content_text(content: Any) -> str:
    if isinstance(content, str):
        return content
    if isinstance(content, Sequence):
        return "".join(str(part.get("text", "")) for part in content if isinstance(part, Mapping))
    return ""
