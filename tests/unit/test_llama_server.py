"""What goes over the wire to llama-server and how its answers and failures are read, without a network."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from typing import Any

import httpx
import pytest

from dragoman.engine import Chunk, Generation, GrammarSpec, Sampling, Trigger
from dragoman.engines.event_stream import EventReader
from dragoman.engines.llama_server import LlamaServer, Timeouts, completion_body
from dragoman.errors import EngineError, UsageError

LAST = b'data: {"content":"","tokens":[],"stop":true,"stop_type":"eos","tokens_predicted":1,"tokens_evaluated":3}\n\n'
ASK = Generation((1, 2, 3), "ignored")


class Body(httpx.AsyncByteStream):
    def __init__(self, pieces: list[bytes | Exception]) -> None:
        self.pieces = pieces
        self.closed = False

    async def __aiter__(self) -> AsyncIterator[bytes]:
        for piece in self.pieces:
            if isinstance(piece, Exception):
                raise piece
            yield piece

    async def aclose(self) -> None:
        self.closed = True


def server(answer: Callable[[httpx.Request], httpx.Response]) -> LlamaServer:
    return LlamaServer("http://engine.test/", api_key="secret", transport=httpx.MockTransport(answer))


def streaming(*pieces: bytes | Exception, status: int = 200) -> LlamaServer:
    return server(lambda _: httpx.Response(status, stream=Body(list(pieces))))


def collect(engine: LlamaServer, request: Generation = ASK) -> list[Chunk]:
    async def work() -> list[Chunk]:
        async with engine:
            return [chunk async for chunk in engine.generate(request)]

    return asyncio.run(work())


def test_all_of_a_request_is_sent_under_the_servers_names() -> None:
    seen: list[httpx.Request] = []

    def answer(request: httpx.Request) -> httpx.Response:
        seen.append(request)
        return httpx.Response(200, content=LAST)

    request = Generation(
        (1, 2, 3),
        "not sent",
        stops=("<|im_end|>",),
        preserved_tokens=("<tool_call>",),
        grammar=GrammarSpec('root ::= "x"', lazy=True, triggers=(Trigger("<tool_call>"), Trigger("[T]", token_id=9))),
        sampling=Sampling(
            max_tokens=5,
            temperature=0.0,
            top_p=0.9,
            top_k=3,
            min_p=0.1,
            seed=0,
            presence_penalty=0.5,
            frequency_penalty=0.25,
            logit_bias={7: float("-inf"), 8: -1.5},
            extra={"dry_multiplier": 0.8, "cache_prompt": False},
        ),
    )
    collect(server(answer), request)
    assert seen[0].url == "http://engine.test/completion"
    assert seen[0].headers["authorization"] == "Bearer secret"
    assert json.loads(seen[0].content) == {
        "prompt": [1, 2, 3],
        "stream": True,
        "return_tokens": True,
        "cache_prompt": False,
        "stop": ["<|im_end|>"],
        "preserved_tokens": ["<tool_call>", "[T]"],
        "grammar": 'root ::= "x"',
        "grammar_lazy": True,
        "grammar_triggers": [
            {"type": 1, "value": "<tool_call>"},
            {"type": 0, "value": "[T]", "token": 9},
        ],
        "n_predict": 5,
        "temperature": 0.0,
        "top_p": 0.9,
        "top_k": 3,
        "min_p": 0.1,
        "seed": 0,
        "presence_penalty": 0.5,
        "frequency_penalty": 0.25,
        "logit_bias": [[7, False], [8, -1.5]],
        "dry_multiplier": 0.8,
    }


def test_defaults_are_left_to_the_server() -> None:
    assert completion_body(ASK) == {"prompt": [1, 2, 3], "stream": True, "return_tokens": True, "cache_prompt": True}


@pytest.mark.parametrize(
    ("spec", "sampling", "match"),
    [
        (GrammarSpec(" \n"), Sampling(), "empty"),
        (GrammarSpec("%llguidance {}"), Sampling(), "GBNF"),
        (GrammarSpec('root ::= "x"', lazy=True), Sampling(), "trigger"),
        (GrammarSpec('root ::= "x"', lazy=True, triggers=(Trigger(""),)), Sampling(), "word or a token"),
        (None, Sampling(extra={"grammar": "x"}), "grammar"),
        (None, Sampling(logit_bias={1: float("nan")}), "token 1"),
        (None, Sampling(logit_bias={1: float("inf")}), "token 1"),
    ],
)
def test_what_the_server_would_misunderstand_is_never_sent(
    spec: GrammarSpec | None, sampling: Sampling, match: str
) -> None:
    with pytest.raises(UsageError, match=match):
        completion_body(Generation((1,), "", grammar=spec, sampling=sampling))


def test_pieces_ids_and_end_are_read() -> None:
    engine = streaming(
        b'data: {"content":"a","tokens":[5],"stop":false,"tokens_predicted":1}\n\n',
        b'data: {"content":"\xf0\x9f\x98\x80","tokens":[6],"stop":false,"tokens_predicted":4}\n\n',
        b'data: {"content":"","stop":true,"stop_type":"limit","tokens_predicted":4,"tokens_evaluated":3}\n\n',
    )
    assert collect(engine) == [
        Chunk("a", (5,)),
        Chunk("😀", ()),  # three tokens, of which the server names one: none is better than a wrong record
        Chunk("", (), finish="length", prompt_tokens=3, completion_tokens=4),
    ]


def test_an_answer_in_any_pieces_is_the_same_answer() -> None:
    # U+2028 and U+0085 stand unescaped in JSON text; they end no line.
    event = 'data: {"content":"a\u2028b\u0085c\\n","tokens":[5],"stop":false,"tokens_predicted":1}\n\n'.encode()
    whole = b": comment\r\n" + event + LAST.replace(b"\n", b"\r\n")
    expected = collect(streaming(whole))
    assert expected[0].text == "a\u2028b\u0085c\n"
    for size in (1, 2, 7):
        pieces = [whole[at : at + size] for at in range(0, len(whole), size)]
        assert collect(streaming(*pieces)) == expected


def test_an_event_of_several_lines_and_one_without_an_end() -> None:
    reader = EventReader()
    assert reader.feed(b"data: a\ndata:b\n") == []
    assert reader.feed(b"\n\nid: 1\ndata: last") == ["a\nb"]
    assert reader.finish() == ["last"]


def test_an_event_beyond_its_bound_is_an_error() -> None:
    reader = EventReader()
    with pytest.raises(EngineError, match="more than"):
        for _ in range(20):
            reader.feed(b"x" * (1 << 20))


@pytest.mark.parametrize(
    ("engine", "match", "status"),
    [
        (streaming(b'data: {"error":{"code":500,"message":"dead end"}}\n\n'), "failed: dead end", 500),
        (streaming(b'error: {"code":400,"message":"bad","type":"invalid_request_error"}\n\n'), "refused: bad", 400),
        (streaming(b'{"error":{"code":400,"message":"no parse"}}', status=400), "refused: no parse", 400),
        (streaming(b"<html>", status=502), "HTTP 502: b'<html>'", 502),
        (streaming(b'{"error":"out of order"}', status=500), "failed: out of order", 500),
        (streaming(b"data: {oops}\n\n"), "no JSON", None),
        (streaming(b"data: [1]\n\n"), "JSON object", None),
        (streaming(b'data: {"content":"a","tokens":[1],"tokens_predicted":1}\n\n'), "before it was complete", None),
        (streaming(b"", httpx.ReadError("reset")), "went away: reset", None),
        (streaming(b"", httpx.ReadTimeout("")), "said nothing", None),
        (streaming(b"", httpx.ConnectError("refused")), "cannot reach an engine at http://engine.test", None),
    ],
)
def test_failures_are_ours_and_tell_the_reason(engine: LlamaServer, match: str, status: int | None) -> None:
    with pytest.raises(EngineError, match=match) as caught:
        collect(engine)
    assert caught.value.status == status


def test_closing_the_iterator_closes_the_connection() -> None:
    body = Body([b'data: {"content":"a","tokens":[1],"tokens_predicted":1}\n\n'] * 100)
    engine = server(lambda _: httpx.Response(200, stream=body))

    async def leave_early() -> None:
        async with engine:
            stream = engine.generate(ASK)
            assert (await stream.__anext__()).text == "a"
            assert not body.closed
            await stream.aclose()  # type: ignore[attr-defined]
            assert body.closed

    asyncio.run(leave_early())


def test_a_silent_engine_is_given_up() -> None:
    """Over a real socket: an engine that reads what comes and says nothing."""
    left = 0

    async def silent(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal left
        await reader.read()  # until the client goes away
        writer.close()
        left += 1

    async def work() -> None:
        listener = await asyncio.start_server(silent, "127.0.0.1", 0)
        port = listener.sockets[0].getsockname()[1]
        async with LlamaServer(f"http://127.0.0.1:{port}", timeouts=Timeouts(idle=0.1, lookup=0.1)) as engine:
            with pytest.raises(EngineError, match="said nothing"):
                await engine.generate(ASK).__anext__()
            assert not await engine.health()
        for _ in range(500):
            if left < 2:
                await asyncio.sleep(0.01)
        listener.close()

    asyncio.run(work())
    assert left == 2


def test_the_server_is_asked_about_itself() -> None:
    answers: dict[str, Any] = {
        "/props": {"model_path": "C:\\models\\Some.gguf", "default_generation_settings": {"n_ctx": 512}},
        "/health": {"status": "ok"},
        "/tokenize": {"tokens": [4, 5]},
    }
    engine = server(lambda request: httpx.Response(200, json=answers[request.url.path]))

    async def work() -> None:
        async with engine:
            info = await engine.info()
            assert (info.model, info.context_tokens, info.template) == ("Some", 512, None)
            assert info.grammar_forms == ("gbnf",)
            assert not info.takes_masks
            assert await engine.health()
            assert await engine.tokenize("x") == [4, 5]

    asyncio.run(work())


@pytest.mark.parametrize("address", ["http://[::1", "127.0.0.1:8080", "ftp://host", "", "http://"])
def test_an_address_that_is_none(address: str) -> None:
    with pytest.raises(UsageError, match="no engine's address"):
        LlamaServer(address)
