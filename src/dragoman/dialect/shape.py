"""A tool format taken apart: what stands before the name, around the arguments, and at the end of a call."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from dragoman.dialect.markers import SPACES, opening_words, words
from dragoman.template.profile import ContentMode, Marker, Piece, Profile, Slot, ToolFormat, ToolProfile, ValueStyle


@dataclass(frozen=True, slots=True)
class CallShape:
    """The parts of a :class:`ToolProfile` that readers and writers ask for.

    opening: the marker that starts a call (empty: nothing does). head: the pieces from there to the body (OBJECT or
    ARGS), the opening left out. tail: the pieces behind the body. closing: the words that end a call.
    section, section_end: the words around all calls, the brackets of an array left out. bare: no text of the template's
    own tells a call from an answer, so only declared names do.
    """

    opening: Marker
    head: tuple[Piece, ...]
    tail: tuple[Piece, ...]
    closing: tuple[str, ...]
    section: str
    section_end: tuple[str, ...]
    bare: bool


def call_shape(tools: ToolProfile) -> CallShape:
    """Take a tool format apart."""
    pieces = tools.call
    body = next((i for i, piece in enumerate(pieces) if piece in (Slot.OBJECT, Slot.ARGS)), len(pieces))
    if Slot.OBJECT in pieces and pieces[0] is Slot.NAME:
        pieces, body = pieces[1:], body - 1  # the object tells the name too: this one says nothing new
    first = pieces[0] if pieces and isinstance(pieces[0], Marker) else Marker()
    head = pieces[1:body] if first else pieces[:body]
    tail = pieces[body + 1 :]
    last = max((i for i, piece in enumerate(tail) if isinstance(piece, Slot)), default=-1)
    closing = tuple(word for piece in tail[last + 1 :] if isinstance(piece, Marker) for word in end_words(piece.text))
    section = tools.section_open.text
    section_end = end_words(tools.section_close.text)
    if tools.array:
        section = _without_bracket(section)
        if section_end and section_end[0].startswith("]"):
            section_end = tuple(word for word in (section_end[0][1:].lstrip(), *section_end[1:]) if word)
    return CallShape(
        opening=first,
        head=head,
        tail=tail[: last + 1],
        closing=closing,
        section=section,
        section_end=section_end,
        bare=not distinctive(section) and not distinctive(first.text),
    )


def joint(profile: Profile) -> str:
    """The text in front of every block of a turn, answer or call, where calls have no opener of their own; else empty.

    ``>>>all\nHello>>>get_weather\n{...}``: the header ends with it, and it parts two calls.
    """
    tools = profile.tools
    text = "" if tools is None else tools.separator.text
    if tools is None or tools.array or not text or not profile.assistant_header.rstrip().endswith(text):
        return ""
    return text if call_shape(tools).bare else ""


def opening_word(profile: Profile) -> str:
    """The word that opens an answer where it is a word that answers hold, so that its place alone tells it."""
    text = profile.content.open.text
    wrapped = profile.content.mode is ContentMode.WRAPPED
    return text if wrapped and joint(profile) and text.replace("_", "").isalnum() else ""


def literal_values(tools: ToolProfile) -> bool:
    """True: nothing closes a tagged value, so it is a JSON or Python literal that ends by itself."""
    if tools.format is not ToolFormat.TAG_WITH_TAGGED or tools.syntax is not None or tools.nested is not None:
        return False
    return not closes_values(tools)


def quoted_values(tools: ToolProfile) -> str:
    """The quote that a template puts around every value of ``name(key="value")``, whatever its type; else empty.

    Models write such calls as Python has them (``days=2``, ``port='Brest'``); the history shows them what it can.
    """
    if tools.format is not ToolFormat.TAG_WITH_TAGGED or Slot.ARGS not in tools.call or len(tools.argument) != 4:
        return ""
    at = tools.call.index(Slot.ARGS)
    around = (tools.call[at - 1 : at], tools.call[at + 1 : at + 2], tools.argument[1:2], tools.argument[3:])
    texts = [piece.text for part in around for piece in part if isinstance(piece, Marker)]
    if len(texts) != 4 or (tools.argument[0], tools.argument[2]) != (Slot.KEY, Slot.VALUE):
        return ""
    opens, closes, middle, quote = texts
    call = opens.endswith("(") and closes.startswith(")") and middle == f"={quote}"
    return quote if call and quote in ('"', "'") else ""


def closes_values(tools: ToolProfile) -> bool:
    """True: text tells where a tagged value ends: its own closer, or for raw strings what opens the next argument."""
    at = tools.argument.index(Slot.VALUE) if Slot.VALUE in tools.argument else len(tools.argument)
    if any(isinstance(piece, Marker) and piece.text for piece in tools.argument[at + 1 :]):
        return True
    first, last = tools.argument[:1], tools.call[-1:]
    around = [piece.text for piece in (*first, *last) if isinstance(piece, Marker)]
    raw = dict(tools.value_styles).get("string") is ValueStyle.RAW
    return raw and len(around) == 2 and all(map(distinctive, around)) and not around[1].isspace()


def string_word(tools: ToolProfile) -> str | None:
    """The word beside a key that says that the value is a string, and says it of no other type; else None.

    Empty: nothing beside a key says so, as a mark stands beside all others.
    """
    words_of = dict(tools.type_words)
    word = words_of.pop("string", None)
    return word if Slot.TYPE in tools.argument and word not in words_of.values() else None


def type_marks(tools: ToolProfile) -> tuple[str, ...]:
    """What may stand beside a key where that is no word but a mark, or nothing (``json="1"``); empty: it is a word."""
    texts = tuple(dict.fromkeys(word for _, word in tools.type_words))
    return () if all(text.replace("_", "").isalnum() for text in texts) else texts


def distinctive(text: str) -> bool:
    """True: ``text`` is more than brackets, a quote or what tags begin with, so no answer holds it by chance."""
    return text.strip("[](){} \n") not in ("", "<", "</", "<|", '"', "'")


_NAMED_END = re.compile(r"<[^<>\s]+>\w+<[^<>\s]+>")


def end_words(text: str) -> tuple[str, ...]:
    """The words of a closer. A tag with a name right behind it (``<|close|>call<|sep|>``) closes nothing by itself: the
    same tag closes everything else."""
    out: list[str] = []
    for word in words(text):
        joined = out[-1] + word if out and word[0].isalnum() else ""
        if joined and joined in text:
            out[-1] = joined
        else:
            out.append(word)
    return tuple(out)


def end_of_calls(tools: ToolProfile) -> str:
    """The template's text behind the last argument of its last call, where that is two tags or more: it ends a value
    whose own closer is missing. Empty where there is no such text."""
    last = tools.call[-1] if tools.call else None
    if not isinstance(last, Marker) or tools.call[-2:-1] != (Slot.ARGS,) or tools.array:
        return ""
    closed = tools.section_close
    text = last.text + (last.after + closed.written.rstrip() if closed.text else "")
    tags = words(text)
    return text if len(tags) > 1 and all(is_tag(tag) and tag == final_tag(tag) for tag in tags) else ""


def final_tag(text: str) -> str:
    """The tag that ``text`` ends with, ``text`` itself where it ends with none or is a name between two."""
    found = re.search(r"<[^<>\s]+>\Z", text)
    return found[0] if found and not _NAMED_END.fullmatch(text) else text


def is_tag(text: str) -> bool:
    """True: ``text`` is one bracketed marker, closed with the bracket that opens it."""
    return len(text) > 2 and (text[0], text[-1]) in (("<", ">"), ("[", "]")) and " " not in text


def _without_bracket(text: str) -> str:
    """``text`` without its final ``[``, where what is left ends in a mark of punctuation (``functools[`` stays)."""
    core = text[:-1].rstrip() if text.endswith("[") else text
    return text if core and core[-1].isalnum() else core


def openers(tools: ToolProfile) -> tuple[str, ...]:
    """Every text with which a call may begin, the template's own first; none for a bare format."""
    shape = call_shape(tools)
    found = [words(shape.section)[0]] if shape.section else []
    if shape.opening.text:
        found += [way[0] for way in opening_words(shape.opening.text)]
    wired = wire_id(tools)
    if wired is not None:
        found.append(wired.tag)
    return tuple(dict.fromkeys(filter(distinctive, found)))


@dataclass(frozen=True, slots=True)
class WireId:
    """A name that is written with a word in front and a number behind (``functions.NAME:0``), which is the call's id.

    tag: the marker in front. word: the word between tag and name. link: the text between name and number.
    """

    tag: str
    word: str
    link: str


_TAG_AND_WORD = re.compile(r"(.*[>|\]])([A-Za-z_]+[._:/])", re.DOTALL)
_LINK = re.compile(r"[._:/#-]+")


def wire_id(tools: ToolProfile) -> WireId | None:
    """How a call's id is put together from its name; None where it is not."""
    if len(tools.call) < 4 or tools.call[1] is not Slot.NAME or tools.call[3] is not Slot.INDEX:
        return None
    first, link = tools.call[0], tools.call[2]
    if not isinstance(first, Marker) or not isinstance(link, Marker) or not _LINK.fullmatch(link.written):
        return None
    found = _TAG_AND_WORD.fullmatch(first.text)
    return WireId(found[1], found[2], link.text) if found else None


def delimiter_after(pieces: tuple[Piece, ...], at: int) -> Marker:
    """The marker right behind piece ``at``; empty where a slot or nothing follows."""
    following = pieces[at + 1] if at + 1 < len(pieces) else None
    return following if isinstance(following, Marker) else Marker()


def word_end(marker: Marker) -> str:
    """What cannot be in a word in front of ``marker``: its first character, unless white space parts them."""
    return "" if marker.before and marker.text[:1].isalnum() else marker.text[:1]


def name_ends(tools: ToolProfile, shape: CallShape, delimiter: Marker) -> str:
    """The characters that cannot be in a name that is read: white space and whatever begins what follows.

    Where an opener is what every tag begins with, the marks of closing tags and of tokens are none of a name either.
    """
    opened = shape.opening.text
    ends = [piece.text for piece in shape.tail[:1] if isinstance(piece, Marker)] + [*shape.closing, *shape.section_end]
    further = {end[len(opened)] for end in ends if opened and end.startswith(opened) and len(end) > len(opened)}
    further |= {"|"} if opened and not distinctive(opened) else set()  # <|x|> is a token
    closes = "".join(sorted(char for char in further if not char.isalnum()))
    if delimiter.text:
        return SPACES + closes + word_end(delimiter)
    first = tools.argument[0] if tools.argument else None
    after = [first.text if isinstance(first, Marker) else "", *shape.closing[:1]]
    if tools.format is not ToolFormat.TAG_WITH_TAGGED:
        after = ["{", "["]
    return SPACES + "".join(dict.fromkeys(text[0] for text in after if text))


def slots(pieces: tuple[Piece, ...]) -> Iterator[Slot]:
    """The slots among ``pieces``."""
    return (piece for piece in pieces if isinstance(piece, Slot))
