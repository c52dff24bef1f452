"""``dragoman serve``: any OpenAI client talks to a model, through what dragoman learned of its template."""

from __future__ import annotations

import argparse
import asyncio
import socket
import time
from contextlib import suppress
from typing import TYPE_CHECKING

from dragoman.cli.engines import Opened, add_engine, open_engine
from dragoman.cli.output import print_json_line
from dragoman.errors import EngineError, UsageError

if TYPE_CHECKING:
    import uvicorn

SUMMARY = "serve a model over HTTP, for any OpenAI client"
_SHUTDOWN_S = 3  # open streams are ended after that
_WEATHER = """curl -N {url}/v1/chat/completions -H 'Content-Type: application/json' -d '{{"stream": true, \
"tool_choice": "required", \
"messages": [{{"role": "user", "content": "What is the weather like in Lisbon, in celsius?"}}], \
"tools": [{{"type": "function", "function": {{"name": "get_weather", "description": "the current weather of a city", \
"parameters": {{"type": "object", "properties": {{"city": {{"type": "string"}}, \
"unit": {{"type": "string", "enum": ["celsius", "fahrenheit"]}}}}, "required": ["city", "unit"]}}}}}}]}}'"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_engine(parser)
    parser.add_argument("--host", default="127.0.0.1", help="where to listen (default 127.0.0.1: this machine only)")
    parser.add_argument("--port", type=int, default=8000, help="0 takes any free one (default 8000)")
    parser.add_argument(
        "--no-inspector",
        dest="inspector",
        action="store_false",
        help="no page at / that shows prompts, templates and turns step by step",
    )


def run(arguments: argparse.Namespace) -> int:
    try:
        import uvicorn

        from dragoman.inspector.routes import inspector_routes
        from dragoman.server.app import create_app
    except ImportError as error:
        raise UsageError(f"serving needs {error.name}: pip install 'dragoman[local,server]'") from error
    # The address first: a busy port should not cost the loading of a model.
    listener = _listen(arguments.host, arguments.port)
    with listener:
        opened = open_engine(arguments)
        app = create_app(opened.format, opened.engine, model=opened.model, settings=opened.settings)
        if arguments.inspector:
            page = inspector_routes(
                opened.format, opened.engine, model=opened.model, settings=opened.settings, clock=time.time
            )
            app.router.routes.extend(page)
        config = uvicorn.Config(app, log_level="warning", timeout_graceful_shutdown=_SHUTDOWN_S, lifespan="on")
        with suppress(KeyboardInterrupt):  # how people end a server, told once more when it has shut down
            asyncio.run(_serve(uvicorn.Server(config), listener, opened, arguments))
    return 0


def _listen(host: str, port: int) -> socket.socket:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    listener = socket.socket(family, socket.SOCK_STREAM)
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind((host, port))
        listener.listen(128)
    except (OSError, OverflowError) as error:
        listener.close()
        raise EngineError(f"cannot listen on {host}:{port}: {error}; name another --port (0: any free one)") from error
    return listener


async def _serve(
    server: uvicorn.Server, listener: socket.socket, opened: Opened, arguments: argparse.Namespace
) -> None:
    """Until a signal ends it. The address is told when the server answers there."""
    running = asyncio.create_task(server.serve(sockets=[listener]))
    while not server.started and not running.done():  # noqa: ASYNC110 - uvicorn offers nothing else to wait for
        await asyncio.sleep(0.01)
    if server.started:
        _tell(listener, opened, arguments)
    await running


def _tell(listener: socket.socket, opened: Opened, arguments: argparse.Namespace) -> None:
    host, port = listener.getsockname()[:2]
    url = f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"
    if arguments.json:
        print_json_line({"url": url, "model": opened.model})
        return
    page = f", its inspector on {url}/" if arguments.inspector else ""
    print(f"{opened.model} on {url}/v1{page} (Ctrl-C ends it). Try:\n\n{_WEATHER.format(url=url)}\n", flush=True)
