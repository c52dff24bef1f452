"""The command ``dragoman``: which verb, and what its failure means for the exit code.

Exit codes: 0 done; 1 it failed (a template, an engine, a limit, cases that do not pass); 2 asked wrongly (an option, a
file that is not there, a request that cannot be read); 130 interrupted. A failure is one line on stderr, under
``--json`` an object on stdout.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence
from types import ModuleType
from typing import NoReturn

from dragoman.cli import bench, chat, check, completion, demo_verb, grammar, inspect, models, parse, render, serve
from dragoman.cli.output import print_json, say
from dragoman.errors import DragomanError, EngineError, LimitError, OutputError, SchemaError, TemplateError, UsageError

# One verb a file. Each has SUMMARY, add_arguments(parser) and run(arguments) -> exit code.
VERBS: dict[str, ModuleType] = {
    "serve": serve,
    "chat": chat,
    "inspect": inspect,
    "render": render,
    "parse": parse,
    "grammar": grammar,
    "check": check,
    "bench": bench,
    "models": models,
    "demo": demo_verb,
    "completion": completion,
}
_KINDS: dict[type[Exception], str] = {
    SchemaError: "schema_error",
    UsageError: "usage_error",
    TemplateError: "template_error",
    EngineError: "engine_error",
    OutputError: "output_error",
    LimitError: "limit_error",
    OSError: "system_error",
}


class _Refused(UsageError):
    """The command line itself is wrong."""

    def __init__(self, message: str, command: str) -> None:
        super().__init__(f"{message}; see {command} --help")
        self.command = command


class _Parser(argparse.ArgumentParser):
    """Says in one line what is wrong, in place of the whole usage."""

    def error(self, message: str) -> NoReturn:
        raise _Refused(message, self.prog)


def make_parser() -> argparse.ArgumentParser:
    parser = _Parser(
        prog="dragoman",
        description="Between OpenAI-style chat messages and a language model.",
        epilog="Exit codes: 0 done, 1 failed, 2 asked wrongly.",
    )
    parser.add_argument("--version", action="version", version=_version())
    verbs = parser.add_subparsers(title="verbs", metavar="VERB", required=True)
    for name, module in VERBS.items():
        verb = verbs.add_parser(name, help=module.SUMMARY, description=module.SUMMARY)
        verb.add_argument("--json", action="store_true", help="print JSON, also of what fails")
        module.add_arguments(verb)
        verb.set_defaults(run=module.run, verb=name)
    return parser


def _version() -> str:
    from importlib.metadata import PackageNotFoundError, version

    try:
        return f"dragoman {version('dragoman')}"
    except PackageNotFoundError:  # run from a source tree that is not installed
        return "dragoman"


def main(argv: Sequence[str] | None = None) -> int:
    """Run a verb; its exit code. What went wrong is said on stderr, or as JSON on stdout."""
    words = sys.argv[1:] if argv is None else list(argv)
    command, as_json = "dragoman", "--json" in words
    try:
        arguments = make_parser().parse_args(words)
        command = f"dragoman {arguments.verb}"
        code: int = arguments.run(arguments)
        sys.stdout.flush()
        return code
    except _Refused as error:
        return _failed(error, error.command, as_json=as_json)
    except (DragomanError, OSError) as error:
        if isinstance(error, BrokenPipeError):
            # Whoever read our output has enough of it; Python would complain once more while it shuts down.
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            return 0
        return _failed(error, command, as_json=as_json)
    except KeyboardInterrupt:
        return 130


def _failed(error: Exception, command: str, *, as_json: bool) -> int:
    code = 2 if isinstance(error, UsageError) else 1
    if as_json:
        kind = next((kind for each, kind in _KINDS.items() if isinstance(error, each)), "error")
        param = error.param if isinstance(error, UsageError) else None
        print_json({"error": {"message": str(error), "type": kind, "param": param, "exit_code": code}})
    else:
        say(f"{command}: {' '.join(str(error).split()) or type(error).__name__}")
    return code
