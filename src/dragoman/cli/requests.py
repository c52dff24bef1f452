"""The request that ``render``, ``parse`` and ``grammar`` work on: a JSON file as servers take it, or some options."""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path
from typing import Any

from dragoman.errors import UsageError
from dragoman.format import ChatFormat
from dragoman.server.wire import turn_arguments
from dragoman.turn import Turn


def add_request(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--request", metavar="FILE", help='a chat request as JSON ({"messages": ..., "tools": ...}); - is stdin'
    )
    parser.add_argument("--user", metavar="TEXT", help="a user message (without --request: 'Hello')")
    parser.add_argument("--system", metavar="TEXT", help="a system message")
    parser.add_argument("--tools", metavar="FILE", help="a JSON list of tools")
    parser.add_argument("--tool-choice", metavar="CHOICE", help="auto, none, required or the name of a tool")
    parser.add_argument("--schema", metavar="FILE", help="the answer is JSON that this JSON Schema allows")
    parser.add_argument("--no-thinking", action="store_true", help="ask the template for an answer without reasoning")


def make_turn(fmt: ChatFormat, arguments: argparse.Namespace) -> Turn:
    """The turn that the arguments of :func:`add_request` ask for. Raises UsageError."""
    return fmt.turn(**turn_arguments(_body(arguments)))


def _body(arguments: argparse.Namespace) -> dict[str, Any]:
    body: dict[str, Any] = {}
    if arguments.request:
        given = _json(arguments.request)
        body = {"messages": given} if isinstance(given, list) else given
        if not isinstance(body, dict):
            raise UsageError(f"{arguments.request} must hold a request or a list of messages", param="--request")
    messages = body.get("messages") or []
    if isinstance(messages, list):  # what else it may be is refused where the request is read
        body["messages"] = _messages(messages, arguments)
    if arguments.tools:
        body["tools"] = _json(arguments.tools)
    choice = arguments.tool_choice
    if choice is not None:
        plain = choice in ("auto", "none", "required")
        body["tool_choice"] = choice if plain else {"type": "function", "function": {"name": choice}}
    if arguments.schema:
        body["response_format"] = {"type": "json_schema", "json_schema": {"schema": _json(arguments.schema)}}
    if arguments.no_thinking:
        body["enable_thinking"] = False
    return body


def _messages(given: list[Any], arguments: argparse.Namespace) -> list[Any]:
    """The request's messages between those of the options; a conversation needs one to answer to."""
    system = [] if arguments.system is None else [{"role": "system", "content": arguments.system}]
    text = arguments.user if arguments.user is not None or given else "Hello"
    return [*system, *given, *([] if text is None else [{"role": "user", "content": text}])]


def _json(name: str) -> Any:
    text = sys.stdin.read() if name == "-" else Path(name).read_text("utf-8")
    try:
        return json.loads(text)
    except ValueError as error:
        raise UsageError(f"{name} is no JSON: {error}") from error
