"""Each rule that clients of the Messages API break on, held on recorded bytes of each kind of answer."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from dragoman.server.wire.partial_json import ObjectPrefix, is_object, read_object
from tests.server.recordings import SCENARIOS, Scenario, events_of, objects_of, recorded, whole
from tests.server.service import MESSAGES, SECOND_CALL, TOOLS, Service

ALONE = [name for name, scenario in SCENARIOS.items() if scenario.n == 1]
Rule = Callable[[list[dict[str, Any]], Scenario], None]


def order(events: list[dict[str, Any]], scenario: Scenario) -> None:
    """message_start, blocks that start and stop in turn, message_delta, message_stop; pings may come between."""
    kinds = [event["type"] for event in events if event["type"] != "ping"]
    assert kinds[0] == "message_start"
    if scenario.failure is not None:
        assert kinds[-1] == "error"
        assert "message_stop" not in kinds
    else:
        assert kinds[-2:] == ["message_delta", "message_stop"]
        assert kinds.count("content_block_start") == kinds.count("content_block_stop")
    is_open = False
    for kind in kinds[1:]:
        if kind.startswith("content_block"):
            assert is_open == (kind != "content_block_start")
            is_open = kind != "content_block_stop"


def blocks(events: list[dict[str, Any]], scenario: Scenario) -> None:
    """Blocks are numbered by their place, start empty, and get the deltas of their kind."""
    starts = [event for event in events if event["type"] == "content_block_start"]
    assert [event["index"] for event in starts] == list(range(len(starts)))
    kinds = {"text": "text_delta", "thinking": "thinking_delta", "tool_use": "input_json_delta"}
    for event in events:
        if event["type"] == "content_block_delta":
            block = starts[event["index"]]["content_block"]
            assert event["delta"]["type"] == kinds[block["type"]]
            assert all(event["delta"].values())
    for event in starts:
        block = event["content_block"]
        assert not any(block.get(key) for key in ("text", "thinking", "input"))


def inputs(events: list[dict[str, Any]], scenario: Scenario) -> None:
    """What was sent of a call's input is at each moment the beginning of a JSON object, whatever the model wrote."""
    for start in events:
        if start["type"] != "content_block_start" or start["content_block"]["type"] != "tool_use":
            continue
        texts = [
            event["delta"]["partial_json"]
            for event in events
            if event["type"] == "content_block_delta" and event["index"] == start["index"]
        ]
        prefix = ObjectPrefix()
        assert "".join(prefix.push(text) for text in texts) == "".join(texts)


def start(events: list[dict[str, Any]], scenario: Scenario) -> None:
    """The message starts without content and with what its prompt costs."""
    message = events[0]["message"]
    assert message["content"] == []
    assert message["stop_reason"] is None
    assert message["role"] == "assistant"
    assert message["usage"]["input_tokens"] > 0


def ending(events: list[dict[str, Any]], scenario: Scenario) -> None:
    """The reason for the end and the price come once."""
    if scenario.failure is not None:
        assert events[-1] == {"type": "error", "error": {"type": "api_error", "message": scenario.failure}}
        return
    [told] = [event for event in events if event["type"] == "message_delta"]
    called = any(event.get("content_block", {}).get("type") == "tool_use" for event in events)
    # Clients run the calls of what ends by tool_use, so each of them is whole.
    cut = scenario.tokens is not None or not all(is_object(text) for text in _inputs(events))
    assert told["delta"]["stop_reason"] == ("max_tokens" if cut else "tool_use" if called else "end_turn")
    assert type(told["usage"]["output_tokens"]) is int


def _inputs(events: list[dict[str, Any]]) -> list[str]:
    """The text of each call's input."""
    calls = [event["index"] for event in events if event.get("content_block", {}).get("type") == "tool_use"]
    deltas = [(event["index"], event["delta"]) for event in events if event["type"] == "content_block_delta"]
    return ["".join(delta["partial_json"] for index, delta in deltas if index == call) for call in calls]


RULES: list[Rule] = [order, blocks, inputs, start, ending]


@pytest.mark.parametrize("name", ALONE)
@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.__name__)
def test_rule(rule: Rule, name: str) -> None:
    for size in SCENARIOS[name].sizes:
        rule(objects_of(recorded("messages", name, size)), SCENARIOS[name])


@pytest.mark.parametrize("name", ALONE)
def test_events_are_named_by_their_type(name: str) -> None:
    assert all(event == json.loads(data)["type"] for event, data in events_of(recorded("messages", name, 3)))


@pytest.mark.parametrize("name", [name for name in ALONE if SCENARIOS[name].failure is None])
def test_whole_answers_are_the_streamed_ones(name: str) -> None:
    events = objects_of(recorded("messages", name, 3))
    content: list[dict[str, Any]] = []
    for event in events:
        if event["type"] == "content_block_start":
            content.append({**event["content_block"], "json": ""})
        elif event["type"] == "content_block_delta":
            delta = event["delta"]
            key = {"text_delta": "text", "thinking_delta": "thinking"}.get(delta["type"], "json")
            content[-1][key] += delta.get(key, delta.get("partial_json"))
    for block in content:
        text = block.pop("json")
        if block["type"] == "tool_use":
            block["input"] = read_object(text)
    answer = whole("messages", name)
    assert answer["content"] == content
    told = events[-2]
    assert (answer["stop_reason"], answer["usage"]) == (told["delta"]["stop_reason"], told["usage"])
    assert answer["type"] == "message"


@pytest.mark.parametrize(
    ("arguments", "input"),
    [
        ('{"city": NaN}', {}),
        ('{"city": "Rome", "days": -Infinity}', {"city": "Rome"}),
        ('{"city": "Rome", "days": 1e999}', {"city": "Rome"}),
        (f'{{"city": "Rome", "days": {"9" * 5000}}}', {"city": "Rome"}),
        (r'{"city": "\ud83d"}', {}),
        (r'{"city": "Rome", "days": "\ude00"}', {"city": "Rome"}),
        (r'{"city": "\ud83d\ude00"}', {"city": "\U0001f600"}),
        ('{"city": 01}', {}),
        ('{"city": "Rome", "days": 2, oops}', {"city": "Rome", "days": 2}),
        (f'{{"city": {"[" * 300}{"]" * 300}}}', None),
        ("[1]", {}),
    ],
)
def test_a_call_that_is_no_json_is_an_answer_and_nothing_to_run(arguments: str, input: Any) -> None:
    """What clients read of the stream is what the whole answer holds."""
    from_json = pytest.importorskip("jiter").from_json
    text = f'\n<do>\n{{"name": "get_weather", "arguments": {arguments}}}\n</do>'
    tools = [{"name": tool["function"]["name"], "input_schema": {"type": "object"}} for tool in TOOLS]
    body = {"messages": MESSAGES, "tools": tools, "max_tokens": 10_000}
    service = Service([text] * 2, size=4)
    answer = service.post(body, "/v1/messages")
    assert answer.status_code == 200
    [block] = answer.json()["content"]
    assert input is None or block["input"] == input
    streamed = service.post({**body, "stream": True}, "/v1/messages")
    events = objects_of(streamed.content)
    [sent] = _inputs(events)
    for at in range(1, len(sent) + 1):
        from_json(sent[:at].encode(), partial_mode=True)
    assert (from_json(sent.encode(), partial_mode=True) if sent else {}) == block["input"]
    reason = "tool_use" if is_object(arguments) else "max_tokens"
    assert (answer.json()["stop_reason"], events[-2]["delta"]["stop_reason"]) == (reason, reason)
    problems = [told.get("dragoman", {}).get("problems", []) for told in (answer.json(), events[-2])]
    assert problems[0] == problems[1]
    assert ("cut_input" in {problem["code"] for problem in problems[0]}) == (reason == "max_tokens")


def _ask(**fields: Any) -> Any:
    return Service(["Ok."]).post({"messages": MESSAGES, "max_tokens": 50, **fields}, "/v1/messages")


@pytest.mark.parametrize(
    ("fields", "word"),
    [
        ({"messages": []}, "messages"),
        ({"messages": [{"role": "robot", "content": "x"}]}, r"messages\[0\].role"),
        ({"messages": [{"role": "user", "content": [{"type": "video"}]}]}, r"messages\[0\].content\[0\].type"),
        ({"messages": [{"role": "user"}]}, r"messages\[0\].content"),
        ({"tools": [{"type": "web_search_20250305", "name": "web_search"}]}, r"tools\[0\].type"),
        ({"tool_choice": {"type": "tool"}}, r"tool_choice.name"),
        ({"tool_choice": {"type": "some"}}, r"tool_choice.type"),
        ({"tool_choice": {"type": "tool", "name": "nobody"}}, r"tool_choice"),
        ({"thinking": {"type": "perhaps"}}, r"thinking.type"),
        ({"container": "c"}, "container"),
        ({"temperature": "hot"}, "temperature"),
        ({"output_config": {"format": {"type": "xml"}}}, r"output_config.format.type"),
    ],
)
def test_what_is_wrong_is_refused_in_the_protocols_shape(fields: dict[str, Any], word: str) -> None:
    import re

    response = _ask(**fields)
    assert response.status_code == 400
    body = response.json()
    assert body["type"] == "error"
    assert body["error"]["type"] == "invalid_request_error"
    assert re.search(word, body["error"]["message"])


def test_no_route_and_no_json_are_told_in_the_protocols_shape() -> None:
    service = Service()
    assert service.post(b"{", "/v1/messages").json()["error"]["type"] == "invalid_request_error"
    assert service.client.get("/v1/messages").json()["type"] == "error"


@pytest.mark.parametrize(
    ("choice", "called", "parallel"),
    [
        ({"type": "auto"}, {"get_weather", "get_time"}, True),
        ({"type": "any"}, {"get_weather", "get_time"}, True),
        ({"type": "tool", "name": "get_time"}, {"get_time"}, True),
        ({"type": "none"}, set(), True),
    ],
)
def test_tool_choice_means_what_it_says(choice: dict[str, Any], called: set[str], parallel: bool) -> None:
    service = Service([SECOND_CALL])
    tools = [{"name": tool["function"]["name"], "input_schema": {"type": "object"}} for tool in TOOLS]
    body = {"messages": MESSAGES, "max_tokens": 50, "tools": tools, "tool_choice": choice}
    assert service.post(body, "/v1/messages").status_code == 200
    [request] = service.engine.record.requests
    text = "" if request.grammar is None else request.grammar.text
    assert {name for name in ("get_weather", "get_time") if name in text} == called
    assert request.grammar is None or request.grammar.lazy == (choice["type"] == "auto")


def test_blocks_are_the_messages_of_a_chat() -> None:
    service, as_chat = Service(["Ok."]), Service(["Ok."])
    messages = [
        *MESSAGES,
        {
            "role": "assistant",
            "content": [
                {"type": "thinking", "thinking": "hm", "signature": ""},
                {"type": "redacted_thinking", "data": "x"},
                {"type": "text", "text": "So."},
                {"type": "tool_use", "id": "c1", "name": "get_weather", "input": {"city": "Rome"}},
            ],
        },
        {
            "role": "user",
            "content": [
                {"type": "tool_result", "tool_use_id": "c1", "content": "sunny"},
                {"type": "text", "text": "And?", "cache_control": {"type": "ephemeral"}},
            ],
        },
    ]
    tools = [{"name": "get_time", "input_schema": {"type": "object"}}]
    body = {"system": [{"type": "text", "text": "Be brief."}], "messages": messages, "tools": tools}
    assert service.post(body, "/v1/messages").status_code == 200
    call = {"id": "c1", "type": "function", "function": {"name": "get_weather", "arguments": {"city": "Rome"}}}
    chat = [
        {"role": "system", "content": "Be brief."},
        *MESSAGES,
        {"role": "assistant", "content": "So.", "reasoning_content": "hm", "tool_calls": [call]},
        {"role": "tool", "tool_call_id": "c1", "content": "sunny"},
        {"role": "user", "content": "And?"},
    ]
    their_tools = [{"type": "function", "function": {"name": "get_time", "parameters": {"type": "object"}}}]
    as_chat.chat(messages=chat, tools=their_tools)
    assert service.engine.record.requests[0].prompt_text == as_chat.engine.record.requests[0].prompt_text


def test_a_picture_needs_a_template_that_has_a_word_for_it() -> None:
    picture = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "AAAA"}}
    messages = [{"role": "user", "content": [picture, {"type": "text", "text": "What is it?"}]}]
    refused = _ask(messages=messages)
    assert refused.status_code == 400
    message = refused.json()["error"]["message"]
    assert message.startswith("messages[0].content[0] is of type 'image', but")
    assert message.endswith("send text in its place")  # no field of this protocol stands for it
    from tests.server.service import chat_format

    service = Service(["A cat."], fmt=chat_format().with_defaults(media_placeholder="<pic>"))
    assert service.post({"messages": messages}, "/v1/messages").status_code == 200
    assert "<pic>What is it?" in service.engine.record.requests[0].prompt_text


def test_the_form_of_the_answer_under_its_older_name() -> None:
    schema = {"type": "object", "properties": {"zebra": {"type": "integer"}}}
    form = {"type": "json_schema", "schema": schema}
    service = Service(['{"zebra": 1}'] * 2)
    bodies = [{"output_config": {"format": form}}, {"output_format": form}]
    new, old = [service.post({"messages": MESSAGES, **body}, "/v1/messages").json() for body in bodies]
    assert new == old
    first, second = service.engine.record.requests
    assert first.grammar == second.grammar
    assert "zebra" in second.grammar.text
    odd = service.post({"messages": MESSAGES, "output_format": {**form, "x": 1}}, "/v1/messages/count_tokens").json()
    assert odd["dragoman"] == {"ignored": ["output_format.x"]}


def test_counted_tokens_are_those_of_the_prompt() -> None:
    service = Service(["Ok."])
    body = {"messages": MESSAGES, "system": "Be brief."}
    counted = service.post(body, "/v1/messages/count_tokens").json()
    assert counted == {"input_tokens": service.post(body, "/v1/messages").json()["usage"]["input_tokens"]}
