"""``dragoman render``: the prompt of a request, and which of its parts came from outside."""

from __future__ import annotations

import argparse

from dragoman.cli.output import print_json
from dragoman.cli.pictures import print_parts
from dragoman.cli.requests import add_request, make_turn
from dragoman.cli.sources import add_template, load_format


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_template(parser)
    add_request(parser)
    parser.add_argument("--parts", action="store_true", help="show what came from outside: in colour, or between « »")


def run(arguments: argparse.Namespace) -> int:
    from dragoman.inspector.shown import prompt_shown

    turn = make_turn(load_format(arguments), arguments)
    if arguments.json:
        print_json(prompt_shown(turn))
    elif arguments.parts:
        print_parts([{"text": text, "input": is_input} for text, is_input in turn.prompt.parts])
    else:
        print(turn.prompt.text, end="")
    return 0
