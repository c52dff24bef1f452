"""vLLM's parsers ``dragoman``: real base classes where vLLM is installed, a stand-in of their surface where not."""

from __future__ import annotations

import json
import os
import random
import sys
from importlib.metadata import entry_points
from typing import Any

import pytest

from dragoman.errors import UsageError
from dragoman.plugins import vllm as plugin
from dragoman.plugins.reading import decoder, prompt_end
from dragoman.plugins.tokenizer import TEMPLATE_VARIABLE, format_of, proven_format
from tests.learned_templates import NO_TOOLS, PYTHON_LIKE
from tests.plugins import engines, vllm_stand_in
from tests.plugins.outputs import (
    NAMES,
    Output,
    Said,
    cuts,
    expected,
    made_tokenizer,
    outputs,
    summed,
    tokenizer_of,
    tools,
)
from tests.template_corpus import shared_rows, template_source

MESSAGES = 8
CASES = "turns_engines.jsonl"
ALL = "DRAGOMAN_ALL" in os.environ
REASONING = "own.reasoning"


@pytest.fixture(scope="module", autouse=True)
def _vllm() -> None:
    engines.vllm()
    plugin.register()


def request(**given: Any) -> Any:
    if not engines.vllm():
        return vllm_stand_in.request(**given)
    from vllm.entrypoints.openai.chat_completion.protocol import ChatCompletionRequest

    return ChatCompletionRequest(model="m", messages=[{"role": "user", "content": "."}], **given)


def parser_class(name: str = REASONING, **more: Any) -> Any:
    from vllm.parser import ParserManager

    asked = {"tool_parser_name": "dragoman", "reasoning_parser_name": "dragoman", "enable_auto_tools": True, **more}
    return ParserManager.get_parser(**{"tokenizer": tokenizer_of(name), **asked})


def prompt_ids(name: str, **variables: Any) -> list[int]:
    tokenizer = tokenizer_of(name)
    text = tokenizer.apply_chat_template(
        [{"role": "user", "content": "Hi"}], add_generation_prompt=True, tokenize=False, **variables
    )
    return list(tokenizer.encode(text, add_special_tokens=False))


def pieces(messages: list[Any]) -> Said:
    return summed(
        [
            (
                message.reasoning or "",
                message.content or "",
                [(c.index, c.id, c.function.name, c.function.arguments or "") for c in message.tool_calls],
            )
            for message in messages
            if message is not None
        ]
    )


def streamed(parser: Any, output: Any, asked: Any, pick: random.Random, tokenizer: Any) -> Said:
    got: list[Any] = []
    for piece in cuts(len(output.ids), pick):
        ids = output.ids[piece]
        last = piece.stop == len(output.ids)
        got.append(parser.parse_delta(tokenizer.decode(ids), ids, asked, output.prompt, finished=last))
    return pieces(got)


# Registration.


def test_the_entry_point_registers_both_parsers_and_loads_them_when_asked() -> None:
    from vllm.reasoning import ReasoningParserManager
    from vllm.tool_parsers import ToolParserManager

    (point,) = (point for point in entry_points(group="vllm.general_plugins") if point.name == "dragoman")
    point.load()()
    assert "dragoman" in ToolParserManager.list_registered()
    assert "dragoman" in ReasoningParserManager.list_registered()
    assert ToolParserManager.get_tool_parser("dragoman").__name__ == "DragomanToolParser"
    assert ReasoningParserManager.get_reasoning_parser("dragoman").__name__ == "DragomanReasoningParser"


def test_registering_imports_no_parser_and_may_be_done_twice() -> None:
    from vllm.parser import ParserManager

    loaded = {name for name in sys.modules if name.startswith("dragoman.plugins.vllm_")}
    before = ParserManager.get_parser
    plugin.register()
    assert ParserManager.get_parser is before
    assert loaded == {name for name in sys.modules if name.startswith("dragoman.plugins.vllm_")}


def test_both_names_give_one_parser_of_the_whole_turn() -> None:
    from dragoman.plugins.vllm_parser import DragomanParser

    assert issubclass(parser_class(), DragomanParser)
    assert issubclass(parser_class(reasoning_parser_name=None), DragomanParser)
    assert issubclass(parser_class(enable_auto_tools=False), DragomanParser)


def test_beside_a_strangers_parser_vllms_own_composition_stays(monkeypatch: pytest.MonkeyPatch) -> None:
    from vllm.parser import ParserManager
    from vllm.reasoning import ReasoningParserManager
    from vllm.reasoning.abs_reasoning_parsers import ReasoningParser

    from dragoman.plugins.vllm_parser import DragomanParser

    class Stranger(ReasoningParser):  # type: ignore[misc, unused-ignore]
        """Reasons about nothing."""

    monkeypatch.setattr(ReasoningParserManager, "get_reasoning_parser", lambda name: Stranger)
    made = ParserManager.get_parser(
        tool_parser_name="dragoman", reasoning_parser_name="stranger", enable_auto_tools=True
    )
    assert not issubclass(made, DragomanParser)
    assert made.tool_parser_cls.__name__ == "DragomanToolParser"


def test_a_template_without_calls_is_refused_when_the_server_starts(monkeypatch: pytest.MonkeyPatch) -> None:
    from dragoman.plugins.vllm_tools import DragomanToolParser

    tokenizer = tokenizer_of("own.json_in_tags")
    monkeypatch.setattr(tokenizer, "chat_template", NO_TOOLS)
    with pytest.raises(UsageError, match=r"does not show how this model writes tool calls.*--upstream"):
        DragomanToolParser(tokenizer)
    with pytest.raises(TypeError, match="does not show how this model writes tool calls"):
        parser_class("own.json_in_tags")


def test_a_template_that_proved_some_of_its_calls_is_taken_with_a_warning(caplog: pytest.LogCaptureFixture) -> None:
    """Its history leaves the quotes of strings away, so not every value comes back."""
    tokenizer = made_tokenizer(PYTHON_LIKE.replace("(v | tojson)", "(v if v is string else v | tojson)"))
    for _ in range(2):
        assert proven_format(tokenizer, claim="tool_calls").profile.tools is not None
    (record,) = caplog.records
    assert "did not prove all" in record.message


def test_a_template_file_can_be_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Any) -> None:
    file = tmp_path / "other.jinja"
    file.write_text(NO_TOOLS, "utf-8")
    monkeypatch.setenv(TEMPLATE_VARIABLE, str(file))
    assert format_of(tokenizer_of(REASONING)).profile.generic_tools
    monkeypatch.setenv(TEMPLATE_VARIABLE, str(tmp_path / "none.jinja"))
    with pytest.raises(UsageError, match=r"none\.jinja"):
        format_of(tokenizer_of(REASONING))


# Reading.


@pytest.mark.parametrize("name", NAMES)
def test_however_it_is_cut_the_message_is_our_turns(name: str) -> None:
    tokenizer, pick, made = tokenizer_of(name), random.Random(name), parser_class(name)
    fmt = format_of(tokenizer)
    seen = 0
    for output in outputs(name, MESSAGES):
        asked = request(tools=tools())
        end = prompt_end(fmt, output.prompt, decoder(fmt, tokenizer))
        want = expected(fmt, output, end)
        got = streamed(made(tokenizer, asked.tools), output, asked, pick, tokenizer)
        assert got == want
        whole = made(tokenizer, asked.tools)
        whole.set_prompt_token_ids(output.prompt)
        reasoning, content, calls = whole.parse(output.text, asked, True, output.ids)
        assert (reasoning or "", content or "", [(c.name, c.arguments) for c in calls or []]) == want
        seen += len(want[2])
    assert seen


@pytest.mark.skipif(not shared_rows(CASES), reason="the handed corpus is not here")
def test_cases_of_public_suites_read_as_our_turn_reads_them() -> None:
    rows: dict[str, list[dict[str, Any]]] = {}
    for row in shared_rows(CASES):
        if row["request"].get("tools") and row["output"]:
            rows.setdefault(row["template"], []).append(row)
    calls = 0
    for template in sorted(rows) if ALL else random.Random("cases").sample(sorted(rows), 6):
        tokenizer = made_tokenizer(template_source(f"{template}.jinja"))
        fmt, pick = format_of(tokenizer), random.Random(template)
        if fmt.profile.generic_tools:
            continue
        made = parser_class(tokenizer=tokenizer)
        for row in rows[template] if ALL else pick.sample(rows[template], min(8, len(rows[template]))):
            asked = request(tools=row["request"]["tools"])
            end = fmt.profile.assistant_header + row["request"]["generation_prompt"]
            output = Output(*(tokenizer.encode(text, add_special_tokens=False) for text in (end, row["output"])), "")
            end_read = prompt_end(fmt, output.prompt, decoder(fmt, tokenizer))
            want = expected(fmt, output, end_read, row["request"]["tools"])
            got = streamed(made(tokenizer, asked.tools), output, asked, pick, tokenizer)
            assert got == want, row["id"]
            calls += len(want[2])
    assert calls


def test_a_model_that_knows_no_tools_can_still_think() -> None:
    """A prompt that opens reasoning, and no tool parser."""
    name = "own.preopened"
    made, tokenizer, prompt = parser_class(name, enable_auto_tools=False), tokenizer_of(name), prompt_ids(name)
    ids = _ids(name, "Well, well.\n</mull>\n\nYes.")
    output, pick = Output(prompt, ids, tokenizer.decode(ids)), random.Random(name)
    for _ in range(5):
        reasoning, content, calls = streamed(made(tokenizer), output, request(), pick, tokenizer)
        assert (reasoning.strip(), content.strip(), calls) == ("Well, well.", "Yes.", [])


@pytest.mark.parametrize("name", ["own.json_in_tags", "own.tagged", REASONING])
def test_the_pair_alone_reads_the_same(name: str) -> None:
    """As vLLM composes parsers by itself: the reasoning parser hands text and ids to the tool parser."""
    from dragoman.plugins.vllm_reasoning import DragomanReasoningParser
    from dragoman.plugins.vllm_tools import DragomanToolParser

    tokenizer, pick = tokenizer_of(name), random.Random(name)
    fmt = format_of(tokenizer)
    for output in outputs(name, MESSAGES):
        asked = request(tools=tools())
        want = expected(fmt, output, prompt_end(fmt, output.prompt, decoder(fmt, tokenizer)))
        thinker, caller = DragomanReasoningParser(tokenizer), DragomanToolParser(tokenizer, asked.tools)
        thinker.set_prompt_token_ids(output.prompt)
        ended, got = thinker.is_reasoning_end(output.prompt), []
        for piece in cuts(len(output.ids), pick):
            ids = output.ids[piece]
            text = tokenizer.decode(ids)
            if not ended:
                message = thinker.extract_reasoning_streaming("", text, text, [], ids, ids)
                ended = thinker.has_engine_confirmed_reasoning_end()
                text, ids = (message.content or "" if message else ""), thinker.extract_content_ids(ids)
                if message is not None:
                    message.content = None
                    got.append(message)
            if ended:
                got.append(caller.extract_tool_calls_streaming("", text, text, [], ids, ids, asked))
        got.append(caller.finish_streaming())
        assert caller.get_remaining_unstreamed_args() == ""
        assert pieces(got) == want
        reasoning, rest = thinker.extract_reasoning(output.text, asked)
        found = caller.extract_tool_calls(rest or "", asked)
        calls = [(call.function.name, call.function.arguments) for call in found.tool_calls]
        assert (reasoning or "", found.content or "", calls) == want
        assert found.tools_called == bool(calls)


def _ids(name: str, *parts: str) -> list[int]:
    """Token ids of parts, each encoded by itself: a marker in pieces is no marker."""
    tokenizer = tokenizer_of(name)
    return [token for part in parts for token in tokenizer.encode(part, add_special_tokens=False)]


def test_a_marker_spelled_in_ordinary_tokens_is_text_unless_a_grammar_of_text_held_the_output() -> None:
    name = "own.json_in_tags"
    tokenizer, made = tokenizer_of(name), parser_class(name)
    opener = "<qor>"
    asked = request(tools=tools())
    output = next(item for item in outputs(name, 40) if opener in item.text)
    start = output.text.index(opener)
    spelled = _ids(name, output.text[:start], opener[:1], opener[1:]) + _ids(name, output.text[start + len(opener) :])
    parser = made(tokenizer, asked.tools)
    _, content, calls = parser.parse(output.text, asked, True, spelled)
    assert not calls
    assert opener in content
    asked._grammar_from_parser = True
    _, content, calls = parser.parse(output.text, asked, True, spelled)
    assert calls


def test_stop_strings_cut_the_text_and_so_the_message() -> None:
    name = "own.json_in_tags"
    tokenizer, made = tokenizer_of(name), parser_class(name)
    ids = _ids(name, "One. Two. Three.")
    assert made(tokenizer).parse("One. ", request(stop=["Two"]), True, ids)[1] == "One. "
    assert made(tokenizer).parse("One. ", request(), True, ids)[1] == "One. Two. Three."


def test_an_output_that_was_cut_off_keeps_what_there_is() -> None:
    name = "own.json_in_tags"
    tokenizer, made = tokenizer_of(name), parser_class(name)
    asked = request(tools=tools())
    fmt = format_of(tokenizer)
    for output in outputs(name, 6):
        whole = expected(fmt, output, None)
        for size in range(0, len(output.ids), 3):
            _, content, calls = made(tokenizer, asked.tools).parse("", asked, True, output.ids[:size])
            for (name_, arguments), call in zip(whole[2], calls or [], strict=False):
                assert call.name == name_
                assert arguments.startswith(call.arguments.rstrip("\ufffd"))
            if not calls and not whole[2]:
                assert whole[1].startswith((content or "").rstrip("\ufffd"))


def test_calls_are_text_where_no_tool_may_be_called() -> None:
    name = "own.json_in_tags"
    tokenizer, made = tokenizer_of(name), parser_class(name)
    output = next(item for item in outputs(name, 40) if "find_harbour" in item.text)
    for asked in (request(), request(tools=tools(), tool_choice="none")):
        _, content, calls = made(tokenizer, asked.tools).parse(output.text, asked, True, output.ids)
        assert not calls
        assert "find_harbour" in content


def test_without_a_reasoning_parser_its_markers_stay() -> None:
    made = parser_class(reasoning_parser_name=None)
    ids = _ids(REASONING, "<mull>\nWell.\n</mull>\n\nYes.")
    reasoning, content, _ = made(tokenizer_of(REASONING)).parse("", request(), True, ids)
    assert reasoning is None
    assert content is not None
    assert "<mull>" in content
    assert content.endswith("Yes.")


def test_without_a_reasoning_parser_what_the_prompt_opened_is_no_answer() -> None:
    prompt = prompt_ids(REASONING) + _ids(REASONING, "<mull>\n")
    parser, text = parser_class(reasoning_parser_name=None)(tokenizer_of(REASONING)), "Well.\n</mull>\n\nYes."
    parser.set_prompt_token_ids(prompt)
    assert parser.parse(text, request(), True, _ids(REASONING, text)) == (None, text, None)


def test_hidden_reasoning_is_not_streamed() -> None:
    parser, tokenizer = parser_class()(tokenizer_of(REASONING)), tokenizer_of(REASONING)
    ids = _ids(REASONING, "<mull>\nWell.\n</mull>\n\nYes.")
    asked = request(include_reasoning=False)
    message = parser.parse_delta(tokenizer.decode(ids), ids, asked, prompt_ids(REASONING), finished=True)
    assert (message.reasoning, message.content) == (None, "Yes.")


# Where reasoning lies.


def test_the_prompt_tells_whether_reasoning_is_over() -> None:
    from dragoman.plugins.vllm_reasoning import DragomanReasoningParser

    reasoning = DragomanReasoningParser(tokenizer_of(REASONING))
    assert not reasoning.is_reasoning_end(prompt_ids(REASONING))
    assert reasoning.is_reasoning_end(prompt_ids(REASONING, ponder=False))
    assert not reasoning.is_reasoning_end(prompt_ids(REASONING) + _ids(REASONING, "<mull>\nWell"))
    assert reasoning.is_reasoning_end(prompt_ids(REASONING) + _ids(REASONING, "<mull>\nWell\n</mull>"))
    assert (reasoning.reasoning_start_str, reasoning.reasoning_end_str) == ("<mull>", "</mull>")
    opened = DragomanReasoningParser(tokenizer_of("own.preopened"))
    assert not opened.is_reasoning_end(prompt_ids("own.preopened"))
    assert DragomanReasoningParser(tokenizer_of("own.tagged")).is_reasoning_end(prompt_ids("own.tagged"))


def test_a_history_with_reasoning_does_not_end_the_next_turns() -> None:
    from dragoman.plugins.vllm_reasoning import DragomanReasoningParser

    tokenizer = tokenizer_of(REASONING)
    history = [
        {"role": "user", "content": "Hi"},
        {"role": "assistant", "reasoning_content": "Well.", "content": "Yes."},
        {"role": "user", "content": "And?"},
    ]
    text = tokenizer.apply_chat_template(history, add_generation_prompt=True, tokenize=False)
    assert "</mull>" in text
    ids = tokenizer.encode(text, add_special_tokens=False)
    assert not DragomanReasoningParser(tokenizer).is_reasoning_end(ids)


def test_the_end_is_seen_in_the_step_that_brings_it() -> None:
    from dragoman.plugins.vllm_reasoning import DragomanReasoningParser

    prompt, ids = prompt_ids(REASONING), _ids(REASONING, "<mull>\nWell.\n</mull>\n\nYes.")
    end = ids.index(_ids(REASONING, "</mull>")[0])
    reasoning = DragomanReasoningParser(tokenizer_of(REASONING))
    for size in range(1, len(ids) + 1):
        for new in (1, 2, 3):
            if new <= size:
                seen = reasoning.is_reasoning_end_streaming(prompt + ids[:size], ids[size - new : size])
                assert seen == (size - new <= end < size)


def test_content_ids_and_counts_do_not_depend_on_the_cut() -> None:
    from dragoman.plugins.vllm_reasoning import DragomanReasoningParser

    ids = _ids(REASONING, "<mull>\nWell, well.\n</mull>\n\nYes.")
    tokenizer, pick = tokenizer_of(REASONING), random.Random("count")
    thought = tokenizer.decode(ids[: ids.index(_ids(REASONING, "</mull>")[0])])
    whole = DragomanReasoningParser(tokenizer)
    whole.set_prompt_token_ids(prompt_ids(REASONING))
    count = whole.count_reasoning_tokens(ids)
    assert 0 < count <= len(_ids(REASONING, thought))
    assert tokenizer.decode(whole.extract_content_ids(ids)).strip() == "Yes."
    assert whole.extract_content_ids(ids[:3]) == []
    for _ in range(5):
        parser = DragomanReasoningParser(tokenizer)
        for piece in cuts(len(ids), pick):
            last = parser.count_reasoning_tokens(ids[: piece.stop])
        assert last == count
    made = parser_class()(tokenizer)
    made.parse("", request(), True, ids)
    assert made.count_reasoning_tokens(ids) == count


# Constraints.


def adjusted(name: str = REASONING, *, variables: Any = None, **given: Any) -> tuple[Any, dict[str, Any] | None]:
    asked = request(**given)
    parser = parser_class(name)(tokenizer_of(name), asked.tools, chat_template_kwargs=variables or {})
    parser.set_prompt_token_ids(prompt_ids(name, **(variables or {})))
    asked = parser.adjust_request(asked)
    found = asked.structured_outputs
    return asked, json.loads(found.structural_tag) if found is not None and found.structural_tag else None


def changed(**changes: Any) -> list[dict[str, Any]]:
    return [{**tool, "function": {**tool["function"], **changes}} for tool in tools()]


@pytest.mark.parametrize("given", [{}, {"tools": True}, {"tools": True, "tool_choice": "none"}])
def test_free_output_is_not_constrained_and_keeps_its_markers(given: dict[str, Any]) -> None:
    asked, tag = adjusted(**({**given, "tools": tools()} if "tools" in given else {}))
    assert tag is None
    assert asked.skip_special_tokens is False
    assert asked.spaces_between_special_tokens is False
    assert asked._grammar_from_parser is False


def test_what_has_to_hold_is_a_tag_from_the_first_token_on() -> None:
    strict = changed(strict=True)
    forms = ({"tool_choice": "required"}, {"parallel_tool_calls": False})
    for given in (*({"tools": tools(), **form} for form in forms), {"tools": strict}):
        asked, tag = adjusted(**given)
        assert tag is not None
        assert asked._grammar_from_parser is True
        text = json.dumps(tag)
        assert "find_harbour" in text
        assert "<mull>" in text  # reasoning may come first


def test_a_prompt_that_closed_reasoning_leaves_none_in_the_tag() -> None:
    _, tag = adjusted(tools=tools(), tool_choice="required", variables={"ponder": False})
    assert tag is not None
    begins = {entry["begin"][:5] for entry in tag["format"]["tags"]}
    assert begins == {"<kul>"}


def test_a_named_tool_is_the_only_one_in_its_tag() -> None:
    choice = {"type": "function", "function": {"name": "ring-bell"}}
    _, tag = adjusted(tools=tools(), tool_choice=choice, variables={"ponder": False})
    text = json.dumps(tag)
    assert "ring-bell" in text
    assert "find_harbour" not in text


def test_a_response_format_holds_behind_optional_reasoning_and_beside_tools() -> None:
    schema = {"type": "object", "properties": {"a": {"type": "boolean"}}, "required": ["a"]}
    form = {"type": "json_schema", "json_schema": {"name": "answer", "schema": schema}}
    asked, tag = adjusted(response_format=form)
    assert tag is not None
    assert asked.response_format is None
    assert "find_harbour" not in json.dumps(tag)
    _, both = adjusted(response_format=form, tools=tools())
    assert "find_harbour" in json.dumps(both)
    # Without reasoning and tools vLLM's own constraint is as good.
    assert adjusted("own.tagged", response_format=form)[1] is None


def test_a_schema_that_cannot_be_enforced_is_refused_where_it_was_promised() -> None:
    from vllm.exceptions import VLLMValidationError

    behind = {"type": "object", "properties": {"a": {"type": "string", "pattern": "(?<=x)y"}}}
    with pytest.raises(VLLMValidationError, match="/properties/a/pattern"):
        adjusted(tools=changed(parameters=behind, strict=True))
    _, tag = adjusted(tools=changed(parameters=behind), tool_choice="required")
    assert tag is not None


def test_the_tool_parsers_own_tag_begins_behind_reasoning() -> None:
    pytest.importorskip("xgrammar")
    from dragoman.plugins.vllm_tools import DragomanToolParser

    asked = request(tools=tools(), tool_choice="required")
    parser = DragomanToolParser(tokenizer_of(REASONING), asked.tools)
    tag = parser.get_structural_tag(asked)
    assert tag is not None
    assert "<mull>" not in json.dumps(tag.model_dump()["format"].get("tags", [])[:1])
    assert parser.get_structural_tag(request(tools=tools())) is None


def test_the_responses_api_is_held_too() -> None:
    if not engines.vllm():
        pytest.skip("vLLM is not installed")
    from vllm.entrypoints.openai.responses.protocol import ResponsesRequest

    flat = [{"type": "function", **tool["function"]} for tool in tools()]
    for choice in ("required", {"type": "function", "name": "ring-bell"}):
        asked = ResponsesRequest(model="m", input="Hi", tools=flat, tool_choice=choice)
        parser = parser_class()(tokenizer_of(REASONING), asked.tools)
        parser.set_prompt_token_ids(prompt_ids(REASONING))
        tag = json.loads(parser.adjust_request(asked).structured_outputs.structural_tag)
        assert "ring-bell" in json.dumps(tag)
        # What cannot tell vLLM that reasoning is in the tag is held behind it.
        assert ("<mull>\\n" in json.dumps(tag)) == hasattr(asked, "_grammar_from_parser")
        ids = _ids(REASONING, '<mull>\nWell.\n</mull>\n\n<kul>{"name": "ring-bell", "arguments": {"times": 2}}</kul>')
        text = tokenizer_of(REASONING).decode(ids)
        reasoning, _, calls = parser.parse(text, asked, True, ids)
        assert (reasoning, [(call.name, call.arguments) for call in calls]) == (
            "Well.",
            [("ring-bell", '{"times": 2}')],
        )


def test_vllm_takes_every_tag() -> None:
    """The real xgrammar and vLLM's own check of a request."""
    if not engines.vllm():
        pytest.skip("vLLM is not installed")
    from vllm.sampling_params import SamplingParams
    from vllm.v1.structured_output.backend_xgrammar import validate_xgrammar_grammar

    for name in NAMES:
        for choice in ("required", "auto"):
            asked, tag = adjusted(name, tools=changed(strict=True), tool_choice=choice)
            assert tag is not None
            validate_xgrammar_grammar(SamplingParams(structured_outputs=asked.structured_outputs))
