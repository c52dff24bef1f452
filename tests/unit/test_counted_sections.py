"""Openers of a section of calls that say how many calls follow: the number is no part of the marker."""

from __future__ import annotations

import pytest

from dragoman import ChatFormat
from dragoman.dialect.history_calls import calls_text
from dragoman.dialect.request import DialectRequest
from dragoman.proof import Status
from tests.dialects import TOOLS, can_write, openai_tools, writer_program
from tests.learned_templates import CONTENT, wrap

ONE = "{% for c in m.tool_calls %}{{ '<kul>' + (c.function | tojson) + '</kul>' }}{% endfor %}"
LISTED = "{% for c in m.tool_calls %}{{ c.function | tojson }}{{ ', ' if not loop.last }}{% endfor %}"
CALL = '{"name": "get_weather", "arguments": {"city": "x"}}'
SECTIONS = {
    "attribute": ('<kuls n="', '">\n', "\n</kuls>", ONE),
    "token": ("<|kuls:", "|>", "<|/kuls|>", ONE),
    "behind a blank": ("\n\n[KULS ", "]", "[/KULS]", ONE),
    "words": ("\nNow ", " kuls:\n", "", ONE),
    "array": ("<|kuls|>", "<|of|>[", "]", LISTED),
}


@pytest.mark.parametrize("name", SECTIONS)
def test_the_number_may_be_any(name: str) -> None:
    before, behind, end, calls = SECTIONS[name]
    section = f"{{{{ {before!r} ~ (m.tool_calls | length) ~ {behind!r} }}}}{calls}{{{{ {end!r} }}}}"
    fmt = ChatFormat.from_template(wrap(CONTENT + f"{{% if m.tool_calls %}}{section}{{% endif %}}"))
    assert set(fmt.proof.values()) <= {Status.PROVEN, Status.NOT_EXPRESSIBLE}, fmt.proof
    assert fmt.proof["tool_calls"] is fmt.proof["parallel_tool_calls"] is Status.PROVEN
    between = ", " if calls is LISTED else ""
    made = between.join([CALL if calls is LISTED else f"<kul>{CALL}</kul>"] * 3)
    text = f"{before}3{behind}{made}{end}"
    turn = fmt.turn([{"role": "user", "content": "Hi"}], openai_tools(TOOLS))
    for char in f"Yes.{text}":
        turn.feed(char)
    turn.finish()
    assert (turn.message.content, len(turn.message.tool_calls)) == ("Yes.", 3)
    assert can_write(writer_program(fmt.profile, DialectRequest(tools=TOOLS)), f"Yes.{text}")
    assert fmt.profile.tools is not None
    told = [{"name": "get_weather", "arguments": {"city": "x"}}] * 3
    assert calls_text(fmt.profile.tools, told) == text.strip()
