"""A tokenizer with the learned response template, in stock transformers."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from transformers import AutoTokenizer

from dragoman.dialect.response_template import response_template
from dragoman.errors import TemplateError, UsageError
from dragoman.plugins.transformers import attach
from tests.contract.test_response_template import Source, _object
from tests.formats import learned_format
from tests.plugins.outputs import NAMES, outputs, tokenizer_of, tools
from tests.plugins.tiny_model import write_tokenizer

JOINED = {"thinking", "content"}


def test_a_saved_tokenizer_reads_real_ids_of_its_model(tmp_path: Path) -> None:
    tokenizer = AutoTokenizer.from_pretrained(write_tokenizer(tmp_path / "made"))
    with pytest.raises(AttributeError):
        tokenizer.parse_response("", prefix="")
    assert attach(tokenizer) is tokenizer
    tokenizer.save_pretrained(tmp_path / "saved")
    loaded = AutoTokenizer.from_pretrained(tmp_path / "saved")
    assert loaded.response_template == tokenizer.response_template
    prompt = loaded.apply_chat_template(
        [{"role": "user", "content": "Hi"}], add_generation_prompt=True, return_dict=False, tools=tools()
    )
    call = {"name": "find_harbour", "arguments": {"port": "Brest", "days": 3}}
    text = f"<mull>\nWell.\n</mull>\n\nYes.<kul>{json.dumps(call)}</kul><|zoff|>"
    ids = loaded.encode(text, add_special_tokens=False)
    message = loaded.parse_response(ids, prefix=prompt, tools=tools())
    assert message["reasoning_content"].strip() == "Well."
    assert message["content"].strip() == "Yes."
    (found,) = message["tool_calls"]
    assert found["function"] == call


def test_what_cannot_be_expressed_is_said() -> None:
    with pytest.raises(UsageError, match="a list of calls whose names are keys"):
        attach(tokenizer_of("own.name_as_key"))
    with pytest.raises(UsageError, match="Python's notation"):
        attach(tokenizer_of("own.python_like"), serving=True)

    class Bare:
        name_or_path = "bare"

    with pytest.raises(TemplateError, match="bare has no chat template"):
        attach(Bare())


def _serving(name: str) -> dict[str, Any] | None:
    try:
        return json.loads(json.dumps(response_template(learned_format(name).profile, serving=True)))  # type: ignore[no-any-return]
    except UsageError:
        return None


def test_servers_get_the_narrow_form_that_they_take() -> None:
    """The rules of vLLM's and SGLang's stock parsers: three fields, and texts that are not joined."""
    made = {name: template for name in NAMES if (template := _serving(name)) is not None}
    assert len(made) >= 7
    for name, template in made.items():
        fields = template["fields"]
        assert set(fields) <= {*JOINED, "tool_calls"}, name
        assert set(template["defaults"]) == {"role"}
        assert not any("join" in fields[key] for key in JOINED & set(fields)), name
        assert "repeats" not in fields.get("thinking", {}), name


@pytest.mark.parametrize("name", ["own.json_in_tags", "own.id_before", "own.reasoning", "own.wrapped"])
def test_vllms_stock_parser_reads_a_stream_by_it(name: str) -> None:
    stock = pytest.importorskip("vllm.parser.response_template", exc_type=ImportError)
    template, source = _serving(name), Source(name, learned_format(name))
    stock.validate_response_template_for_serving(template)
    for output in outputs(name, 8):
        stream = stock._ResponseStream(
            stock._streaming_template(template),
            prefix=tokenizer_of(name).decode(output.prompt),
            tools=tools(),
            parse_reasoning=True,
            include_reasoning=True,
            parse_tools=True,
            new_tool_call_id=str,
        )
        got = [stream.feed(char, finished=False) for char in output.text] + [stream.feed("", finished=True)]
        parts = [delta for delta in got if delta is not None]
        calls = [(call.function.name, _object(call.function.arguments)) for part in parts for call in part.tool_calls]
        turn = source.fmt.turn([{"role": "user", "content": "."}], tools(), generation_prompt="")
        turn.feed(output.text)
        turn.finish()
        want = turn.message
        assert "".join(part.content or "" for part in parts).strip() == want.content.strip()
        assert "".join(part.reasoning or "" for part in parts).strip() == want.reasoning_content.strip()
        assert calls == [(call.name, json.loads(call.arguments)) for call in want.tool_calls]
