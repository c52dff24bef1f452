"""The embedded engine: llama.cpp's server inside this process, spoken to over loopback.

The library behind it starts a real HTTP server on threads of its own, so the adapter is the one for any llama-server.
Loading holds the interpreter for about half a second; after that it works beside it.
"""

from __future__ import annotations

import gc
import os
import secrets
import signal
import threading
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any

from dragoman.engine import Chunk, EngineInfo, Generation
from dragoman.engines.llama_server import LlamaServer, Timeouts
from dragoman.engines.model_file import SMOLLM2, fetch
from dragoman.errors import EngineError, UsageError


@dataclass(frozen=True, slots=True)
class EmbeddedSettings:
    """How the engine runs. The defaults suit a small model on a busy machine, where a second thread slows it down."""

    context_tokens: int = 4096
    threads: int = 1
    prompt_threads: int = 2
    # Also how long a cancelled request may still read its prompt: 1.2 s at 256 on one slow core, 26 s at 2048.
    batch_tokens: int = 256
    gpu_layers: int = 0


class Embedded:
    """An engine in this process. ``Embedded.start()`` returns when the model is loaded; ``aclose`` stops it."""

    def __init__(self, server: Any, client: LlamaServer, model_path: Path) -> None:
        self._server = server
        self._client = client
        self.model_path = model_path

    @classmethod
    def start(
        cls, model_path: str | os.PathLike[str] | None = None, *, settings: EmbeddedSettings | None = None
    ) -> Embedded:
        """Load the GGUF file at ``model_path`` (the default model, fetched if need be, where none is named).

        Raises EngineError when the model does not load, UsageError when the engine's package is missing.
        """
        library = _library()
        path = Path(model_path) if model_path is not None else fetch(SMOLLM2)
        if not path.is_file():
            raise UsageError(f"there is no model file {path}", param="model_path")
        secret = secrets.token_urlsafe(24)  # the server answers every web page's script otherwise
        parameters = _parameters(library, path, secret, settings or EmbeddedSettings())
        with _handlers_kept():
            try:
                server = library.Server(parameters)
            except RuntimeError as error:
                raise EngineError(
                    f"the engine could not load {path}: {error}; is it a whole GGUF file, and is there memory for it?"
                ) from error
        return cls(server, LlamaServer(server.listening_address, api_key=secret, timeouts=Timeouts()), path)

    @property
    def base_url(self) -> str:
        """Where it listens; requests there need a secret that only this object knows."""
        return self._client.base_url

    @property
    def client(self) -> LlamaServer:
        """The adapter that speaks to the server; it is closed with this object."""
        return self._client

    async def __aenter__(self) -> Embedded:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.aclose()

    async def aclose(self) -> None:
        """Stop the server and free its memory (0.1 s). Closing twice does nothing."""
        await self._client.aclose()
        self.stop()

    def stop(self) -> None:
        """The same without an event loop; open requests fail."""
        self._server = None
        gc.collect()  # its destructor is the only way to stop it

    async def info(self) -> EngineInfo:
        return await self._client.info()

    async def tokenize(self, text: str, *, controls: bool = False) -> list[int]:
        return await self._client.tokenize(text, controls=controls)

    async def health(self) -> bool:
        return self._server is not None and await self._client.health()

    def generate(self, request: Generation) -> AsyncIterator[Chunk]:
        if self._server is None:
            raise EngineError("the embedded engine has been stopped")
        return self._client.generate(request)


def _library() -> Any:
    try:
        import xllamacpp
    except ImportError as error:
        raise UsageError("the embedded engine needs a package: pip install 'dragoman[local]'") from error
    return xllamacpp


def _parameters(library: Any, path: Path, secret: str, settings: EmbeddedSettings) -> Any:
    parameters = library.CommonParams()
    parameters.model.path = str(path)
    parameters.cpuparams.n_threads = settings.threads
    parameters.cpuparams_batch.n_threads = settings.prompt_threads
    values = {
        "port": 0,  # any free one
        "api_keys": [secret],
        "n_ctx": settings.context_tokens,
        "n_parallel": 1,  # the context is divided by it
        "n_batch": settings.batch_tokens,
        "n_ubatch": settings.batch_tokens,
        "n_gpu_layers": settings.gpu_layers,
        "warmup": False,
        "fit_params": False,
        "ui": False,
        "verbosity": 0,
        "cache_ram_mib": 0,
        "endpoint_slots": False,
    }
    for name, value in values.items():
        setattr(parameters, name, value)
    return parameters


@contextmanager
def _handlers_kept() -> Iterator[None]:
    """Ctrl-C and SIGTERM do afterwards what they did before. Only the main thread may set handlers, or needs to."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    watched = [signal.SIGINT, signal.SIGTERM]
    before = {number: signal.getsignal(number) for number in watched}
    try:
        yield
    finally:
        for number, handler in before.items():
            if handler is not None:  # None: not set from Python, so not ours to set
                signal.signal(number, handler)
