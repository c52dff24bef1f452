"""Python's spellings in calls: what they mean as JSON, in the calls that look like Python's and in tagged arguments."""

from __future__ import annotations

import json
from typing import Any

import pytest

from dragoman import ChatFormat
from dragoman.chat import Message
from tests import learned_templates

_TYPES: dict[str, Any] = {
    "text": {"type": "string"},
    "count": {"type": "integer"},
    "rate": {"type": "number"},
    "list": {"type": "array"},
    "obj": {"type": "object"},
}
_TOOL = {"type": "function", "function": {"name": "put", "parameters": {"type": "object", "properties": _TYPES}}}


def read(template: str, text: str, reason: str = "stop") -> tuple[Message, list[str]]:
    """The message, the same whole and byte by byte, and the pieces of its arguments in the second case."""
    fmt = ChatFormat.from_template(template)
    found = []
    deltas = []
    for pieces in ([text.encode()], [bytes([byte]) for byte in text.encode()]):
        turn = fmt.turn([{"role": "user", "content": "Hi"}], tools=[_TOOL], id_seed=1)
        deltas = [delta for piece in pieces for delta in turn.feed(piece)]
        turn.finish("length" if reason == "length" else "stop")
        found.append(turn.message)
    assert found[0] == found[1]
    return found[0], [piece.arguments for delta in deltas for piece in delta.tool_calls if piece.arguments]


@pytest.mark.parametrize(
    ("written", "meant"),
    [
        ('text="x",', {"text": "x"}),
        ("text='x' , ", {"text": "x"}),
        ("rate=-3.5e2, count=1_000", {"rate": -350, "count": 1000}),
        ("count=0x1F, rate=.5", {"count": 31, "rate": 0.5}),
        ("rate=1.", {"rate": 1}),
        ("list=('a', 'b',), obj={'a': 1,}", {"list": ["a", "b"], "obj": {"a": 1}}),
        ("list=(1,), count=(3)", {"list": [1], "count": 3}),
        (r"text=r'\d', list=[b'a', f'b', Rb'\c']", {"text": r"\d", "list": ["a", "b", r"\c"]}),
        ("text='a' \"b\"\n  'c', count=1", {"text": "abc", "count": 1}),
        ("text=('a'\n 'b')", {"text": "ab"}),
        ('text="""say "hi", count=")""", count=1', {"text": 'say "hi", count=")', "count": 1}),
        ("text='''it's''', list=['', \"\", '''''']", {"text": "it's", "list": ["", "", ""]}),
        ("obj={1: None, True: 2}", {"obj": {"1": None, "true": 2}}),
    ],
)
def test_a_call_that_looks_like_pythons_means_what_python_means(written: str, meant: dict[str, Any]) -> None:
    message, _ = read(learned_templates.PYTHON_LIKE, f"<|on|>[put({written})]<|off|>")
    assert json.loads(message.tool_calls[0].arguments) == meant
    assert (message.content, message.problems) == ("", ())


@pytest.mark.parametrize(
    ("written", "meant"),
    [
        ('text="x", count="2", list="[\'a\']"', {"text": "x", "count": 2, "list": ["a"]}),
        ("text='x', count=2", {"text": "x", "count": 2}),
        ('count=2, text="x", rate=-.5', {"count": 2, "text": "x", "rate": -0.5}),
        (r"text='it\'s', obj={'a': None}, list=[]", {"text": "it's", "obj": {"a": None}, "list": []}),
        ('text="say "hi", count=3", count=4', {"text": 'say "hi", count=3', "count": 4}),
        ('other=True, more="7"', {"other": True, "more": 7}),
        ("", {}),
    ],
)
def test_a_template_that_quotes_every_value_hides_no_literals(written: str, meant: dict[str, Any]) -> None:
    message, _ = read(learned_templates.QUOTED_VALUES, f"Hi [put({written}), put(count=1)]")
    assert [json.loads(call.arguments) for call in message.tool_calls] == [meant, {"count": 1}]
    assert (message.content, message.problems) == ("Hi ", ())


@pytest.mark.parametrize(
    ("written", "meant"),
    [
        ("rate=nan", {"rate": "nan"}),
        ("count=007", {"count": "007"}),
        ("text=2024-01-01, count=1", {"text": "2024-01-01", "count": 1}),
        ("list=[1j, x.y]", {"list": ["1j", "x.y"]}),
        ("text=f'{x}!'", {"text": "{x}!"}),
    ],
)
def test_what_is_no_literal_is_a_string_and_a_problem(written: str, meant: dict[str, Any]) -> None:
    message, _ = read(learned_templates.PYTHON_LIKE, f"<|on|>[put({written})]<|off|>")
    assert json.loads(message.tool_calls[0].arguments) == meant
    assert message.content == ""
    assert [problem.code for problem in message.problems] == ["invalid_value"]


HEAD = "\n<kul>\n<fun=put>\n<par=list>\n"
TAIL = "\n</par>\n</fun>\n</kul>"


@pytest.mark.parametrize(
    ("written", "streamed"),
    [
        ('["one", "two", "thr', '{"list": ["one", "two", "thr'),
        ("['one', True, None, 'thr", '{"list": ["one", true, null, "thr'),
        ("['it\\'s \"x\"', (1, 'thr", '{"list": ["it\'s \\"x\\"", [1, "thr'),
    ],
)
def test_an_array_of_a_history_in_python_streams(written: str, streamed: str) -> None:
    _, pieces = read(learned_templates.TAGGED, HEAD + written)
    assert "".join(pieces) == streamed
    for reason in ("stop", "length"):
        message, _ = read(learned_templates.TAGGED, HEAD + written, reason)
        assert message.tool_calls[0].arguments == streamed


def test_an_array_of_a_history_in_python_ends_as_json() -> None:
    written = "[{'a': (True, 'x'), 'b': 1_0,}, \"it's\", '</par>']"
    message, _ = read(learned_templates.TAGGED, HEAD + written + TAIL)
    assert json.loads(message.tool_calls[0].arguments) == {"list": [{"a": [True, "x"], "b": 10}, "it's", "</par>"]}
    assert message.problems == ()


@pytest.mark.parametrize("written", ["Paris, London", "2024-01-01, 2024-01-02", "- a\n- b", ".", ""])
def test_text_in_place_of_an_array_is_a_string_and_a_problem(written: str) -> None:
    message, _ = read(learned_templates.TAGGED, HEAD + written + TAIL)
    assert json.loads(message.tool_calls[0].arguments) == {"list": written}
    assert [problem.code for problem in message.problems] == ["invalid_value"]


# Nothing opens an argument here but its key; values stand in marks.
_KEYS_ONLY = learned_templates.wrap(
    learned_templates.CONTENT
    + """{% for c in m.tool_calls or [] %}{{ '<|kul>do:' + c.function.name + '{' }}
{%- for k, v in c.function.arguments.items() -%}
{{ k + ':<|mrk|>' + (v | string) + '<|mrk|>' }}{{ ',' if not loop.last }}{% endfor -%}
{{ '}<kul|>' }}{% endfor %}"""
)


@pytest.mark.parametrize("first", ["text:<|mrk|>a<|mrk|>", "count:<|mrk|>1<|mrk|>"])
@pytest.mark.parametrize("reason", ["stop", "length"])
@pytest.mark.parametrize(
    ("second", "streamed"),
    [("list:<|mrk|>['one', None, 'tw", ', "list": ["one", null, "tw'), ("text2:<|mrk|>one tw", None)],
)
def test_arguments_that_only_their_key_opens_stream(first: str, reason: str, second: str, streamed: str | None) -> None:
    text = "<|kul>do:put{" + first + "," + second
    message, pieces = read(_KEYS_ONLY, text, reason)
    begun = '{"text": "a"' if first.startswith("text") else '{"count": 1'
    if streamed is not None:
        assert "".join(pieces) == message.tool_calls[0].arguments == begun + streamed
    whole, _ = read(_KEYS_ONLY, text + ("']" if streamed else "") + "<|mrk|>}<kul|>")
    meant = {"list": ["one", None, "tw"]} if streamed else {"text2": "one tw"}
    assert json.loads(whole.tool_calls[0].arguments) == {**json.loads(begun + "}"), **meant}
    assert whole.problems == ()
