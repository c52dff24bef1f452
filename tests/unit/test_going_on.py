"""A message that goes on stands where the history writes answers: as transformers has it, but for written reasons."""

from __future__ import annotations

import copy
from typing import Any

import pytest

from dragoman import ChatFormat
from dragoman.template.render import FIXED_NOW
from tests.template_corpus import templates

USER = {"role": "user", "content": "Hello"}


def _template(before: str, prompt: str, header: str = "<|bot|>") -> str:
    """before: what history writes between header and answer; prompt: what the generation prompt adds to the header."""
    return (
        "{% for m in messages %}{% if m.role == 'user' %}<|user|>{{ m.content }}<|end|>{% else %}"
        f"{header}{before}{{{{ m.content }}}}<|end|>{{% endif %}}{{% endfor %}}"
        f"{{% if add_generation_prompt %}}{header}{prompt}{{% endif %}}"
    )


THOUGHT = "{% if m.reasoning_content %}<think>\n{{ m.reasoning_content }}\n</think>\n\n{% endif %}"
EMPTY = THOUGHT.replace("{% endif %}", "{% else %}<think>\n\n</think>\n\n{% endif %}")
SPACE = _template("{{ ' ' }}", "", "[/INST]")


def _turn(source: str, content: str, **more: Any) -> Any:
    reasoning = {"reasoning_content": more.pop("reasoning")} if "reasoning" in more else {}
    message = {"role": "assistant", "content": content, **reasoning}
    return ChatFormat.from_template(source).turn([USER, message], continue_final_message="content", **more)


@pytest.mark.parametrize(
    ("source", "tail"),
    [
        (SPACE, "[/INST] He said"),
        (_template(EMPTY, ""), "<|bot|><think>\n\n</think>\n\nHe said"),
        (_template("{% if not m.reasoning_content %}</think>{% endif %}" + THOUGHT, ""), "<|bot|></think>He said"),
        # The prompt opens a block and history writes it empty: history counts.
        (_template(EMPTY, "<think>\n"), "<|bot|><think>\n\n</think>\n\nHe said"),
        # Reasons 2 and 3: history says nothing of what the prompt opened or closed.
        (_template(THOUGHT, "<think>\n"), "<|bot|><think>\n\n</think>\n\nHe said"),
        (_template(THOUGHT, "<think>\n\n</think>\n\n"), "<|bot|><think>\n\n</think>\n\nHe said"),
        # Reason 5: another header.
        (_template(THOUGHT, "").replace("prompt %}<|bot|>", "prompt %} <|bot|>"), "<|end|> <|bot|>He said"),
    ],
)
def test_what_history_writes_in_front_of_an_answer_stands_there(source: str, tail: str) -> None:
    turn = _turn(source, "He said")
    assert turn.prompt.text.endswith(tail)
    assert turn.prompt.text.count("He said") == 1
    assert turn.prompt.text.endswith(turn.generation_prompt)


@pytest.mark.parametrize("echo", [False, True])
@pytest.mark.parametrize("source", [SPACE, _template(EMPTY, ""), _template(EMPTY, "<think>\n"), _template(THOUGHT, "")])
def test_layout_and_empty_blocks_are_no_part_of_the_message(source: str, echo: bool) -> None:
    turn = _turn(source, " He said", echo=echo)
    turn.feed(" so.<|end|>")
    turn.finish("stop")
    assert turn.message.content.lstrip() == ("He said so." if echo else "so.")
    assert not turn.message.reasoning_content.strip()
    assert not turn.message.problems


@pytest.mark.parametrize(
    "source", [_template(EMPTY, ""), _template(EMPTY, "<think>\n"), _template(THOUGHT, "<think>\n")]
)
def test_reasoning_goes_with_the_answer(source: str) -> None:
    turn = _turn(source, "He said", reasoning="Hm.", echo=True)
    assert turn.prompt.text.endswith("<|bot|><think>\nHm.\n</think>\n\nHe said")
    turn.feed(" so.<|end|>")
    turn.finish("stop")
    assert (turn.message.reasoning_content.strip(), turn.message.content) == ("Hm.", "He said so.")


def test_white_space_of_the_text_is_kept_where_history_trims_it() -> None:
    source = SPACE.replace("{{ m.content }}<|end|>{% endif", "{{ m.content | trim }}<|end|>{% endif")
    assert _turn(source, "  He said \n").prompt.text.endswith("[/INST]   He said \n")


def test_what_the_caller_wrote_stays_input() -> None:
    parts = _turn(_template(EMPTY, ""), "<|end|>", reasoning="<think>").prompt.parts
    assert [text for text, is_input in parts if is_input] == ["Hello", "<think>", "<|end|>"]


# Public templates that write something in front of answers: nothing but it differed.
EQUAL = ("Qwen-Qwen3-0.6B", "llama-cpp-rwkv-world", "tool_chat_template_mistral", "GLM-4.6", "zai-org-GLM-4.6")


def _public() -> list[Any]:
    return [pytest.param(source, id=name) for name, source in templates() if name.removesuffix(".jinja") in EQUAL]


@pytest.mark.parametrize("source", _public())
def test_the_prompt_is_that_of_transformers(source: str) -> None:
    utils = pytest.importorskip("transformers.utils.chat_template_utils")
    fmt = ChatFormat.from_template(source, bos_token="<s>", eos_token="</s>")
    for content in ("He said", "a\n\nb", "é漢"):
        messages = [USER, {"role": "assistant", "content": content}]
        expected, _ = utils.render_jinja_template(
            [copy.deepcopy(messages)],
            chat_template=source,
            continue_final_message=True,
            bos_token="<s>",
            eos_token="</s>",
        )
        assert fmt.turn(messages, continue_final_message=True, now=FIXED_NOW).prompt.text == expected[0]
