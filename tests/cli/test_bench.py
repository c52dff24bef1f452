"""``dragoman bench``: it measures what it says, and only what is right. No time is asserted."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from dragoman.cli import measuring
from dragoman.cli.main import main
from dragoman.format import ChatFormat
from tests.server.service import TEMPLATE, chat_format
from tests.vocabularies import small_tokenizer

BARE = (
    "{% for m in messages %}[{{ m.role }}]{{ m.content }}{% endfor %}"
    "{% if add_generation_prompt %}[assistant]{% endif %}"
)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    marks = [{"content": text, "special": True} for text in ("<|from|>", "<|fin|>", "<|pad|>")]
    (tmp_path / "tokenizer.json").write_text(json.dumps(small_tokenizer(marks)))
    (tmp_path / "tokenizer_config.json").write_text(json.dumps({"chat_template": TEMPLATE, "eos_token": "<|fin|>"}))
    (tmp_path / "bare.jinja").write_text(BARE)
    return tmp_path


def measured(capsys: pytest.CaptureFixture[str], *words: object) -> Any:
    assert main(["bench", *map(str, words), "--tokens", "40", "--turns", "2", "--json"]) == 0
    return json.loads(capsys.readouterr().out)


def test_all_is_measured_with_a_vocabulary(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    shown = measured(capsys, folder)
    assert shown["template_hash"] == chat_format().template_hash
    assert shown["reading"]["small"]["calls"] == shown["reading"]["large"]["calls"] == 1
    assert 6 < shown["reading"]["growth"]["size"] <= 10, "the markers grow with nothing"
    assert shown["prompt"]["large"]["tokens"] > shown["prompt"]["small"]["tokens"] > 0
    masks = shown["masks"]
    assert masks["steps"] == masks["of_tokens"] > 0, "the grammar takes the whole call"
    assert masks["first"]["max_us"] >= masks["first"]["p50_us"] > 0


def test_masks_need_a_vocabulary(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert measured(capsys, folder / "bare.jinja")["masks"] is None
    assert measured(capsys, folder / "bare.jinja", "--vocab", folder)["masks"]["vocabulary"] > 256
    assert main(["bench", str(folder / "bare.jinja"), "--tokens", "40", "--turns", "2"]) == 0
    out = capsys.readouterr().out
    assert "name one with --vocab" in out
    assert "times the size took" in out
    for words in (["--vocab", str(folder / "nothing")], ["--tokens", "0"], ["--turns", "-1"]):
        assert main(["bench", str(folder / "bare.jinja"), *words]) == 2
        assert words[0] in capsys.readouterr().err


def test_the_call_that_is_read_is_one(folder: Path) -> None:
    for fmt in (chat_format(), ChatFormat.from_template(TEMPLATE), ChatFormat.from_name("chatml")):
        output = measuring.make_output(fmt, 50)
        assert output.calls == 1
        turn = measuring._turn(fmt)
        for piece in output.pieces:
            turn.feed(piece)
        turn.finish()
        [call] = turn.message.tool_calls
        assert json.loads(call.arguments)["city"].startswith("the harbour lies")
