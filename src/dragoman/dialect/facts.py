"""What engines and servers ask of a dialect beside the grammar: stops, triggers, tokens to keep, thinking tags."""

from __future__ import annotations

from collections.abc import Iterable

from dragoman.dialect.channels import joint_texts, messages
from dragoman.dialect.request import DialectRequest, JsonAnswer
from dragoman.dialect.shape import call_shape, delimiter_after, final_tag, is_tag, openers, wire_id
from dragoman.dialect.tolerances import further_stops
from dragoman.grammar.json import json_text
from dragoman.template.profile import Escapes, Marker, Pairs, Profile, ReasoningMode, Slot


def all_stops(profile: Profile) -> tuple[str, ...]:
    """The texts at which a turn ends, white space around them left out; the template's own first."""
    own = [text.strip() for text in profile.end_of_turn if text.strip()]
    return tuple(dict.fromkeys([*own, *further_stops(own)]))


def stops(profile: Profile, request: DialectRequest) -> tuple[str, ...]:
    """The stop texts to give to an engine: those behind which a turn never goes on.

    Where one of the others ends a turn is told by the reader.
    """
    return tuple(text for text in all_stops(profile) if not begun_by(text, profile, request))


def begun_by(stop: str, profile: Profile, request: DialectRequest) -> tuple[str, ...]:
    """How the texts inside a turn go on that begin with this stop, white space in front left out."""
    texts = [*inner_markers(profile, calls=request.reads_calls), *joint_texts(profile)]
    if messages(profile) is not None:
        # Behind the start of a message only one that is the assistant's goes on with the turn.
        closed = profile.reasoning.close
        texts = [text for text in inner_markers(profile, calls=request.reads_calls) if text != closed.text]
        texts += [closed.text + closed.after + part.written for part in (profile.reasoning.open, profile.content.open)]
    return tuple(dict.fromkeys(text[len(stop) :].lstrip() for text in texts if text.startswith(stop)))


def inner_markers(profile: Profile, *, calls: bool = True) -> list[str]:
    """The texts of all markers inside a turn, without or with those of calls."""
    tools, reasoning, content = profile.tools, profile.reasoning, profile.content
    markers = [reasoning.open, reasoning.close, content.open, content.close, *content.further]
    if messages(profile) is not None:
        markers = [reasoning.close, content.close]  # the others are none without what stands before them
    if tools is not None and calls:
        markers += [tools.section_open, tools.section_close, tools.separator]
        markers += [piece for piece in tools.call if isinstance(piece, Marker)]
    return [part.text for part in markers if part.text]


def triggers(profile: Profile, request: DialectRequest) -> tuple[str, ...]:
    """The words at which a lazy grammar starts: everything with which a call may begin.

    None where no call is offered or a call has to be made anyway. A format that begins with the bare JSON object starts
    at the first member of such an object.
    """
    if profile.tools is None or not request.callable_tools or request.choice != "auto":
        return ()
    found = openers(profile.tools)
    if found:
        return found
    shape = profile.tools.object
    if shape is None or call_shape(profile.tools).head:
        lead = call_shape(profile.tools).opening.text
        return tuple(lead + tool.name for tool in request.callable_tools)
    path = shape.order[0] if shape.order else shape.name_path
    if shape.name_is_key:
        return tuple("{" + shape.open_pad + json_text(tool.name) for tool in request.callable_tools)
    return ("{" + shape.open_pad + json_text(path[0]) + shape.colon.rstrip(),)


def thinking_tags(profile: Profile, request: DialectRequest | None = None) -> tuple[str, str] | None:
    """The texts around reasoning; None where the template has none. The opener is empty where only the prompt opens."""
    reasoning = (request and request.reasoning) or profile.reasoning
    if reasoning.mode is ReasoningMode.NONE or not reasoning.close.text:
        return None
    return reasoning.open.text, reasoning.close.text


def preserved_tokens(profile: Profile, controls: Iterable[str]) -> tuple[str, ...]:
    """The control tokens whose text has to show up in an engine's output: those inside any marker of the profile."""
    written = "\n".join(_marker_texts(profile))
    return tuple(sorted(name for name in set(controls) if name and name in written))


def _marker_texts(profile: Profile) -> list[str]:
    texts = [profile.reasoning.open.text, profile.reasoning.close.text, profile.reasoning.empty_block]
    texts += [part.text for part in (profile.content.open, profile.content.close, *profile.content.further)]
    texts += profile.end_of_turn
    tools = profile.tools
    if tools is not None:
        around = (
            tools.section_open,
            tools.section_count,
            tools.section_close,
            tools.separator,
            tools.argument_separator,
        )
        pieces = (*around, *tools.call, *tools.argument)
        texts += [piece.text for piece in pieces if isinstance(piece, Marker)]
    return [text for text in texts if text]


def ids_after_name(profile: Profile) -> bool:
    """True: the model writes a call's id behind its name, so whoever announces the call has to wait for it."""
    tools = profile.tools
    if tools is None:
        return False
    if tools.object is not None:
        order = list(tools.object.order)
        name, id_path = tools.object.name_path, tools.object.id_path
        if id_path is None or not {name, id_path} <= set(order):
            return id_path is not None
        return order.index(id_path) > order.index(name)
    if wire_id(tools) is not None:
        return True
    found = [piece for piece in tools.call if piece in (Slot.NAME, Slot.ID)]
    return found[-1:] == [Slot.ID] and Slot.NAME in found


def call_constants(profile: Profile) -> frozenset[str]:
    """The keys of fixed fields in the object of a call."""
    shape = None if profile.tools is None else profile.tools.object
    return frozenset() if shape is None else frozenset(path[-1] for path, _ in shape.constants)


def value_closer(profile: Profile) -> str:
    """The text behind a tagged value; empty where none is written."""
    pieces = () if profile.tools is None else profile.tools.argument
    return delimiter_after(pieces, pieces.index(Slot.VALUE)).text if Slot.VALUE in pieces else ""


def spellings(profile: Profile) -> dict[str, Pairs]:
    """Region of a call -> the characters that are spelled otherwise in its text."""
    escapes = Escapes() if profile.tools is None else profile.tools.escapes
    found = {"name": escapes.name, "key": escapes.key, "value.string": escapes.value, "value.typed": escapes.value}
    if escapes.json:
        found["value.json"] = escapes.value
    return {region: pairs for region, pairs in found.items() if pairs}


def closer_of_reasoning(profile: Profile, request: DialectRequest) -> str:
    """The tag that closes reasoning, where it is no part of an answer; empty else."""
    tags = thinking_tags(profile, request)
    if tags is None or not request.read_reasoning or isinstance(request.answer, JsonAnswer):
        return ""
    return tags[1] if is_tag(tags[1]) else ""


def openers_of_calls(profile: Profile, request: DialectRequest) -> tuple[str, ...]:
    """What opens a call of this request, where that is no part of an answer."""
    if profile.tools is None or not request.reads_calls or isinstance(request.answer, JsonAnswer):
        return ()
    return openers(profile.tools)


def closer_of_calls(profile: Profile) -> str:
    """The tag that closes a call, or all of them; empty where there is none."""
    if profile.tools is None:
        return ""
    shape = call_shape(profile.tools)
    tags = [final_tag(word) for word in (*shape.closing, *shape.section_end)]
    return next((tag for tag in reversed(tags) if is_tag(tag)), "")
