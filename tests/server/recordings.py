"""Streams as bytes, recorded from the app: what the rules of the wire are held against."""

from __future__ import annotations

import functools
import json
from dataclasses import dataclass
from typing import Any

from tests.server.service import CALL, MESSAGES, SECOND_CALL, TOOLS, Service

REASONING = "<muse>\nhm, é😀\n</muse>\n\n"


@dataclass(frozen=True)
class Scenario:
    """What the model writes, one text for each choice, and how the answer is cut or broken."""

    outputs: tuple[str, ...]
    tokens: int | None = None
    failure: str | None = None

    @property
    def n(self) -> int:
        return len(self.outputs)

    @property
    def sizes(self) -> tuple[int, ...]:
        """In pieces of how many characters the model writes; an answer in one piece cannot be cut off."""
        return (1, 3, 1000) if self.tokens is None else (1, 3)


SCENARIOS = {
    "text": Scenario(("It is sunny.\u2028\r\n",)),
    "nothing": Scenario(("",)),
    "parallel calls": Scenario((CALL + SECOND_CALL + CALL,)),
    "text and call": Scenario(("Let me see." + CALL,)),
    "reasoning and call": Scenario((REASONING + CALL,)),
    "reasoning, text and calls": Scenario((REASONING + "So." + CALL + SECOND_CALL,)),
    "cut-off call": Scenario((CALL,), tokens=22),
    "broken call": Scenario(('<do>\n{"name": "get_weather", "arguments": {"city": oops}}\n</do>',)),
    "error in the middle": Scenario(("Let me see." + CALL,), failure="it broke"),
    "n = 2": Scenario(("Let me see." + CALL + SECOND_CALL, REASONING + "It is sunny.")),
}
PATHS = {"chat": "/v1/chat/completions", "responses": "/v1/responses", "messages": "/v1/messages"}


@functools.cache
def recorded(protocol: str, name: str, size: int) -> bytes:
    """The body of the streamed answer, the model's pieces having ``size`` characters."""
    response = _post(protocol, name, size, stream=True)
    assert response.status_code == 200, response.text
    assert response.headers["content-type"].startswith("text/event-stream")
    body: bytes = response.content
    return body


def whole(protocol: str, name: str) -> dict[str, Any]:
    """The answer that is not streamed."""
    response = _post(protocol, name, 3, stream=False)
    assert response.status_code == 200, response.text
    out: dict[str, Any] = response.json()
    return out


def _post(protocol: str, name: str, size: int, *, stream: bool) -> Any:
    scenario = SCENARIOS[name]
    service = Service(scenario.outputs, size=size, failure=scenario.failure)
    tools = [tool["function"] for tool in TOOLS]
    limit = {} if scenario.tokens is None else {"max_tokens": -(-scenario.tokens * 3 // size)}
    body: dict[str, Any] = {"model": "m", "stream": stream}
    if protocol == "chat":
        options = {"stream_options": {"include_usage": True}} if stream else {}
        body |= {"messages": MESSAGES, "tools": TOOLS, "n": scenario.n, **limit, **options}
    elif protocol == "responses":
        body |= {"input": MESSAGES, "tools": [{"type": "function", **tool} for tool in tools]}
        body |= {} if scenario.tokens is None else {"max_output_tokens": limit["max_tokens"]}
    else:
        theirs = [{"name": tool["name"], "input_schema": tool.get("parameters", {"type": "object"})} for tool in tools]
        body |= {"messages": MESSAGES, "tools": theirs, "max_tokens": 1000, **limit}
    return service.post(body, PATHS[protocol])


def events_of(body: bytes) -> list[tuple[str | None, str]]:
    """(name, data) of each event."""
    out = []
    for block in body.decode("ascii").removesuffix("\n\n").split("\n\n"):
        fields = dict(line.split(": ", 1) for line in block.split("\n"))
        assert set(fields) <= {"event", "data"}
        out.append((fields.get("event"), fields["data"]))
    return out


def objects_of(body: bytes) -> list[dict[str, Any]]:
    """The JSON of each event, the closing word of chat streams left out."""
    return [json.loads(data) for _, data in events_of(body) if data != "[DONE]"]
