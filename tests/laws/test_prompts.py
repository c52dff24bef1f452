"""Prompts of whole requests: as public suites expect them, and as transformers renders and encodes them."""

from __future__ import annotations

import copy
import functools
from collections.abc import Callable
from typing import Any

import pytest

from dragoman import ChatFormat
from dragoman.dialect.request import DialectRequest
from dragoman.errors import TemplateError
from dragoman.prompt import Prompter, Rendering
from dragoman.template.adapt import normalise
from dragoman.template.capabilities import find_capabilities
from dragoman.template.profile import Profile
from dragoman.template.render import FIXED_NOW, Template
from dragoman.vocab import Vocabulary
from tests.template_corpus import sampled, shared_rows, template_source, templates
from tests.vocabularies import qwen3_tokenizer_json

# -- public suites -----------------------------------------------------------------------------------------------------

_CONTINUED = {"none": False, "content": "content", "reasoning": "reasoning_content"}
_OPERATORS: dict[str, Callable[[str, str], bool]] = {
    "contains": lambda text, value: value in text,
    "equals": lambda text, value: text == value,
    "starts_with": str.startswith,
    "ends_with": str.endswith,
}


@pytest.mark.parametrize("row", [pytest.param(row, id=row["id"]) for row in shared_rows("prompts.jsonl")])
def test_shared_prompts(row: dict[str, Any]) -> None:
    given = row["inputs"]
    fmt = ChatFormat.from_template(template_source(row["template"].rpartition("/")[2]))
    continued = _CONTINUED[given["continue_final_message"]]
    turn = fmt.turn(
        [{key: value for key, value in message.items() if value or key == "content"} for message in given["messages"]],
        given["tools"] or None,
        tool_choice=given["tool_choice"],
        reasoning_format=given["reasoning_format"],
        enable_thinking=given["enable_thinking"],
        chat_template_kwargs=given["chat_template_kwargs"],
        add_generation_prompt=bool(continued) or given["add_generation_prompt"],
        continue_final_message=continued,
    )
    shown = {"prompt": turn.prompt.text, "generation_prompt": turn.generation_prompt}
    for wanted in row["asserts"]:
        found = shown[wanted["on"]]
        assert _OPERATORS[wanted["op"]](found, wanted["value"]), (wanted, found[-200:])


@pytest.mark.parametrize("row", [pytest.param(row, id=row["template"]) for row in shared_rows("role_markers.jsonl")])
def test_shared_role_markers(row: dict[str, Any]) -> None:
    starts = ChatFormat.from_template(template_source(row["template"])).profile.role_starts
    for role in ("user", "assistant"):
        assert starts.get(role, "").strip() == row[f"{role}_start"].strip()


# -- transformers ------------------------------------------------------------------------------------------------------

TOOLS = [
    {
        "type": "function",
        "function": {
            "name": "get_weather",
            "description": 'The "weather" & more, é',
            "parameters": {
                "type": "object",
                "properties": {
                    "city": {"type": "string", "description": "A city's <name>"},
                    "days": {"type": "integer"},
                },
                "required": ["city"],
            },
        },
    }
]


def _call(id: str, city: str) -> dict[str, Any]:
    arguments = {"city": city, "days": 2}
    return {"id": id, "type": "function", "function": {"name": "get_weather", "arguments": arguments}}


def _result(id: str, text: str) -> dict[str, Any]:
    return {"role": "tool", "tool_call_id": id, "name": "get_weather", "content": text}


SYSTEM = {"role": "system", "content": "Be brief; answer in Français. 🙂"}
USER = {"role": "user", "content": "Le temps à 北京?\n\n  And in Sète\t?"}
ANSWER = {"role": "assistant", "content": "Sunny — 21 °C."}
ONE = {"role": "assistant", "content": "", "tool_calls": [_call("aaaaaaaa1", "北京")]}
TWO = {**ONE, "content": "I look.", "tool_calls": [*ONE["tool_calls"], _call("aaaaaaaa2", "Sète")]}  # type: ignore[misc]
THINKS = {"role": "assistant", "content": "", "reasoning_content": "Two\ncities.", "tool_calls": TWO["tool_calls"]}
RESULTS = [_result("aaaaaaaa1", '{"t": 21}'), _result("aaaaaaaa2", "pluie\n")]

CONVERSATIONS: dict[str, tuple[list[dict[str, Any]], list[dict[str, Any]]]] = {
    "user": ([USER], []),
    "system": ([SYSTEM, USER, ANSWER, USER], []),
    "tools": ([SYSTEM, USER], TOOLS),
    "call": ([USER, ONE, RESULTS[0], ANSWER, USER], TOOLS),
    "calls": ([SYSTEM, USER, TWO, *RESULTS], TOOLS),
    "reasoning": ([USER, THINKS, *RESULTS, {**ANSWER, "reasoning_content": "Hm."}, USER], TOOLS),
}


@functools.cache
def _reference(source: str) -> Any:
    utils = pytest.importorskip("transformers.utils.chat_template_utils")
    reference = utils._compile_jinja_template(source)
    reference.globals["strftime_now"] = FIXED_NOW.strftime
    return reference


def _expected(source: str, messages: list[dict[str, Any]], tools: list[dict[str, Any]], more: bool) -> str | None:
    """What transformers renders; None where it cannot."""
    given: dict[str, Any] = {"messages": copy.deepcopy(messages), "bos_token": "<s>", "eos_token": "</s>"}
    try:
        return str(_reference(source).render(add_generation_prompt=more, tools=copy.deepcopy(tools) or None, **given))
    except Exception:  # whatever Jinja or the template raises
        return None


@pytest.mark.parametrize("source", [pytest.param(source, id=name) for name, source in sampled(list(templates()), 2)])
def test_a_user_turn_is_that_of_transformers(source: str) -> None:
    """Through ``ChatFormat.turn``, where messages are adapted: a plain user turn needs no adapting."""
    messages = [{"role": "user", "content": "Le temps à 北京?  <b>&"}]
    expected = _expected(source, messages, [], True)
    if expected is None or "北京" not in expected:
        pytest.skip("transformers renders no plain user turn of it")
    # As ChatFormat.turn renders it, without learning eight hundred templates.
    template = Template(source, bos_token="<s>", eos_token="</s>")
    prompter = Prompter(template, Profile(), find_capabilities(template), None)
    rendering = Rendering(normalise(messages)[0], [], {}, None, True, None)
    assert prompter.prompt(rendering, DialectRequest()).text == expected


@functools.cache
def _qwen3() -> tuple[Vocabulary, Any]:
    transformers = pytest.importorskip("transformers")
    file = qwen3_tokenizer_json()
    tokenizer = transformers.PreTrainedTokenizerFast(tokenizer_file=str(file), eos_token="<|im_end|>")
    return Vocabulary.from_tokenizer_json(file), tokenizer


def _qwen_sources() -> list[Any]:
    found = [
        (name, source)
        for name, source in templates()
        if "<|im_start|>" in source and ("<tool_call>" in source or "</think>" in source)
    ]
    return [pytest.param(source, id=name) for name, source in found[::6]]


@pytest.mark.parametrize("source", _qwen_sources())
def test_text_and_ids_are_those_of_apply_chat_template(source: str) -> None:
    vocab, tokenizer = _qwen3()
    fmt = ChatFormat.from_template(source, eos_token="<|im_end|>", vocab=vocab)
    compared = 0
    for messages, tools in CONVERSATIONS.values():
        for more in (True, False):
            arguments: dict[str, Any] = {"chat_template": source, "add_generation_prompt": more, "tools": tools or None}
            try:
                text = tokenizer.apply_chat_template(copy.deepcopy(messages), tokenize=False, **arguments)
            except Exception:
                continue  # transformers refuses the conversation
            if "strftime_now" in source or (tools and fmt.profile.generic_tools) or not _takes(fmt, messages):
                continue  # today's date; tools that the template knows nothing of; rewritten on purpose
            prompt = fmt.turn(messages, tools, add_generation_prompt=more).prompt
            ids = tokenizer.apply_chat_template(copy.deepcopy(messages), tokenize=True, return_dict=False, **arguments)
            assert prompt.text == text
            assert list(prompt.token_ids) == ids
            compared += 1
    assert compared or "strftime_now" in source


def _takes(fmt: ChatFormat, messages: list[dict[str, Any]]) -> bool:
    """True: nothing of the messages is in a form that the template would misread or drop."""
    caps, calls = fmt.capabilities, any("tool_calls" in message for message in messages)
    system = messages[0]["role"] != "system" or caps.supports_system_role
    return system and (not calls or caps.supports_object_arguments) and caps.supports_string_content


# -- options of a turn -------------------------------------------------------------------------------------------------

KEEPS = """{%- for m in messages %}{{ '<|' + m.role + '|>' }}
{%- if m.reasoning_content and (preserve_thinking or not clear_thinking | default(true)) %}[{{ m.reasoning_content }}]
{%- endif %}{{ m.content }}<|end|>{% endfor %}{% if add_generation_prompt %}<|assistant|>{% endif %}"""


def test_reasoning_of_earlier_turns_is_kept_on_request() -> None:
    fmt = ChatFormat.from_template(KEEPS)
    messages = [USER, {"role": "assistant", "content": "A", "reasoning": "old"}, USER]
    for keep in (True, False):
        prompt = fmt.turn(messages, chat_template_kwargs={"preserve_reasoning": keep}).prompt
        assert ("[old]" in prompt.text) is keep
    assert "[old]" in fmt.with_defaults(variables={"preserve_reasoning": True}).turn(messages).prompt.text


def test_a_template_that_has_one_place_for_reasoning_and_text_gets_the_reasoning() -> None:
    source = """{%- for m in messages %}{{ '<|' + m.role + '|>' }}
    {%- if m.tool_calls and m.content and m.reasoning_content %}{{ raise_exception('one of both') }}{% endif %}
    {{- m.reasoning_content or m.content }}<|end|>{% endfor %}{% if add_generation_prompt %}<|assistant|>{% endif %}"""
    turn = ChatFormat.from_template(source).turn([USER, {**THINKS, "content": "text"}, *RESULTS], TOOLS)
    assert "Two\ncities." in turn.prompt.text or "text" in turn.prompt.text
    with pytest.raises(TemplateError, match="never"):
        ChatFormat.from_template("{{ raise_exception('never') }}").turn([USER])


def test_ids_that_a_template_refuses_are_made_short_the_same_for_call_and_result() -> None:
    source = """{%- for t in tools or [] %}{{ t.function.name }}{% endfor %}
    {%- for m in messages %}{{ '<|' + m.role + '|>' + m.content + (m.tool_call_id or '') }}
    {%- for c in m.tool_calls or [] %}{% if c.id | length != 9 %}{{ raise_exception('9') }}{% endif %}
    {{- '<call>' + c.function.name + '\\n' + (c.function.arguments | tojson) + '#' + c.id + '</call>' }}
    {%- endfor %}<|end|>{% endfor %}
    {%- if add_generation_prompt %}<|assistant|>{% endif %}"""
    calls = [_call("call_0123456789abcdef", "A"), _call("aaaaaaaa2", "B")]
    messages = [USER, {**ONE, "tool_calls": calls}, _result("call_0123456789abcdef", "r")]
    text = ChatFormat.from_template(source).turn(messages, TOOLS).prompt.text
    short = text.partition("#")[2].partition("</call>")[0]
    assert len(short) == 9
    assert short.isalnum()
    assert text.count(short) == 2
    assert "#aaaaaaaa2" in text


def test_broken_arguments_in_the_history_are_no_error() -> None:
    source = """{%- for m in messages %}{% for c in m.tool_calls or [] %}{{ '<call>' + c.function.name }}
    {%- for k, v in c.function.arguments.items() %}<k>{{ k }}</k>{{ v }}{% endfor %}</call>{% endfor %}
    {{- '<|' + m.role + '|>' + m.content }}<|end|>{% endfor %}
    {%- for t in tools or [] %}{{ t.function.name }}{% endfor %}"""
    broken = {"id": "a", "type": "function", "function": {"name": "get_weather", "arguments": '{"city": "Par'}}
    messages = [USER, {**ONE, "tool_calls": [broken]}, _result("a", "r")]
    for each in (
        source,
        source.replace(".items()", " | items").replace("c.function.arguments", "(c.function.arguments)"),
    ):
        assert '{"city": "Par' in ChatFormat.from_template(each).turn(messages, TOOLS).prompt.text
