"""Formats that a template cannot show: its history renders no calls, or leaves out what its own instructions ask for.

Rules of this file: data only, at most twelve entries. An entry is taken where the template itself shows nothing and
holds *all* texts of the evidence: the model's own tokens or the very words that ask for this form, never one substring.
Each has samples (text, calls, reasoning, content) that are read back when a template is learned.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from dragoman.template.profile import (
    ContentMode,
    ContentProfile,
    Evidence,
    JsonShape,
    Marker,
    Profile,
    ReasoningMode,
    ReasoningProfile,
    Slot,
    ToolFormat,
    ToolProfile,
    ValueStyle,
)


@dataclass(frozen=True, slots=True)
class Sample:
    """What a model of the family writes, and what that means. calls: (name, arguments) each."""

    text: str
    calls: tuple[tuple[str, Mapping[str, Any]], ...] = ()
    content: str = ""
    reasoning: str = ""


@dataclass(frozen=True, slots=True)
class Family:
    """One format. why: why no template shows it. tools, reasoning, content: None where the template tells."""

    name: str
    why: str
    evidence: tuple[str, ...]
    samples: tuple[Sample, ...]
    tools: ToolProfile | None = None
    reasoning: ReasoningProfile | None = None
    content: ContentProfile | None = None


_PYTHONIC = ToolProfile(
    format=ToolFormat.TAG_WITH_TAGGED,
    section_open=Marker("", "<|tool_call_start|>[", ""),
    section_close=Marker("", "]<|tool_call_end|>", ""),
    separator=Marker("", ",", " "),
    call=(Slot.NAME, Marker("", "(", ""), Slot.ARGS, Marker("", ")", "")),
    argument=(Slot.KEY, Marker("", "=", ""), Slot.VALUE),
    argument_separator=Marker("", ",", " "),
    value_styles=tuple(
        (kind, ValueStyle.JSON) for kind in ("string", "integer", "number", "boolean", "null", "array", "object")
    ),
    parallel=True,
)
_PYTHONIC_SAMPLES = (
    Sample(
        '<|tool_call_start|>[find_harbour(port="Brest", days=2)]<|tool_call_end|>',
        (("find_harbour", {"port": "Brest", "days": 2}),),
    ),
    Sample(
        "Let me look.<|tool_call_start|>[find_harbour(port='Brest'), ring-bell(times=3)]<|tool_call_end|>",
        (("find_harbour", {"port": "Brest"}), ("ring-bell", {"times": 3})),
        "Let me look.",
    ),
    Sample("<|tool_call_start|>[ring-bell()]<|tool_call_end|>", (("ring-bell", {}),)),
)
_XML_JSON = ToolProfile(
    format=ToolFormat.JSON_NATIVE,
    separator=Marker("\n", "", ""),
    call=(Marker("", "<tool_call>", "\n"), Slot.OBJECT, Marker("\n", "</tool_call>", "")),
    object=JsonShape(),
    parallel=True,
)
_XML_JSON_SAMPLES = (
    Sample(
        '<tool_call>\n{"name": "find_harbour", "arguments": {"port": "Brest"}}\n</tool_call>\n'
        '<tool_call>\n{"arguments": {"times": 3}, "name": "ring-bell"}\n</tool_call>',
        (("find_harbour", {"port": "Brest"}), ("ring-bell", {"times": 3})),
    ),
)
_THINK_AND_RESPOND = (
    ReasoningProfile(mode=ReasoningMode.TAGGED, open=Marker("", "<think>", ""), close=Marker("", "</think>", "")),
    ContentProfile(
        mode=ContentMode.WRAPPED_WITH_REASONING,
        open=Marker("", "<response>", ""),
        close=Marker("", "</response>", ""),
    ),
)

FAMILIES: tuple[Family, ...] = (
    Family(
        "lfm2",
        "assistant messages are rendered as their content alone, calls are left out",
        ("<|tool_list_start|>", "<|tool_list_end|>", "<|im_start|>"),
        _PYTHONIC_SAMPLES,
        tools=_PYTHONIC,
    ),
    Family(
        "lfm2.5",
        "assistant messages are rendered as their content alone, calls are left out",
        ("List of tools: [", "<|im_start|>", "keep_past_thinking"),
        _PYTHONIC_SAMPLES,
        tools=_PYTHONIC,
    ),
    Family(
        "granite-3-calls",
        "the system message asks for the form, assistant messages are rendered as their content alone",
        (
            "<|start_of_role|>",
            "<|end_of_role|>",
            "<|tool_call|> followed by a JSON list of tools used",
        ),
        (
            Sample(
                '<|tool_call|>[{"name": "find_harbour", "arguments": {"port": "Brest", "days": 2}}]',
                (("find_harbour", {"port": "Brest", "days": 2}),),
            ),
            Sample(
                '<|tool_call|> [{"name": "find_harbour", "arguments": {"port": "Brest"}}, '
                '{"name": "ring-bell", "arguments": {"times": 3}}]',
                (("find_harbour", {"port": "Brest"}), ("ring-bell", {"times": 3})),
            ),
        ),
        tools=ToolProfile(
            format=ToolFormat.JSON_NATIVE,
            section_open=Marker("", "<|tool_call|>[", ""),
            section_close=Marker("", "]", ""),
            separator=Marker("", ",", " "),
            call=(Slot.OBJECT,),
            object=JsonShape(),
            parallel=True,
            array=True,
        ),
    ),
    Family(
        "granite-3.3-thinking",
        "the system message asks for the tags, the history never writes them",
        (
            "<|start_of_role|>",
            "Write your thoughts between <think></think>",
            "write your response between <response></response>",
        ),
        (
            Sample(
                "<think>Brest is near.</think>\n<response>Go to Brest.</response>",
                content="Go to Brest.",
                reasoning="Brest is near.",
            ),
            Sample("Go to Brest.", content="Go to Brest."),
        ),
        reasoning=_THINK_AND_RESPOND[0],
        content=_THINK_AND_RESPOND[1],
    ),
    Family(
        "think-and-answer",
        "the history holds the answer alone, without the tags that are written around both",
        ("<|startoftext|>", "<|extra_0|>", "<|extra_4|>", "<|eos|>"),
        (
            Sample(
                "<think>\nBrest is near.\n</think>\n<answer>\nGo to Brest.\n</answer>",
                content="Go to Brest.",
                reasoning="Brest is near.",
            ),
            Sample("Go to Brest.", content="Go to Brest."),
        ),
        reasoning=ReasoningProfile(
            mode=ReasoningMode.TAGGED,
            open=Marker("", "<think>", "\n"),
            close=Marker("\n", "</think>", "\n"),
        ),
        content=ContentProfile(
            mode=ContentMode.WRAPPED_WITH_REASONING,
            open=Marker("", "<answer>", "\n"),
            close=Marker("\n", "</answer>", ""),
        ),
    ),
    Family(
        "json-in-tool_call",
        "the system message asks for the form, assistant messages are rendered as their content alone",
        ("<tool_call>", "</tool_call>", "<tools>", "return a json object with function name and arguments"),
        _XML_JSON_SAMPLES,
        tools=_XML_JSON,
    ),
    Family(
        "json-lines-in-tool_calls",
        "the system message asks for the form, assistant messages are rendered as their content alone",
        ("<tool_calls></tool_calls> XML tags", "<beginning_of_sentence>", "<end_of_sentence>"),
        (
            Sample(
                '<tool_calls>\n{"name": "find_harbour", "arguments": {"port": "Brest"}}\n'
                '{"name": "ring-bell", "arguments": {"times": 3}}\n</tool_calls>',
                (("find_harbour", {"port": "Brest"}), ("ring-bell", {"times": 3})),
            ),
        ),
        tools=ToolProfile(
            format=ToolFormat.JSON_NATIVE,
            section_open=Marker("", "<tool_calls>", "\n"),
            section_close=Marker("\n", "</tool_calls>", ""),
            separator=Marker("\n", "", ""),
            call=(Slot.OBJECT,),
            object=JsonShape(),
            parallel=True,
        ),
    ),
    Family(
        "name-and-json-after-role",
        "the name stands in the metadata of a message, which clients do not send",
        ("[gMASK]<sop>", "<|observation|>", "metadata"),
        (
            Sample('find_harbour\n{"port": "Brest", "days": 2}', (("find_harbour", {"port": "Brest", "days": 2}),)),
            Sample("Go to Brest.", content="Go to Brest."),
        ),
        tools=ToolProfile(
            format=ToolFormat.TAG_WITH_JSON, call=(Slot.NAME, Marker("", "", "\n"), Slot.ARGS), parallel=False
        ),
    ),
    Family(
        "keys-and-values-in-tool_call",
        "the system message asks for the form, assistant messages are rendered as their content alone",
        ("<tool_call>function_name", "<arg_key>parameter_name</arg_key>", "<arg_value>parameter_value</arg_value>"),
        (
            Sample(
                "<tool_call>find_harbour\n<arg_key>port</arg_key>\n<arg_value>Brest</arg_value>\n</tool_call>",
                (("find_harbour", {"port": "Brest"}),),
            ),
        ),
        tools=ToolProfile(
            format=ToolFormat.TAG_WITH_TAGGED,
            separator=Marker("\n", "", ""),
            call=(
                Marker("", "<tool_call>", ""),
                Slot.NAME,
                Marker("\n", "", ""),
                Slot.ARGS,
                Marker("", "</tool_call>", ""),
            ),
            argument=(
                Marker("", "<arg_key>", ""),
                Slot.KEY,
                Marker("", "</arg_key>\n<arg_value>", ""),
                Slot.VALUE,
                Marker("", "</arg_value>", "\n"),
            ),
            value_styles=(("string", ValueStyle.RAW),),
            parallel=True,
        ),
    ),
)


def families_of(source: str, profile: Profile) -> tuple[Family, ...]:
    """The entries that say something which this template leaves open."""
    found = [family for family in FAMILIES if all(text in source for text in family.evidence)]
    silent = profile.tools is None and not profile.generic_tools
    unspoken = profile.reasoning.mode is ReasoningMode.NONE
    calls = [family for family in found if family.tools is not None and silent][:1]
    speech = [family for family in found if family.reasoning is not None and unspoken][:1]
    return (*calls, *speech)


def with_family(profile: Profile, family: Family) -> Profile:
    """``profile`` with what the family declares."""
    facts = [name for name in ("tools", "reasoning", "content") if getattr(family, name) is not None]
    evidence = dict(profile.evidence)
    for name in facts:
        evidence[name] = tuple(
            Evidence("family", f"{family.name}: {text!r} in the template") for text in family.evidence
        )
    changed = replace(profile, evidence=evidence, **{name: getattr(family, name) for name in facts})
    if family.content is not None and profile.content.mode is not ContentMode.PLAIN:
        further = (family.content.open, family.content.close)  # around what the history shows
        changed = replace(changed, content=replace(profile.content, further=further))
    return replace(changed, failure=None) if family.tools is not None else changed
