"""From a template to its profile: by reading its text, rendering it and comparing what comes out. No model names."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace

from dragoman.limits import DEFAULT, Limits
from dragoman.template.anchors import Anchors, closing, end_of_turn, find_anchors, plain_rung, role_starts
from dragoman.template.calls import CallLearner, Learned
from dragoman.template.ladder import Climb, climb
from dragoman.template.probe import Prober, Renderable, Rung, conversation
from dragoman.template.profile import ContentMode, Evidence, Profile, ReasoningMode, Slot, ToolProfile, ValueStyle
from dragoman.template.reasoning import ReasoningLearner, Spoken
from dragoman.template.scan import Scan, scan
from dragoman.template.sentinels import FIRST
from dragoman.template.written import NotLearned

_UNDEFINED = re.compile(r"'(\w+)' is undefined")

_EXPECTED_VARIABLES = 4


@dataclass(frozen=True, slots=True)
class _Tools:
    learned: Learned | None
    failure: str | None
    generic: bool


def learn(template: Renderable, *, limits: Limits = DEFAULT) -> Profile:
    """The profile of ``template``. Pure: nothing but renderings of the template decides.

    A template that cannot be parsed raises TemplateError; one that refuses every probe gives a profile that says so.
    """
    facts = scan(template.source)
    prober = Prober(template, limits)
    climbed = _climb(prober, facts) if "tool_calls" in facts.keys else Climb(None, failure=_silence(facts))
    wanted = climbed.rung or Rung(tools="tools" in facts.names)
    plain = plain_rung(prober, wanted)
    anchors = find_anchors(prober, plain, climbed.rung, facts)
    starts = role_starts(prober, plain or wanted, anchors, climbed.rung)
    if plain is not None and not anchors.text_end.strip():
        end = closing(prober, plain, starts.get("user", ""))
        anchors = replace(anchors, text_end=end, end_after_last=False)
    spoken = ReasoningLearner(prober, plain, climbed.rung, anchors, facts).learn()
    end = anchors.text_end[len(spoken.content.close.written) :] if spoken.content.close else anchors.text_end
    beyond = replace(anchors, text_end=end) if end.strip() else anchors
    tools = _learn_tools(prober, climbed, plain, beyond, spoken, facts, starts.get("tool", ""))
    inner = (spoken.reasoning.open, spoken.reasoning.close, spoken.content.open, spoken.content.close)
    stops = end_of_turn(end, starts, template.eos_token, tuple(part.text for part in inner))
    learned = tools.learned
    if learned is not None and learned.call_end and learned.call_end not in stops:
        stops = (*stops, learned.call_end)
    profile = Profile(
        generation_prompt=anchors.generation_prompt,
        assistant_header=anchors.header,
        reasoning=spoken.reasoning,
        content=replace(learned.content, kept_with_calls=learned.kept_with_calls) if learned else spoken.content,
        tools=learned.tools if learned else None,
        generic_tools=tools.generic,
        end_of_turn=stops,
        role_starts=starts,
        trailer=anchors.trailer,
        thinking_switches=spoken.switches,
        thinking_words=dict(spoken.words),
        baseline=(climbed.rung or plain or wanted).to_dict(),
        literals=facts.literals,
        failure=tools.failure,
    )
    return replace(profile, losses=_losses(profile), evidence=_evidence(profile, climbed, spoken, tools, prober))


def _climb(prober: Prober, facts: Scan) -> Climb:
    """The ladder; where all is refused for want of a variable that the template expects, again with it empty."""
    first = climbed = climb(prober)
    given: dict[str, str] = {}
    for _ in range(_EXPECTED_VARIABLES):
        missing = _UNDEFINED.search(climbed.failure or "")
        if missing is None or missing.group(1) not in facts.variables:
            break
        given[missing.group(1)] = ""
        climbed = climb(prober, variables=tuple(given.items()))
    return climbed if climbed.rung is not None else first


def _silence(facts: Scan) -> str:
    """Why a template that never reads tool calls writes none."""
    return "nothing renders" if "tools" in facts.names else "knows no tools"


def _refused_tools(prober: Prober, rung: Rung | None) -> str | None:
    """Why a template that renders a user's message does not with tools; None: it does, or what is refused is not tools.

    Such a template has no place for tools though it speaks of them, so they are told in a message.
    """
    if rung is None:
        return None
    given, kept = (replace(rung, tools=tools) for tools in (True, False))
    asked = conversation(None, rung, FIRST, "none")
    if prober.render(asked, given) is not None or prober.render(asked, kept) is None:
        return None
    # A template may spell out the types of parameters and stumble over one of them: tools it has a place for.
    return prober.refusal_of_any_tool(asked, dict(rung.variables))


def _learn_tools(
    prober: Prober,
    climbed: Climb,
    plain: Rung | None,
    anchors: Anchors,
    spoken: Spoken,
    facts: Scan,
    tool_start: str,
) -> _Tools:
    refused = _refused_tools(prober, climbed.rung or plain)
    if refused is not None:
        return _Tools(None, f"refuses tools: {refused}", True)
    if climbed.rung is None:
        # Nothing was refused but no call was written: the generic dialect can be used as with no tools at all.
        silent = climbed.failure in ("knows no tools", "nothing renders")
        failure = climbed.failure if "tools" in facts.names or not silent else "knows no tools"
        return _Tools(None, failure, failure == "knows no tools")
    if climbed.flaw is not None:
        return _Tools(None, climbed.flaw, False)
    try:
        learner = CallLearner(prober, climbed.rung, anchors, spoken.empty_block, tool_start, spoken.content)
        return _Tools(learner.learn(), None, False)
    except NotLearned as error:
        return _Tools(None, str(error), False)


def _losses(profile: Profile) -> frozenset[str]:
    """What the template's own history drops or changes, whoever reads it."""
    out = set()
    if profile.content.trimmed:
        out.add("trim")
    tools, reasoning = profile.tools, profile.reasoning
    if tools is not None:
        if not profile.content.kept_with_calls:
            out.add("content_beside_calls")
        if not tools.ids_in_history:
            out.add("call_ids")
        if not tools.parallel:
            out.add("parallel_calls")
        styles = dict(tools.value_styles)
        if ValueStyle.PYTHON in styles.values():
            out.add("repr")
        if styles and styles.get("null") in (None, ValueStyle.UNKNOWN):
            out.add("null")
    if reasoning.mode is not ReasoningMode.NONE:
        if not reasoning.rendered_old:
            out.add("old_reasoning")
        if not (reasoning.rendered_last or reasoning.rendered_old or reasoning.rendered_with_calls):
            out.add("reasoning")
    return frozenset(out)


def _evidence(
    profile: Profile, climbed: Climb, spoken: Spoken, tools: _Tools, prober: Prober
) -> dict[str, tuple[Evidence, ...]]:
    """Why each fact is believed."""
    out = {
        "generation_prompt": [Evidence("probe", "a user message, with and without a generation prompt")],
        "assistant_header": [Evidence("probe", "what all assistant turns and the generation prompt have in common")],
        "end_of_turn": [Evidence("probe", "what follows the words of an answer")],
        "role_starts": [Evidence("probe", "what stands before the words of each role")],
        "reasoning": [Evidence("scan" if profile.reasoning.inline else "probe", spoken.why)],
        "content": [Evidence("probe", "what stands around the words of an answer, alone and beside reasoning")],
        "baseline": [Evidence("probe", f"rung {climbed.tried} of the ladder; {prober.count} renderings in all")],
    }
    if profile.content.mode is not ContentMode.PLAIN:
        which = "an answer beside calls" if profile.content.mode is ContentMode.WRAPPED_WITH_CALLS else "every answer"
        out["content.mode"] = [Evidence("probe", f"{which} stands after {profile.content.open.written!r}")]
    if profile.thinking_switches:
        names = ", ".join(profile.thinking_switches)
        out["thinking_switches"] = [Evidence("probe", f"the prompt or the history changes with {names}")]
    if profile.tools is not None:
        out.update(_tool_evidence(profile.tools, tools.learned))
    elif profile.failure is not None:
        out["tools"] = [Evidence("scan" if profile.failure == "knows no tools" else "probe", profile.failure)]
    return {name: tuple(items) for name, items in out.items()}


def _tool_evidence(tools: ToolProfile, learned: Learned | None) -> dict[str, list[Evidence]]:
    second = "one call with two disjoint sets of words"
    pair = "one call and two calls" if learned and learned.two_calls else "one call; two are refused or not written"
    out = {
        "tools.format": [Evidence("probe", "where name and arguments stand in a rendered call")],
        "tools.call": [Evidence("probe", pair), Evidence("probe", second)],
        "tools.section_open": [Evidence("probe", pair)],
        "tools.parallel": [Evidence("probe", pair)],
        "tools.ids_in_history": [Evidence("probe", "the id was " + ("found" if tools.ids_in_history else "not found"))],
        "tools.needs_object_arguments": [Evidence("probe", "arguments as an object and as text")],
    }
    if tools.object is not None:
        out["tools.object"] = [Evidence("probe", "the JSON object that holds name and arguments")]
    if Slot.INDEX in tools.call:
        out["tools.call"].append(Evidence("probe", "a number counts from call to call"))
    if tools.argument:
        out["tools.argument"] = [Evidence("probe", "calls with no, one and two arguments")]
        out["tools.value_styles"] = [Evidence("probe", "one argument of each JSON type")]
    if tools.escapes:
        out["tools.escapes"] = [Evidence("probe", "a call whose name, key and value hold & \" < > and '")]
    if tools.id_length is not None:
        out["tools.id_length"] = [Evidence("probe", "a longer id is refused or cut")]
    return out
