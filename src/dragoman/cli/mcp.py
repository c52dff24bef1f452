"""A client of MCP servers that speak over their standard input and output: enough to list tools and to call them."""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from typing import Any

from dragoman.errors import EngineError

_VERSION = "2025-06-18"
_START_SECONDS = 30.0
_CALL_SECONDS = 300.0
_LINE_BYTES_MAX = 16 << 20


class McpServer:
    """One server process. Requests are answered one after the other."""

    def __init__(self, title: str, process: asyncio.subprocess.Process) -> None:
        self._title = title
        self._process = process
        self._count = 0

    @classmethod
    @asynccontextmanager
    async def started(
        cls, title: str, command: str, arguments: Sequence[str], env: Mapping[str, str]
    ) -> AsyncIterator[McpServer]:
        """The server, running and greeted; it is ended when the block is left. Raises EngineError."""
        try:
            process = await asyncio.create_subprocess_exec(
                command,
                *map(str, arguments),
                env={**os.environ, **{key: str(value) for key, value in env.items()}},
                stdin=asyncio.subprocess.PIPE,
                stdout=asyncio.subprocess.PIPE,
                stderr=asyncio.subprocess.DEVNULL,
                limit=_LINE_BYTES_MAX,
                start_new_session=True,  # Ctrl-C stops an answer, not the tools' servers
            )
        except OSError as error:
            raise EngineError(f"the MCP server {title} cannot be started: {command}: {error.strerror}") from error
        server = cls(title, process)
        try:
            client = {"name": "dragoman", "version": "1"}
            hello = {"protocolVersion": _VERSION, "capabilities": {}, "clientInfo": client}
            await server._ask("initialize", hello, seconds=_START_SECONDS)
            await server._send({"jsonrpc": "2.0", "method": "notifications/initialized"})
            yield server
        finally:
            await server._end()

    async def tools(self) -> list[dict[str, Any]]:
        """All tools, as MCP describes them. Raises EngineError."""
        found: list[dict[str, Any]] = []
        cursor: str | None = None
        while True:
            page = await self._ask("tools/list", {"cursor": cursor} if cursor else {}, seconds=_START_SECONDS)
            found += page.get("tools") or []
            cursor = page.get("nextCursor")
            if not cursor:
                return found

    async def call(self, name: str, arguments: Mapping[str, Any]) -> str:
        """The result's text. Raises EngineError."""
        result = await self._ask("tools/call", {"name": name, "arguments": dict(arguments)}, seconds=_CALL_SECONDS)
        parts = [part for part in result.get("content") or [] if isinstance(part, dict)]
        text = "\n".join(str(part["text"]) if "text" in part else f"[{part.get('type')}]" for part in parts)
        if not text and "structuredContent" in result:
            text = json.dumps(result["structuredContent"], ensure_ascii=False)
        return f"error: {text}" if result.get("isError") else text

    async def _ask(self, method: str, params: Mapping[str, Any], *, seconds: float) -> dict[str, Any]:
        self._count += 1
        await self._send({"jsonrpc": "2.0", "id": self._count, "method": method, "params": params})
        try:
            return await asyncio.wait_for(self._answer(self._count), seconds)
        except asyncio.TimeoutError as error:
            raise EngineError(f"the MCP server {self._title} did not answer {method} in {seconds:.0f} s") from error

    async def _answer(self, number: int) -> dict[str, Any]:
        """The result of request ``number``; notifications are passed over, requests of the server are refused."""
        assert self._process.stdout is not None
        while True:
            try:
                line = await self._process.stdout.readline()
                message = json.loads(line) if line.strip() else None
            except ValueError as error:  # no JSON, or a line beyond the limit
                raise EngineError(f"the MCP server {self._title} wrote what is no message: {error}") from error
            if not line:
                raise EngineError(f"the MCP server {self._title} went away")
            if not isinstance(message, dict):
                continue
            if "method" in message and "id" in message:
                refusal = {"code": -32601, "message": "not supported"}
                await self._send({"jsonrpc": "2.0", "id": message["id"], "error": refusal})
            elif message.get("id") == number:
                if "error" in message:
                    raise EngineError(f"the MCP server {self._title}: {message['error'].get('message')}")
                result = message.get("result")
                return result if isinstance(result, dict) else {}

    async def _send(self, message: Mapping[str, Any]) -> None:
        assert self._process.stdin is not None
        try:
            self._process.stdin.write(json.dumps(message).encode() + b"\n")
            await self._process.stdin.drain()
        except OSError as error:
            raise EngineError(f"the MCP server {self._title} went away") from error

    async def _end(self) -> None:
        """By closing its input, as the protocol has it; by force where that does not help."""
        assert self._process.stdin is not None
        with suppress(OSError):
            self._process.stdin.close()
        for harsher in (self._process.terminate, self._process.kill):
            try:
                await asyncio.wait_for(self._process.wait(), 2.0)
                return
            except asyncio.TimeoutError:
                with suppress(ProcessLookupError):
                    harsher()
        await self._process.wait()
