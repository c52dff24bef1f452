"""Reasoning and answer as messages of their own, behind the header that all messages of the assistant start with."""

# ruff: noqa: E501 - templates are easier to read on long lines

from __future__ import annotations

import random

import pytest

from dragoman import ChatFormat
from dragoman.dialect.request import DialectRequest
from dragoman.proof import Status
from tests.dialects import TOOLS, can_write, openai_tools, writer_program
from tests.laws.test_writer_law import flaw
from tests.toolsets import SETS
from tests.writing import Case

ASKED = [{"role": "user", "content": "Hi"}]
CALL = """<kul>' + (c.function | tojson) + '</kul>"""


def own_messages(header: str, thought: str, said: str, end: str, others: str, close: str) -> str:
    """A template of which the generation prompt is what both messages start with. others: a turn of another role."""
    return f"""{{%- for t in tools or [] %}}{{{{ t | tojson }}}}{{% endfor -%}}
{{%- for m in messages %}}{{%- if m.role != 'assistant' %}}{{{{ '{others}'.replace('ROLE', m.role) + m.content + '{end}' }}}}
{{%- else %}}{{% if m.reasoning_content %}}{{{{ '{header}{thought}' + m.reasoning_content + '{end}' }}}}{{% endif -%}}
{{{{ '{header}{said}' + (m.content or '') }}}}{{% for c in m.tool_calls or [] %}}{{{{ '{CALL}' }}}}{{% endfor -%}}
{{{{ '{close}' }}}}{{% endif %}}{{% endfor -%}}{{%- if add_generation_prompt %}}{{{{ '{header}' }}}}{{% endif %}}"""


LAYOUTS = {
    # name: the words behind the header for reasoning and answer, and a template with them
    "half a tag": ("muse>", "tell>", own_messages("<z:", "muse>", "tell>", "</z>\\n", "<z:ROLE>", "</z>\\n")),
    "words": ("muse\n", "tell\n", own_messages("<|z|>", "muse\\n", "tell\\n", "<|y|>\\n", "<|z|>ROLE\\n", "<|y|>\\n")),
    "a word more": (
        " muse<|w|>",
        "<|w|>",
        own_messages("<|z|>model", " muse<|w|>", "<|w|>", "<|y|>", "<|z|>ROLE<|w|>", "<|y|>"),
    ),
    "other brackets": (
        ":muse»",
        "»",
        own_messages("«model", ":muse»", "»", "«over»\\n", "«ROLE»", "«over»\\n"),
    ),
    "an attribute": (
        'muse">',
        'tell">',
        own_messages('<z as="', 'muse">', 'tell">', "</z>\\n", '<z as="ROLE">', "</z>\\n"),
    ),
}


@pytest.fixture(scope="module", params=LAYOUTS)
def layout(request: pytest.FixtureRequest) -> tuple[ChatFormat, str, str]:
    thought, said, source = LAYOUTS[request.param]
    return ChatFormat.from_template(source), thought, said


def read(fmt: ChatFormat, text: str, chunk: int = 1000) -> tuple[str, str, list[str]]:
    turn = fmt.turn(ASKED, openai_tools(TOOLS))
    for at in range(0, len(text), chunk):
        turn.feed(text[at : at + chunk])
    turn.finish()
    message = turn.message
    return message.content, message.reasoning_content, [call.name for call in message.tool_calls]


def test_they_are_proven(layout: tuple[ChatFormat, str, str]) -> None:
    fmt, thought, said = layout
    assert (fmt.profile.reasoning.open.written, fmt.profile.content.open.written) == (thought, said)
    assert set(fmt.proof.values()) <= {Status.PROVEN, Status.NOT_EXPRESSIBLE}, fmt.proof
    assert fmt.proof["reasoning"] is fmt.proof["content_beside_calls"] is Status.PROVEN
    assert fmt.profile.end_of_turn[0] in ("</z>", "<|y|>", "«over»")


@pytest.mark.parametrize("chunk", [1, 1000])
def test_the_words_open_a_message_behind_the_header_only(layout: tuple[ChatFormat, str, str], chunk: int) -> None:
    fmt, thought, said = layout
    joint = fmt.profile.reasoning.close.written
    call = '<kul>{"name": "get_weather", "arguments": {}}</kul>'
    assert read(fmt, f"{thought}R{joint}{said}C", chunk) == ("C", "R", [])
    assert read(fmt, f"{said}C{call}", chunk) == ("C", "", ["get_weather"])
    assert read(fmt, f"{thought}R{joint}{said}{call}", chunk) == ("", "R", ["get_weather"])
    assert read(fmt, f"{said}C{joint}{thought}R{joint}{said}D", chunk) == ("CD", "R", [])
    assert read(fmt, "Just so.", chunk) == ("Just so.", "", [])
    if "<" not in thought + said:
        assert read(fmt, f"{said}a {thought} b {said} c", chunk) == (f"a {thought} b {said} c", "", [])


def test_the_header_of_another_role_ends_the_turn(layout: tuple[ChatFormat, str, str]) -> None:
    fmt, _, said = layout
    user = fmt.profile.role_starts["user"]
    content, _, _ = read(fmt, f"{said}C{fmt.profile.end_of_turn[0]}{user}Hello")
    assert content == "C"


def test_what_may_be_written_is_read_so(layout: tuple[ChatFormat, str, str]) -> None:
    case = Case("own messages", layout[0], {"tools": SETS["strings"]})
    walker = case.walker()
    texts = [walker.walk(f"messages {seed}", random.Random(seed).randint(0, 120)) for seed in range(4)]
    assert [wrong for text in texts if text is not None and (wrong := flaw(case, text))] == []


def test_one_opener_stands_in_front_of_text_and_calls(layout: tuple[ChatFormat, str, str]) -> None:
    fmt, _, said = layout
    program = writer_program(fmt.profile, DialectRequest(tools=TOOLS))
    call = '<kul>{"name": "get_weather", "arguments": {"city": "x"}}</kul>'
    assert can_write(program, f"{said}Some text.{call}")
    assert can_write(program, f"{said}{call}")
    tools = fmt.profile.tools
    assert tools is not None
    assert not tools.section_open.text
