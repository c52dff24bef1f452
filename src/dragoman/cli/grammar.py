"""``dragoman grammar``: what a model may write in one turn, as a grammar for an engine that has its own."""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable
from typing import Any

from dragoman.cli.output import print_json, say
from dragoman.cli.requests import add_request, make_turn
from dragoman.cli.sources import add_template, load_format
from dragoman.turn import TurnGrammar

SUMMARY = "print the grammar of a turn for an engine"
_RESPONSE_TEMPLATE = "response-template"
_NOTATIONS: dict[str, Callable[[TurnGrammar], Any]] = {
    "gbnf": TurnGrammar.to_gbnf,
    "lark": TurnGrammar.to_lark,
    "ebnf": TurnGrammar.to_ebnf,
    "structural-tag": TurnGrammar.to_structural_tag,
}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_template(parser)
    add_request(parser)
    parser.add_argument(
        "--to",
        choices=(*_NOTATIONS, _RESPONSE_TEMPLATE),
        default="gbnf",
        help="the notation: of llama.cpp (gbnf), llguidance (lark), xgrammar (ebnf, structural-tag); "
        "response-template: transformers' description of the format, whatever the request",
    )


def run(arguments: argparse.Namespace) -> int:
    fmt = load_format(arguments)
    if arguments.to == _RESPONSE_TEMPLATE:
        print_json(fmt.to_response_template())
        return 0
    turn = make_turn(fmt, arguments)
    grammar = turn.grammar
    written = _NOTATIONS[arguments.to](grammar)
    # Only GBNF is used from a trigger on; the others begin with the first token.
    lazy = grammar.lazy and arguments.to == "gbnf"
    if arguments.json:
        shown = {
            arguments.to: written,
            "constrains": grammar.constrains,
            "lazy": lazy,
            "triggers": list(grammar.triggers) if lazy else [],
            "stops": list(turn.stops),
            "preserved_tokens": list(turn.preserved_tokens),
        }
        print_json(shown)
        return 0
    print(written if isinstance(written, str) else json.dumps(written, ensure_ascii=False, indent=2) + "\n", end="")
    if lazy:
        say(f"lazy: it applies from the first of these words on: {', '.join(map(repr, grammar.triggers))}")
    elif not grammar.constrains:
        say("the request has no tools and no form of answer, so an engine needs no grammar for it")
    return 0
