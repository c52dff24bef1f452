"""The format that a command line names in place of the model's own."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

import pytest

from dragoman import ChatFormat
from dragoman.cli.engines import _built_in, _with_defaults, add_engine
from dragoman.cli.main import main
from dragoman.errors import TemplateError, UsageError
from tests.vocabularies import gguf_tokenizer, small_tokenizer

USER = {"role": "user", "content": "Hi"}


def arguments(*words: str) -> argparse.Namespace:
    parser = argparse.ArgumentParser()
    add_engine(parser)
    return parser.parse_args(words)


def test_a_built_in_format_is_a_template(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["render", "chatml", "--user", "Hi"]) == 0
    assert capsys.readouterr().out.endswith("<|im_start|>user\nHi<|im_end|>\n<|im_start|>assistant\n")


@pytest.mark.parametrize(
    ("words", "name"),
    [((), None), (("--chat-template", "llama3"), "llama3"), (("--no-jinja",), "chatml")],
)
def test_the_format_in_place_of_the_models(words: tuple[str, ...], name: str | None) -> None:
    assert _built_in(arguments(*words)) == name


def test_two_templates_are_refused() -> None:
    with pytest.raises(UsageError, match="not both"):
        _built_in(arguments("--template", "a.jinja", "--no-jinja"))


def test_defaults_of_requests() -> None:
    template = "{% for m in messages %}<|{{ m.role }}|>{{ m.content }}<|end|>{% endfor %}[{{ mood }}]"
    fmt = ChatFormat.from_template(template)
    given = _with_defaults(fmt, arguments("--chat-template-kwargs", '{"mood": "good"}'))
    assert given.turn([USER]).prompt.text.endswith("[good]")
    assert given.defaults.prefill_assistant is True
    assert _with_defaults(fmt, arguments("--no-prefill-assistant")).defaults.prefill_assistant is False
    with pytest.raises(UsageError, match="--chat-template-kwargs is no JSON"):
        _with_defaults(fmt, arguments("--chat-template-kwargs", "{"))
    with pytest.raises(UsageError, match="may not set 'messages'"):
        _with_defaults(fmt, arguments("--chat-template-kwargs", '{"messages": []}'))


def test_a_gguf_file_without_a_template(tmp_path: Path) -> None:
    added: list[dict[str, Any]] = [{"content": text, "special": True} for text in ("<|im_start|>", "<|im_end|>")]
    path = tmp_path / "model.gguf"
    path.write_bytes(gguf_tokenizer(small_tokenizer(added)))
    with pytest.raises(TemplateError, match="name a built-in format: alpaca, chatml"):
        ChatFormat.from_gguf(path)
    prompt = ChatFormat.from_gguf(path, name="chatml").turn([USER]).prompt
    assert prompt.text == "<|im_start|>user\nHi<|im_end|>\n<|im_start|>assistant\n"
    assert prompt.token_ids
