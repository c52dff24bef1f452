"""The laws of rendering, on every real template at hand.

1. The text is that of transformers' own environment.
2. Provenance changes no text.
3. No text of a request is ever in a part that is not input.
4. No marker of the template is ever in a part that is input.
"""

from __future__ import annotations

import copy
import datetime
import functools
import json
import re
from typing import Any

import pytest
from jinja2 import nodes

from dragoman.errors import DragomanError, TemplateError
from dragoman.template.render import FIXED_NOW, Template
from tests.template_corpus import sampled, shared_rows, template_source, templates

TEMPLATES = sampled(list(templates()), 2)
# Characters that no template holds: where one stands, text of the request stands.
RARE = "龘靐齉爩"


def rare(text: str) -> str:
    return RARE[:2] + text + RARE[2:]


NAME = rare("get_weather")
TOOLS: list[dict[str, Any]] = [
    {
        "type": "function",
        "function": {
            "name": NAME,
            "description": rare('Weather & "more" é'),
            "parameters": {
                "type": "object",
                "properties": {
                    rare("city"): {"type": "string", "description": rare("The 'city' & its land")},
                    "days": {"type": "integer", "enum": [1, 2]},
                },
                "required": [rare("city")],
            },
        },
    }
]
ARGUMENTS = {rare("city"): rare("Rome'\"\n"), "days": 2, "x": None, "y": True, "l": [1.5, rare("a&b")]}


def call(arguments: Any) -> dict[str, Any]:
    return {"id": "abc123def", "type": "function", "function": {"name": NAME, "arguments": arguments}}


SYSTEM = {"role": "system", "content": rare("Be & {x} %s kind ")}
USER = {"role": "user", "content": " " + rare("Hello\n there ") + " "}
PARTS = {"role": "user", "content": [{"type": "text", "text": rare("of parts")}]}
ANSWER = {"role": "assistant", "content": rare("Yes.")}
CALL = {"role": "assistant", "content": "", "tool_calls": [call(ARGUMENTS)]}
TEXT_CALL = {"role": "assistant", "content": "", "tool_calls": [call(json.dumps({"a": RARE}, ensure_ascii=False))]}
THOUGHT = {
    "role": "assistant",
    "content": rare("Well"),
    "reasoning_content": rare("Hm"),
    "tool_calls": [call(ARGUMENTS)],
}
RESULT = {"role": "tool", "tool_call_id": "abc123def", "name": NAME, "content": rare("sunny")}

CONVERSATIONS: list[tuple[list[dict[str, Any]], list[dict[str, Any]]]] = [
    ([SYSTEM, USER, ANSWER, USER], []),
    ([SYSTEM, USER, CALL, RESULT], TOOLS),
    ([USER, TEXT_CALL, RESULT, ANSWER, USER], TOOLS),
    ([PARTS], []),
    ([USER, THOUGHT, RESULT, USER], TOOLS),
]

_MARKER = re.compile(r"<[^<>\s]{1,40}>|\[/?[A-Z_]{2,}\]")


def markers(template: Template) -> set[str]:
    """What looks like a control token in the template's own text."""
    found = {template.bos_token, template.eos_token}
    for node in template.ast.find_all((nodes.TemplateData, nodes.Const)):
        text = node.data if isinstance(node, nodes.TemplateData) else getattr(node, "value", None)
        found.update(_MARKER.findall(text) if isinstance(text, str) else ())
    return found


@functools.cache
def compiled(source: str) -> Template:
    return Template(source, bos_token="<bos>", eos_token="<eos>")


@functools.cache
def rendered(source: str) -> list[Any]:
    """The renderings of all conversations, or the error of each."""
    template = compiled(source)
    out: list[Any] = []
    for messages, tools in CONVERSATIONS:
        try:
            out.append(template.render(messages, tools=tools, add_generation_prompt=True))
        except TemplateError as error:
            out.append(error)
    return out


@pytest.mark.parametrize("source", [pytest.param(source, id=name) for name, source in TEMPLATES])
def test_provenance(source: str) -> None:
    template = compiled(source)
    own = markers(template)
    for (messages, tools), result in zip(CONVERSATIONS, rendered(source), strict=True):
        if isinstance(result, TemplateError):
            with pytest.raises(TemplateError):
                template.render_text(messages, tools=tools, add_generation_prompt=True)
            continue
        assert result.text == template.render_text(messages, tools=tools, add_generation_prompt=True)
        for text, is_input in result.parts:
            assert is_input or not set(text) & set(RARE), f"input in {text!r}"
        flags = "".join(("1" if is_input else "0") * len(text) for text, is_input in result.parts)
        for marker in own:
            for found in re.finditer(re.escape(marker), result.text):
                assert "1" not in flags[found.start() : found.end()], f"{marker!r} was taken for input"


@pytest.mark.parametrize("source", [pytest.param(source, id=name) for name, source in TEMPLATES])
def test_text_is_that_of_transformers(source: str) -> None:
    utils = pytest.importorskip("transformers.utils.chat_template_utils")
    reference = utils._compile_jinja_template(source)
    reference.globals["strftime_now"] = FIXED_NOW.strftime
    for (messages, tools), result in zip(CONVERSATIONS, rendered(source), strict=True):
        arguments: dict[str, Any] = {"messages": copy.deepcopy(messages), "bos_token": "<bos>", "eos_token": "<eos>"}
        if tools:
            arguments["tools"] = copy.deepcopy(tools)
        try:
            expected = reference.render(add_generation_prompt=True, **arguments)
        except Exception:
            continue  # what transformers refuses need not be refused: lists may be changed, generators be serialised
        assert not isinstance(result, DragomanError), f"refused: {result}"
        assert result.text == expected


def test_most_templates_render_something() -> None:
    """The laws above are not kept by refusing."""
    results = [result for _, source in TEMPLATES for result in rendered(source)[:1]]
    kept = [result for result in results if not isinstance(result, TemplateError) and RARE[0] in result.text]
    assert len(kept) > 0.7 * len(results) > 0.6 * len(TEMPLATES)


@pytest.mark.parametrize(
    "row", [pytest.param(row, id=f"{row['group']}: {row['name']}") for row in shared_rows("jinja_snippets.jsonl")]
)
def test_shared_snippets(row: dict[str, Any]) -> None:
    names = dict(row["vars"])
    messages, tools = names.pop("messages", []), names.pop("tools", None)
    prompt = names.pop("add_generation_prompt", False)
    template = Template(
        template_source(row["template"]), bos_token=names.pop("bos_token", ""), eos_token=names.pop("eos_token", "")
    )
    result = template.render(messages, tools=tools, add_generation_prompt=prompt, variables=names)
    assert result.text == row["expect"]


def test_the_same_request_gives_the_same_prompt_whenever_it_is_made() -> None:
    source = "{{ strftime_now('%Y-%m-%d') }}{{ [1, 2, 3] | random }}"
    assert len({Template(source).render([USER]).text for _ in range(20)}) == 1
    now = datetime.datetime(2030, 1, 1)
    assert Template(source).render([USER], now=now).text.startswith("2030-01-01")
