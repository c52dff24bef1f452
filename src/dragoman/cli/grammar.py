"""``dragoman grammar``: what a model may write in one turn, as a grammar for an engine that has its own."""

from __future__ import annotations

import argparse
import json

from dragoman.cli.output import print_json, say
from dragoman.cli.pictures import print_rules
from dragoman.cli.requests import add_request, make_turn
from dragoman.cli.sources import add_template, load_format
from dragoman.inspector.shown import NOTATIONS, RESPONSE_TEMPLATE, grammar_shown, rules_shown

_LISTING = "listing"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_template(parser)
    add_request(parser)
    parser.add_argument(
        "--to",
        choices=(*NOTATIONS, RESPONSE_TEMPLATE, _LISTING),
        default="gbnf",
        help="the notation: of llama.cpp (gbnf), llguidance (lark), xgrammar (ebnf, structural-tag); "
        "response-template: transformers' description of the format, whatever the request; listing: for people",
    )


def run(arguments: argparse.Namespace) -> int:
    fmt = load_format(arguments)
    if arguments.to == RESPONSE_TEMPLATE:
        print_json(fmt.to_response_template())
        return 0
    turn = make_turn(fmt, arguments)
    if arguments.to == _LISTING:
        rules = rules_shown(turn)
        if arguments.json:
            print_json(rules)
        else:
            print_rules(rules)
        return 0
    shown = grammar_shown(turn, arguments.to)
    if arguments.json:
        print_json(shown)
        return 0
    written = shown[arguments.to]
    print(written if isinstance(written, str) else json.dumps(written, ensure_ascii=False, indent=2) + "\n", end="")
    if shown["lazy"]:
        say(f"lazy: it applies from the first of these words on: {', '.join(map(repr, shown['triggers']))}")
    elif not shown["constrains"]:
        say("the request has no tools and no form of answer, so an engine needs no grammar for it")
    return 0
