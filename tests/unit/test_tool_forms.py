"""Tools are given to a template in a form that it takes."""

from __future__ import annotations

from typing import Any

import pytest

from dragoman import ChatFormat

# A macro that knows no "null" and walks through the letters of what it does not know, without end.
TYPES = """{% macro kind(spec) %}{% if spec.type == "string" %}str{% elif spec.type == "integer" %}int\
{% elif spec.type is iterable %}Union[{% for t in spec.type %}{{ kind({"type": t}) }}{{ "," if not loop.last }}\
{% endfor %}]{% else %}Any{% endif %}{% endmacro %}\
{% for t in tools or [] %}<tool>{{ t.function.name }}(\
{% for key, spec in t.function.parameters.properties.items() %}{{ key }}: {{ kind(spec) }}{% endfor %})</tool>\
{% endfor %}{% for m in messages %}[{{ m.role }}]{{ m.content or '' }}\
{% for c in m.tool_calls or [] %}<<call {{ c.function.name }}>>{{ c.function.arguments | tojson }}<<end>>{% endfor %}\
[/{{ m.role }}]{% endfor %}{% if add_generation_prompt %}[assistant]{% endif %}"""


@pytest.mark.parametrize(
    ("kind", "written"),
    [
        ("string", "u: str"),
        (["string", "null"], "u: str"),
        (["string", "integer", "null"], "u: Union[str,int]"),
        ("null", "u: Union[]"),
    ],
)
def test_types_that_a_template_never_gets_through_are_left_out(kind: Any, written: str) -> None:
    parameters = {"type": "object", "properties": {"u": {"type": kind}}}
    tool = {"type": "function", "function": {"name": "f", "parameters": parameters}}
    turn = ChatFormat.from_template(TYPES).turn([{"role": "user", "content": "Hi"}], tools=[tool])
    assert f"<tool>f({written})</tool>" in turn.prompt.text
    turn.feed('<<call f>>{"u": null}<<end>>')
    turn.finish()
    assert turn.message.tool_calls[0].arguments == '{"u": null}'
