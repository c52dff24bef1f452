"""``dragoman parse``: a model's output as the message that it is, and as the deltas that a client would get."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from dragoman.chat import Delta
from dragoman.cli.output import print_json, print_json_line
from dragoman.cli.requests import add_request, make_turn
from dragoman.cli.sources import add_template, load_format
from dragoman.errors import UsageError

SUMMARY = "read a model's output: reasoning, content and tool calls"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_template(parser)
    add_request(parser)
    parser.add_argument("--output", metavar="FILE", default="-", help="what the model wrote (default: stdin)")
    parser.add_argument("--chunk", type=int, default=0, metavar="BYTES", help="feed pieces of so many bytes")
    parser.add_argument("--deltas", action="store_true", help="print each delta on a line of its own first")
    parser.add_argument("--cut-off", action="store_true", help="the output was cut off by a length limit")


def run(arguments: argparse.Namespace) -> int:
    if arguments.chunk < 0:
        raise UsageError(f"--chunk is {arguments.chunk}; a piece has at least one byte", param="--chunk")
    if arguments.output == "-" and arguments.request == "-":
        raise UsageError("the request and the output cannot both come from stdin", param="--output")
    turn = make_turn(load_format(arguments), arguments)
    data = sys.stdin.buffer.read() if arguments.output == "-" else Path(arguments.output).read_bytes()
    size = arguments.chunk or max(len(data), 1)
    deltas: list[Delta] = []
    for at in range(0, len(data), size):
        deltas += turn.feed(data[at : at + size])
    deltas += turn.finish("length" if arguments.cut_off else "stop")
    if arguments.deltas and not arguments.json:
        for delta in deltas:
            print_json_line(delta.to_dict())
    message = turn.message
    shown = {
        "message": message.to_dict(),
        "finish_reason": turn.finish_reason,
        "truncated": message.truncated,
        "problems": [problem.to_dict() for problem in message.problems],
    }
    if arguments.json:
        shown["deltas"] = [delta.to_dict() for delta in deltas]
    print_json(shown)
    return 0
