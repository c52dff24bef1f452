"""A learned format as transformers' ``response_template``: a declarative parser for engines that know no more.

What that notation says: regions between an opening and a closing pattern, each read by one parser. So it follows the
template's own form of a call only, delivers a call when it is complete, and takes types from the request's tools.

Rules of this file: a region is found by patterns, not by what is in it, so a template is made only where a mark of the
format's own begins each call and a mark or the next call ends it, outside of all values. All else is refused.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any, TypeAlias

from dragoman.dialect.channels import call_header_pattern, messages
from dragoman.dialect.facts import all_stops
from dragoman.dialect.shape import call_shape, distinctive, joint, name_ends, type_marks
from dragoman.dialect.tolerances import CDATA, wraps_values
from dragoman.errors import UsageError
from dragoman.template.profile import (
    ContentMode,
    JsonShape,
    Marker,
    Piece,
    Profile,
    ReasoningMode,
    Slot,
    ToolFormat,
    ToolProfile,
    ValueStyle,
)

Field: TypeAlias = dict[str, Any]
# The parsers' names for reasoning; engines read these two.
_REASONING = ("reasoning_content", "thinking")
_NAME = r"(?P<name>\S+?)"
_ID = r"(?P<id>\S+?)"
_KEY = r"(?P<key>[^\n]+?)"
_VALUE = r"(?P<value>.*?)"
# ... out of the CDATA section around it, which may hold the closer.
_CDATA = tuple(map(re.escape, CDATA))
_WRAPPED_VALUE = rf"(?:{_CDATA[0]})?(?P<value>(?<={_CDATA[0]}).*?(?={_CDATA[1]})|(?<!{_CDATA[0]}).*?)(?:{_CDATA[1]})?"
_TYPE = r"(?P<type>[^\s<>]*?)"
_NUMBER = r"\d+"


def response_template(profile: Profile, *, serving: bool = False) -> dict[str, Any]:
    """``profile`` as a response template, to be set on a tokenizer.

    serving: as the servers that read these templates want them (vLLM's and SGLang's stock parsers): reasoning is named
    ``thinking`` and read once, and texts are not joined, for they stream.
    Raises: UsageError where the notation cannot express how calls or reasoning are written.
    """
    fields: dict[str, Field] = {}
    reasoning = profile.reasoning
    if reasoning.mode is not ReasoningMode.NONE and reasoning.close.text:
        name = reasoning.message_key if reasoning.message_key in _REASONING else _REASONING[0]
        fields[name] = _reasoning(profile)
    fields["content"] = _content(profile)
    if profile.tools is not None:
        fields["tool_calls"] = _Calls(profile, profile.tools).field()
        _end_at_calls(profile, profile.tools, fields)
    if serving:
        fields = _served(fields)
    return {"version": 1, "defaults": {"role": "assistant"}, **_anchor(profile), "fields": fields}


def _served(fields: dict[str, Field]) -> dict[str, Field]:
    out: dict[str, Field] = {}
    if fields.get("tool_calls", {}).get("content") == "python-call-list":
        raise UsageError("the servers that read response templates know no lists of calls in Python's notation")
    for name, field in fields.items():
        if name in _REASONING:
            out[_REASONING[1]] = {key: value for key, value in field.items() if key not in ("join", "repeats")}
        else:
            out[name] = {key: value for key, value in field.items() if key != "join"}
    return out


def _end_at_calls(profile: Profile, tools: ToolProfile, fields: dict[str, Field]) -> None:
    """Let the regions with an opener of their own, inside of which no other is looked for, end where a call opens."""
    opening = re.sub(r"\(\?P<\w+>", "(?:", fields["tool_calls"]["open_pattern"])
    marked = _marked(call_shape(tools).opening.text) or _marked(call_shape(tools).section)
    ends = [rf"\s*(?={opening})"] if marked else []
    if _marked(tools.separator.text) and not tools.array:
        # The end of one message and the start of the next, written between all blocks of a turn.
        ends.insert(0, rf"\s*{_loose(tools.separator.text)}")
    wrapped = profile.content.mode is ContentMode.WRAPPED
    for name, field in fields.items():
        if name in _REASONING or (name == "content" and wrapped):
            field["close_pattern"] = _any([end for end in (field.get("close_pattern"), *ends) if end])


def _anchor(profile: Profile) -> dict[str, str]:
    """Where the turn starts in the prompt: behind the assistant's header, as far as the prompt writes it."""
    header, prompt = profile.assistant_header, profile.generation_prompt
    size = next((i for i, (a, b) in enumerate(zip(header, prompt, strict=False)) if a != b), len(header))
    if header[:size].strip():
        return {"start_anchor": header[:size]}
    if prompt.strip():
        raise UsageError("the template's history and its generation prompt do not start a turn with the same text")
    return {"start_anchor_pattern": r"\A[\s\S]*"}


def _reasoning(profile: Profile) -> Field:
    reasoning, content = profile.reasoning, profile.content
    close = [re.escape(reasoning.close.text)]
    if content.mode is ContentMode.WRAPPED_WITH_REASONING and content.open.text:
        # The wrapper of the answer stands behind reasoning only, so it goes with the closer.
        close[0] += rf"(?:\s*{_loose(content.open.text)})?"
    field = {"content": "text", "repeats": True, "join": "", "close_pattern": _any(close + _stops(profile))}
    if reasoning.open.text and reasoning.mode is ReasoningMode.PREOPENED:
        # Without reasoning some prompts and histories write the closer alone.
        return {
            "open_pattern": rf"{re.escape(reasoning.open.text)}|\A(?=\s*{re.escape(reasoning.close.text)})",
            **field,
        }
    if reasoning.beside_calls is not None:
        # What the history writes in front of calls opens and closes it too.
        opened, closed = (re.escape(part.text) for part in reasoning.beside_calls)
        field["close_pattern"] = _any([*close, closed, *_stops(profile)])
        return {"open_pattern": _any([re.escape(reasoning.open.text), opened]), **field}
    if messages(profile) is not None:
        return {"open_pattern": _behind_header(profile, reasoning.open), **field}
    if reasoning.open.text:
        return {"open": reasoning.open.text, **field}
    # Nothing opens it, so it is there where it is closed.
    return {"open_pattern": rf"\A(?=[\s\S]*?{close[0]})", **field}


def _content(profile: Profile) -> Field:
    content = profile.content
    field: Field = {"content": "text", "repeats": True, "join": ""}
    ends = _stops(profile)
    if content.mode is ContentMode.WRAPPED_WITH_CALLS and content.open.text:
        raise UsageError("a response template cannot express text that is wrapped beside calls only")
    if content.mode is not ContentMode.PLAIN and content.close.text:
        ends.insert(0, re.escape(content.close.text))
    if messages(profile) is not None:
        field["open_pattern"] = _behind_header(profile, content.open)
    elif content.mode is ContentMode.WRAPPED:
        field["open"] = content.open.text
    if ends:
        field["close_pattern"] = _any(ends)
    return field


def _behind_header(profile: Profile, opener: Marker) -> str:
    """The opener of a message of its own: where the turn starts, or behind the header of a further message."""
    return rf"(?:\A|(?<={re.escape(profile.assistant_header.strip())}))\s*{_loose(opener.text)}\s*"


class _Calls:
    def __init__(self, profile: Profile, tools: ToolProfile) -> None:
        self.profile = profile
        self.tools = tools
        self.shape = call_shape(tools)
        self.stops = _stops(profile)
        plain = tools.format is ToolFormat.TAG_WITH_TAGGED and tools.syntax is None and tools.nested is None
        behind = tools.argument[tools.argument.index(Slot.VALUE) + 1 :] if Slot.VALUE in tools.argument else ()
        self.value_end = "".join(piece.text for piece in behind if isinstance(piece, Marker))
        self.listed = plain and not self.value_end

    def field(self) -> Field:
        tools = self.tools
        if tools.nested is not None:
            raise UsageError("a response template cannot express arguments whose objects are tags again")
        if joint(self.profile):
            raise UsageError("a response template cannot express calls that only the text between two of them tells")
        if tools.escapes.value:
            raise UsageError("a response template cannot express values in which characters are spelled otherwise")
        if not tools.array and not self.listed:
            self._check_opener()
        if tools.format is ToolFormat.JSON_NATIVE:
            return self._objects(tools.object or JsonShape())
        if tools.format is ToolFormat.TAG_WITH_JSON:
            return {**self._around("{", "}"), "content": "json", "repeats": True, **self._by_name()}
        if tools.syntax is not None:
            return self._notation()
        if self.listed:
            return self._call_list()
        self._check_values()
        return {**self._around("", ""), **self._tagged(), "repeats": True, **self._by_name()}

    # What makes a region exact.

    def _check_opener(self) -> None:
        """A mark begins each call; else one call, behind the mark of the section or as the whole of an answer."""
        if _marked(self.shape.opening.text):
            return
        if self.tools.parallel:
            raise UsageError("a response template cannot express several calls without a marker of their own")
        if not _marked(self.shape.section) and self.tools.format is not ToolFormat.JSON_NATIVE:
            raise UsageError("a response template cannot express a call that no marker begins")

    def _check_values(self) -> None:
        """Marks end each value and each call: a bracket or a quote may stand in a value."""
        if not _marked(self.value_end):
            raise UsageError("a response template cannot express values that end with a bracket or a quote only")
        if self.shape.closing and not any(map(_marked, self.shape.closing)):
            raise UsageError("a response template cannot express tagged arguments that end with a bracket only")

    # Calls that are JSON objects.

    def _objects(self, shape: JsonShape) -> Field:
        if shape.name_is_key:
            return self._named_by_key(shape)
        function = {"name": _place(shape.name_path), "arguments": _place(shape.args_path)}
        call: Field = {"type": "function", "function": function}
        if shape.id_path is not None:
            call["id"] = _place(shape.id_path)
        if self.tools.array:
            return {**self._array(), "content": "json", "transform": _of_item(call), "transform_each": True}
        around = self._bare(shape) if self.shape.bare else self._around("{", "}")
        return {**around, "content": "json", "repeats": True, "transform": call}

    def _named_by_key(self, shape: JsonShape) -> Field:
        if self.tools.array or self.shape.bare:
            raise UsageError("a response template cannot express a list of calls whose names are keys")
        body = self.tools.call.index(Slot.OBJECT)
        tail = self._tail(self.tools.call[body + 1 :])
        if not tail:
            raise UsageError("a response template cannot express calls whose names are keys and that no marker ends")
        opening = self._opening(self.tools.call[:body]) + r'\{\s*"(?P<name>[^"]+)"\s*:\s*(?=\{)'
        return {**_pair(opening, rf"(?<=\}})\s*\}}\s*{tail}"), "content": "json", "repeats": True, **self._by_name()}

    def _array(self) -> Field:
        """All calls as one JSON array; its brackets stay in the region."""
        if self.tools.section_count:
            raise UsageError("a response template cannot express a list of calls behind their number")
        opening = self.tools.section_open.text.removesuffix("[").rstrip()
        closing = self.tools.section_close.text.removeprefix("]").lstrip()
        if not distinctive(opening):
            return _pair(rf"{self._start()}\s*(?=\[\s*\{{)", self._ends(""))
        return _pair(rf"{_loose(opening)}\s*(?=\[)", self._ends(_loose(closing), "]"))

    def _bare(self, shape: JsonShape) -> Field:
        """A call that nothing but its first key tells from an answer: only where a turn's text starts."""
        if self.tools.parallel:
            raise UsageError("a response template cannot express several calls without a marker of their own")
        key = re.escape((shape.order[0] if shape.order else shape.name_path)[0])
        return _pair(rf'{self._start()}\s*(?=\{{\s*"{key}"\s*:)', self._ends(""))

    def _start(self) -> str:
        """The start of the turn's text: of the turn, or behind reasoning."""
        close = self.profile.reasoning.close.text
        return rf"(?:\A|(?<={re.escape(close)}))" if close else r"\A"

    # Calls whose name is written apart.

    def _by_name(self) -> Field:
        call: Field = {"type": "function", "function": {"name": "{name}", "arguments": "{content}"}}
        if Slot.ID in self.tools.call:
            call["id"] = "{id}"
        return {"transform": call}

    def _around(self, first: str, last: str) -> Field:
        """The patterns around the body, which begins with ``first`` and ends with ``last``."""
        pieces = self.tools.call
        body = next(i for i, piece in enumerate(pieces) if piece in (Slot.ARGS, Slot.OBJECT))
        written = call_header_pattern(self.profile) or self._opening(pieces[:body])
        opening = written + (rf"(?={re.escape(first)})" if first else "")
        return _pair(opening, self._ends(self._tail(pieces[body + 1 :]), last))

    def _opening(self, pieces: Sequence[Piece]) -> str:
        """The section's marker, where it is written, and the pieces in front of the body."""
        return self._section() + "".join(self._head(pieces, at) for at in range(len(pieces)))

    def _section(self) -> str:
        """The section's marker, which is left out behind the first call; not where it alone tells a call."""
        section = self.tools.section_open.text
        optional = "?" if _marked(self.shape.opening.text) else ""
        count = self.tools.section_count.text
        counted = rf"\s*\d+\s*{_loose(count)}" if count else ""
        return rf"(?:{_loose(section)}{counted}\s*){optional}" if section else ""

    def _head(self, pieces: Sequence[Piece], at: int) -> str:
        """One piece in front of the body; a name that nothing but layout ends goes up to the first that may follow."""
        following = pieces[at + 1] if at + 1 < len(pieces) else Marker()
        if pieces[at] is Slot.NAME and isinstance(following, Marker) and not following.text:
            return f"(?P<name>[^{re.escape(name_ends(self.tools, self.shape, following))}]+)"
        return _piece(pieces[at])

    def _tail(self, pieces: Sequence[Piece]) -> str:
        inner = "".join(map(_piece, pieces)).removesuffix(r"\s*")
        if pieces and isinstance(pieces[-1], Slot):
            inner = inner.removesuffix(r"\S+?)") + f"{self._last_word()})"
        return inner + self._closing() if inner.replace(r"\s*", "") else ""

    def _last_word(self) -> str:
        """A word that ends a call: it goes up to white space or the first character of what may follow."""
        tools = self.tools
        following = [self.shape.opening.text, tools.section_close.text, tools.separator.text, *all_stops(self.profile)]
        ends = "".join(sorted({text[0] for text in following if text}))
        if any(char.isalnum() or char in "_-." for char in ends):
            raise UsageError("a response template cannot express calls that end with a word, behind which words follow")
        return rf"[^\s{re.escape(ends)}]+"

    def _closing(self) -> str:
        further = [self.tools.section_close.text, "" if self.tools.array else self.tools.separator.text]
        texts = "|".join(_loose(text) for text in further if text)
        return rf"(?:\s*(?:{texts}))?" if texts else ""

    def _ends(self, closer: str, last: str = "") -> str:
        """What ends a call: its closer, behind ``last``; without one the next call or the end of the turn."""
        if closer:
            behind = rf"(?<={re.escape(last)})\s*" if last else ""
            return behind + closer
        ends = list(self.stops)
        if self.tools.array or self.listed:
            return _any(ends)
        behind = rf"(?<={re.escape(last)})\s*" if last else ""
        if self.tools.section_close.text:
            ends.insert(0, behind + _loose(self.tools.section_close.text))
        if _marked(self.tools.separator.text):
            ends.append(behind + _loose(self.tools.separator.text))
        if _marked(self.shape.opening.text):
            ends.append(rf"{behind}(?={_loose(self.shape.opening.text)})")
        return _any(ends)

    # Arguments that are written one by one.

    def _tagged(self) -> Field:
        parts: list[str] = []
        seen: set[Slot] = set()
        value = _WRAPPED_VALUE if wraps_values(self.value_end) else _VALUE
        for piece in self.tools.argument:
            if isinstance(piece, Marker):
                parts.append(_layout(piece) if piece.text or not seen else r"\s+")
            elif piece in seen:
                parts.append(f"(?P={piece.value})")
            else:
                kind = "|".join(r"\s*" + re.escape(text.strip()) if text else "" for text in type_marks(self.tools))
                kind = f"(?P<type>{kind})" if kind else _TYPE
                parts.append({Slot.KEY: _KEY, Slot.VALUE: value}.get(piece, kind))
                seen.add(piece)
        pattern: Field = {"tag_pattern": "".join(parts)}
        if dict(self.tools.value_styles).get("string") is ValueStyle.JSON:
            pattern["value_parser"] = {"name": "json", "args": {"allow_non_json": True}}
        return {"content": "xml-inline", "content_args": pattern}

    def _notation(self) -> Field:
        """Arguments as one object in a notation of its own, whose braces are the markers' last and first characters."""
        syntax, pieces = self.tools.syntax, self.tools.call
        assert syntax is not None
        body = pieces.index(Slot.ARGS)
        head, tail = pieces[body - 1], pieces[body + 1] if body + 1 < len(pieces) else Marker()
        if (
            not isinstance(head, Marker)
            or not isinstance(tail, Marker)
            or (head.text[-1:], tail.text[:1]) != ("{", "}")
        ):
            raise UsageError("a response template cannot express arguments in a notation without braces")
        if (syntax.colon.strip(), syntax.comma.strip()) != (":", ","):
            raise UsageError("a response template cannot express objects without colons and commas")
        before = (*pieces[: body - 1], Marker.of(head.written.rstrip()[:-1]))
        opening = self._section() + "".join(map(_piece, before)) + r"(?=\{)"
        ends = self._ends(self._tail((Marker.of(tail.written.lstrip()[1:]), *pieces[body + 2 :])), "}")
        notation = {"unquoted_keys": not syntax.quoted_keys, "string_delims": [[syntax.quote_open, syntax.quote_close]]}
        field = {**_pair(opening, ends), "content": "json", "content_args": notation, "repeats": True}
        return {**field, **self._by_name()}

    def _call_list(self) -> Field:
        """``[name(key=value), ...]``: the one list of calls that the notation knows."""
        tools = self.tools
        call = [piece.text if isinstance(piece, Marker) else piece for piece in tools.call]
        argument = [piece.text if isinstance(piece, Marker) else piece for piece in tools.argument]
        listed = tools.section_open.text.endswith("[") and tools.section_close.text.startswith("]")
        if not listed or call != [Slot.NAME, "(", Slot.ARGS, ")"] or argument != [Slot.KEY, "=", Slot.VALUE]:
            raise UsageError("a response template cannot express arguments that nothing closes")
        function = {"name": "{name}", "arguments": "{arguments}"}
        transform = {"type": "function", "function": function}
        array = (
            self._array()
            if distinctive(tools.section_open.text)
            else _pair(rf"{self._start()}\s*(?=\[\s*\w[\w.-]*\()", self._ends(""))
        )
        return {**array, "content": "python-call-list", "transform": transform, "transform_each": True}


def _stops(profile: Profile) -> list[str]:
    return [re.escape(text) for text in all_stops(profile)]


def _pair(opening: str, closing: str) -> Field:
    return {"open_pattern": opening, "close_pattern": closing} if closing else {"open_pattern": opening}


def _marked(text: str) -> bool:
    """True: no answer and no value holds ``text`` by chance."""
    core = text.strip()
    return distinctive(core) and not core.isdigit() and (len(core) > 1 or not core.isascii())


def _any(patterns: Sequence[str]) -> str:
    return "|".join(dict.fromkeys(patterns))


def _loose(text: str) -> str:
    """``text`` as a pattern, any white space where it breaks a line."""
    return r"\s*".join(re.escape(part) for part in re.split(r"[ \t\r]*\n\s*", text.strip()))


def _piece(piece: Piece) -> str:
    if isinstance(piece, Marker):
        before, after = (r"\s*" if layout else "" for layout in (piece.before, piece.after))
        return f"{before}{_loose(piece.text)}{after}" if piece.text else before
    return {Slot.NAME: _NAME, Slot.ID: _ID, Slot.INDEX: _NUMBER}.get(piece, "")


def _layout(marker: Marker) -> str:
    """A marker beside a value: its layout is written once or left out, all other white space is the value's."""
    before, after = (f"(?:{re.escape(layout)})?" if layout else "" for layout in (marker.before, marker.after))
    return before + _loose(marker.text) + after


def _place(path: Sequence[str]) -> str:
    """A member of the parsed object, as a transform names it."""
    if not all(re.fullmatch(r"\w+", key) for key in path):
        raise UsageError(f"a response template cannot name the member {'.'.join(path)!r}")
    return "{content." + ".".join(path) + "}"


def _of_item(call: Any) -> Any:
    """The transform of one item of a list, whose members are named without ``content``."""
    if isinstance(call, dict):
        return {key: _of_item(value) for key, value in call.items()}
    return call.replace("{content.", "{")
