"""``dragoman parse``: a model's output as the message that it is, and as the deltas that a client would get."""

from __future__ import annotations

import argparse
from collections.abc import Mapping, Sequence
from typing import Any

from dragoman.cli.files import STDIN, read_bytes
from dragoman.cli.output import print_json, print_json_line, print_table
from dragoman.cli.requests import add_request, make_turn
from dragoman.cli.sources import add_template, load_format
from dragoman.errors import UsageError


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_template(parser)
    add_request(parser)
    parser.add_argument("--output", metavar="FILE", default=STDIN, help="what the model wrote (default: stdin)")
    parser.add_argument(
        "--chunk", type=int, metavar="BYTES", help="feed pieces of so many bytes (default: all at once)"
    )
    parser.add_argument("--deltas", action="store_true", help="print each delta on a line of its own first")
    parser.add_argument("--steps", action="store_true", help="show where the reader stands after each piece")
    parser.add_argument("--cut-off", action="store_true", help="the output was cut off by a length limit")


def run(arguments: argparse.Namespace) -> int:
    from dragoman.inspector.watch import pieces_of, replay

    if arguments.chunk is not None and arguments.chunk < 1:
        raise UsageError(f"--chunk: a piece of {arguments.chunk} bytes cannot be fed; give 1 or more", param="--chunk")
    if arguments.output == STDIN and arguments.request == STDIN:
        raise UsageError("--output: the request and the output cannot both come from stdin", param="--output")
    turn = make_turn(load_format(arguments), arguments)
    data = read_bytes(arguments.output, param="--output", wanted="what a model wrote")
    size = arguments.chunk or max(len(data), 1)
    steps = list(replay(turn, pieces_of(data, size), "length" if arguments.cut_off else "stop"))
    deltas = [delta for step in steps for delta in step["deltas"]]
    shown = steps[-1]["result"]
    if arguments.json:
        print_json({**shown, "deltas": deltas, **({"steps": steps} if arguments.steps else {})})
        return 0
    if arguments.steps:
        _print_steps(steps)
    if arguments.deltas:
        for delta in deltas:
            print_json_line(delta)
    print_json(shown)
    return 0


def _print_steps(steps: Sequence[Mapping[str, Any]]) -> None:
    rows = []
    for step in steps:
        reader = step["reader"]
        piece = repr(step["chunk"]) if "chunk" in step else f"({step['finish']})"
        numbers = [str(reader[name]) for name in ("threads", "position", "settled")]
        told = " ".join(map(_short, step["deltas"]))
        rows.append([piece, *numbers, repr(reader["withheld"]), " > ".join(reader["path"]), told])
    print_table(rows, head=("piece", "threads", "read", "settled", "withheld", "inside", "deltas"))


def _short(delta: Mapping[str, Any]) -> str:
    for name in ("content", "reasoning_content"):
        if name in delta:
            return f"{name.removesuffix('_content')} {delta[name]!r}"
    function = delta["tool_calls"][0]["function"]
    return f"call {function['name']}" if "name" in function else f"arguments {function['arguments']!r}"
