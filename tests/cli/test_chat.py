"""``dragoman chat`` against a llama-server that a test plays: its /props, and its /completion as a stream."""

from __future__ import annotations

import io
import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response, StreamingResponse
from starlette.routing import Route

from dragoman.cli.conversation import ROUNDS_MAX
from dragoman.cli.main import main
from tests.server.live import live
from tests.server.service import CALL, TEMPLATE, TOOLS, chat_format
from tests.vocabularies import small_tokenizer


@dataclass
class LlamaServer:
    """Says its answers in order, each in pieces of one word."""

    answers: list[str]
    asked: list[dict[str, Any]] = field(default_factory=list)

    @property
    def app(self) -> Starlette:
        routes = [Route("/props", self.props), Route("/completion", self.completion, methods=["POST"])]
        return Starlette(routes=routes)

    async def props(self, request: Request) -> Response:
        known = {"chat_template": TEMPLATE, "eos_token": "<|fin|>", "model_path": "/models/tiny.gguf"}
        return JSONResponse({**known, "default_generation_settings": {"n_ctx": 4096}})

    async def completion(self, request: Request) -> Response:
        self.asked.append(await request.json())
        words = self.answers[len(self.asked) - 1].split(" ")
        events = [
            {"content": " " * bool(at) + word, "tokens": [at], "tokens_predicted": at + 1}
            for at, word in enumerate(words)
        ]
        end = {"content": "", "stop": True, "stop_type": "eos", "tokens_evaluated": 9, "tokens_predicted": len(words)}
        lines = [f"data: {json.dumps(event)}\n\n" for event in [*events, end]]
        return StreamingResponse(iter(lines), media_type="text/event-stream")


@pytest.fixture
def vocab(tmp_path: Path) -> Path:
    marks = [{"content": text, "special": True} for text in ("<|from|>", "<|fin|>", "<|pad|>")]
    path = tmp_path / "tokenizer.json"
    path.write_text(json.dumps(small_tokenizer(marks)))
    return path


@pytest.fixture
def upstream() -> Iterator[tuple[LlamaServer, str]]:
    server = LlamaServer(["<muse>\nhm\n</muse>\n\nIt is sunny.", "Still sunny."])
    with live(server.app) as address:
        yield server, address


def test_one_question(upstream: tuple[LlamaServer, str], vocab: Path, capsys: pytest.CaptureFixture[str]) -> None:
    server, address = upstream
    code = main(["chat", "--upstream", address, "--vocab", str(vocab), "-m", "Rome?", "--max-tokens", "7"])
    assert (code, capsys.readouterr().out) == (0, "It is sunny.\n"), "reasoning is for people to watch, not for a pipe"
    [asked] = server.asked
    known = chat_format().vocab
    assert known is not None
    assert known.decode(asked["prompt"]) == b"<|from|>user\nRome?<|fin|>\n<|from|>assistant\n"
    assert asked["n_predict"] == 7
    assert asked["stop"] == ["<|fin|>"]


def test_a_conversation_goes_on(
    upstream: tuple[LlamaServer, str],
    vocab: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    server, address = upstream
    monkeypatch.setattr("sys.stdin", io.StringIO("Rome?\n\nAnd now?\n"))
    arguments = ["chat", "--upstream", address, "--vocab", str(vocab), "--system", "Be brief.", "--json"]
    assert main(arguments) == 0
    lines = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [line["finish_reason"] for line in lines if "usage" in line] == ["stop", "stop"]
    assert "".join(line.get("content", "") for line in lines) == "It is sunny.Still sunny."
    assert "".join(line.get("reasoning_content", "") for line in lines) == "hm"
    known = chat_format().vocab
    assert known is not None
    second = known.decode(server.asked[1]["prompt"]).decode()
    assert second.startswith("<|from|>system\nBe brief.<|fin|>\n<|from|>user\nRome?<|fin|>\n<|from|>assistant\n")
    assert second.endswith("It is sunny.<|fin|>\n<|from|>user\nAnd now?<|fin|>\n<|from|>assistant\n")


def test_another_template(
    upstream: tuple[LlamaServer, str], vocab: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    server, address = upstream
    other = tmp_path / "other.jinja"
    other.write_text(TEMPLATE.replace("<|from|>assistant", "<|from|>parrot"))
    arguments = ["chat", "--upstream", address, "--vocab", str(vocab), "--template", str(other), "-m", "Hi"]
    assert main(arguments) == 0
    known = chat_format().vocab
    assert known is not None
    assert known.decode(server.asked[0]["prompt"]).endswith(b"<|from|>parrot\n")
    assert "other.jinja" in capsys.readouterr().err


def test_a_server_that_is_not_there(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["chat", "--upstream", "http://127.0.0.1:9", "-m", "Hi"]) == 1
    assert "is it running?" in capsys.readouterr().err


PYTHON = '''
def get_weather(city: str, days: int = 1) -> dict:
    """The weather of a city."""
    return {"city": city, "sky": "clear"}
'''


def words(address: str, vocab: Path, tmp_path: Path, *more: str) -> list[str]:
    (tmp_path / "tools.py").write_text(PYTHON)
    return ["chat", "--upstream", address, "--vocab", str(vocab), "--tools", str(tmp_path / "tools.py"), *more]


def test_tools_run_when_all_are_allowed(
    vocab: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    server = LlamaServer(["So." + CALL, "It is clear."])
    with live(server.app) as address:
        assert main(words(address, vocab, tmp_path, "--yes", "--tool-choice", "required", "-m", "Rome?")) == 0
        out, err = capsys.readouterr()
        assert out == "So.\nIt is clear.\n"
        assert 'call get_weather {"city": "Rome", "days": 2}' in err
        assert "clear" in err
        assert "grammar" in server.asked[0]
        known = chat_format().vocab
        assert known is not None
        assert '{"city": "Rome", "sky": "clear"}' in known.decode(server.asked[1]["prompt"]).decode()
        assert server.asked[0].get("grammar_lazy") is None
        assert server.asked[1]["grammar_lazy"] is True, "a demanded call is demanded once"
        server.asked.clear()
        code = main(words(address, vocab, tmp_path, "--yes", "--json", "-m", "Rome?"))
        lines = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
        assert code == 0
        [result] = [line["tool_result"] for line in lines if "tool_result" in line]
        assert result["content"] == '{"city": "Rome", "sky": "clear"}'
        server.asked.clear()
        monkeypatch.setattr("sys.stdin", io.StringIO(""))
        assert main(words(address, vocab, tmp_path, "-m", "Rome?")) == 2
        assert "--yes" in capsys.readouterr().err


def test_a_call_that_nobody_can_run_is_shown_without_a_result(
    vocab: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nobody is there to type one, and none is made up."""
    declared = tmp_path / "tools.json"
    declared.write_text(json.dumps([TOOLS[0]]))
    monkeypatch.setattr("sys.stdin", io.StringIO(""))
    server = LlamaServer([CALL])
    with live(server.app) as address:
        asked = ["chat", "--upstream", address, "--vocab", str(vocab), "--tools", str(declared), "-m", "Rome?"]
        assert main([*asked, "--json"]) == 0
        lines = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
        assert any("tool_calls" in line for line in lines)
        assert not any("tool_result" in line for line in lines)
        assert len(server.asked) == 1


@pytest.mark.parametrize("encoding", ["utf-8", "ascii"])
def test_a_question_that_is_no_text(encoding: str, vocab: Path, capsys: pytest.CaptureFixture[str]) -> None:
    server = LlamaServer(["Hi."])
    errors = "strict" if encoding == "utf-8" else "surrogateescape"  # as Python opens stdin under such a locale
    stdin = io.TextIOWrapper(io.BytesIO(b"Wie hei\xdft du?\n"), encoding=encoding, errors=errors)
    with live(server.app) as address, pytest.MonkeyPatch.context() as patch:
        patch.setattr("sys.stdin", stdin)
        assert main(["chat", "--upstream", address, "--vocab", str(vocab)]) == 2
    assert "no UTF-8 text" in capsys.readouterr().err
    assert server.asked == []


def test_a_model_that_calls_for_ever_is_told_to_answer(
    vocab: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    server = LlamaServer([CALL] * ROUNDS_MAX + ["Enough."])
    with live(server.app) as address:
        assert main(words(address, vocab, tmp_path, "--yes", "-m", "Rome?")) == 0
    out, err = capsys.readouterr()
    assert out == "Enough.\n"
    assert err.count(f"{ROUNDS_MAX} rounds of calls") == 1
    assert len(server.asked) == ROUNDS_MAX + 1
    assert "grammar" not in server.asked[-1]


def test_an_answer_of_a_form(vocab: Path, tmp_path: Path) -> None:
    schema = tmp_path / "schema.json"
    schema.write_text('{"type": "object", "properties": {"zebra": {"type": "integer"}}}')
    server = LlamaServer(['{"zebra": 1}'])
    with live(server.app) as address:
        words = ["--schema", str(schema), "-m", "Rome?", "--no-thinking"]
        assert main(["chat", "--upstream", address, "--vocab", str(vocab), *words]) == 0
    assert "zebra" in server.asked[0]["grammar"]


def test_wrong_files_are_told_before_an_engine_starts(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["chat", "--upstream", "http://127.0.0.1:9", "--schema", str(tmp_path / "no"), "-m", "x"]) == 2
    assert "--schema: there is no file" in capsys.readouterr().err
