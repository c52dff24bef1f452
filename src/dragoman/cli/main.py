"""The command ``dragoman``: which verb, and what its failure means for the exit code."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence
from types import ModuleType

from dragoman.cli import chat, check, demo_verb, grammar, inspect, models, parse, render, serve
from dragoman.errors import DragomanError, UsageError

# One verb a file. Each has SUMMARY, add_arguments(parser) and run(arguments) -> exit code.
VERBS: dict[str, ModuleType] = {
    "serve": serve,
    "chat": chat,
    "inspect": inspect,
    "render": render,
    "parse": parse,
    "grammar": grammar,
    "check": check,
    "models": models,
    "demo": demo_verb,
}


def make_parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="dragoman", description="Between OpenAI-style chat messages and a language model."
    )
    verbs = parser.add_subparsers(title="verbs", metavar="VERB", required=True)
    for name, module in VERBS.items():
        verb = verbs.add_parser(name, help=module.SUMMARY, description=module.SUMMARY)
        verb.add_argument("--json", action="store_true", help="print JSON")
        module.add_arguments(verb)
        verb.set_defaults(run=module.run, verb=name)
    return parser


def main(argv: Sequence[str] | None = None) -> int:
    """Exit code: 0 done, 1 failed, 2 asked wrongly. What went wrong is said on stderr."""
    arguments = make_parser().parse_args(argv)
    try:
        code: int = arguments.run(arguments)
        sys.stdout.flush()
        return code
    except UsageError as error:
        print(f"dragoman {arguments.verb}: {error}", file=sys.stderr)
        return 2
    except (DragomanError, OSError) as error:
        if isinstance(error, BrokenPipeError):
            # Whoever read our output has enough of it; Python would complain once more while it shuts down.
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            return 0
        print(f"dragoman {arguments.verb}: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        return 130
