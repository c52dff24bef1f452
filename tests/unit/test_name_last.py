"""Calls whose arguments stand before the name: until it is read they may still be text, and their strings are data."""

from __future__ import annotations

import json

import pytest

from dragoman.format import ChatFormat
from tests import learned_templates as own
from tests.toolsets import STRINGS, tool

USER = [{"role": "user", "content": "Hi"}]
TOOLS = [*STRINGS, tool("save", {"what": {"type": "object", "properties": {}}, "list": {"type": "array"}})]


@pytest.mark.parametrize("size", [1, 3, 1000])
@pytest.mark.parametrize("text", ["a<|zoff|>b", "<|zoff|>", "</kul>", "<mull>", "</mull>", "a</mull>\n<|zoff|><kul>"])
@pytest.mark.parametrize("shape", ["{}", '{{"what": {{"deep": [{}]}}}}', '{{"list": ["x", {}]}}'])
@pytest.mark.parametrize("lead", ["", "Let me see. ", "<mull>\nWell", "<mull>\nWell\n</mull>\n\n"])
def test_what_ends_a_turn_or_reasoning_is_data_in_its_strings(lead: str, shape: str, text: str, size: int) -> None:
    fmt = ChatFormat.from_template(own.REASONING)
    arguments = shape.format(json.dumps(text)) if shape != "{}" else json.dumps({"city": text})
    written = f'{lead}<kul>{{"arguments": {arguments}, "name": "get_weather"}}</kul><|zoff|>'
    turn = fmt.turn(USER, TOOLS, id_seed=1)
    for at in range(0, len(written), size):
        turn.feed(written[at : at + size])
    turn.finish()
    message = turn.message
    assert [(call.name, call.arguments) for call in message.tool_calls] == [("get_weather", arguments)]
    assert message.content.strip() == ("Let me see." if lead.startswith("L") else "")
    assert message.reasoning_content.strip() == ("Well" if "Well" in lead else "")
    assert (turn.ended, message.problems) == (True, ())


def test_a_turn_that_ends_in_such_a_string_is_a_cut_call() -> None:
    turn = ChatFormat.from_template(own.JSON_IN_TAGS).turn(USER, TOOLS)
    turn.feed('<qor>\n{"arguments": {"city": "a<|zoff|>')
    turn.finish()
    assert turn.message.content == ""
    assert turn.message.tool_calls == ()
    assert [problem.code for problem in turn.message.problems] == ["truncated"]
    assert '{"arguments": {"city": "a' in turn.message.problems[0].message
