"""Where turns begin and end in a template's renderings."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from dragoman.template.atoms import closers, common_prefix, common_suffix, first_marker, tags
from dragoman.template.probe import Prober, Rung, Said, conversation
from dragoman.template.scan import Scan
from dragoman.template.sentinels import FIRST, Sentinels


@dataclass(frozen=True, slots=True)
class Anchors:
    """The fixed texts around an assistant turn. ``lead`` is all between the user's words and the turn's own text."""

    lead: str
    header: str
    generation_prompt: str
    generations: Mapping[str, str] = field(default_factory=dict)  # "name=value" of a variable -> generation prompt
    text_end: str = ""  # what follows the content of a last assistant message
    history: bool = True  # False: no assistant message could be rendered

    def body(self, text: str) -> str:
        """The assistant's turn, given all that is written after the user's words."""
        return text[len(self.lead) :] if text.startswith(self.lead) else text[len(common_prefix([self.lead, text])) :]


def plain_rung(prober: Prober, wanted: Rung) -> Rung | None:
    """``wanted``, or the nearest way with which a template renders an answer in text."""
    shapes = [(wanted.system, wanted.typed)]
    shapes += [(system, typed) for typed in (False, True) for system in (False, True)]
    for tools in dict.fromkeys((wanted.tools, False, True)):
        for system, typed in dict.fromkeys(shapes):
            rung = replace(wanted, system=system, typed=typed, tools=tools)
            text = prober.after_user(Said(FIRST.content), rung, tail="none")
            if text is not None and FIRST.content in text:
                return rung
    return None


def find_anchors(prober: Prober, plain: Rung | None, calls: Rung | None, scan: Scan) -> Anchors:
    """The borders of an assistant turn, from what all its renderings have in common with the generation prompt."""
    rung = plain or calls or Rung(tools=False)
    closed = prober.after_user(None, rung)
    opened = prober.after_user(None, rung, generation=True)
    histories = list(_histories(prober, plain, calls))
    samples = histories + ([opened] if opened is not None and opened != closed else [])
    lead = common_prefix(samples) if samples else ""
    lead = _without_reasoning(lead, histories)
    user_close = common_prefix([closed, lead]) if closed is not None and samples else ""
    last = prober.after_user(Said(FIRST.content), plain, tail="none") if plain else None
    return Anchors(
        lead=lead,
        header=lead[len(user_close) :] if histories or not opened else "",
        generation_prompt=opened[len(user_close) :] if opened is not None else "",
        generations=_generations(prober, rung, user_close, scan),
        text_end=last[last.rindex(FIRST.content) + len(FIRST.content) :] if last and FIRST.content in last else "",
        history=bool(histories),
    )


def _histories(prober: Prober, plain: Rung | None, calls: Rung | None) -> list[str]:
    out = []
    if plain is not None:
        for words in (FIRST.content, "1 " + FIRST.content):
            out += [prober.after_user(Said(words), plain, tail=tail) for tail in ("none", "user")]
    if calls is not None:
        out.append(prober.after_user(Said(calls=FIRST.calls[:1]), calls))
    return [text for text in out if text is not None]


def _without_reasoning(lead: str, histories: list[str]) -> str:
    """``lead`` cut before a tag that is closed before the answer's words: an empty reasoning block, not the header."""
    found = tags(lead)
    if not found or not lead.rstrip().endswith(found[-1]):
        return lead
    for text in histories:
        before = text[len(lead) :].split(FIRST.content)[0].split(FIRST.calls[0].name)[0]
        if any(closer in before for closer in closers(found[-1])):
            return lead[: lead.rindex(found[-1])]
    return lead


def _generations(prober: Prober, rung: Rung, user_close: str, scan: Scan) -> dict[str, str]:
    """Generation prompts under each setting of each variable that the template reads from outside."""
    out: dict[str, str] = {}
    for name, texts in scan.variables.items():
        for value in (True, False, *texts[:4]):
            text = prober.after_user(None, replace(rung, variables=((name, value),)), generation=True)
            if text is not None:
                shared = len(common_prefix([text, user_close]))
                out[f"{name}={value}"] = text[shared:]
    return out


def role_starts(prober: Prober, rung: Rung, anchors: Anchors, calls: Rung | None) -> dict[str, str]:
    """role -> what starts a turn of that role, as far as renderings show it."""
    out: dict[str, str] = {}
    if anchors.header:
        out["assistant"] = anchors.header
    elif anchors.generation_prompt:
        out["assistant"] = anchors.generation_prompt
    user = _user_start(prober, rung, anchors)
    if user:
        out["user"] = user
    system = _system_start(prober, rung)
    if system:
        out["system"] = system
    tool = _tool_start(prober, calls, anchors) if calls else ""
    if tool:
        out["tool"] = tool
    return out


def _user_start(prober: Prober, rung: Rung, anchors: Anchors) -> str:
    """What stands before both a first user message and one that follows an answer, the answer's end left out."""
    bare = replace(rung, tools=False)
    follow = prober.after_user(Said(FIRST.content), rung, tail="user")
    first = prober.render(conversation(None, bare, FIRST, "none"), bare) or prober.render(
        conversation(None, rung, FIRST, "none"), rung
    )
    if follow is None or first is None or FIRST.content not in follow or FIRST.follow_up not in follow:
        return ""
    between = follow[follow.index(FIRST.content) + len(FIRST.content) : follow.rindex(FIRST.follow_up)]
    shared = common_suffix([first[: first.rfind(FIRST.user)], between])
    if anchors.text_end and between.startswith(anchors.text_end):
        after = between[len(anchors.text_end) :]
        return after if after.strip() else shared
    return shared


def _system_start(prober: Prober, rung: Rung) -> str:
    bare = replace(rung, system=True, tools=False, typed=rung.typed)
    text = prober.render(conversation(None, bare, FIRST, "none"), bare)
    if text is None or FIRST.system not in text:
        return ""
    start = text[: text.index(FIRST.system)]
    bos = getattr(prober.template, "bos_token", "")
    return start[len(bos) :] if bos and start.startswith(bos) else start


def _tool_start(prober: Prober, calls: Rung, anchors: Anchors) -> str:
    said = Said(calls=FIRST.calls[:1])
    with_result = prober.after_user(said, calls, tail="result")
    without = prober.after_user(said, calls, tail="none")
    if with_result is None or FIRST.result not in with_result:
        return ""
    before = with_result[: with_result.rindex(FIRST.result)]
    if without is not None and before.startswith(without):
        return before[len(without) :]
    at = before.rfind(anchors.text_end) if anchors.text_end else -1
    return before[at + len(anchors.text_end) :] if at >= 0 else ""


def end_of_turn(prober: Prober, rung: Rung | None, end: str, starts: Mapping[str, str], eos: str) -> tuple[str, ...]:
    """Texts that end a turn, the one that the template writes first. ``end``: what follows a last message."""
    stops = [first_marker(end)] if end.strip() else []
    if not stops and rung is not None:
        follow = prober.after_user(Said(FIRST.content), rung, tail="user")
        if follow is not None and FIRST.content in follow and FIRST.follow_up in follow:
            between = follow[follow.index(FIRST.content) + len(FIRST.content) : follow.rindex(FIRST.follow_up)]
            user = starts.get("user", "")
            closing = between[: len(between) - len(user)] if user and between.endswith(user) else ""
            if closing.strip():
                stops.append(first_marker(closing))
    if eos and eos not in stops:
        stops.append(eos)
    if not stops:
        # Nothing ends a turn but the next one: its first marker is where a model stops.
        stops += [tag for role in ("user", "tool") if (tag := _leading_tag(starts.get(role, "")))]
    return tuple(dict.fromkeys(stop for stop in stops if stop))


def _leading_tag(text: str) -> str:
    found = tags(text)
    return found[0] if found and text.strip().startswith(found[0]) else ""


def words_after(words: Sentinels, text: str) -> str:
    """What follows the content's words in ``text``."""
    return text[text.rindex(words.content) + len(words.content) :]
