"""``dragoman completion``: what a shell needs to complete verbs, options and files."""

from __future__ import annotations

import argparse

from dragoman.cli.output import print_json

_HOW = """\
bash: dragoman completion bash > ~/.local/share/bash-completion/completions/dragoman
zsh:  dragoman completion zsh > "${fpath[1]}/_dragoman"
fish: dragoman completion fish > ~/.config/fish/completions/dragoman.fish
"""
_SHELLS = ("bash", "zsh", "fish")
# Values that are files or folders, by how the help names them.
_FILES = ("FILE", "PATH", "TEMPLATE", "MODEL", "CASES.jsonl")
_FOLDERS = ("FOLDER",)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.description = f"{parser.description}\n\n{_HOW}"
    parser.add_argument("shell", choices=_SHELLS, help="the shell")


def run(arguments: argparse.Namespace) -> int:
    import shtab

    from dragoman.cli.main import make_parser

    parser = make_parser()
    _name_values(parser)
    script = shtab.complete(parser, arguments.shell)
    if arguments.json:
        print_json({"shell": arguments.shell, "script": script})
    else:
        print(script)
    return 0


def _name_values(parser: argparse.ArgumentParser) -> None:
    """Tell shtab which values are files, and which are words of a list."""
    import shtab

    for action in parser._actions:  # argparse shows its tree no other way
        if isinstance(action, argparse._SubParsersAction):
            for verb in action.choices.values():
                _name_values(verb)
        elif action.metavar in _FILES:
            action.complete = shtab.FILE  # type: ignore[attr-defined]
        elif action.metavar in _FOLDERS:
            action.complete = shtab.DIRECTORY  # type: ignore[attr-defined]
        elif isinstance(action.metavar, str) and action.metavar.startswith("{"):
            action.choices = action.metavar.strip("{}").split(",")  # words that are checked later than options are
