"""``dragoman models``: the models that lie ready on this machine, the embedded one first."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from dragoman.cli.output import print_json, print_table


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--fetch", action="store_true", help="fetch the embedded model now (93 MB)")


def run(arguments: argparse.Namespace) -> int:
    from dragoman.engines.model_file import SMOLLM2, cache_folder, fetch

    folder = cache_folder()
    embedded = fetch(SMOLLM2) if arguments.fetch else folder / SMOLLM2.file_name
    found = [_described(embedded, SMOLLM2.name)]
    found += [_described(path, path.stem) for path in sorted(folder.glob("*.gguf")) if path != embedded]
    if arguments.json:
        print_json({"folder": str(folder), "models": found})
        return 0
    rows = [
        [each["name"], f"{each['bytes'] / 1e6:.0f} MB" if each["ready"] else "not fetched yet (--fetch)", each["path"]]
        for each in found
    ]
    print_table(rows, head=("model", "size", "file"))
    return 0


def _described(path: Path, name: str) -> dict[str, Any]:
    ready = path.is_file()
    return {"name": name, "path": str(path), "ready": ready, "bytes": path.stat().st_size if ready else 0}
