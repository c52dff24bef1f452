"""The engines that the plug-ins live in, as far as they can be had where the tests run.

vLLM: the real one where it is installed (``make test-engines``), else the stand-in beside this file, which has the
surface that vLLM documents for plug-ins and nothing more. SGLang: the real one where it is installed, else the package
llm-router-utils, which carries SGLang's own detector files; pip fetches it once, without what it depends on.
"""

from __future__ import annotations

import importlib
import importlib.util
import subprocess
import sys
from functools import lru_cache
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any

import pytest

from dragoman.engines.model_file import cache_folder
from tests.plugins import vllm_stand_in

# What the carried detectors import. Their other dependencies are of a server that is not started here.
_CARRIED = ("llm-router-utils==0.8.1", "partial-json-parser==0.2.1.1.post7", "orjson==3.13.0")


@lru_cache(maxsize=1)
def vllm() -> bool:
    """Make ``vllm`` importable; True: the real one."""
    if importlib.util.find_spec("vllm") is not None and not hasattr(sys.modules.get("vllm"), "STAND_IN"):
        importlib.import_module("vllm.parser")
        return True
    vllm_stand_in.install()
    return False


@lru_cache(maxsize=1)
def sglang() -> bool:
    """Make ``sglang.srt`` importable; True: the real one. Skips where the carried files cannot be fetched."""
    if importlib.util.find_spec("sglang") is not None:
        importlib.import_module("sglang.srt.function_call.function_call_parser")
        return True
    if importlib.util.find_spec("llm_router_utils") is None:
        _fetch()
    sys.meta_path.insert(0, _Carried())  # type: ignore[arg-type]
    return False


def _fetch() -> None:
    folder = cache_folder() / "sglang-detectors" / f"py{sys.version_info.major}{sys.version_info.minor}"
    if not (folder / "llm_router_utils").is_dir():
        command = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--target", str(folder), *_CARRIED]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode:
            pytest.skip(f"SGLang's detectors cannot be fetched: {done.stderr.strip()[-300:]}")
    sys.path.append(str(folder))
    importlib.invalidate_caches()


class _Carried:
    """Finds ``sglang.x`` as ``llm_router_utils.sglang.x``: one module under both names."""

    @staticmethod
    def find_spec(name: str, path: Any = None, target: Any = None) -> ModuleSpec | None:
        if name != "sglang" and not name.startswith("sglang."):
            return None
        if importlib.util.find_spec(f"llm_router_utils.{name}") is None:
            return None
        return importlib.util.spec_from_loader(name, _Alias(), is_package=True)  # type: ignore[arg-type]


class _Alias:
    @staticmethod
    def create_module(spec: ModuleSpec) -> ModuleType:
        return importlib.import_module(f"llm_router_utils.{spec.name}")

    @staticmethod
    def exec_module(module: ModuleType) -> None:
        """It was, under its own name."""
