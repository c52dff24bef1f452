"""What the cursor's other verbs cost and save: batches, threads, masks made while the model computes.

    python bench/cursor.py FOLDER [--record]      FOLDER holds a tokenizer.json

The model's forward pass is stood in for by a sleep, and by a product of matrices that leaves the interpreter's lock
(one thread of BLAS). Masks are cold where it says so: a fresh compilation of each of the tool-call schemas, nothing
kept of the vocabulary. Wall-clock times: of batches the best of some rounds, of waiting the percentiles of all tokens.
Only the ratios of one run mean anything; on a machine with other work (``load``) the prefetching thread has to wait.
"""

from __future__ import annotations

import os

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import argparse
import datetime
import json
import platform
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from statistics import median
from time import perf_counter, sleep
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).parent))
from tool_calls import cases

from dragoman import Vocabulary, compiled
from dragoman.constraint.constraint import Constraint, fill_batch
from dragoman.constraint.masks import masks_for
from dragoman.constraint.trie import TokenTrie
from dragoman.grammar.nodes import Grammar
from dragoman.grammar.schema import SchemaOptions, compile_schema

RECORD = Path(__file__).parent / "record"
ROUNDS = 5
PASS_SECONDS = 0.005


class Bench:
    def __init__(self, vocab: Vocabulary) -> None:
        self.vocab = vocab
        self.trie = TokenTrie(vocab.token_bytes, vocab.size)
        self.rules = [
            (compile_schema(schema, name="s", options=SchemaOptions(whitespace="compact")), value)
            for schema, value in cases()
        ]

    def ids(self, value: Any) -> list[int]:
        return list(self.vocab.encode(json.dumps(value, ensure_ascii=False, separators=(",", ":"))))

    def fresh(self, count: int) -> list[tuple[Constraint, list[int]]]:
        """Constraints with nothing made yet."""
        self.trie.shared.clear()
        out = []
        for rules, value in self.rules[:count]:
            masks = masks_for(Grammar(rules, "s"), self.vocab, self.trie)
            out.append((Constraint(masks, masks.start()), self.ids(value)))
        return out

    # -- batches ---------------------------------------------------------------------------------------------------

    def kept(self, size: int) -> dict[str, float]:
        """Microseconds a row, where every mask is kept: one call, row by row, one call in each of two threads."""
        turns = [constraint for constraint, _ in self.fresh(size)]
        table = np.zeros((size, self.trie.words), np.int32)
        rows = list(table)
        fill_batch(turns, table)
        halves = (slice(0, size // 2), slice(size // 2, size))

        def one_by_one() -> None:
            for turn, row in zip(turns, rows, strict=True):
                turn.fill(row)

        with ThreadPoolExecutor(2) as pool:
            ways: dict[str, Callable[[], object]] = {
                "fill_batch": lambda: fill_batch(turns, table),
                "fill, row by row": one_by_one,
                "fill_batch, two threads": lambda: list(
                    pool.map(lambda half: fill_batch(turns[half], table[half]), halves)
                ),
            }
            return {name: round(timed(way, 20) / size, 2) for name, way in ways.items()}

    def cold(self, threads: int) -> float:
        """Microseconds a row of 60 first masks, all of other grammars."""
        turns = [constraint for constraint, _ in self.fresh(60)]
        table = np.zeros((60, self.trie.words), np.int32)
        parts = [slice(at, None, threads) for at in range(threads)]
        with ThreadPoolExecutor(threads) as pool:
            start = perf_counter()
            list(pool.map(lambda part: fill_batch(turns[part], table[part]), parts))
            return (perf_counter() - start) * 1e6 / len(turns)

    def batches(self) -> dict[str, Any]:
        out: dict[str, Any] = {f"kept, {size} rows": self.kept(size) for size in (1, 16, 60)}
        for threads in (1, 2):
            name = f"cold, 60 rows, threads: {threads}"
            out[name] = round(min(self.cold(threads) for _ in range(4 * ROUNDS)), 1)
        return out

    # -- prefetch --------------------------------------------------------------------------------------------------

    def prefetch(self, forward: Callable[[], object]) -> dict[str, Any]:
        """Microseconds a token that masks keep the sampler waiting, cold, behind a pass of the model."""
        waits: dict[bool, list[float]] = {False: [], True: []}
        passes: dict[bool, list[float]] = {False: [], True: []}
        for _ in range(ROUNDS):
            for ahead in (False, True):
                row = np.zeros(self.trie.words, np.int32)
                for constraint, ids in self.fresh(20):
                    for token in ids:
                        start = perf_counter()
                        if ahead:
                            constraint.prefetch()
                        asked = perf_counter()
                        forward()
                        passed = perf_counter()
                        constraint.fill(row)
                        waits[ahead].append(perf_counter() - passed + asked - start)
                        passes[ahead].append(passed - asked)
                        constraint.accept(token)
        plain, hidden = (median(waits[ahead]) for ahead in (False, True))
        return {
            "fill": shares(waits[False]),
            "prefetch and fill": shares(waits[True]),
            "forward pass": shares(passes[False]),
            "forward pass beside a mask": shares(passes[True]),
            "share of the median waiting that is gone": round(1 - hidden / plain, 3),
        }


def shares(times: list[float]) -> dict[str, float]:
    """Microseconds: mean, p50, p90, p99."""
    ordered = sorted(times)
    at = {f"p{part}": ordered[min(len(ordered) - 1, len(ordered) * part // 100)] for part in (50, 90, 99)}
    return {name: round(value * 1e6, 1) for name, value in {"mean": sum(times) / len(times), **at}.items()}


def timed(work: Callable[[], object], times: int) -> float:
    """Microseconds of one call: the best of some rounds, since the machine has other work."""
    found = []
    for _ in range(4 * ROUNDS):
        start = perf_counter()
        for _ in range(times):
            work()
        found.append((perf_counter() - start) / times)
    return min(found) * 1e6


def matmul() -> Callable[[], object]:
    """A product of matrices of about the seconds of a pass."""
    size = 256
    while True:
        a = np.ones((size, size), np.float32)
        start = perf_counter()
        for _ in range(5):
            np.matmul(a, a)
        if perf_counter() - start >= 5 * PASS_SECONDS / 1.5 or size > 4_000:
            return partial(np.matmul, a, a)
        size = int(size * 1.25)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path, help="a folder with a tokenizer.json")
    parser.add_argument("--record", action="store_true", help="write the figures to bench/record")
    arguments = parser.parse_args()
    bench = Bench(Vocabulary.from_folder(arguments.folder))
    result = {
        "machine": {"python": platform.python_version(), "machine": platform.machine(), "cores": os.cpu_count()},
        "load": [round(load, 1) for load in os.getloadavg()],
        "compiled": compiled,
        "vocabulary": {"name": arguments.folder.name, "tokens": bench.vocab.size},
        "microseconds a row": bench.batches(),
        "prefetch, forward pass sleeps": bench.prefetch(lambda: sleep(PASS_SECONDS)),
        "prefetch, forward pass multiplies": bench.prefetch(matmul()),
    }
    print(json.dumps(result, indent=1))
    if arguments.record:
        build = "compiled" if compiled else "pure"
        file = RECORD / f"cursor-{build}-{datetime.date.today().isoformat()}.json"
        file.write_text(json.dumps(result, indent=1) + "\n")
        print(f"recorded in {file.relative_to(RECORD.parent.parent)}")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
