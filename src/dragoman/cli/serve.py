"""``dragoman serve``: any OpenAI client talks to a model, through what dragoman learned of its template."""

from __future__ import annotations

import argparse
import asyncio
import ipaddress
import json
import logging
import shlex
import socket
import time
from contextlib import suppress
from typing import TYPE_CHECKING

from dragoman.cli.engines import Opened, add_engine, open_engine
from dragoman.cli.output import print_json_line
from dragoman.errors import EngineError, UsageError

if TYPE_CHECKING:
    from types import FrameType

    import uvicorn
    from starlette.types import ASGIApp

    from dragoman.cli.configuration import ServeSettings
    from dragoman.server.operations.layers import Operations

LOG = logging.getLogger("dragoman.server")
_SHUTDOWN_S = 3  # what has been told its end has so long to say it
_HURRIED_S = 0.5  # the same, when it was told by a second signal


def add_arguments(parser: argparse.ArgumentParser) -> None:
    from dragoman.cli.configuration import add_settings

    add_engine(parser, key=None, defaults=False)
    add_settings(parser)


def run(arguments: argparse.Namespace) -> int:
    try:
        import uvicorn  # noqa: F401

        from dragoman.cli.configuration import read_settings
        from dragoman.inspector.routes import inspector_routes
        from dragoman.server.app import create_app, doors_of
        from dragoman.server.operations import logs
        from dragoman.server.operations.layers import Operations
    except ImportError as error:
        raise UsageError(f"serving needs {error.name}: pip install 'dragoman[local,server]'") from error
    settings = read_settings(arguments)
    operations = Operations(settings.operations())
    logs.configure(settings.log_format, settings.log_level, messages=settings.log_messages)
    # The address first: a busy port should not cost the loading of a model.
    listener = _listen(settings.host, settings.port)
    with listener:
        opened = open_engine(settings.arguments())
        engine = operations.watch(opened.engine)
        app = create_app(
            opened.format, engine, model=opened.model, settings=opened.settings, beside=doors_of(operations)
        )
        if settings.inspector:
            page = inspector_routes(
                opened.format, engine, model=opened.model, settings=opened.settings, clock=time.time
            )
            app.router.routes.extend(page)
        served = operations.wrap(app, fmt=opened.format, model=opened.model)
        with suppress(KeyboardInterrupt):  # how people end a server, told once more when it has shut down
            asyncio.run(_serve(served, operations, listener, opened, settings, as_json=arguments.json))
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
    app: ASGIApp,
    operations: Operations,
    listener: socket.socket,
    opened: Opened,
    settings: ServeSettings,
    *,
    as_json: bool,
) -> None:
    """Until a signal ends it. The address is told when the server answers there."""
    server = _server(app, operations, settings.drain_seconds)
    running = asyncio.create_task(server.serve(sockets=[listener]))
    while not server.started and not running.done():  # noqa: ASYNC110 - uvicorn offers nothing else to wait for
        await asyncio.sleep(0.01)
    if server.started:
        if not operations.settings.api_keys and not _is_own(settings.host):
            LOG.warning("whoever reaches %s may use the model: no API key is asked for", settings.host)
        _tell(listener, opened, as_json=as_json, inspector=settings.inspector)
    await running


def _question(url: str) -> str:
    """A line for a shell that asks the server for a call."""
    from dragoman.inspector.example import QUESTION, WEATHER

    messages = [{"role": "user", "content": QUESTION}]
    body = {"stream": True, "tool_choice": "required", "messages": messages, "tools": [WEATHER]}
    return f"curl -N {url}/v1/chat/completions -H 'Content-Type: application/json' -d {shlex.quote(json.dumps(body))}"


def _is_own(host: str) -> bool:
    """Only this machine reaches it."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def _server(app: ASGIApp, operations: Operations, drain_seconds: float) -> uvicorn.Server:
    """A server that, told to end, first lets what was begun be finished; told twice, it tells open answers so and ends;
    told once more, it ends without a word."""
    import uvicorn

    loop = asyncio.get_running_loop()

    class Draining(uvicorn.Server):
        told = 0
        ending: asyncio.Task[None] | None = None

        def handle_exit(self, sig: int, frame: FrameType | None) -> None:
            self._captured_signals.append(sig)
            self.told += 1
            if self.told > 2 or self.should_exit:
                self.should_exit = self.force_exit = True
            else:
                loop.call_soon_threadsafe(self._begin if self.told == 1 else self._hurry)

        def _begin(self) -> None:
            operations.drain()
            self.ending = asyncio.create_task(self._end())

        def _hurry(self) -> None:
            # uvicorn asks for whole seconds, and hands them to asyncio, which takes parts of one too.
            self.config.timeout_graceful_shutdown = _HURRIED_S  # type: ignore[assignment]
            operations.hurry()

        async def _end(self) -> None:
            if operations.busy:
                known = {"answers": operations.busy, "seconds": drain_seconds}
                LOG.warning("ending when open answers are done; a second signal ends it now", extra={"known": known})
            await operations.drained(drain_seconds)
            self.should_exit = True

    # Its own log is ours: a line for each request, and errors without what users wrote.
    config = uvicorn.Config(
        app, log_config=None, access_log=False, timeout_graceful_shutdown=_SHUTDOWN_S, lifespan="on", ws="none"
    )
    return Draining(config)


def _tell(listener: socket.socket, opened: Opened, *, as_json: bool, inspector: bool) -> None:
    host, port = listener.getsockname()[:2]
    url = f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"
    if as_json:
        print_json_line({"url": url, "model": opened.model})
        return
    page = f", its inspector on {url}/" if inspector else ""
    print(f"{opened.model} on {url}/v1{page} (Ctrl-C ends it). Try:\n\n{_question(url)}\n", flush=True)
