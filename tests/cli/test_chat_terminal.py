"""``dragoman chat`` at a terminal: a pseudo-terminal types, a llama-server that the test plays answers."""

from __future__ import annotations

import contextlib
import json
import os
import pty
import re
import select
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response, StreamingResponse
from starlette.routing import Route

from tests.server.live import live
from tests.server.service import CALL, TEMPLATE
from tests.vocabularies import small_tokenizer

TOOLS = '''
def get_weather(city: str, days: int = 1) -> dict:
    """The weather of a city."""
    return {"city": city, "sky": "clear", "days": days}
'''
WAIT_SECONDS = 30.0
_TITLE = "\x1b]0;title\x07"  # a sequence that a terminal obeys
_STYLE = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")


class Upstream:
    """Writes its answers in order, in pieces of four characters; None is an answer that never ends."""

    def __init__(self, *answers: str | None) -> None:
        self.answers = list(answers)
        self.prompts: list[list[int]] = []

    @property
    def app(self) -> Starlette:
        return Starlette(
            routes=[Route("/props", self.props), Route("/completion", self.completion, methods=["POST"])],
        )

    async def props(self, request: Request) -> Response:
        known = {"chat_template": TEMPLATE, "eos_token": "<|fin|>", "model_path": "/models/tiny.gguf"}
        return JSONResponse({**known, "default_generation_settings": {"n_ctx": 4096}})

    async def completion(self, request: Request) -> Response:
        self.prompts.append((await request.json())["prompt"])
        text = self.answers[len(self.prompts) - 1]
        return StreamingResponse(self.pieces(text), media_type="text/event-stream")

    async def pieces(self, text: str | None) -> Any:
        import anyio

        count = 0
        while text is None or count * 4 < len(text):
            piece = "on and " if text is None else text[count * 4 : count * 4 + 4]
            count += 1
            yield f"data: {json.dumps({'content': piece, 'tokens': [count], 'tokens_predicted': count})}\n\n"
            await anyio.sleep(0.02 if text is None else 0)
        end = {"content": "", "stop": True, "stop_type": "eos", "tokens_evaluated": 9, "tokens_predicted": count}
        yield f"data: {json.dumps(end)}\n\n"


class Terminal:
    """The other end of a pseudo-terminal."""

    def __init__(self, end: int) -> None:
        self._end = end
        self.shown = ""

    def type(self, text: str) -> None:
        os.write(self._end, text.encode())

    def until(self, text: str, again: str = "") -> str:
        """What was shown up to ``text``, without its style. again: what is typed once more as long as nothing comes:
        Python's readline does not hear a signal between its prompt and its first wait for a key."""
        deadline = time.monotonic() + WAIT_SECONDS
        next_try = time.monotonic() + 2
        while text not in self.shown:
            assert time.monotonic() < deadline, f"{text!r} never came: {self.shown!r}"
            if again and time.monotonic() > next_try:
                self.type(again)
                next_try += 2
            if select.select([self._end], [], [], 0.2)[0]:
                try:
                    data = os.read(self._end, 4096)
                except OSError:  # Linux's word for the end
                    data = b""
                assert data, f"{text!r} never came: {self.shown!r}"
                self.shown += _STYLE.sub("", data.decode("utf-8", "replace"))
        before, _, self.shown = self.shown.partition(text)
        return before


@contextmanager
def chatting(address: str, folder: Path, *options: str) -> Iterator[tuple[Terminal, subprocess.Popen[bytes]]]:
    marks = [{"content": text, "special": True} for text in ("<|from|>", "<|fin|>", "<|pad|>")]
    (folder / "tokenizer.json").write_text(json.dumps(small_tokenizer(marks)))
    (folder / "tools.py").write_text(TOOLS)
    ours, theirs = pty.openpty()
    words = ["--upstream", address, "--vocab", str(folder / "tokenizer.json"), *options]
    environment = {**os.environ, "TERM": "xterm", "DRAGOMAN_CACHE": str(folder), "COLUMNS": "200"}
    process = subprocess.Popen(
        [sys.executable, "-m", "dragoman", "chat", *words],
        stdin=theirs,
        stdout=theirs,
        stderr=theirs,
        env=environment,
        start_new_session=True,
        preexec_fn=_controls_a_terminal,
    )
    os.close(theirs)
    try:
        yield Terminal(ours), process
    finally:
        process.kill()
        process.wait()
        with contextlib.suppress(OSError):
            os.close(ours)


def _controls_a_terminal() -> None:
    """So that Ctrl-C of the pseudo-terminal becomes a signal; and the signal is heard, whatever started the tests."""
    import fcntl
    import signal
    import termios

    fcntl.ioctl(0, termios.TIOCSCTTY, 0)
    signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.mark.skipif(sys.platform == "win32", reason="there are no pseudo-terminals")
def test_a_conversation_at_a_terminal(tmp_path: Path) -> None:
    upstream = Upstream(
        "<muse>\nhm\n</muse>\n\nLet me see." + CALL, f"It is clear.{_TITLE}", None, "Still clear.", "Yes."
    )
    with live(upstream.app) as address, chatting(address, tmp_path, "--tools", str(tmp_path / "tools.py")) as at:
        terminal, process = at
        assert "with 1 tools" in terminal.until("> ")
        terminal.type("Rome?\n")
        shown = terminal.until("[a]lways: ")
        assert "hm\r\n\r\nLet me see.\r\n" in shown, "reasoning is shown to people"
        assert '→ get_weather {"city": "Rome", "days": 2}' in shown
        terminal.type("y\n")
        shown = terminal.until("\n> ")
        assert '← {"city": "Rome", "sky": "clear", "days": 2}' in shown
        assert "It is clear.␛]0;title␇" in shown, "a terminal does not obey a model"
        terminal.type("Tell me a long story\n")
        terminal.until("on and on and")
        terminal.type("\x03")
        terminal.until("(stopped)")
        terminal.until("> ")
        assert process.poll() is None, "Ctrl-C ends the answer and not the program"
        terminal.type("half a line\x03")
        terminal.until("(Ctrl-D or /quit ends the chat)", again="\x03")
        terminal.until("> ")
        terminal.type("/choice none\n")
        terminal.until("> ")
        terminal.type("And\\\nnow?\n")
        terminal.until("Still clear.")
        terminal.until("> ")
        terminal.type("/nope\n")
        terminal.until("there is no command /nope")
        terminal.until("> ")
        terminal.type("/prompt\n")
        assert "And\r\nnow?" in terminal.until("what the template wrote")
        terminal.until("> ")
        terminal.type(f"/save {tmp_path / 'saved.json'}\n")
        terminal.until("messages in")
        terminal.until("> ")
        terminal.type("\x04")
        assert process.wait(WAIT_SECONDS) == 0
    saved = json.loads((tmp_path / "saved.json").read_text())
    assert [message["role"] for message in saved["messages"]] == [
        *("user", "assistant", "tool", "assistant", "user", "assistant", "user", "assistant")
    ]
    assert saved["messages"][5]["content"].startswith("on and on"), "what was said before Ctrl-C"
    assert saved["messages"][6]["content"] == "And\nnow?"
    assert (tmp_path / "chat_history").stat().st_mode & 0o777 == 0o600
    assert "Rome?" in (tmp_path / "chat_history").read_text()
