"""``make bench-masks``: masks of tool-call schemas beside llguidance and xgrammar, in one process, step by step.

A fresh compilation for each schema and engine; the bit of every token of a valid instance is checked before it is
accepted, and the end of turn at its end. Only the ratios of one run mean anything. Peers that are not installed are
left out. Vocabularies are folders with a tokenizer.json, named on the command line.
"""

from __future__ import annotations

import argparse
import contextlib
import datetime
import gc
import json
import os
import platform
import resource
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from time import process_time
from typing import Any, Protocol

import numpy as np

sys.path.insert(0, str(Path(__file__).parent))
from tool_calls import cases

from dragoman import Vocabulary, compiled
from dragoman.constraint.constraint import Constraint
from dragoman.constraint.masks import Masks, masks_for
from dragoman.constraint.trie import TokenTrie
from dragoman.errors import DragomanError
from dragoman.grammar.nodes import Grammar
from dragoman.grammar.schema import SchemaOptions, begin_schema, compile_schema

RECORD = Path(__file__).parent / "record"


class Matcher(Protocol):
    def fill(self) -> Any: ...
    def accept(self, token: int) -> bool: ...


class Ours:
    """dragoman. ``again``: the grammar of the request before."""

    name = "dragoman"

    def __init__(self, vocab: Vocabulary) -> None:
        self.vocab = vocab
        start = process_time()
        self.trie = TokenTrie(vocab.token_bytes, vocab.size)
        self.setup = process_time() - start
        self.kept: Masks | None = None

    def compile(self, schema: Any, *, any_order: bool = False) -> Matcher:
        options = SchemaOptions(whitespace="bounded", any_order=any_order)
        return self.run(*begin_schema(schema, name="s", options=options))

    def run(self, rules: Any, later: Any = None) -> Matcher:
        """A fresh compilation of the rules of a schema."""
        self.kept = masks_for(Grammar(rules, "s", later=later), self.vocab, self.trie)
        return self.again()

    def again(self) -> Matcher:
        assert self.kept is not None
        constraint = Constraint(self.kept, self.kept.start())
        row = np.zeros(self.trie.words, dtype=np.int32)

        class Run:
            def fill(self) -> Any:
                constraint.fill(row)
                return row

            accept = staticmethod(constraint.accept)

        return Run()


class Llguidance:
    name = "llguidance"

    def __init__(self, vocab: Vocabulary) -> None:
        import llguidance
        import llguidance.numpy as fill
        from llguidance._tokenizer import TokenizerWrapper

        controls = {number: text.encode() for text, number in vocab.controls.items()}

        class Tokens:
            eos_token_id = vocab.eos_ids[0]
            bos_token_id = None
            tokens = tuple(controls.get(number) or vocab.bytes_of(number) or b"" for number in range(vocab.size))
            special_token_ids = tuple(sorted(controls))

            def __call__(self, text: Any) -> list[int]:
                return list(vocab.encode(text.decode() if isinstance(text, bytes) else text))

        self.lib, self.numpy, self.size = llguidance, fill, vocab.size
        start = process_time()
        self.tokenizer = llguidance.LLTokenizer(TokenizerWrapper(Tokens()))
        self.setup = process_time() - start

    def compile(self, schema: Any) -> Matcher:
        text = json.dumps(schema)
        grammar = self.lib.LLMatcher.grammar_from_json_schema(text, overrides={"whitespace_pattern": "[ \n]?"})
        return self.matcher(grammar)

    def matcher(self, grammar: Any) -> Matcher:
        matcher = self.lib.LLMatcher(self.tokenizer, grammar)
        if matcher.is_error():
            raise ValueError(matcher.get_error())
        rows = self.numpy.allocate_token_bitmask(1, self.size)
        fill = self.numpy.fill_next_token_bitmask

        class Run:
            def fill(self) -> Any:
                fill(matcher, rows, 0)
                return rows[0]

            def accept(self, token: int) -> bool:
                return bool(matcher.consume_token(token))

        return Run()


class Xgrammar:
    name = "xgrammar"

    def __init__(self, vocab: Vocabulary) -> None:
        import xgrammar

        texts = {number: text.encode() for text, number in vocab.controls.items()}
        encoded = [texts.get(number) or vocab.bytes_of(number) or b"" for number in range(vocab.size)]
        self.lib, self.size = xgrammar, vocab.size
        start = process_time()
        info = xgrammar.TokenizerInfo(
            encoded, vocab_size=vocab.size, stop_token_ids=list(vocab.eos_ids), vocab_type=xgrammar.VocabType.RAW
        )
        self.compiler = xgrammar.GrammarCompiler(info, max_threads=1, cache_enabled=False)
        self.setup = process_time() - start

    def compile(self, schema: Any) -> Matcher:
        matcher = self.lib.GrammarMatcher(self.compiler.compile_json_schema(json.dumps(schema)))
        rows = self.lib.allocate_token_bitmask(1, self.size)

        class Run:
            def fill(self) -> Any:
                matcher.fill_next_token_bitmask(rows, 0)
                return rows.numpy()[0]

            def accept(self, token: int) -> bool:
                return bool(matcher.accept_token(token))

        return Run()


def figures(times: list[float]) -> dict[str, float]:
    """p50, p90, p99 and the maximum in microseconds."""
    ordered = sorted(times) or [0.0]
    at = {f"p{part}": ordered[min(len(ordered) - 1, len(ordered) * part // 100)] for part in (50, 90, 99)}
    return {name: round(value * 1e6, 2) for name, value in {**at, "max": ordered[-1]}.items()}


class Tally:
    """The times of one engine, and what went wrong."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.first: list[float] = []
        self.compile: list[float] = []
        self.mask: list[float] = []
        self.advance: list[float] = []
        self.refused = 0
        self.hung = 0
        self.wrong: list[str] = []
        self.order = 0

    def result(self) -> dict[str, Any]:
        return {
            "compile us": figures(self.compile),
            "first mask us": figures(self.first),
            "mask us": figures(self.mask),
            "advance us": figures(self.advance),
            "refused": self.refused,
            f"more than {PATIENCE} s": self.hung,
            "wrong": len(self.wrong),
            "valid in another order of properties only": self.order,
        }


# Seconds of CPU for one compilation of a peer; it is tried in a child first.
PATIENCE = 5


def ends(job: Callable[[], Any]) -> bool:
    """Whether ``job`` ends, well or not, within ``PATIENCE``: a peer that hangs cannot be interrupted."""
    child = os.fork()
    if child == 0:
        resource.setrlimit(resource.RLIMIT_CPU, (PATIENCE, PATIENCE))
        with contextlib.suppress(Exception):
            job()
        os._exit(0)
    return os.waitpid(child, 0)[1] == 0


def opened(tally: Tally, make: Callable[[], Matcher]) -> Matcher | None:
    start = process_time()
    try:
        matcher = make()
    except (DragomanError, ValueError, RuntimeError) as error:
        tally.refused += 1
        print(f"  refused: {error!s:.150}", file=sys.stderr)
        return None
    tally.compile.append(process_time() - start)
    return matcher


def allowed(row: Any, token: int) -> bool:
    return bool(int(row[token // 32]) >> (token % 32) & 1)


def turned_away(tally: Tally, engines: list[Any], schema: Any, ids: list[int], line: str) -> None:
    """Note a valid instance that was refused. Ours may be so for the order of its properties, see masks.md."""
    ours = engines[0]
    if tally.name == ours.name:
        matcher = ours.compile(schema, any_order=True)
        if all(allowed(matcher.fill(), token) and matcher.accept(token) for token in [*ids, ours.vocab.eos_ids[0]]):
            tally.order += 1
            return
    tally.wrong.append(line)


def once_more(matcher: Matcher, tally: Tally, tokens: list[int]) -> None:
    """The second request with the same tools."""
    for token in tokens:
        start = process_time()
        matcher.fill()
        tally.mask.append(process_time() - start)
        start = process_time()
        matcher.accept(token)
        tally.advance.append(process_time() - start)


def run(
    engines: list[Any], schemas: list[tuple[Any, Any]], vocab: Vocabulary, *, guarded: bool = False
) -> dict[str, Any]:
    """Every schema with every engine, one token after the other, the engines in turn.

    ``guarded``: xgrammar, which hangs on some, is tried in a child first.
    """
    names = [engine.name for engine in engines] + ["dragoman, again"]
    tallies = {name: Tally(name) for name in names}
    for number, (schema, value) in enumerate(schemas):
        ids = vocab.encode(json.dumps(value, ensure_ascii=False))
        gc.collect()
        runs: dict[str, Matcher] = {}
        for engine in engines:
            if guarded and engine.name == "xgrammar" and not ends(partial(engine.compile, schema)):
                tallies[engine.name].hung += 1
                continue
            matcher = opened(tallies[engine.name], partial(engine.compile, schema))
            if matcher is not None:
                runs[engine.name] = matcher
        for at, token in enumerate([*ids, vocab.eos_ids[0]]):
            for name, matcher in list(runs.items()):
                start = process_time()
                row = matcher.fill()
                took = process_time() - start
                tallies[name].mask.append(took)
                if at == 0:
                    tallies[name].first.append(tallies[name].compile[-1] + took)
                ok = allowed(row, token)
                start = process_time()
                ok = matcher.accept(token) and ok
                tallies[name].advance.append(process_time() - start)
                if not ok:
                    del runs[name]
                    turned_away(
                        tallies[name], engines, schema, ids, f"schema {number}: token {token} at {at} of {value}"
                    )
        if "dragoman" in runs:
            once_more(engines[0].again(), tallies["dragoman, again"], [*ids, vocab.eos_ids[0]])
    for name, tally in tallies.items():
        for line in tally.wrong[:5]:
            print(f"  {name}: {line:.200}", file=sys.stderr)
    out: dict[str, Any] = {name: tally.result() for name, tally in tallies.items()}
    out["setup s"] = {engine.name: round(engine.setup, 3) for engine in engines}
    return out


def compare(schemas: list[tuple[Any, Any]], vocab: Vocabulary) -> dict[str, Any]:
    """Masks beside llguidance's, both writing JSON without white space, at every token of the valid instances.

    Where only one token is forced llguidance allows that token alone: such steps are counted apart, and so are tokens
    that only differ in policy (one of us allows more spellings of the same string). What the others were, so far, is
    told in masks.md.
    """
    ours, theirs = Ours(vocab), Llguidance(vocab)
    counts: dict[str, int] = {}
    shown: list[str] = []
    for schema, value in schemas:
        text = json.dumps(schema)
        flat = {"whitespace_flexible": False, "item_separator": ",", "key_separator": ":"}
        try:
            matcher = theirs.matcher(theirs.lib.LLMatcher.grammar_from_json_schema(text, overrides=flat))
            mine = ours.run(compile_schema(schema, name="s", options=SchemaOptions(whitespace="compact")))
        except (DragomanError, ValueError, RuntimeError):
            counts["schemas that one of us refuses"] = counts.get("schemas that one of us refuses", 0) + 1
            continue
        for token in vocab.encode(json.dumps(value, ensure_ascii=False, separators=(",", ":"))):
            a, b = (set(_tokens(row)) for row in (mine.fill(), matcher.fill()))
            kind = "equal" if a == b else "forced" if len(b) == 1 and b < a else _difference(vocab, a, b)
            counts[kind] = counts.get(kind, 0) + 1
            if kind.startswith("other") and len(shown) < 20:
                names = [[vocab.bytes_of(t) for t in sorted(side)[:6]] for side in (a - b, b - a)]
                shown.append(f"{value!s:.60}: only ours {names[0]}, only theirs {names[1]}")
            if not (mine.accept(token) and matcher.accept(token)):
                counts["refused a valid token"] = counts.get("refused a valid token", 0) + 1
                break
    for line in shown:
        print("  " + line, file=sys.stderr)
    return counts


def _tokens(row: Any) -> list[int]:
    found: list[int] = np.flatnonzero(np.unpackbits(row.view(np.uint8), bitorder="little")).tolist()
    return found


def _difference(vocab: Vocabulary, ours: set[int], theirs: set[int]) -> str:
    """In what the tokens that only one side allows agree."""
    only = [vocab.bytes_of(token) or b"" for token in ours ^ theirs]
    if all(b"\\" in data for data in only):
        return "escapes"
    if all(b"\x7f" in data or b"\\" in data for data in only):
        return "escapes and DEL"
    if not theirs - ours:
        return "other, ours allows more"
    return "other, theirs allows more" if not ours - theirs else "other, both"


def ratios(result: dict[str, Any]) -> dict[str, Any]:
    """Ours over the best peer's: below 1 is better."""
    peers = [name for name in ("llguidance", "xgrammar") if name in result]
    out = {}
    for label, mine, key, part in (
        ("first mask p50", "dragoman", "first mask us", "p50"),
        ("cold mask p50", "dragoman", "mask us", "p50"),
        ("cold mask p99", "dragoman", "mask us", "p99"),
        ("mask again p50", "dragoman, again", "mask us", "p50"),
        ("mask again p99", "dragoman, again", "mask us", "p99"),
        ("advance p50", "dragoman", "advance us", "p50"),
        ("advance again p50", "dragoman, again", "advance us", "p50"),
    ):
        out[label] = {peer: round(result[mine][key][part] / max(result[peer][key][part], 1e-3), 3) for peer in peers}
    return out


def maskbench(*, empty: bool = False) -> list[tuple[Any, Any]]:
    """The sample of MaskBench in the corpus folder, where there is one: schemas with one of their valid instances.

    ``empty``: also those that come with no valid instance; None stands in its place.
    """
    named = os.environ.get("DRAGOMAN_CORPUS")
    folder = Path(named) if named else Path(__file__).resolve().parents[2] / "shared" / "corpus"
    file = folder / "json_schema" / "maskbench.jsonl"
    found = []
    for line in file.read_text("utf-8").splitlines() if file.is_file() else ():
        entry = json.loads(line)
        valid = [test for test in entry["tests"] if test.get("valid")]
        if valid or empty:
            found.append((entry["schema"], valid[0].get("data", valid[0].get("instance")) if valid else None))
    return found


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("vocabularies", nargs="+", type=Path, help="folders with a tokenizer.json")
    parser.add_argument("--schemas", choices=("tools", "maskbench"), default="tools")
    parser.add_argument("--limit", type=int, default=1000, help="schemas at most")
    parser.add_argument("--speed-only", action="store_true", help="do not compare masks with llguidance's")
    parser.add_argument("--record", action="store_true", help="write the figures to bench/record")
    arguments = parser.parse_args()
    schemas = (cases() if arguments.schemas == "tools" else maskbench())[: arguments.limit]
    results: dict[str, Any] = {}
    for folder in arguments.vocabularies:
        vocab = Vocabulary.from_folder(folder)
        engines: list[Any] = []
        for kind in (Ours, Llguidance, Xgrammar):
            try:
                engines.append(kind(vocab))
            except ImportError as error:
                print(f"without {kind.name}: {error}", file=sys.stderr)
        # What a process does once is no part of any schema's time.
        for engine in engines:
            engine.compile({"type": "object", "properties": {"warm": {"type": "boolean"}}}).fill()
        gc.freeze()
        result = run(engines, schemas, vocab, guarded=arguments.schemas == "maskbench")
        result["ratios, ours over theirs"] = ratios(result)
        if not arguments.speed_only and any(isinstance(engine, Llguidance) for engine in engines):
            result["masks beside llguidance's, compact JSON"] = compare(schemas, vocab)
        results[folder.name] = result
        print(folder.name, json.dumps(result, indent=1))
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024
    print(f"compiled: {compiled}; memory at most {memory} MB")
    if arguments.record:
        machine = {"python": platform.python_version(), "machine": platform.machine(), "cores": os.cpu_count()}
        build = "compiled" if compiled else "pure"
        file = RECORD / f"masks-{arguments.schemas}-{build}-{datetime.date.today().isoformat()}.json"
        file.write_text(json.dumps({"machine": machine, "schemas": len(schemas), "results": results}, indent=1) + "\n")
        print(f"recorded in {file.relative_to(RECORD.parent.parent)}")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
