"""Wrong arguments of a turn are refused by name, and a turn's end is what the template ends it with."""

from __future__ import annotations

import inspect
from typing import Any

import numpy as np
import pytest

from dragoman import ChatFormat, UsageError, Vocabulary
from tests.vocabularies import small_tokenizer

TEMPLATE = """{% for m in messages %}[{{ m.role }}]{{ m.content or '' }}\
{% for c in m.tool_calls or [] %}<<call {{ c.function.name }}>>{{ c.function.arguments | tojson }}<<end>>{% endfor %}\
[/{{ m.role }}]{% endfor %}{% if add_generation_prompt %}[assistant]{% endif %}{# tools #}"""
# Tools are listed in front of the last user message, and nothing ends an answer without an eos token.
TOOLS_BEFORE_LAST_USER = """{% for m in messages %}{% if m.role == 'user' %}\
{% if loop.last and tools %}[OFFERED]{{ tools | tojson }}[/OFFERED]{% endif %}[ASK]{{ m.content }}[/ASK]\
{% elif m.role == 'tool' %}[RESULT]{{ m.content }}[/RESULT]\
{% elif m.tool_calls %}{% for c in m.tool_calls %}[DO]{"name": "{{ c.function.name }}", "arguments": \
{{ c.function.arguments | tojson }}}{% endfor %}{{ eos_token }}\
{% else %}{{ m.content }}{{ eos_token }}{% endif %}{% endfor %}"""
USER = [{"role": "user", "content": "Hi"}]
TOOL = {"type": "function", "function": {"name": "f", "parameters": {"type": "object"}}}


@pytest.mark.parametrize(
    ("arguments", "param"),
    [
        ({"tool_choice": {"type": "allowed_tools", "allowed_tools": "x"}}, "tool_choice"),
        ({"tool_choice": {"type": "allowed_tools", "allowed_tools": {"tools": 3}}}, "tool_choice"),
        ({"parallel_tool_calls": "no"}, "parallel_tool_calls"),
        ({"generation_prompt": 5}, "generation_prompt"),
        ({"grammar": 5, "tools": None}, "grammar"),
        ({"now": "x"}, "now"),
    ],
)
def test_a_wrong_argument_is_named(arguments: dict[str, Any], param: str) -> None:
    with pytest.raises(UsageError) as raised:
        ChatFormat.from_template(TEMPLATE).turn(USER, **{"tools": [TOOL], **arguments})
    assert raised.value.param == param


def test_a_chunk_that_is_refused_decides_nothing() -> None:
    turn = ChatFormat.from_template(TEMPLATE).turn(USER)
    with pytest.raises(UsageError):
        turn.feed([1])  # token ids, without a vocabulary
    turn.feed("hello")
    turn.finish()
    assert turn.message.content == "hello"


def test_a_constraint_needs_a_vocabulary() -> None:
    turn = ChatFormat.from_template(TEMPLATE).turn(USER, tools=[TOOL])
    for wrong in (None, "x"):
        with pytest.raises(UsageError, match="Vocabulary"):
            turn.constraint(wrong)  # type: ignore[arg-type]


@pytest.mark.parametrize("eos", ["", "</s>"])
def test_a_list_of_tools_before_the_last_message_ends_no_turn(eos: str) -> None:
    fmt = ChatFormat.from_template(TOOLS_BEFORE_LAST_USER, eos_token=eos)
    assert "[OFFERED]" not in fmt.profile.end_of_turn
    if eos:
        assert fmt.profile.end_of_turn[0] == eos
    turn = fmt.turn(USER)
    turn.feed("The marker [OFFERED] opens the list." + eos)
    turn.finish()
    assert turn.message.content == "The marker [OFFERED] opens the list."


def test_wrong_arguments_of_a_turn_are_refused_by_name() -> None:
    fmt = ChatFormat.from_template(TEMPLATE)
    for param, values in WRONG.items():
        for value in values:
            with pytest.raises(UsageError) as raised:
                fmt.turn(**{"messages": USER, "tools": None, param.partition("[")[0].partition(".")[0]: value})
            assert raised.value.param is not None, (param, value)
            assert raised.value.param == param, (param, value, str(raised.value))
            assert param in str(raised.value), (param, value, str(raised.value))


TEXT_OR_NONE = (5, True, b"x", ["x"], {}, "half \ud800")
FLAG = ("no", "true", 0, 1, [], 0.0)


def tool(**function: Any) -> list[dict[str, Any]]:
    return [{"type": "function", "function": {"name": "f", **function}}]


def said(content: Any) -> list[dict[str, Any]]:
    return [{"role": "user", "content": content}]


# The argument (or the place inside of it) that the error names -> values that it cannot have.
WRONG: dict[str, tuple[Any, ...]] = {
    "messages": (None, 5, "Hi", {"role": "user"}, [], set()),
    "messages[0]": (["Hi"], [None], [["role", "user"]]),
    "messages[0].role": ([{}], [{"role": 5, "content": ""}], [{"role": "", "content": ""}]),
    "messages[0].content": (said(5), said({}), said(True), [{"role": "user"}]),
    "messages[0].content[0]": (said([5]), said(b"x")),
    "messages[0].content[0].text": (said([{"type": "text", "text": 5}]), said([{"type": "text"}])),
    "tools": (5, "f", {"f": {}}),
    "tools[0]": ([5], ["f"], [None]),
    "tools[0].type": ([{"type": 5, "function": {"name": "f"}}],),
    "tools[0].function": ([{"type": "function", "function": 5}], [{"type": "function"}]),
    "tools[0].function.name": (tool(name=5), tool(name=""), tool(name=None)),
    "tools[0].function.description": (tool(description=5), tool(description=["x"]), tool(description=True)),
    "tools[0].function.parameters": (tool(parameters=5), tool(parameters="x"), tool(parameters=[])),
    "tools[0].function.strict": (tool(strict="no"), tool(strict=1)),
    "tool_choice": (5, "sometimes", {"type": "function"}, {"type": "x"}, [], True),
    "parallel_tool_calls": FLAG,
    "response_format.type": (5, "x", {"type": "x"}, {}, [], {"type": []}),
    "response_format.schema": ({"type": "json_object", "schema": 5}, {"type": "json_object", "schema": "x"}),
    "response_format.json_schema.schema": (
        {"type": "json_schema"},
        {"type": "json_schema", "json_schema": 5},
        {"type": "json_schema", "json_schema": {"schema": "x"}},
    ),
    "grammar": TEXT_OR_NONE,
    "reasoning_format": (5, None, "some", [], True),
    "enable_thinking": FLAG,
    "reasoning_effort": TEXT_OR_NONE,
    "chat_template_kwargs": (5, 0, "", "x", [], [("a", 1)]),
    "chat_template_kwargs.messages": ({"messages": []},),
    "add_generation_prompt": FLAG,
    "continue_final_message": (5, 0, 1, "text", [], "continue"),
    "echo": FLAG,
    "on_mismatch": (5, None, "raise", [], True),
    "undeclared_calls": (5, None, "x", [], True),
    "generation_prompt": TEXT_OR_NONE,
    "id_seed": (1.5, [], {}, b"x", True),
    "now": (5, "2026-01-01", 0, False),
    "schema_options": (5, {}, {"whitespace": "compact"}, "compact", False),
    "prefill_assistant": FLAG,
    "media_placeholder": TEXT_OR_NONE,
    "reasoning_chars": (-1, 1.5, "5", True, []),
}


def test_the_table_of_wrong_arguments_is_complete() -> None:
    known = {param.partition("[")[0].partition(".")[0] for param in WRONG}
    assert known == set(inspect.signature(ChatFormat.turn).parameters) - {"self"}


@pytest.mark.parametrize(
    ("call", "arguments", "param"),
    [
        ("from_template", {"source": 5}, "source"),
        ("from_template", {"source": None}, "source"),
        ("from_template", {"source": b"x"}, "source"),
        ("from_template", {"source": ["x"]}, "source"),
        ("from_template", {"source": "x", "tool_use": 5}, "tool_use"),
        ("from_template", {"source": "x", "tool_use": ["x"]}, "tool_use"),
        ("from_template", {"source": "x", "bos_token": None}, "bos_token"),
        ("from_template", {"source": "x", "eos_token": 2}, "eos_token"),
        ("from_template", {"source": "x", "vocab": "tokenizer.json"}, "vocab"),
        ("from_pretrained", {"folder": 5}, "folder"),
        ("from_pretrained", {"folder": None}, "folder"),
        ("from_pretrained", {"folder": b"x"}, "folder"),
        ("from_pretrained", {"folder": "no/such/folder"}, "folder"),
        ("from_gguf", {"path": 5}, "path"),
        ("from_gguf", {"path": None}, "path"),
        ("from_gguf", {"path": "x.gguf", "name": 5}, "name"),
        ("from_name", {"name": 5}, "name"),
        ("from_name", {"name": ["chatml"]}, "name"),
        ("from_name", {"name": "no-such-format"}, "name"),
        ("from_name", {"name": "chatml", "eos_token": 5}, "eos_token"),
        ("from_name", {"name": "chatml", "vocab": 5}, "vocab"),
    ],
)
def test_wrong_arguments_of_a_format_are_refused_by_name(call: str, arguments: dict[str, Any], param: str) -> None:
    with pytest.raises(UsageError) as raised:
        getattr(ChatFormat, call)(**arguments)
    assert raised.value.param == param


def test_wrong_arguments_of_a_formats_other_verbs_are_refused_by_name() -> None:
    fmt = ChatFormat.from_template(TEMPLATE)
    for arguments, param in (
        ({"variables": 5}, "variables"),
        ({"variables": []}, "variables"),
        ({"variables": {"messages": []}}, "variables.messages"),
        ({"prefill_assistant": "no"}, "prefill_assistant"),
        ({"media_placeholder": 5}, "media_placeholder"),
    ):
        with pytest.raises(UsageError) as raised:
            fmt.with_defaults(**arguments)  # type: ignore[arg-type]
        assert raised.value.param == param
    for wrong in ("x", 5, b"x"):
        with pytest.raises(UsageError) as raised:
            fmt.with_vocab(wrong)  # type: ignore[arg-type]
        assert raised.value.param == "vocab"


def test_wrong_chunks_and_reasons_are_refused_by_name() -> None:
    fmt = ChatFormat.from_template(TEMPLATE)
    turn = fmt.turn(USER)
    for wrong in (None, 5, 1.5, object(), True):
        with pytest.raises(UsageError) as raised:
            turn.feed(wrong)  # type: ignore[arg-type]
        assert raised.value.param == "chunk"
    for wrong in (None, 5, "tool_calls", []):
        with pytest.raises(UsageError) as raised:
            turn.finish(wrong)  # type: ignore[arg-type]
        assert raised.value.param == "reason"
    turn.feed("All of this ")
    turn.feed("leaves the turn usable.")
    turn.finish()
    assert turn.message.content == "All of this leaves the turn usable."


def test_wrong_token_ids_are_refused_by_name() -> None:
    vocab = Vocabulary.from_tokenizer_json(small_tokenizer())
    turn = ChatFormat.from_template(TEMPLATE, vocab=vocab).turn(USER)
    first = next(token for token, data in enumerate(vocab.token_bytes) if data == b"\xc3")  # half a character
    for wrong in (["x"], [1.5], [None], [-1], [vocab.size], [[1]], {}, [first, "x"], np.array([1.5]), np.array(5)):
        with pytest.raises(UsageError) as raised:
            turn.feed(wrong)  # type: ignore[arg-type]
        assert raised.value.param == "chunk", wrong
    turn.feed(np.array(vocab.encode("Hi")))  # type: ignore[arg-type]
    assert turn.message.content == "Hi"


def test_truth_values_of_numpy_are_truth_values() -> None:
    fmt = ChatFormat.from_template(TEMPLATE)
    messages = [*USER, {"role": "assistant", "content": "So"}]
    for said in (True, np.True_):
        turn = fmt.turn(
            messages, continue_final_message=said, echo=said, parallel_tool_calls=said, enable_thinking=said
        )
        turn.feed(" be it.")
        turn.finish()
        assert turn.message.content == "So be it."
    assert fmt.turn(USER, add_generation_prompt=np.False_).prompt.text == "[user]Hi[/user]"  # type: ignore[arg-type]


def test_a_turn_may_end_as_the_template_ends_it_though_the_tokenizer_names_no_end() -> None:
    """Many a tokenizer.json says of no token that it ends anything; the mask would leave the model no way out."""
    data = small_tokenizer([{"content": "[/assistant]", "special": True}, {"content": "<eos>", "special": True}])
    plain = Vocabulary.from_tokenizer_json(data)
    assert plain.eos_ids == ()
    end = plain.controls["[/assistant]"]
    for vocab in (plain, Vocabulary.from_tokenizer_json(data, config={"eos_token": "<eos>"})):
        turn = ChatFormat.from_template(TEMPLATE, vocab=vocab).turn(USER, [TOOL])
        constraint = turn.constraint()
        row = np.zeros(constraint.words, np.uint32)
        for token in vocab.encode("Hi"):
            assert constraint.accept(token)
        constraint.fill(row)
        for ending in (end, *vocab.eos_ids):
            assert row[ending // 32] >> (ending % 32) & 1
            assert constraint.validate([ending, ending]) == 1
