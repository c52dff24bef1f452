"""A chat template, compiled once and rendered many times: conversation in, prompt text with provenance out."""

from __future__ import annotations

import datetime
import hashlib
import traceback
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import jinja2
from jinja2 import nodes

from dragoman.errors import DragomanError, TemplateError, UsageError
from dragoman.limits import DEFAULT, Limits
from dragoman.template.environment import Refusal, RenderContext
from dragoman.template.provenance import marked_copy, merged, plain_copy
from dragoman.template.serialise import json_of
from dragoman.template.syntax import constants, syntax_of

# The time that a rendering sees where its caller gives none: a fixed one, so that equal requests give equal prompts.
FIXED_NOW = datetime.datetime(2024, 7, 26, 12, 0, 0)

# What a caller's own variables may not replace.
RESERVED = frozenset(
    (
        "messages",
        "tools",
        "add_generation_prompt",
        "bos_token",
        "eos_token",
        "raise_exception",
        "strftime_now",
        "namespace",
        "range",
        "dict",
        "cycler",
        "joiner",
    )
)

# Roles and part types are names out of closed sets: templates build markers of them.
_ROLES = frozenset(["system", "developer", "user", "assistant", "tool", "function", "ipython", "observation", "model"])
_PART_TYPES = frozenset(
    [
        *("text", "image", "image_url", "input_image", "audio", "audio_url", "input_audio", "video", "video_url"),
        *("input_video", "document", "file", "refusal", "reasoning", "thinking"),
        *("tool_use", "tool_call", "tool_result", "tool_response"),
    ]
)


@dataclass(frozen=True, slots=True)
class Rendered:
    """A prompt. ``parts``: (text, is_input), neighbours differ in the flag, no empty ones."""

    parts: tuple[tuple[str, bool], ...]

    @property
    def text(self) -> str:
        return "".join([text for text, _ in self.parts])


class Template:
    """A compiled chat template. Immutable; may be shared by threads.

    Raises TemplateError (with the line) where ``source`` is no valid template.
    """

    def __init__(self, source: str, *, bos_token: str = "", eos_token: str = "", limits: Limits = DEFAULT) -> None:
        self.source = source
        self.bos_token = bos_token
        self.eos_token = eos_token
        self.limits = limits
        syntax = syntax_of(source)
        self.ast = syntax.tree
        self.undeclared = syntax.undeclared  # names that the template reads and may not have set
        self._compiled = syntax.compiled

    @cached_property
    def hash(self) -> str:
        """SHA-256 of the source, in hex."""
        return hashlib.sha256(self.source.encode("utf-8", "surrogatepass")).hexdigest()

    @cached_property
    def compared(self) -> frozenset[str]:
        """String constants that the template compares something with."""
        compares = self.ast.find_all(nodes.Compare)
        return frozenset(text for compare in compares for text in constants(compare.find_all(nodes.Const)))

    @cached_property
    def keys(self) -> frozenset[str]:
        """Names that the template reads from something: attributes, and string constants as keys or elsewhere."""
        names = {attribute.attr for attribute in self.ast.find_all(nodes.Getattr)}
        return frozenset(names | set(constants(self.ast.find_all(nodes.Const))))

    @cached_property
    def texts(self) -> tuple[str, ...]:
        """All text that the template may write of its own: what stands between its tags, and its string constants."""
        data = [str(node.data) for node in self.ast.find_all(nodes.TemplateData)]
        return (self.bos_token, self.eos_token, *dict.fromkeys([*data, *constants(self.ast.find_all(nodes.Const))]))

    def render(
        self,
        messages: Sequence[Mapping[str, Any]],
        *,
        tools: Sequence[Mapping[str, Any]] | None = None,
        add_generation_prompt: bool = False,
        now: datetime.datetime | None = None,
        variables: Mapping[str, Any] | None = None,
        null_tools: bool = False,
    ) -> Rendered:
        """The prompt of a conversation.

        ``variables`` are the caller's own (``chat_template_kwargs``); ``now`` is what the template takes for the time.
        ``null_tools``: where there are no tools the template sees null, as with transformers, and not nothing.
        Raises TemplateError where the template refuses the conversation or fails, LimitError where it needs too much,
        UsageError where ``variables`` would replace what is not theirs.
        """
        marked = _copied(marked_copy, messages, tools, variables)
        for message in marked["messages"]:
            self._unmark(message)
        return Rendered(merged(self._run_copy(marked, add_generation_prompt, now, null_tools=null_tools)))

    def render_text(
        self,
        messages: Sequence[Mapping[str, Any]],
        *,
        tools: Sequence[Mapping[str, Any]] | None = None,
        add_generation_prompt: bool = False,
        now: datetime.datetime | None = None,
        variables: Mapping[str, Any] | None = None,
    ) -> str:
        """The text of :meth:`render`, made without provenance (faster: for probing)."""
        values = _copied(plain_copy, messages, tools, variables)
        return "".join(self._run_copy(values, add_generation_prompt, now))

    def _run_copy(
        self,
        values: Mapping[str, Any],
        add_generation_prompt: bool,
        now: datetime.datetime | None,
        *,
        null_tools: bool = False,
    ) -> list[str]:
        return self.run(
            values["messages"],
            tools=values["tools"],
            add_generation_prompt=add_generation_prompt,
            now=now,
            variables=values["variables"],
            null_tools=null_tools,
        )

    def _unmark(self, message: Any) -> None:
        """Take the mark from the role and from the types of content parts, where they are known names."""
        if not isinstance(message, dict):
            return
        self._unmark_name(message, "role", _ROLES)
        content = message.get("content")
        for part in content if isinstance(content, list) else ():
            if isinstance(part, dict):
                self._unmark_name(part, "type", _PART_TYPES)

    def _unmark_name(self, holder: dict[str, Any], key: str, known: frozenset[str]) -> None:
        name = holder.get(key)
        if isinstance(name, str) and (name in known or (name in self.compared and name.isidentifier())):
            holder[key] = str.__str__(name)

    def run(
        self,
        messages: list[Any],
        *,
        tools: list[Any] | None = None,
        add_generation_prompt: bool = False,
        now: datetime.datetime | None = None,
        variables: Mapping[str, Any] | None = None,
        null_tools: bool = False,
    ) -> list[str]:
        """The pieces of a rendering of these very values: no copies, and the template may change them."""
        names: dict[str, Any] = {str.__str__(name): value for name, value in (variables or {}).items()}
        for name in names:
            if name in RESERVED:
                raise UsageError(f"chat_template_kwargs may not set {name!r}", param="chat_template_kwargs")
        names.update(
            messages=messages,
            add_generation_prompt=add_generation_prompt,
            bos_token=self.bos_token,
            eos_token=self.eos_token,
        )
        if tools or null_tools:
            names["tools"] = tools or None
        context = self._compiled.new_context(names)
        assert isinstance(context, RenderContext)
        context.begin(self.limits, now or FIXED_NOW)
        # Older templates take the tools as one text, and the time.
        if "functions" in self.undeclared - names.keys():
            context.parent["functions"] = json_of(tools, context.budget, indent=4) if tools else ""
        if "datetime" in self.undeclared - names.keys():
            context.parent["datetime"] = context.now.strftime("%b %d %Y %H:%M:%S")
        try:
            return list(_bounded(self._compiled.root_render_func(context), context))
        except DragomanError:
            raise
        except Refusal as error:
            message = error.message or "the template refuses the conversation"
            raise TemplateError(message, line=self._line(error)) from error
        except Exception as error:
            message = str(error) if isinstance(error, jinja2.TemplateError) else f"{type(error).__name__}: {error}"
            raise TemplateError(message, line=self._line(error)) from error

    def _line(self, error: BaseException) -> int | None:
        """The line of the template where ``error`` was raised."""
        code = self._compiled.root_render_func.__code__.co_filename
        lines = [line for frame, line in traceback.walk_tb(error.__traceback__) if frame.f_code.co_filename == code]
        return self._compiled.get_corresponding_lineno(lines[-1]) if lines else None


def _copied(copy: Callable[[Any], Any], messages: Any, tools: Any, variables: Any) -> dict[str, Any]:
    try:
        copied: dict[str, Any] = copy(
            {"messages": list(messages), "tools": list(tools or ()), "variables": variables or {}}
        )
    except RecursionError:
        raise UsageError("the request is nested too deep to be rendered", param="messages") from None
    return copied


def _bounded(pieces: Iterator[str], context: RenderContext) -> Iterator[str]:
    size = 0
    for piece in pieces:
        size += len(piece)
        context.budget.grow(size)
        yield piece
