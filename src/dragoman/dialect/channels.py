"""Turns made of several blocks, each with a header of its own: who speaks, on which channel, to whom.

What the blocks of a format have in common is taken from the headers that the template shows for reasoning, answers and
calls; models put the same words together otherwise than the history does (recipient before or behind the channel, a
word for the form of the text, a channel that the history leaves out). A header is read to its last marker whatever
words it holds; the recipient makes a call of it, the channel reasoning, all else an answer.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from dragoman.dialect.markers import GAP, SPACES, TEXT, marker, other_than, run_of
from dragoman.grammar.nodes import EMPTY, Commit, Negate, Node, Ref, Repeat, alt, chars, complement, lit, opt, seq
from dragoman.template.profile import ContentMode, Marker, Piece, Profile, Slot, ToolFormat, ToolProfile

_TAG = re.compile(r"<[^<>\s]+>|\[[^\[\]\s]+\]")
_RECIPIENT = re.compile(r"(\w+=)((?:\w+\.)*)\Z")
_CHANNEL_WORD = re.compile(r"\w+")
# Tags inside a header that say in which form its text is.
_FORM_TAGS = ("<|constrain|>",)

# Recipients that are no tools.
SPEAKERS = ("assistant", "user", "self", "system")


@dataclass(frozen=True, slots=True)
class Channels:
    """What separates the blocks of a turn.

    header: what each further block of the same speaker starts with. end: what ends the block before it. message: the
    marker that ends a header; channel: the one in front of a channel's word; recipient: what stands before the word
    for whom the text is, ``namespace`` before that of a tool. Empty: the format has none.
    """

    header: str
    end: str
    message: str = ""
    channel: str = ""
    recipient: str = ""
    namespace: str = ""
    thinking: str = ""  # the word of the reasoning channel
    calling: str = ""  # the word of the channel that the template writes calls on


def channels(profile: Profile) -> Channels | None:
    """The blocks of a format; None where a turn is one message."""
    header, tools = profile.assistant_header.strip(), profile.tools
    joints = [profile.reasoning.close.text, *([tools.separator.text] if tools is not None else [])]
    joint = next((text for text in joints if header and _TAG.search(header) and text.endswith(header)), "")
    end = joint[: len(joint) - len(header)].strip()
    if not _TAG.fullmatch(end):
        return None
    plain = Channels(header, end)
    thinking, answer = profile.reasoning.open.text, profile.content.open.text
    marks, others = _TAG.findall(thinking), _TAG.findall(answer)
    if not marks or not others or marks[-1] != others[-1] or not thinking.endswith(marks[-1]):
        return plain
    message = marks[-1]
    channel = marks[0] if marks[0] == others[0] != message and thinking.startswith(marks[0]) else ""
    word = _CHANNEL_WORD.match(thinking.removeprefix(channel).lstrip()) if channel else None
    recipient, namespace, calling = "", "", ""
    if tools is not None and tools.call and isinstance(tools.call[0], Marker):
        found = _RECIPIENT.search(tools.call[0].text)
        recipient, namespace = found.groups() if found else ("", "")
        behind = tools.call[2].text if len(tools.call) > 2 and isinstance(tools.call[2], Marker) else ""
        said = _CHANNEL_WORD.match(behind.removeprefix(channel).lstrip()) if channel and channel in behind else None
        calling = said.group() if said else ""
    return Channels(header, end, message, channel, recipient, namespace, word.group() if word else "", calling)


@dataclass(frozen=True, slots=True)
class Messages:
    """A turn of several messages: each starts as the turn does, and what stands behind that start says what it is.

    header: what each message starts with. end: what ends the one before it; empty: nothing but white space does.
    """

    header: str
    end: str


def messages(profile: Profile) -> Messages | None:
    """Reasoning and answer as messages of their own; None: they are parts of one, or tags of their own tell them.

    Their openers are openers behind such a header only: elsewhere ``reply>`` or ``Answer:`` is text, and a tag that
    ends every header (``model think<|m|>``, ``model<|m|>``) opens no answer by itself.
    """
    header, closed = profile.assistant_header.strip(), profile.reasoning.close.text
    opened = profile.reasoning.open.text and profile.content.open.text
    if not header or not opened or not closed.endswith(header) or profile.content.mode is not ContentMode.WRAPPED:
        return None
    thinking, answer = profile.reasoning.open.text, profile.content.open.text
    marked = _TAG.search(thinking) and _TAG.search(answer) and not thinking.endswith(answer)
    if marked:  # tokens of their own tell them wherever they stand
        return None
    return Messages(header, closed[: len(closed) - len(header)].strip())


def joint_texts(profile: Profile) -> tuple[str, ...]:
    """The texts between blocks, the longest first; none of them is ever part of an answer."""
    found = channels(profile)
    return () if found is None else (found.end + found.header, found.header, found.end)


def inner_tags(profile: Profile) -> tuple[str, ...]:
    """The texts that no answer holds, as they begin or end blocks and headers."""
    found = channels(profile)
    return () if found is None else tuple(filter(None, (found.header, found.end, found.message, found.channel)))


def bare_headers(profile: Profile) -> tuple[str, ...]:
    """The end of a header without words in front, with which a turn may begin too."""
    found = channels(profile)
    return (found.message,) if found is not None and found.message else ()


def header_tags(profile: Profile) -> tuple[str, ...]:
    """The tags that may stand in the middle of a header."""
    found = channels(profile)
    return () if found is None or not found.message else (*filter(None, [found.channel]), *_FORM_TAGS)


def tool_namespace(profile: Profile) -> str:
    """What stands in front of a tool's name where it is a recipient; empty where nothing does."""
    found = channels(profile)
    return "" if found is None else found.namespace


def call_forms(profile: Profile) -> tuple[ToolProfile, ...]:
    """Further ways to write a call's header: the recipient in either place, with or without its namespace."""
    found, tools = channels(profile), profile.tools
    if found is None or tools is None or not found.recipient or not found.channel:
        return ()
    if tools.format is not ToolFormat.TAG_WITH_JSON:
        return ()
    words = dict.fromkeys(word for word in (found.calling, found.thinking) if word)
    places = ["", *(found.channel + word + " " for word in words)]
    return tuple(
        ToolProfile(
            format=ToolFormat.TAG_WITH_JSON,
            call=_call(place + found.recipient + space, found.message),
            parallel=True,
        )
        for space in dict.fromkeys((found.namespace, ""))
        for place in places
    )


def call_header_pattern(profile: Profile) -> str:
    """All headers of a block for a tool as one regular expression, with the group ``name``; empty: nobody is named in
    a header. The recipient stands before or behind the channel, a word for the form of the text may follow."""
    found = channels(profile)
    if found is None or not call_forms(profile):
        return ""
    channel, message = re.escape(found.channel), re.escape(found.message)
    forms = "|".join(map(re.escape, _FORM_TAGS))
    name = rf"{re.escape(found.recipient)}(?:{re.escape(found.namespace)})?(?P<name>[^\s<]+)"
    return rf"(?:{channel}\w+)?\s*{name}(?:\s*{channel}\w+)?(?:\s*(?:{forms})?\s*\w+)?\s*{message}"


def _call(opening: str, message: str) -> tuple[Piece, ...]:
    return (Marker(" ", opening, ""), Slot.NAME, Slot.HEADER, Marker("", message, ""), Slot.ARGS)


def header_text(tags: tuple[str, ...], controls: frozenset[str], recipient: str = "") -> Node:
    """The words of a header and the tags between them. recipient: what stands before a tool's name, which is none of
    them; before a speaker it is."""
    word: Node = complement(chars("<\n").ranges)
    ways: list[Node] = [word]
    if recipient:
        ends = Negate(complement(chars(SPACES + "<").ranges))
        ways = [seq(Negate(lit(recipient)), word), seq(lit(recipient), alt(*map(lit, SPEAKERS)), ends)]
    return Repeat(alt(*ways, *(marker(tag, controls) for tag in tags)))


def text_headers(profile: Profile, controls: frozenset[str], *, reasoning: bool, calls: bool) -> list[Node]:
    """Headers of blocks that are an answer, whatever their channel, and what stands between two blocks: all dropped.

    reasoning: a header of reasoning may stand behind one that another header follows at once. calls: blocks for a tool
    are read as calls; else they are dropped, as they are meant for nobody here.
    """
    found = channels(profile)
    if found is None or messages(profile) is not None:
        return []
    body = Ref("body")
    ways: list[Node] = []
    if not calls and found.recipient:
        ways += _unasked(found, profile, controls)
    if found.channel:
        channel, message = marker(found.channel, controls), marker(found.message, controls)
        idle = seq(GAP, channel, run_of("<\n"))
        if reasoning:
            opened = marker(profile.reasoning.open.text, controls)
            ways.append(seq(idle, opened, Commit("body"), Ref("reasoning")))
        word = seq(GAP, other_than([found.thinking], SPACES + "<", _behind_words(found), controls))
        said = header_text(_FORM_TAGS, controls, found.recipient if calls else "")
        answer = seq(channel, word, opt(said), message, Commit("body"), body)
        ways += [seq(GAP, answer), seq(idle, answer)]
    ways += [seq(GAP, marker(text, controls), Commit("body"), body) for text in joint_texts(profile)]
    return ways


def _behind_words(found: Channels) -> tuple[str, ...]:
    """The tags that may follow a word of a header."""
    return tuple(filter(None, (found.message, found.channel, *_FORM_TAGS)))


def _unasked(found: Channels, profile: Profile, controls: frozenset[str]) -> list[Node]:
    """Whole blocks for a tool, though no tool was offered."""
    if not found.channel:
        return []
    channel, message = marker(found.channel, controls), marker(found.message, controls)
    tags = header_text(header_tags(profile), controls)
    place = alt(seq(channel, run_of("< \n"), GAP), GAP)
    name = other_than(SPEAKERS, SPACES + "<", _behind_words(found), controls)
    rest = [marker(found.end + found.header, controls), *(marker(stop, controls) for stop in profile.end_of_turn)]
    end = alt(seq(rest[0], Commit("body"), Ref("body")), *(seq(stop, Commit("body")) for stop in rest[1:]), EMPTY)
    return [seq(place, lit(found.recipient), name, opt(tags), message, Commit("body"), TEXT, end)]
