"""``dragoman grammar``: what a model may write in one turn, as a grammar for an engine that has its own."""

from __future__ import annotations

import argparse

from dragoman.cli.output import print_json, say
from dragoman.cli.requests import add_request, make_turn
from dragoman.cli.sources import add_template, load_format

SUMMARY = "print the grammar of a turn for an engine"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_template(parser)
    add_request(parser)
    parser.add_argument("--to", choices=("gbnf",), default="gbnf", help="the notation (llama.cpp's is gbnf)")


def run(arguments: argparse.Namespace) -> int:
    turn = make_turn(load_format(arguments), arguments)
    grammar = turn.grammar
    if arguments.json:
        shown = {
            "gbnf": grammar.to_gbnf(),
            "constrains": grammar.constrains,
            "lazy": grammar.lazy,
            "triggers": list(grammar.triggers),
            "stops": list(turn.stops),
            "preserved_tokens": list(turn.preserved_tokens),
        }
        print_json(shown)
        return 0
    print(grammar.to_gbnf(), end="")
    if grammar.lazy:
        say(f"lazy: it applies from the first of these words on: {', '.join(map(repr, grammar.triggers))}")
    elif not grammar.constrains:
        say("the request has no tools and no form of answer, so an engine needs no grammar for it")
    return 0
