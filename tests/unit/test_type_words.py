"""A word beside the key that says whether a value is a string: read as said where the schema leaves it open."""

from __future__ import annotations

import json
from typing import Any

import pytest

from dragoman.format import ChatFormat
from dragoman.grammar.compile import compile_writer
from tests import learned_templates as own
from tests.dialects import can_write
from tests.template_corpus import shared
from tests.toolsets import tool

USER = [{"role": "user", "content": "Hi"}]
UNION = {"anyOf": [{"type": "string"}, {"type": "integer"}]}
TOOLS = [
    tool(
        "f",
        {"u": UNION, "n": {"type": ["string", "null"]}, "i": {"type": "integer"}, "o": {"type": "object"}, "any": {}},
    )
]
# A word for strings only, as a flag.
FLAG = own.TYPED_TAGS.replace('" t="', '" string="').replace("+ kind(v) +", "+ ('true' if v is string else 'false') +")


def read(source: str, key: str, word: str, value: str) -> Any:
    attribute = "string" if source is FLAG else "t"
    turn = ChatFormat.from_template(source).turn(USER, TOOLS)
    turn.feed(f'<kul n="f"><a k="{key}" {attribute}="{word}">{value}</a></kul>')
    turn.finish()
    assert turn.message.problems == ()
    return json.loads(turn.message.tool_calls[0].arguments)[key]


@pytest.mark.parametrize(
    ("key", "string", "value", "expected"),
    [
        ("u", True, "7", "7"),
        ("u", False, "7", 7),
        ("n", True, "null", "null"),
        ("n", False, "null", None),
        ("undeclared", True, "5", "5"),
        ("undeclared", False, "5", 5),
        ("undeclared", True, '{"a": 1}', '{"a": 1}'),
        ("any", True, "true", "true"),
        ("any", False, "[1, 2]", [1, 2]),
        # What is declared as no string is none, whatever the word says.
        ("i", True, "7", 7),
        ("o", True, '{"a": 1}', {"a": 1}),
    ],
)
def test_a_word_tells_a_string(key: str, string: bool, value: str, expected: Any) -> None:
    assert read(FLAG, key, "true" if string else "false", value) == expected
    assert read(own.TYPED_TAGS, key, "string" if string else "number", value) == expected


def test_a_word_that_nobody_knows_tells_nothing() -> None:
    assert read(own.TYPED_TAGS, "u", "strings", "7") == 7
    assert read(own.TYPED_TAGS, "u", "str", "seven") == "seven"


def test_a_string_streams_as_soon_as_the_word_is_read() -> None:
    turn = ChatFormat.from_template(FLAG).turn(USER, TOOLS)
    for char in '<kul n="f"><a k="u" string="true">12':
        turn.feed(char)
    assert turn.message.tool_calls[0].arguments == '{"u": "12'


@pytest.mark.parametrize(
    ("word", "value", "may"),
    [
        ("true", "7", True),
        ("true", "null", True),
        ("true", "seven", True),
        ("false", "7", True),
        ("false", "seven", False),
        ("false", '"7"', False),
    ],
)
def test_word_and_value_are_written_together(word: str, value: str, may: bool) -> None:
    turn = ChatFormat.from_template(FLAG).turn(USER, [tool("f", {"u": UNION}, ["u"])], "required")
    program = compile_writer(turn.format.writer(turn.request))
    assert can_write(program, f'<kul n="f"><a k="u" string="{word}">{value}</a></kul>') is may


@pytest.mark.parametrize("name", ["Kimi-K3", "deepseek-ai-DeepSeek-V3.2"])
@pytest.mark.parametrize("arguments", [{"u": "7"}, {"u": 7}, {"n": "null", "x": "5"}, {"x": 5, "any": "[]"}])
def test_a_history_of_unions_is_read_back(name: str, arguments: dict[str, Any]) -> None:
    path = shared(f"templates/{name}.jinja")
    if path is None:
        pytest.skip("the shared corpus is not at hand")
    fmt = ChatFormat.from_template(path.read_text("utf-8"))
    call = {"id": "Call00001", "type": "function", "function": {"name": "f", "arguments": arguments}}
    said = [*USER, {"role": "assistant", "content": "", "tool_calls": [call]}]
    whole = fmt.turn(said, TOOLS, add_generation_prompt=False, enable_thinking=False).prompt.text
    turn = fmt.turn(USER, TOOLS, enable_thinking=False)
    turn.feed(whole[whole.rindex(fmt.profile.assistant_header) + len(fmt.profile.assistant_header) :])
    turn.finish()
    assert json.loads(turn.message.tool_calls[0].arguments) == arguments
