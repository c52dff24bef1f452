"""Servers that answer as llama-server, vLLM, SGLang and a plain completions server do, written from a script.

Each is an ASGI app for a real socket. Behind all of them works one :class:`Scripted` engine, whose record tells what
reached it and whether an answer was cancelled; a face translates the wire of one server, refuses what that server
refuses and has its defaults (16 tokens, hidden control tokens), so that an adapter that relies on luck fails here.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import aclosing, suppress
from dataclasses import dataclass, field, replace
from typing import Any

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route
from starlette.types import Receive, Scope, Send

from dragoman.engine import Chunk, EngineInfo, Generation, GrammarForm, GrammarSpec, Sampling, TokenLogprob
from dragoman.engines.scripted import Answer, Scripted
from dragoman.errors import EngineError

CONTEXT = 4096
MODEL = "tests/scripted-1B"
Answers = Callable[[Generation], Answer]


class Refused(Exception):
    """What the server answers with 400."""


@dataclass
class Server:
    """One scripted server. ``seen``: the bodies of its requests for text, as they came over the wire."""

    app: Starlette
    engine: Scripted
    seen: list[dict[str, Any]] = field(default_factory=list)


def code(text: str) -> int:
    """The id of a piece, which is a token here."""
    return sum(text.encode())


def certain(piece: str) -> TokenLogprob:
    """How a piece's likelihood is told here: the piece itself, and a full stop far behind it."""
    return TokenLogprob(-0.25, None, piece.encode(), (TokenLogprob(-0.25, None, piece.encode()), TokenLogprob(-3.0)))


# -- the four faces ----------------------------------------------------------------------------------------------------


def llama_server(answers: Answers, **scripted: Any) -> Server:
    """llama-server: ``/completion`` with GBNF, events without an end mark, text without its control tokens."""
    server = _server(answers, scripted)

    async def completion(request: Request) -> Response:
        body = await _body(server, request)
        try:
            prompt = body["prompt"]
            _want(isinstance(prompt, list) and all(type(item) is int for item in prompt), "prompt must be ids")
            _want(body.get("stream") is True, "only streams stop when they are left")
            grammar = body.get("grammar")
            _want(
                grammar is None or (isinstance(grammar, str) and "undefined" not in grammar), "failed to parse grammar"
            )
            spec = None if grammar is None else GrammarSpec(grammar)
            if len(prompt) >= CONTEXT:
                sizes = {"n_prompt_tokens": len(prompt), "n_ctx": CONTEXT, "type": "exceed_context_size_error"}
                return JSONResponse({"error": {"code": 400, "message": "too long", **sizes}}, status_code=400)
        except Refused as error:
            inner = {"code": 400, "message": str(error), "type": "invalid_request_error"}
            return JSONResponse({"error": inner}, status_code=400)
        bans = {int(token): -1e9 if added is False else float(added) for token, added in body.get("logit_bias", [])}
        generation = _generation(body, spec, bound=body.get("n_predict"), logit_bias=bans, logprobs=body.get("n_probs"))

        async def events() -> AsyncIterator[str]:
            written = 0
            async for chunk in server.engine.generate(generation):
                written += len(chunk.token_ids)
                event: dict[str, Any] = {"index": 0, "content": chunk.text, "stop": chunk.finish is not None}
                event["tokens"] = list(chunk.token_ids)
                event |= {"tokens_predicted": written, "tokens_evaluated": len(generation.prompt_ids)}
                if chunk.logprobs:
                    event["completion_probabilities"] = [_llama_probability(one) for one in chunk.logprobs]
                if chunk.finish is not None:
                    event["stop_type"] = "limit" if chunk.finish == "length" else "eos"
                    event["tokens_predicted"] = chunk.completion_tokens
                yield json.dumps(event, ensure_ascii=False)

        return _Events(events())

    async def props(_: Request) -> Response:
        settings = {"n_ctx": CONTEXT}
        known = {"default_generation_settings": settings, "model_path": "/models/scripted-1B.gguf", "build_info": "b7"}
        return JSONResponse({**known, "chat_template": "{{ messages }}", "bos_token": "<s>", "eos_token": "</s>"})

    async def health(_: Request) -> Response:
        return JSONResponse({"status": "ok"})

    routes = [Route("/completion", completion, methods=["POST"]), Route("/props", props), Route("/health", health)]
    server.app.router.routes.extend(routes)
    return server


def vllm(answers: Answers, *, root: str = MODEL, tokenizer: Mapping[str, Any] | None = None, **scripted: Any) -> Server:
    """vLLM: structured outputs of which exactly one is given, ids on demand, sixteen tokens where nothing is said."""

    def constraint(body: Mapping[str, Any]) -> GrammarSpec | None:
        given = body.get("structured_outputs")
        if given is None:
            return None
        _want(isinstance(given, dict) and len(given) == 1, "exactly one structured output must be given")
        (kind, text), *_ = given.items()
        forms: dict[str, GrammarForm] = {"structural_tag": "structural_tag", "grammar": "ebnf"}
        _want(kind in forms and isinstance(text, str), f"unknown structured output {kind}")
        return GrammarSpec(_inner(text) if kind == "structural_tag" else text, form=forms[kind])

    face = _Face(constraint, named_tokens=True, error=lambda text: {"error": _openai_error(text)})
    server = _completions_server(answers, face, "vllm", root, scripted)

    async def version(_: Request) -> Response:
        return JSONResponse({"version": "0.33.0"})

    async def tokenizer_info(_: Request) -> Response:
        return JSONResponse(dict(tokenizer or {}))

    server.app.router.routes.append(Route("/version", version))
    if tokenizer is not None:  # there only when it was started so
        server.app.router.routes.append(Route("/tokenizer_info", tokenizer_info))
    return server


def sglang(answers: Answers, *, grammar_backend: str = "xgrammar", path: str = MODEL, **scripted: Any) -> Server:
    """SGLang: a structural tag as a form of answer, EBNF as a field, errors without an envelope."""

    def constraint(body: Mapping[str, Any]) -> GrammarSpec | None:
        tag, ebnf = body.get("response_format"), body.get("ebnf")
        _want(tag is None or ebnf is None, "only one of response_format and ebnf may be given")
        if isinstance(tag, dict) and tag.get("type") == "structural_tag":
            return GrammarSpec(_inner(json.dumps(tag)), form="structural_tag")
        return None if ebnf is None else GrammarSpec(ebnf, form="ebnf" if grammar_backend == "xgrammar" else "lark")

    def bare(text: str) -> dict[str, Any]:
        return {"object": "error", "message": text, "type": "BadRequestError", "param": None, "code": 400}

    server = _completions_server(answers, _Face(constraint, error=bare, nulls=True), "sglang", path, scripted)

    async def info(_: Request) -> Response:
        known = {"tokenizer_path": path, "model_path": path, "grammar_backend": grammar_backend, "version": "0.5.23"}
        return JSONResponse(known)

    server.app.router.routes.append(Route("/server_info", info))
    return server


def generic(answers: Answers, *, takes_ids: bool = True, **scripted: Any) -> Server:
    """A plain server: the fields of the OpenAI API and no others, no ids of its output, no grammar."""
    known = {"model", "prompt", "max_tokens", "temperature", "top_p", "seed", "stop", "stream", "stream_options"}
    known |= {"logprobs", "logit_bias", "presence_penalty", "frequency_penalty"}

    def constraint(body: Mapping[str, Any]) -> None:
        _want(set(body) <= known, f"unrecognized fields: {sorted(set(body) - known)}")
        _want(takes_ids or isinstance(body["prompt"], str), "prompt must be a string")

    face = _Face(constraint, error=lambda text: {"error": _openai_error(text)}, ids=False)
    return _completions_server(answers, face, "somebody", None, scripted)


# -- what the completions servers share --------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Face:
    constraint: Callable[[Mapping[str, Any]], GrammarSpec | None]
    error: Callable[[str], dict[str, Any]]
    named_tokens: bool = False
    nulls: bool = False  # chunks spell out what they do not have
    ids: bool = True


def _completions_server(
    answers: Answers, face: _Face, owner: str, root: str | None, scripted: dict[str, Any]
) -> Server:
    server = _server(answers, scripted)

    async def models(_: Request) -> Response:
        card = {"id": MODEL, "object": "model", "created": 1, "owned_by": owner}
        if root is not None:
            card |= {"root": root, "max_model_len": CONTEXT}
        return JSONResponse({"object": "list", "data": [card]})

    async def completions(request: Request) -> Response:
        body = await _body(server, request)
        try:
            _want(body.get("model") == MODEL, f"the model {body.get('model')!r} does not exist")
            spec = face.constraint(body)
            _want(spec is None or "undefined" not in spec.text, "invalid grammar: undefined rule")
            prompt = body["prompt"]
            if len(prompt) + (bound := body.get("max_tokens") or 16) > CONTEXT and isinstance(prompt, list):
                raise Refused(
                    f"maximum context length is {CONTEXT} tokens, however you requested {len(prompt)} + {bound}"
                )
            bias = body.get("logit_bias") or {}
            _want(all(name.isdigit() and -100 <= added <= 100 for name, added in bias.items()), "logit_bias")
            bias = {int(name): added for name, added in bias.items()}
        except Refused as error:
            return JSONResponse(face.error(str(error)), status_code=400)
        generation = _generation(body, spec, bound=bound, logit_bias=bias, logprobs=body.get("logprobs"))
        if not body.get("stream"):
            usage = {"prompt_tokens": len(prompt), "completion_tokens": 1, "total_tokens": len(prompt) + 1}
            return JSONResponse({"object": "text_completion", "choices": [{"index": 0, "text": "x"}], "usage": usage})
        return _Events(_completion_events(server, generation, body, face))

    routes = [Route("/v1/models", models), Route("/v1/completions", completions, methods=["POST"])]
    server.app.router.routes.extend(routes)
    return server


async def _completion_events(
    server: Server, generation: Generation, body: Mapping[str, Any], face: _Face
) -> AsyncIterator[str]:
    head = {"id": "cmpl-1", "object": "text_completion", "created": 1, "model": MODEL}
    count = 0
    try:
        async for chunk in server.engine.generate(generation):
            count += len(chunk.token_ids)
            choice: dict[str, Any] = {"index": 0, "text": chunk.text, "logprobs": None, "finish_reason": chunk.finish}
            if face.nulls:
                choice |= {"matched_stop": None, "token_ids": None, "hidden_states": None}
            if face.ids and body.get("return_token_ids"):
                choice["token_ids"] = list(chunk.token_ids)
            if chunk.logprobs:
                choice["logprobs"] = _completion_logprobs(chunk, bool(body.get("return_tokens_as_token_ids")))
            yield json.dumps({**head, "choices": [choice]}, ensure_ascii=False)
            if chunk.finish is not None and (body.get("stream_options") or {}).get("include_usage"):
                written = chunk.completion_tokens or 0
                usage = {"prompt_tokens": len(generation.prompt_ids), "completion_tokens": written}
                yield json.dumps({**head, "choices": [], "usage": {**usage, "total_tokens": sum(usage.values())}})
    except EngineError as error:  # after the headers, so as an event
        yield json.dumps({"error": {**_openai_error(str(error)), "type": "InternalServerError", "code": 500}})
    yield "[DONE]"


def _completion_logprobs(chunk: Chunk, named: bool) -> dict[str, Any]:
    def word(one: TokenLogprob) -> str:
        text = "." if one.data is None else one.data.decode()
        return f"token_id:{code(text)}" if named else text

    return {
        "text_offset": [0] * len(chunk.logprobs),
        "tokens": [word(one) for one in chunk.logprobs],
        "token_logprobs": [one.logprob for one in chunk.logprobs],
        "top_logprobs": [{word(other): other.logprob for other in one.top} for one in chunk.logprobs],
    }


def _llama_probability(one: TokenLogprob) -> dict[str, Any]:
    text = "." if one.data is None else one.data.decode()
    told = {"id": code(text), "token": text, "bytes": list(text.encode()), "logprob": one.logprob}
    return {**told, "top_logprobs": [_llama_probability(replace(other, top=())) for other in one.top]}


def _server(answers: Answers, scripted: dict[str, Any]) -> Server:
    info = EngineInfo(model=MODEL, gives_logprobs=True)
    options = {"size": 3, "delay": 0.001, "encode": lambda piece: [code(piece)], "logprob": certain, **scripted}
    return Server(Starlette(), Scripted(answers, info=info, **options))


async def _body(server: Server, request: Request) -> dict[str, Any]:
    body = json.loads(await request.body())
    assert isinstance(body, dict)
    server.seen.append(body)
    return body


def _generation(
    body: Mapping[str, Any],
    spec: GrammarSpec | None,
    *,
    bound: int | None,
    logit_bias: dict[int, float],
    logprobs: int | None,
) -> Generation:
    prompt = body["prompt"]
    sampling = Sampling(max_tokens=bound, seed=body.get("seed"), logit_bias=logit_bias, logprobs=logprobs)
    return Generation(
        tuple(prompt) if isinstance(prompt, list) else tuple(prompt.encode()),
        prompt if isinstance(prompt, str) else "",
        stops=tuple(body.get("stop") or ()),
        grammar=spec,
        sampling=sampling,
    )


def _inner(tag: str) -> str:
    """The grammar of a structural tag that is nothing but one; any other tag as it is."""
    try:
        value = json.loads(tag)
        assert value["type"] == "structural_tag"
        layout = value["format"]
    except (ValueError, KeyError, TypeError, AssertionError):
        raise Refused("invalid structural tag") from None
    return str(layout["grammar"]) if layout.get("type") == "grammar" else tag


def _want(condition: bool, otherwise: str) -> None:
    if not condition:
        raise Refused(otherwise)


def _openai_error(text: str) -> dict[str, Any]:
    return {"message": text, "type": "BadRequestError", "param": None, "code": 400}


class _Events(Response):
    """An event stream whose source is closed the moment the client goes away, as these servers do."""

    def __init__(self, events: AsyncIterator[str]) -> None:
        super().__init__()
        self._source = events

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        work = asyncio.create_task(self._write(send))
        left = asyncio.create_task(_gone(receive))
        await asyncio.wait({work, left}, return_when=asyncio.FIRST_COMPLETED)
        for task in (work, left):
            task.cancel()
            with suppress(asyncio.CancelledError):
                await task

    async def _write(self, send: Send) -> None:
        headers = [(b"content-type", b"text/event-stream; charset=utf-8")]
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        async with aclosing(self._source) as events:  # type: ignore[type-var]
            async for data in events:
                await send({"type": "http.response.body", "body": f"data: {data}\n\n".encode(), "more_body": True})
        await send({"type": "http.response.body", "body": b"", "more_body": False})


async def _gone(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass
