"""``make demo``: a real model answers a real tool call through a template that knows nothing of tools.

Rules of this file: it is a client. It starts ``dragoman serve`` as anybody would, asks through the ``openai`` client,
shows what went in and what came out, and exits 0 only if the call is one that the tools allow.
"""

from __future__ import annotations

import collections
import json
import os
import re
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, redirect_stdout, suppress
from dataclasses import dataclass, field
from typing import Any

from dragoman.engines.model_file import fetch
from dragoman.errors import DragomanError, EngineError
from dragoman.inspector.example import QUESTION, TOOLS

REQUEST: dict[str, Any] = {
    "messages": [{"role": "user", "content": QUESTION}],
    "tools": TOOLS,
    "tool_choice": "required",
}

_START_S_MAX = 90.0
_ADDRESS = re.compile(r"http://127\.0\.0\.1:[1-9]\d*")


@dataclass(slots=True)
class Call:
    """What the deltas add up to."""

    id: str = ""
    name: str = ""
    arguments: str = ""
    finish_reason: str | None = None
    fragments: int = 0


@dataclass(frozen=True, slots=True)
class Screen:
    """Plain lines; colour where a terminal shows it."""

    colour: bool = field(default_factory=lambda: sys.stdout.isatty() and "NO_COLOR" not in os.environ)

    def title(self, text: str) -> None:
        print(f"\n{self._paint(text, '1')}", flush=True)

    def line(self, text: str) -> None:
        print(f"  {text}", flush=True)

    def template(self, text: str) -> str:
        return self._paint(text, "2")

    def input(self, text: str) -> str:
        return self._paint(text, "36")

    def _paint(self, text: str, code: str) -> str:
        return f"\x1b[{code}m{text}\x1b[0m" if self.colour and text else text


def main(*, as_json: bool = False) -> int:
    """Exit code: 0 if the model's call is well-formed and allowed, 1 otherwise.

    as_json: the steps are told on stderr, the call on stdout. Raises DragomanError then.
    """
    if as_json:
        with redirect_stdout(sys.stderr), serving() as address:
            call = converse(address, Screen())
        fault = fault_of(call)
        told = {"name": call.name, "arguments": call.arguments, "finish_reason": call.finish_reason, "fault": fault}
        print(json.dumps(told, ensure_ascii=False, indent=2))
        return 1 if fault else 0
    screen = Screen()
    try:
        screen.title("1. The embedded model")
        screen.line(str(fetch()))
        begun = time.monotonic()
        with serving() as address:
            screen.line(f"serving on {address}/v1 after {time.monotonic() - begun:.1f} s")
            return 1 if fault_of(converse(address, screen)) else 0
    except DragomanError as error:
        print(f"demo: {error}", file=sys.stderr)
        return 1


def converse(address: str, screen: Screen) -> Call:
    """Ask the server at ``address``, show everything; what it answered."""
    screen.title("2. The question, and two tools it may be answered with")
    screen.line(QUESTION)
    for tool in TOOLS:
        function = tool["function"]
        screen.line(f"- {function['name']}({', '.join(function['parameters']['properties'])})")

    screen.title("3. The prompt: what the template writes, and what came in from outside")
    show_parts(prompt_parts(address), screen)

    screen.title("4. The answer as it arrives")
    call = stream_call(address, screen)

    screen.title("5. The finished call")
    screen.line(f"{call.name}({call.arguments})")
    fault = fault_of(call)
    screen.line(fault or f"valid: a declared tool, arguments as its schema demands, finish_reason {call.finish_reason}")
    return call


def prompt_parts(address: str) -> list[tuple[str, bool]]:
    """(text, came from outside) of the rendered prompt, from the server's ``/apply-template``."""
    import httpx

    try:
        answer = httpx.post(f"{address}/apply-template", json=REQUEST, timeout=60.0, trust_env=False)
        answer.raise_for_status()
        return [(part["text"], bool(part["input"])) for part in answer.json()["parts"]]
    except (httpx.HTTPError, ValueError, KeyError) as error:
        raise EngineError(f"the server did not render the prompt: {error}") from error


def show_parts(parts: list[tuple[str, bool]], screen: Screen) -> None:
    """Line by line; «» around what came from outside, where no control token can be forged."""
    text = "".join(
        "\n".join(screen.input(f"«{line}»") if line else "" for line in part.split("\n"))
        if outside
        else "\n".join(screen.template(line) for line in part.split("\n"))
        for part, outside in parts
    )
    for line in text.rstrip("\n").split("\n"):
        screen.line(line)


def stream_call(address: str, screen: Screen) -> Call:
    """The answer through the ``openai`` client, each delta shown with the time it came at."""
    import openai

    client = openai.OpenAI(
        base_url=f"{address}/v1",
        api_key="none",
        max_retries=0,
        timeout=120.0,
        http_client=openai.DefaultHttpxClient(trust_env=False),
    )
    call = Call()
    begun = time.monotonic()
    try:
        with client:
            request: Any = {**REQUEST, "model": client.models.list().data[0].id}
            for chunk in client.chat.completions.create(**request, stream=True, temperature=0, max_tokens=256):
                for choice in chunk.choices:
                    shown = _take(choice, call)
                    if shown:
                        screen.line(f"{time.monotonic() - begun:6.2f} s  {shown}")
    except openai.OpenAIError as error:
        raise EngineError(f"the server did not answer the request: {error}") from error
    return call


def _take(choice: Any, call: Call) -> str:
    """Add a choice's delta to ``call``; what to show of it."""
    shown = []
    if choice.delta.content:
        shown.append(f"content {choice.delta.content!r}")
    for piece in choice.delta.tool_calls or ():
        call.fragments += 1
        call.id += piece.id or ""
        call.name += piece.function.name or ""
        call.arguments += piece.function.arguments or ""
        shown.append(f"call    {piece.function.name}" if piece.function.name else f"        {piece.function.arguments}")
    if choice.finish_reason:
        call.finish_reason = choice.finish_reason
        shown.append(f"finish  {choice.finish_reason}")
    return "; ".join(shown)


def fault_of(call: Call) -> str | None:
    """Why the call is not one that the tools allow; None if it is."""
    declared = {tool["function"]["name"]: tool["function"]["parameters"] for tool in TOOLS}
    if call.finish_reason != "tool_calls":
        return f"not a call: finish_reason is {call.finish_reason}"
    if call.name not in declared:
        return f"{call.name!r} is no declared tool"
    try:
        arguments = json.loads(call.arguments)
    except ValueError as error:
        return f"the arguments are no JSON: {error}"
    return _fault_of_arguments(arguments, declared[call.name])


def _fault_of_arguments(arguments: Any, parameters: Mapping[str, Any]) -> str | None:
    """Only what the two schemas above use, so that the demo needs no schema library."""
    if not isinstance(arguments, dict) or set(arguments) != set(parameters["required"]):
        return f"the arguments must be {', '.join(parameters['required'])}"
    for name, schema in parameters["properties"].items():
        value = arguments[name]
        if not isinstance(value, str) or value not in schema.get("enum", [value]):
            return f"{name} may not be {value!r}"
    return None


@contextmanager
def serving() -> Iterator[str]:
    """``dragoman serve`` on a free port: its address, once it has said it. It is ended with the block."""
    command = [sys.executable, "-m", "dragoman", "serve", "--port", "0"]
    environment = {**os.environ, "PYTHONUNBUFFERED": "1"}
    process = subprocess.Popen(
        command,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
        env=environment,
    )
    try:
        address = _address_of(process)
        _wait_until_healthy(address)
        yield address
    finally:
        process.terminate()
        try:
            process.wait(timeout=10)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def _address_of(process: subprocess.Popen[str]) -> str:
    """The first address that the server names. Its output is read on to the end, so that it never blocks on us."""
    lines: collections.deque[str] = collections.deque(maxlen=20)
    found: list[str] = []
    settled = threading.Event()

    def read() -> None:
        assert process.stdout is not None
        with process.stdout:
            for line in process.stdout:
                lines.append(line)
                if not found and (match := _ADDRESS.search(line)):
                    found.append(match[0])
                    settled.set()
        settled.set()

    threading.Thread(target=read, daemon=True).start()
    if settled.wait(_START_S_MAX) and found:
        return found[0]
    reason = "it ended" if settled.is_set() else f"it said no address within {_START_S_MAX:.0f} s"
    raise EngineError(f"`dragoman serve` did not start: {reason}. Its last lines:\n{''.join(lines) or '(none)'}")


def _wait_until_healthy(address: str) -> None:
    """A server may name its address a moment before it answers there."""
    import httpx

    for _ in range(50):
        with suppress(httpx.HTTPError):
            if httpx.get(f"{address}/health", timeout=5.0, trust_env=False).status_code == 200:
                return
        time.sleep(0.1)
    raise EngineError(f"the server at {address} does not answer /health")


if __name__ == "__main__":
    raise SystemExit(main())
