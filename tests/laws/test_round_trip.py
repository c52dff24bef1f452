"""The round trip: random messages through the template's own history and back, equal up to what the template loses."""

from __future__ import annotations

import json
import math
from contextlib import suppress
from itertools import pairwise, product
from typing import Any

import pytest
from hypothesis import HealthCheck, given, reject, settings
from hypothesis import strategies as st

from dragoman.chat import Message
from dragoman.errors import TemplateError
from dragoman.format import ChatFormat
from dragoman.proof import Status
from tests.formats import learned_format, sources
from tests.toolsets import tool
from tests.writing import marker_texts

USER, RESULT = "Where7431to", "Arrived8652there"
TOOLS = [
    tool(
        "find_harbour",
        {
            "port": {"type": "string"},
            "note": {"type": "string"},
            "days": {"type": "integer"},
            "depth": {"type": "number"},
            "night": {"type": "boolean"},
            "ship": {"type": "object", "properties": {}},
            "stops": {"type": "array"},
        },
    ),
    tool("ring-bell", {"times": {"type": "integer"}}),
]
_PIECES = [
    "a",
    "Zürich",
    "漢字",
    "😀",
    " ",
    "\n",
    "\n\n",
    "\t",
    '"',
    "'",
    "\\",
    "\\n",
    "{",
    "}",
    "[1]",
    "<b>",
    "</b>",
    "<",
    ">",
]
_LOOKS = [
    "null",
    "None",
    "true",
    "42",
    "-1.5",
    '{"a": 1}',
    "[",
    "&amp;",
    "%s",
    "{{ x }}",
    "</",
    "<|",
    "|>",
    "e\u0301",
    "\u200b",
]
FAST = settings(max_examples=12, derandomize=True, deadline=None, suppress_health_check=list(HealthCheck))


def texts(forbidden: list[str], *, blank: bool) -> st.SearchStrategy[str]:
    """Nasty strings without the markers themselves. blank: empty ones and white space at the ends too."""
    found = st.lists(st.sampled_from(_PIECES + _LOOKS), max_size=7).map("".join)
    found = found.filter(lambda text: not any(word in text for word in forbidden))
    return found if blank else found.map(str.strip).filter(bool)


def nested(strings: st.SearchStrategy[str], *, least: int) -> st.SearchStrategy[Any]:
    """Values in values; lists and objects hold ``least`` items or more."""
    numbers = st.integers(-(10**9), 10**9) | st.floats(-1e6, 1e6, allow_nan=False).map(lambda x: round(x, 3))
    leaves: st.SearchStrategy[Any] = (
        strings | numbers.filter(lambda x: x != 0 or math.copysign(1, x) > 0) | st.booleans()
    )
    return st.recursive(
        leaves,
        lambda inner: (
            st.lists(inner, min_size=least, max_size=3) | st.dictionaries(keys(), inner, min_size=least, max_size=3)
        ),
        max_leaves=6,
    )


def keys() -> st.SearchStrategy[str]:
    return st.sampled_from(["a", "b c", "name", "naïve", "arguments", "x.y"])


def forbidden_in(fmt: ChatFormat) -> list[str]:
    """What a value may not hold: the words of markers, and tags that templates themselves look for."""
    words = {word for text in marker_texts(fmt.profile) for word in text.split() if len(word) > 1}
    return sorted(words | {"think>", '"name"', "[TOOL_CALLS]"})


def breaks_on_backslashes(fmt: ChatFormat) -> bool:
    """A python-like call in which the template itself leaves a backslash as it is: no reader knows what it was."""
    text = written(fmt, said(fmt, [("find_harbour", {"note": "a\\tb"})]), TOOLS)
    return "note='a\\tb'" in text or 'note="a\\tb"' in text


def runs_together(fmt: ChatFormat) -> bool:
    """A template that writes nothing at all between two arguments: where a number ends is anyone's guess."""
    return "days=7note=" in written(fmt, said(fmt, [("find_harbour", {"days": 7, "note": "a"})]), TOOLS)


def ends_early(fmt: ChatFormat, text: str) -> bool:
    """A template that closes the section of calls and ends the turn behind the second call, and writes a third then."""
    close = fmt.profile.tools.section_close.text if fmt.profile.tools else ""
    behind = [text.partition(close + stop)[2] for stop in fmt.profile.end_of_turn if close and stop]
    return any(tool["function"]["name"] in rest for rest in behind for tool in TOOLS)


def said(fmt: ChatFormat, calls: list[tuple[str, dict[str, Any]]]) -> dict[str, Any]:
    """The message with these calls; where the template writes the id alone, it holds the name."""
    form = "functions.{}:{}" if fmt.profile.baseline.get("named_ids") else "Call0000{1}"
    return {
        "role": "assistant",
        "content": "",
        "tool_calls": [
            {
                "id": form.format(name, number),
                "type": "function",
                "function": {"name": name, "arguments": json.dumps(given)},
            }
            for number, (name, given) in enumerate(calls)
        ],
    }


def calls_of(fmt: ChatFormat) -> st.SearchStrategy[list[tuple[str, dict[str, Any]]]]:
    """What the proof says that the history carries."""
    proof = fmt.proof
    forbidden = forbidden_in(fmt) + (["\\"] if breaks_on_backslashes(fmt) else [])
    strings = texts(forbidden, blank=proof["whitespace"] == Status.PROVEN)
    values: dict[str, st.SearchStrategy[Any]] = {"port": strings, "note": strings, "days": st.integers(-(2**40), 2**40)}
    if proof["typed"] == Status.PROVEN:
        values["depth"] = st.floats(-1e9, 1e9, allow_nan=False).map(lambda x: round(x, 4) + 0.5)
        values["night"] = st.booleans()
    if proof["nested"] == Status.PROVEN:
        # Where elements are tags again, an empty list has no form of its own, and text tells no types.
        tools = fmt.profile.tools
        as_tags = tools is not None and tools.nested is not None
        inner = nested(st.sampled_from(["Brest", "two words", "漢字"]) if as_tags else strings, least=int(as_tags))
        values["ship"] = st.dictionaries(keys(), inner, min_size=1, max_size=3)
        values["stops"] = st.lists(inner, min_size=1, max_size=3)
    least = 0 if proof["no_arguments"] == Status.PROVEN else 1
    some = st.lists(st.sampled_from(sorted(values)), min_size=least, max_size=4, unique=True)
    if runs_together(fmt):
        some = some.map(lambda names: names[:1])
    harbour = some.flatmap(lambda names: st.fixed_dictionaries({name: values[name] for name in names}))
    one = st.tuples(st.just("find_harbour"), harbour) | st.tuples(
        st.just("ring-bell"), st.fixed_dictionaries({"times": st.integers(0, 9)})
    )
    parallel = proof["parallel_tool_calls"] == Status.PROVEN
    return st.lists(one, min_size=1, max_size=3 if parallel else 1)


def written(fmt: ChatFormat, said: dict[str, Any], tools: list[dict[str, Any]], **variables: Any) -> str:
    """What a model would have written to say ``said``, cut out of the history."""
    profile = fmt.profile
    user = {"role": "user", "content": USER}
    results: list[dict[str, Any]] = []
    if said.get("tool_calls") and profile.baseline.get("tail", "none") != "none":
        results = [
            {"role": "tool", "content": RESULT, "tool_call_id": call["id"], "name": call["function"]["name"]}
            for call in said["tool_calls"]
        ]

    def after_user(messages: list[dict[str, Any]]) -> str:
        turn = fmt.turn(messages, tools, add_generation_prompt=False, chat_template_kwargs=variables)
        return turn.prompt.text.rpartition(USER)[2]

    text = after_user([user, said, *results])
    header = profile.assistant_header
    at = text.find(header) if header.strip() else -1
    text = text[at + len(header) :] if at >= 0 else text.removeprefix(after_user([user]))
    cut = text.find(RESULT)
    return text if cut < 0 else text[:cut].removesuffix(profile.role_starts.get("tool", ""))


def read(fmt: ChatFormat, text: str, tools: list[dict[str, Any]], cuts: list[int]) -> Message:
    data = text.encode()
    edges = [0, *sorted(cut % (len(data) + 1) for cut in cuts), len(data)]
    turn = fmt.turn([{"role": "user", "content": USER}], tools, generation_prompt="", id_seed=1)
    for start, end in pairwise(edges):
        turn.feed(data[start:end])
    turn.finish()
    return turn.message


def same(
    fmt: ChatFormat, said: dict[str, Any], tools: list[dict[str, Any]], cuts: list[int], **variables: Any
) -> Message:
    """Read back whole and in pieces: the same message, no problem but what follows the end of the turn."""
    try:
        text = written(fmt, said, tools, **variables)
    except TemplateError:
        reject()
    if ends_early(fmt, text):
        reject()
    message = read(fmt, text, tools, cuts)
    whole = read(fmt, text, tools, [])
    calls = [[call.name, call.arguments] for call in message.tool_calls]
    assert [[call.name, call.arguments] for call in whole.tool_calls] == calls, text
    assert (message.content, message.reasoning_content) == (whole.content, whole.reasoning_content), text
    assert not [problem for problem in message.problems if problem.code != "after_end"], text
    return message


_UNCLOSED = "an answer without reasoning stands in the block for reasoning, which is never closed"
_UNLIKE = "the generation prompt, which is written always, and the history begin an answer in different words"
FAULTS = {
    "real.NVIDIA-Nemotron-Nano-v2": _UNCLOSED,
    "real.nvidia-NVIDIA-Nemotron-Nano-12B-v2": _UNCLOSED,
    "real.nvidia-NVIDIA-Nemotron-Nano-9B-v2-Japanese": _UNCLOSED,
    "real.ServiceNow-AI-Apriel-1.6-15b-Thinker": _UNLIKE,
    "real.tool_chat_template_deepseekv3": _UNLIKE,
    "real.inclusionAI-SingGuard-2b": "the conversation is text inside one user message, to be judged",
}
"""Templates whose history of plain answers is not what the model writes."""
CUTS = st.lists(st.integers(0, 10**6), max_size=8)
NAMES = sorted(sources())


def proven(name: str, claim: str) -> ChatFormat:
    fmt = learned_format(name)
    if fmt.proof[claim] != Status.PROVEN:
        pytest.skip(f"{claim} is {fmt.proof[claim]}: {fmt.proof.claims[claim].why}")
    return fmt


@pytest.mark.parametrize("name", NAMES)
def test_calls_come_back(name: str) -> None:
    fmt = proven(name, "tool_calls")
    try:
        written(fmt, said(fmt, [("ring-bell", {"times": 1})]), TOOLS)
    except TemplateError as error:
        pytest.skip(f"the template refuses these tools: {error}")

    @FAST
    @given(calls_of(fmt), CUTS)
    def law(calls: list[tuple[str, dict[str, Any]]], cuts: list[int]) -> None:
        history = said(fmt, calls)
        message = same(fmt, history, TOOLS, cuts)
        got = [(call.name, json.loads(call.arguments)) for call in message.tool_calls]
        assert got == calls
        # Types too; some templates sort the keys.
        assert json.dumps(got, sort_keys=True) == json.dumps(calls, sort_keys=True)
        if fmt.proof["call_ids"] == Status.PROVEN and all(len(call.id) == 9 for call in message.tool_calls):
            assert [call.id for call in message.tool_calls] == [call["id"] for call in history["tool_calls"]]

    law()


@pytest.mark.parametrize("name", NAMES)
def test_answers_come_back(name: str) -> None:
    fmt = proven(name, "content")
    if name in FAULTS:
        pytest.skip(FAULTS[name])

    @FAST
    @given(texts(forbidden_in(fmt), blank=False), CUTS)
    def law(text: str, cuts: list[int]) -> None:
        message = same(fmt, {"role": "assistant", "content": text}, [], cuts)
        assert message.content.strip() == text
        assert not message.tool_calls
        assert not message.reasoning_content

    law()


@pytest.mark.parametrize("name", NAMES)
def test_reasoning_comes_back_beside_an_answer(name: str) -> None:
    fmt = proven(name, "reasoning")
    facts = fmt.profile.reasoning
    if not facts.rendered_last or facts.message_key != "reasoning_content":
        pytest.skip("the history shows no reasoning_content of the last message")
    # A switch may be a flag that has to be on, or a word that is best left alone; and some want tools to think.
    probe = {"role": "assistant", "content": "Done.", "reasoning_content": "Thought5190"}
    switches: list[dict[str, Any]] = [{facts.switch: True}, {}] if facts.switch else [{}]
    for tools, variables in product(([], TOOLS), switches):
        with suppress(TemplateError):
            if "Thought5190" in written(fmt, probe, tools, **variables):
                break
    else:
        pytest.fail("the profile says that the history shows it, and no way tried does")
    strings = texts(forbidden_in(fmt), blank=False)

    @FAST
    @given(strings, strings, CUTS)
    def law(thought: str, text: str, cuts: list[int]) -> None:
        said = {"role": "assistant", "content": text, "reasoning_content": thought}
        message = same(fmt, said, tools, cuts, **variables)
        assert message.reasoning_content.strip() == thought
        assert message.content.strip() == text

    law()


def test_a_switch_that_takes_a_word_is_not_turned_on_by_true() -> None:
    """To such a template true is no word for thinking: asked to think, it must not close the block instead."""
    turns = (
        "{%- for m in messages -%}<|{{ m.role }}|>"
        "{%- if m.role == 'assistant' and m.reasoning_content %}<mull>{{ m.reasoning_content }}</mull>{% endif -%}"
        "{{ m.content }}<|end|>{%- endfor -%}"
    )
    word = "{%- set thinking_mode = thinking_mode | default('deep') -%}"
    mark = "{{ '<mull>' if thinking_mode == 'deep' else '</mull>' }}"
    prompt = "{%- if add_generation_prompt %}<|assistant|>" + mark + "{% endif -%}"
    fmt = ChatFormat.from_template(word + turns + prompt)
    user = [{"role": "user", "content": USER}]
    assert fmt.turn(user, enable_thinking=True).prompt.text.endswith("<mull>")
    assert fmt.turn(user).prompt.text.endswith("<mull>")
