"""Declared families: few, chosen by several texts, and each read back from its own samples."""

from __future__ import annotations

import pytest

from dragoman.dialect.families import FAMILIES, Family, families_of
from dragoman.format import ChatFormat, learned
from dragoman.template.learn import learn
from dragoman.template.profile import Profile
from dragoman.template.render import Template
from tests import learned_templates as own
from tests.template_corpus import shared

_CONTENT_ONLY = "{%- for m in messages %}{{ m.role + ': ' + m.content + '<end>' }}{% endfor %}{{ tools | tojson }}"


def template_of(texts: tuple[str, ...]) -> str:
    """A template that holds these texts and renders no calls."""
    return "{#- " + " ".join(texts) + " #}" + _CONTENT_ONLY


def test_families_are_few_and_have_reasons() -> None:
    assert len(FAMILIES) <= 12
    assert len({family.name for family in FAMILIES}) == len(FAMILIES)
    assert all(family.why and family.samples and len(family.evidence) >= 3 for family in FAMILIES)


@pytest.mark.parametrize("family", FAMILIES, ids=lambda family: family.name)
def test_a_family_is_read_from_its_samples(family: Family) -> None:
    proof = learned(template_of(family.evidence), "", "").proof
    claim = proof.claims["tool_calls" if family.tools is not None else "reasoning"]
    assert claim.status == "inferred"
    assert family.name in claim.why


@pytest.mark.parametrize("asked", ["respond with", "respond only with"])
def test_a_family_is_told_by_what_its_releases_share(asked: str) -> None:
    tokens = "<|start_of_role|> <|end_of_role|>"
    source = template_of((tokens, f"{asked} <|tool_call|> followed by a JSON list of tools used."))
    assert [family.name for family in families_of(source, learn(Template(source)))] == ["granite-3-calls"]


def test_a_family_leaves_the_words_that_the_history_puts_around_answers() -> None:
    (family,) = [one for one in FAMILIES if one.name == "think-and-answer"]
    source = "{#- " + " ".join(family.evidence) + " #}" + own.WRAPPED.replace("m.reasoning", "m.unsaid")
    fmt = ChatFormat.from_template(source)
    for said in ("<answer>\n<|say|>Go.<|/say|>\n</answer>", "<answer>\nGo.\n</answer>", "<|say|>Go.<|/say|>", "Go."):
        turn = fmt.turn([{"role": "user", "content": "hi"}])
        for byte in f"<think>\nNear.\n</think>\n{said}".encode():
            turn.feed(bytes([byte]))
        turn.finish()
        assert (turn.message.reasoning_content.strip(), turn.message.content.strip()) == ("Near.", "Go.")


@pytest.mark.parametrize("family", FAMILIES, ids=lambda family: family.name)
def test_one_piece_of_evidence_is_not_enough(family: Family) -> None:
    for text in family.evidence:
        source = template_of((text,))
        assert family not in families_of(source, learn(Template(source)))


def test_a_template_that_shows_its_calls_has_no_family_for_them() -> None:
    shown = learn(Template(own.JSON_IN_TAGS))
    assert shown.tools is not None
    every = " ".join(text for family in FAMILIES for text in family.evidence)
    assert all(family.tools is None for family in families_of(every, shown))
    assert families_of("", Profile()) == ()


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("LFM2-8B-A1B", "<|tool_call_start|>[ping(host='h', n=1)]<|tool_call_end|>"),
        ("ibm-granite-granite-3.3-2B-Instruct", '<tool_call>[{"name": "ping", "arguments": {"host": "h", "n": 1}}]'),
        ("ibm-granite-granite-3.3-2B-Instruct", '<|tool_call|>[{"name": "ping", "arguments": {"host": "h", "n": 1}}]'),
    ],
)
def test_real_templates_get_their_family(name: str, text: str) -> None:
    path = shared(f"templates/{name}.jinja")
    if path is None:
        pytest.skip("the shared corpus is not here")
    tool = {"type": "function", "function": {"name": "ping", "parameters": {"type": "object", "properties": {}}}}
    turn = ChatFormat.from_template(path.read_text("utf-8")).turn([{"role": "user", "content": "hi"}], tools=[tool])
    turn.feed(text)
    turn.finish()
    assert [(call.name, call.arguments) for call in turn.message.tool_calls] == [("ping", '{"host": "h", "n": 1}')]
    assert turn.message.content == ""
