"""A dialect at its borders: names it cannot carry, tools without parameters, nested JSON in answers."""

from __future__ import annotations

import pytest

from dragoman import ChatFormat, SchemaError
from tests.oracles.sample import sample

TAGGED = """{% for m in messages %}[{{ m.role }}]{{ m.content or '' }}\
{% for c in m.tool_calls or [] %}<<call {{ c.function.name }}>>{{ c.function.arguments | tojson }}<<end>>{% endfor %}\
[/{{ m.role }}]{% endfor %}{% if add_generation_prompt %}[assistant]{% endif %}{# tools #}"""
BARE = """{% for m in messages %}[{{ m.role }}]{{ m.content or '' }}{% for c in m.tool_calls or [] %}\
{"name": "{{ c.function.name }}", "parameters": {{ c.function.arguments | tojson }}}{% endfor %}[/{{ m.role }}]\
{% endfor %}{% if add_generation_prompt %}[assistant]{% endif %}{# tools #}"""
USER = [{"role": "user", "content": "Hi"}]


def tool(name: str, **function: object) -> dict[str, object]:
    return {"type": "function", "function": {"name": name, **function}}


@pytest.mark.parametrize("name", ["a\nb", "trail ", " lead", "a>>b", "[/assistant]"])
def test_a_name_that_the_format_cannot_carry_is_refused(name: str) -> None:
    turn = ChatFormat.from_template(TAGGED).turn(USER, tools=[tool("ok"), tool(name)], tool_choice="required")
    with pytest.raises(SchemaError) as raised:
        turn.grammar.to_gbnf()
    assert raised.value.pointer == "/tools/1/function/name"


@pytest.mark.parametrize("name", ["plain", "with-dash.and:colon", "Größe", "a b"])
def test_a_name_that_it_can_carry_is_read_back(name: str) -> None:
    fmt = ChatFormat.from_template(TAGGED)
    turn = fmt.turn(USER, tools=[tool(name)], tool_choice="required")
    for text in (sample(fmt.writer(turn.request), seed) for seed in range(3)):
        again = fmt.turn(USER, tools=[tool(name)], tool_choice="required")
        again.feed(text)
        again.finish()
        assert again.message.tool_calls[0].name == name
        assert again.message.problems == ()


@pytest.mark.parametrize("parameters", [{}, {"parameters": {}}, {"parameters": None}])
def test_a_tool_without_parameters_takes_none(parameters: dict[str, object]) -> None:
    for template in (TAGGED, BARE):
        fmt = ChatFormat.from_template(template)
        turn = fmt.turn(USER, tools=[tool("now", **parameters)], tool_choice="required", parallel_tool_calls=False)
        for text in (sample(fmt.writer(turn.request), seed) for seed in range(5)):
            again = fmt.turn(USER, tools=[tool("now", **parameters)], tool_choice="required")
            again.feed(text)
            again.finish()
            assert [call.arguments for call in again.message.tool_calls] == ["{}"]


@pytest.mark.parametrize(
    "opener", ['{"a": ', '[{"a": {"b": ', '{"parameters": ', '{"name": {', '{"type": "function", "x": {']
)
def test_nested_json_in_an_answer_keeps_few_ways_open(opener: str) -> None:
    """Each brace may begin a call of a format without markers; none may stay in doubt through nested JSON."""
    turn = ChatFormat.from_template(BARE).turn(USER, tools=[tool("now")])
    threads = []
    for _ in range(60):
        turn.feed(opener)
        threads.append(len(turn.reader.run.state.threads))
    assert max(threads) < 16
    assert len(turn.reader.run.withheld) < 4 * len(opener) + 16
    turn.finish()
    assert turn.message.content == opener * 60


def test_a_bare_call_with_a_type_before_its_name_is_read() -> None:
    turn = ChatFormat.from_template(BARE).turn(USER, tools=[tool("now")])
    turn.feed('{"type": "function", "name": "now", "parameters": {"deep": {"er": [1]}}}')
    turn.finish()
    assert [(call.name, call.arguments) for call in turn.message.tool_calls] == [("now", '{"deep": {"er": [1]}}')]


@pytest.mark.parametrize(
    ("output", "content", "calls"),
    [
        ('[{"name": "f", "parameters": {}}]', "", 1),
        ('Both: [{"name": "f", "parameters": {}},\n {"name": "f", "parameters": {}}] done', "Both: done", 2),
        ('See [1] and [{"a": 2}].', 'See [1] and [{"a": 2}].', 0),
        # The bracket is the answer's own where none follows the calls, and so is one behind them alone.
        ('I say [{"name": "f", "parameters": {}}', "I say [", 1),
        ('I say [{"name": "f", "parameters": {}} and more', "I say [ and more", 1),
        ('I say {"name": "f", "parameters": {}}] and more', "I say] and more", 1),
        ('functools[{"name": "f", "parameters": {}}]', "", 1),
        ('functools[{"name": "f", "parameters": {}}', "", 1),
        # What tuned models keep of their base model.
        ('Hi[TOOL_CALLS][{"name": "f", "parameters": {}}]', "Hi", 1),
        ('Hi<tool_call>\n{"name": "f", "parameters": {}}\n</tool_call> ok', "Hi ok", 1),
        ('<tool_call>[{"name": "f", "parameters": {}}]</tool_call>', "", 1),
        ('See <tool_call> and {"a": 2}</tool_call>.', 'See <tool_call> and {"a": 2}</tool_call>.', 0),
    ],
)
@pytest.mark.parametrize("size", [1, 7, 200])
def test_a_list_of_bare_calls_leaves_no_bracket(output: str, content: str, calls: int, size: int) -> None:
    turn = ChatFormat.from_template(BARE).turn(USER, tools=[tool("f", parameters={"type": "object"})])
    deltas = [delta for at in range(0, len(output), size) for delta in turn.feed(output[at : at + size])]
    deltas += turn.finish()
    assert (" ".join(turn.message.content.split()), len(turn.message.tool_calls)) == (content, calls)
    assert "".join(delta.content for delta in deltas) == turn.message.content


LIST = """{% for m in messages %}[{{ m.role }}]{{ m.content or '' }}{% if m.tool_calls %}{{ '[' }}\
{% for c in m.tool_calls %}{"name": "{{ c.function.name }}", "parameters": {{ c.function.arguments | tojson }}}\
{{ ', ' if not loop.last }}{% endfor %}{{ ']' }}{% endif %}[/{{ m.role }}]{% endfor %}\
{% if add_generation_prompt %}[assistant]{% endif %}"""


@pytest.mark.parametrize(
    ("output", "content", "calls"),
    [
        ('Look:\n```json\n[{"name": "f", "parameters": {}}]\n```', "Look:", 1),
        ('```json\n[{"name": "f", "parameters": {}}, {"name": "f", "parameters": {}}]\n``` So.', "So.", 2),
        ('```json\n[{"a": 1}]\n```', '```json [{"a": 1}] ```', 0),
    ],
)
def test_a_fence_around_a_list_of_calls_is_none_of_the_answer(output: str, content: str, calls: int) -> None:
    for size in (1, 200):
        turn = ChatFormat.from_template(LIST).turn(USER, tools=[tool("f", parameters={"type": "object"})])
        for at in range(0, len(output), size):
            turn.feed(output[at : at + size])
        turn.finish()
        assert (" ".join(turn.message.content.split()), len(turn.message.tool_calls)) == (content, calls)
