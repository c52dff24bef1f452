"""SGLang's detectors and grammar backend ``dragoman`` against SGLang's own classes, or its detector files alone."""

from __future__ import annotations

import json
import random
from importlib.metadata import entry_points
from types import SimpleNamespace
from typing import Any

import pytest

from dragoman.errors import UsageError
from dragoman.plugins import sglang as plugin
from dragoman.plugins.reading import decoder, prompt_end
from dragoman.plugins.tokenizer import format_of
from tests.learned_templates import NO_TOOLS
from tests.plugins import engines
from tests.plugins.outputs import NAMES, Said, cuts, expected, outputs, summed, tokenizer_of, tools

MESSAGES = 8
REASONING = "own.reasoning"


@pytest.fixture(scope="module", autouse=True)
def _sglang() -> None:
    engines.sglang()
    plugin.register()


def declared(**changes: Any) -> list[Any]:
    from sglang.srt.entrypoints.openai.protocol import Tool

    made = [{**tool, "function": {**tool["function"], **changes}} for tool in tools()]
    return [Tool.model_validate(tool) for tool in made]


def detector(name: str, some: Any = None) -> Any:
    from sglang.srt.function_call.function_call_parser import FunctionCallParser

    return FunctionCallParser(declared() if some is None else some, "dragoman", tokenizer=tokenizer_of(name))


def thinker(name: str, **more: Any) -> Any:
    from sglang.srt.parser.reasoning_parser import ReasoningParser

    return ReasoningParser("dragoman", tokenizer=tokenizer_of(name), **more)


def streamed(name: str, text: str, pick: random.Random, *, force: bool | None) -> Said:
    """As SGLang's server does it: each piece through the reasoning parser, the rest through the tool parser."""
    first, second = thinker(name, force_reasoning=force, tool_call_parser_active=True), detector(name)
    got = []
    for piece in cuts(len(text), pick):
        reasoning, rest = first.parse_stream_chunk(text[piece])
        if piece.stop == len(text):
            more = first.parse_stream_end()
            reasoning, rest = (reasoning or "") + (more[0] or ""), (rest or "") + (more[1] or "")
        content, calls = second.parse_stream_chunk(rest or "")
        got.append((reasoning or "", content, [(c.tool_index, None, c.name, c.parameters) for c in calls]))
    content, calls = second.parse_stream_end()
    got.append(("", content, [(c.tool_index, None, c.name, c.parameters) for c in calls]))
    arguments = [call["arguments"] for call in second.detector.prev_tool_call_arr]
    assert arguments == second.detector.streamed_args_for_tool
    return summed(got)


def test_the_entry_point_registers_both_detectors() -> None:
    from sglang.srt.function_call.function_call_parser import FunctionCallParser
    from sglang.srt.parser.reasoning_parser import ReasoningParser

    (point,) = (point for point in entry_points(group="sglang.srt.plugins") if point.name == "dragoman")
    point.load()()
    assert FunctionCallParser.ToolCallParserEnum["dragoman"].__name__ == "DragomanDetector"
    assert ReasoningParser.DetectorMap["dragoman"].__name__ == "DragomanReasoningDetector"


def test_a_template_without_calls_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    tokenizer = tokenizer_of("own.json_in_tags")
    monkeypatch.setattr(tokenizer, "chat_template", NO_TOOLS)
    with pytest.raises(UsageError, match="does not show how this model writes tool calls"):
        detector("own.json_in_tags")


@pytest.mark.parametrize("name", NAMES)
def test_however_it_is_cut_the_message_is_our_turns(name: str) -> None:
    tokenizer, pick = tokenizer_of(name), random.Random(name)
    fmt = format_of(tokenizer)
    seen = 0
    for output in outputs(name, MESSAGES):
        want = expected(fmt, output, prompt_end(fmt, output.prompt, decoder(fmt, tokenizer)))
        assert streamed(name, output.text, pick, force=None) == want
        reasoning, rest = thinker(name, tool_call_parser_active=True).parse_non_stream(output.text)
        parser = detector(name)
        assert parser.has_tool_call(rest) == bool(want[2])
        content, calls = parser.parse_non_stream(rest)
        found = [(call.name, call.parameters) for call in calls]
        if want[2]:
            assert (reasoning, content, found) == want
        else:
            assert (reasoning, found) == (want[0], [])
        assert all(call.tool_index == 0 if call.name == "find_harbour" else True for call in calls)
        seen += len(calls)
    assert seen


def test_without_a_tool_parser_the_reasoning_parser_reads_the_whole_turn() -> None:
    pick, text = random.Random("alone"), "<mull>\nWell, well.\n</mull>\n\nYes.<|zoff|>"
    for _ in range(8):
        parser, got = thinker(REASONING), ["", ""]
        for piece in cuts(len(text), pick):
            reasoning, content = parser.parse_stream_chunk(text[piece])
            got[0] += reasoning or ""
            got[1] += content or ""
        reasoning, content = parser.parse_stream_end()
        assert [got[0] + (reasoning or ""), got[1] + (content or "")] == ["Well, well.", "Yes."]
    assert thinker(REASONING).parse_non_stream(text) == ("Well, well.", "Yes.")


def test_reasoning_in_one_piece() -> None:
    parser = thinker(REASONING, stream_reasoning=False)
    pieces = [parser.parse_stream_chunk(char) for char in "<mull>\nWell, well.\n</mull>\n\nYes."]
    assert [reasoning for reasoning, _ in pieces if reasoning] == ["Well, well."]


def test_a_prompt_that_opens_reasoning_is_known_and_can_be_switched_off() -> None:
    name, text = "own.preopened", "Well.\n</mull>\n\nYes."
    for active in (False, True):
        for force in (None, True):
            parser = thinker(name, force_reasoning=force, tool_call_parser_active=active)
            reasoning, content = parser.parse_non_stream(text)
            assert (reasoning.strip(), content.strip()) == ("Well.", "Yes.")
        parser = thinker(name, force_reasoning=False, tool_call_parser_active=active)
        assert parser.parse_non_stream("Yes.") == ("", "Yes.")
    assert thinker(name).detector.think_end_token == "</mull>"


def test_a_call_inside_reasoning_ends_it_and_is_handed_on_whole() -> None:
    call = '<kul>{"name": "ring-bell", "arguments": {"times": 2}}</kul>'
    reasoning, rest = thinker(REASONING, tool_call_parser_active=True).parse_non_stream("<mull>\nWell." + call)
    assert reasoning.strip() == "Well."
    content, calls = detector(REASONING).parse_non_stream(rest)
    assert (content, [call.name for call in calls]) == ("", ["ring-bell"])


# Constraints.


def test_what_has_to_hold_is_a_tag_in_the_models_own_form() -> None:
    for name in NAMES if engines.sglang() else NAMES[::4]:
        parser = detector(name, declared(strict=True))
        for choice in ("required", "auto"):
            kind, tag = parser.get_structure_constraint(choice)
            value = json.loads(json.dumps(tag.model_dump(by_alias=True)))
            assert kind == "structural_tag"
            assert value["type"] == "structural_tag"
            assert "ring-bell" in json.dumps(value["format"])
            assert value["dragoman"]["tool_choice"] == choice
            if engines.sglang():
                xgrammar = pytest.importorskip("xgrammar")
                assert xgrammar.Grammar.from_structural_tag(json.dumps(value)) is not None
    assert detector(REASONING).get_structure_constraint("auto") is None


def test_the_texts_around_a_calls_arguments() -> None:
    info = detector("own.json_in_tags").detector.structure_info()("ring-bell")
    assert info.begin.startswith("<qor>")
    assert '"ring-bell"' in info.begin
    assert info.begin.startswith(info.trigger)
    assert "</qor>" in info.end


def test_a_schema_that_cannot_be_enforced_is_refused_where_it_was_promised() -> None:
    behind = {"type": "object", "properties": {"a": {"type": "string", "pattern": "(?<=x)y"}}}
    with pytest.raises(ValueError, match="/properties/a/pattern"):
        detector(REASONING, declared(parameters=behind, strict=True)).detector.get_structural_tag(
            declared(parameters=behind, strict=True), "required"
        )
    assert detector(REASONING, declared(parameters=behind)).get_structure_constraint("required") is not None


# The grammar backend: SGLang's own base classes and torch.


@pytest.fixture(scope="module")
def backend() -> Any:
    pytest.importorskip("torch")
    pytest.importorskip("sglang.srt.constrained.base_grammar_backend")
    from sglang.srt.constrained.base_grammar_backend import GRAMMAR_BACKEND_REGISTRY

    tokenizer = tokenizer_of(REASONING)
    return GRAMMAR_BACKEND_REGISTRY["dragoman"](SimpleNamespace(), tokenizer, len(tokenizer) + 5, set())


def prompt_ids(**variables: Any) -> list[int]:
    tokenizer = tokenizer_of(REASONING)
    text = tokenizer.apply_chat_template(
        [{"role": "user", "content": "Hi"}], add_generation_prompt=True, tokenize=False, **variables
    )
    return list(tokenizer.encode(text, add_special_tokens=False))


def grammar(backend: Any, kind: str, value: str, **variables: Any) -> Any:
    key = backend.get_request_grammar_key((kind, value), input_ids=prompt_ids(**variables), thinking_budget=None)
    return backend._init_value_dispatch(key, False)


def allowed(made: Any, size: int) -> set[int]:
    import torch

    mask = made.allocate_vocab_mask(size, 2, "cpu")
    made.fill_vocab_mask(mask, 1)
    logits = torch.zeros((2, size))
    made.apply_vocab_mask(logits, mask)
    assert bool((logits[0] == 0).all())
    return {token for token in range(size) if logits[1, token] == 0}


def test_a_tag_of_the_tool_parser_becomes_masks_of_the_whole_turn(backend: Any) -> None:
    _, tag = detector(REASONING).get_structure_constraint("required")
    value = json.dumps(tag.model_dump(by_alias=True))
    tokenizer = tokenizer_of(REASONING)
    size = len(tokenizer) + 5
    opener, end, thought = (tokenizer.convert_tokens_to_ids(text) for text in ("<kul>", "<|zoff|>", "<mull>"))
    made = grammar(backend, "structural_tag", value)
    assert {opener, thought} <= allowed(made, size)
    assert end not in allowed(made, size)
    assert allowed(grammar(backend, "structural_tag", value, ponder=False), size) == {opener}
    call = '<kul>{"name": "ring-bell", "arguments": {"times": 2}}</kul>'
    ids = tokenizer.encode(call, add_special_tokens=False)
    for token in ids:
        made.accept_token(token)
    assert end in allowed(made, size)
    with pytest.raises(ValueError, match="not allowed here"):
        made.accept_token(tokenizer.convert_tokens_to_ids("x"))
    made.rollback(len(ids))
    assert end not in allowed(made, size)
    again = made.copy()
    assert allowed(again, size) == allowed(made, size)
    for token in [*ids, end]:
        again.accept_token(token)
    assert again.is_terminated()
    assert not made.is_terminated()


def test_json_and_ebnf_hold_behind_reasoning(backend: Any) -> None:
    tokenizer = tokenizer_of(REASONING)
    schema = json.dumps({"type": "object", "properties": {"a": {"type": "boolean"}}, "required": ["a"]})
    for kind, value, good, bad in (
        ("json", schema, '{"a": true', '{"b'),
        ("json", "$$ANY$$", '{"b": 1', "[1"),
        ("ebnf", 'root ::= "yes" | "no"', "yes", "maybe"),
    ):
        for head in ("", "<mull>\nWell.\n</mull>\n\n"):
            made = grammar(backend, kind, value)
            for token in tokenizer.encode(head + good, add_special_tokens=False):
                made.accept_token(token)
            other = grammar(backend, kind, value)
            with pytest.raises(ValueError, match="not allowed"):
                for token in tokenizer.encode(head + bad, add_special_tokens=False):
                    other.accept_token(token)


def test_what_it_does_not_take_is_said(backend: Any) -> None:
    for kind, value, why in (
        ("regex", "a+", "no regular expressions"),
        ("json", json.dumps({"type": "string", "pattern": "(?<=x)y"}), "/pattern"),
        ("json", "{", "json"),
        ("ebnf", "root ::= other", "other"),
        ("structural_tag", json.dumps({"type": "structural_tag", "format": {}}), "--tool-call-parser dragoman"),
    ):
        made = grammar(backend, kind, value)
        assert type(made).__name__ == "InvalidGrammarObject"
        assert why in made.error_message
