"""Turns through a server that is running somewhere: ``make bench-upstream UPSTREAM=http://127.0.0.1:8000``.

Whatever the model is, also one of random weights: what comes out well formed is so because the server was held to the
grammar in the notation that it takes, and what is read right was read by what was learned of the template. Counts valid
calls and answers, and measures how soon the server is told that nobody listens any more. The exit code is 1 where one
answer is not valid.
"""

from __future__ import annotations

import argparse
import asyncio
import datetime
import json
import sys
import time
from pathlib import Path
from typing import Any

import jsonschema
from starlette.testclient import TestClient

from dragoman.cli.engines import Opened, add_engine, open_engine
from dragoman.engine import Generation, Sampling
from dragoman.engines.recognise import recognise
from dragoman.server.app import create_app

ROOT = Path(__file__).parent.parent
LAMP = {
    "type": "object",
    "properties": {
        "on": {"type": "boolean"},
        "level": {"type": "integer", "minimum": 0, "maximum": 9},
        "room": {"enum": ["attic", "Küche"]},
    },
    "required": ["on", "level", "room"],
    "additionalProperties": False,
}
TOOLS = [{"type": "function", "function": {"name": "set-lamp", "parameters": LAMP, "strict": True}}]
MESSAGES = [{"role": "user", "content": "Light, please."}]
FORM = {"type": "json_schema", "json_schema": {"name": "lamp", "schema": LAMP, "strict": True}}
ASKED: dict[str, dict[str, Any]] = {
    "required": {"tools": TOOLS, "tool_choice": "required", "parallel_tool_calls": False},
    "named": {"tools": TOOLS, "tool_choice": {"type": "function", "function": {"name": "set-lamp"}}},
    "streamed": {"tools": TOOLS, "tool_choice": "required", "parallel_tool_calls": False, "stream": True},
    "response_format": {"response_format": FORM},
}


def valid(client: TestClient, body: dict[str, Any]) -> str | None:
    """What is wrong with the answer; None: nothing."""
    response = client.post("/v1/chat/completions", json=body)
    if response.status_code != 200:
        return f"{response.status_code}: {response.text[:300]}"
    try:
        texts = _streamed(response.text) if body.get("stream") else _whole(response.json())
        if not texts:
            return f"no call: {response.text[:300]}"
        for text in texts:
            jsonschema.validate(json.loads(text), LAMP)
    except (ValueError, KeyError, jsonschema.ValidationError) as error:
        return f"{type(error).__name__}: {response.text[:300]}"
    return None


def _whole(answer: Any) -> list[str]:
    message = answer["choices"][0]["message"]
    return [call["function"]["arguments"] for call in message.get("tool_calls") or ()] or [message["content"]]


def _streamed(text: str) -> list[str]:
    calls: dict[int, str] = {}
    for line in text.splitlines():
        if line.startswith("data: {"):
            for choice in json.loads(line[6:])["choices"]:
                for piece in choice["delta"].get("tool_calls") or ():
                    calls[piece["index"]] = calls.get(piece["index"], "") + piece["function"]["arguments"]
    return list(calls.values())


async def cancelled(url: str, key: str | None, prompt: tuple[int, ...]) -> dict[str, Any]:
    """Close an answer after five pieces; how soon the server's own numbers say that nothing runs, where it has some."""
    engine = (await recognise(url, api_key=key)).open(api_key=key)
    stream = engine.generate(Generation(prompt, "", sampling=Sampling(seed=1, max_tokens=500, temperature=1.0)))
    pieces = 0
    async for _ in stream:
        pieces += 1
        if pieces == 5:
            break
    before = await _running(url)
    left = time.monotonic()
    await stream.aclose()  # type: ignore[attr-defined]
    while await _running(url) not in (0, None) and time.monotonic() - left < 30:  # noqa: ASYNC110
        await asyncio.sleep(0.01)
    await engine.aclose()
    return {"running_before": before, "seconds_until_none_runs": round(time.monotonic() - left, 3)}


async def _running(url: str) -> int | None:
    import httpx

    async with httpx.AsyncClient(trust_env=False) as client:
        text = (await client.get(f"{url}/metrics")).text
    found = [line for line in text.splitlines() if line.startswith(("vllm:num_requests_running", "sglang:num_running"))]
    return int(sum(float(line.rsplit(" ", 1)[1]) for line in found)) if found else None


def measure(opened: Opened, arguments: argparse.Namespace) -> dict[str, Any]:
    app = create_app(opened.format, opened.engine, model=opened.model, settings=opened.settings)
    counts: dict[str, str] = {}
    wrong: list[str] = []
    base = {"messages": MESSAGES, "temperature": 1.0, "max_tokens": 300}
    with TestClient(app) as client:
        for name, fields in ASKED.items():
            good = 0
            for seed in range(arguments.times):
                told = valid(client, {**base, **fields, "seed": seed})
                good += told is None
                wrong += [] if told is None else [f"{name}, seed {seed}: {told}"]
            counts[name] = f"{good} of {arguments.times}"
    return {"valid": counts, "wrong": wrong}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    add_engine(parser)
    parser.add_argument("--times", type=int, default=10, help="of each kind of request")
    parser.add_argument("--record", action="store_true", help="write the figures to bench/record")
    arguments = parser.parse_args()
    found = asyncio.run(recognise(arguments.upstream, kind=arguments.engine, api_key=arguments.upstream_key))
    opened = open_engine(arguments)
    result: dict[str, Any] = {
        "engine": found.flavour.name if found.kind != "llama-server" else found.kind,
        "version": found.version,
        "grammars": list(found.flavour.grammars) if found.kind != "llama-server" else ["gbnf"],
    }
    result |= measure(opened, arguments)
    prompt = tuple(opened.format.turn(MESSAGES).prompt.token_ids)
    result["cancelled"] = asyncio.run(cancelled(found.url, arguments.upstream_key, prompt))
    print(json.dumps(result, indent=2, ensure_ascii=False))
    if arguments.record:
        name = f"upstream-{found.kind}-{datetime.date.today().isoformat()}.json"
        (ROOT / "bench" / "record" / name).write_text(json.dumps(result, indent=2, ensure_ascii=False) + "\n", "utf-8")
        print(f"recorded in bench/record/{name}")
    return 1 if result["wrong"] else 0


if __name__ == "__main__":
    sys.exit(main())
