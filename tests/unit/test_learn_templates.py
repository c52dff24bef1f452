"""What is learned from templates of our own, one for each way of writing calls; their markers are made up."""

# ruff: noqa: E501 - templates are easier to read on long lines

from __future__ import annotations

import json

import pytest

from dragoman.errors import LimitError, TemplateError
from dragoman.format import learned
from dragoman.limits import Limits
from dragoman.template.describe import describe
from dragoman.template.learn import learn
from dragoman.template.profile import (
    ContentMode,
    NestedTags,
    ObjectSyntax,
    Profile,
    ReasoningMode,
    ToolFormat,
    ToolProfile,
    ValueStyle,
    piece_text,
)
from dragoman.template.render import Template
from tests import learned_templates as own


def profile_of(source: str, eos_token: str = "") -> Profile:
    return learn(Template(source, eos_token=eos_token))


def tools_of(source: str) -> ToolProfile:
    tools = profile_of(source).tools
    assert tools is not None
    return tools


def written(tools: ToolProfile) -> tuple[str, str, str, str]:
    """(section opener, call, separator, section closer) for people."""
    call = " ".join(piece_text(piece) for piece in tools.call)
    return tools.section_open.written, call, tools.separator.written, tools.section_close.written


@pytest.mark.parametrize(
    ("source", "form", "expected"),
    [
        (own.JSON_IN_TAGS, "json_native", ("\n", r"'<qor>\n' OBJECT '\n</qor>'", "\n", "")),
        (own.JSON_ARRAY_WITH_IDS, "json_native", ("[QALLS][", "OBJECT", ", ", "]")),
        (own.NAME_AS_KEY, "json_native", ("<|vops|>[", "OBJECT", ", ", "]<|/vops|>")),
        (own.BARE_JSON_ONE_CALL, "json_native", ("", "OBJECT", "", "")),
        (own.WRAPPED, "json_native", ("<|acts|>[", r"'\n  ' OBJECT", ",", "\n]<|/acts|>")),
        (own.ID_BETWEEN, "tag_with_json", ("", "'<kall>' NAME '<kid>' ID '<kargs>' ARGS", "", "")),
        (own.ID_BEFORE, "tag_with_json", ("", "'<kid>' ID '<kname>' NAME '<kargs>' ARGS '<kend>'", "", "")),
        (own.ID_ON_A_LINE, "tag_with_json", ("", r"'<kul>' ID '\n' NAME '\n' ARGS '</kul>'", "", "")),
        (own.TYPES_AS_TAGS, "tag_with_tagged", ("", "'<kul id=\"' ID '\" n=\"' NAME '\">' ARGS '</kul>'", "", "")),
        (own.TYPE_BEFORE_KEY, "tag_with_tagged", ("", r"'[KUL]' NAME '\n' ARGS '[/KUL]'", "", "")),
        (
            own.TAGGED_BEFORE_NAME,
            "tag_with_tagged",
            ("", "'<kul>' ARGS '<id>' ID '</id><nam>' NAME '</nam></kul>'", "", ""),
        ),
        (own.JSON_BEFORE_NAME, "tag_with_json", ("<|acts|>", "'<|with|>' ARGS '<|do|>' NAME", "", "<|/acts|>")),
        (own.NAME_AS_TAG, "tag_with_json", ("", "'<' NAME '>' ARGS '</' NAME '>'", "", "")),
        (
            own.NAME_AND_KEYS_AS_TAGS,
            "tag_with_tagged",
            ("<kuls>\n", r"'<' NAME '>\n' ARGS '\n</' NAME '>\n'", "", "</kuls>"),
        ),
        (own.NAMES_IN_ONE_OBJECT, "tag_with_json", ("<go>{", """'"' NAME '": ' ARGS""", ", ", "}</go>")),
        (
            own.COUNTED_IN_SECTION,
            "tag_with_json",
            ("<|sek|>", "'<|kol|>fn.' NAME ':' INDEX '<|karg|>' ARGS '<|/kol|>'", "", "<|/sek|>"),
        ),
        (own.TEXT_ARGUMENTS, "tag_with_json", ("", r"'<kul>' NAME '\n' ARGS '</kul>'", "", "")),
        (own.TAGGED, "tag_with_tagged", ("", r"'\n<kul>\n<fun=' NAME '>\n' ARGS '</fun>\n</kul>'", "", "")),
        (own.TAGGED_KEYS_AND_VALUES, "tag_with_tagged", ("", r"'<kul>' NAME '\n' ARGS '</kul>'", "", "")),
        (own.TYPED_TAGS, "tag_with_tagged", ("", """'<kul n="' NAME '">' ARGS '</kul>'""", "", "")),
        (own.OWN_QUOTES, "tag_with_tagged", ("", "'<|kul>call:' NAME '{' ARGS '}<kul|>'", "", "")),
        (
            own.KEYS_AS_TAGS,
            "tag_with_tagged",
            ("@]<kuls>\n", r"""'@]<kul n="' NAME '">' ARGS '@]</kul>\n'""", "", "@]</kuls>"),
        ),
        (own.PYTHON_LIKE, "tag_with_tagged", ("<|on|>[", "NAME '(' ARGS ')'", ", ", "]<|off|>")),
    ],
)
def test_calls_are_told_as_pieces(source: str, form: str, expected: tuple[str, str, str, str]) -> None:
    tools = tools_of(source)
    assert (tools.format.value, written(tools)) == (form, expected)


def test_values_in_a_notation_of_their_own() -> None:
    assert tools_of(own.OWN_QUOTES).syntax == ObjectSyntax("<|q|>", "<|q|>")
    assert tools_of(own.KEYS_AS_TAGS).nested == NestedTags("@]<", ">", "@]</", ">", item="@]<one>")


@pytest.mark.parametrize("source", [own.OWN_QUOTES, own.KEYS_AS_TAGS])
def test_notations_are_proven(source: str) -> None:
    proof = learned(source, "", "").proof
    wanted = ("content", "tool_calls", "parallel_tool_calls", "no_arguments", "nested", "typed", "whitespace")
    assert {name: str(proof[name]) for name in wanted} == dict.fromkeys(wanted, "proven")


@pytest.mark.parametrize(
    ("source", "argument", "separator"),
    [
        (own.TAGGED, r"'<par=' KEY '>\n' VALUE '\n</par>\n'", ""),
        (own.TAGGED_KEYS_AND_VALUES, r"'<ak>' KEY '</ak>\n<av>' VALUE '</av>\n'", ""),
        (own.TYPED_TAGS, """'<a k="' KEY '" t="' TYPE '">' VALUE '</a>'""", ""),
        (own.OWN_QUOTES, "KEY ':' VALUE", ","),
        (own.KEYS_AS_TAGS, "'@]<' KEY '>' VALUE '@]</' KEY '>'", ""),
        (own.PYTHON_LIKE, "KEY '=' VALUE", ", "),
    ],
)
def test_tagged_arguments_are_told_as_pieces(source: str, argument: str, separator: str) -> None:
    tools = tools_of(source)
    assert " ".join(piece_text(piece) for piece in tools.argument) == argument
    assert tools.argument_separator.written == separator


def test_value_styles_are_those_of_the_history() -> None:
    python = dict(tools_of(own.TAGGED).value_styles)
    assert python["string"] is ValueStyle.RAW
    assert {python[kind] for kind in ("boolean", "null", "array", "object")} == {ValueStyle.PYTHON}
    as_json = dict(tools_of(own.TAGGED_KEYS_AND_VALUES).value_styles)
    assert as_json.pop("string") is ValueStyle.RAW
    assert set(as_json.values()) == {ValueStyle.JSON}
    assert set(dict(tools_of(own.PYTHON_LIKE).value_styles).values()) == {ValueStyle.JSON}


def test_the_words_that_tell_types() -> None:
    words = dict(tools_of(own.TYPED_TAGS).type_words)
    assert words.pop("integer") == "number"
    assert words == {kind: kind for kind in words}
    assert tools_of(own.TAGGED).type_words == ()


def test_the_json_object_of_a_call() -> None:
    shape = tools_of(own.JSON_ARRAY_WITH_IDS).object
    assert shape is not None
    assert (shape.name_path, shape.args_path, shape.id_path) == (("name",), ("arguments",), ("id",))
    assert shape.order == (("name",), ("arguments",), ("id",))
    bare = tools_of(own.BARE_JSON_ONE_CALL).object
    assert bare is not None
    assert bare.args_path == ("parameters",)
    keyed = tools_of(own.NAME_AS_KEY).object
    assert keyed is not None
    assert keyed.name_is_key


def test_constant_fields_and_double_encoding_are_seen() -> None:
    turn = """{% for c in m.tool_calls or [] %}{{ '<kul>{ "kind" : "fn" , "fn" : {"nm": "' + c.function.name + '", "in": ' -}}
{{ (c.function.arguments if c.function.arguments is string else c.function.arguments | tojson) | tojson + '}}</kul>' }}{% endfor %}"""
    tools = tools_of(own.wrap(own.CONTENT + turn))
    shape = tools.object
    assert shape is not None
    assert (shape.name_path, shape.args_path, shape.args_as_text) == (("fn", "nm"), ("fn", "in"), True)
    assert shape.constants == ((("kind",), '"fn"'),)
    assert (shape.open_pad, shape.colon, shape.comma) == (" ", " : ", " , ")


def test_parallel_calls_arrays_and_ids() -> None:
    array, single = tools_of(own.JSON_ARRAY_WITH_IDS), tools_of(own.BARE_JSON_ONE_CALL)
    assert (array.parallel, array.array, array.ids_in_history, array.id_length) == (True, True, True, 9)
    assert (single.parallel, single.array, single.ids_in_history, single.id_length) == (False, False, False, None)


def test_arguments_as_text_or_object() -> None:
    assert not tools_of(own.TEXT_ARGUMENTS).needs_object_arguments
    assert not tools_of(own.ID_BETWEEN).needs_object_arguments
    assert tools_of(own.TAGGED).needs_object_arguments
    assert profile_of(own.TEXT_ARGUMENTS).baseline["arguments"] == "text"


def test_losses_of_the_history_are_named() -> None:
    assert profile_of(own.ID_BETWEEN).losses == frozenset()
    assert {"trim", "content_beside_calls"} <= profile_of(own.JSON_ARRAY_WITH_IDS).losses
    assert {"call_ids", "parallel_calls"} <= profile_of(own.BARE_JSON_ONE_CALL).losses
    assert "repr" in profile_of(own.TAGGED).losses


def test_reasoning_under_its_key() -> None:
    reasoning = profile_of(own.REASONING).reasoning
    assert reasoning.mode is ReasoningMode.TAGGED
    assert (reasoning.open.written, reasoning.close.written) == ("<mull>\n", "\n</mull>\n\n")
    assert (reasoning.message_key, reasoning.switch) == ("reasoning_content", "ponder")
    assert reasoning.empty_block == "<mull>\n\n</mull>\n\n"
    assert reasoning.rendered_last
    assert reasoning.rendered_old
    assert reasoning.rendered_with_calls
    assert tools_of(own.REASONING).section_open.written == ""  # the empty block is no part of the calls


def test_reasoning_that_the_prompt_opens() -> None:
    profile = profile_of(own.PREOPENED)
    assert profile.reasoning.mode is ReasoningMode.PREOPENED
    assert (profile.reasoning.open.written, profile.reasoning.close.text) == ("<mull>\n", "</mull>")
    assert profile.assistant_header == "<|zon|>assistant\n"
    assert profile.generation_prompt == "<|zon|>assistant\n<mull>\n"


def test_wrapped_content_beside_reasoning() -> None:
    profile = profile_of(own.WRAPPED)
    assert profile.content.mode is ContentMode.WRAPPED
    assert (profile.content.open.written, profile.content.close.written) == ("<|say|>", "<|/say|>")
    assert (profile.reasoning.open.written, profile.reasoning.close.written) == ("<|mull|>", "<|/mull|>")
    assert profile.end_of_turn == ("<|zoff|>",)


def test_header_and_end_that_share_characters_are_not_cut() -> None:
    profile = profile_of(own.SHARED_PREFIX)
    assert (profile.assistant_header, profile.generation_prompt) == ("<|assistant|>", "<|assistant|>")
    assert profile.end_of_turn[0] == "<|ends|>"


def test_an_empty_answer_in_a_turn_of_its_own_is_no_end_of_calls() -> None:
    """Behind the turn of its calls a message with content '' writes one more turn, without any text."""
    source = (
        "{% for m in messages %}{% if m.role == 'assistant' %}{% if m.tool_calls %}<|bot|><kuls>{% for c in m.tool_calls %}"
        "<kul>{{ c.function | tojson }}</kul>{% endfor %}</kuls><|end|>{% endif %}"
        "{% if m.content is not none %}<|bot|>{{ m.content }}<|end|>{% endif %}"
        "{% else %}<|{{ m.role }}|>{{ m.content }}{% endif %}{% endfor %}{% if add_generation_prompt %}<|bot|>{% endif %}"
    )
    profile = profile_of(source)
    assert profile.tools is not None
    assert profile.tools.section_close.text == "</kuls>"
    assert profile.end_of_turn == ("<|end|>",)


def test_role_starts() -> None:
    starts = profile_of(own.JSON_IN_TAGS).role_starts
    assert starts == {role: f"<|zon|>{role}\n" for role in ("system", "user", "assistant", "tool")}


def test_a_template_that_refuses_is_told_from_one_that_knows_no_tools() -> None:
    refusing = profile_of(own.ALWAYS_REFUSES)
    assert refusing.failure is not None
    assert refusing.failure.startswith("raises: ")
    assert "closed for today" in refusing.failure
    assert not refusing.generic_tools
    plain = profile_of(own.NO_TOOLS)
    assert (plain.failure, plain.generic_tools, plain.tools) == ("knows no tools", True, None)
    shown = profile_of(own.wrap("{{ m.content }}"))
    assert (shown.failure, shown.generic_tools) == ("nothing renders", False)


def test_what_cannot_be_told_is_a_failure_with_its_reason() -> None:
    nested = """{% for c in m.tool_calls or [] %}{{ '<kul>' + c.function.name + '>' }}{% for k, v in c.function.arguments.items() -%}
{{ '<' + k + '>' + (v | string) + '</' + k + ' ends>' }}{% endfor %}{{ '</kul>' }}{% endfor %}"""
    profile = profile_of(own.wrap(own.CONTENT + nested))
    assert (profile.tools, profile.failure) == (None, "the end of an argument repeats its key in another form")
    cut = (
        "{% for c in m.tool_calls or [] %}{{ '<kul>' + c.id[-9:] + '|' + (c.function.arguments | tojson) }}{% endfor %}"
    )
    profile = profile_of(own.wrap(own.CONTENT + cut))
    assert (profile.tools, profile.failure) == (None, "the tool's name is not written")


def test_a_name_that_only_the_id_tells() -> None:
    by_id = "{% for c in m.tool_calls or [] %}{{ '<kul>' + c.id + '|' + (c.function.arguments | tojson) }}{% endfor %}"
    tools = tools_of(own.wrap(own.CONTENT + by_id))
    assert written(tools) == ("", "'<kul>functions.' NAME ':' INDEX '|' ARGS", "", "")


def test_no_sentinel_is_left_in_a_profile() -> None:
    from dragoman.template.sentinels import FIRST, SECOND

    words = [
        w for s in (FIRST, SECOND) for w in (s.user, s.content, s.reasoning, s.result, s.calls[0].name, s.calls[0].id)
    ]
    words += [word for s in (FIRST, SECOND) for call in s.calls for pair in call.arguments for word in pair]
    for source in SOURCES:
        text = json.dumps(describe(profile_of(source)), ensure_ascii=False)
        assert [word for word in words if word in text] == []


SOURCES = [value for name, value in vars(own).items() if name.isupper() and name not in ("HEAD", "TAIL", "CONTENT")]


def test_the_eos_token_is_a_stop() -> None:
    assert profile_of(own.NO_TOOLS, eos_token="<|fin|>").end_of_turn == ("<|zoff|>", "<|fin|>")


def test_every_fact_about_calls_has_evidence() -> None:
    for source in SOURCES:
        profile = profile_of(source)
        wanted = {"generation_prompt", "reasoning", "content", "end_of_turn", "baseline"}
        wanted |= {"tools.format", "tools.call", "tools.parallel"} if profile.tools else {"tools"}
        assert wanted <= set(profile.evidence)
        if profile.tools and profile.tools.format is ToolFormat.TAG_WITH_TAGGED:
            assert {"tools.argument", "tools.value_styles"} <= set(profile.evidence)


def test_descriptions_are_plain_data() -> None:
    out = describe(profile_of(own.TAGGED))
    assert json.loads(json.dumps(out)) == out
    assert out["facts"]["tools"]["call"][1] == {"slot": "name"}
    assert out["facts"]["tools"]["value_styles"]["boolean"] == "python"


def test_bounds_and_broken_templates_are_errors_of_ours() -> None:
    with pytest.raises(LimitError) as caught:
        learn(Template(own.ALWAYS_REFUSES), limits=Limits(probe_renders=20))
    assert caught.value.bound == "probe_renders"
    with pytest.raises(TemplateError):
        profile_of("{% if %}")


@pytest.mark.parametrize("end", ["<|zoff|>", "### End"])
@pytest.mark.parametrize("eos", ["", "<eos>"])
def test_a_line_break_behind_every_answer_hides_no_end(end: str, eos: str) -> None:
    """The last answer has no end of its own, only the line break that all answers have."""
    source = (
        "{% for m in messages %}{% if m.role == 'user' %}### User:\n{{ m.content }}\n"
        "{% else %}### Bot:\n{{ m.content }}\n{% if not loop.last %}END\n{% endif %}{% endif %}{% endfor %}"
        "{% if add_generation_prompt %}### Bot:\n{% endif %}"
    ).replace("END", end)
    profile = profile_of(source, eos)
    assert profile.end_of_turn == tuple(filter(None, (end, eos)))
    assert profile.role_starts["user"] == "### User:\n"


ANSWER_BEHIND_EMPTY_BLOCK = own.wrap(
    """{% if m.tool_calls %}{% for c in m.tool_calls %}{{ '<kul>' + (c.function | tojson) + '</kul>' }}{% endfor %}
{%- else %}{{ '<mull>\\n\\n</mull>\\n<reply>\\n' + m.content + '\\n</reply>' }}{% endif %}""",
    tail="""{{ '<|zoff|>\\n' }}{% endif %}{% endfor -%}
{%- if add_generation_prompt %}{{ '<|zon|>assistant\\n' }}{{ '<mull>' if mulling_thought else '<mull>\\n\\n</mull>\\n' }}{% endif %}""",
)


def test_an_answer_may_have_its_own_block_behind_an_empty_one_of_reasoning() -> None:
    fmt = learned(ANSWER_BEHIND_EMPTY_BLOCK, "", "")
    content, reasoning = fmt.profile.content, fmt.profile.reasoning
    assert content.mode is ContentMode.WRAPPED
    assert (content.open.text, content.close.text) == ("<reply>", "</reply>")
    assert (reasoning.open.text, reasoning.close.text) == ("<mull>", "</mull>")
    assert fmt.proof["content"] == fmt.proof["tool_calls"] == "proven"
    assert fmt.proof["reasoning"] == "inferred"
