"""Switches of reasoning that wait for a word, under any name; and turns that are numbered."""

from __future__ import annotations

import pytest

from dragoman import ChatFormat

TURNS = (
    "{% for m in messages %}<|{{ m.role }}|>{% if m.reasoning_content %}<think>{{ m.reasoning_content }}</think>"
    "{% endif %}{{ m.content }}<|fin|>{% endfor %}{% if add_generation_prompt %}<|assistant|>"
)
ON, OFF = "<think>\n", "<think>\n</think>\n"
ASKED = [{"role": "user", "content": "Hello"}]


@pytest.mark.parametrize(
    ("test", "words"),
    [
        ("thinking_mode == 'enabled'", ("enabled", "disabled")),
        ("not thinking_mode == 'disabled'", ("enabled", "disabled")),
        ("reasoning_mode == 'on'", ("on", "off")),
        ("thinking_mode == 'thinking'", ("thinking", "chat")),
        ("my_thoughts in ['yes', 'sure']", ("yes", "no")),
        ("not thinking_mode | default('on') == 'off'", ("on", "off")),
        ("thinking_mode | default('off') | lower == 'on'", ("on", "off")),
    ],
)
def test_reasoning_is_switched_by_the_words_that_the_template_waits_for(test: str, words: tuple[str, str]) -> None:
    template = f"{TURNS}{{{{ '<think>\\n' if {test} else '<think>\\n</think>\\n' }}}}{{% endif %}}"
    fmt = ChatFormat.from_template(template)
    assert list(fmt.profile.thinking_words.values()) == [words]
    prompts = [fmt.turn(ASKED, enable_thinking=on).generation_prompt for on in (True, False)]
    assert prompts == ["<|assistant|>" + ON, "<|assistant|>" + OFF]


def test_a_switch_may_be_asked_under_a_second_name() -> None:
    template = (
        "{% set mode = thinking_mode | default('enabled') %}"
        f"{TURNS}{{{{ '<think>\\n</think>\\n' if mode == 'disabled' else '<think>\\n' }}}}{{% endif %}}"
    )
    fmt = ChatFormat.from_template(template)
    assert fmt.profile.thinking_words == {"thinking_mode": ("enabled", "disabled")}
    assert fmt.turn(ASKED, enable_thinking=False).generation_prompt == "<|assistant|>" + OFF


def test_what_is_said_by_name_wins_over_the_switch() -> None:
    template = f"{TURNS}{{{{ '<think>\\n' if tm_think == 'on' else '<think>\\n</think>\\n' }}}}{{% endif %}}"
    turn = ChatFormat.from_template(template).turn(
        ASKED, enable_thinking=False, chat_template_kwargs={"tm_think": "on"}
    )
    assert turn.generation_prompt.endswith(ON)


@pytest.mark.parametrize(
    ("test", "words", "on"),
    [
        ("mode is defined and mode == 'fast'", (None, "fast"), ON),
        ("(style | default('')) in ['brisk', 'curt']", (None, "brisk"), ON),
        ("not (think_size is defined and think_size == 'big')", ("big", None), OFF),
        ("pace != 'slow'", ("slow", None), OFF),
    ],
)
def test_a_word_that_opens_or_closes_reasoning_is_a_switch_whatever_it_says(
    test: str, words: tuple[str | None, str | None], on: str
) -> None:
    template = f"{TURNS}{{{{ '<think>\\n</think>\\n' if {test} else '<think>\\n' }}}}{{% endif %}}"
    fmt = ChatFormat.from_template(template)
    assert list(fmt.profile.thinking_words.values()) == [words]
    assert fmt.turn(ASKED).generation_prompt == "<|assistant|>" + on
    prompts = [fmt.turn(ASKED, enable_thinking=on).generation_prompt for on in (True, False)]
    assert prompts == ["<|assistant|>" + ON, "<|assistant|>" + OFF]


def test_words_that_neither_open_nor_close_reasoning_are_no_switch() -> None:
    template = f"{TURNS}{{{{ '<think>\\n' if mood == 'glad' else '' }}}}<think>\\n{{% endif %}}"
    assert not ChatFormat.from_template(template).profile.thinking_words


def test_the_number_of_a_turn_is_no_part_of_what_ends_it() -> None:
    template = (
        "{% set at = namespace(n=0) %}{% for m in messages %}{% if m.role == 'user' %}"
        "{{ '[Round ' + at.n | string + ']\\nQ: ' + m.content }}{% set at.n = at.n + 1 %}{% else %}"
        "{{ '\\nA: ' + m.content }}{{ '\\n' if not loop.last }}{% endif %}{% endfor %}"
        "{% if add_generation_prompt %}{{ '\\nA: ' }}{% endif %}"
    )
    fmt = ChatFormat.from_template(template)
    assert fmt.profile.end_of_turn == ("[Round",)
    turn = fmt.turn(ASKED)
    turn.feed("Fine.\n[Round 7]\nQ: And you?")
    assert turn.ended


@pytest.mark.parametrize(
    ("test", "words"),
    [
        ("reasoning_effort != 'none'", (None, "none")),
        ("(thinking_level | default('deep')) != 'none'", (None, "none")),
        ("reasoning_effort in ['low', 'high']", ("high", "none")),
        ("my_reasoning is defined and my_reasoning != 'none'", ("medium", "none")),
    ],
)
def test_one_level_of_reasoning_is_none_at_all(test: str, words: tuple[str | None, str]) -> None:
    fmt = ChatFormat.from_template(f"{TURNS}{{{{ '<think>\n' if {test} else '<think>\n</think>\n' }}}}{{% endif %}}")
    assert list(fmt.profile.thinking_words.values()) == [words]
    prompts = [fmt.turn(ASKED, enable_thinking=on).generation_prompt for on in (True, False)]
    assert prompts == ["<|assistant|>" + ON, "<|assistant|>" + OFF]
    assert fmt.turn(ASKED, reasoning_effort="none").generation_prompt.endswith(OFF)
    assert fmt.turn(ASKED, reasoning_effort="high", enable_thinking=False).generation_prompt.endswith(OFF)


def test_a_level_that_only_the_system_text_tells_switches_too() -> None:
    system = "{{ '<|system|>' + ('Answer at once.' if reasoning_effort == 'none' else 'Think first.') + '<|fin|>' }}"
    fmt = ChatFormat.from_template(system + TURNS + "{% endif %}")
    assert fmt.profile.thinking_words == {"reasoning_effort": (None, "none")}
    assert "Answer at once." in fmt.turn(ASKED, enable_thinking=False).prompt.text
    assert "Think first." in fmt.turn(ASKED, enable_thinking=True).prompt.text


def test_levels_without_one_for_none_are_no_switch() -> None:
    system = "{{ '<|system|>Reasoning: ' + (reasoning_effort or 'medium') + '<|fin|>' }}"
    assert not ChatFormat.from_template(system + TURNS + "{% endif %}").profile.thinking_words
