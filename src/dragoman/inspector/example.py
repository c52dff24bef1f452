"""A conversation that shows all that a template can write, and what is left of it for templates that refuse parts."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from typing import Any

from dragoman.errors import DragomanError
from dragoman.format import ChatFormat
from dragoman.turn import Turn

QUESTION = "What is the weather like in Lisbon right now, in celsius?"
# The tools that everything shows that needs some: this example, the page, the demo, the line that `serve` prints.
WEATHER: dict[str, Any] = {
    "type": "function",
    "function": {
        "name": "get_weather",
        "description": "the current weather of a city",
        "parameters": {
            "type": "object",
            "properties": {
                "city": {"type": "string"},
                "unit": {"type": "string", "enum": ["celsius", "fahrenheit"]},
            },
            "required": ["city", "unit"],
            "additionalProperties": False,
        },
    },
}
TOOLS: list[dict[str, Any]] = [
    WEATHER,
    {
        "type": "function",
        "function": {
            "name": "send_message",
            "description": "send a text message to a person",
            "parameters": {
                "type": "object",
                "properties": {"to": {"type": "string"}, "text": {"type": "string"}},
                "required": ["to", "text"],
                "additionalProperties": False,
            },
        },
    },
]
_SYSTEM = {"role": "system", "content": "Answer in one sentence."}
_QUESTION = {"role": "user", "content": QUESTION}
_CALL = {
    "role": "assistant",
    "content": "",
    "reasoning_content": "I should look it up.",
    "tool_calls": [
        {
            "id": "a1B2c3D4e",
            "type": "function",
            "function": {"name": "get_weather", "arguments": '{"city": "Lisbon", "unit": "celsius"}'},
        }
    ],
}
_RESULT = {"role": "tool", "tool_call_id": "a1B2c3D4e", "name": "get_weather", "content": '{"sky": "clear"}'}
_ANSWER = {"role": "assistant", "content": "The sky is clear."}
_MORE = {"role": "user", "content": "And tomorrow?"}


def example_turn(fmt: ChatFormat) -> tuple[Turn, dict[str, Any]]:
    """(turn, request) of the fullest example that the template renders. Raises: what the plainest one raises."""
    failure: DragomanError | None = None
    for request in _requests():
        try:
            return fmt.turn(**copy.deepcopy(request), id_seed=0), request
        except DragomanError as error:
            failure = error
    assert failure is not None
    raise failure


def _requests() -> Iterator[dict[str, Any]]:
    """From all to the least."""
    for system in ([_SYSTEM], []):
        for tail in ([], [_ANSWER, _MORE]):
            yield {"messages": [*system, _QUESTION, _CALL, _RESULT, *tail], "tools": TOOLS}
        yield {"messages": [*system, _QUESTION], "tools": TOOLS}
    yield {"messages": [_QUESTION]}
