"""Each rule that clients of the Responses API break on, held on recorded bytes of each kind of answer."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from tests.server.recordings import SCENARIOS, Scenario, events_of, objects_of, recorded, whole
from tests.server.service import MESSAGES, TOOLS, Service

ALONE = [name for name, scenario in SCENARIOS.items() if scenario.n == 1]  # this API knows no n
Rule = Callable[[list[dict[str, Any]], Scenario], None]


def names(events: list[dict[str, Any]], scenario: Scenario) -> None:
    """It begins with response.created and in_progress and ends with one of the three endings."""
    kinds = [event["type"] for event in events]
    assert kinds[:2] == ["response.created", "response.in_progress"]
    ending = "failed" if scenario.failure else "incomplete" if scenario.tokens else "completed"
    assert kinds[-1] == f"response.{ending}"
    endings = ("response.completed", "response.incomplete", "response.failed")
    assert sum(kinds.count(each) for each in endings) == 1
    assert ("error" in kinds) == (scenario.failure is not None)


def numbers(events: list[dict[str, Any]], scenario: Scenario) -> None:
    """Every event has the next number."""
    assert [event["sequence_number"] for event in events] == list(range(len(events)))


def identity(events: list[dict[str, Any]], scenario: Scenario) -> None:
    """Every response in the stream has one id, every item has one id from its beginning to its end."""
    assert len({event["response"]["id"] for event in events if "response" in event}) == 1
    added = {each["output_index"]: each["item"] for each in events if each["type"] == "response.output_item.added"}
    assert len({item["id"] for item in added.values()}) == len(added)
    for event in events:
        if "item_id" in event:
            assert event["item_id"] == added[event["output_index"]]["id"]
        if event["type"] == "response.output_item.done":
            begun = added[event["output_index"]]
            same = ("id", "type", "call_id", "name", "role")
            assert [event["item"].get(key) for key in same] == [begun.get(key) for key in same]


def order(events: list[dict[str, Any]], scenario: Scenario) -> None:
    """Items are numbered from 0; one is over before the next begins, and each says its steps in order."""
    open_item, count = None, 0
    for event in events[2:]:
        kind, index = event["type"], event.get("output_index")
        if index is None:
            continue
        if kind == "response.output_item.added":
            assert open_item is None
            assert index == count
            open_item, count = index, count + 1
        assert index == open_item
        if kind == "response.output_item.done":
            open_item = None
    if scenario.failure is None:
        assert open_item is None


STEPS = {
    "message": ["content_part.added", "output_text.delta", "output_text.done", "content_part.done"],
    "reasoning": ["content_part.added", "reasoning_text.delta", "reasoning_text.done", "content_part.done"],
    "function_call": ["function_call_arguments.delta", "function_call_arguments.done"],
}


def steps(events: list[dict[str, Any]], scenario: Scenario) -> None:
    """What belongs to an item comes in the order of its kind, its deltas as often as need be."""
    for index, item in enumerate(_added(events)):
        own = [event for event in events if event.get("output_index") == index]
        kinds = [event["type"].removeprefix("response.") for event in own]
        expected = ["output_item.added", *STEPS[item["type"]], "output_item.done"]
        shown = [kind for at, kind in enumerate(kinds) if at == 0 or kind != kinds[at - 1]]
        if scenario.failure is not None:
            expected = expected[: len(shown)]
        elif scenario.tokens is not None:
            expected = [kind for kind in expected if kind in shown or not kind.endswith("delta")]
        assert shown == expected


def sums(events: list[dict[str, Any]], scenario: Scenario) -> None:
    """The deltas of an item add up to what its ends say, and the items to the response's output."""
    done = [event["item"] for event in events if event["type"] == "response.output_item.done"]
    for event in events:
        kind = event["type"]
        if kind.endswith((".delta",)) or not kind.endswith(("text.done", "arguments.done")):
            continue
        deltas = [
            each["delta"]
            for each in events
            if each["type"] == kind.replace(".done", ".delta") and each["item_id"] == event["item_id"]
        ]
        assert "".join(deltas) == event.get("text", event.get("arguments"))
        item = next(item for item in done if item["id"] == event["item_id"])
        told = item["arguments"] if item["type"] == "function_call" else item["content"][0]["text"]
        assert told == "".join(deltas)
    assert events[-1]["response"]["output"] == done


def fields(events: list[dict[str, Any]], scenario: Scenario) -> None:
    """The fields that the client's own types want."""
    pytest.importorskip("openai")
    from openai.types.responses import ResponseStreamEvent
    from pydantic import TypeAdapter

    adapter: TypeAdapter[Any] = TypeAdapter(ResponseStreamEvent)
    for event in events:
        adapter.validate_python(event)


RULES: list[Rule] = [names, numbers, identity, order, steps, sums, fields]


def _added(events: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [event["item"] for event in events if event["type"] == "response.output_item.added"]


@pytest.mark.parametrize("name", ALONE)
@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.__name__)
def test_rule(rule: Rule, name: str) -> None:
    for size in SCENARIOS[name].sizes:
        rule(objects_of(recorded("responses", name, size)), SCENARIOS[name])


@pytest.mark.parametrize("name", ALONE)
def test_events_are_named_by_their_type(name: str) -> None:
    body = recorded("responses", name, 3)
    assert body.isascii()
    assert all(event == json.loads(data)["type"] for event, data in events_of(body))


@pytest.mark.parametrize("name", [name for name in ALONE if SCENARIOS[name].failure is None])
def test_whole_answers_are_the_streamed_ones(name: str) -> None:
    streamed = objects_of(recorded("responses", name, 3))[-1]["response"]
    assert whole("responses", name) == streamed


def _ask(**fields: Any) -> Any:
    return Service(["Ok."] * 2).post({"input": "Hi", **fields}, "/v1/responses")


@pytest.mark.parametrize(
    ("fields", "param"),
    [
        ({"input": None}, "input"),
        ({"input": []}, "input"),
        ({"input": [{"type": "item_reference", "id": "x"}]}, "input[0].type"),
        ({"input": [{"role": "user", "content": [{"type": "input_file"}]}]}, "input[0].content[0].type"),
        ({"input": [{"role": "user", "content": [{"type": "input_image", "file_id": "f"}]}]}, None),
        ({"input": [{"type": "function_call", "name": "f", "arguments": "{}"}]}, "input[0].call_id"),
        ({"previous_response_id": "resp_1"}, "previous_response_id"),
        ({"store": True}, "store"),
        ({"conversation": "c"}, "conversation"),
        ({"background": True}, "background"),
        ({"truncation": "auto"}, "truncation"),
        ({"tools": [{"type": "web_search"}]}, "tools[0].type"),
        ({"text": {"format": {"type": "yaml"}}}, "text.format.type"),
        ({"max_output_tokens": 0}, "max_output_tokens"),
        ({"reasoning": {"effort": 3}}, "reasoning.effort"),
    ],
)
def test_what_is_wrong_is_refused_by_name(fields: dict[str, Any], param: str | None) -> None:
    response = _ask(**fields)
    assert response.status_code == 400
    error = response.json()["error"]
    assert error["param"] == param or param is None
    assert error["message"]


def test_what_the_template_cannot_take_is_named_by_its_place_in_the_input() -> None:
    picture = {"type": "input_image", "image_url": "data:image/png;base64,AA=="}
    items = [
        {"role": "user", "content": "Hi"},
        {"type": "reasoning", "summary": [], "content": [{"type": "reasoning_text", "text": "hm"}]},
        {"role": "assistant", "content": "Ho"},
        {"role": "user", "content": [{"type": "input_text", "text": "See:"}, picture]},
    ]
    error = _ask(input=items, instructions="Be brief.").json()["error"]
    assert error["param"] == "input[3].content[1]"
    assert error["message"].startswith("input[3].content[1] is of type 'input_image'")
    assert "media_placeholder" not in error["message"]


def test_what_changes_nothing_here_is_accepted_and_shown() -> None:
    answer = _ask(store=False, user="u", metadata={"a": "b"}, service_tier="auto", prompt_cache_key="k", temperature=1)
    assert answer.status_code == 200
    body = answer.json()
    assert body["metadata"] == {"a": "b"}
    assert body["temperature"] == 1
    assert body["store"] is False


def test_the_items_of_a_turn_are_one_message_of_the_chat() -> None:
    service = Service(["Ok."])
    items = [
        *MESSAGES,
        {"type": "reasoning", "id": "rs", "summary": [], "content": [{"type": "reasoning_text", "text": "hm"}]},
        {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "So."}]},
        {"type": "function_call", "call_id": "c1", "name": "get_time", "arguments": "{}"},
        {"type": "function_call", "call_id": "c2", "name": "get_weather", "arguments": '{"city": "Rome"}'},
        {"type": "function_call_output", "call_id": "c1", "output": "noon"},
        {"type": "function_call_output", "call_id": "c2", "output": [{"type": "input_text", "text": "sunny"}]},
    ]
    tools = [{"type": "function", **tool["function"]} for tool in TOOLS]
    assert service.post({"input": items, "tools": tools}, "/v1/responses").status_code == 200
    as_chat = Service(["Ok."])
    calls = [
        {"id": id, "type": "function", "function": {"name": name, "arguments": arguments}}
        for id, name, arguments in (("c1", "get_time", "{}"), ("c2", "get_weather", '{"city": "Rome"}'))
    ]
    turn = {"role": "assistant", "content": "So.", "reasoning_content": "hm", "tool_calls": calls}
    results = [
        {"role": "tool", "tool_call_id": "c1", "content": "noon"},
        {"role": "tool", "tool_call_id": "c2", "content": "sunny"},
    ]
    as_chat.chat(messages=[*MESSAGES, turn, *results], tools=TOOLS)
    assert service.engine.record.requests[0].prompt_text == as_chat.engine.record.requests[0].prompt_text


def test_log_probabilities_of_the_text() -> None:
    service = Service(["<muse>\nhm\n</muse>\n\nSo it is."] * 2, size=4)
    body = {"input": "Hi", "include": ["message.output_text.logprobs"], "top_logprobs": 1}
    answer = service.post(body, "/v1/responses").json()
    told = answer["output"][1]["content"][0]["logprobs"]
    assert "So it is." in "".join(entry["token"] for entry in told)
    assert all(len(entry["top_logprobs"]) == 1 for entry in told)
