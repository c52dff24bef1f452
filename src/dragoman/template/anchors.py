"""Where turns begin and end in a template's renderings."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from dragoman.template.atoms import closers, common_prefix, common_suffix, first_marker, openers, tags
from dragoman.template.probe import Prober, Rung, Said, conversation
from dragoman.template.scan import Scan
from dragoman.template.sentinels import FIRST

# Words with which variables say yes and no; one of a pair is enough for a template to ask for.
YES_NO = (
    ("on", "off"),
    ("enabled", "disabled"),
    ("enable", "disable"),
    ("thinking", "chat"),
    ("/think", "/no_think"),
    ("think", "no_think"),
    ("true", "false"),
    ("yes", "no"),
)


@dataclass(frozen=True, slots=True)
class Anchors:
    """The fixed texts around an assistant turn. ``lead`` is all between the user's words and the turn's own text."""

    lead: str
    header: str
    generation_prompt: str
    generations: Mapping[str, str] = field(default_factory=dict)  # "name=value" of a variable -> generation prompt
    text_end: str = ""  # what follows the content of an assistant message
    end_after_last: bool = True  # False: nothing follows a last message, the end was seen before a user message
    user_close: str = ""  # what follows the user's words
    trailer: str = ""  # what is appended to every conversation, after the last turn
    history: bool = True  # False: no assistant message could be rendered

    def body(self, text: str) -> str:
        """The assistant's turn, given all that is written after the user's words."""
        text = text.removesuffix(self.trailer)
        if text.startswith(self.lead):
            return text[len(self.lead) :]
        rest = text.removeprefix(self.user_close).lstrip()
        if self.header.strip() and rest.startswith(self.header.lstrip()):
            return rest[len(self.header.lstrip()) :]
        if tags(self.header) and self.header in text:  # behind an earlier question stands something else
            return text.split(self.header, 1)[1]
        return text[len(common_prefix([self.lead, text])) :]


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
    if closed and closed.strip() and opened and opened.startswith(closed):
        # Behind the last question there may stand what earlier ones lack: only its answers show where a turn starts.
        histories = [text for text in histories if text.startswith(closed)] or histories
    trailer = ""
    if closed and opened and closed.startswith(opened) and plain is not None:
        trailer = _always_opened(prober, plain, opened)
    if trailer and opened:  # the prompt is opened after every conversation, asked or not
        closed = opened.removesuffix(trailer)
    elif closed and opened and histories and not histories[0].startswith(closed) and opened.startswith(closed):
        # Something is appended to every conversation, whoever spoke last; it belongs to no turn.
        own, first = common_prefix([closed, histories[0]]), _first_tag(prober, rung)
        own = own.removesuffix(first) if first else own  # it starts the trailer as it starts every turn
        trailer, opened, closed = closed[len(own) :], own + opened[len(closed) :], own
    if opened is not None and opened != closed and not _headed(histories[-1:], closed, opened):
        # A turn of calls that the history writes without the header that all others have.
        histories = [text for text in histories if _headed([text], closed, opened)] or histories
    samples = histories + ([opened] if opened is not None and opened != closed else [])
    generations = _generations(prober, rung, opened or "", scan)
    lead = _lead(samples, histories, opened, generations)
    user_close = common_prefix([closed, lead]) if closed is not None and samples else ""
    if not lead[len(user_close) :].strip() and opened and opened[len(user_close) :].strip():
        # The history does not write what the generation prompt writes (a line break more, say): go by the history.
        lead = _loose_lead(histories, closed or "", opened)
        user_close = common_prefix([closed, lead]) if closed is not None else ""
    text_end = _after_content(prober, plain) if plain else ""
    return Anchors(
        lead=lead,
        header=lead[len(user_close) :] if histories or not opened else "",
        generation_prompt=opened[len(user_close) :] if opened is not None else "",
        generations={name: text.removeprefix(common_prefix([text, user_close])) for name, text in generations.items()},
        text_end=text_end.removesuffix(trailer),
        user_close=user_close,
        trailer=trailer,
        history=bool(histories),
    )


def _after_content(prober: Prober, rung: Rung) -> str:
    """What follows the words of an answer that is the last message."""
    text = prober.after_user(Said(FIRST.content), rung, tail="none")
    return text[text.rindex(FIRST.content) + len(FIRST.content) :] if text and FIRST.content in text else ""


def _always_opened(prober: Prober, rung: Rung, opened: str) -> str:
    """What stands after a last answer and after a user message alike, from the marker that starts turns on."""
    shared = common_suffix([opened, _after_content(prober, rung)])
    first = _first_tag(prober, rung)
    return shared[shared.rindex(first) :] if first and first in shared else ""


def _first_tag(prober: Prober, rung: Rung) -> str:
    """The tag that a conversation starts with, a beginning-of-sequence token left out; empty: there is none."""
    whole = prober.render(conversation(None, rung, FIRST, "none"), rung) or ""
    begin = whole.removeprefix(getattr(prober.template, "bos_token", "")).lstrip()
    return next((tag for tag in tags(begin)[:1] if begin.startswith(tag)), "")


def _headed(histories: list[str], closed: str | None, opened: str) -> bool:
    """True: each history goes on after the user's turn with what the generation prompt writes there too."""
    close = closed or ""
    start = opened.removeprefix(close).strip()
    return all(common_prefix([start, text.removeprefix(close).strip()]).strip() for text in histories)


def _loose_lead(histories: list[str], closed: str, opened: str) -> str:
    """The lead where history and generation prompt differ: in white space only, or so much that the history counts."""
    header = opened.removeprefix(closed)
    if all(text.removeprefix(closed).lstrip().startswith(header.lstrip()) for text in histories):
        return closed + header.lstrip()
    return _without_reasoning(common_prefix(histories), histories)


def _lead(samples: list[str], histories: list[str], opened: str | None, generations: Mapping[str, str]) -> str:
    """What all assistant turns start with, whatever the switches say; reasoning tags are no part of it."""
    lead = common_prefix(samples) if samples else ""
    for text in generations.values():
        shared = common_prefix([lead, text])
        rest, other = lead[len(shared) :], text[len(shared) :]
        inserted = opened is not None and text.endswith(opened[len(shared) :])
        if rest and tags(shared) and not inserted:
            # Two words behind one tag (<|open|>think, <|open|>response): the tag belongs to the word.
            split = rest[0].isalnum() and other[:1].isalnum() and shared.endswith(tags(shared)[-1])
            lead = shared[: shared.rindex(tags(shared)[-1])] if split else shared
    return _without_reasoning(lead, histories)


def _histories(prober: Prober, plain: Rung | None, calls: Rung | None) -> list[str]:
    out = []
    if plain is not None:
        for words in (FIRST.content, "1 " + FIRST.content):
            out += [prober.after_user(Said(words), plain, tail=tail) for tail in ("none", "user")]
    if calls is not None:
        out.append(prober.after_user(Said(calls=FIRST.calls[:1]), calls))
    return [text for text in out if text is not None]


def _without_reasoning(lead: str, histories: list[str]) -> str:
    """``lead`` cut before a tag that opens or closes an empty reasoning block: that is not the header.

    An opener is one that is closed before the answer's words; a closer is one whose opener stands before it, or
    that no opener needs to stand before (``</think>`` alone says: no reasoning).
    """
    found = tags(lead)
    if not found or not lead.rstrip().endswith(found[-1]):
        return lead
    at = lead.rindex(found[-1])
    begins = openers(found[-1])
    for begin in begins:
        if lead[:at].rstrip().endswith(begin):
            return lead[: lead.rindex(begin, 0, at)]
    if begins and found[-1].startswith(("</", "[/", "<|/")) and not any(begin in lead for begin in begins):
        return lead[:at]
    for text in histories:
        before = text[len(lead) :].split(FIRST.content)[0].split(FIRST.calls[0].name)[0]
        if any(closer in before for closer in closers(found[-1])):
            return lead[:at]
    return lead


def _generations(prober: Prober, rung: Rung, opened: str, scan: Scan) -> dict[str, str]:
    """What follows the user's words under each setting of each variable that the template reads from outside."""
    out: dict[str, str] = {}
    for name, texts in scan.variables.items():
        # A template may ask for one word of a pair only: anything else is the other.
        paired = [word for pair in YES_NO if set(pair) & set(texts) for word in pair]
        for value in dict.fromkeys((True, False, *texts[:4], *paired)):
            text = prober.after_user(None, replace(rung, variables=((name, value),)), generation=True)
            if text is not None and text != opened:
                out[f"{name}={value}"] = text
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
    system = _system_start(prober, rung, user)
    if system:
        out["system"] = system
    tool = _tool_start(prober, calls, anchors) if calls else ""
    for word in (FIRST.calls[0].name, FIRST.calls[0].id):
        tool = tool.split(word, 1)[0]
    if tool:
        out["tool"] = tool
    return out


def _user_start(prober: Prober, rung: Rung, anchors: Anchors) -> str:
    """What stands before both a first user message and one that follows an answer, the answer's end left out."""
    for way in (replace(rung, tools=False), rung):
        follow = prober.after_user(Said(FIRST.content), way, tail="user")
        first = prober.render(conversation(None, way, FIRST, "none"), way)
        if follow and first and FIRST.content in follow and FIRST.follow_up in follow:
            break
    else:
        return ""
    between = follow[follow.index(FIRST.content) + len(FIRST.content) : follow.rindex(FIRST.follow_up)]
    shared = common_suffix([first[: first.rfind(FIRST.user)], between])
    end = anchors.text_end
    if end and between.startswith(end):
        # White space behind every answer is no end: what follows it may be one, and is no part of the user's turn.
        after = between[len(end) :] if end.strip() else shared.removeprefix(end)
        return after if after.strip() else shared
    close = anchors.user_close
    return shared[len(close) :] if close.strip() and shared.startswith(close) else shared


def _system_start(prober: Prober, rung: Rung, user_start: str) -> str:
    bare = replace(rung, system=True, tools=False, typed=rung.typed)
    text = prober.render(conversation(None, bare, FIRST, "none"), bare)
    if text is None or FIRST.system not in text:
        return ""
    start = text[: text.index(FIRST.system)]
    bos = getattr(prober.template, "bos_token", "")
    start = start[len(bos) :] if bos and start.startswith(bos) else start
    heads = [starts for starts in tags(user_start)[:1] if starts in start]
    return start[start.rindex(heads[0]) :] if heads else start


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


def closing(prober: Prober, rung: Rung, user_start: str) -> str:
    """What ends an answer that a user message follows; templates may leave it away after a last message."""
    # Without tools where that renders: templates that list them before the last message would show the list here.
    follow = None
    for tools in dict.fromkeys((False, rung.tools)):
        follow = follow or prober.after_user(Said(FIRST.content), replace(rung, tools=tools), tail="user")
    if follow is None or FIRST.content not in follow or FIRST.follow_up not in follow:
        return ""
    between = follow[follow.index(FIRST.content) + len(FIRST.content) : follow.rindex(FIRST.follow_up)]
    if not user_start or not between.endswith(user_start):
        return ""
    # Digits in front of what all user turns start with differ from turn to turn: they count ("[Round 1]").
    return between.removesuffix(user_start).rstrip("0123456789")


def end_of_turn(end: str, starts: Mapping[str, str], eos: str, inner: tuple[str, ...] = ()) -> tuple[str, ...]:
    """Texts that end a turn, the one that the template writes first.

    end: what follows an answer. inner: the markers inside a turn, with whose words alone a turn does not end.
    """
    stops = [first_marker(end)] if end.strip() else []
    found = tags(end)
    if stops and len(found) > 1 and any(stops[0] in text for text in inner):
        at = end.rindex(found[-1])
        stops = [stop for stop in (end[:at].strip(), found[-1]) if not any(stop in text for text in inner)]
    if eos and eos not in stops:
        stops.append(eos)
    if not end.strip():
        # Nothing ends a turn but the next one: its first marker is where a model stops.
        stops += [tag for role in ("user", "tool") if (tag := _leading_tag(starts.get(role, "")))]
    return tuple(dict.fromkeys(stop for stop in stops if stop))


def _leading_tag(text: str) -> str:
    found = tags(text)
    return found[0] if found and text.strip().startswith(found[0]) else ""
