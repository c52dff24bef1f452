"""The verbs from outside: what they print, and their exit codes. No engine is started here."""

from __future__ import annotations

import io
import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from dragoman.cli.main import VERBS, main
from dragoman.inspector.example import QUESTION
from tests.cli.test_chat_terminal import Upstream
from tests.server.live import live
from tests.server.service import CALL, TEMPLATE, TOOLS, Service, chat_format
from tests.vocabularies import gguf_bytes, gguf_tokenizer, small_tokenizer

OUTPUT = "<muse>\nhm\n</muse>\n\nSo." + CALL
Run = Callable[..., tuple[int, str, str]]


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str]) -> Run:
    def ask(*arguments: object) -> tuple[int, str, str]:
        code = main([str(argument) for argument in arguments])
        out, err = capsys.readouterr()
        return code, out, err

    return ask


@pytest.fixture
def template(tmp_path: Path) -> Path:
    path = tmp_path / "ours.jinja"
    path.write_text(TEMPLATE)
    return path


@pytest.fixture
def tools(tmp_path: Path) -> Path:
    path = tmp_path / "tools.json"
    path.write_text(json.dumps(TOOLS))
    return path


def test_every_verb_explains_itself(capsys: pytest.CaptureFixture[str]) -> None:
    for verb in VERBS:
        with pytest.raises(SystemExit) as left:
            main([verb, "--help"])
        assert left.value.code == 0
        assert "--json" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ([], "VERB"),
        (["nope"], "'nope'"),
        (["inspect"], "TEMPLATE"),
        (["check"], "CASES.jsonl"),
        (["serve", "--port", "x"], "--port"),
        (["grammar", "chatml", "--to", "latin"], "'gbnf'"),
        (["parse", "chatml", "--chunk", "0"], "give 1 or more"),
        (["parse", "chatml", "--chunk", "-3"], "give 1 or more"),
        (["parse", "chatml", "--request", "-"], "both come from stdin"),
        (["render", "chatml", "--request", "{nothing}"], "there is no file"),
        (["render", "chatml", "--tools", "{nothing}"], "wanted is a JSON list of tools"),
        (["render", "chatml", "--schema", "{nothing}"], "wanted is a JSON Schema"),
        (["parse", "chatml", "--output", "{nothing}"], "what a model wrote"),
        (["check", "{nothing}", "--templates", "{folder}"], "one case a line"),
        (["check", "{broken}", "--templates", "{nothing}"], "--templates"),
        (["render", "chatml", "--request", "{folder}"], "is a folder"),
        (["render", "chatml", "--request", "{broken}"], "line 2, column 1"),
        (["render", "chatml", "--request", "{bytes}"], "no UTF-8 text (byte 1)"),
        (["render", "chatml", "--request", "{number}"], "holds a number; wanted is a chat request"),
        (["render", "chatml", "--request", "{empty}"], "holds no messages"),
        (["render", "chatml", "--tools", "{number}"], "not a number"),
        (["grammar", "chatml", "--tools", "{broken}"], "functions of a .py file are for dragoman chat alone"),
        (["render", "chatml", "--tools", "{{}}"], "takes the name of a file, not JSON itself"),
        (["render", "chatml", "--request", '[{{"role": "user"}}]' * 300], "takes the name of a file"),
        (["inspect", "{bytes}"], "TEMPLATE: "),
        (["render", "chatml", "m.json"], "given by --request m.json); see dragoman render --help"),
        (["inspect", "chatml", "m.json"], "m.json; see dragoman inspect --help"),
        (["render", "chatml", "--requset", "m.json"], "--requset m.json; see dragoman render --help"),
    ],
)
def test_wrong_usage_is_2_and_one_line_that_says_what_to_do(
    run: Run, tmp_path: Path, arguments: list[str], said: str
) -> None:
    contents = {"broken": b'{"messages":\n]', "bytes": b"a\xff", "number": b"5", "empty": b"[]"}
    for name, content in contents.items():
        (tmp_path / name).write_bytes(content)
    names = {**{name: tmp_path / name for name in contents}, "nothing": tmp_path / "no such file", "folder": tmp_path}
    words = [word.format(**names) for word in arguments]
    code, out, err = run(*words)
    assert (code, out) == (2, "")
    assert err.count("\n") == 1
    assert err.startswith("dragoman")
    assert said in err
    code, out, err = run(*words, "--json")
    assert (code, err) == (2, "")
    error = json.loads(out)["error"]
    assert said in error["message"]
    assert (error["type"], error["exit_code"]) == ("usage_error", 2)


def test_what_fails_is_1_and_json_where_json_is_wanted(run: Run, tmp_path: Path) -> None:
    (tmp_path / "broken.jinja").write_text("{% if %}")
    assert run("inspect", tmp_path / "broken.jinja")[0] == 1
    code, out, err = run("inspect", tmp_path / "broken.jinja", "--json")
    assert (code, err) == (1, "")
    assert json.loads(out)["error"]["type"] == "template_error"
    code, out, _ = run("inspect", "http://127.0.0.1:9", "--json")
    assert (code, json.loads(out)["error"]["type"]) == (1, "engine_error")


def test_a_list_is_a_conversation(run: Run, template: Path, tmp_path: Path) -> None:
    messages = tmp_path / "messages.json"
    messages.write_text('[{"role": "user", "content": "Salut"}]')
    assert "Salut" in run("render", template, "--request", messages)[1]
    messages.write_text("[]")
    assert "Salut" in run("render", template, "--request", messages, "--user", "Salut")[1]


def test_inspect_prints_facts_evidence_and_proof(run: Run, template: Path) -> None:
    code, out, _ = run("inspect", template)
    assert code == 0
    for part in ("<do>\\n", "because of probe:", "parallel_tool_calls", "proven", "supports_tools", "OBJECT"):
        assert part in out
    assert f"<|from|>user\n«{QUESTION}»<|fin|>" in out
    assert "write.call" not in out
    assert 'write.call = \'<do>\\n\' (\'{"name": "get_weather"' in run("inspect", template, "--grammar")[1]
    code, out, _ = run("inspect", template, "--json")
    assert code == 0
    known = json.loads(out)
    assert known["proof"]["reasoning"]["status"] == "proven"
    assert known["profile"]["evidence"]["tools.call"]
    assert known["capabilities"]["supports_tool_calls"] is True
    facts = {fact["name"]: fact for fact in known["facts"]}
    assert facts["tools.format"]["value"] == '"json_native"'
    assert facts["tools.format"]["why"][0].startswith("probe: ")
    assert "".join(part["text"] for part in known["example"]["parts"]) == known["example"]["prompt"]
    assert {rule["rule"] for rule in known["grammar"]["write"]} >= {"write", "write.call"}


def test_inspecting_a_folder_gives_one_line_a_template(run: Run, template: Path, tmp_path: Path) -> None:
    (tmp_path / "good.jinja").write_text(template.read_text("utf-8"), "utf-8")
    (tmp_path / "broken.jinja").write_text("{% if %}", "utf-8")
    code, out, _ = run("inspect", tmp_path)
    assert code == 1  # one of them cannot be read
    lines = {line.split()[0]: line for line in out.splitlines()}
    assert "json_native" in lines["good.jinja"]
    assert "parallel_tool_calls" in lines["good.jinja"]
    assert "line 1" in lines["broken.jinja"]
    code, out, _ = run("inspect", tmp_path, "--json")
    assert code == 1
    assert {row["template"]: row["calls"] for row in json.loads(out)}["broken.jinja"] == "failed"
    (tmp_path / "broken.jinja").unlink()
    assert run("inspect", tmp_path)[0] == 0


def test_every_kind_of_source_gives_the_same_format(run: Run, template: Path, tmp_path: Path) -> None:
    marks = [{"content": text, "special": True} for text in ("<|from|>", "<|fin|>")]
    tokenizer = small_tokenizer(marks)
    eos = next(token["id"] for token in tokenizer["added_tokens"] if token["content"] == "<|fin|>")
    folder = tmp_path / "model"
    folder.mkdir()
    config = {"chat_template": TEMPLATE, "eos_token": {"content": "<|fin|>"}}
    (folder / "tokenizer_config.json").write_text(json.dumps(config))
    (folder / "tokenizer.json").write_text(json.dumps(tokenizer))
    gguf = tmp_path / "model.gguf"
    more = [("tokenizer.chat_template", 8, TEMPLATE), ("tokenizer.ggml.eos_token_id", 4, eos)]
    gguf.write_bytes(gguf_tokenizer(tokenizer, more=more))
    with live(Service().app) as address:
        sources = [template, folder, folder / "tokenizer_config.json", gguf, address, f"{address}/v1"]
        found = [json.loads(run("inspect", source, "--json")[1]) for source in sources]
    assert {known["template_hash"] for known in found} == {chat_format().template_hash}
    assert [known["eos_token"] for known in found] == ["", *["<|fin|>"] * 5]
    assert all(known["proof"] == found[0]["proof"] for known in found)


def test_a_source_that_is_none(run: Run, tmp_path: Path) -> None:
    code, out, err = run("inspect", tmp_path / "nothing")
    assert (code, out) == (2, "")
    assert ".jinja" in err
    assert "URL" in err
    (tmp_path / "empty.json").write_text("{}")
    code, _, err = run("inspect", tmp_path / "empty.json")
    assert code == 1
    assert "chat_template" in err
    (tmp_path / "broken.jinja").write_text("{% if %}")
    assert run("inspect", tmp_path / "broken.jinja")[0] == 1
    (tmp_path / "broken.gguf").write_bytes(gguf_bytes([]))
    assert run("inspect", tmp_path / "broken.gguf")[0] == 1
    code, _, err = run("inspect", "http://127.0.0.1:9")
    assert code == 1
    assert "is a server running there?" in err


def test_render(run: Run, template: Path, tools: Path) -> None:
    code, out, _ = run("render", template, "--user", "Hi <|fin|>", "--system", "Be kind.")
    assert code == 0
    expected = "<|from|>system\nBe kind.<|fin|>\n<|from|>user\nHi <|fin|><|fin|>\n<|from|>assistant\n"
    assert out == expected
    assert "«Hi <|fin|>»<|fin|>" in run("render", template, "--user", "Hi <|fin|>", "--parts")[1]
    shown = json.loads(run("render", template, "--tools", tools, "--json")[1])
    assert "get_weather" in shown["prompt"]
    assert "".join(part["text"] for part in shown["parts"]) == shown["prompt"]
    assert shown["stops"] == ["<|fin|>"]


def test_render_takes_a_request_as_a_server_does(run: Run, template: Path, tmp_path: Path) -> None:
    request = tmp_path / "request.json"
    body = {"messages": [{"role": "user", "content": "Hi"}], "tools": TOOLS, "temperature": 1}
    request.write_text(json.dumps(body))
    out = run("render", template, "--request", request)[1]
    assert out == Service().post(body, "/apply-template").json()["prompt"]
    request.write_text('{"messages": 5}')
    assert run("render", template, "--request", request)[0] == 2


@pytest.mark.parametrize("chunk", [1, 7, 10_000])
def test_parse(
    run: Run, template: Path, tools: Path, chunk: int, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(OUTPUT.encode())))
    code, out, _ = run("parse", template, "--tools", tools, "--chunk", chunk, "--json")
    assert code == 0
    shown = json.loads(out)
    message = shown["message"]
    assert (message["content"], message["reasoning_content"]) == ("So.", "hm")
    assert message["tool_calls"][0]["function"]["name"] == "get_weather"
    assert shown["finish_reason"] == "tool_calls"
    assert "".join(delta.get("content", "") for delta in shown["deltas"]) == "So."
    file = tmp_path / "out.txt"
    file.write_text(OUTPUT)
    out = run("parse", template, "--tools", tools, "--output", file, "--chunk", chunk, "--steps", "--json")[1]
    steps = json.loads(out)["steps"]
    assert [delta for step in steps for delta in step["deltas"]] == json.loads(out)["deltas"]
    assert "".join(step["chunk"] for step in steps[:-1]) == OUTPUT
    assert all(step["reader"]["settled"] <= step["reader"]["position"] for step in steps)
    assert steps[-1]["reader"]["position"] == len(OUTPUT)
    out = run("parse", template, "--tools", tools, "--output", file, "--chunk", chunk, "--steps")[1]
    assert out.splitlines()[0].split()[:3] == ["piece", "threads", "read"]
    out = run("parse", template, "--tools", tools, "--output", file, "--deltas")[1]
    assert json.loads(out[: out.index("\n")]) == {"reasoning_content": "hm"}


def test_parse_of_what_was_cut_off(run: Run, template: Path, tools: Path, tmp_path: Path) -> None:
    file = tmp_path / "out.txt"
    file.write_text(OUTPUT[:-15])
    shown = json.loads(run("parse", template, "--tools", tools, "--output", file, "--cut-off")[1])
    assert shown["finish_reason"] == "length"
    assert shown["truncated"] is True
    assert run("parse", template, "--output", file, "--chunk", "-1")[0] == 2
    assert run("parse", template, "--request", "-")[0] == 2


def test_grammar(run: Run, template: Path, tools: Path) -> None:
    code, out, err = run("grammar", template, "--tools", tools)
    assert code == 0
    assert out.startswith("root ::=")
    assert "'<do>'" in err
    shown = json.loads(run("grammar", template, "--tools", tools, "--tool-choice", "get_time", "--json")[1])
    assert shown["lazy"] is False
    assert "get_weather" not in shown["gbnf"]
    assert run("grammar", template, "--tools", tools, "--tool-choice", "nobody")[0] == 2


def test_grammar_in_other_notations(run: Run, template: Path, tools: Path) -> None:
    begins = {"lark": "start:", "ebnf": "root ::=", "structural-tag": "{", "gbnf": "root ::="}
    for notation, begin in begins.items():
        code, out, err = run("grammar", template, "--tools", tools, "--to", notation)
        assert code == 0
        assert out.startswith(begin)
        assert ("lazy" in err) == (notation == "gbnf")
        assert notation in json.loads(run("grammar", template, "--tools", tools, "--to", notation, "--json")[1])
    shown = json.loads(run("grammar", template, "--to", "response-template")[1])
    assert set(shown["fields"]) >= {"content", "tool_calls"}
    out = run("grammar", template, "--tools", tools, "--to", "listing")[1]
    assert "write.call = " in out
    assert "How its output is read" in out
    listed = json.loads(run("grammar", template, "--tools", tools, "--to", "listing", "--json")[1])
    named = {rule["rule"] for rule in listed["read"]}
    assert {"turn", "call", "body"} <= named


def test_grammar_of_a_form_of_answer(run: Run, template: Path, tmp_path: Path) -> None:
    schema = tmp_path / "schema.json"
    schema.write_text('{"type": "object", "properties": {"zebra": {"type": "integer"}}, "required": ["zebra"]}')
    assert "zebra" in run("grammar", template, "--schema", schema)[1]


def case(**fields: Any) -> dict[str, Any]:
    request = {"messages": [{"role": "user", "content": "Hi"}], "tools": TOOLS}
    expect = {
        "content": "So.",
        "reasoning_content": "hm",
        "tool_calls": [{"name": "get_weather", "arguments": {"city": "Rome", "days": 2}}],
    }
    return {"id": "a", "template": "ours", "request": request, "output": OUTPUT, "expect": expect, **fields}


def checked(run: Run, folder: Path, *cases: dict[str, Any], options: tuple[str, ...] = ()) -> tuple[int, str, str]:
    path = folder / "cases.jsonl"
    path.write_text("\n".join(json.dumps(each) for each in cases) + "\n")
    return run("check", path, "--templates", folder, *options)


def test_check_passes_what_is_right(run: Run, template: Path, tmp_path: Path) -> None:
    half = case(
        output="<muse>\nhm\n</muse>\n\nSo",
        partial=True,
        expect={"content": "So", "reasoning_content": "hm", "tool_calls": []},
    )
    code, out, _ = checked(run, tmp_path, case(), case(chunks=[OUTPUT[:9], OUTPUT[9:]]), half)
    assert code == 0
    assert out.splitlines()[-1].split() == ["all", "3", "3", "3/3", "3/3", "3/3", "1/1"]
    assert run("check", tmp_path / "cases.jsonl")[:2] == (0, out), "the templates beside the cases"


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ({"content": "No."}, "content\n  - 'No.'\n  + 'So.'"),
        ({"reasoning_content": None}, "reasoning_content"),
        ({"tool_calls": []}, "the calls\n  - none\n  + get_weather"),
        (
            {"tool_calls": [{"name": "get_time", "arguments": {}}]},
            "the name of call 0\n  - 'get_time'\n  + 'get_weather'",
        ),
        (
            {"tool_calls": [{"name": "get_weather", "arguments": {"days": 2, "city": "Rome"}}]},
            "the arguments of call 0",
        ),
        (
            {"tool_calls": [{"name": "get_weather", "arguments": {"city": "Rome", "days": 2}, "id": "x"}]},
            "the id of call 0\n  - 'x'",
        ),
    ],
)
def test_check_fails_what_is_wrong(run: Run, template: Path, tmp_path: Path, wrong: dict[str, Any], said: str) -> None:
    bad = case(expect={**case()["expect"], **wrong})
    code, out, _ = checked(run, tmp_path, case(), bad)
    assert code == 1
    assert said in out
    assert "(whole, bytes, random)" in out
    assert out.splitlines()[-1].split()[1:3] == ["1", "2"]
    code, out, _ = checked(run, tmp_path, bad, options=("--json",))
    assert code == 1
    known = json.loads(out)
    assert known["templates"] == {"ours": {"cases": 1, "passed": 0}}
    assert known["failures"][0]["faults"].keys() == {"whole", "bytes", "random"}
    assert known["failures"][0]["faults"]["whole"].keys() == {"what", "expected", "found"}


def test_check_shows_ten_failures_unless_all_are_wanted(run: Run, template: Path, tmp_path: Path) -> None:
    bad = [case(id=f"case {number}", expect={"content": "No."}) for number in range(12)]
    out = checked(run, tmp_path, *bad)[1]
    assert "2 more cases fail" in out
    assert "case 11" not in out
    assert "case 11" in checked(run, tmp_path, *bad, options=("--failures",))[1]


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ({"id": 1}, "'template' is missing"),
        ([], "it is no object"),
        (case(output=None), "'output' is missing or no text"),
        (case(request={"messages": [], "colour": 1}), "'colour', which no turn takes"),
        (case(expect={"tool_calls": [{"name": "x"}]}), "each with name and arguments"),
        (case(expect={"finish_reason": "stop"}), "'expect' holds 'finish_reason'; compared are content"),
        (case(expect={"content": 5}), "'expect.content' is no text"),
        (case(chunks=[1]), "'chunks' is no list of texts"),
        (case(output="half a pair: \ud800"), "surrogates not allowed"),
    ],
)
def test_check_of_what_is_no_case(run: Run, template: Path, tmp_path: Path, wrong: Any, said: str) -> None:
    code, _, err = checked(run, tmp_path, case(), wrong)
    assert code == 2
    assert "line 2" in err
    assert said in err


def test_check_of_a_template_that_is_not_there(run: Run, template: Path, tmp_path: Path) -> None:
    code, out, _ = checked(run, tmp_path, case(template="other"))
    assert code == 1
    assert "other.jinja" in out
    code, _, err = checked(run, tmp_path, case(), options=("--only", "zzz"))
    assert code == 2
    assert "'zzz'" in err


@pytest.mark.parametrize("named", [True, False])
def test_check_without_any_template_is_one_message_and_no_failure_of_cases(
    run: Run, tmp_path: Path, named: bool
) -> None:
    path = tmp_path / "cases.jsonl"
    path.write_text("".join(json.dumps(case(id=str(number))) + "\n" for number in range(3)))
    code, out, err = run("check", path, *(["--templates", tmp_path] if named else []))
    assert (code, out) == (2, "")
    assert err.count("--templates") == 1
    assert ".jinja" in err


def test_colours_are_for_terminals_that_want_them(
    run: Run, template: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    words = ("render", template, "--user", "Hi", "--parts")
    for name in ("NO_COLOR", "FORCE_COLOR", "TERM"):
        monkeypatch.delenv(name, raising=False)
    assert "«Hi»" in run(*words)[1]
    assert "\x1b" not in run("inspect", template)[1]
    monkeypatch.setenv("TERM", "xterm-256color")
    monkeypatch.setenv("FORCE_COLOR", "1")
    coloured = run(*words)[1]
    assert "«" not in coloured
    assert "\x1b[30;43mHi\x1b[0m" in coloured
    assert "\x1b[32mproven\x1b[0m" in run("inspect", template)[1]
    monkeypatch.setenv("NO_COLOR", "1")
    assert "«Hi»" in run(*words)[1]


def test_models_tells_what_is_there(run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DRAGOMAN_CACHE", str(tmp_path))
    assert "not fetched yet" in run("models")[1]
    (tmp_path / "other.gguf").write_bytes(b"x" * 10)
    found = json.loads(run("models", "--json")[1])["models"]
    assert [(entry["name"], entry["ready"]) for entry in found] == [("SmolLM2-135M-Instruct", False), ("other", True)]


def test_serve_says_what_it_lacks(run: Run) -> None:
    code, _, err = run("serve", "/no/such/model.gguf", "--port", "0")
    assert code == 2
    assert "no model file" in err
    assert run("serve", "x.gguf", "--upstream", "http://127.0.0.1:9", "--port", "0")[0] == 2
    assert run("serve", "--upstream", "http://127.0.0.1:9", "--port", "0")[0] == 1
    with live(Service().app) as address:
        port = address.rsplit(":", 1)[1]
        code, _, err = run("serve", "--port", port)
        assert code == 1
        assert "--port" in err
        code, _, err = run("serve", "--upstream", address, "--port", "0")
        assert code == 2
        assert "is a dragoman itself" in err
    with live(Upstream().app) as address:
        code, _, err = run("serve", "--upstream", address, "--port", "0")
        assert code == 2
        assert "--vocab" in err


def test_what_needs_no_engine_needs_the_core_only(template: Path, tools: Path, tmp_path: Path) -> None:
    """Neither a web framework nor an HTTP client nor a tokenizer library is loaded; other verbs name the extra."""
    (tmp_path / "out.txt").write_text(OUTPUT)
    (tmp_path / "cases.jsonl").write_text(json.dumps(case()) + "\n")
    request = [str(template), "--tools", str(tools)]
    wanted = [
        *(["inspect", str(template), "--grammar"], ["render", *request, "--parts"], ["models"], ["completion", "bash"]),
        ["parse", *request, "--output", str(tmp_path / "out.txt"), "--steps"],
        *(["grammar", *request, "--to", to] for to in ("gbnf", "lark", "response-template", "listing")),
        ["check", str(tmp_path / "cases.jsonl"), "--templates", str(tmp_path)],
        ["bench", str(template), "--tokens", "10", "--turns", "1"],
    ]
    program = (
        "import sys\n"
        "for name in ('starlette', 'uvicorn', 'httpx', 'anyio', 'openai', 'tokenizers', 'transformers', 'xllamacpp',\n"
        "             'pydantic', 'pydantic_settings', 'prometheus_client'):\n"
        "    sys.modules[name] = None\n"
        "from dragoman.cli.main import main\n"
        f"for words in {wanted!r}:\n"
        "    assert main(words) == 0, words\n"
        "for words in (['chat', '-m', 'x'], ['serve', '--port', '0']):\n"
        "    assert main(words) == 2, words\n"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "What was proven" in done.stdout
    assert done.stderr.count("pip install 'dragoman[") == 2


def test_a_reader_that_has_enough_is_no_failure(template: Path) -> None:
    command = f"{sys.executable} -m dragoman inspect {template} | head -c 1"
    done = subprocess.run(["bash", "-c", f"set -o pipefail; {command}"], capture_output=True, text=True, check=False)
    assert done.stderr == ""
