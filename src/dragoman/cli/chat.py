"""``dragoman chat``: a conversation in the terminal, streamed, with tools."""

from __future__ import annotations

import argparse
import asyncio
import json
from collections.abc import Mapping
from contextlib import AsyncExitStack
from typing import Any

from dragoman.cli.chat_commands import command_names, run_command
from dragoman.cli.conversation import Conversation, Options
from dragoman.cli.engines import Opened, add_engine, open_engine
from dragoman.cli.files import read_json
from dragoman.cli.keyboard import Keyboard, history, stoppable
from dragoman.cli.output import print_json_line, print_styled, say
from dragoman.cli.screen import Screen
from dragoman.cli.tools import Tool, open_tools
from dragoman.errors import DragomanError, UsageError


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_engine(parser)
    parser.add_argument("-m", "--message", metavar="TEXT", help="ask this, print the answer and leave")
    parser.add_argument("--system", metavar="TEXT", help="a system message")
    parser.add_argument(
        "--tools",
        metavar="FILE",
        action="append",
        default=[],
        help="functions of a .py file, or JSON: a list of tools, or mcpServers that are started (may be repeated)",
    )
    parser.add_argument("--yes", action="store_true", help="run tools without asking")
    parser.add_argument("--tool-choice", metavar="CHOICE", default="auto", help="auto, none, required or a tool's name")
    parser.add_argument("--schema", metavar="FILE", help="answers are JSON that this JSON Schema allows")
    parser.add_argument("--no-thinking", action="store_true", help="ask the template for answers without reasoning")
    parser.add_argument("--max-tokens", type=int, metavar="N", help="the longest answer")
    parser.add_argument("--temperature", type=float, metavar="T")


def run(arguments: argparse.Namespace) -> int:
    options = _options(arguments)  # wrong files first: they should not cost the loading of a model
    return asyncio.run(_converse(open_engine(arguments), options, arguments))


def _options(arguments: argparse.Namespace) -> Options:
    form = None
    if arguments.schema:
        schema = read_json(arguments.schema, param="--schema", wanted="a JSON Schema")
        form = {"type": "json_schema", "json_schema": {"schema": schema}}
    return Options(
        max_tokens=arguments.max_tokens,
        temperature=arguments.temperature,
        choice=arguments.tool_choice,
        thinking=False if arguments.no_thinking else None,
        response_format=form,
    )


async def _converse(opened: Opened, options: Options, arguments: argparse.Namespace) -> int:
    keyboard = Keyboard()
    permission = _Permission(keyboard, always=arguments.yes)
    try:
        async with AsyncExitStack() as stack:
            tools = await open_tools(arguments.tools, stack)
            conversation = Conversation(
                opened=opened,
                info=await opened.engine.info(),
                screen=Screen(as_json=arguments.json),
                tools=tools,
                allowed=permission.allowed,
                typed=permission.typed,
                options=options,
            )
            system = arguments.system if arguments.system is not None else opened.settings.system
            if system:
                conversation.messages.append({"role": "system", "content": system})
            if arguments.message is not None:
                await conversation.say(arguments.message)
            else:
                await _read_and_answer(conversation, keyboard)
    finally:
        await opened.engine.aclose()
    return 0


async def _read_and_answer(conversation: Conversation, keyboard: Keyboard) -> None:
    """Until the end of input. Input comes a line at a time: that the event loop waits meanwhile hurts nobody."""
    from dragoman.engines.model_file import cache_folder

    if not keyboard.people:
        while (text := _next(keyboard)) is not None:
            if text.strip():
                await conversation.say(text)
        return
    tools = f", with {len(conversation.tools)} tools" if conversation.tools else ""
    say(f"Chatting with {conversation.opened.model}{tools}; /help lists commands, Ctrl-D ends.")
    with history(cache_folder() / "chat_history", command_names()):
        while (text := _next(keyboard)) is not None:
            try:
                if text.startswith("/"):
                    text = run_command(conversation, text) or ""
                if text.strip():
                    await stoppable(conversation.say(text))
            except EOFError:
                return
            except asyncio.CancelledError:
                conversation.forget_unanswered()
                conversation.screen.stopped()
            except DragomanError as error:
                conversation.forget_unanswered()
                _tell(conversation, error)


def _next(keyboard: Keyboard) -> str | None:
    """What is typed next; None: nothing more."""
    while True:
        try:
            return keyboard.line()
        except EOFError:
            if keyboard.people:
                print()
            return None
        except KeyboardInterrupt:
            if not keyboard.people:
                raise
            print("\n(Ctrl-D or /quit ends the chat)")


def _tell(conversation: Conversation, error: DragomanError) -> None:
    """A failure ends the answer and not the chat."""
    if conversation.screen.as_json:
        print_json_line({"error": {"message": str(error)}})
    else:
        print_styled(str(error), "red")


class _Permission:
    """The user's word on each call."""

    def __init__(self, keyboard: Keyboard, *, always: bool) -> None:
        self._keyboard = keyboard
        self._always = always
        self._names: set[str] = set()

    async def allowed(self, tool: Tool, arguments: Mapping[str, Any]) -> bool:
        """Raises UsageError where there is nobody to ask."""
        if self._always or tool.name in self._names:
            return True
        if not self._keyboard.people:
            raise UsageError(
                f"the model calls {tool.name}({json.dumps(arguments, ensure_ascii=False)}); nobody is here to allow "
                "it: --yes runs tools without asking",
                param="--yes",
            )
        word = self._keyboard.ask(f"Run {tool.name} of {tool.source}? [y]es, [n]o, [a]lways: ").lower()
        if word.startswith("a"):
            self._names.add(tool.name)
        return word[:1] in ("y", "a")

    async def typed(self, tool: Tool) -> str | None:
        if not self._keyboard.people:
            return None
        return self._keyboard.ask(f"Result of {tool.name} (empty: none): ") or None
