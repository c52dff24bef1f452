"""``dragoman render``: the prompt of a request, and which of its parts came from outside."""

from __future__ import annotations

import argparse
from typing import Any

from dragoman.cli.output import print_json
from dragoman.cli.requests import add_request, make_turn
from dragoman.cli.sources import add_template, load_format

SUMMARY = "print the prompt that a template makes of a conversation"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_template(parser)
    add_request(parser)
    parser.add_argument("--parts", action="store_true", help="«» around what came from outside")


def run(arguments: argparse.Namespace) -> int:
    fmt = load_format(arguments)
    turn = make_turn(fmt, arguments)
    if arguments.json:
        parts = [{"text": text, "input": is_input} for text, is_input in turn.prompt.parts]
        shown: dict[str, Any] = {
            "prompt": turn.prompt.text,
            "parts": parts,
            "generation_prompt": turn.generation_prompt,
            "stops": list(turn.stops),
        }
        if fmt.vocab is not None:
            shown["token_ids"] = list(turn.prompt.token_ids)
        print_json(shown)
    elif arguments.parts:
        print("".join(f"«{text}»" if is_input else text for text, is_input in turn.prompt.parts))
    else:
        print(turn.prompt.text, end="")
    return 0
