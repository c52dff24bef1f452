"""Wrong arguments of a turn are refused by name, and a turn's end is what the template ends it with."""

from __future__ import annotations

from typing import Any

import pytest

from dragoman import ChatFormat, UsageError

TEMPLATE = """{% for m in messages %}[{{ m.role }}]{{ m.content or '' }}\
{% for c in m.tool_calls or [] %}<<call {{ c.function.name }}>>{{ c.function.arguments | tojson }}<<end>>{% endfor %}\
[/{{ m.role }}]{% endfor %}{% if add_generation_prompt %}[assistant]{% endif %}{# tools #}"""
# Tools are listed in front of the last user message, and nothing ends an answer without an eos token.
TOOLS_BEFORE_LAST_USER = """{% for m in messages %}{% if m.role == 'user' %}\
{% if loop.last and tools %}[OFFERED]{{ tools | tojson }}[/OFFERED]{% endif %}[ASK]{{ m.content }}[/ASK]\
{% elif m.role == 'tool' %}[RESULT]{{ m.content }}[/RESULT]\
{% elif m.tool_calls %}{% for c in m.tool_calls %}[DO]{"name": "{{ c.function.name }}", "arguments": \
{{ c.function.arguments | tojson }}}{% endfor %}{{ eos_token }}\
{% else %}{{ m.content }}{{ eos_token }}{% endif %}{% endfor %}"""
USER = [{"role": "user", "content": "Hi"}]
TOOL = {"type": "function", "function": {"name": "f", "parameters": {"type": "object"}}}


@pytest.mark.parametrize(
    ("arguments", "param"),
    [
        ({"tool_choice": {"type": "allowed_tools", "allowed_tools": "x"}}, "tool_choice"),
        ({"tool_choice": {"type": "allowed_tools", "allowed_tools": {"tools": 3}}}, "tool_choice"),
        ({"parallel_tool_calls": "no"}, "parallel_tool_calls"),
        ({"generation_prompt": 5}, "generation_prompt"),
        ({"grammar": 5, "tools": None}, "grammar"),
        ({"now": "x"}, "now"),
    ],
)
def test_a_wrong_argument_is_named(arguments: dict[str, Any], param: str) -> None:
    with pytest.raises(UsageError) as raised:
        ChatFormat.from_template(TEMPLATE).turn(USER, **{"tools": [TOOL], **arguments})
    assert raised.value.param == param


def test_a_constraint_needs_a_vocabulary() -> None:
    turn = ChatFormat.from_template(TEMPLATE).turn(USER, tools=[TOOL])
    for wrong in (None, "x"):
        with pytest.raises(UsageError, match="Vocabulary"):
            turn.constraint(wrong)  # type: ignore[arg-type]


@pytest.mark.parametrize("eos", ["", "</s>"])
def test_a_list_of_tools_before_the_last_message_ends_no_turn(eos: str) -> None:
    fmt = ChatFormat.from_template(TOOLS_BEFORE_LAST_USER, eos_token=eos)
    assert "[OFFERED]" not in fmt.profile.end_of_turn
    if eos:
        assert fmt.profile.end_of_turn[0] == eos
    turn = fmt.turn(USER)
    turn.feed("The marker [OFFERED] opens the list." + eos)
    turn.finish()
    assert turn.message.content == "The marker [OFFERED] opens the list."
