"""Options of a turn that shape its prompt: built-in formats, going on with a message, variables, placeholders."""

from __future__ import annotations

from typing import Any

import pytest

from dragoman import ChatFormat
from dragoman.errors import UsageError
from dragoman.template.catalogue import NAMES

USER = {"role": "user", "content": "Hi"}
TALK = [
    {"role": "system", "content": "Sys"},
    USER,
    {"role": "assistant", "content": "Yo"},
    {"role": "user", "content": "More"},
]
THINK = """{% for m in messages %}{{ '<|' + m.role + '|>' }}
{%- if m.reasoning_content %}<think>{{ m.reasoning_content }}</think>{% endif %}{{ m.content }}<|end|>{% endfor %}
{%- if add_generation_prompt %}<|assistant|>{% if enable_thinking is false %}<think></think>{% endif %}{% endif %}
{%- if reasoning_effort %}<!--{{ reasoning_effort }}-->{% endif %}"""


@pytest.mark.parametrize("name", NAMES)
def test_a_built_in_format_writes_all_messages_and_is_read_back(name: str) -> None:
    fmt = ChatFormat.from_name(name)
    turn = fmt.turn(TALK)
    text = turn.prompt.text
    places = [text.index(word) for word in ("Sys", "Hi", "Yo", "More")]
    assert places == sorted(places)
    bos = fmt.template.bos_token
    if bos and bos in text:
        assert text.count(bos) == (2 if name == "llama2" else 1)  # one for each exchange
        assert text.startswith(bos)
    assert fmt.proof["content"] == "proven"
    turn.feed("Fine." + turn.stops[0])
    turn.finish()
    assert turn.message.content == "Fine."


def test_a_built_in_format_takes_tools_by_the_generic_dialect() -> None:
    tool = {"type": "function", "function": {"name": "f", "parameters": {"type": "object", "properties": {}}}}
    turn = ChatFormat.from_name("ChatML").turn([USER], [tool])
    assert "f()" in turn.prompt.text
    turn.feed('<tool_call>\n{"name": "f", "arguments": {}}\n</tool_call>')
    turn.finish()
    assert turn.message.tool_calls[0].name == "f"


def test_other_tokens_and_unknown_names() -> None:
    assert ChatFormat.from_name("mistral", bos_token="<B>").turn([USER]).prompt.text.startswith("<B>[INST]")
    with pytest.raises(UsageError, match="no built-in format is named 'x'; there are alpaca, chatml"):
        ChatFormat.from_name("x")


def going_on(**message: Any) -> list[dict[str, Any]]:
    return [USER, {"role": "assistant", **message}]


@pytest.mark.parametrize(
    ("message", "options", "tail"),
    [
        ({"content": "He"}, {"continue_final_message": True}, "<|assistant|>He"),
        ({"content": "", "reasoning": "Hm"}, {"continue_final_message": True}, "<|assistant|><think>Hm"),
        ({"content": "He", "reasoning": "Hm"}, {"continue_final_message": True}, "<think>Hm</think>He"),
        ({"content": "He", "reasoning": "Hm"}, {"continue_final_message": "reasoning_content"}, "<think>Hm"),
        ({"content": "He"}, {"prefill_assistant": True}, "<|assistant|>He"),
        ({"content": "He"}, {}, "<|assistant|>He<|end|><|assistant|>"),
        ({"content": "He"}, {"continue_final_message": True, "enable_thinking": False}, "<think></think>He"),
        # The block that the prompt closed is no second one.
        (
            {"content": "", "reasoning": "Hm"},
            {"continue_final_message": True, "enable_thinking": False},
            "<|end|><|assistant|><think>Hm",
        ),
    ],
)
def test_going_on_with_a_message(message: dict[str, Any], options: dict[str, Any], tail: str) -> None:
    turn = ChatFormat.from_template(THINK).turn(going_on(**message), **options)
    assert turn.prompt.text.endswith(tail)
    assert turn.prompt.text.endswith(turn.generation_prompt)
    assert turn.generation_prompt.startswith("<|assistant|>")


@pytest.mark.parametrize("echo", [False, True])
def test_what_follows_is_read_from_where_the_prompt_ends(echo: bool) -> None:
    fmt = ChatFormat.from_template(THINK)
    turn = fmt.turn(going_on(content="", reasoning="Hm"), continue_final_message=True, echo=echo)
    turn.feed(", yes</think>Hello<|end|>")
    turn.finish()
    assert turn.message.reasoning_content == ("Hm, yes" if echo else ", yes")
    assert turn.message.content == "Hello"


def test_what_cannot_be_gone_on_with() -> None:
    fmt = ChatFormat.from_template(THINK)
    two = [*going_on(content="a"), {"role": "assistant", "content": "b"}]
    with pytest.raises(UsageError, match="two messages of the assistant") as caught:
        fmt.turn(two, prefill_assistant=True)
    assert caught.value.param == "messages[2]"
    with pytest.raises(UsageError, match="only a last message of the assistant"):
        fmt.turn([USER], continue_final_message=True)
    assert fmt.turn([USER], prefill_assistant=True).prompt.text.endswith("<|assistant|>")


def test_without_a_generation_prompt() -> None:
    turn = ChatFormat.from_template(THINK).turn(TALK, add_generation_prompt=False)
    assert turn.prompt.text.endswith("More<|end|>")
    assert turn.generation_prompt == ""


@pytest.mark.parametrize(
    "name", ["messages", "tools", "add_generation_prompt", "bos_token", "eos_token", "chat_template", "raise_exception"]
)
def test_a_request_cannot_replace_what_is_not_a_variable(name: str) -> None:
    fmt = ChatFormat.from_template(THINK)
    with pytest.raises(UsageError, match=f"may not set '{name}'"):
        fmt.turn([USER], chat_template_kwargs={name: "x"})
    with pytest.raises(UsageError, match=f"may not set '{name}'"):
        fmt.with_defaults(variables={name: "x"})


@pytest.mark.parametrize("name", ["enable_thinking", "preserve_reasoning"])
def test_a_switch_is_a_boolean(name: str) -> None:
    with pytest.raises(UsageError, match=f"chat_template_kwargs.{name} must be a boolean, not 'false'"):
        ChatFormat.from_template(THINK).turn([USER], chat_template_kwargs={name: "false"})


def test_a_requests_variables_win_over_the_defaults() -> None:
    fmt = ChatFormat.from_template(THINK).with_defaults(variables={"enable_thinking": False, "reasoning_effort": "low"})
    closed = "<|assistant|><think></think>"
    assert fmt.turn([USER]).prompt.text.endswith(closed + "<!--low-->")
    assert fmt.turn([USER], enable_thinking=True).prompt.text.endswith("<|assistant|><!--low-->")
    own = {"enable_thinking": True, "reasoning_effort": "high"}
    assert fmt.turn([USER], chat_template_kwargs=own).prompt.text.endswith("<|assistant|><!--high-->")
    assert ChatFormat.from_template(THINK).turn([USER], reasoning_effort="none").prompt.text.endswith(closed)
    assert fmt.with_vocab(None).turn([USER]).prompt.text.endswith("<!--low-->")


def test_the_response_format_reaches_a_template_that_reads_it() -> None:
    source = THINK + "{% if response_format %}[{{ response_format.type }}]{% endif %}"
    turn = ChatFormat.from_template(source).turn([USER], response_format={"type": "json_object"})
    assert turn.prompt.text.endswith("[json_object]")
    assert ("json_object", True) in turn.prompt.parts


def test_a_placeholder_for_media() -> None:
    user = {
        "role": "user",
        "content": [{"type": "text", "text": "See "}, {"type": "image_url", "image_url": {"url": "x"}}],
    }
    fmt = ChatFormat.from_template(THINK)
    with pytest.raises(UsageError, match="give media_placeholder"):
        fmt.turn([user])
    assert "<|user|>See <M><|end|>" in fmt.turn([user], media_placeholder="<M>").prompt.text
    assert "See <M>" in fmt.with_defaults(media_placeholder="<M>").turn([user]).prompt.text
