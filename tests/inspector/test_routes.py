"""What the page asks for: the JSON that the command line prints, within bounds, and asked for by the page alone."""

from __future__ import annotations

import json
import random
import time
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import Any

import httpx
import pytest
from starlette.testclient import TestClient

from dragoman.cli.main import main
from dragoman.engine import EngineInfo, TokenLogprob
from dragoman.engines.scripted import Dice, Scripted
from dragoman.inspector import asked
from dragoman.inspector.routes import RUNS_MAX, inspector_routes
from dragoman.limits import DEFAULT
from dragoman.server.app import create_app
from dragoman.server.operations.access import ApiKeys
from tests.server.live import live, wait_until
from tests.server.service import CALL, CLOCK, MESSAGES, TEMPLATE, TOOLS, chat_format
from tests.vocabularies import small_tokenizer

OUTPUT = "<muse>\nhm\n</muse>\n\nSo." + CALL
REQUEST: dict[str, Any] = {"messages": MESSAGES, "tools": TOOLS}


def client(engine: Any = None) -> TestClient:
    engine = engine or Scripted([OUTPUT])
    app = create_app(chat_format(), engine, model="m", clock=lambda: CLOCK)
    app.router.routes.extend(inspector_routes(chat_format(), engine, model="m", clock=lambda: CLOCK))
    return TestClient(app, raise_server_exceptions=False)


def post(name: str, body: Any, engine: Any = None) -> Any:
    return client(engine).post(f"/inspector/{name}", json=body)


def lines(response: Any) -> list[dict[str, Any]]:
    assert response.status_code == 200, response.text
    return [json.loads(line) for line in response.text.splitlines()]


def printed(capsys: pytest.CaptureFixture[str], *words: object) -> Any:
    assert main([*map(str, words), "--json"]) == 0
    return json.loads(capsys.readouterr().out)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """The served model as a folder, with a request and an output beside it."""
    marks = [{"content": text, "special": True} for text in ("<|from|>", "<|fin|>", "<|pad|>")]
    (tmp_path / "tokenizer.json").write_text(json.dumps(small_tokenizer(marks)))
    (tmp_path / "tokenizer_config.json").write_text(json.dumps({"chat_template": TEMPLATE, "eos_token": "<|fin|>"}))
    (tmp_path / "request.json").write_text(json.dumps(REQUEST))
    (tmp_path / "output.txt").write_text(OUTPUT)
    return tmp_path


def test_the_page_shows_what_the_command_line_prints(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    request = ("--request", folder / "request.json")
    assert post("template", {}).json() == printed(capsys, "inspect", folder)
    assert post("prompt", {"request": REQUEST}).json() == printed(capsys, "render", folder, *request)
    for notation in ("listing", "gbnf", "lark", "ebnf", "structural-tag"):
        body = {"request": REQUEST, "to": notation}
        assert post("grammar", body).json() == printed(capsys, "grammar", folder, *request, "--to", notation)
    told = printed(capsys, "grammar", folder, "--to", "response-template")
    assert post("grammar", {"request": REQUEST, "to": "response-template"}).json() == {"response-template": told}
    steps = post("replay", {"request": REQUEST, "output": OUTPUT, "chunk": 5}).json()["steps"]
    words = ("parse", folder, *request, "--output", folder / "output.txt", "--chunk", 5, "--steps")
    assert without_ids(steps) == without_ids(printed(capsys, *words)["steps"])


def without_ids(steps: Any) -> Any:
    """Call ids are drawn anew for each turn."""
    if isinstance(steps, dict):
        return {key: without_ids(value) for key, value in steps.items() if key != "id"}
    return [without_ids(each) for each in steps] if isinstance(steps, list) else steps


def test_a_replay_is_the_same_message_in_any_pieces() -> None:
    messages = []
    for size in (1, 3, 1_000):
        steps = post("replay", {"request": REQUEST, "output": OUTPUT, "chunk": size}).json()["steps"]
        assert "".join(step["chunk"] for step in steps[:-1]) == OUTPUT
        assert all(step["reader"]["threads"] >= 1 for step in steps[:-1])
        messages.append(without_ids(steps[-1]["result"]["message"]))
    assert messages[0] == messages[1] == messages[2]
    assert messages[0]["tool_calls"][0]["function"]["name"] == "get_weather"
    cut = post("replay", {"request": REQUEST, "output": OUTPUT[:-12], "cut_off": True}).json()["steps"][-1]["result"]
    assert cut["finish_reason"] == "length"
    assert cut["truncated"]


def test_a_token_knows_whose_it_is() -> None:
    shown = post("prompt", {"request": {"messages": [{"role": "user", "content": "a <|fin|> b"}]}}).json()
    tokens = shown["tokens"]
    assert "".join(token["text"] for token in tokens) == shown["prompt"]
    assert [token["text"] for token in tokens if token["control"]] == ["<|from|>", "<|fin|>", "<|from|>"]
    assert "".join(token["text"] for token in tokens if token["input"]) == "a <|fin|> b"
    assert not any(token["control"] and token["input"] for token in tokens)


def test_a_run_tells_what_the_mask_allows() -> None:
    vocab = chat_format().vocab
    assert vocab is not None
    dice = Dice(lambda token: vocab.bytes_of(token) or b"", vocab.size, seed=3, stop_ids=vocab.eos_ids)
    first, *steps = lines(post("run", {"request": {**REQUEST, "tool_choice": "required", "max_tokens": 400}}, dice))
    assert first["enforced"] == "masks"
    assert first["unwatched"] is None
    assert first["prompt"]["prompt"].startswith("<|from|>system\n")
    tokens = [token for step in steps[:-1] for token in step["tokens"]]
    assert tokens
    assert all(token["allowed"] and 1 <= token["count"] <= token["of"] == vocab.size for token in tokens)
    assert tokens[0]["count"] < 10, "a required call begins with its opener"
    assert steps[-1]["unwatched"] is None
    assert steps[-1]["result"]["finish_reason"] in ("tool_calls", "length")


def test_a_run_tells_the_likeliest_tokens_and_where_the_mask_was_left() -> None:
    vocab = chat_format().vocab
    assert vocab is not None

    def encode(text: str) -> list[int]:
        return list(vocab.encode(text))

    def logprob(piece: str) -> TokenLogprob:
        others = (TokenLogprob(-0.5, encode(piece)[0]), TokenLogprob(-3.0, vocab.controls["<|pad|>"]))
        return TokenLogprob(-0.5, encode(piece)[0], top=others)

    info = EngineInfo(model="free", gives_logprobs=True)
    engine = Scripted([["S", "o", "<", "m", "u", "s", "e", ">", "x"]], encode=encode, logprob=logprob, info=info)
    steps = lines(post("run", {"request": REQUEST}, engine))[1:]
    [first] = steps[0]["tokens"]
    assert first["text"] == "S"
    assert first["probability"] == pytest.approx(0.6065, abs=1e-3)
    assert [(each["text"], each["allowed"]) for each in first["likeliest"]] == [("S", True), ("<|pad|>", False)]
    told = [token for step in steps[:-1] for token in step["tokens"]]
    left = [token["text"] for token in told if token["allowed"] is False]
    assert left == [">"], "no text may hold the opener of reasoning"
    assert told[-1]["count"] is None
    assert "does not allow" in steps[-1]["unwatched"]


def test_an_engine_that_fails_says_so_in_the_stream() -> None:
    *_, last = lines(post("run", {"request": REQUEST}, Scripted([["So"]], failure="the power went")))
    assert "the power went" in last["error"]["message"]


def test_who_goes_away_stops_the_engine_and_only_so_many_watch() -> None:
    engine = Scripted([["on "] * 10_000 for _ in range(RUNS_MAX)], delay=0.005)
    app = create_app(chat_format(), engine, model="m", clock=lambda: CLOCK)
    app.router.routes.extend(inspector_routes(chat_format(), engine, model="m", clock=lambda: CLOCK))
    watched: list[Iterator[str]] = []  # let go of, they would close their answers
    with live(app) as address, ExitStack() as stack:
        for _ in range(RUNS_MAX):
            ask = httpx.stream(
                "POST", f"{address}/inspector/run", json={"request": REQUEST}, trust_env=False, timeout=20
            )
            watched.append(stack.enter_context(ask).iter_lines())
            assert next(watched[-1])
        refused = httpx.post(f"{address}/inspector/run", json={"request": REQUEST}, trust_env=False, timeout=20)
        assert refused.status_code == 429
        assert "being watched already" in refused.json()["error"]["message"]
        assert engine.record.running == RUNS_MAX
        stack.close()
        wait_until(lambda: engine.record.running == 0)
    assert engine.record.cancelled == RUNS_MAX


def test_a_pasted_template_is_learned_and_used() -> None:
    pasted = {"source": TEMPLATE.replace("do>", "zq7>"), "eos_token": "<|fin|>"}
    assert "<zq7>" in post("template", {"template": pasted}).json()["chat_template"]
    body = {"template": pasted, "request": REQUEST, "output": OUTPUT.replace("do>", "zq7>"), "chunk": 9}
    result = post("replay", body).json()["steps"][-1]["result"]
    assert result["finish_reason"] == "tool_calls"
    config = {"source": json.dumps({"chat_template": TEMPLATE, "eos_token": "<|fin|>"})}
    assert post("template", {"template": config}).json()["eos_token"] == "<|fin|>"
    assert "im_start" in post("prompt", {"template": {"name": "chatml"}, "request": REQUEST}).json()["prompt"]


@pytest.mark.parametrize(
    ("name", "body", "said"),
    [
        ("template", {"template": 5}, "template must be an object"),
        ("template", {"template": {"source": " "}}, "template is empty"),
        ("template", {"template": {"source": 5}}, "template.source must be a text"),
        ("template", {"template": {"source": "{% if %}"}}, "line 1 of the chat template"),
        ("template", {"template": {"source": "x" * (asked.TEMPLATE_CHARS_MAX + 1)}}, "template_chars"),
        ("template", {"template": {"name": "latin"}}, "latin"),
        ("prompt", {}, "request must be a chat request"),
        ("prompt", {"request": {"messages": 5}}, "messages must be a list"),
        ("grammar", {"request": REQUEST, "to": "latin"}, "to must be listing, gbnf"),
        ("replay", {"request": REQUEST, "output": "x", "chunk": 0}, "chunk must be a whole number"),
        ("replay", {"request": REQUEST, "output": "x" * 10_000, "chunk": 1}, "give a larger chunk"),
        ("replay", {"request": REQUEST, "output": "x" * (asked.OUTPUT_BYTES_MAX + 1)}, "output_bytes"),
        ("run", {"request": {**REQUEST, "temperature": "hot"}}, "temperature"),
        ("run", {"request": {**REQUEST, "tool_choice": "required"}}, "takes neither grammars nor masks"),
    ],
)
def test_what_cannot_be_done_is_400_and_says_why(name: str, body: Any, said: str) -> None:
    response = post(name, body)
    assert response.status_code == 400
    assert said in response.json()["error"]["message"]


def test_a_template_that_never_ends_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    assert asked.PASTED.render_steps < DEFAULT.render_steps
    monkeypatch.setattr(asked, "PASTED", replace(asked.PASTED, render_steps=10_000))
    loop = "{% for i in range(9000) %}{% for j in range(9000) %}{% set x = i %}{% endfor %}{% endfor %}"
    body = {"template": {"source": loop + TEMPLATE}, "request": REQUEST}
    error = post("prompt", body).json()["error"]
    assert "render_steps = 10000" in error["message"]


def test_another_page_cannot_ask() -> None:
    for kind in ("text/plain", "application/x-www-form-urlencoded", ""):
        answer = client().post("/inspector/template", content=b"{}", headers={"content-type": kind})
        assert answer.status_code == 415
        assert "application/json" in answer.json()["error"]["message"]
        assert "access-control-allow-origin" not in answer.headers


def test_files_of_the_page_and_no_others() -> None:
    ours = client()
    page = ours.get("/")
    assert page.status_code == 200
    policy = page.headers["content-security-policy"]
    assert policy.startswith("default-src 'none'; script-src 'self'")
    assert "unsafe" not in policy
    assert "http:" not in page.text
    assert "https:" not in page.text
    for name, kind in (
        ("inspector.css", "text/css"),
        ("inspector.js", "text/javascript"),
        ("icon.svg", "image/svg+xml"),
    ):
        answer = ours.get(f"/inspector/static/{name}")
        assert answer.status_code == 200
        assert answer.headers["content-type"].startswith(kind)
        assert answer.headers["x-content-type-options"] == "nosniff"
    for name in ("nothing.js", "../routes.py", "..%2Froutes.py", "%2e%2e/asked.py", "index", ".html"):
        assert ours.get(f"/inspector/static/{name}").status_code == 404


def test_keys_guard_what_is_asked_and_not_the_page() -> None:
    engine = Scripted([OUTPUT])
    app = create_app(chat_format(), engine, clock=time.time)
    app.router.routes.extend(inspector_routes(chat_format(), engine, clock=time.time))
    guarded = TestClient(ApiKeys(app, ["secret"]))
    assert guarded.get("/").status_code == 200
    assert guarded.get("/inspector/static/inspector.js").status_code == 200
    assert guarded.get("/inspector/served").status_code == 401
    assert guarded.post("/inspector/template", json={}).status_code == 401
    assert guarded.get("/inspector/served", headers={"authorization": "Bearer secret"}).status_code == 200


def test_nothing_that_is_asked_is_an_error_of_the_server() -> None:
    """Values of every kind in every field, seeded: an answer or a refusal, never a 500."""
    throw = random.Random(7)
    values: list[Any] = [
        *(None, True, 0, -1, 1.5, "", "x", "auto", "\ud800", "{{", [], [1], {}, {"a": 1}, 10**30),
        *(MESSAGES, TOOLS, [{"role": "user"}], [{"role": 5, "content": {}}], {"type": "function"}),
        *({"source": "{{ messages[0].content.x.y }}"}, {"name": "chatml"}, {"source": TEMPLATE, "eos_token": 3}),
    ]
    fields = ("messages", "tools", "tool_choice", "response_format", "enable_thinking", "max_tokens", "stop", "n")
    ours = client(Scripted(lambda _: "So."))
    seen = set()
    for _ in range(300):
        request = {**REQUEST, **{name: throw.choice(values) for name in throw.sample(fields, 2)}}
        body = {"request": throw.choice([request, request, request, throw.choice(values)])}
        for name in throw.sample(("template", "to", "output", "chunk", "cut_off"), 2):
            body[name] = throw.choice(values)
        path = throw.choice(("template", "prompt", "grammar", "replay", "run"))
        response = ours.post(
            f"/inspector/{path}", content=json.dumps(body), headers={"content-type": "application/json"}
        )
        assert response.status_code in (200, 400), (path, body, response.text)
        seen.add(response.status_code)
    assert seen == {200, 400}
    for body in (b"", b"[", b"5", b"[" * 100_000):
        answer = ours.post("/inspector/prompt", content=body, headers={"content-type": "application/json"})
        assert answer.status_code == 400
