"""The end of a whole server: a process of its own over a scripted upstream, told to go while an answer is open."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.contract import upstreams
from tests.server.live import live, wait_until
from tests.server.service import MESSAGES, TEMPLATE
from tests.vocabularies import small_tokenizer

BODY = {"messages": MESSAGES, "stream": True, "max_tokens": 3000}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("model")
    marks = [{"content": text, "special": True} for text in ("<|from|>", "<|fin|>", "<|pad|>")]
    (place / "tokenizer.json").write_text(json.dumps(small_tokenizer(marks)))
    (place / "tokenizer_config.json").write_text(json.dumps({"chat_template": TEMPLATE, "eos_token": "<|fin|>"}))
    return place


@contextmanager
def served(server: upstreams.Server, folder: Path, *words: str) -> Iterator[tuple[subprocess.Popen[str], str]]:
    """``dragoman serve`` over ``server``: the process and its address."""
    with live(server.app) as upstream:
        command = [sys.executable, "-m", "dragoman", "serve", "--upstream", upstream, "--vocab", str(folder)]
        command += ["--port", "0", "--json", "--log-format", "json", *words]
        environment = {name: value for name, value in os.environ.items() if not name.startswith("DRAGOMAN_")}
        pipe = subprocess.PIPE
        with subprocess.Popen(command, stdout=pipe, stderr=pipe, text=True, env=environment) as process:
            try:
                assert process.stdout is not None
                line = process.stdout.readline()
                assert line, process.communicate()[1]
                yield process, json.loads(line)["url"]
            finally:
                if process.poll() is None:
                    process.kill()


def test_an_open_answer_is_finished_and_nothing_new_begun(folder: Path) -> None:
    server = upstreams.vllm(lambda _: "word " * 100, delay=0.01)  # 170 pieces
    with served(server, folder) as (process, address), httpx.Client(trust_env=False, timeout=30) as client:
        with client.stream("POST", f"{address}/v1/chat/completions", json=BODY) as answer:
            lines = answer.iter_lines()
            next(line for line in lines if '"content":"' in line)
            process.send_signal(signal.SIGTERM)
            wait_until(lambda: httpx.get(f"{address}/ready", trust_env=False).status_code == 503)
            late = httpx.post(f"{address}/v1/chat/completions", json=BODY, trust_env=False)
            rest = "".join(lines)
        assert (late.status_code, late.json()["error"]["code"]) == (503, "draining")
        assert rest.endswith("data: [DONE]")
        _, log = process.communicate(timeout=20)
    assert process.returncode in (0, -signal.SIGTERM)  # uvicorn hands the signal on when all is done
    assert "Traceback" not in log
    assert "ending when open answers are done" in log
    assert server.engine.record.endings == ["stop"]


@pytest.mark.parametrize("twice", [False, True])
def test_an_answer_that_outlasts_the_end_says_so(folder: Path, twice: bool) -> None:
    """By an error event: after its time, or at a second signal, long before the 600 s of the first are over."""
    server = upstreams.vllm(lambda _: "word " * 20_000, delay=0.01)
    patience = "600" if twice else "0.2"
    with served(server, folder, "--drain-seconds", patience) as (process, address):
        with httpx.stream("POST", f"{address}/v1/chat/completions", json=BODY, trust_env=False, timeout=30) as answer:
            lines = answer.iter_lines()
            next(line for line in lines if '"content":"' in line)
            process.send_signal(signal.SIGINT)
            if twice:
                wait_until(lambda: httpx.get(f"{address}/ready", trust_env=False).status_code == 503)
                process.send_signal(signal.SIGINT)
            said = _rest(lines)
        _, log = process.communicate(timeout=20)
    assert "Traceback" not in log
    assert "shutting down" in json.loads(said[-1].removeprefix("data: "))["error"]["message"]
    wait_until(lambda: server.engine.record.running == 0)
    assert server.engine.record.endings == ["cancelled"]


def _rest(lines: Any) -> list[str]:
    """What still comes; a connection that is cut is an end too."""
    seen: list[str] = []
    with suppress(httpx.RemoteProtocolError):
        seen.extend(line for line in lines if line)
    return seen
