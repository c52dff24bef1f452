"""Hypothesis draws the same in each run. DRAGOMAN_PURE=1: the hot files run as plain Python, though compiled."""

from __future__ import annotations

import importlib.util
import os
import sys
from importlib.machinery import ModuleSpec, PathFinder
from pathlib import Path
from typing import Any

from hypothesis import settings

HOT = ("dragoman.grammar.lazy_automaton", "dragoman.grammar.walk")


class PlainPython:
    """Finds the source of the hot files and never what was compiled from it."""

    @staticmethod
    def find_spec(name: str, path: Any = None, target: Any = None) -> ModuleSpec | None:
        found = PathFinder.find_spec(name, path) if name in HOT else None
        if found is None or found.origin is None:
            return None
        source = Path(found.origin).with_name(name.rpartition(".")[2] + ".py")
        return importlib.util.spec_from_file_location(name, source)


if os.environ.get("DRAGOMAN_PURE") == "1":
    sys.meta_path.insert(0, PlainPython)  # type: ignore[arg-type]

# A draw that nobody has seen fails, or takes minutes, on a change that has nothing to do with it.
settings.register_profile("seeded", derandomize="DRAGOMAN_SEED" not in os.environ, deadline=None)
settings.load_profile("seeded")
