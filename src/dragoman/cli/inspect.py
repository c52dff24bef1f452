"""``dragoman inspect``: what was learned from a template, from which evidence, what the proof says, and an example."""

from __future__ import annotations

import argparse
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from dragoman.cli.output import WHY, print_heading, print_json, print_styled, print_table, progress
from dragoman.cli.pictures import print_parts, print_rules
from dragoman.cli.sources import add_template, load_format
from dragoman.errors import DragomanError


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_template(parser)
    parser.add_argument("--grammar", action="store_true", help="show the grammar of the example's next turn, too")


def run(arguments: argparse.Namespace) -> int:
    folder = Path(arguments.template).expanduser()
    if folder.is_dir() and any(folder.glob("*.jinja")) and not (folder / "tokenizer_config.json").exists():
        return _run_folder(sorted(folder.glob("*.jinja")), as_json=arguments.json)
    from dragoman.inspector.shown import template_shown

    shown = template_shown(load_format(arguments))
    if arguments.json:
        print_json(shown)
        return 0
    print(f"Template {arguments.template}\nsha256 {shown['template_hash']}, {len(shown['chat_template'])} characters\n")
    print_heading("What was learned")
    _print_facts(shown["facts"])
    print()
    print_heading("What was proven, by a round trip through the template")
    claims = [[name, claim["status"], _messages(claim), claim["why"]] for name, claim in shown["proof"].items()]
    print_table(claims, indent=2)
    print()
    print_heading("What the template can take, found by running it")
    print_table([[name, "yes" if able else "no"] for name, able in shown["capabilities"].items()], indent=2)
    print()
    _print_example(shown["example"])
    if arguments.grammar:
        print()
        print_rules(shown["grammar"])
    return 0


def _run_folder(files: list[Path], *, as_json: bool) -> int:
    """One line a template: how calls are written, how reasoning is told, what is proven. 1 where one cannot be read."""
    from dragoman.format import ChatFormat
    from dragoman.inspector.shown import summary

    rows = []
    with progress("templates", len(files)) as step:
        for file in files:
            try:
                row = {"template": file.name, **summary(ChatFormat.from_template(file.read_text("utf-8")))}
            except (DragomanError, OSError, ValueError) as error:  # ValueError: no UTF-8
                row = {"template": file.name, "calls": "failed", "reasoning": "", "proven": [], "error": str(error)}
            rows.append(row)
            step()
    code = int(any("error" in row for row in rows))
    if as_json:
        print_json(rows)
        return code

    def line(row: Mapping[str, Any]) -> list[str]:
        return [row["template"], row["calls"], row["reasoning"], row.get("error") or ", ".join(row["proven"])]

    print_table(map(line, rows), head=("template", "calls", "reasoning", "proven"))
    return code


def _print_facts(facts: Sequence[Mapping[str, Any]]) -> None:
    """Values one below the other; why a fact is believed stands under it."""
    width = max(len(fact["name"]) for fact in facts)
    for fact in facts:
        print_styled(f"  {fact['name'].ljust(width)}  {fact['value']}".rstrip())
        if fact["why"]:
            print_styled(f"  {' ' * width}    because of {'; '.join(fact['why'])}", WHY)


def _print_example(example: Mapping[str, Any]) -> None:
    if "error" in example:
        print_heading("An example cannot be shown")
        print_styled(f"  {example['error']}")
        return
    roles = ", ".join(message["role"] for message in example["request"]["messages"])
    print_heading(f"An example, as it is rendered ({roles})")
    print_parts(example["parts"])


def _messages(claim: Mapping[str, Any]) -> str:
    return f"{claim['messages']} messages" if claim["messages"] else ""
