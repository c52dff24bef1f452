"""A conversation with a model: its messages, its tools, and one turn after the other. Knows nothing of the keyboard."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, Mapping
from contextlib import aclosing
from dataclasses import dataclass, field
from typing import Any

from dragoman.chat import Delta, Message, ToolCall
from dragoman.cli.engines import Opened
from dragoman.cli.screen import Screen
from dragoman.cli.tools import Tool
from dragoman.engine import EngineInfo
from dragoman.server.answers.generate import answer
from dragoman.server.answers.jobs import Ended, Sum
from dragoman.server.protocols.chat import read_chat_request
from dragoman.server.requests.prepare import prepare
from dragoman.turn import Turn

# How often a model may call tools before it has to answer; one that goes on without end is told to stop.
ROUNDS_MAX = 8
# What the history says of a call that nobody could run, as templates want a result; it is shown to nobody as one.
NO_RESULT = "There is no result."
# Asked before a tool is run; False: the user does not want it.
Allowed = Callable[[Tool, Mapping[str, Any]], Awaitable[bool]]
# Asked for the result of a tool that nobody here can run; None: there is none.
Typed = Callable[[Tool], Awaitable["str | None"]]


@dataclass(slots=True)
class Options:
    """What each request carries. choice: of tools, for the first answer to a question."""

    max_tokens: int | None = None
    temperature: float | None = None
    choice: str = "auto"
    thinking: bool | None = None
    response_format: Mapping[str, Any] | None = None


@dataclass(slots=True)
class Conversation:
    """messages: as a request has them. A turn that is stopped leaves what was said of it in them."""

    opened: Opened
    info: EngineInfo
    screen: Screen
    tools: Mapping[str, Tool]
    allowed: Allowed
    typed: Typed
    options: Options = field(default_factory=Options)
    messages: list[dict[str, Any]] = field(default_factory=list)

    async def say(self, text: str) -> None:
        """The user's text, and all answers until one of them calls no tool. Raises what a request raises."""
        self.messages.append({"role": "user", "content": text})
        await self.go_on()

    async def go_on(self) -> None:
        """Answer the messages as they stand."""
        for number in range(ROUNDS_MAX + 1):
            last = number == ROUNDS_MAX
            if last:
                self.screen.note(
                    f"{ROUNDS_MAX} rounds of calls for one question: now an answer without one is asked for"
                )
            message = await self._answer(first=number == 0, last=last)
            if not message.tool_calls or not await self._run_calls(message):
                return

    def body(self, *, first: bool = True, last: bool = False) -> dict[str, Any]:
        """The request as it would be sent now."""
        options = self.options
        body: dict[str, Any] = {
            "messages": self.messages,
            "max_tokens": options.max_tokens,
            "temperature": options.temperature,
            "enable_thinking": options.thinking,
            "response_format": options.response_format,
        }
        if self.tools:
            body["tools"] = [tool.schema for tool in self.tools.values()]
            # A call that was demanded has been made; demanded again it would be made for ever.
            choice = "none" if last else options.choice if first or options.choice == "none" else "auto"
            plain = choice in ("auto", "none", "required")
            body["tool_choice"] = choice if plain else {"type": "function", "function": {"name": choice}}
        return {name: value for name, value in body.items() if value is not None}

    def turn(self) -> Turn:
        """The turn that would be asked for now, for people who want to see its prompt."""
        ask = read_chat_request(self.body(), self.opened.settings)
        return prepare(self.opened.format, ask, self.info, self.opened.settings).turn

    def undo(self) -> str | None:
        """Take the last question and all that came of it back; the question."""
        for at in range(len(self.messages) - 1, -1, -1):
            if self.messages[at]["role"] == "user":
                text = str(self.messages[at]["content"])
                del self.messages[at:]
                return text
        return None

    def forget_unanswered(self) -> None:
        """A last question to which nothing was said: most templates take no two questions in a row."""
        if self.messages and self.messages[-1]["role"] == "user":
            self.messages.pop()

    async def _answer(self, *, first: bool, last: bool) -> Message:
        """One answer, shown as it comes and kept; where it is stopped, what was said of it and no call."""
        ask = read_chat_request(self.body(first=first, last=last), self.opened.settings)
        job = prepare(self.opened.format, ask, self.info, self.opened.settings)
        total = Sum()
        ended = False
        try:
            async with aclosing(answer(job, self.opened.engine)) as pieces:
                async for piece in pieces:
                    if isinstance(piece, Delta):
                        total.add([piece])
                    ended = isinstance(piece, Ended)
                    self.screen.show(piece)
        finally:
            message = total.message
            if not ended:
                message = Message(message.content, message.reasoning_content)
            if message.content or message.reasoning_content or message.tool_calls:
                self.messages.append(message.to_dict())
        return message

    async def _run_calls(self, message: Message) -> bool:
        """Every call gets a result, whatever comes in between: a history with a call left open is refused by servers.

        False: there is nothing to tell the model.
        """
        waiting = list(message.tool_calls)
        useful = False
        try:
            while waiting:
                result = await self._result(waiting[0])
                call = waiting.pop(0)
                self._keep(call, result or NO_RESULT, shown=result is not None)
                useful = useful or result is not None
        finally:
            for call in waiting:
                self._keep(call, "The user stopped this call.")
        return useful

    def _keep(self, call: ToolCall, result: str, *, shown: bool = True) -> None:
        self.messages.append({"role": "tool", "tool_call_id": call.id, "name": call.name, "content": result})
        if shown:
            self.screen.result(call.name, result, call.id)

    async def _result(self, call: ToolCall) -> str | None:
        tool = self.tools.get(call.name)
        if tool is None:
            return f"error: there is no tool {call.name}"
        try:
            arguments = json.loads(call.arguments)
        except ValueError as error:
            return f"error: the arguments are no JSON: {error}"
        if tool.run is None:
            return await self.typed(tool)
        if not await self.allowed(tool, arguments):
            return "The user did not allow this call."
        return await tool.run(arguments)
