"""Switches of reasoning that are flags: which variables are none, which say no, and headers that a switch changes."""

from __future__ import annotations

import pytest

from dragoman import ChatFormat

TURNS = (
    "{% for m in messages %}<|{{ m.role }}|>{% if m.reasoning_content %}<think>\n{{ m.reasoning_content }}\n</think>\n"
    "{% endif %}{{ m.content }}<|fin|>{% endfor %}{% if add_generation_prompt %}<|assistant|>"
)
ON, OFF = "<think>\n", "<think>\n\n</think>\n"
ASKED = [{"role": "user", "content": "Hello"}]
BUDGET = "{% if thinking_budget %}{{ '[' ~ (thinking_budget if thinking_budget > 9 else 9) ~ ']' }}{% endif %}"


def _prompts(template: str) -> list[str]:
    """What is written for the turn with no word on thinking, with yes and with no."""
    fmt = ChatFormat.from_template(template)
    return [fmt.turn(ASKED, enable_thinking=said).generation_prompt for said in (None, True, False)]


def _ending(condition: str) -> str:
    return f"{{{{ '<think>\\n' if {condition} else '<think>\\n\\n</think>\\n' }}}}{{% endif %}}"


def test_a_budget_that_is_written_out_is_no_switch() -> None:
    template = TURNS.replace("<|assistant|>", BUDGET + "<|assistant|>") + _ending("enable_thinking | default(true)")
    fmt = ChatFormat.from_template(template)
    assert fmt.profile.thinking_switches == ("enable_thinking",)
    assert all("[" not in prompt for prompt in _prompts(template))
    turn = fmt.turn(ASKED, enable_thinking=True, chat_template_kwargs={"thinking_budget": 50})
    assert "[50]<|assistant|><think>\n" in turn.prompt.text


def test_a_budget_shown_in_front_of_the_conversation_is_no_switch_either() -> None:
    template = "{% if think_room is defined %}[{{ think_room }}]{% endif %}" + TURNS + _ending("think_room != 0")
    fmt = ChatFormat.from_template(template)
    assert dict(fmt.profile.thinking_words) == {"think_room": (None, 0)}
    texts = [fmt.turn(ASKED, enable_thinking=said).prompt.text for said in (None, True, False)]
    assert texts[0] == texts[1] == "<|user|>Hello<|fin|><|assistant|><think>\n"
    assert texts[2] == "[0]<|user|>Hello<|fin|><|assistant|><think>\n\n</think>\n"


def test_a_limit_that_has_nothing_to_do_with_reasoning_is_left_alone() -> None:
    said = "{{ '<think>Too often.</think>' if 0 >= halt_after | default(3) else '' }}"
    template = TURNS + said + _ending("enable_thinking | default(true)")
    assert ChatFormat.from_template(template).profile.thinking_switches == ("enable_thinking",)
    assert all("Too often" not in prompt for prompt in _prompts(template))


@pytest.mark.parametrize("condition", ["not skip_reasoning", "skip_reasoning is not defined or skip_reasoning != true"])
def test_a_flag_that_says_no_is_set_the_other_way(condition: str) -> None:
    template = TURNS + _ending(condition)
    assert _prompts(template) == ["<|assistant|>" + ON, "<|assistant|>" + ON, "<|assistant|>" + OFF]


def test_two_flags_one_for_yes_and_one_for_no() -> None:
    forced = (
        "{{ '<think>\\n' if force_reasoning else ('<think>\\n\\n</think>\\n' if skip_reasoning else '') }}{% endif %}"
    )
    template = TURNS + forced
    assert _prompts(template) == ["<|assistant|>", "<|assistant|>" + ON, "<|assistant|>" + OFF]
    assert ChatFormat.from_template(template).profile.reasoning.switch == "force_reasoning"


def test_a_block_is_read_though_what_stands_before_the_header_changes_with_the_switch() -> None:
    said = "{{ ' /think_on ' if enable_thinking | default(true) else ' /think_off ' }}"
    words = (
        "{{ m.content }}{% if m.role == 'user' and not loop.last %}"
        + said
        + "{% elif m.role != 'user' %}<|fin|>{% endif %}"
    )
    template = TURNS.replace("{{ m.content }}<|fin|>", words).replace("<|assistant|>", said + BUDGET + "<|assistant|>")
    template += _ending("enable_thinking | default(true)")
    fmt = ChatFormat.from_template(template)
    for budget in ({}, {"thinking_budget": 50}):
        turn = fmt.turn(ASKED, enable_thinking=True, chat_template_kwargs=budget)
        assert turn.prompt.text.endswith("<|assistant|><think>\n")
        turn.feed("First.\n</think>\nThen.<|fin|>")
        turn.finish("stop")
        assert (turn.message.reasoning_content, turn.message.content) == ("First.", "Then.")
    turn = fmt.turn(ASKED, enable_thinking=False)
    turn.feed("Then.<|fin|>")
    turn.finish("stop")
    assert (turn.message.reasoning_content, turn.message.content) == ("", "Then.")


def test_a_flag_that_only_changes_the_system_text_is_a_switch() -> None:
    said = "{{ '[thinking on]' if deep_thought is defined and deep_thought else '[thinking off]' }}"
    fmt = ChatFormat.from_template(f"{said}{TURNS}{{% endif %}}")
    assert fmt.profile.thinking_switches == ("deep_thought",)
    texts = [fmt.turn(ASKED, enable_thinking=flag).prompt.text for flag in (None, True, False)]
    assert [text[: text.index("]") + 1] for text in texts] == ["[thinking off]", "[thinking on]", "[thinking off]"]


def test_an_effort_that_is_written_out_is_no_switch() -> None:
    said = "{% if reasoning_effort is defined %}[{{ reasoning_effort }}]{% endif %}{{ my_reasoning_words }}"
    fmt = ChatFormat.from_template(f"{said}{TURNS}{{% endif %}}")
    assert fmt.profile.thinking_switches == ()
