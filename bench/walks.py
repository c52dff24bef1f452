"""``python -m bench.walks VOCABULARY``: random walks through masks, each held to what masks promise.

What was written parses and validates against its schema (jsonschema, formats asserted as far as it knows them); what is
forced is what every allowed token begins with; after a rollback, and in a fork, the masks are the same again.
Schemas: the tool calls of ``bench/tool_calls.py``, and the sample of MaskBench of the corpus folder where there is one.
"""

from __future__ import annotations

import argparse
import datetime
import json
import random
import sys
from collections.abc import Sequence
from pathlib import Path
from time import process_time
from typing import Any

import numpy as np

from dragoman import Vocabulary
from dragoman.constraint.constraint import Constraint
from dragoman.constraint.masks import Masks, masks_for
from dragoman.constraint.trie import TokenTrie
from dragoman.errors import DragomanError
from dragoman.grammar.nodes import Grammar
from dragoman.grammar.schema import SchemaOptions, compile_schema

RECORD = Path(__file__).parent / "record"
# Random text does not end by itself: strings, lists and numbers have a length.
OPTIONS = SchemaOptions(whitespace="bounded", string_max=24, items_max=4, number_digits=6, fraction_digits=3)
# Tokens of one walk at most; one that is not at its end then is counted, not judged.
STEPS = 400


class Walker:
    """Walks over one vocabulary, and what they found."""

    def __init__(self, vocab: Any, trie: TokenTrie, seed: int) -> None:
        self.vocab, self.trie = vocab, trie
        self.pick = random.Random(seed)
        self.row = np.zeros(trie.words, dtype=np.uint32)
        self.counts = {"walks": 0, "tokens": 0, "ended": 0, "rollbacks": 0, "forks": 0, "forced bytes": 0, "refused": 0}
        self.wrong: list[str] = []

    def schema(self, schema: Any, walks: int) -> None:
        """``walks`` walks through one schema; one that is refused is counted."""
        try:
            rules = compile_schema(schema, name="s", options=OPTIONS)
            masks = masks_for(Grammar(rules, "s"), self.vocab, self.trie)
        except DragomanError:
            self.counts["refused"] += 1
            return
        validator = validating(schema)
        for _ in range(walks):
            text = self.walk(masks)
            self.counts["walks"] += 1
            if text is None:
                continue
            self.counts["ended"] += 1
            try:
                problem = next(iter(validator.iter_errors(json.loads(text))), None)
            except ValueError as error:
                problem = error
            if problem is not None:
                self.wrong.append(f"{text[:120]!r} of {json.dumps(schema)[:120]}: {str(problem)[:120]}")

    def walk(self, masks: Masks) -> str | None:
        """One walk; what it wrote, or None where it came to no end."""
        constraint = Constraint(masks, masks.start())
        out = bytearray()
        for step in range(STEPS):
            constraint.fill(self.row)
            allowed = np.flatnonzero(np.unpackbits(self.row.view(np.uint8), bitorder="little"))
            if not len(allowed):
                self.wrong.append(f"nothing is allowed after {bytes(out[-60:])!r}")
                return None
            if step % 7 == 0:
                self.check_forced(constraint, allowed)
            token = int(allowed[self.pick.randrange(len(allowed))])
            if self.pick.random() < 0.05:
                self.check_back(constraint, allowed)
            if not constraint.accept(token):
                self.wrong.append(f"token {token} of the mask is not accepted after {bytes(out[-60:])!r}")
                return None
            self.counts["tokens"] += 1
            if constraint.ended:
                return out.decode()
            out += self.vocab.bytes_of(token)
        return None

    def check_forced(self, constraint: Constraint, allowed: Sequence[int]) -> None:
        """What is forced is what every allowed token begins with, as far as both go."""
        data = constraint.forced()
        self.counts["forced bytes"] += len(data)
        if not data:
            return
        for token in allowed:
            piece = self.vocab.bytes_of(int(token)) or b""
            if not (data.startswith(piece) or piece.startswith(data)) or not piece:
                self.wrong.append(f"forced {data[:40]!r}, allowed {piece!r}")

    def check_back(self, constraint: Constraint, allowed: Sequence[int]) -> None:
        """A few tokens on, in the cursor itself and in a fork, and back: the masks are the same again."""
        before = self.row.copy()
        other = constraint.fork()
        for cursor, name in ((constraint, "rollbacks"), (other, "forks")):
            self.counts[name] += 1
            here = allowed
            steps = 0
            while len(here) and steps < 4 and cursor.accept(int(here[self.pick.randrange(len(here))])):
                steps += 1
                cursor.fill(self.row)
                here = np.flatnonzero(np.unpackbits(self.row.view(np.uint8), bitorder="little"))
            if cursor is constraint:
                cursor.rollback(steps)
            constraint.fill(self.row)
            if not (self.row == before).all():
                self.wrong.append(f"another mask after {name}")


def validating(schema: Any) -> Any:
    import jsonschema

    kind = jsonschema.validators.validator_for(schema, default=jsonschema.Draft202012Validator)
    return kind(schema, format_checker=kind.FORMAT_CHECKER)


def schemas() -> list[Any]:
    from bench.masks import maskbench
    from bench.tool_calls import cases

    return [schema for schema, _ in [*cases(), *maskbench(empty=True)]]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("vocabulary", type=Path, help="a folder with a tokenizer.json")
    parser.add_argument("--walks", type=int, default=20, help="of each schema")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--record", action="store_true", help="write the figures to bench/record")
    arguments = parser.parse_args()
    vocab = Vocabulary.from_folder(arguments.vocabulary)
    walker = Walker(vocab, TokenTrie(vocab.token_bytes, vocab.size), arguments.seed)
    start = process_time()
    chosen = schemas()
    for schema in chosen:
        walker.schema(schema, arguments.walks)
    for line in walker.wrong[:40]:
        print("  " + line, file=sys.stderr)
    result = {
        "vocabulary": arguments.vocabulary.name,
        "seed": arguments.seed,
        "schemas": len(chosen),
        "schemas that are accepted": len(chosen) - walker.counts["refused"],
        **walker.counts,
        "wrong": len(walker.wrong),
        "cpu s": round(process_time() - start, 1),
    }
    print(json.dumps(result, indent=1))
    if arguments.record:
        file = RECORD / f"walks-{datetime.date.today().isoformat()}.json"
        file.write_text(json.dumps(result, indent=1) + "\n")
    return 1 if walker.wrong else 0


if __name__ == "__main__":
    raise SystemExit(main())
