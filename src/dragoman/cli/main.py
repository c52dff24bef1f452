"""The command ``dragoman``: which verb, and what its failure means for the exit code.

Exit codes: 0 done; 1 it failed (a template, an engine, a limit, cases that do not pass); 2 asked wrongly (an option, a
file that is not there, a request that cannot be read); 130 interrupted. A failure is one line on stderr, under
``--json`` an object on stdout.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Mapping, Sequence
from importlib import import_module
from typing import NoReturn

from dragoman.cli.output import print_json, say
from dragoman.errors import DragomanError, EngineError, LimitError, OutputError, SchemaError, TemplateError, UsageError

# verb -> (its module in this package, what it does). A module has add_arguments(parser), run(arguments) -> exit code.
# It is loaded when its verb is wanted, so that one that needs an extra does not stand in the way of the others.
VERBS: Mapping[str, tuple[str, str]] = {
    "serve": ("serve", "serve a model over HTTP, for any OpenAI client"),
    "chat": ("chat", "chat with a model in the terminal"),
    "inspect": ("inspect", "show what was learned from a template, why it is believed and what was proven"),
    "render": ("render", "print the prompt that a template makes of a conversation"),
    "parse": ("parse", "read a model's output: reasoning, content and tool calls"),
    "grammar": ("grammar", "print the grammar of a turn for an engine"),
    "check": ("check", "read recorded outputs, whole and in pieces, and compare with what is expected"),
    "bench": ("bench", "measure learning, prompts, reading and masks of a template and a vocabulary"),
    "models": ("models", "list the models that lie ready, the embedded one first"),
    "demo": ("demo_verb", "let the embedded model answer a tool call, and show every step"),
    "completion": ("completion", "print the completion script of a shell"),
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


def make_parser(only: str | None = None) -> argparse.ArgumentParser:
    """The whole command line, as far as what it needs is installed; with ``only``, the options of that verb alone.

    Raises UsageError for that verb where its extra is not installed.
    """
    parser = _Parser(
        prog="dragoman",
        description="Between OpenAI-style chat messages and a language model.",
        epilog="Exit codes: 0 done, 1 failed, 2 asked wrongly.",
    )
    parser.add_argument("--version", action="version", version=_version())
    verbs = parser.add_subparsers(title="verbs", metavar="VERB", required=True)
    for name, (module, summary) in VERBS.items():
        verb = verbs.add_parser(name, help=summary, description=summary)
        verb.add_argument("--json", action="store_true", help="print JSON, also of what fails")
        if only not in (None, name):
            continue
        try:
            loaded = import_module(f"dragoman.cli.{module}")
            loaded.add_arguments(verb)
            verb.set_defaults(run=loaded.run)
        except ModuleNotFoundError as error:
            if only == name:
                raise _lacking(name, error) from error
    return parser


def _lacking(verb: str, error: ModuleNotFoundError) -> Exception:
    """What to install; a module of our own that is missing is a fault of ours and stays one."""
    name = (error.name or "dragoman").partition(".")[0]
    if name == "dragoman":
        return error
    return UsageError(f"{verb} needs {name}: pip install 'dragoman[local,server]'")


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
        verb = next((word for word in words if not word.startswith("-")), "")
        command = f"dragoman {verb}".rstrip()
        arguments, strange = make_parser(only=verb).parse_known_args(words)
        if strange:
            raise _Refused(_strange(strange, arguments), command)
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


def _strange(words: Sequence[str], arguments: argparse.Namespace) -> str:
    """What is wrong with words that a verb does not take; a lone file is most often a conversation."""
    message = f"unrecognized arguments: {' '.join(words)}"
    if len(words) == 1 and not words[0].startswith("-") and getattr(arguments, "request", "") is None:
        return f"{message} (a conversation is given by --request {words[0]})"
    return message


def _failed(error: Exception, command: str, *, as_json: bool) -> int:
    code = 2 if isinstance(error, UsageError) else 1
    if as_json:
        kind = next((kind for each, kind in _KINDS.items() if isinstance(error, each)), "error")
        param = error.param if isinstance(error, UsageError) else None
        print_json({"error": {"message": str(error), "type": kind, "param": param, "exit_code": code}})
    else:
        say(f"{command}: {' '.join(str(error).split()) or type(error).__name__}")
    return code
