"""Arguments in a dict notation of its own, with white space around its marks."""

# ruff: noqa: E501 - templates are easier to read on long lines

from __future__ import annotations

import json
from typing import Any

import pytest

from dragoman.format import ChatFormat
from dragoman.grammar.compile import compile_writer
from tests import learned_templates as own
from tests.dialects import can_write
from tests.toolsets import tool

SPELL = """{% macro spell(v) %}{% if v is string %}{{ '«' + v + '»' }}{% elif v is boolean or v is none %}{{ v | tojson -}}
{%- elif v is mapping %}{{ '{' }}{% for k, x in v.items() %}{{ k + COLON + spell(x) }}{{ COMMA if not loop.last }}{% endfor %}{{ '}' -}}
{%- elif v is number %}{{ v }}{% else %}{{ '[' }}{% for x in v %}{{ spell(x) }}{{ COMMA if not loop.last }}{% endfor %}{{ ']' }}{% endif %}{% endmacro %}"""


def source(colon: str, comma: str) -> str:
    calls = "{% for c in m.tool_calls or [] %}{{ '<!call>go:' + c.function.name + spell(c.function.arguments) + '<!/call>' }}{% endfor %}"
    spell = SPELL.replace("COLON", repr(colon)).replace("COMMA", repr(comma))
    return own.wrap(spell + own.CONTENT + calls)


SPACED = source(" = ", "; ")
TOOLS = [tool("f", {"port": {"type": "string"}, "days": {"type": "integer"}, "o": {"type": "object"}})]
USER = [{"role": "user", "content": "Hi"}]


@pytest.mark.parametrize(("colon", "comma"), [(" = ", "; "), ("=", ";"), (": ", ", "), (" -> ", ","), (":", ",")])
def test_any_marks_are_learned_and_proven(colon: str, comma: str) -> None:
    fmt = ChatFormat.from_template(source(colon, comma))
    assert fmt.profile.tools is not None
    syntax = fmt.profile.tools.syntax
    assert syntax is not None
    assert (syntax.colon, syntax.comma) == (colon, comma)
    for claim in ("tool_calls", "no_arguments", "nested", "typed", "whitespace"):
        assert fmt.proof[claim] == "proven", fmt.proof.claims[claim].why


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("port = «Brest»; days = 2", {"port": "Brest", "days": 2}),
        ("port=«Brest»;days=2", {"port": "Brest", "days": 2}),
        ("two words  = «a; b = c»; days = -7", {"two words": "a; b = c", "days": -7}),
        ("o = {a = [1; 2; «x»]; b = {c = true}}", {"o": {"a": [1, 2, "x"], "b": {"c": True}}}),
    ],
)
def test_white_space_around_marks_is_layout(text: str, expected: dict[str, Any]) -> None:
    turn = ChatFormat.from_template(SPACED).turn(USER, TOOLS)
    for char in f"<!call>go:f{{{text}}}<!/call>":
        turn.feed(char)
    turn.finish()
    assert turn.message.problems == ()
    assert json.loads(turn.message.tool_calls[0].arguments) == expected


def test_marks_are_written_as_the_history_has_them() -> None:
    turn = ChatFormat.from_template(SPACED).turn(
        USER, [tool("f", {"a": {"type": "integer"}, "o": NESTED}, ["a", "o"])], "required"
    )
    program = compile_writer(turn.format.writer(turn.request))
    assert can_write(program, "<!call>go:f{a = 1; o = {x = 1; y = 2}}<!/call>")
    assert not can_write(program, "<!call>go:f{a = 1; o = {x=1;y=2}}<!/call>")


NESTED = {
    "type": "object",
    "properties": {"x": {"type": "integer"}, "y": {"type": "integer"}},
    "required": ["x", "y"],
    "additionalProperties": False,
}
