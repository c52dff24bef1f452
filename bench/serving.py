"""``make bench-serving``: many streams at once through the whole server, beside the same engine without it.

The engine writes numbered words at a steady pace and stamps each with the moment in which it was made, by the
machine's monotonic clock, which all processes share. So every token's way from the engine to a client's socket is
known, and a lost, doubled or reordered word is seen. Every fourth stream is a tool call whose argument holds the words.
Direct: the same engine, the same number of readers, one event loop, no server. Server and clients are one process each.

Four parts: streams for ``--seconds`` (each new one begins where one ends), with the server's memory watched; the
direct run for a tenth of that; then half of as many endless streams are hung up, and how soon their work is gone.
Then a few streams over the same engine behind HTTP, as vLLM would have it: through dragoman, and from it directly.
What does not hold (a lost word, an error, growing memory) is an exit code of 1. Latencies are as good as the machine
is idle; the CPU time of the server for each token is beside them, since it does not depend on that so much.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import datetime
import json
import math
import os
import platform
import re
import resource
import statistics
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import aclosing, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from dragoman.engine import Chunk, Engine, EngineInfo, Generation, GrammarSpec, Sampling
from dragoman.engines.completions import VLLM, Completions
from dragoman.server.app import create_app
from dragoman.server.operations.layers import Operations, OperationsSettings
from tests.server.service import MESSAGES, TOOLS, chat_format

ROOT = Path(__file__).parent.parent
RECORD = ROOT / "bench" / "record"
WORD = re.compile(r"(\d+)@(\d+) ")
OPENER, CLOSER = '<do>\n{"name": "get_weather", "arguments": {"city": "', '"}}\n</do>'
ENDLESS = 1_000_000


class Stamping:
    """An engine that writes ``0@stamp 1@stamp ...``, each word a token, ``pace`` seconds apart; seed: how many."""

    def __init__(self, pace: float) -> None:
        self._pace = pace

    async def info(self) -> EngineInfo:
        return EngineInfo(model="stamping", grammar_forms=("gbnf",))

    async def aclose(self) -> None:
        """Nothing to give back."""

    async def generate(self, request: Generation) -> AsyncIterator[Chunk]:
        words = request.sampling.seed or 0
        call = request.grammar is not None
        if call:
            yield Chunk(OPENER, (0,))
        due = asyncio.get_running_loop().time()
        for number in range(words):
            due += self._pace
            await asyncio.sleep(due - asyncio.get_running_loop().time())
            yield Chunk(f"{number}@{time.monotonic_ns()} ", (0,))
        yield Chunk(CLOSER if call else "", (), finish="stop", prompt_tokens=1, completion_tokens=words)


def app_of(engine: Engine) -> Any:
    """The operated server over an engine."""
    operations = Operations(OperationsSettings(deadline_seconds=600.0))
    app = create_app(chat_format(), operations.watch(engine), model="stamping")
    return operations.wrap(app, fmt=chat_format(), model="stamping")


def upstream_of(pace: float) -> Any:
    """The stamping engine behind HTTP, as much of vLLM's as the adapter asks for."""
    from starlette.applications import Starlette
    from starlette.requests import Request
    from starlette.responses import JSONResponse, StreamingResponse
    from starlette.routing import Route

    engine = Stamping(pace)

    async def models(_: Request) -> JSONResponse:
        return JSONResponse({"data": [{"id": "stamping", "owned_by": "vllm", "max_model_len": 1 << 20}]})

    async def completions(request: Request) -> StreamingResponse:
        body = await request.json()
        grammar = GrammarSpec("") if "structured_outputs" in body else None
        asked = Generation((1,), "", grammar=grammar, sampling=Sampling(seed=body["seed"]))

        async def lines() -> AsyncIterator[bytes]:
            async for chunk in engine.generate(asked):
                choice = {"index": 0, "text": chunk.text, "finish_reason": chunk.finish, "token_ids": chunk.token_ids}
                yield b"data: " + json.dumps({"choices": [choice]}).encode() + b"\n\n"
            yield b"data: [DONE]\n\n"

        return StreamingResponse(lines(), media_type="text/event-stream")

    return Starlette(routes=[Route("/v1/models", models), Route("/v1/completions", completions, methods=["POST"])])


@dataclass
class Tally:
    """What clients saw. delays: seconds from the engine to a client, a token each; spans: of whole requests."""

    delays: list[float] = field(default_factory=list)
    spans: list[float] = field(default_factory=list)
    requests: int = 0
    tokens: int = 0
    errors: list[str] = field(default_factory=list)
    wrong: list[str] = field(default_factory=list)


class _Reader:
    """Checks one stream's words as they come and notes how long each was on its way."""

    def __init__(self, tally: Tally) -> None:
        self._tally = tally
        self._rest = ""
        self._next = 0

    def text(self, piece: str) -> None:
        now = time.monotonic_ns()
        self._rest += piece
        end = 0
        for match in WORD.finditer(self._rest):
            number = int(match[1])
            if number != self._next or match.start() != end:
                self._tally.wrong.append(f"word {number} where {self._next} belongs, in {self._rest[:80]!r}")
            self._next = number + 1
            self._tally.delays.append((now - int(match[2])) / 1e9)
            end = match.end()
        self._rest = self._rest[end:]

    def done(self, words: int) -> None:
        self._tally.requests += 1
        self._tally.tokens += self._next
        if self._next != words or self._rest:
            self._tally.wrong.append(f"{self._next} words of {words}, and {self._rest[:80]!r}")


# -- through the server ------------------------------------------------------------------------------------------------


async def connect(host: str, port: int, words: int, *, call: bool) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    """A streamed request that has been sent. A client of its own hand: one that is no slower than it must be."""
    body: dict[str, Any] = {"messages": MESSAGES, "stream": True, "seed": words}
    if call:
        body |= {"tools": TOOLS, "tool_choice": "required"}
    return await post(host, port, "/v1/chat/completions", body)


async def post(
    host: str, port: int, path: str, body: dict[str, Any]
) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    data = json.dumps(body).encode()
    reader, writer = await asyncio.open_connection(host, port)
    head = f"POST {path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\nContent-Length: {len(data)}\r\n\r\n"
    writer.write(head.encode() + data)
    await writer.drain()
    return reader, writer


async def events(reader: asyncio.StreamReader) -> AsyncIterator[dict[str, Any]]:
    """The events of a streamed answer. Raises RuntimeError where it is no whole stream."""
    status = await reader.readline()
    if b" 200 " not in status:
        raise RuntimeError(f"{status!r} {(await reader.read(400))!r}")
    while await reader.readline() != b"\r\n":
        pass
    while True:
        line = await reader.readline()  # sizes of HTTP's chunks stand between: lines that begin otherwise
        if not line:
            raise RuntimeError("the stream ended without [DONE]")
        if line.startswith(b"data: [DONE]"):
            return
        if line.startswith(b"data: "):
            yield json.loads(line[6:])


async def stream(address: tuple[str, int], words: int, tally: Tally, *, call: bool) -> None:
    """One request, read to its end and checked."""
    began = time.monotonic()
    check = _Reader(tally)
    reader, writer = await connect(*address, words, call=call)
    try:
        ended = None
        async with aclosing(events(reader)) as coming:  # type: ignore[type-var]
            async for event in coming:
                if "error" in event:
                    raise RuntimeError(json.dumps(event))
                choice = event["choices"][0]
                ended = choice["finish_reason"] or ended
                delta = choice["delta"]
                if delta.get("content"):
                    check.text(delta["content"])
                for piece in delta.get("tool_calls") or ():
                    arguments = piece["function"]["arguments"]
                    check.text(arguments.removeprefix('{"city": "').removesuffix('"}'))
        if ended != ("tool_calls" if call else "stop"):
            tally.wrong.append(f"finish_reason {ended}")
        check.done(words)
        tally.spans.append(time.monotonic() - began)
    except (RuntimeError, OSError, asyncio.IncompleteReadError) as error:
        tally.errors.append(str(error))
    finally:
        writer.close()
        with contextlib.suppress(OSError):
            await writer.wait_closed()


async def load(address: tuple[str, int], *, streams: int, words: int, seconds: float) -> Tally:
    """So many streams at every moment, for so long; what has begun then is read to its end."""
    tally = Tally()
    end = time.monotonic() + seconds

    async def client(number: int) -> None:
        await asyncio.sleep(number / streams)  # not all in one moment, as they would never come
        while True:  # each asks at least once, however slow the machine is
            await stream(address, words, tally, call=number % 4 == 3)
            if time.monotonic() >= end:
                return

    await asyncio.gather(*(client(number) for number in range(streams)))
    return tally


async def plain(address: tuple[str, int], words: int, tally: Tally) -> None:
    """One request to the upstream itself."""
    began = time.monotonic()
    check = _Reader(tally)
    body = {"model": "stamping", "prompt": [1], "stream": True, "seed": words, "max_tokens": 10_000}
    reader, writer = await post(*address, "/v1/completions", body)
    async with aclosing(events(reader)) as coming:  # type: ignore[type-var]
        async for event in coming:
            check.text(event["choices"][0]["text"])
    check.done(words)
    tally.spans.append(time.monotonic() - began)
    writer.close()


async def behind(*, streams: int, words: int, pace: float, seconds: float) -> tuple[Tally, Tally]:
    """(through dragoman, from the upstream itself), one after the other; the upstream is a process of its own."""
    with server("--upstream", pace) as (_, upstream):
        with server("--serve", pace, over=f"http://{upstream[0]}:{upstream[1]}") as (_, address):
            await load(address, streams=10, words=10, seconds=1.0)
            through = await load(address, streams=streams, words=words, seconds=seconds)
        alone = Tally()
        end = time.monotonic() + seconds

        async def client(number: int) -> None:
            await asyncio.sleep(number / streams)
            while True:
                await plain(upstream, words, alone)
                if time.monotonic() >= end:
                    return

        await asyncio.gather(*(client(number) for number in range(streams)))
    return through, alone


async def hang_up(address: tuple[str, int], *, streams: int) -> tuple[float, int]:
    """(seconds until the work of half of the streams is gone, how many still run then)."""
    opened = [await connect(*address, ENDLESS, call=number % 4 == 3) for number in range(streams)]
    await _until_running(address, streams, seconds=60.0)
    left = time.monotonic()
    for _, writer in opened[::2]:
        writer.transport.abort()
    rest = streams - len(opened[::2])
    # The other half is read on, or it would stop by itself when its buffers are full.
    readers = [asyncio.ensure_future(reader.read()) for reader, _ in opened[1::2]]
    await _until_running(address, rest, seconds=60.0)
    took = time.monotonic() - left
    running = await _running(address)
    for _, writer in opened[1::2]:
        writer.transport.abort()
    await asyncio.gather(*readers, return_exceptions=True)
    await _until_running(address, 0, seconds=60.0)
    return took, running


async def _until_running(address: tuple[str, int], wanted: int, *, seconds: float) -> None:
    end = time.monotonic() + seconds
    while (seen := await _running(address)) != wanted:
        if time.monotonic() > end:
            raise TimeoutError(f"{seen} answers are written after {seconds:g} s, not {wanted}")
        await asyncio.sleep(0.01)


async def _running(address: tuple[str, int]) -> int:
    reader, writer = await asyncio.open_connection(*address)
    writer.write(b"GET /metrics HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
    data = await reader.read()
    writer.close()
    found = re.search(rb"^dragoman_generations_running (\S+)", data, re.MULTILINE)
    assert found is not None
    return int(float(found[1]))


# -- without it --------------------------------------------------------------------------------------------------------


async def direct(*, streams: int, words: int, pace: float, seconds: float) -> Tally:
    """The same readers on the engine itself."""
    tally, engine = Tally(), Stamping(pace)
    end = time.monotonic() + seconds

    async def client(number: int) -> None:
        await asyncio.sleep(number / streams)
        while time.monotonic() < end:
            began = time.monotonic()
            check = _Reader(tally)
            async for chunk in engine.generate(Generation((1,), "", sampling=Sampling(seed=words))):
                check.text(chunk.text)
            check.done(words)
            tally.spans.append(time.monotonic() - began)

    await asyncio.gather(*(client(number) for number in range(streams)))
    return tally


# -- the run -----------------------------------------------------------------------------------------------------------


@dataclass
class Watched:
    """The server's process over time: resident bytes, and CPU seconds at the end."""

    resident: list[int] = field(default_factory=list)
    cpu_seconds: float = 0.0

    def growth(self) -> float:
        """Of the last third's median over that of the second: after the start, before the end."""
        third = len(self.resident) // 3
        if third < 2:
            return 0.0
        middle, last = (statistics.median(self.resident[at * third : (at + 1) * third]) for at in (1, 2))
        return last / middle - 1.0


async def watch(process: int, seen: Watched) -> None:
    """Until it is cancelled."""
    first, _ = _usage(process)
    while True:
        cpu, resident = _usage(process)
        seen.cpu_seconds = cpu - first
        seen.resident.append(resident)
        await asyncio.sleep(0.5)


def _usage(process: int) -> tuple[float, int]:
    """CPU seconds and resident bytes."""
    fields = Path(f"/proc/{process}/stat").read_text().rsplit(") ", 1)[1].split()
    cpu = (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
    return cpu, int(Path(f"/proc/{process}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


@contextmanager
def server(role: str, pace: float, *, over: str = "") -> Iterator[tuple[int, tuple[str, int]]]:
    """(process, address) of the server or the upstream, a process of its own. over: what the server stands before."""
    command = [sys.executable, "-m", "bench.serving", role, "--pace", str(pace), "--over", over]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=ROOT) as process:
        try:
            assert process.stdout is not None
            yield process.pid, ("127.0.0.1", int(process.stdout.readline()))
        finally:
            process.terminate()


def serve(app: Any) -> None:
    import socket

    import uvicorn

    resource.setrlimit(resource.RLIMIT_NOFILE, (min(4096, resource.getrlimit(resource.RLIMIT_NOFILE)[1]),) * 2)
    with socket.create_server(("127.0.0.1", 0), backlog=1024) as listener:
        print(listener.getsockname()[1], flush=True)
        config = uvicorn.Config(app, log_config=None, access_log=False, timeout_graceful_shutdown=1)
        uvicorn.Server(config).run(sockets=[listener])


def quantiles(values: Sequence[float]) -> dict[str, float]:
    """p50, p99 and the worst, in milliseconds."""
    ordered = sorted(values)
    at = {"p50": 0.5, "p99": 0.99, "max": 1.0}
    return {name: round(1e3 * ordered[max(0, math.ceil(q * len(ordered)) - 1)], 3) for name, q in at.items()}


def _beside(server_side: Sequence[float], direct_side: Sequence[float]) -> dict[str, dict[str, float]]:
    """Milliseconds through the server and without it, and what it adds."""
    served, alone = quantiles(server_side), quantiles(direct_side)
    added = {q: round(served[q] - alone[q], 3) for q in ("p50", "p99")}
    return {"added": added, "through": served, "direct": alone}


async def measure(arguments: argparse.Namespace) -> dict[str, Any]:
    shape = {"streams": arguments.streams, "words": arguments.words}
    with server("--serve", arguments.pace) as (process, address):
        await load(address, streams=20, words=10, seconds=1.0)  # what is compiled once is compiled
        seen = Watched()
        watching = asyncio.ensure_future(watch(process, seen))
        through = await load(address, **shape, seconds=arguments.seconds)
        watching.cancel()
        freed, running = await hang_up(address, streams=arguments.streams)
    alone = await direct(**shape, pace=arguments.pace, seconds=max(2.0, arguments.seconds / 10))
    few = {"streams": max(1, arguments.streams // 4), "words": arguments.words, "pace": arguments.pace}
    over, upstream = await behind(**few, seconds=max(2.0, arguments.seconds / 4))
    problems = [each for tally in (through, alone, over, upstream) for each in (*tally.errors[:5], *tally.wrong[:5])]
    growth = seen.growth()
    if growth > 0.05:
        problems.append(f"the server's memory grew by {growth:.1%} between the second and the last third")
    if running != arguments.streams // 2:
        problems.append(f"{running} answers run after half of {arguments.streams} were hung up")
    sides = {"token": _beside(through.delays, alone.delays), "request": _beside(through.spans, alone.spans)}
    behind_http = {"token": _beside(over.delays, upstream.delays), "request": _beside(over.spans, upstream.spans)}
    return {
        "streams": arguments.streams,
        "words_of_an_answer": arguments.words,
        "pace_ms": 1e3 * arguments.pace,
        "seconds": arguments.seconds,
        "requests": through.requests,
        "tokens": through.tokens,
        "tokens_per_second": round(through.tokens / arguments.seconds),
        "errors": len(through.errors),
        "lost_or_reordered": len(through.wrong),
        "ms": sides,
        "server_cpu_us_per_token": round(1e6 * seen.cpu_seconds / max(through.tokens, 1), 1),
        "server_memory_mb": [round(size / 1e6, 1) for size in (seen.resident[0], max(seen.resident))],
        "memory_growth_last_third": round(growth, 4),
        "half_hung_up_seconds": round(freed, 3),
        "over_an_upstream": {"streams": few["streams"], "tokens": over.tokens, "ms": behind_http},
        "problems": problems,
    }


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for hidden in ("--serve", "--upstream"):
        parser.add_argument(hidden, action="store_true", help=argparse.SUPPRESS)
    parser.add_argument("--over", default="", help=argparse.SUPPRESS)
    parser.add_argument("--streams", type=int, default=200)
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("--words", type=int, default=60, help="of one answer")
    parser.add_argument("--pace", type=float, default=0.1, help="seconds between two words of one stream")
    parser.add_argument("--record", action="store_true", help="write the figures to bench/record")
    arguments = parser.parse_args()
    if arguments.upstream:
        serve(upstream_of(arguments.pace))
        return 0
    if arguments.serve:
        serve(app_of(Completions(arguments.over, VLLM) if arguments.over else Stamping(arguments.pace)))
        return 0
    load_before = os.getloadavg()[0]
    result = asyncio.run(measure(arguments))
    machine = {"python": platform.python_version(), "cores": os.cpu_count(), "load_before": round(load_before, 2)}
    print(json.dumps(result | machine, indent=2))
    if arguments.record:
        file = RECORD / f"serving-{datetime.date.today().isoformat()}.json"
        file.write_text(json.dumps(machine | result, indent=2) + "\n", "utf-8")
        print(f"recorded in {file.relative_to(ROOT)}")
    return 1 if result["problems"] else 0


if __name__ == "__main__":
    sys.exit(main())
