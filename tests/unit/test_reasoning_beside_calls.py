"""Reasoning that is opened otherwise in front of calls than in front of an answer: both openers are learned."""

from __future__ import annotations

from dataclasses import replace

import pytest

from dragoman import ChatFormat
from dragoman.dialect.request import DialectRequest
from dragoman.limits import DEFAULT
from dragoman.proof import Status, prove
from dragoman.template.render import Template
from tests.dialects import TOOLS, can_write, openai_tools, writer_program
from tests.learned_templates import CONTENT, wrap

CALLS = "{% for c in m.tool_calls or [] %}{{ '<kul>' + (c.function | tojson) + '</kul>' }}{% endfor %}"
CALL = '<kul>{"name": "get_weather", "arguments": {"city": "x"}}</kul>'


def two_blocks(answer: tuple[str, str], calls: tuple[str, str]) -> str:
    """A template with these texts around reasoning in front of an answer and in front of calls."""
    return wrap(
        f"""{{% set said = m.reasoning_content %}}
{{%- if said and not m.tool_calls %}}{{{{ {answer[0]!r} + said + {answer[1]!r} }}}}
{{%- elif said %}}{{{{ {calls[0]!r} + said + {calls[1]!r} }}}}{{% endif -%}}
"""
        + CONTENT
        + CALLS
    )


BLOCKS = {
    "tags": (("<muse>", "</muse>"), ("<plan>\n", "\n</plan>\n")),
    "brackets": (("[MUSE]", "[/MUSE]"), ("[PLAN]", "[/PLAN]")),
    "attributes": (('<muse for="answer">', "</muse>"), ('<muse for="calls">', "</muse>")),
    "one closer": (("<|muse|>", "<|over|>"), ("<|plan|>", "<|over|>")),
}


@pytest.fixture(scope="module", params=BLOCKS)
def blocks(request: pytest.FixtureRequest) -> tuple[str, tuple[str, str], tuple[str, str]]:
    answer, calls = BLOCKS[request.param]
    return two_blocks(answer, calls), answer, calls


def test_both_are_read_and_written(blocks: tuple[str, tuple[str, str], tuple[str, str]]) -> None:
    source, answer, calls = blocks
    fmt = ChatFormat.from_template(source)
    assert fmt.proof["reasoning"] is Status.PROVEN
    program = writer_program(fmt.profile, DialectRequest(tools=TOOLS))
    for around, rest in ((answer, "Yes."), (calls, CALL)):
        turn = fmt.turn([{"role": "user", "content": "Hi"}], openai_tools(TOOLS))
        turn.feed(f"{around[0]}Why so{around[1]}{rest}")
        turn.finish()
        assert turn.message.reasoning_content == "Why so"
        assert (turn.message.content, len(turn.message.tool_calls)) == (("Yes.", 0) if rest == "Yes." else ("", 1))
        assert can_write(program, f"{around[0]}Why so{around[1]}{rest}")


def test_who_knows_only_one_is_refuted(blocks: tuple[str, tuple[str, str], tuple[str, str]]) -> None:
    source, _, _ = blocks
    profile = ChatFormat.from_template(source).profile
    blind = replace(profile, reasoning=replace(profile.reasoning, beside_calls=None))
    assert prove(Template(source), blind, limits=DEFAULT)["reasoning"] is Status.REFUTED


def test_reasoning_behind_calls_is_proven_and_read() -> None:
    thought = "{% if m.reasoning_content %}{{ '<muse>' + m.reasoning_content + '</muse>' }}{% endif %}"
    fmt = ChatFormat.from_template(wrap(CONTENT + CALLS + thought))
    assert fmt.proof["reasoning"] is Status.PROVEN
    turn = fmt.turn([{"role": "user", "content": "Hi"}], openai_tools(TOOLS))
    turn.feed(f"{CALL}<muse>Why so</muse>")
    turn.finish()
    assert (turn.message.content, turn.message.reasoning_content) == ("", "Why so")
    assert len(turn.message.tool_calls) == 1
