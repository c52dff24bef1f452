"""Values of a conversation: what a model said, piece by piece and as a whole.

Requests come as the plain dicts of the OpenAI chat format and are checked in :mod:`dragoman.template.adapt`;
answers are the frozen values below. ``to_dict`` gives the OpenAI shapes.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True, slots=True)
class Problem:
    """Something in the model's output that did not follow its format. Reading went on.

    code: a stable short name (``invalid_arguments``, ``unknown_tool``, ``truncated``, ``after_end``, ...).
    position: byte offset in the output as read (generation prompt not counted).
    """

    code: str
    message: str
    position: int

    def to_dict(self) -> dict[str, Any]:
        return {"code": self.code, "message": self.message, "position": self.position}


@dataclass(frozen=True, slots=True)
class ToolCall:
    """One complete (or cut off) call. ``arguments`` is JSON text, the model's own bytes where it wrote JSON."""

    id: str
    name: str
    arguments: str

    def to_dict(self) -> dict[str, Any]:
        return {"id": self.id, "type": "function", "function": {"name": self.name, "arguments": self.arguments}}


@dataclass(frozen=True, slots=True)
class Message:
    """What the model said. ``truncated``: the output ended by length inside a call or a reasoning block."""

    content: str = ""
    reasoning_content: str = ""
    tool_calls: tuple[ToolCall, ...] = ()
    truncated: bool = False
    problems: tuple[Problem, ...] = ()

    def to_dict(self) -> dict[str, Any]:
        """The assistant message of a chat completion: content is null where it is empty beside calls."""
        out: dict[str, Any] = {"role": "assistant", "content": self.content}
        if self.tool_calls and not self.content:
            out["content"] = None
        if self.reasoning_content:
            out["reasoning_content"] = self.reasoning_content
        if self.tool_calls:
            out["tool_calls"] = [call.to_dict() for call in self.tool_calls]
        return out


@dataclass(frozen=True, slots=True)
class ToolCallDelta:
    """A piece of call ``index``. The first piece has id and name and empty arguments; later ones arguments only."""

    index: int
    id: str | None = None
    name: str | None = None
    arguments: str = ""

    def to_dict(self) -> dict[str, Any]:
        function: dict[str, Any] = {"arguments": self.arguments}
        out: dict[str, Any] = {"index": self.index, "function": function}
        if self.name is not None:
            out["id"] = self.id
            out["type"] = "function"
            out["function"] = {"name": self.name, "arguments": self.arguments}
        return out


@dataclass(frozen=True, slots=True)
class Delta:
    """One piece of a streamed message; exactly one of the three fields is set. Never taken back."""

    content: str = ""
    reasoning_content: str = ""
    tool_calls: tuple[ToolCallDelta, ...] = field(default=())

    def to_dict(self) -> dict[str, Any]:
        out: dict[str, Any] = {}
        if self.content:
            out["content"] = self.content
        if self.reasoning_content:
            out["reasoning_content"] = self.reasoning_content
        if self.tool_calls:
            out["tool_calls"] = [call.to_dict() for call in self.tool_calls]
        return out


def argument_piece(index: int, arguments: str) -> ToolCallDelta:
    """``ToolCallDelta(index, arguments=arguments)`` at half its price: a long call has thousands of them."""
    made = _new(ToolCallDelta)
    _set_index(made, index)
    _set_id(made, None)
    _set_name(made, None)
    _set_arguments(made, arguments)
    return made


def call_delta(piece: ToolCallDelta) -> Delta:
    """``Delta(tool_calls=(piece,))`` at half its price."""
    made = _new(Delta)
    _set_content(made, "")
    _set_reasoning(made, "")
    _set_calls(made, (piece,))
    return made


# A frozen class writes its fields by looking each up by its name; its slots themselves are reached directly here.
_new = object.__new__
_set_index, _set_id, _set_name, _set_arguments = (
    ToolCallDelta.__dict__[name].__set__ for name in ("index", "id", "name", "arguments")
)
_set_content, _set_reasoning, _set_calls = (
    Delta.__dict__[name].__set__ for name in ("content", "reasoning_content", "tool_calls")
)
