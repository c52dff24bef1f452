"""What the routes share: the format, the engine, and the way from a request's body to its reply."""

from __future__ import annotations

import datetime
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from typing import Any, TypeVar

import anyio.to_thread
from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from dragoman.engine import Engine, EngineInfo, ModelSettings
from dragoman.errors import LimitError, UsageError
from dragoman.format import ChatFormat
from dragoman.server.answers.jobs import Job
from dragoman.server.props import props
from dragoman.server.protocols import chat, completions, messages, responses
from dragoman.server.protocols.chat_replies import ChatTeller
from dragoman.server.protocols.completions import CompletionsTeller
from dragoman.server.protocols.messages_replies import MessagesTeller
from dragoman.server.protocols.responses_replies import ResponsesTeller
from dragoman.server.requests.ask import PING_SECONDS, Ask
from dragoman.server.requests.harmless import ignored
from dragoman.server.requests.kinds import FLAG, INTEGER, LIST, TEXT, Kind, given, needed, shown
from dragoman.server.requests.prepare import make_turn, prepare_all, prepare_raw, without_effect
from dragoman.server.requests.refusals import TOKENIZE_REFUSALS, refuse
from dragoman.server.wire import failures, heads
from dragoman.server.wire.body import read_body
from dragoman.server.wire.replies import Reply
from dragoman.turn import Turn
from dragoman.vocab import Vocabulary

BODY_BYTES_MAX = 64 << 20  # a conversation with pictures in it; the text of the largest contexts has under 10 MB

_MODEL: Mapping[str, Kind] = {"model": TEXT}  # what every request may name, as there is one

T = TypeVar("T")


class Service:
    """One format over one engine. Nothing in it changes after the first request but the cached word of the engine."""

    def __init__(
        self,
        fmt: ChatFormat,
        engine: Engine,
        *,
        model: str | None,
        settings: ModelSettings,
        clock: Callable[[], float],
        new_id: Callable[[], str],
    ) -> None:
        self.format = fmt
        self.engine = engine
        self.settings = settings
        self._model = model
        self._clock = clock
        self._new_id = new_id
        self._started = int(clock())
        self._info: EngineInfo | None = None

    async def info(self) -> EngineInfo:
        """What the engine says of itself; asked once. Raises EngineError."""
        if self._info is None:
            self._info = await self.engine.info()
        return self._info

    async def model(self) -> str:
        return self._model or (await self.info()).model

    # -- answers ---------------------------------------------------------------------------------------------------

    async def chat(self, request: Request) -> Reply:
        """``POST /v1/chat/completions``"""
        ask, shape = chat.read(await _body(request), self.settings)
        head, jobs = await self._prepared(ask, "chatcmpl-")
        teller = ChatTeller(head, shape, ask.n, jobs[0].prompt_tokens)
        return Reply(jobs, self.engine, teller, ask.stream, ask.ping_seconds)

    async def responses(self, request: Request) -> Reply:
        """``POST /v1/responses``"""
        ask, echo = responses.read(await _body(request), self.settings)
        head, jobs = await self._prepared(ask, "resp_")
        return Reply(jobs, self.engine, ResponsesTeller(head, echo), ask.stream, ask.ping_seconds)

    async def messages(self, request: Request) -> Reply:
        """``POST /v1/messages``"""
        ask = messages.read(await _body(request), self.settings)
        head, jobs = await self._prepared(ask, "msg_")
        return Reply(jobs, self.engine, MessagesTeller(head, jobs[0].prompt_tokens), ask.stream, ask.ping_seconds)

    async def completions(self, request: Request) -> Reply:
        """``POST /v1/completions``"""
        ask, shape = completions.read(await _body(request), self.settings)
        info, head = await self.info(), await self._head("cmpl-", ask.ignored)
        jobs = await _in_thread(partial(prepare_raw, self.format, ask, info, self.settings, id_seed=head.id))
        prompts = [job.generation.prompt_text for job in jobs]
        teller = CompletionsTeller(head, shape, prompts, sum(job.prompt_tokens for job in jobs[:: ask.n]))
        return Reply(jobs, self.engine, teller, ask.stream, PING_SECONDS)

    async def _prepared(self, ask: Ask, prefix: str) -> tuple[heads.Head, tuple[Job[Turn], ...]]:
        info, head, now = await self.info(), await self._head(prefix, ask.ignored), self._now()

        def work() -> tuple[heads.Head, tuple[Job[Turn], ...]]:
            jobs = prepare_all(self.format, ask, info, self.settings, now=now, id_seed=head.id)
            return replace(head, ignored=(*ask.ignored, *without_effect(jobs[0].turn, ask, now=now))), jobs

        return await self._worded(ask, work)

    async def _worded(self, ask: Ask, work: Callable[[], T]) -> T:
        """The work in a thread, its errors in the words of the request."""
        try:
            return await _in_thread(work)
        except UsageError as error:
            raise ask.words.error(error) from error

    async def _head(self, prefix: str, ignored: tuple[str, ...]) -> heads.Head:
        return heads.Head(prefix + self._new_id(), int(self._clock()), await self.model(), ignored)

    # -- prompts and tokens ----------------------------------------------------------------------------------------

    async def apply_template(self, request: Request) -> Response:
        """``POST /apply-template``: the prompt of a chat request, and which of its parts came with the request."""
        ask, now = chat.read_chat_request(await _body(request), self.settings), self._now()

        def render() -> dict[str, Any]:
            turn = make_turn(self.format, ask, self.settings, now=now)
            parts = [{"text": text, "input": is_input} for text, is_input in turn.prompt.parts]
            told: dict[str, Any] = {"prompt": turn.prompt.text, "parts": parts}
            if self.format.vocab is not None:
                told["token_ids"] = list(turn.prompt.token_ids)
            return told | heads.ignored((*ask.ignored, *without_effect(turn, ask, now=now)))

        return JSONResponse(await self._worded(ask, render))

    async def count_chat(self, request: Request) -> Response:
        """``POST /v1/chat/completions/input_tokens``"""
        ask = chat.read_chat_request(await _body(request), self.settings)
        return JSONResponse({"object": "response.input_tokens", **await self._counted(ask)})

    async def count_responses(self, request: Request) -> Response:
        """``POST /v1/responses/input_tokens``"""
        ask, _ = responses.read(await _body(request), self.settings)
        return JSONResponse({"object": "response.input_tokens", **await self._counted(ask)})

    async def count_messages(self, request: Request) -> Response:
        """``POST /v1/messages/count_tokens``"""
        return JSONResponse(await self._counted(messages.read(await _body(request), self.settings)))

    async def _counted(self, ask: Ask) -> dict[str, Any]:
        self._vocab()
        now = self._now()

        def count() -> dict[str, Any]:
            turn = make_turn(self.format, ask, self.settings, now=now)
            noted = heads.ignored((*ask.ignored, *without_effect(turn, ask, now=now)))
            return {"input_tokens": len(turn.prompt.token_ids), **noted}

        return await self._worded(ask, count)

    async def tokenize(self, request: Request) -> Response:
        """``POST /tokenize``: ids of ``content`` as text of a message, where no control token can be written."""
        body = await _body(request)
        refuse(body, TOKENIZE_REFUSALS)
        unknown = ignored(body, _MODEL, ("content", "with_pieces"), TOKENIZE_REFUSALS)
        vocab, pieces = self._vocab(), given(body, "with_pieces", FLAG)
        ids = await _in_thread(partial(vocab.encode, needed(body, "content", TEXT)))
        tokens = [_piece(token, vocab) for token in ids] if pieces else ids
        return JSONResponse({"tokens": tokens, **heads.ignored(unknown)})

    async def detokenize(self, request: Request) -> Response:
        """``POST /detokenize``: the text of ``tokens``, control tokens as their own text."""
        body = await _body(request)
        tokens, vocab = needed(body, "tokens", LIST), self._vocab()
        wrong = [token for token in tokens if not _is_token(token, vocab)]
        if wrong:
            message = f"tokens holds {shown(wrong[0])}; token ids here are integers from 0 to {vocab.size - 1}"
            raise UsageError(message, param="tokens")
        content = vocab.decode(int(token) for token in tokens).decode("utf-8", "replace")
        unknown = ignored(body, _MODEL, ("tokens",))
        return JSONResponse({"content": content, **heads.ignored(unknown)})

    def _vocab(self) -> Vocabulary:
        vocab = self.format.vocab
        if vocab is None:
            raise UsageError("this server has no vocabulary, so it knows no tokens; start it with one (--vocab)")
        return vocab

    # -- the server itself -----------------------------------------------------------------------------------------

    async def models(self, request: Request) -> Response:
        """``GET /v1/models``"""
        return JSONResponse(heads.models(await self.model(), self._started))

    async def one_model(self, request: Request) -> Response:
        """``GET /v1/models/{model}``"""
        name, asked = await self.model(), request.path_params["model"]
        if asked == name:
            return JSONResponse(heads.model(name, self._started))
        message = f"there is no model {asked!r} here, only {name!r}"
        body = failures.error_of(message, kind="invalid_request_error", param="model", code="model_not_found")
        return JSONResponse(body, status_code=404)

    async def health(self, request: Request) -> Response:
        """``GET /health``: 200 when the engine answers too."""
        await self.engine.info()
        return JSONResponse({"status": "ok"})

    async def props(self, request: Request) -> Response:
        """``GET /props``: the template, what was learned from it and what was proven."""
        known = await _in_thread(partial(props, self.format))
        return JSONResponse({"model": await self.model(), **known})

    def _now(self) -> datetime.datetime:
        return datetime.datetime.fromtimestamp(self._clock())


def _is_token(value: Any, vocab: Vocabulary) -> bool:
    return INTEGER.check(value) and 0 <= value < vocab.size


def _piece(token: int, vocab: Vocabulary) -> dict[str, Any]:
    """A token as llama-server shows it: its text, or its bytes where they are none."""
    data = vocab.bytes_of(token) or b""
    try:
        return {"id": token, "piece": data.decode()}
    except UnicodeDecodeError:
        return {"id": token, "piece": list(data)}


async def _in_thread(work: Callable[[], T]) -> T:
    """``work`` outside of the event loop: templates, grammars and encoding may take long."""
    return await anyio.to_thread.run_sync(work)


async def _body(request: Request) -> dict[str, Any]:
    data = bytearray()
    async for piece in request.stream():
        data += piece
        if len(data) > BODY_BYTES_MAX:
            raise LimitError("the request is too large", bound="body_bytes", limit=BODY_BYTES_MAX)
    return read_body(bytes(data))
