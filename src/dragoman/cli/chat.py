"""``dragoman chat``: a conversation in the terminal, streamed."""

from __future__ import annotations

import argparse
import asyncio
import sys
from contextlib import aclosing
from typing import Any

from dragoman.chat import Delta
from dragoman.cli.engines import Opened, add_engine, open_engine
from dragoman.cli.output import print_json_line, say
from dragoman.engine import EngineInfo
from dragoman.server.generate import Ended, Piece, Sum, answer, prepare
from dragoman.server.protocols.chat import read_chat_request

SUMMARY = "chat with a model in the terminal"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_engine(parser)
    parser.add_argument("-m", "--message", metavar="TEXT", help="ask this, print the answer and leave")
    parser.add_argument("--system", metavar="TEXT", help="a system message")
    parser.add_argument("--max-tokens", type=int, metavar="N", help="the longest answer")
    parser.add_argument("--temperature", type=float, metavar="T")


def run(arguments: argparse.Namespace) -> int:
    return asyncio.run(_converse(open_engine(arguments), arguments))


async def _converse(opened: Opened, arguments: argparse.Namespace) -> int:
    """Until the end of input. Input comes a line at a time: that the event loop waits meanwhile hurts nobody."""
    try:
        info = await opened.engine.info()
        system = arguments.system if arguments.system is not None else opened.settings.system
        messages: list[dict[str, Any]] = [{"role": "system", "content": system}] if system else []
        if arguments.message is None and sys.stdin.isatty():
            say(f"Chatting with {opened.model}; Ctrl-D ends it.")
        for text in [arguments.message] if arguments.message is not None else _lines():
            messages.append({"role": "user", "content": text})
            messages.append(await _answer(opened, info, messages, arguments))
    finally:
        await opened.engine.aclose()
    return 0


async def _answer(
    opened: Opened, info: EngineInfo, messages: list[dict[str, Any]], arguments: argparse.Namespace
) -> dict[str, Any]:
    """Print the answer as it comes; the message that it is."""
    body = {"messages": messages, "max_tokens": arguments.max_tokens, "temperature": arguments.temperature}
    job = prepare(opened.format, read_chat_request(body, opened.settings), info, opened.settings)
    total, screen = Sum(), _Screen(as_json=arguments.json)
    async with aclosing(answer(job, opened.engine)) as pieces:
        async for piece in pieces:
            if isinstance(piece, Delta):
                total.add([piece])
            screen.show(piece)
    return total.message.to_dict()


class _Screen:
    """Shows an answer as it comes: JSON lines, or its text. Reasoning is shown to people only, dim and before it."""

    def __init__(self, *, as_json: bool) -> None:
        self._as_json = as_json
        self._people = sys.stdout.isatty()
        self._thinking = False

    def show(self, piece: Piece) -> None:
        if self._as_json:
            print_json_line(_told(piece))
        elif isinstance(piece, Ended):
            print(flush=True)
        elif piece.reasoning_content and self._people:
            self._thinking = True
            print(f"\x1b[2m{piece.reasoning_content}\x1b[0m", end="", flush=True)
        elif piece.content:
            print("\n\n" * self._thinking + piece.content, end="", flush=True)
            self._thinking = False


def _told(piece: Piece) -> dict[str, Any]:
    if isinstance(piece, Ended):
        return {"finish_reason": piece.finish_reason, "usage": piece.usage.to_dict()}
    return piece.to_dict()


def _lines() -> Any:
    """What the user types, empty lines left out."""
    prompt = "> " if sys.stdin.isatty() else ""
    while True:
        try:
            line = input(prompt)
        except EOFError:
            return
        if line.strip():
            yield line
