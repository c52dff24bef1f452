"""A server for tests: a chat format learned from a template of our own, and an engine that writes from a script."""

from __future__ import annotations

import functools
import json
from collections.abc import Iterable
from typing import Any

from starlette.testclient import TestClient

from dragoman.engine import EngineInfo, ModelSettings
from dragoman.engines.scripted import Answer, Scripted
from dragoman.format import ChatFormat
from dragoman.server.app import create_app
from dragoman.vocab import Vocabulary
from tests.vocabularies import small_tokenizer

TEMPLATE = """
{%- if tools -%}
{{ '<|from|>system\\nTools:' }}{% for tool in tools %}{{ '\\n' + tool | tojson }}{% endfor %}{{ '<|fin|>\\n' }}
{%- endif -%}
{%- for message in messages -%}
{{ '<|from|>' + message.role + '\\n' }}
{%- if message.reasoning_content -%}{{ '<muse>\\n' + message.reasoning_content + '\\n</muse>\\n\\n' }}{%- endif -%}
{{ message.content or '' }}
{%- for call in message.tool_calls or [] -%}
{{ '\\n<do>\\n{"name": ' + call.function.name | tojson + ', "arguments": ' }}
{{- call.function.arguments | tojson + '}\\n</do>' }}
{%- endfor -%}
{{ '<|fin|>\\n' }}
{%- endfor -%}
{%- if add_generation_prompt -%}{{ '<|from|>assistant\\n' }}{%- endif -%}
"""

TOOLS: list[dict[str, Any]] = [
    {
        "type": "function",
        "function": {
            "name": "get_weather",
            "description": "the weather of a city",
            "parameters": {
                "type": "object",
                "properties": {"city": {"type": "string"}, "days": {"type": "integer"}},
                "required": ["city"],
                "additionalProperties": False,
            },
        },
    },
    {"type": "function", "function": {"name": "get_time"}},
]
MESSAGES = [{"role": "user", "content": "What is the weather in Rome?"}]
CALL = '\n<do>\n{"name": "get_weather", "arguments": {"city": "Rome", "days": 2}}\n</do>'
SECOND_CALL = '\n<do>\n{"name": "get_time", "arguments": {}}\n</do>'
CLOCK = 1_750_000_000.0
INFO = EngineInfo(model="scripted", grammar_forms=("gbnf",), gives_logprobs=True)


@functools.lru_cache(maxsize=1)
def chat_format() -> ChatFormat:
    marks = [{"content": text, "special": True} for text in ("<|from|>", "<|fin|>", "<|pad|>")]
    vocab = Vocabulary.from_tokenizer_json(small_tokenizer(marks))
    return ChatFormat.from_template(TEMPLATE, eos_token="<|fin|>", vocab=vocab)


class Service:
    """One app with its engine; ``post`` asks it without a socket."""

    def __init__(
        self,
        answers: Iterable[Answer] = (),
        *,
        engine: Any = None,
        settings: ModelSettings | None = None,
        fmt: ChatFormat | None = None,
        info: EngineInfo = INFO,
        **scripted: Any,
    ) -> None:
        self.engine = engine or Scripted(list(answers), info=info, **scripted)
        self.app = create_app(
            fmt or chat_format(),
            self.engine,
            model="m",
            settings=settings or ModelSettings(),
            clock=lambda: CLOCK,
            new_id=lambda: "1",
        )
        self.client = TestClient(self.app, raise_server_exceptions=False)

    def post(self, body: Any, path: str = "/v1/chat/completions") -> Any:
        return self.client.post(path, content=body if isinstance(body, bytes) else json.dumps(body))

    def chat(self, **fields: Any) -> Any:
        """The answer to MESSAGES with these fields."""
        return self.post({"messages": MESSAGES, **fields})

    def stream(self, **fields: Any) -> list[dict[str, Any]]:
        """The chunks of the streamed answer."""
        response = self.chat(stream=True, **fields)
        assert response.status_code == 200, response.text
        return chunks_of(response.content)


def chunks_of(body: bytes) -> list[dict[str, Any]]:
    """The JSON of each event; every rule of the framing is asserted on the way."""
    assert body.isascii()
    *events, rest = body.split(b"\n\n")
    assert rest == b""
    assert events.pop() == b"data: [DONE]"
    out = []
    for event in events:
        assert event.startswith(b"data: ")
        assert b"\n" not in event
        out.append(json.loads(event[len(b"data: ") :]))
    return out
