"""Marks that stand beside values of some types only, and values that nothing but the next opener ends."""

from __future__ import annotations

import json
import random
from typing import Any

import pytest

from dragoman import ChatFormat
from dragoman.proof import Status
from tests.laws.test_writer_law import flaw
from tests.learned_templates import CONTENT, wrap
from tests.toolsets import SETS
from tests.writing import Case

KINDS: dict[str, Any] = {
    "city": {"type": "string"},
    "days": {"type": "integer"},
    "either": {"type": ["string", "integer"]},
    "any": {},
    "tags": {"type": "array"},
}
TOOL = {"type": "function", "function": {"name": "go", "parameters": {"type": "object", "properties": KINDS}}}


def tagged(argument: str, head: str = ">\\n", tail: str = "") -> str:
    """A template whose calls hold arguments written so; ``v`` is the value, ``w`` the same as text."""
    return wrap(
        CONTENT
        + f"""{{% for c in m.tool_calls or [] %}}{{{{ '<fn=' + c.function.name + '{head}' }}}}
{{%- for k, v in c.function.arguments.items() %}}{{% set w = v if v is string else v | tojson -%}}
{argument}{{% endfor -%}}
{{{{ '{tail}</fn>' }}}}{{% endfor %}}"""
    )


# name: (template, what an argument with and without the mark of a value that is no string looks like)
MARKS = {
    "an attribute more": (
        tagged("""{{ '<p k="' + k + '"' + ('' if v is string else ' json="1"') + '>' + w + '</p>\\n' }}"""),
        '<p k="{}" json="1">{}</p>\n',
        '<p k="{}">{}</p>\n',
    ),
    "a word for strings": (
        tagged("""{{ '<p k="' + k + '"' + (' raw' if v is string else '') + '>' + w + '</p>\\n' }}"""),
        '<p k="{}">{}</p>\n',
        '<p k="{}" raw>{}</p>\n',
    ),
    "two attributes": (
        tagged("""{{ '<p k="' + k + '" is="' + ('a text' if v is string else 'a value') + '">' + w + '</p>\\n' }}"""),
        '<p k="{}" is="a value">{}</p>\n',
        '<p k="{}" is="a text">{}</p>\n',
    ),
}


def arguments(fmt: ChatFormat, body: str) -> dict[str, Any]:
    turn = fmt.turn([{"role": "user", "content": "Hi"}], [TOOL])
    for char in body:
        turn.feed(char)
    turn.finish()
    assert not turn.message.problems
    found: dict[str, Any] = json.loads(turn.message.tool_calls[0].arguments)
    return found


@pytest.mark.parametrize("name", MARKS)
def test_a_mark_tells_values_from_strings(name: str) -> None:
    source, value, text = MARKS[name]
    fmt = ChatFormat.from_template(source)
    assert set(fmt.proof.values()) <= {Status.PROVEN, Status.NOT_EXPRESSIBLE}, fmt.proof
    written = [text.format("city", "42"), value.format("days", "3"), text.format("either", "7"), value.format("any", 7)]
    body = "<fn=go>\n" + "".join([*written, value.format("tags", '["</p>", 1]')]) + "</fn>"
    wanted = {"city": "42", "days": 3, "either": "7", "any": 7, "tags": ["</p>", 1]}
    assert arguments(fmt, body) == wanted
    assert arguments(fmt, "<fn=go>\n" + value.format("either", "7") + text.format("any", "7") + "</fn>") == {
        "either": 7,
        "any": "7",
    }
    case = Case(name, fmt, {"tools": SETS["unions"]})
    walker = case.walker()
    texts = [walker.walk(f"{name} {seed}", random.Random(seed).randint(0, 120)) for seed in range(3)]
    assert [wrong for text in texts if text is not None and (wrong := flaw(case, text))] == []


OPEN_ENDED = {
    "nothing": (tagged("{{ '<k>' + k + '<v>' + w }}"), "<k>{}<v>{}", ""),
    "a line break": (tagged("{{ '<k>' + k + '</k>' + w + '\\n' }}"), "<k>{}</k>{}\n", ""),
    "a line break before": (tagged("{{ '\\n<k>' + k + '</k>' + w }}", head=">", tail="\\n"), "\n<k>{}</k>{}", "\n"),
}


@pytest.mark.parametrize("name", OPEN_ENDED)
def test_white_space_in_front_of_the_next_opener_belongs_to_the_value(name: str) -> None:
    source, argument, tail = OPEN_ENDED[name]
    fmt = ChatFormat.from_template(source)
    assert fmt.proof["whitespace"] is fmt.proof["no_arguments"] is Status.PROVEN, fmt.proof.claims["whitespace"].why
    head = ">" if argument.startswith("\n") else ">\n"
    body = f"<fn=go{head}" + argument.format("city", "a b  ") + argument.format("any", " c\n ") + f"{tail}</fn>"
    assert arguments(fmt, body) == {"city": "a b  ", "any": " c\n "}
    assert arguments(fmt, "<fn=go>\n\n</fn>") == {}
