"""``dragoman check``: recorded outputs are read, cut in every way, and compared with what they are."""

from __future__ import annotations

import argparse
from collections import defaultdict
from pathlib import Path
from typing import Any

from dragoman.cli.cases import Case, check_case, load_cases
from dragoman.cli.output import print_json, print_table
from dragoman.errors import DragomanError, UsageError
from dragoman.format import ChatFormat

SUMMARY = "read recorded outputs, whole and in pieces, and compare with what is expected"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("cases", metavar="CASES.jsonl", help="one case a line: template, request, output, expect")
    parser.add_argument("--templates", metavar="FOLDER", required=True, help="where the cases' .jinja files lie")
    parser.add_argument("--only", metavar="TEXT", help="cases whose id or template holds this text")
    parser.add_argument("--failures", action="store_true", help="print every case that fails, and why")


def run(arguments: argparse.Namespace) -> int:
    folder = Path(arguments.templates)
    if not folder.is_dir():
        raise UsageError(f"{folder} is no folder", param="--templates")
    only = arguments.only or ""
    cases = [case for case in load_cases(Path(arguments.cases)) if only in case.id or only in case.template]
    if not cases:
        raise UsageError(f"there is no case to check in {arguments.cases}", param="CASES.jsonl")
    results = [_checked(case, folder) for case in cases]
    failed = [result for result in results if result["failed"]]
    if arguments.json:
        print_json({"cases": len(results), "passed": len(results) - len(failed), "failures": failed})
    else:
        _print(results, failed if arguments.failures else [])
    return 1 if failed else 0


def _checked(case: Case, folder: Path) -> dict[str, Any]:
    try:
        ways = check_case(_format(case, folder), case)
    except DragomanError as error:
        ways = {"whole": f"raises {type(error).__name__}: {error}"}
    faults = {way: fault for way, fault in ways.items() if fault is not None}
    return {"id": case.id, "template": case.template, "ways": list(ways), "failed": bool(faults), "faults": faults}


def _format(case: Case, folder: Path) -> ChatFormat:
    """Learning is cached by the template's text."""
    path = folder / case.template.removesuffix(".jinja")
    file = path.with_name(path.name + ".jinja")
    if not file.is_file():
        raise UsageError(f"case {case.id}: there is no {file}", param="--templates")
    return ChatFormat.from_template(file.read_text("utf-8"))


def _print(results: list[dict[str, Any]], failed: list[dict[str, Any]]) -> None:
    for result in failed:
        for way, fault in result["faults"].items():
            print(f"{result['id']} ({way}): {fault}")
    ways = ["whole", "bytes", "random", "chunks"]
    by_template: dict[str, list[dict[str, Any]]] = defaultdict(list)
    for result in results:
        by_template[result["template"]].append(result)
    rows = [["template", "passed", "cases", *ways]]
    rows += [[name, *_counts(by_template[name], ways)] for name in sorted(by_template)]
    rows.append(["all", *_counts(results, ways)])
    print_table(rows)


def _counts(results: list[dict[str, Any]], ways: list[str]) -> list[str]:
    def right(way: str) -> str:
        tried = [result for result in results if way in result["ways"]]
        return f"{sum(way not in result['faults'] for result in tried)}/{len(tried)}" if tried else "-"

    return [str(sum(not result["failed"] for result in results)), str(len(results)), *map(right, ways)]
