"""The budget of reasoning: when it is spent, the answer goes on behind the end of the reasoning."""

from __future__ import annotations

from typing import Any

import pytest

from dragoman.engines.scripted import Scripted
from dragoman.format import ChatFormat
from dragoman.server.requests.budget import ENDS_MAX
from tests.server.service import CALL, INFO, TEMPLATE, TOOLS, Service, chat_format

THOUGHT = "one two three four five six seven eight"
# The same format, the reasoning opened by the prompt.
OPENED = TEMPLATE.replace("{{ '<|from|>assistant\\n' }}", "{{ '<|from|>assistant\\n<muse>\\n' }}")


def _service(second: str, *, template: str = TEMPLATE, opened: bool = False) -> Service:
    """A model that thinks on for as long as it is let, and then says ``second``."""
    first = ["" if opened else "<muse>\n", *(word + " " for word in THOUGHT.split() * 50)]
    fmt = ChatFormat.from_template(template, eos_token="<|fin|>", vocab=chat_format().vocab)
    return Service(engine=Scripted([first, second], info=INFO), fmt=fmt)


@pytest.mark.parametrize("opened", [False, True])
@pytest.mark.parametrize("field", ["reasoning_budget_tokens", "thinking_budget_tokens"])
def test_reasoning_ends_where_its_budget_does(opened: bool, field: str) -> None:
    service = _service("So it is.", template=OPENED if opened else TEMPLATE, opened=opened)
    body = service.chat(**{field: 8}).json()
    [choice] = body["choices"]
    assert choice["message"]["reasoning_content"].split() == THOUGHT.split()
    assert choice["message"]["content"] == "So it is."
    assert choice["finish_reason"] == "stop"
    first, second = service.engine.record.requests
    assert service.engine.record.endings == ["cancelled", "stop"]
    thought = "<muse>\n" + choice["message"]["reasoning_content"] + "\n</muse>\n\n"
    assert second.prompt_text == first.prompt_text.removesuffix("<muse>\n") + thought
    assert body["usage"]["completion_tokens_details"]["reasoning_tokens"] == 8
    assert body["usage"]["prompt_tokens"] == len(first.prompt_ids)
    assert "dragoman" not in body


def test_the_stream_says_the_same() -> None:
    chunks = _service("So it is.").stream(reasoning_budget_tokens=3)
    deltas = [chunk["choices"][0]["delta"] for chunk in chunks]
    assert "".join(delta.get("reasoning_content", "") for delta in deltas) == "one two three "
    assert "".join(delta.get("content") or "" for delta in deltas) == "So it is."


def test_a_call_that_is_required_is_still_required() -> None:
    service = _service(CALL)
    [choice] = service.chat(reasoning_budget_tokens=2, tools=TOOLS, tool_choice="required").json()["choices"]
    assert choice["finish_reason"] == "tool_calls"
    assert choice["message"]["reasoning_content"] == "one two "
    assert choice["message"]["tool_calls"][0]["function"]["name"] == "get_weather"
    _, second = service.engine.record.requests
    assert second.grammar is not None
    assert not second.grammar.lazy


def test_what_is_left_of_the_length_is_kept() -> None:
    service = _service("a" * 400)
    body = service.chat(reasoning_budget_tokens=4, max_tokens=20).json()
    assert service.engine.record.requests[1].sampling.max_tokens == 20 - 5  # four words and the mark in front of them
    assert body["choices"][0]["finish_reason"] == "length"
    assert body["usage"]["completion_tokens"] == 20


@pytest.mark.parametrize("tokens", [-1, 1000])
def test_no_bound_or_one_that_is_not_reached_changes_nothing(tokens: int) -> None:
    text = "<muse>\nhm\n</muse>\n\nSo."
    plain, bounded = Service([text]), Service([text])
    assert plain.chat().json() == bounded.chat(reasoning_budget_tokens=tokens).json()
    assert len(bounded.engine.record.requests) == 1


def test_no_reasoning_at_all() -> None:
    """A template with a switch is told; the others' first word of reasoning is the last."""
    service = _service("So.")
    message = service.chat(reasoning_budget_tokens=0).json()["choices"][0]["message"]
    assert message["content"] == "So."
    assert len(message.get("reasoning_content", "").split()) <= 1


def test_anthropics_name_for_it() -> None:
    service = _service("So it is.")
    body: dict[str, Any] = {"messages": [{"role": "user", "content": "Hi"}], "max_tokens": 100}
    body["thinking"] = {"type": "enabled", "budget_tokens": 3}
    thinking, text = service.post(body, "/v1/messages").json()["content"]
    assert (thinking["thinking"], text["text"]) == ("one two three ", "So it is.")


def test_a_budget_for_the_rest_of_reasoning_that_was_begun() -> None:
    service = _service("So it is.", opened=True)
    messages = [{"role": "user", "content": "Hi"}, {"role": "assistant", "content": "", "reasoning_content": "zero "}]
    fields: dict[str, Any] = {"continue_final_message": "reasoning_content", "reasoning_budget_tokens": 2}
    [choice] = service.chat(messages=messages, **fields).json()["choices"]
    assert choice["message"] == {"role": "assistant", "content": "So it is.", "reasoning_content": "one two "}
    assert service.engine.record.requests[1].prompt_text.endswith("<muse>\nzero one two \n</muse>\n\n")


def _thinker(*, again: int) -> Service:
    """A model that opens its reasoning ``again`` times behind the end of it, before it answers."""
    thoughts = ["<muse>\n", *(word + " " for word in THOUGHT.split() * 50)]
    return Service(engine=Scripted([*[thoughts] * (1 + again), "So it is."], info=INFO))


@pytest.mark.parametrize("budget", [0, 4])
@pytest.mark.parametrize("stream", [False, True])
def test_reasoning_that_is_opened_anew_is_beyond_the_budget(budget: int, stream: bool) -> None:
    service = _thinker(again=2)
    if stream:
        deltas = [chunk["choices"][0]["delta"] for chunk in service.stream(reasoning_budget_tokens=budget)]
        thought = "".join(delta.get("reasoning_content", "") for delta in deltas)
        content = "".join(delta.get("content") or "" for delta in deltas)
    else:
        message = service.chat(reasoning_budget_tokens=budget).json()["choices"][0]["message"]
        thought, content = message["reasoning_content"], message["content"]
    assert content == "So it is."
    assert len(thought.split()) == max(budget, 1) + 2  # what stops the engine is a word of each block
    last = service.engine.record.requests[-1].prompt_text
    assert last.endswith(f"<muse>\n{thought}\n</muse>\n\n")
    assert last.count("<muse>") == 1


def test_a_model_that_never_stops_thinking_gets_no_more_than_some_tries() -> None:
    service = _thinker(again=50)
    answer = service.chat(reasoning_budget_tokens=4).json()
    [choice] = answer["choices"]
    assert choice["finish_reason"] == "length"
    assert len(choice["message"]["reasoning_content"].split()) == 4 + ENDS_MAX
    assert len(service.engine.record.requests) == 1 + ENDS_MAX
    assert service.engine.record.running == 0
    assert answer["usage"]["completion_tokens_details"]["reasoning_tokens"] == 4 + ENDS_MAX
    assert [problem["code"] for problem in answer["dragoman"]["problems"]] == ["reasoning_budget"]
