"""What the server gave as an answer can be handed back as history, whatever a model wrote into a call."""

from __future__ import annotations

from typing import Any

import pytest

from tests.server.service import MESSAGES, TOOLS, Service

WRITTEN = [
    r'{"city": "\ud83d"}',
    r'{"city": "\ude00x", "\ud83d": 1}',
    r'{"city": "\ud83d\ude00"}',
    r'{"city": "\\ud83d"}',
    r'{"city": "\ud83d',
    '{"city": NaN}',
    '{"days": 1e999}',
    f'{{"days": {"9" * 5000}}}',
    '{"city": "a\nb"}',
    '{"city": oops}',
    '{"c',
    "[1]",
    "null",
]


@pytest.mark.parametrize("arguments", WRITTEN)
def test_a_call_goes_back_as_it_came(arguments: str) -> None:
    text = f'\n<do>\n{{"name": "get_weather", "arguments": {arguments}}}\n</do>'
    service = Service([text, "Ok.", "Ok."])
    message = service.chat(tools=TOOLS).json()["choices"][0]["message"]
    [call] = message["tool_calls"]
    result = {"role": "tool", "tool_call_id": call["id"], "content": "wrong arguments"}
    response = service.chat(messages=[*MESSAGES, message, result], tools=TOOLS)
    assert response.status_code == 200, response.text
    items: list[Any] = [
        *MESSAGES,
        {"type": "function_call", "call_id": call["id"], **call["function"]},
        {"type": "function_call_output", "call_id": call["id"], "output": "wrong arguments"},
    ]
    flat = [{"type": "function", **tool["function"]} for tool in TOOLS]
    response = service.post({"input": items, "tools": flat}, "/v1/responses")
    assert response.status_code == 200, response.text


def test_half_a_pair_is_the_replacement_character_and_a_pair_stays() -> None:
    service = Service(["Ok."])
    written = r'{"city": "a\ud83db\ude00\ud83d\ude00\\ud83d"}'
    call = {"id": "c1", "type": "function", "function": {"name": "get_weather", "arguments": written}}
    turn = {"role": "assistant", "content": None, "tool_calls": [call]}
    result = {"role": "tool", "tool_call_id": "c1", "content": "x"}
    assert service.chat(messages=[*MESSAGES, turn, result], tools=TOOLS).status_code == 200
    prompt = service.engine.record.requests[0].prompt_text
    assert r'{"city": "a' + "\ufffdb\ufffd\U0001f600" + r'\\ud83d"}' in prompt
