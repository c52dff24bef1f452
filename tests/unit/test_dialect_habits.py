"""What models write beside their template is read too: openers from the prompt, empty blocks, late reasoning."""

from __future__ import annotations

import json
from typing import Any

import pytest

from dragoman import ChatFormat
from dragoman.chat import Message
from tests.learned_templates import TYPED_TAGS

PLAIN = (
    "{% for m in messages %}<|{{ m.role }}|>{{ m.content or '' }}"
    "{% for c in m.tool_calls or [] %}<do>{{ c.function | tojson }}</do>{% endfor %}<|fin|>{% endfor %}"
    "{% if add_generation_prompt %}<|assistant|>{% endif %}"
)
LATE = (
    "{% for m in messages %}<|{{ m.role }}|>"
    "{% if m.reasoning_content %}<|muse>{{ m.reasoning_content }}<muse|>{% endif %}{{ m.content }}<|fin|>{% endfor %}"
    "{% if add_generation_prompt %}<|assistant|>{% endif %}"
)
TOOLS = [
    {
        "type": "function",
        "function": {"name": "ring", "parameters": {"type": "object", "properties": {"times": {"type": "integer"}}}},
    }
]
ASKED = [{"role": "user", "content": "Hello"}]


def read(template: str, output: str, **arguments: Any) -> Message:
    """The message, read whole and byte by byte; both must be the same."""
    fmt = ChatFormat.from_template(template)
    found = []
    data = output.encode()
    for pieces in ([data], [data[i : i + 1] for i in range(len(data))]):
        turn = fmt.turn(ASKED, id_seed=1, **arguments)
        deltas = [delta for piece in pieces for delta in turn.feed(piece)] + turn.finish()
        assert "".join(delta.content for delta in deltas) == turn.message.content
        found.append(turn.message)
    assert found[0] == found[1]
    return found[0]


@pytest.mark.parametrize("tag", ["think", "ponder", "x:y"])
def test_a_tag_that_the_prompt_opens_holds_reasoning(tag: str) -> None:
    """The template shows no reasoning at all; the prompt that ends in an open tag says enough."""
    message = read(PLAIN, f"hm\n</{tag}>\n\nfine", generation_prompt=f"<|assistant|><{tag}>\n")
    assert (message.reasoning_content.strip(), message.content) == ("hm", "fine")
    cut = read(PLAIN, "hm, never", generation_prompt=f"<{tag}>")
    assert (cut.reasoning_content, cut.content) == ("hm, never", "")


def test_a_call_behind_reasoning_that_the_prompt_opened() -> None:
    output = 'hm</think><do>{"name": "ring", "arguments": {"times": 2}}</do>'
    message = read(PLAIN, output, generation_prompt="<think>", tools=TOOLS)
    assert message.reasoning_content == "hm"
    assert [(call.name, json.loads(call.arguments)) for call in message.tool_calls] == [("ring", {"times": 2})]


def test_the_writer_goes_on_inside_the_block_that_the_prompt_opened() -> None:
    turn = ChatFormat.from_template(PLAIN).turn(ASKED, tools=TOOLS, tool_choice="required", generation_prompt="<think>")
    assert turn.thinking_tags == ("<think>", "</think>")
    assert "</think>" in turn.grammar.to_gbnf()


@pytest.mark.parametrize("layout", ["", "\n"])
def test_an_empty_call_block_is_left_out_without_tools(layout: str) -> None:
    assert read(PLAIN, f"one <do>{layout}</do>two").content == "one two"
    assert read(PLAIN, "Write <do> and </do> around it.").content == "Write <do> and </do> around it."


def test_reasoning_behind_the_answer_is_reasoning_where_its_opener_is_unmistakable() -> None:
    message = read(LATE, "Yes.<|muse>why<muse|> No.<|muse><muse|><muse|>")
    assert (message.content.strip(), message.reasoning_content) == ("Yes. No.", "why")
    assert read(PLAIN, "Say <think> to it.").content == "Say <think> to it."


def test_a_template_that_needs_more_of_a_tool_than_is_declared_gets_it_empty() -> None:
    template = "{% for t in tools %}{{ t.function.description + ' ' + t.function.name }}{% endfor %}" + PLAIN
    turn = ChatFormat.from_template(template).turn(ASKED, tools=[{"type": "function", "function": {"name": "ring"}}])
    assert turn.prompt.text.startswith(" ring<|user|>Hello")


CHATTY = """\
{% for m in messages %}<|{{ m.role }}|>{{ m.content or '' }}{% if m.tool_calls %}<|calls|>\
{% for c in m.tool_calls %}<|call|>tools.{{ c.function.name }}:{{ loop.index0 }}<|with|>\
{{ c.function.arguments | tojson }}<|done|>{% endfor %}<|/calls|>{% endif %}<|fin|>{% endfor %}\
{% if add_generation_prompt %}<|assistant|>{% endif %}"""


@pytest.mark.parametrize(
    ("written", "name"),
    [
        ("tools.ring:4", "ring"),
        ("ring:4", "ring"),
        ("tools_ring_4", "ring"),
        ("toolsring4", "ring"),
        ("ring", "ring"),
        ("tools.a.b-c:0", "a.b-c"),
    ],
)
def test_a_name_that_is_written_as_an_id_is_read_in_any_shape_and_the_id_is_kept(written: str, name: str) -> None:
    output = f'<|calls|><|call|>{written}<|with|>{{"times": 2}}<|done|><|/calls|>'
    call = read(CHATTY, output, tools=TOOLS).tool_calls[0]
    assert (call.id, call.name, call.arguments) == (written, name, '{"times": 2}')


SUFFIXED = """\
{% for m in messages %}<|{{ m.role }}|>{{ m.content or '' }}\
{% for c in m.tool_calls or [] %}<do:v2>{{ c.function.name }}<with:v2>\
{% for k, v in c.function.arguments.items() %}<key:v2>{{ k }}</key:v2><val:v2>{{ v if v is string else v | tojson }}\
</val:v2>{% endfor %}</do:v2>{% endfor %}<|fin|>{% endfor %}{% if add_generation_prompt %}<|assistant|>{% endif %}"""


@pytest.mark.parametrize("suffix", [":v2", ""])
def test_a_suffix_that_all_tags_share_may_be_missing(suffix: str) -> None:
    output = "<do>ring<with><key>times</key><val>2</val></do>".replace(">", f"{suffix}>")
    (call,) = read(SUFFIXED, output, tools=TOOLS).tool_calls
    assert (call.name, json.loads(call.arguments)) == ("ring", {"times": 2})


def test_a_forced_call_may_come_as_a_json_array() -> None:
    output = '[{"name": "ring", "parameters": {"times": 2}}, {"name": "ring", "parameters": {}}]'
    message = read(PLAIN, output, tools=TOOLS, tool_choice="required")
    assert [call.arguments for call in message.tool_calls] == ['{"times": 2}', "{}"]
    assert message.content == ""
    assert read(PLAIN, output, tools=TOOLS).content == output


WRAPPED = """\
{% for m in messages %}<|{{ m.role }}|>{{ m.content or '' }}{% for c in m.tool_calls or [] %}\
<use name="{{ c.function.name }}">{% for k, v in c.function.arguments.items() %}<param name="{{ k }}">\
{% if v is string and ('<' in v or '\\n' in v) %}<![CDATA[{{ v }}]]>{% else %}{{ v }}{% endif %}</param>\
{% endfor %}</use>{% endfor %}<|fin|>{% endfor %}{% if add_generation_prompt %}<|assistant|>{% endif %}"""
WRITE = [
    {
        "type": "function",
        "function": {"name": "write", "parameters": {"type": "object", "properties": {"text": {"type": "string"}}}},
    }
]


@pytest.mark.parametrize("text", ["<b>x</b> </param> y", "\n  two\n", "", "a]]b"])
def test_a_value_in_cdata_is_what_stands_inside(text: str) -> None:
    output = f'<use name="write"><param name="text"><![CDATA[{text}]]></param></use>'
    (call,) = read(WRAPPED, output, tools=WRITE).tool_calls
    assert json.loads(call.arguments) == {"text": text}


LINED = """\
{% for m in messages %}<|{{ m.role }}|>
{{ m.content or '' }}{% for c in m.tool_calls or [] %}
<call>
<fn={{ c.function.name }}>
{% for k, v in c.function.arguments.items() %}<arg={{ k }}>
{{ v if v is string else v | tojson }}
</arg>
{% endfor %}</fn>
</call>{% endfor %}<|fin|>
{% endfor %}{% if add_generation_prompt %}<|assistant|>
{% endif %}"""


def test_an_opener_named_in_prose_is_no_call() -> None:
    output = "Some write <fn=ring> inside <call> tags."
    assert read(LINED, output, tools=TOOLS).content == output


def test_a_name_whose_bracket_is_missing_ends_with_its_line() -> None:
    output = "<call>\n<fn=ring\n<arg=times>\n2\n</arg>\n</fn>\n</call>\n<call>\n<fn=ring\n</fn>\n</call>"
    message = read(LINED, output, tools=TOOLS)
    assert [(call.name, json.loads(call.arguments)) for call in message.tool_calls] == [
        ("ring", {"times": 2}),
        ("ring", {}),
    ]


def test_the_header_that_the_prompt_wrote_may_come_again() -> None:
    assert read(PLAIN, "<|assistant|>Hi <|assistant|>").content == "Hi <|assistant|>"
    assert read(LINED, "<|assistant|>\nHi").content == "Hi"


@pytest.mark.parametrize("kept", ["auto", "none"])
def test_a_continued_message_holds_its_reasoning_where_it_is_told_apart(kept: str) -> None:
    fmt = ChatFormat.from_template(PLAIN)
    begun = {"role": "assistant", "reasoning_content": "hm", "content": "Good "}
    turn = fmt.turn([*ASKED, begun], continue_final_message="content", echo=True, reasoning_format=kept)  # type: ignore[arg-type]
    message_text = [*turn.feed("day."), *turn.finish()]
    assert message_text
    assert turn.message.content == "Good day."
    assert turn.message.reasoning_content.strip() == ("hm" if kept == "auto" else "")


def test_templates_that_take_the_tools_as_one_text_get_it() -> None:
    template = "{{ 'Tools: ' + functions + datetime[:3] }}" + PLAIN
    fmt = ChatFormat.from_template(template)
    assert '"name": "ring"' in fmt.turn(ASKED, tools=TOOLS).prompt.text
    assert ("ring", True) in [(text.strip(), given) for text, given in fmt.turn(ASKED, tools=TOOLS).prompt.parts]
    assert fmt.turn(ASKED).prompt.text.startswith("Tools: Jul")


@pytest.mark.parametrize(
    ("given", "arguments"),
    [
        ([("arguments", '{"times": 2}')], {"times": 2}),
        ([("input", "{}")], {}),
        ([("arguments", '{"other": 2}')], {"arguments": {"other": 2}}),
        ([("arguments", "two")], {"arguments": "two"}),
        ([("arguments", '{"times": 2}'), ("times", "3")], {"arguments": {"times": 2}, "times": 3}),
        ([("times", "3"), ("arguments", '{"times": 2}')], {"times": 3, "arguments": {"times": 2}}),
    ],
)
def test_a_lone_parameter_that_nobody_declared_may_hold_all_arguments(
    given: list[tuple[str, str]], arguments: dict[str, Any]
) -> None:
    written = "".join(f"<arg={key}>\n{value}\n</arg>\n" for key, value in given)
    (call,) = read(LINED, f"<call>\n<fn=ring>\n{written}</fn>\n</call>", tools=TOOLS).tool_calls
    assert json.loads(call.arguments) == arguments


def test_that_parameter_may_be_called_a_string() -> None:
    """A format that says the type of each value says it of the wrapper too."""
    (call,) = read(TYPED_TAGS, '<kul n="ring"><a k="input" t="string">{"times": 2}</a></kul>', tools=TOOLS).tool_calls
    assert json.loads(call.arguments) == {"times": 2}
    (call,) = read(TYPED_TAGS, '<kul n="ring"><a k="input" t="string">{"x": 2}</a></kul>', tools=TOOLS).tool_calls
    assert json.loads(call.arguments) == {"input": '{"x": 2}'}


def test_arguments_in_one_parameter_are_kept_where_the_output_is_cut_off() -> None:
    turn = ChatFormat.from_template(LINED).turn(ASKED, tools=TOOLS)
    turn.feed('<call>\n<fn=ring>\n<arg=arguments>\n{"times": 2')
    turn.finish("length")
    assert turn.message.tool_calls[0].arguments.startswith('{"arguments": ')
    assert turn.message.truncated


def test_an_empty_call_block_whose_closer_holds_a_bracket() -> None:
    template = (
        "{% for m in messages %}<|{{ m.role }}|>{{ m.content or '' }}{% for c in m.tool_calls or [] %}<|do>"
        "{{ c.function.name }}[{{ c.function.arguments | tojson }}]<do|>{% endfor %}<|fin|>{% endfor %}"
        "{% if add_generation_prompt %}<|assistant|>{% endif %}"
    )
    assert read(template, "a<|do><do|>b").content == "ab"


def test_a_call_that_the_output_ends_in_is_complete_behind_its_last_argument() -> None:
    output = "<call>\n<fn=ring>\n<arg=times>\n2\n</arg>\n"
    message = read(LINED, output, tools=TOOLS)
    assert [(call.name, call.arguments) for call in message.tool_calls] == [("ring", '{"times": 2}')]
    turn = ChatFormat.from_template(LINED).turn(ASKED, tools=TOOLS)
    turn.feed(output)
    turn.finish("length")
    assert turn.message.truncated
    assert not turn.message.tool_calls[0].arguments.endswith("}")


CHANNELS = (
    "{% for m in messages %}<|go|>{{ m.role }}"
    "{% if m.reasoning_content %} for=me<|say|>{{ m.reasoning_content }}<|part|><|go|>assistant{% endif %}"
    "{% for c in m.tool_calls or [] %}{% if not loop.first %}<|part|><|go|>assistant{% endif %}"
    ' for={{ c.function.name }}<|say|><call name="{{ c.function.name }}">\n'
    "{% for k, v in c.function.arguments | items %}"
    '<with name="{{ k }}">{{ v if v is string else v | tojson }}</with>\n{% endfor %}</call>'
    "{% else %}{% if m.role == 'assistant' %} for=you{% endif %}<|say|>{{ m.content }}{% endfor %}<|fin|>{% endfor %}"
    "{% if add_generation_prompt %}<|go|>assistant{% endif %}"
)


@pytest.mark.parametrize(("written", "name"), [("ring", "ring"), ("bell.ring", "ring"), ("bell.toll", "bell.toll")])
def test_a_name_with_a_namespace_is_the_declared_one_behind_it(written: str, name: str) -> None:
    output = f' for={written}<|say|><call name="{written}">\n<with name="times">2</with>\n</call><|fin|>'
    message = read(CHANNELS, output, tools=TOOLS)
    assert [(call.name, json.loads(call.arguments)) for call in message.tool_calls] == [(name, {"times": 2})]
    assert [problem.code for problem in message.problems] == ([] if name == "ring" else ["unknown_tool"])


def test_a_turn_may_begin_with_the_end_of_a_header() -> None:
    assert read(CHANNELS, "<|say|>Hi<|fin|>").content == "Hi"
    assert read(CHANNELS, "Hi <|say|>").content == "Hi <|say|>"


MISSPELT = (
    "{% for m in messages %}<|{{ m.role }}|>{{ m.content or '' }}{% if m.tool_calls %}<｜tool_calls_begin｜>"
    "{% for c in m.tool_calls %}<｜tool_call_begin>｜>{{ c.function | tojson }}<｜tool_call_end｜>{% endfor %}"
    "<｜tool_calls_end｜>{% endif %}<|fin|>{% endfor %}{% if add_generation_prompt %}<|assistant|>{% endif %}"
)


@pytest.mark.parametrize("marker", ["<｜tool_call_begin>｜>", "<｜tool_call_begin｜>"])
def test_a_marker_that_the_history_misspells_is_read_as_the_instructions_have_it(marker: str) -> None:
    call = marker + '{"name": "ring", "arguments": {"times": 2}}<｜tool_call_end｜>'
    message = read(MISSPELT, f"Hi<｜tool_calls_begin｜>{call}{call}<｜tool_calls_end｜><|fin|>", tools=TOOLS)
    assert [(call.name, json.loads(call.arguments)) for call in message.tool_calls] == [("ring", {"times": 2})] * 2
    assert (message.content, message.problems) == ("Hi", ())


@pytest.mark.parametrize("again", ["", "<think>", "\n<think>\n"])
def test_a_block_that_the_prompt_opened_may_be_opened_once_more(again: str) -> None:
    message = read(PLAIN, f"{again}hm</think>fine", generation_prompt="<|assistant|><think>\n")
    assert (message.reasoning_content.strip(), message.content) == ("hm", "fine")


HEADED = (
    "{% for m in messages %}<|{{ m.role }}|>{{ m.content or '' }}"
    "{% for c in m.tool_calls or [] %}[TOOL_CALLS]{{ c.function.name }}[ARGS]{{ c.function.arguments | tojson }}"
    "{% endfor %}<|fin|>{% endfor %}{% if add_generation_prompt %}<|assistant|>{% endif %}"
)


@pytest.mark.parametrize("opens", ["[TOOL_CALLS]", "[TOOL_CALLS] ", "[TOOL_CALLS] [TOOL_CALLS]"])
def test_the_array_of_earlier_releases_is_read(opens: str) -> None:
    call = '{"name": "ring", "arguments": {"times": 2}, "id": "%s"}'
    message = read(HEADED, f"Hi{opens}[{call % 'abcdefgh1'}, {call % 'abcdefgh2'}]<|fin|>", tools=TOOLS)
    assert [(call.name, call.arguments) for call in message.tool_calls] == [("ring", '{"times": 2}')] * 2
    assert (message.content, message.problems) == ("Hi", ())
