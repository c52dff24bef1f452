"""The real llama.cpp server under our masks, token by token: well-formed calls and answers of the embedded model."""

from __future__ import annotations

import argparse
import asyncio
import json
from typing import Any

import jsonschema  # type: ignore[import-untyped]
import pytest

from dragoman.chat import Message
from dragoman.cli.engines import _stepped, add_engine, open_engine
from dragoman.engine import Engine, Generation, Sampling
from dragoman.engines.embedded import Embedded, EmbeddedSettings
from dragoman.engines.llama_stepping import SteppedLlamaServer
from dragoman.engines.scripted import Scripted
from dragoman.errors import UsageError
from dragoman.format import ChatFormat
from dragoman.turn import Turn
from tests.vocabularies import smollm2_gguf


def tool(name: str, description: str, properties: dict[str, Any]) -> dict[str, Any]:
    parameters = {"type": "object", "properties": properties, "required": list(properties)}
    closed = {**parameters, "additionalProperties": False}
    return {"type": "function", "function": {"name": name, "description": description, "parameters": closed}}


TOOLS = [
    tool(
        "get_weather", "Weather of a city", {"city": {"type": "string", "maxLength": 24}, "unit": {"enum": ["C", "F"]}}
    ),
    tool(
        "add", "Add two numbers", {"a": {"type": "integer", "maximum": 999}, "b": {"type": "integer", "maximum": 999}}
    ),
]
QUESTIONS = ("What is the weather in Paris?", "Add 3 and 4.", "Is it warm in Rome, in F?")
CITY = {
    "type": "object",
    "properties": {
        "city": {"type": "string", "maxLength": 20},
        "people": {"type": "integer", "minimum": 0, "maximum": 99},
    },
    "required": ["city", "people"],
    "additionalProperties": False,
}


async def answered(engine: Engine, turn: Turn, **more: Any) -> tuple[Message, int, int]:
    """(the message, tokens written, tokens that were asked for)."""
    request = Generation(
        turn.prompt.token_ids,
        turn.prompt.text,
        stops=turn.stops,
        preserved_tokens=turn.preserved_tokens,
        constraint=turn.constraint,
        sampling=Sampling(max_tokens=160, seed=1, **more),
    )
    pieces = 0
    async for chunk in engine.generate(request):
        pieces += 1
        if chunk.text:
            turn.feed(chunk.text)
        if chunk.finish:
            turn.finish(chunk.finish)
            assert chunk.finish == "stop"
            written = chunk.completion_tokens or 0
    return turn.message, written, pieces


def test_calls_and_answers_of_the_embedded_model_are_well_formed() -> None:
    pytest.importorskip("xllamacpp")
    fmt = ChatFormat.from_gguf(smollm2_gguf())
    assert fmt.vocab is not None

    async def ask() -> None:
        assert fmt.vocab is not None
        engine = SteppedLlamaServer(
            Embedded.start(smollm2_gguf(), settings=EmbeddedSettings(prompt_threads=1)), fmt.vocab
        )
        assert (await engine.info()).takes_masks
        for question in QUESTIONS:
            for temperature in (0.0, 0.8):
                messages = [{"role": "user", "content": question}]
                turn = fmt.turn(messages, TOOLS, tool_choice="required", parallel_tool_calls=False)
                message, written, pieces = await answered(engine, turn, temperature=temperature)
                assert message.problems == ()
                (call,) = message.tool_calls
                schema = next(t["function"]["parameters"] for t in TOOLS if t["function"]["name"] == call.name)
                jsonschema.validate(json.loads(call.arguments), schema)
                assert pieces < written  # what is forced came together
        form = {"type": "json_schema", "json_schema": {"name": "city", "schema": CITY}}
        turn = fmt.turn([{"role": "user", "content": "Tell me of a city."}], response_format=form)
        message, _, _ = await answered(engine, turn, temperature=0.0)
        jsonschema.validate(json.loads(message.content), CITY)
        await engine.aclose()

    asyncio.run(ask())


def test_the_command_line_can_ask_for_it() -> None:
    pytest.importorskip("xllamacpp")
    parser = argparse.ArgumentParser()
    add_engine(parser)

    async def ask() -> None:
        opened = open_engine(parser.parse_args([str(smollm2_gguf()), "--masks"]))
        assert isinstance(opened.engine, SteppedLlamaServer)
        assert (await opened.engine.info()).takes_masks
        await opened.engine.aclose()

    asyncio.run(ask())


def test_masks_are_for_llama_servers() -> None:
    fmt = ChatFormat.from_template("{{ messages }}")
    with pytest.raises(UsageError) as raised:
        _stepped(Scripted(["x"]), fmt)
    assert raised.value.param == "--masks"
