"""The request that ``render``, ``parse`` and ``grammar`` work on: a JSON file as servers take it, or some options."""

from __future__ import annotations

import argparse
from typing import Any

from dragoman.cli.files import read_json
from dragoman.errors import UsageError
from dragoman.format import ChatFormat
from dragoman.server.requests.turn_fields import turn_arguments
from dragoman.turn import Turn

_REQUEST = 'a chat request ({"messages": [...], "tools": [...]}) or a list of messages, as JSON'
_TOOLS = "a JSON list of tools"
_TOOLS_READ = f"{_TOOLS} (functions of a .py file are for dragoman chat alone)"
_SCHEMA = "a JSON Schema"


def add_request(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--request", metavar="FILE", help=f"{_REQUEST}; - is stdin")
    parser.add_argument("--user", metavar="TEXT", help="a user message (without --request: 'Hello')")
    parser.add_argument("--system", metavar="TEXT", help="a system message")
    parser.add_argument("--tools", metavar="FILE", help=_TOOLS)
    parser.add_argument("--tool-choice", metavar="CHOICE", help="auto, none, required or the name of a tool")
    parser.add_argument("--schema", metavar="FILE", help="the answer is JSON that this JSON Schema allows")
    parser.add_argument("--no-thinking", action="store_true", help="ask the template for an answer without reasoning")


def make_turn(fmt: ChatFormat, arguments: argparse.Namespace) -> Turn:
    """The turn that the arguments of :func:`add_request` ask for. Raises UsageError."""
    return fmt.turn(**turn_arguments(_body(arguments)))


def _body(arguments: argparse.Namespace) -> dict[str, Any]:
    body = _given(arguments)
    messages = body.get("messages")
    if messages is None or isinstance(messages, list):  # what else it may be is refused where the request is read
        body["messages"] = _messages(messages or [], arguments)
    if arguments.tools:
        body["tools"] = tools_of(read_json(arguments.tools, param="--tools", wanted=_TOOLS_READ))
    choice = arguments.tool_choice
    if choice is not None:
        plain = choice in ("auto", "none", "required")
        body["tool_choice"] = choice if plain else {"type": "function", "function": {"name": choice}}
    if arguments.schema:
        schema = read_json(arguments.schema, param="--schema", wanted=_SCHEMA)
        body["response_format"] = {"type": "json_schema", "json_schema": {"schema": schema}}
    if arguments.no_thinking:
        body["enable_thinking"] = False
    return body


def _given(arguments: argparse.Namespace) -> dict[str, Any]:
    """The request's file, a list of messages as a request; empty where no file is named."""
    name = arguments.request
    if not name:
        return {}
    given = read_json(name, param="--request", wanted=_REQUEST)
    if isinstance(given, list):
        given = {"messages": given}
    if not isinstance(given, dict):
        raise UsageError(f"--request: {name} holds {_kind(given)}; wanted is {_REQUEST}", param="--request")
    if not given.get("messages") and arguments.user is None:
        raise UsageError(
            f"--request: {name} holds no messages; put some into its list, or add one with --user", param="--request"
        )
    return given


def tools_of(value: Any, param: str = "--tools") -> list[Any]:
    """The list of tools; of a whole request, or of an MCP server's answer, the tools in it. Raises UsageError."""
    tools = value.get("tools") if isinstance(value, dict) else value
    if not isinstance(tools, list):
        held = "an object without tools" if isinstance(value, dict) and tools is None else _kind(tools)
        raise UsageError(f'{param}: wanted is {_TOOLS}, or {{"tools": [...]}}, not {held}', param=param)
    return [_tool(tool) for tool in tools]


def _tool(tool: Any) -> Any:
    """An MCP tool (name, description, inputSchema) as OpenAI's form; any other as it is."""
    if isinstance(tool, dict) and "inputSchema" in tool and "function" not in tool:
        function = {key: tool[key] for key in ("name", "description") if key in tool}
        return {"type": "function", "function": {**function, "parameters": tool["inputSchema"]}}
    return tool


def _messages(given: list[Any], arguments: argparse.Namespace) -> list[Any]:
    """The request's messages between those of the options; a conversation needs one to answer to."""
    system = [] if arguments.system is None else [{"role": "system", "content": arguments.system}]
    text = arguments.user if arguments.user is not None or given else "Hello"
    return [*system, *given, *([] if text is None else [{"role": "user", "content": text}])]


def _kind(value: Any) -> str:
    names = {type(None): "nothing", bool: "a boolean", str: "a text", dict: "an object", list: "a list"}
    return names.get(type(value), "a number")
