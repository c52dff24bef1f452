"""What one request asks of a dialect: plain values, checked by whoever makes them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

from dragoman.template.profile import ReasoningProfile

Choice: TypeAlias = Literal["auto", "none", "required", "named"]
Undeclared: TypeAlias = Literal["content", "call"]


@dataclass(frozen=True, slots=True, eq=False)
class Tool:
    """A declared function. ``parameters``: its JSON Schema, None where it takes anything."""

    name: str
    parameters: Mapping[str, Any] | None = None
    strict: bool = False


@dataclass(frozen=True, slots=True)
class JsonAnswer:
    """The answer is JSON. ``schema``: what it must be; None: any object."""

    schema: Any = None


@dataclass(frozen=True, slots=True)
class GbnfAnswer:
    """The answer obeys a grammar in llama.cpp's notation."""

    text: str


Answer: TypeAlias = JsonAnswer | GbnfAnswer


@dataclass(frozen=True, slots=True, eq=False)
class DialectRequest:
    """One request.

    allowed: the tools that ``named`` (and any narrowed choice) may call; empty: all. parallel: more than one call.
    read_reasoning: reasoning is told apart from the answer; False leaves its markers in the answer.
    thinking: may the model reason; None: as the template has it. implicit_reasoning: the turn begins inside the
    reasoning block though the opener is not in the input. prefix: what the generation prompt wrote after the assistant
    header; the writer's language begins with it, the reader takes it as any input. reasoning: the block that the prompt
    opens though the template shows no such one. reasoning_chars: characters that the writer may still think; None: any.
    after_control: the turn begins right behind a control token of the prompt.
    """

    tools: tuple[Tool, ...] = ()
    choice: Choice = "auto"
    allowed: tuple[str, ...] = ()
    parallel: bool = True
    read_reasoning: bool = True
    thinking: bool | None = None
    implicit_reasoning: bool = False
    prefix: str = ""
    reasoning: ReasoningProfile | None = None
    reasoning_chars: int | None = None
    after_control: bool = False
    answer: Answer | None = None
    undeclared: Undeclared = "content"
    schema_options: Any = None

    @property
    def reads_calls(self) -> bool:
        """True: call markup is read as calls, not as text."""
        return self.undeclared == "call" or bool(self.tools and self.choice != "none")

    @property
    def callable_tools(self) -> tuple[Tool, ...]:
        """The tools that the model may call in this request."""
        if self.choice == "none":
            return ()
        return tuple(tool for tool in self.tools if not self.allowed or tool.name in self.allowed)


def declared_parameters(request: DialectRequest) -> frozenset[str]:
    """The parameters of all tools by name, as far as their schemas list them."""
    listed = [tool.parameters.get("properties") for tool in request.tools if tool.parameters is not None]
    return frozenset(key for properties in listed if isinstance(properties, Mapping) for key in properties)
