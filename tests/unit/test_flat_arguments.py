"""What stands beside the name in a call's object: arguments without an object of their own, or nothing of the call."""

from __future__ import annotations

import json

import pytest

from dragoman.chat import Message
from dragoman.dialect.request import DialectRequest, Tool
from tests.dialects import FORMATS, TOOLS, Reading, profile, read, reader_program

REQUEST = DialectRequest(tools=(*TOOLS, Tool("open", None)))
# format -> how its call holds the members of an object
OBJECTS = {
    "native": "<zq7>\n%s\n</zq7>",
    "bare": "%s",
    "array": "[CALLS][%s]",
    "nested": '<calls>[{"id": "a", "type": "function", "function": %s}]</calls>',
}


def both(name: str, text: str, reason: str = "stop") -> Message:
    program = reader_program(profile(FORMATS[name]), REQUEST)
    whole = read(profile(FORMATS[name]), REQUEST, text, program=program, reason=reason)
    reading = Reading(program, REQUEST)
    for byte in text.encode():
        reading.feed(bytes([byte]))
    bytewise = reading.finish(reason)
    assert (bytewise.tool_calls[0].arguments, bytewise.problems) == (whole.tool_calls[0].arguments, whole.problems)
    return whole


def unread(message: Message) -> str:
    return " ".join(problem.message for problem in message.problems if problem.code == "unread_members")


@pytest.mark.parametrize(
    "members",
    [
        '"name": "get_weather", "city": "Pa\\u0072is", "days": 2',
        '"days": 2, "name": "get_weather", "city": "Paris"',
        '"name": "get_weather", "arguments": null, "city": "Paris", "days": 2, "tags": null',
    ],
)
@pytest.mark.parametrize("name", sorted(OBJECTS))
def test_declared_parameters_beside_the_name_are_the_arguments(name: str, members: str) -> None:
    message = both(name, OBJECTS[name] % f"{{{members}}}")
    (call,) = message.tool_calls
    given = {key: value for key, value in json.loads(call.arguments).items() if value is not None}
    assert (call.name, given) == ("get_weather", {"city": "Paris", "days": 2})
    assert message.problems == ()


def test_the_spelling_of_flat_arguments_is_kept() -> None:
    message = both("native", OBJECTS["native"] % '{"name": "get_weather", "city": "a\\/b", "days": 2.50}')
    assert message.tool_calls[0].arguments == '{"city": "a\\/b", "days": 2.50}'


@pytest.mark.parametrize("arguments", ["", ', "arguments": {"city": "Oslo"}', ', "city": "Oslo"'])
@pytest.mark.parametrize("name", sorted(OBJECTS))
def test_what_is_no_argument_is_told_by_a_problem(name: str, arguments: str) -> None:
    key = "parameters" if name == "bare" else "arguments"
    members = f'"name": "get_weather"{arguments.replace("arguments", key)}, "why": {{"so": ["it", 1.50]}}'
    message = both(name, OBJECTS[name] % f"{{{members}}}")
    assert json.loads(message.tool_calls[0].arguments) == ({"city": "Oslo"} if arguments else {})
    assert """'why': {"so": ["it", 1.50]}""" in unread(message)


def test_members_of_the_objects_around_are_told_too() -> None:
    text = OBJECTS["nested"].replace('"id": "a"', '"id": "a", "why": "x"') % '{"name": "get_weather", "city": "Oslo"}'
    message = both("nested", text)
    assert json.loads(message.tool_calls[0].arguments) == {"city": "Oslo"}
    assert unread(message).endswith("""'why': "x\"""")


def test_a_tool_that_declares_nothing_takes_no_flat_arguments() -> None:
    message = both("native", OBJECTS["native"] % '{"name": "open", "path": "a"}')
    assert message.tool_calls[0].arguments == "{}"
    assert """'path': "a\"""" in unread(message)


@pytest.mark.parametrize("reason", ["stop", "length"])
def test_what_a_cut_leaves_of_flat_arguments_is_told(reason: str) -> None:
    message = both("native", '<zq7>\n{"name": "get_weather", "days": 3, "city": "Par', reason)
    assert message.tool_calls[0].arguments == ""
    assert unread(message).endswith("""'days': 3, 'city': "Par""")


def test_what_says_nothing_is_no_problem() -> None:
    members = '"type": "function", "name": "get_weather", "id": null, "arguments": {"city": "Oslo"}'
    assert both("native", OBJECTS["native"] % f"{{{members}}}").problems == ()


def test_a_cut_inside_an_inner_object_is_told_too() -> None:
    text = '<calls>[{"id": "a", "type": "function", "function": {"name": "get_weather", "argumants": {"city": ["Os'
    assert """'argumants': {"city": ["Os""" in unread(both("nested", text))
