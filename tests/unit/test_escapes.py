"""Characters that a template spells otherwise in names, keys and values: learned, undone, written, proven."""

# ruff: noqa: E501 - templates are easier to read on long lines

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest

from dragoman.errors import SchemaError, UsageError
from dragoman.format import ChatFormat
from dragoman.grammar.compile import compile_writer
from dragoman.proof import prove
from dragoman.stream.unescape import SpellingUnescaper
from dragoman.template.escapes import escaped, spellings, undone
from dragoman.template.learn import learn
from dragoman.template.profile import Escapes
from dragoman.template.render import Template
from tests import learned_templates as own
from tests.dialects import can_write
from tests.template_corpus import shared
from tests.toolsets import tool

E = (("&", "&amp;"), ('"', "&#34;"), ("<", "&lt;"), (">", "&gt;"), ("'", "&#39;"))
QUOTED = (("&", "&amp;"), ('"', "&quot;"))
# Every value, whatever its type.
ALL = own.ENTITIES.replace("{{ v | tojson }}", "{{ v | tojson | string | e }}")
# Only what ends an attribute, by hand; values as they are.
ATTRIBUTES = own.TYPED_TAGS.replace("' + k + '", "' + k|replace('&', '&amp;')|replace('\"', '&quot;') + '")
MARKUP = own.wrap(
    own.CONTENT
    + "{% for c in m.tool_calls or [] %}{{ '[QALL]' + c.function.name + '[QARG]' + (c.function.arguments | tojson | safe) }}{% endfor %}"
)
ODD = """a & "b" <c> 'd' &amp; &#34; &lt &"""
TOOLS = [
    tool('q&a"<s>"', {"x<y>&": {"type": "string"}, "it's": {"type": "integer"}, "any": {}, "o": {"type": "object"}}),
    tool("plain", {"mode": {"enum": ["<on>", "a&b", "&amp;"]}, "short": {"type": "string", "maxLength": 3}}, ["mode"]),
]


def escapes_of(source: str) -> Escapes:
    tools = learn(Template(source)).tools
    assert tools is not None
    return tools.escapes


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        (own.ENTITIES, Escapes(E, E, E)),
        (ALL, Escapes(E, E, E, json=True)),
        (ATTRIBUTES, Escapes(key=QUOTED)),
        (MARKUP, Escapes(name=E)),  # text beside a safe text is escaped by Jinja
        (own.TAGGED, Escapes()),
        (own.TYPED_TAGS, Escapes()),
        (own.PYTHON_LIKE, Escapes()),
        (own.JSON_IN_TAGS, Escapes()),
    ],
)
def test_the_spellings_are_learned(source: str, expected: Escapes) -> None:
    assert escapes_of(source) == expected


@pytest.mark.parametrize("source", [own.ENTITIES, ALL, ATTRIBUTES, MARKUP])
def test_a_proof_tries_them(source: str) -> None:
    template = Template(source)
    profile = learn(template)
    assert prove(template, profile)["tool_calls"] == "proven"
    assert profile.tools is not None
    tools = profile.tools
    # The usual samples hold quotes in values, those for names and keys are made from what was learned.
    for wrong in [_swapped(tools.escapes), *([Escapes()] if tools.escapes.value else [])]:
        assert prove(template, replace(profile, tools=replace(tools, escapes=wrong)))["tool_calls"] == "refuted"


def _swapped(escapes: Escapes) -> Escapes:
    def swap(pairs: Any) -> Any:
        return tuple((char, "&x" + spelled[1:]) for char, spelled in pairs)

    return Escapes(swap(escapes.name), swap(escapes.key), swap(escapes.value), escapes.json)


@pytest.mark.parametrize("source", [own.ENTITIES, ALL])
@pytest.mark.parametrize("size", [1, 3, 1000])
def test_a_history_is_read_back(source: str, size: int) -> None:
    fmt = ChatFormat.from_template(source)
    arguments = {"x<y>&": ODD, "it's": 3, "any": ODD, "o": {"k": ODD, "<": ["&"]}, "un&declared": "<>"}
    calls = [(TOOLS[0]["function"]["name"], arguments), ("plain", {"mode": "<on>", "other": {"a": '"&'}})]
    message = {"role": "assistant", "content": "", "tool_calls": [_tool_call(*call) for call in calls]}
    messages = [{"role": "user", "content": "Hi"}, message]
    text = fmt.turn(messages, TOOLS, add_generation_prompt=False).prompt.text
    turn = fmt.turn(messages[:1], TOOLS)
    body = text[text.rindex("assistant\n") + len("assistant\n") :].strip()
    for at in range(0, len(body), size):
        turn.feed(body[at : at + size])
    turn.finish()
    assert turn.message.problems == ()
    assert [(call.name, json.loads(call.arguments)) for call in turn.message.tool_calls] == calls
    assert turn.message.content == ""


def _tool_call(name: str, arguments: dict[str, Any]) -> dict[str, Any]:
    return {"id": "Call00001", "type": "function", "function": {"name": name, "arguments": arguments}}


def test_names_and_keys_that_a_model_leaves_bare_are_read_too() -> None:
    fmt = ChatFormat.from_template(ATTRIBUTES)
    turn = fmt.turn([{"role": "user", "content": "Hi"}], [tool("f", {"a&b": {"type": "string"}})])
    turn.feed('<kul n="f"><a k="a&b" t="string">x &amp; y</a></kul>')
    turn.finish()
    assert json.loads(turn.message.tool_calls[0].arguments) == {"a&b": "x &amp; y"}


def test_what_may_be_written() -> None:
    fmt = ChatFormat.from_template(own.ENTITIES)
    turn = fmt.turn([{"role": "user", "content": "Hi"}], [TOOLS[1]], "required")
    writer = turn.format.writer(turn.request)
    program = compile_writer(writer)

    def may(mode: str, short: str) -> bool:
        return can_write(program, f'<kul n="plain"><a k="mode">{mode}</a><a k="short">{short}</a></kul>')

    assert may("&lt;on&gt;", "abc")
    assert may("a&amp;b", "&amp;&lt;x")  # three characters
    assert may("&amp;amp;", "")
    for wrong in ("<on>", "a&b", "&amp;"):
        assert not may(wrong, "x")
    for wrong in ("&amp;abc", "a&b", "<", "&quot"):
        assert not may("a&amp;b", wrong)


def test_what_cannot_be_written_is_refused() -> None:
    fmt = ChatFormat.from_template(ALL)
    with pytest.raises(SchemaError, match="spells their quotes otherwise"):
        turn = fmt.turn([{"role": "user", "content": "Hi"}], [tool("f", {"o": {"type": "object"}})], "required")
        turn.format.writer(turn.request)


def test_a_response_template_knows_no_spellings() -> None:
    with pytest.raises(UsageError, match="spelled otherwise"):
        ChatFormat.from_template(own.ENTITIES).to_response_template()


def test_a_spelling_may_begin_another() -> None:
    pairs = (("&", "&amp;"), ('"', "&amp;quot;"), ("\\", "\\\\"), ("'", "\\'"))
    for text in ("&amp;amp;quot;", "&amp;quo;", "\\\\\\'\\", "a&am", "&&&amp;&", ""):
        whole = undone(text, pairs)
        for cut in range(len(text) + 1):
            reader = SpellingUnescaper(pairs)
            assert reader.feed(text[:cut]) + reader.feed(text[cut:]) + reader.finish() == whole


def test_a_text_that_cannot_be_told_is_no_spelling() -> None:
    half = (('"', "&quot;"),)  # & is written as it is
    assert spellings('a"b', half) == ("a&quot;b", 'a"b')
    assert spellings("&quot;", half) == ()
    assert undone(escaped("a & b", half), half) == "a & b"


def test_kimi_k3_spells_names_and_keys() -> None:
    path = shared("templates/Kimi-K3.jinja")
    if path is None:
        pytest.skip("the shared corpus is not at hand")
    fmt = ChatFormat.from_template(path.read_text("utf-8"))
    assert fmt.profile.tools is not None
    assert fmt.profile.tools.escapes == Escapes(QUOTED, QUOTED)
    assert fmt.proof["tool_calls"] == "proven"
    tools = [tool('r&d "lab"', {'size "x" & y': {"type": "string"}})]
    turn = fmt.turn([{"role": "user", "content": "Hi"}], tools, enable_thinking=False)
    turn.feed(
        '<|close|>response<|sep|><|open|>tools<|sep|><|open|>call tool="r&amp;d &quot;lab&quot;" index="1"<|sep|>'
    )
    turn.feed(
        '<|open|>argument key="size &quot;x&quot; &amp; y" type="string"<|sep|>A &amp; "B"<|close|>argument<|sep|>'
    )
    turn.feed("<|close|>call<|sep|><|close|>tools<|sep|><|close|>message<|sep|><|end_of_msg|>")
    turn.finish()
    call = turn.message.tool_calls[0]
    assert (call.name, json.loads(call.arguments)) == ('r&d "lab"', {'size "x" & y': 'A &amp; "B"'})
