"""From an address to a served model: engines recognised by asking, opened as the command line does, and lost."""

from __future__ import annotations

import argparse
import asyncio
import json
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
from starlette.applications import Starlette
from starlette.responses import JSONResponse
from starlette.routing import Route
from starlette.testclient import TestClient

from dragoman.cli.engines import Opened, add_engine, open_engine
from dragoman.engine import GrammarForm, GrammarSpec
from dragoman.engines.recognise import Upstream, recognise
from dragoman.errors import EngineError, UsageError
from dragoman.format import ChatFormat
from dragoman.server.app import create_app
from tests.contract import upstreams
from tests.server.live import live, wait_until
from tests.server.service import CALL, MESSAGES, TEMPLATE, TOOLS, chunks_of
from tests.vocabularies import small_tokenizer


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model's folder: tokenizer and chat template."""
    place = tmp_path_factory.mktemp("model")
    marks = [{"content": text, "special": True} for text in ("<|from|>", "<|fin|>", "<|pad|>")]
    (place / "tokenizer.json").write_text(json.dumps(small_tokenizer(marks)))
    config = {"chat_template": TEMPLATE, "eos_token": "<|fin|>"}
    (place / "tokenizer_config.json").write_text(json.dumps(config))
    return place


def found(address: str, **options: Any) -> Upstream:
    return asyncio.run(recognise(address, **options))


def opened(*words: str) -> Opened:
    parser = argparse.ArgumentParser()
    add_engine(parser)
    return open_engine(parser.parse_args(words))


def say_hello(_: Any) -> str:
    return "Hello."


def test_each_server_is_known_by_what_it_answers(folder: Path) -> None:
    with live(upstreams.llama_server(say_hello).app) as address:
        llama = found(address)
    assert (llama.kind, llama.model, llama.context_tokens) == ("llama-server", "scripted-1B", 4096)
    assert (llama.template, llama.bos, llama.eos) == ("{{ messages }}", "<s>", "</s>")
    told = {"chat_template": "{{ x }}", "eos_token": {"content": "</s>", "special": True}, "bos_token": None}
    with live(upstreams.vllm(say_hello, root=str(folder), tokenizer=told).app) as address:
        vllm = found(f"{address}/v1/")
    assert (vllm.kind, vllm.version, vllm.url) == ("vllm", "0.33.0", address)
    assert (vllm.template, vllm.bos, vllm.eos, vllm.folder) == ("{{ x }}", None, "</s>", folder)
    assert "structural_tag, ebnf; prompts as token ids" in vllm.describe()
    with live(upstreams.sglang(say_hello).app) as address:
        sglang = found(address)
    assert (sglang.kind, sglang.context_tokens, sglang.folder) == ("sglang", 4096, None)
    with live(upstreams.generic(say_hello).app) as address:
        plain = found(address)
    assert (plain.kind, plain.context_tokens, plain.takes_token_ids) == ("completions", None, True)
    assert "takes no grammar" in plain.describe()


@pytest.mark.parametrize(("backend", "forms"), [("llguidance", ("lark",)), ("none", ()), ("outlines", ())])
def test_what_sglang_takes_depends_on_its_grammar_engine(backend: str, forms: tuple[str, ...]) -> None:
    with live(upstreams.sglang(say_hello, grammar_backend=backend).app) as address:
        assert tuple(found(address).flavour.grammars) == forms


def test_a_server_that_takes_no_token_ids_is_found_out() -> None:
    with live(upstreams.generic(say_hello, takes_ids=False).app) as address:
        upstream = found(address)
        assert not upstream.takes_token_ids
        assert "prompts as text" in upstream.describe()
        format_of = ("--upstream", address, "--chat-template", "chatml")
        with pytest.raises(UsageError, match=r"in text a message can forge control tokens; .* --text-prompts"):
            opened(*format_of)
        assert opened(*format_of, "--text-prompts").format.vocab is None


def test_a_server_that_fails_is_not_taken_for_one_without_token_ids() -> None:
    async def models(_: Any) -> JSONResponse:
        return JSONResponse({"data": [{"id": "some"}]})

    async def fails(_: Any) -> JSONResponse:
        return JSONResponse({"error": {"message": "max_tokens is too small"}}, status_code=400)

    app = Starlette(routes=[Route("/v1/models", models), Route("/v1/completions", fails, methods=["POST"])])
    with live(app) as address, pytest.raises(EngineError, match="max_tokens is too small"):
        found(address)


def test_the_kind_can_be_said() -> None:
    with live(upstreams.generic(say_hello).app) as address:
        assert found(address, kind="vllm").flavour.name == "vLLM"
        with pytest.raises(EngineError, match="no llama-server: GET /props gave 404"):
            found(address, kind="llama-server")
        with pytest.raises(EngineError, match=f"no model other; it lists {upstreams.MODEL}"):
            found(address, model="other")


def test_what_is_no_engine_is_said(folder: Path) -> None:
    def app(path: str, status: int, body: Any) -> Starlette:
        async def answer(_: Any) -> JSONResponse:
            return JSONResponse(body, status_code=status)

        return Starlette(routes=[Route(path, answer)])

    with live(Starlette()) as address, pytest.raises(EngineError, match="no engine that dragoman knows: GET /props"):
        found(address)
    with live(app("/props", 401, {})) as address, pytest.raises(EngineError, match="--upstream-key"):
        found(address)
    loading = {"error": {"message": "Loading model", "code": 503}}
    with live(app("/props", 503, loading)) as address, pytest.raises(EngineError, match="Loading model"):
        found(address)
    ours = {"chat_template": "", "proof": {}, "template_hash": "x"}
    with live(app("/props", 200, ours)) as address, pytest.raises(UsageError, match="a dragoman itself"):
        found(address)
    with socket.socket() as nobody:  # bound, not listening
        nobody.bind(("127.0.0.1", 0))
        with pytest.raises(EngineError, match="cannot reach an engine"):
            found(f"http://127.0.0.1:{nobody.getsockname()[1]}")


SERVERS = {"vllm": upstreams.vllm, "sglang": upstreams.sglang, "completions": upstreams.generic}


@pytest.mark.parametrize("kind", SERVERS)
def test_a_call_comes_through_a_server_of_each_kind(
    kind: str, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Template and vocabulary from a folder, the prompt as ids, the call read from what the server writes."""
    server = SERVERS[kind](lambda _: f"<muse>\nhm\n</muse>\n\nSo.{CALL}<|fin|>")
    with live(server.app) as address:
        engine = opened("--upstream", address, "--vocab", str(folder))
        app = create_app(engine.format, engine.engine, model=engine.model, settings=engine.settings)
        with TestClient(app) as client:
            body = {"messages": MESSAGES, "tools": TOOLS}
            choice = client.post("/v1/chat/completions", json=body).json()["choices"][0]
            strict = client.post("/v1/chat/completions", json={**body, "tool_choice": "required", "seed": 3})
    assert address in capsys.readouterr().err
    assert choice["finish_reason"] == "tool_calls"
    assert choice["message"]["reasoning_content"] == "hm"
    assert json.loads(choice["message"]["tool_calls"][0]["function"]["arguments"]) == {"city": "Rome", "days": 2}
    sent = [body for body in server.seen if body.get("stream")]
    vocab = engine.format.vocab
    assert vocab is not None
    assert sent[0]["prompt"].count(vocab.controls["<|from|>"]) == 3
    assert sent[0]["stop"] == ["<|fin|>"]
    if kind == "completions":  # nothing to hold it to a call with, so it is not asked to
        assert strict.status_code == 400
        assert "takes neither grammars nor masks" in strict.json()["error"]["message"]
        assert strict.json()["error"]["param"] == "tool_choice"
    else:
        assert strict.status_code == 200
        carried = sent[1].get("structured_outputs", {}).get("structural_tag") or json.dumps(sent[1]["response_format"])
        assert "get_weather" in carried
        assert sent[1]["seed"] == 3


def test_template_and_vocabulary_come_from_a_folder_that_the_server_names(folder: Path) -> None:
    with live(upstreams.vllm(say_hello, root=str(folder)).app) as address:
        engine = opened("--upstream", address)
    assert engine.format.template.source == TEMPLATE
    with live(upstreams.sglang(say_hello).app) as address:  # names a folder of its own machine
        with pytest.raises(UsageError, match=r"vocabulary of .* is needed: --vocab"):
            opened("--upstream", address)
        file = str(folder / "tokenizer.json")
        with pytest.raises(UsageError, match="tells no chat template; name one with --template"):
            opened("--upstream", address, "--vocab", file)
        with pytest.raises(UsageError, match="no file or folder"):
            opened("--upstream", address, "--vocab", file + "x")
        config = str(folder / "tokenizer_config.json")
        assert opened("--upstream", address, "--vocab", file, "--template", config).format.template.source == TEMPLATE
        assert opened("--upstream", address, "--text-prompts", "--chat-template", "chatml").format.vocab is None


def test_an_error_in_the_middle_reaches_the_client_as_an_event(folder: Path) -> None:
    server = upstreams.vllm(say_hello, root=str(folder), failure="out of memory")
    with live(server.app) as address:
        engine = opened("--upstream", address)
        with TestClient(create_app(engine.format, engine.engine)) as client:
            body = client.post("/v1/chat/completions", json={"messages": MESSAGES, "stream": True}).content
    assert "out of memory" in _last_event(body)["error"]["message"]


def test_a_server_that_is_lost_in_the_middle_is_an_event(folder: Path) -> None:
    chunk = {"choices": [{"index": 0, "text": "Hello ", "finish_reason": None}]}
    with _dying(upstreams.vllm(say_hello, root=str(folder)), f"data: {json.dumps(chunk)}\n\n".encode()) as address:
        engine = opened("--upstream", address)
        with TestClient(create_app(engine.format, engine.engine)) as client:
            response = client.post("/v1/chat/completions", json={"messages": MESSAGES, "stream": True})
            whole = client.post("/v1/chat/completions", json={"messages": MESSAGES})
    assert response.status_code == 200
    assert b'"content":"Hello' in response.content
    error = _last_event(response.content)["error"]
    assert error["type"] == "engine_error"
    assert "went away" in error["message"]
    assert whole.status_code == 502


@pytest.mark.parametrize("stream", [True, False])
def test_a_client_that_leaves_ends_the_upstreams_work(folder: Path, stream: bool) -> None:
    server = upstreams.vllm(lambda _: "word " * 1_000, root=str(folder), delay=0.005)
    with live(server.app) as upstream:
        engine = opened("--upstream", upstream)
        with live(create_app(engine.format, engine.engine)) as address:
            place = urlsplit(address)
            body = json.dumps({"messages": MESSAGES, "stream": stream}).encode()
            with socket.create_connection((place.hostname, place.port)) as client:
                head = f"POST /v1/chat/completions HTTP/1.1\r\nHost: x\r\nContent-Length: {len(body)}\r\n\r\n"
                client.sendall(head.encode() + body)
                wait_until(lambda: server.engine.record.running == 1)
            wait_until(lambda: server.engine.record.endings == ["cancelled"])


def test_a_grammar_is_written_once_for_equal_requests(folder: Path) -> None:
    fmt = ChatFormat.from_pretrained(folder)

    def spec(form: GrammarForm, **options: Any) -> GrammarSpec | None:
        tools = options.pop("tools", TOOLS)
        return fmt.turn(MESSAGES, tools, **{"tool_choice": "required", **options}).grammar.spec((form,))

    forms: tuple[GrammarForm, ...] = ("gbnf", "lark", "ebnf", "structural_tag")
    for form in forms:
        first = spec(form)
        assert first is not None
        assert first.form == form
        assert spec(form) is first
        others = [spec(form, tool_choice="auto"), spec(form, tools=TOOLS[:1]), spec(form, parallel_tool_calls=False)]
        assert all(other is not None and other.text != first.text for other in others)


def _last_event(body: bytes) -> Any:
    with pytest.raises(AssertionError):  # it does not claim to be complete
        chunks_of(body)
    return json.loads(body.rstrip().rsplit(b"data: ", 1)[1])


@contextmanager
def _dying(server: upstreams.Server, first: bytes) -> Iterator[str]:
    """A server whose look-ups work and whose answers break off behind ``first``."""
    head = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n"
    client = TestClient(server.app)
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def serve() -> None:
            while True:
                try:
                    connection, _ = listener.accept()
                except OSError:
                    return
                with connection:
                    asked = connection.recv(1 << 16).split(b" ", 2)
                    if asked[0] == b"POST":
                        connection.sendall(head + b"%x\r\n%s\r\n" % (len(first), first))
                        continue
                    answer = client.get(asked[1].decode())
                    place = b"HTTP/1.1 %d X\r\ncontent-length: %d\r\n\r\n" % (answer.status_code, len(answer.content))
                    connection.sendall(place + answer.content)

        thread = threading.Thread(target=serve, daemon=True)
        thread.start()
        yield f"http://127.0.0.1:{listener.getsockname()[1]}"
        listener.shutdown(socket.SHUT_RDWR)
    thread.join(5)
