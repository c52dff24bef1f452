"""The clients against a served model: each asks the embedded one for a required call and for a structured answer.

What a model of 135 million parameters says is its own affair; that it is a call of the tool, with arguments that the
schema allows, and that the results of a call can be sent back, is ours.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import threading
from collections.abc import Iterator
from typing import Any, Literal

import pydantic
import pytest

openai = pytest.importorskip("openai")
pytest.importorskip("xllamacpp")

pytestmark = [pytest.mark.filterwarnings("ignore"), pytest.mark.anyio]
# A model's answer takes a second or two of both cores: the usual run asks by one client, make test-clients by all.
ALL = pytest.mark.skipif(not os.environ.get("DRAGOMAN_ALL"), reason="set DRAGOMAN_ALL=1, or make test-clients")
QUESTION = "What is the weather like in Lisbon, in celsius?"


class Weather(pydantic.BaseModel):
    """The current weather of a city."""

    city: str
    unit: Literal["celsius", "fahrenheit"]


PARAMETERS: dict[str, Any] = {**Weather.model_json_schema(), "additionalProperties": False}
TOOL = {"name": "get_weather", "description": "the current weather of a city", "parameters": PARAMETERS}


@pytest.fixture(scope="module")
def address() -> Iterator[str]:
    """Where ``dragoman serve`` answers, a process of its own."""
    command = [sys.executable, "-m", "dragoman", "serve", "--port", "0", "--json"]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    assert process.stdout is not None
    lines = []
    for line in process.stdout:
        lines.append(line)
        found = re.search(r"http://127\.0\.0\.1:\d+", line)
        if found:
            break
    else:
        raise AssertionError("".join(lines))
    drain = threading.Thread(target=process.stdout.read, daemon=True)
    drain.start()
    yield found.group()
    process.terminate()
    process.wait(20)
    drain.join()
    process.stdout.close()


def test_openai_by_both_apis(address: str) -> None:
    with openai.OpenAI(base_url=f"{address}/v1", api_key="any", max_retries=0) as client:
        messages: list[Any] = [{"role": "user", "content": QUESTION}]
        parsed = client.chat.completions.parse(model="m", messages=messages, response_format=Weather)
        assert parsed.choices[0].message.parsed is not None
        choice: dict[str, Any] = {"type": "function", "name": "get_weather"}
        tools: list[Any] = [{"type": "function", **TOOL}]
        with client.responses.stream(model="m", input=QUESTION, tools=tools, tool_choice=choice) as stream:
            first = stream.get_final_response()
        [call] = first.output
        Weather.model_validate_json(call.arguments)
        items: list[Any] = [*messages, call.model_dump(exclude_none=True)]
        items.append({"type": "function_call_output", "call_id": call.call_id, "output": "sunny, 21 degrees"})
        last = client.responses.create(model="m", input=items, max_output_tokens=24)
        assert last.output_text


def test_log_probabilities_of_a_model(address: str) -> None:
    with openai.OpenAI(base_url=f"{address}/v1", api_key="any", max_retries=0) as client:
        answer = client.chat.completions.create(
            model="m",
            messages=[{"role": "user", "content": "Say hello."}],
            logprobs=True,
            top_logprobs=3,
            max_tokens=8,
        ).choices[0]
    told = answer.logprobs.content
    assert (
        b"".join(bytes(entry.bytes) for entry in told).decode(errors="replace").strip()
        == answer.message.content.strip()
    )
    for entry in told:
        assert entry.logprob <= 0
        assert len(entry.top_logprobs) == 3
        assert entry.top_logprobs[0].logprob >= entry.top_logprobs[2].logprob


@ALL
async def test_openai_agents(address: str) -> None:
    agents = pytest.importorskip("agents")
    agents.set_tracing_disabled(True)
    ran: list[Weather] = []

    def get_weather(city: str, unit: Literal["celsius", "fahrenheit"]) -> str:
        """The current weather of a city."""
        ran.append(Weather(city=city, unit=unit))
        return "sunny, 21 degrees"

    async with openai.AsyncOpenAI(base_url=f"{address}/v1", api_key="any", max_retries=0) as client:
        model = agents.OpenAIResponsesModel(model="m", openai_client=client)
        settings = agents.ModelSettings(tool_choice="required", max_tokens=64)
        agent = agents.Agent("a", model=model, tools=[agents.function_tool(get_weather)], model_settings=settings)
        result = await agents.Runner.run(agent, QUESTION, max_turns=3)
    assert len(ran) == 1
    assert result.final_output


@ALL
async def test_pydantic_ai(address: str) -> None:
    pydantic_ai = pytest.importorskip("pydantic_ai")
    from pydantic_ai.models.openai import OpenAIChatModel
    from pydantic_ai.providers.openai import OpenAIProvider

    async with openai.AsyncOpenAI(base_url=f"{address}/v1", api_key="any", max_retries=0) as client:
        model = OpenAIChatModel("m", provider=OpenAIProvider(openai_client=client))
        by_tool = await pydantic_ai.Agent(model, output_type=Weather).run(QUESTION)
        assert isinstance(by_tool.output, Weather)
        async with pydantic_ai.Agent(model, output_type=pydantic_ai.NativeOutput(Weather)).run_stream(QUESTION) as run:
            assert isinstance(await run.get_output(), Weather)


@ALL
def test_langchain(address: str) -> None:
    langchain_openai = pytest.importorskip("langchain_openai")
    with openai.DefaultHttpxClient(trust_env=False) as http:
        place: dict[str, Any] = {"base_url": f"{address}/v1", "api_key": "any", "http_client": http}
        model = langchain_openai.ChatOpenAI(model="m", max_retries=0, **place)
        first, *more = list(model.bind_tools([Weather], tool_choice="any").stream(QUESTION))
        for piece in more:
            first += piece
        [call] = first.tool_calls
        Weather.model_validate(call["args"])
        assert isinstance(model.with_structured_output(Weather).invoke(QUESTION), Weather)


@ALL
def test_anthropic(address: str) -> None:
    anthropic = pytest.importorskip("anthropic")
    tool = {"name": TOOL["name"], "description": TOOL["description"], "input_schema": PARAMETERS}
    asked: dict[str, Any] = {"model": "m", "max_tokens": 100, "messages": [{"role": "user", "content": QUESTION}]}
    with anthropic.Anthropic(base_url=address, api_key="any", max_retries=0) as client:
        choice = {"type": "tool", "name": "get_weather"}
        with client.messages.stream(**asked, tools=[tool], tool_choice=choice) as stream:
            message = stream.get_final_message()
        [block] = message.content
        assert message.stop_reason == "tool_use"
        Weather.model_validate(block.input)
        form = {"format": {"type": "json_schema", "schema": PARAMETERS}}
        answer = client.messages.create(**asked, output_config=form)
        Weather.model_validate_json(answer.content[0].text)
