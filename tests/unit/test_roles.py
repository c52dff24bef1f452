"""Messages of unusual roles: written as the template has them, under another role of results, or refused by name."""

from __future__ import annotations

from typing import Any

import pytest

from dragoman import ChatFormat
from dragoman.errors import UsageError

GENERIC = "{% for m in messages %}<|{{ m.role }}|>{{ m.content }}{% endfor %}"
KNOWS = (
    "{% for m in messages %}{% if m.role in ['user', 'assistant'] %}<|{{ m.role }}|>{{ m.content }}"
    "{% elif m.role == 'observation' %}<|seen|>{{ m.content | tojson }}{% endif %}{% endfor %}{{ tools and '' }}"
    "{% for m in messages %}{% if m.tool_calls %}{% for c in m.tool_calls %}<do>{{ c.function | tojson }}</do>"
    "{% endfor %}{% endif %}{% endfor %}"
)
DEAF = KNOWS.replace("observation", "user")
ASKED = {"role": "user", "content": "Hello"}


def prompt(template: str, *messages: dict[str, Any]) -> str:
    return ChatFormat.from_template(template).turn([*messages]).prompt.text


@pytest.mark.parametrize("role", ["critic", "ipython", "function"])
def test_a_role_that_the_template_writes_is_written(role: str) -> None:
    assert f"<|{role}|>No." in prompt(GENERIC, ASKED, {"role": role, "content": "No."})


@pytest.mark.parametrize("content", ["No.", [{"type": "text", "text": "No."}], ' "quoted" '])
def test_a_message_that_would_be_lost_is_refused_with_its_place(content: Any) -> None:
    with pytest.raises(UsageError, match="'critic', which this chat template does not write") as caught:
        prompt(KNOWS, ASKED, {"role": "critic", "content": content}, ASKED)
    assert caught.value.param == "messages[1].role"


def test_a_lost_message_is_missed_though_its_text_stands_elsewhere() -> None:
    with pytest.raises(UsageError, match="would be lost"):
        prompt(KNOWS, ASKED, {"role": "critic", "content": "Hello"})


@pytest.mark.parametrize("role", ["tool", "function"])
@pytest.mark.parametrize("content", ["12 degrees", '{"degrees": "12"}'])
def test_a_result_goes_under_the_role_that_the_template_has_for_it(role: str, content: str) -> None:
    call = {"id": "a", "type": "function", "function": {"name": "look", "arguments": "{}"}}
    assistant = {"role": "assistant", "content": "", "tool_calls": [call]}
    assert "<|seen|>" in prompt(KNOWS, ASKED, assistant, {"role": role, "name": "look", "content": content})


def test_a_result_that_no_role_takes_is_refused() -> None:
    with pytest.raises(UsageError, match=r"messages\[1\]\.role is 'tool'"):
        prompt(DEAF, ASKED, {"role": "tool", "content": "12 degrees"})


def test_an_empty_message_loses_nothing() -> None:
    assert "Hello" in prompt(KNOWS, ASKED, {"role": "critic", "content": ""})


FIRST = (
    "{% if messages[0].role == 'system' %}<|sys|>{{ messages[0].content }}{% endif %}"
    "{% for m in messages %}{% if m.role in ['user', 'assistant'] %}<|{{ m.role }}|>{{ m.content }}{% endif %}"
    "{% endfor %}{% if add_generation_prompt %}<|assistant|>{% endif %}"
)
PARTICULAR = FIRST.replace(
    "{% endif %}{% endfor %}",
    "{% elif not loop.first %}{{ raise_exception('The system speaks first') }}{% endif %}{% endfor %}",
)
RULES, DATED = {"role": "system", "content": "Be brief."}, {"role": "developer", "content": "It is Monday."}
SAID = {"role": "assistant", "content": "Hm"}


@pytest.mark.parametrize("template", [FIRST, PARTICULAR])
@pytest.mark.parametrize(
    ("messages", "expected"),
    [
        ([RULES, DATED, ASKED], "<|sys|>Be brief.\nIt is Monday.<|user|>Hello<|assistant|>"),
        (
            [RULES, ASKED, SAID, DATED, ASKED],
            "<|sys|>Be brief.<|user|>Hello<|assistant|>Hm<|user|>It is Monday.\nHello<|assistant|>",
        ),
        ([ASKED, SAID, RULES], "<|user|>Hello<|assistant|>Hm<|user|>Be brief.<|assistant|>"),
        ([RULES, {"role": "system", "content": None}, ASKED], "<|sys|>Be brief.<|user|>Hello<|assistant|>"),
    ],
)
def test_a_later_system_message_is_told_where_the_template_writes_the_first_only(
    template: str, messages: list[dict[str, Any]], expected: str
) -> None:
    assert prompt(template, *messages) == expected


def test_a_later_system_message_does_not_come_behind_an_answer_that_goes_on() -> None:
    turn = ChatFormat.from_template(FIRST).turn([RULES, ASKED, DATED, SAID], continue_final_message=True)
    assert turn.prompt.text == "<|sys|>Be brief.<|user|>Hello<|user|>It is Monday.<|assistant|>Hm"
