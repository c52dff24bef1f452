"""A causal language model of transformers in this process, held to our masks token by token.

Rules of this file: one model, one answer at a time, in a thread of its own, so that the event loop never waits for
it; whoever closes an answer stops it within a token, or within a block of the prompt. The mask is the constraint's,
so what the format allows is exact: no exported grammar comes between. Sampling is done here on the last position's
logits, since transformers' own loop can neither be left nor be watched.
"""

from __future__ import annotations

import asyncio
import codecs
import inspect
import os
import threading
from collections.abc import AsyncGenerator, Callable, Collection, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, Protocol

import numpy

from dragoman.engine import Chunk, EngineInfo, FinishReason, Generation, Stepper, TokenLogprob
from dragoman.engines.sampling import Sampler
from dragoman.engines.stop_words import StopWords
from dragoman.errors import EngineError, UsageError

_BLOCK_TOKENS = 256  # of a prompt, read at once: how long a cancelled request may still work


class TokenTable(Protocol):
    """The part of :class:`dragoman.vocab.Vocabulary` that turns ids into text."""

    @property
    def eos_ids(self) -> Collection[int]: ...
    def bytes_of(self, token_id: int) -> bytes | None: ...
    def is_control(self, token_id: int) -> bool: ...
    def text_of(self, token_id: int) -> str: ...


class TorchModel:
    """An engine around a model of transformers. ``load`` reads a folder; the constructor takes a model as it is."""

    def __init__(self, model: Any, tokens: TokenTable, *, name: str, stop_ids: Collection[int] = ()) -> None:
        """model: a causal language model.  tokens: its vocabulary.  stop_ids: ends of a turn beside the vocabulary's.

        Raises UsageError where torch is missing.
        """
        self._torch = _torch()
        self._model = model.eval()
        self._tokens = tokens
        self._name = name
        self._stop_ids = frozenset((*tokens.eos_ids, *stop_ids, *_configured_ends(model)))
        self._thread = ThreadPoolExecutor(max_workers=1, thread_name_prefix="dragoman-model")
        self._closed = False

    @classmethod
    def load(
        cls, folder: str | os.PathLike[str], tokens: TokenTable, *, device: str | None = None, dtype: str = "auto"
    ) -> TorchModel:
        """The model in ``folder``; files only, no network. ``device``: as torch names it; None: where there is one.

        Raises UsageError where a package or the folder is missing, EngineError where the model does not load.
        """
        torch = _torch()
        try:
            from transformers import AutoModelForCausalLM
        except ImportError as error:
            raise UsageError("a model folder needs transformers: pip install 'dragoman[transformers]' torch") from error
        path = Path(folder).expanduser()
        if not (path / "config.json").is_file():
            raise UsageError(f"{path} is no model folder: it has no config.json", param="MODEL")
        place = device or ("cuda" if torch.cuda.is_available() else "cpu")
        try:
            model: Any = AutoModelForCausalLM.from_pretrained(path, local_files_only=True, dtype=dtype)
            model = model.to(place)
        except (OSError, ValueError, RuntimeError, KeyError) as error:
            raise EngineError(f"the model in {path} could not be loaded: {error}") from error
        return cls(model, tokens, name=path.resolve().name)

    async def info(self) -> EngineInfo:
        config = self._model.config
        return EngineInfo(
            model=self._name,
            context_tokens=getattr(config, "max_position_embeddings", None),
            takes_masks=True,
            gives_logprobs=True,
        )

    async def aclose(self) -> None:
        """Ends what runs and frees the thread. Closing twice does nothing."""
        self._closed = True
        self._thread.shutdown(wait=False, cancel_futures=True)

    async def generate(self, request: Generation) -> AsyncGenerator[Chunk, None]:
        """Pieces of output, one a token. Raises EngineError where the mask leaves no token or the model fails."""
        if self._closed:
            raise EngineError("the model has been closed")
        if request.grammar is not None and request.constraint is None:
            raise EngineError("this engine takes masks, not grammars: give the request a constraint")
        loop = asyncio.get_running_loop()
        pieces: asyncio.Queue[Chunk | BaseException] = asyncio.Queue()
        left = threading.Event()

        def tell(piece: Chunk | BaseException) -> None:
            loop.call_soon_threadsafe(pieces.put_nowait, piece)

        def work() -> None:
            try:
                for chunk in self._write(request, lambda: left.is_set() or self._closed):
                    tell(chunk)
            except BaseException as error:
                tell(error)

        self._thread.submit(work)
        try:
            while True:
                piece = await pieces.get()
                if isinstance(piece, EngineError | UsageError):
                    raise piece
                if isinstance(piece, BaseException):
                    raise EngineError(f"the model failed: {type(piece).__name__}: {piece}") from piece
                yield piece
                if piece.finish is not None:
                    return
        finally:
            left.set()

    def _write(self, request: Generation, stopped: Callable[[], bool]) -> Iterator[Chunk]:
        """The answer, in the model's thread. Ends without a last piece where nobody listens any more."""
        if not request.prompt_ids:
            raise UsageError("an empty prompt cannot be continued", param="messages")
        stepper = request.constraint() if request.constraint else None
        text = _Text(request, self._tokens)
        sampler = Sampler(self._torch, request.sampling)
        last = _Last(len(request.prompt_ids))
        with self._torch.inference_mode():
            state = _State(self._torch, self._model)
            if request.sampling.max_tokens == 0:
                yield last("", "length", 0)
                return
            logits = state.read(request.prompt_ids, stopped)
            written: list[int] = []
            while logits is not None and not stopped():
                allowed = self._allowed(stepper, int(logits.shape[0]))
                token = sampler.pick(logits, allowed, written)
                if token is None:
                    raise EngineError("dead end: the mask allows no token, and the turn may not end here")
                told = sampler.told(logits, token) if request.sampling.logprobs is not None else None
                logprobs = () if told is None else (self._logprob(*told),)
                written.append(token)
                if token in self._stop_ids or text.ends_at(token):
                    yield last(text.finish(), "stop", len(written))
                    return
                if stepper is not None and not stepper.accept(token):
                    raise EngineError(f"the mask allows token {token}, but the constraint does not accept it")
                piece = text.feed(token)
                if text.stopped:
                    yield last(piece, "stop", len(written))
                    return
                yield Chunk(piece, (token,), logprobs=logprobs)
                if len(written) == request.sampling.max_tokens:
                    yield last(text.finish(), "length", len(written))
                    return
                logits = state.read((token,), stopped)

    def _allowed(self, stepper: Stepper | None, size: int) -> Any | None:
        """bool[size] on the CPU, None where everything is allowed. Ends of a turn count where the turn may end."""
        if stepper is None:
            return None
        row = numpy.zeros((size + 31) // 32, dtype=numpy.int32)
        stepper.fill(row)
        bits = numpy.unpackbits(row.view(numpy.uint8), bitorder="little")[:size].astype(bool)
        bits[[token for token in self._stop_ids if token < size]] = stepper.can_stop
        return self._torch.from_numpy(bits)

    def _logprob(self, own: tuple[int, float], top: list[tuple[int, float]]) -> TokenLogprob:
        best = tuple(TokenLogprob(value, token, self._tokens.bytes_of(token)) for token, value in top)
        return TokenLogprob(own[1], own[0], self._tokens.bytes_of(own[0]), best)


class _State:
    """What the model has read: its key and value cache grows by each call."""

    def __init__(self, torch: Any, model: Any) -> None:
        from transformers import DynamicCache

        self._torch = torch
        self._model = model
        known = inspect.signature(model.forward).parameters
        # Its name since transformers 5.24, where it goes by the old one as well, under protest.
        name = "cache" if "cache" in known else "past_key_values"
        self._options: dict[str, Any] = {"use_cache": True, name: DynamicCache(config=model.config)}
        if "logits_to_keep" in known:
            self._options["logits_to_keep"] = 1

    def read(self, token_ids: Sequence[int], stopped: Callable[[], bool]) -> Any | None:
        """float32[vocabulary]: logits behind ``token_ids``, on the CPU. None: stopped while it read."""
        ids = self._torch.tensor([list(token_ids)], device=self._model.device)
        out = None
        for at in range(0, ids.shape[1], _BLOCK_TOKENS):
            if stopped():
                return None
            out = self._model(input_ids=ids[:, at : at + _BLOCK_TOKENS], **self._options)
        return None if out is None else out.logits[0, -1].float().cpu()


class _Text:
    """Tokens in, text out: whole characters, up to a stop text, control tokens only where they are to be seen."""

    def __init__(self, request: Generation, tokens: TokenTable) -> None:
        self._tokens = tokens
        self._shown = frozenset(request.preserved_tokens)
        self._stops = frozenset(request.stops)
        self._hold = StopWords(request.stops)
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")

    @property
    def stopped(self) -> bool:
        return self._hold.found

    def ends_at(self, token: int) -> bool:
        """A control token whose text ends the turn."""
        return self._tokens.is_control(token) and self._tokens.text_of(token) in self._stops

    def feed(self, token: int) -> str:
        if not self._tokens.is_control(token):
            return self._hold.feed(self._decoder.decode(self._tokens.bytes_of(token) or b""))
        name = self._tokens.text_of(token)
        half = self._decoder.decode(b"", True)  # a character that a control token cuts off stays half
        self._decoder.reset()
        return self._hold.feed(half + (name if name in self._shown else ""))

    def finish(self) -> str:
        return self._hold.feed(self._decoder.decode(b"", True)) + self._hold.rest()


class _Last:
    """Makes the last piece."""

    def __init__(self, prompt_tokens: int) -> None:
        self._prompt_tokens = prompt_tokens

    def __call__(self, text: str, finish: FinishReason, written: int) -> Chunk:
        return Chunk(text, finish=finish, prompt_tokens=self._prompt_tokens, completion_tokens=written)


def _configured_ends(model: Any) -> tuple[int, ...]:
    """End-of-turn tokens of the model's own generation settings."""
    config: Mapping[str, Any] | Any = getattr(model, "generation_config", None)
    ends = getattr(config, "eos_token_id", None)
    return () if ends is None else (ends,) if isinstance(ends, int) else tuple(ends)


def _torch() -> Any:
    try:
        import torch
    except ImportError as error:
        raise UsageError(
            "a model in this process needs torch; install it for your machine (https://pytorch.org), "
            "and pip install 'dragoman[transformers]'"
        ) from error
    return torch
