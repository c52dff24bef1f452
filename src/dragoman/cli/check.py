"""``dragoman check``: recorded outputs are read, cut in every way, and compared with what they are."""

from __future__ import annotations

import argparse
from collections import defaultdict
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from dragoman.cli.cases import Case, Fault, check_case, load_cases
from dragoman.cli.output import print_heading, print_json, print_styled, print_table, print_text, progress
from dragoman.errors import DragomanError, UsageError
from dragoman.format import ChatFormat

_WAYS = ("whole", "bytes", "random", "chunks")
_SHOWN = 10  # failing cases, unless all are wanted


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("cases", metavar="CASES.jsonl", help="one case a line: template, request, output, expect")
    parser.add_argument(
        "--templates",
        metavar="FOLDER",
        help="where the cases' .jinja files lie; else the folder templates beside CASES.jsonl, else its own",
    )
    parser.add_argument("--only", metavar="TEXT", help="cases whose id or template holds this text")
    parser.add_argument("--failures", action="store_true", help=f"show all cases that fail, not the first {_SHOWN}")


def run(arguments: argparse.Namespace) -> int:
    folder = _folder(arguments.templates, arguments.cases)
    only = arguments.only or ""
    cases = [case for case in load_cases(arguments.cases) if only in case.id or only in case.template]
    if not cases:
        where = f"{arguments.cases} with {only!r} in its id or template" if only else arguments.cases
        raise UsageError(f"CASES.jsonl: there is no case in {where}", param="CASES.jsonl")
    _require_templates(folder, cases, named=arguments.templates is not None)
    results = []
    with progress("cases", len(cases)) as step:
        for case in cases:
            results.append(_checked(case, folder))
            step()
    failed = [result for result in results if result["failed"]]
    if arguments.json:
        print_json(_told(results, failed))
    else:
        _print_failures(failed, len(failed) if arguments.failures else _SHOWN)
        _print_table(results)
    return 1 if failed else 0


def _folder(named: str | None, cases: str) -> Path:
    """Where the templates lie. Raises UsageError."""
    if named is None:
        beside = Path(cases).expanduser().parent
        return beside / "templates" if (beside / "templates").is_dir() else beside
    folder = Path(named).expanduser()
    if not folder.is_dir():
        raise UsageError(f"--templates: {named} is no folder with .jinja files", param="--templates")
    return folder


def _require_templates(folder: Path, cases: Sequence[Case], *, named: bool) -> None:
    """Raises UsageError where nothing could be checked: no case has failed then."""
    there = any(folder.glob("*.jinja")) if named else any(_file(case, folder).is_file() for case in cases)
    if not there:
        what = (
            "holds no .jinja file"
            if named
            else f"holds none of the cases' templates, as {_file(cases[0], folder).name}"
        )
        raise UsageError(f"--templates: {folder} {what}; wanted is the folder with them", param="--templates")


def _file(case: Case, folder: Path) -> Path:
    path = folder / case.template.removesuffix(".jinja")
    return path.with_name(path.name + ".jinja")


def _checked(case: Case, folder: Path) -> dict[str, Any]:
    ways: Mapping[str, Fault | None]
    try:
        ways = check_case(_format(case, folder), case)
    except DragomanError as error:
        ways = {"whole": Fault(f"raises {type(error).__name__}: {error}")}
    faults = {way: fault for way, fault in ways.items() if fault is not None}
    return {"id": case.id, "template": case.template, "ways": list(ways), "failed": bool(faults), "faults": faults}


def _format(case: Case, folder: Path) -> ChatFormat:
    """Learning is cached by the template's text."""
    file = _file(case, folder)
    try:
        return ChatFormat.from_template(file.read_text("utf-8"))
    except (OSError, ValueError) as error:  # ValueError: no UTF-8
        raise UsageError(f"case {case.id}: {file} cannot be read: {error}", param="--templates") from error


def _told(results: Sequence[Mapping[str, Any]], failed: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    def plain(result: Mapping[str, Any]) -> dict[str, Any]:
        return {**result, "faults": {way: fault.to_dict() for way, fault in result["faults"].items()}}

    templates = {name: {"cases": len(group), "passed": _passed(group)} for name, group in _by_template(results).items()}
    counts = {"cases": len(results), "passed": _passed(results)}
    return {**counts, "templates": templates, "failures": list(map(plain, failed))}


def _print_failures(failed: Sequence[Mapping[str, Any]], most: int) -> None:
    for result in failed[:most]:
        by_fault: dict[Fault, list[str]] = defaultdict(list)
        for way, fault in result["faults"].items():
            by_fault[fault].append(way)
        for fault, ways in by_fault.items():
            print_heading(f"{result['id']} ({', '.join(ways)}): {fault.what}")
            if fault.expected is not None and fault.found is not None:
                _print_difference(fault.expected, fault.found)
    if len(failed) > most:
        print_styled(f"... and {len(failed) - most} more cases fail; --failures shows them all", "dim")
    if failed:
        print()


def _print_difference(expected: str, found: str) -> None:
    """Both texts one below the other; what they do not share is marked."""
    from rich.text import Text

    shared = min(len(expected), len(found))
    start = next((at for at in range(shared) if expected[at] != found[at]), shared)
    end = next((at for at in range(shared - start) if expected[-1 - at] != found[-1 - at]), shared - start)
    for sign, text, style in (("-", expected, "red"), ("+", found, "green")):
        line = Text(f"  {sign} ", style=style)
        line.append(text[:start])
        line.append(text[start : len(text) - end], "reverse")
        line.append(text[len(text) - end :])
        print_text(line)


def _print_table(results: Sequence[Mapping[str, Any]]) -> None:
    rows = [[name, *_counts(group)] for name, group in sorted(_by_template(results).items())]
    print_table([*rows, ["all", *_counts(results)]], head=("template", "passed", "cases", *_WAYS))


def _by_template(results: Sequence[Mapping[str, Any]]) -> dict[str, list[Mapping[str, Any]]]:
    groups: dict[str, list[Mapping[str, Any]]] = defaultdict(list)
    for result in results:
        groups[result["template"]].append(result)
    return groups


def _passed(results: Sequence[Mapping[str, Any]]) -> int:
    return sum(not result["failed"] for result in results)


def _counts(results: Sequence[Mapping[str, Any]]) -> list[str]:
    def right(way: str) -> str:
        tried = [result for result in results if way in result["ways"]]
        return f"{sum(way not in result['faults'] for result in tried)}/{len(tried)}" if tried else "-"

    return [str(_passed(results)), str(len(results)), *map(right, _WAYS)]
