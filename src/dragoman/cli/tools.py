"""The tools of a terminal chat: functions of a Python file, tools of MCP servers, or tools that are only declared."""

from __future__ import annotations

import asyncio
import importlib.util
import inspect
import json
import sys
import typing
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from dragoman.cli.files import read_json
from dragoman.cli.mcp import McpServer
from dragoman.cli.requests import tools_of
from dragoman.cli.tool_schemas import given, tool_of
from dragoman.errors import DragomanError, UsageError

_WANTED = 'a .py file with functions, or JSON: a list of tools, {"tools": [...]} or {"mcpServers": {...}}'
Run = Callable[[dict[str, Any]], Awaitable[str]]


@dataclass(frozen=True, slots=True)
class Tool:
    """schema: OpenAI's form. run: arguments -> the result as text; None: nobody here can run it. source: whose it is.

    Running never raises for what the tool does: its failure is a result.
    """

    schema: Mapping[str, Any]
    run: Run | None
    source: str

    @property
    def name(self) -> str:
        return str(self.schema["function"]["name"])

    @property
    def description(self) -> str:
        return str(self.schema["function"].get("description") or "")


async def open_tools(names: Sequence[str], stack: AsyncExitStack) -> dict[str, Tool]:
    """name -> tool, of all files; MCP servers run until ``stack`` is closed. Raises UsageError, EngineError."""
    found: dict[str, Tool] = {}
    for name in names:
        for tool in await _tools(name, stack):
            if tool.name in found:
                raise UsageError(f"--tools: {tool.name} is in {found[tool.name].source} and in {name}", param="--tools")
            found[tool.name] = tool
    return found


async def _tools(name: str, stack: AsyncExitStack) -> list[Tool]:
    if name.endswith(".py"):
        return _functions(name)
    value = read_json(name, param="--tools", wanted=_WANTED)
    if isinstance(value, dict) and isinstance(value.get("mcpServers"), dict):
        return await _served(value["mcpServers"], name, stack)
    tools = [_checked(tool, name) for tool in tools_of(value)]
    return [Tool(tool, None, name) for tool in tools]


def _checked(tool: Any, name: str) -> Mapping[str, Any]:
    """The tool in OpenAI's form. Raises UsageError."""
    if isinstance(tool, dict) and "function" not in tool and "name" in tool:
        tool = {"type": "function", "function": tool}
    function = tool.get("function") if isinstance(tool, dict) else None
    if not (isinstance(function, dict) and isinstance(function.get("name"), str)):
        raise UsageError(f"--tools: {name} holds a tool without a name: {json.dumps(tool)[:80]}", param="--tools")
    return typing.cast("Mapping[str, Any]", tool)


def _functions(name: str) -> list[Tool]:
    """The public functions that the file defines, or those that its ``__all__`` names."""
    path = Path(name).expanduser()
    if not path.is_file():
        raise UsageError(f"--tools: there is no file {name}; wanted is {_WANTED}", param="--tools")
    spec = importlib.util.spec_from_file_location(f"dragoman_tools_{path.stem}", path.resolve())
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module  # dataclasses and type hints look their module up
    try:
        spec.loader.exec_module(module)
    except SystemExit as error:
        message = f"--tools: {name} cannot be run: it exits when it is read (code {error.code})"
        raise UsageError(message, param="--tools") from error
    except Exception as error:  # whatever a user's file may raise
        raise UsageError(f"--tools: {name} cannot be run: {type(error).__name__}: {error}", param="--tools") from error
    listed = getattr(module, "__all__", None)
    names = listed or [each for each in vars(module) if not each.startswith("_")]
    functions = [getattr(module, each, None) for each in names]
    own = [each for each in functions if inspect.isfunction(each) and (listed or each.__module__ == spec.name)]
    if not own:
        raise UsageError(f"--tools: {name} defines no public function", param="--tools")
    return [Tool(tool_of(function), _running(function), name) for function in own]


def _running(function: Callable[..., Any]) -> Run:
    hints = typing.get_type_hints(function)

    async def run(arguments: dict[str, Any]) -> str:
        """What the function returns, as text; what it raises, too: the model should know."""
        try:
            values = {name: given(value, hints.get(name)) for name, value in arguments.items()}
            inspect.signature(function).bind(**values)
            if inspect.iscoroutinefunction(function):
                return _text(await function(**values))
            return _text(await asyncio.to_thread(function, **values))
        except (Exception, SystemExit) as error:  # a tool that exits ends itself and not the chat
            return f"error: {type(error).__name__}: {error}"

    return run


def _text(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=str)


async def _served(servers: Mapping[str, Any], name: str, stack: AsyncExitStack) -> list[Tool]:
    """The tools of MCP servers that are started for them."""
    tools: list[Tool] = []
    for title, how in servers.items():
        if not (isinstance(how, dict) and isinstance(how.get("command"), str)):
            raise UsageError(
                f"--tools: the MCP server {title!r} of {name} has no command; only servers that are started as a "
                "process (stdio) can be used",
                param="--tools",
            )
        server = await stack.enter_async_context(
            McpServer.started(title, how["command"], how.get("args") or [], how.get("env") or {})
        )
        checked = [_checked(tool, title) for tool in tools_of(await server.tools())]
        tools += [Tool(tool, _calling(server, tool["function"]["name"]), title) for tool in checked]
    return tools


def _calling(server: McpServer, name: str) -> Run:
    async def run(arguments: dict[str, Any]) -> str:
        try:
            return await server.call(name, arguments)
        except DragomanError as error:
            return f"error: {error}"

    return run
