"""Real turns through the plug-in in a real vLLM server on the CPU: ``make test-engines``. Not part of the tests of CI.

The model is random, so what comes out well formed is so because the plug-in's structural tag held it, and what is read
right was read by the plug-in's parsers. Prints what came, and writes it down with ``--record FOLDER``.
"""

from __future__ import annotations

import argparse
import datetime
import json
import os
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
from collections.abc import Iterator, Mapping
from importlib.metadata import version
from pathlib import Path
from typing import Any

from tests.plugins.tiny_model import write_model

PORT = 18_461
START_SECONDS = 1500  # its imports alone took three minutes on a busy machine
TOOLS = [
    {
        "type": "function",
        "function": {
            "name": "set-lamp",
            "strict": True,
            "parameters": {
                "type": "object",
                "properties": {
                    "on": {"type": "boolean"},
                    "level": {"type": "integer", "minimum": 0, "maximum": 9},
                    "room": {"enum": ["attic", "Küche"]},
                },
                "required": ["on", "level", "room"],
                "additionalProperties": False,
            },
        },
    },
    {"type": "function", "function": {"name": "ring_bell", "parameters": {"type": "object", "properties": {}}}},
]
MESSAGES = [{"role": "user", "content": "Light, please."}]
THINKING = {"ponder": True}
NOT_THINKING = {"ponder": False}
BASE = {"model": "tiny", "messages": MESSAGES, "temperature": 1.0, "seed": 3, "max_tokens": 300}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--record", metavar="FOLDER", help="write what was seen to a JSON file there")
    folder = parser.parse_args().record
    with tempfile.TemporaryDirectory() as made:
        model = write_model(Path(made) / "tiny")
        log = Path(made) / "vllm.log"
        with log.open("w") as out:
            server = subprocess.Popen(_command(model), stdout=out, stderr=subprocess.STDOUT, env=_environment())
            try:
                _wait(server, log)
                seen = turns()
            except BaseException:
                print(log.read_text("utf-8", "replace")[-6000:], file=sys.stderr)
                raise
            finally:
                _end(server)
    print(json.dumps(seen, indent=2, ensure_ascii=False))
    if folder:
        day = datetime.date.today().isoformat()
        path = Path(folder) / f"engines-vllm-{day}.json"
        path.write_text(json.dumps(_versions() | {"turns": seen}, indent=2, ensure_ascii=False) + "\n", "utf-8")
        print(f"written to {path}")


def turns() -> list[dict[str, Any]]:
    """Each turn, checked; what came."""
    seen: list[dict[str, Any]] = []

    def show(what: str, message: Mapping[str, Any], reply: Mapping[str, Any]) -> None:
        seen.append({"turn": what, "message": message, "finish_reason": reply.get("finish_reason")})
        print(f"ok: {what}")

    for name, choice in (("required", "required"), ("named", {"type": "function", "function": {"name": "set-lamp"}})):
        asked = {"tools": TOOLS, "tool_choice": choice, "chat_template_kwargs": NOT_THINKING}
        whole = _post({**BASE, **asked})["choices"][0]
        calls = whole["message"]["tool_calls"]
        assert calls, whole
        for call in calls:
            _check_arguments(call["function"])
        if name == "named":
            assert {call["function"]["name"] for call in calls} == {"set-lamp"}
        show(f"tool_choice {name}", _said(whole["message"]), whole)
        streamed, reason = _sum(_stream({**BASE, **asked}))
        assert reason == whole["finish_reason"]
        assert _without_ids(streamed) == _without_ids(_said(whole["message"]))
        show(f"tool_choice {name}, streamed", streamed, {"finish_reason": reason})
    asked = {"tools": TOOLS, "tool_choice": "required", "parallel_tool_calls": False}
    one = _post({**BASE, **asked, "chat_template_kwargs": NOT_THINKING})["choices"][0]
    assert len(one["message"]["tool_calls"]) == 1, one
    show("one call only", _said(one["message"]), one)
    asked = {"max_tokens": 12, "chat_template_kwargs": THINKING, "tools": TOOLS, "tool_choice": "auto"}
    free = _post({**BASE, **asked})["choices"][0]
    assert free["finish_reason"] in ("length", "stop")
    show("free text, cut off", _said(free["message"]), free)
    schema = {
        "type": "object",
        "properties": {"a": {"type": "boolean"}},
        "required": ["a"],
        "additionalProperties": False,
    }
    form = {"type": "json_schema", "json_schema": {"name": "answer", "schema": schema, "strict": True}}
    answer = _post({**BASE, "response_format": form, "chat_template_kwargs": NOT_THINKING})["choices"][0]
    assert isinstance(json.loads(answer["message"]["content"])["a"], bool)
    show("response_format json_schema", _said(answer["message"]), answer)
    behind = {"type": "object", "properties": {"a": {"type": "string", "pattern": "(?<=x)y"}}}
    bad = [{"type": "function", "function": {"name": "f", "strict": True, "parameters": behind}}]
    status, text = _refused({**BASE, "tools": bad, "tool_choice": "required"})
    assert (status, "/properties/a/pattern" in text) == (400, True), (status, text)
    seen.append({"turn": "a schema that cannot be enforced", "status": status, "error": text})
    return seen


def _check_arguments(function: Mapping[str, Any]) -> None:
    values = json.loads(function["arguments"])
    if function["name"] == "set-lamp":
        assert set(values) == {"on", "level", "room"}
        assert isinstance(values["on"], bool)
        assert 0 <= values["level"] <= 9
        assert values["room"] in ("attic", "Küche")


def _said(message: Mapping[str, Any]) -> dict[str, Any]:
    reasoning = message.get("reasoning") or message.get("reasoning_content") or ""
    calls = [
        {"id": call["id"], "name": call["function"]["name"], "arguments": call["function"]["arguments"]}
        for call in message.get("tool_calls") or []
    ]
    return {"reasoning": reasoning, "content": message.get("content") or "", "tool_calls": calls}


def _without_ids(said: Mapping[str, Any]) -> dict[str, Any]:
    return {**said, "tool_calls": [{**call, "id": None} for call in said["tool_calls"]]}


def _sum(chunks: Iterator[Mapping[str, Any]]) -> tuple[dict[str, Any], str | None]:
    """The message that the pieces add up to. An id or a name comes once."""
    out: dict[str, Any] = {"reasoning": "", "content": "", "tool_calls": []}
    reason = None
    for chunk in chunks:
        for choice in chunk["choices"]:
            delta, reason = choice["delta"], choice.get("finish_reason") or reason
            out["reasoning"] += delta.get("reasoning") or ""
            out["content"] += delta.get("content") or ""
            for piece in delta.get("tool_calls") or []:
                function = piece.get("function") or {}
                if piece["index"] == len(out["tool_calls"]):
                    out["tool_calls"].append({"id": piece["id"], "name": function["name"], "arguments": ""})
                else:
                    assert not piece.get("id"), piece
                    assert not function.get("name"), piece
                out["tool_calls"][piece["index"]]["arguments"] += function.get("arguments") or ""
    return out, reason


def _command(model: Path) -> list[str]:
    return [
        sys.executable,
        "-m",
        "vllm.entrypoints.openai.api_server",
        *("--model", str(model), "--served-model-name", "tiny", "--port", str(PORT), "--host", "127.0.0.1"),
        *("--max-model-len", "1024", "--enforce-eager", "--dtype", "float32", "--max-num-seqs", "2"),
        *("--enable-auto-tool-choice", "--tool-call-parser", "dragoman", "--reasoning-parser", "dragoman"),
    ]


def _environment() -> dict[str, str]:
    return {**os.environ, "VLLM_CPU_KVCACHE_SPACE": "1", "HF_HUB_OFFLINE": "1", "VLLM_NO_USAGE_STATS": "1"}


def _wait(server: subprocess.Popen[bytes], log: Path) -> None:
    end = time.monotonic() + START_SECONDS
    while time.monotonic() < end:
        if server.poll() is not None:
            raise RuntimeError(f"vLLM ended with {server.returncode}: {log}")
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{PORT}/health", timeout=2):
                return
        except OSError:
            time.sleep(1)
    raise RuntimeError(f"vLLM did not start within {START_SECONDS} s: {log}")


def _end(server: subprocess.Popen[bytes]) -> None:
    """One that is still starting may not listen to a request to end."""
    server.terminate()
    try:
        server.wait(60)
    except subprocess.TimeoutExpired:
        server.kill()
        server.wait()


def _request(body: Mapping[str, Any]) -> urllib.request.Request:
    return urllib.request.Request(
        f"http://127.0.0.1:{PORT}/v1/chat/completions",
        json.dumps(body).encode(),
        {"Content-Type": "application/json"},
    )


def _post(body: Mapping[str, Any]) -> Any:
    with urllib.request.urlopen(_request(body), timeout=300) as reply:
        return json.load(reply)


def _refused(body: Mapping[str, Any]) -> tuple[int, str]:
    try:
        _post(body)
    except urllib.error.HTTPError as error:
        return error.code, json.load(error)["error"]["message"]
    return 200, ""


def _stream(body: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    with urllib.request.urlopen(_request({**body, "stream": True}), timeout=300) as reply:
        for line in reply:
            text = line.decode().strip()
            if text.startswith("data: ") and text != "data: [DONE]":
                yield json.loads(text.removeprefix("data: "))


def _versions() -> dict[str, Any]:
    names = ("vllm-cpu", "torch", "xgrammar", "transformers")
    return {name: version(name) for name in names} | {"python": sys.version.split()[0]}


if __name__ == "__main__":
    main()
