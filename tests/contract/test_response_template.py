"""Stock transformers reads a learned format by its exported response template as we read it.

Messages are rendered by the model's own template and cut out of the history, then read by both. What transformers loses
by its own rules is listed in :func:`known_loss`, and nothing else may differ.
"""

# ruff: noqa: E501 - templates are easier to read on long lines

from __future__ import annotations

import ast
import json
import random
from dataclasses import dataclass
from typing import Any

import pytest

from dragoman.dialect.response_template import response_template
from dragoman.errors import UsageError
from dragoman.format import ChatFormat
from dragoman.limits import DEFAULT
from dragoman.proof import _Prover, _tool_dicts
from dragoman.template.probe import Said, with_variables
from dragoman.template.profile import Profile
from dragoman.template.sentinels import ProbeCall
from tests.formats import learned_format, sources
from tests.learned_templates import CONTENT, wrap
from tests.template_corpus import shared, template_source
from tests.unit.test_own_messages import own_messages
from tests.unit.test_reasoning_beside_calls import two_blocks

chat_parsing = pytest.importorskip("transformers.utils.chat_parsing")

MESSAGES = 40
REFUSED = {
    "own.recipients": "only the text between two of them",
    "own.entities": "spelled otherwise",
    "own.keys_as_tags": "objects are tags again",
    "own.name_and_keys_as_tags": "objects are tags again",
    "own.name_as_tag": "several calls without a marker",
    "own.names_in_one_object": "several calls without a marker",
    "own.quoted_values": "several calls without a marker",
    "own.name_as_key": "a list of calls whose names are keys",
}
_EACH = "{% for c in m.tool_calls or [] %}"
# Kinds of calls that regions between patterns carry, and the one place where a simple pattern goes wrong.
EXACT = {
    "a closer behind the object whose key is the name": wrap(
        CONTENT
        + _EACH
        + """{{ '<do>{"' + c.function.name + '": ' + (c.function.arguments | tojson) + '}</do>' }}{% endfor %}"""
    ),
    "a list of calls with lists in it": wrap(
        """{% macro py(v) %}{% if v is string or v is number and v is not boolean %}{{ v | tojson }}{% elif v is boolean %}{{ v }}
{%- elif v is none %}None{% elif v is mapping %}{{ '{' }}{% for k, x in v.items() %}{{ k | tojson }}: {{ py(x) }}{{ ', ' if not loop.last }}
{%- endfor %}{{ '}' }}{% else %}[{% for x in v %}{{ py(x) }}{{ ', ' if not loop.last }}{% endfor %}]{% endif %}{% endmacro -%}
{%- if m.tool_calls %}[{% for c in m.tool_calls %}{{ c.function.name }}({% for k, v in c.function.arguments.items() -%}
{{ k }}={{ py(v) }}{{ ', ' if not loop.last }}{% endfor %}){{ ', ' if not loop.last }}{% endfor %}]{% else %}{{ m.content }}{% endif %}"""
    ),
    "text with an opener of its own in front of a call": wrap(
        """{% if m.content %}{{ 'TELL> ' + m.content + '\\n' }}{% endif %}"""
        + _EACH
        + """{{ 'RUN> ' + c.function.name + ' : ' + (c.function.arguments | tojson) + '\\n' }}{% endfor %}"""
    ),
    "reasoning that a call ends": wrap(
        """{% if m.reasoning_content %}{{ '<muse>' + m.reasoning_content }}{{ '</muse>' if m.content or not m.tool_calls }}{% endif %}"""
        + CONTENT
        + _EACH
        + """{{ '<do>' + c.function.name + '<by>' + (c.function.arguments | tojson) + '</do>' }}{% endfor %}"""
    ),
    "reasoning in a message of its own": own_messages("<z:", "muse>", "tell>", "</z>\\n", "<z:ROLE>", "</z>\\n"),
    "reasoning with another opener in front of calls": two_blocks(("<muse>", "</muse>"), ("<plan>\n", "\n</plan>\n")),
    "the number of calls in front of them": wrap(
        CONTENT
        + """{% if m.tool_calls %}{{ '<dos n=' ~ (m.tool_calls | length) ~ '>' }}{% for c in m.tool_calls -%}
{{ '<do>' + (c.function | tojson) + '</do>' }}{% endfor %}</dos>{% endif %}"""
    ),
}
# Kinds that they do not carry, and what is said of them.
INEXACT = {
    "several calls without a marker": wrap(
        CONTENT
        + """{% if m.tool_calls %}{{ '<dos>' }}{% for c in m.tool_calls -%}
{{ '{"fun": "' + c.function.name + '", "par": ' + (c.function.arguments | tojson) + '}\\n' }}{% endfor %}{{ '</dos>' }}{% endif %}"""
    ),
    "values that end with a bracket": wrap(
        CONTENT
        + _EACH
        + """{{ '<do>{"fun": "' + c.function.name + '", "par": [' }}{% for k, v in c.function.arguments.items() -%}
{{ '{"k": "' + k + '", "v": ' + (v | tojson) + '}' }}{{ ', ' if not loop.last }}{% endfor %}{{ ']}</do>' }}{% endfor %}"""
    ),
}
STRINGS = [
    "Brest",
    'a "q" {b} \\ <b>x</b> é 漢字',
    "two\nlines",
    "42",
    "true",
    " padded ",
    "",
    "[x]",
    "a, b: c=d",
    "😀",
]
TEXTS = ["A plain answer.", "Two lines,\nthe second with a tab\tand é, 漢字, 😀.", 'Markup <b>b</b>, {"json": [1, 2]}.']
THOUGHTS = ["First the tide, then the sun.", 'Several\nlines, {"a": 1} and <i>markup</i>.']


@dataclass
class Rendered:
    """One message of the assistant as the template writes it: the prompt's end and what the model wrote."""

    prefix: str
    text: str
    body: str


class Source:
    """Random messages of one format."""

    def __init__(self, name: str, fmt: ChatFormat) -> None:
        self.fmt = fmt
        self.profile: Profile = fmt.profile
        self.prover = _Prover(fmt.template, fmt.profile, DEFAULT)
        self.pick = random.Random(name)
        header = self.profile.assistant_header
        prompt = fmt.turn([{"role": "user", "content": "Hello"}]).prompt.text
        self.prefix = prompt[: prompt.rindex(header) + len(header)] if header.strip() else prompt
        self.opened = self.profile.generation_prompt.removeprefix(header) if header.strip() else ""

    def rendered(self) -> Rendered | None:
        facts, tools, pick = self.profile.reasoning, self.profile.tools, self.pick
        calls: tuple[ProbeCall, ...] = ()
        if tools is not None and not self.profile.generic_tools and pick.random() < 0.75:
            count = pick.choice([1, 1, 2]) if tools.parallel else 1
            calls = tuple(self._call(number) for number in range(count))
        thought = facts.message_key is not None and pick.random() < 0.5
        reasoning = ((facts.message_key or "", pick.choice(THOUGHTS)),) if thought else ()
        rung = self.prover.rung if calls else self.prover.plain
        if facts.switch is not None and thought:
            rung = with_variables(rung, **{facts.switch: True})
        beside = bool(calls) and self.profile.content.kept_with_calls and pick.random() < 0.4
        content = pick.choice(TEXTS) if beside or not calls else None
        body = self.prover.body(Said(content, calls, reasoning), rung)
        if body is None:
            return None
        # What the prompt opens is not written by the model, where the history has it too.
        opened = self.opened if body.startswith(self.opened) else ""
        return Rendered(self.prefix + opened, body.removeprefix(opened), body)

    def _call(self, number: int) -> ProbeCall:
        pick = self.pick
        if pick.random() < 0.3:
            return ProbeCall(f"Pr0ofId{number:02d}", "ring-bell", (("times", pick.choice([1, 20])),))
        values: dict[str, Any] = {
            "port": pick.choice(STRINGS),
            "note": pick.choice(STRINGS),
            "days": pick.choice([0, -3, 7]),
            "depth": pick.choice([1.5, -0.25]),
            "night": pick.choice([True, False]),
            "ship": {"name": pick.choice(STRINGS), "crew": [{"n": 1}], "x": None},
            "stops": [pick.choice(STRINGS), 3, [4.5]],
        }
        often = {"port": 0.8, "ship": 0.15, "stops": 0.15}
        kept = tuple((key, value) for key, value in values.items() if pick.random() < often.get(key, 0.4))
        return ProbeCall(f"Pr0ofId{number:02d}", "find_harbour", kept)


Read = tuple[str, str, list[tuple[str, Any]]]


def ours(source: Source, text: str) -> Read:
    message = source.prover.read(text)
    assert message is not None
    calls = [(call.name, json.loads(call.arguments)) for call in message.tool_calls]
    return message.content.strip(), message.reasoning_content.strip(), calls


def theirs(template: dict[str, Any], rendered: Rendered) -> Read:
    message = chat_parsing.parse_response(rendered.text, template, prefix=rendered.prefix, tools=_tool_dicts())
    functions = [call["function"] for call in message.get("tool_calls", [])]
    calls = [(function["name"], _object(function["arguments"])) for function in functions]
    reasoning = message.get("reasoning_content") or message.get("thinking") or ""
    return message.get("content", "").strip(), reasoning.strip(), calls


def _object(arguments: Any) -> Any:
    return json.loads(arguments) if isinstance(arguments, str) else arguments


def known_loss(profile: Profile, mine: Read, other: Read | ValueError) -> str | None:
    """Why transformers reads less: by its rules, not by the template that we wrote."""
    if isinstance(other, ValueError):
        python_null = profile.tools is not None and profile.tools.syntax is not None and "None" in str(other)
        return "a value that its parser does not know ends the whole message" if python_null else None
    if mine[:2] != other[:2] or [name for name, _ in mine[2]] != [name for name, _ in other[2]]:
        return None
    for (_, a), (_, b) in zip(mine[2], other[2], strict=True):
        for key in {*a, *b}:
            if a.get(key) != b.get(key) and not _python_text(a.get(key), b.get(key)):
                return None
    return "objects and arrays in Python's notation stay text"


def _python_text(mine: Any, other: Any) -> bool:
    return isinstance(mine, dict | list) and isinstance(other, str) and ast.literal_eval(other) == mine


@pytest.mark.parametrize("name", sorted(sources()))
def test_stock_transformers_reads_what_we_read(name: str) -> None:
    fmt = learned_format(name)
    if name in REFUSED:
        with pytest.raises(UsageError, match=REFUSED[name]):
            fmt.to_response_template()
        return
    _check(name, fmt)


@pytest.mark.parametrize("kind", EXACT)
def test_a_region_ends_where_a_value_does_not(kind: str) -> None:
    _check(kind, ChatFormat.from_template(EXACT[kind]))


@pytest.mark.parametrize("kind", INEXACT)
def test_what_regions_cannot_carry_is_refused(kind: str) -> None:
    with pytest.raises(UsageError, match=kind):
        ChatFormat.from_template(INEXACT[kind]).to_response_template()


def _check(name: str, fmt: ChatFormat) -> None:
    template = json.loads(json.dumps(fmt.to_response_template()))
    source = Source(name, fmt)
    equal, flaws = 0, []
    for _ in range(MESSAGES):
        rendered = source.rendered()
        if rendered is None:
            continue
        mine = ours(source, rendered.body)
        other: Read | ValueError
        try:
            other = theirs(template, rendered)
        except ValueError as error:
            other = error
        if mine == other:
            equal += 1
        elif known_loss(fmt.profile, mine, other) is None:
            flaws.append(f"{rendered.text!r}: {mine} read as {other}")
    assert not flaws, "\n".join(flaws[:3])
    assert equal >= MESSAGES * 2 // 3


def test_a_closer_in_a_cdata_section_is_data() -> None:
    source = wrap(
        CONTENT
        + _EACH
        + """{{ '<do fun="' + c.function.name + '">' }}{% for k, v in c.function.arguments.items() -%}
{{ '<param name="' + k + '">' + (v if v is string else v | tojson) + '</param>' }}{% endfor %}</do>{% endfor %}"""
    )
    fmt = ChatFormat.from_template(source)
    template = fmt.to_response_template()
    for written, value in (
        ("<![CDATA[<a>x</a> </param>]]>", "<a>x</a> </param>"),
        ("<![CDATA[a\nb]]>", "a\nb"),
        ("plain", "plain"),
    ):
        body = f'<do fun="find_harbour"><param name="port">{written}</param></do>'
        turn = fmt.turn([{"role": "user", "content": "Hi"}], _tool_dicts())
        turn.feed(body)
        turn.finish()
        read = theirs(template, Rendered(turn.prompt.text, body, body))
        assert [json.loads(turn.message.tool_calls[0].arguments)] == [{"port": value}]
        assert read[2] == [("find_harbour", {"port": value})]


@pytest.mark.skipif(shared("templates") is None, reason="the shared corpus is not at hand")
@pytest.mark.parametrize(
    "header",
    [
        " to=functions.ring-bell<|channel|>commentary json<|message|>",
        " to=functions.ring-bell<|channel|>analysis<|message|>",
        " to=functions.ring-bell<|channel|>analysis <|constrain|>json<|message|>",
        "<|channel|>analysis to=functions.ring-bell<|message|>",
        "<|channel|>commentary to=functions.ring-bell <|constrain|>json<|message|>",
        "<|channel|>analysis<|message|>So.<|end|><|start|>assistant<|channel|>commentary to=ring-bell<|message|>",
    ],
)
def test_the_recipient_stands_anywhere_in_a_header(header: str) -> None:
    source = template_source("openai-gpt-oss-120b.jinja")
    fmt = ChatFormat.from_template(source)
    prompt = fmt.turn([{"role": "user", "content": "Hi"}], _tool_dicts()).prompt.text
    body = header + '{"times": 3}'
    read = theirs(fmt.to_response_template(), Rendered(prompt, body, body))
    assert read[2] == [("ring-bell", {"times": 3})]
    assert read[1] == ("So." if "So." in header else "")


def test_pieces_of_a_stream_give_the_same_message() -> None:
    source = Source("stream", learned_format("own.reasoning"))
    template = source.fmt.to_response_template()
    for _ in range(10):
        rendered = source.rendered()
        assert rendered is not None
        parser = chat_parsing.ResponseParser(template, prefix=rendered.prefix, tools=_tool_dicts())
        for char in rendered.text:
            parser.feed(char)
        assert parser.finalize()[0] == chat_parsing.parse_response(
            rendered.text, template, prefix=rendered.prefix, tools=_tool_dicts()
        )


def test_a_wrong_template_is_found_out() -> None:
    """The law's own check: another closer reads something else."""
    source = Source("wrong", learned_format("own.json_in_tags"))
    template = response_template(source.profile)
    template["fields"]["tool_calls"]["close_pattern"] = r"(?<=\})\s*</other>"
    found = []
    for _ in range(10):
        rendered = source.rendered()
        assert rendered is not None
        try:
            found.append(theirs(template, rendered) == ours(source, rendered.body))
        except ValueError:
            found.append(False)
    assert not all(found)
