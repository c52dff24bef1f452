"""``dragoman inspect``: what was learned from a template, from which evidence, and what the proof says."""

from __future__ import annotations

import argparse
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from dragoman.cli.output import print_json, print_table
from dragoman.cli.sources import add_template, load_format
from dragoman.errors import DragomanError

SUMMARY = "show what was learned from a template, why it is believed and what was proven"
# Facts that would only repeat what stands elsewhere, or fill the screen; --json has them.
_LEFT_OUT = ("literals", "baseline")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_template(parser)


def run(arguments: argparse.Namespace) -> int:
    from dragoman.server.props import props

    folder = Path(arguments.template)
    if folder.is_dir() and any(folder.glob("*.jinja")) and not (folder / "tokenizer_config.json").exists():
        return _run_folder(sorted(folder.glob("*.jinja")), as_json=arguments.json)
    known = props(load_format(arguments))
    if arguments.json:
        print_json(known)
        return 0
    print(f"Template {arguments.template}\nsha256 {known['template_hash']}, {len(known['chat_template'])} characters")
    profile = known["profile"]
    print("\nWhat was learned")
    _print_facts(_facts(profile["facts"], profile["evidence"]))
    print("\nWhat was proven, by a round trip through the template")
    rows = [[f"  {name}", claim["status"], _messages(claim), claim["why"]] for name, claim in known["proof"].items()]
    print_table(rows)
    print("\nWhat the template can take, found by running it")
    print_table([[f"  {name}", "yes" if able else "no"] for name, able in known["capabilities"].items()])
    return 0


def _run_folder(files: list[Path], *, as_json: bool) -> int:
    """One line a template: how calls are written, how reasoning is told, what is proven."""
    from dragoman.format import ChatFormat

    rows = []
    for file in files:
        try:
            fmt = ChatFormat.from_template(file.read_text("utf-8"))
        except DragomanError as error:
            rows.append([file.name, "failed", "", str(error)])
            continue
        tools = fmt.profile.tools
        calls = "generic" if fmt.profile.generic_tools or tools is None else tools.format.value
        proven = [name for name, status in fmt.proof.items() if status == "proven"]
        rows.append([file.name, calls, fmt.profile.reasoning.mode.value, ", ".join(proven)])
    names = ("template", "calls", "reasoning", "proven")
    if as_json:
        print_json([dict(zip(names, row, strict=True)) for row in rows])
    else:
        print_table([names, *rows])
    return 0


def _print_facts(rows: list[list[str]]) -> None:
    """Values one below the other; why a fact is believed stands under it."""
    width = max(len(name) for name, _, _ in rows)
    for name, value, why in rows:
        print(f"  {name.ljust(width)}  {value}".rstrip())
        if why:
            print(f"  {' ' * width}    because of {why}")


def _facts(facts: Mapping[str, Any], evidence: Mapping[str, Any], prefix: str = "") -> list[list[str]]:
    """One row a fact: nested ones under dotted names, empty ones left out unless there is evidence for them."""
    rows = []
    for name, value in facts.items():
        dotted = prefix + name
        if dotted in _LEFT_OUT:
            continue
        why = "; ".join(f"{item['source']}: {item['what']}" for item in evidence.get(dotted, ()))
        nested = isinstance(value, Mapping) and "slot" not in value
        if nested and value:
            if why:
                rows.append([dotted, "", why])
            rows += _facts(value, evidence, f"{dotted}.")
        elif why or value not in (None, "", [], {}, False):
            rows.append([dotted, _shown(value), why])
    return rows


def _shown(value: Any) -> str:
    """Markers as they are written, slots in capitals, a sequence of both with dots between them."""
    if isinstance(value, Mapping) and set(value) == {"slot"}:
        return str(value["slot"]).upper()
    if isinstance(value, list):
        return " · ".join(map(_shown, value)) if value else "none"
    if isinstance(value, bool):
        return "yes" if value else "no"
    return json.dumps(value, ensure_ascii=False)


def _messages(claim: Mapping[str, Any]) -> str:
    return f"{claim['messages']} messages" if claim["messages"] else ""
