"""What a model may write in a turn: exactly the template's layout, and nothing that would be read as something else.

Rules of this file: free text leaves out every text on which the reader would act there, and contains no control token;
calls are written as the history renders them; the language ends where the turn may end (stops are the caller's).
"""

from __future__ import annotations

from dragoman.dialect.channels import inner_tags, messages
from dragoman.dialect.facts import all_stops
from dragoman.dialect.markers import SPACES, marker, overlaps_itself, words
from dragoman.dialect.reader.turn import empty_blocks, further_blocks, read_as_reasoning, repeated_headers
from dragoman.dialect.request import DialectRequest, GbnfAnswer, JsonAnswer
from dragoman.dialect.shape import call_shape, distinctive, joint, openers, opening_word
from dragoman.dialect.tolerances import around_bare_calls, other_forms, short_opener
from dragoman.dialect.writer.calls import CallWriter
from dragoman.grammar.json import json_text
from dragoman.grammar.nodes import EMPTY, AnyChar, Choice, Gbnf, Node, Ref, Repeat, Without, alt, opt, schema, seq
from dragoman.template.profile import ContentMode, Marker, Profile, ReasoningMode, Slot, ToolFormat, ToolProfile


def writer_rules(profile: Profile, request: DialectRequest, controls: frozenset[str]) -> dict[str, Node]:
    """The rules of the writer; start rule ``write``."""
    return _Writer(profile, request, controls).rules()


class _Writer:
    def __init__(self, profile: Profile, request: DialectRequest, controls: frozenset[str]) -> None:
        self.profile = profile
        self.request = request
        self.controls = controls
        self.forbidden = _forbidden(profile, request)
        self.may_call = profile.tools is not None and request.choice != "none" and bool(request.callable_tools)
        self.reasoning = request.reasoning or profile.reasoning
        self.has_reasoning = self.reasoning.mode is not ReasoningMode.NONE and bool(self.reasoning.close.text)

    def rules(self) -> dict[str, Node]:
        rules: dict[str, Node] = {}
        if self.may_call:
            assert self.profile.tools is not None
            ends = (*all_stops(self.profile), *openers(self.profile.tools))
            calls = CallWriter(self.profile.tools, self.request, self.controls, [text.encode() for text in ends])
            rules |= calls.rules()
        rules["write.text"] = Without(Repeat(AnyChar(), min=1), self.forbidden)
        rules["write.answer"] = self._answer()
        if self.has_reasoning:
            rules["write.reasoning"] = self._reasoning(self.reasoning.close)
            if self.reasoning.beside_calls is not None:
                rules["write.reasoning.calls"] = self._reasoning(self.reasoning.beside_calls[1])
        rules["write"] = self._turn()
        return rules

    def _text(self, before: Marker) -> Node:
        """Free text, maybe empty, that does not begin the marker behind it early."""
        early = overlaps_itself(before.text)
        forbidden = (*self.forbidden, early.encode()) if early else self.forbidden
        return opt(Ref("write.text")) if not early else Without(Repeat(AnyChar()), forbidden)

    def _written(self, piece: Marker) -> Node:
        return marker(piece.written, self.controls)

    def _reasoning(self, close: Marker) -> Node:
        """The rest of an open reasoning block, up to ``close``."""
        most = self.request.reasoning_chars
        if most is None:
            return seq(self._text(close), self._written(close))
        early = overlaps_itself(close.text)
        forbidden = (*self.forbidden, early.encode()) if early else self.forbidden
        return seq(Without(Repeat(AnyChar(), max=most), forbidden), self._written(close))

    def _turn(self) -> Node:
        reasoning = self.reasoning
        plain, reasoned = self._body(reasoned=False), self._body(reasoned=True)
        block: list[Node] = []
        if self.has_reasoning and self.request.thinking is not False and reasoning.open.text:
            block.append(seq(self._written(reasoning.open), Ref("write.reasoning"), reasoned))
            if reasoning.beside_calls is not None and self.may_call:
                block.append(seq(self._written(reasoning.beside_calls[0]), Ref("write.reasoning.calls"), reasoned))
        if self.has_reasoning and reasoning.empty_block:
            block.append(seq(marker(reasoning.empty_block, self.controls), plain))
        prefix = self.request.prefix
        if self.has_reasoning and self._inside(prefix):
            return seq(marker(prefix, self.controls), Ref("write.reasoning"), reasoned)
        lead = marker(prefix, self.controls)
        if prefix.strip(SPACES) or (self.has_reasoning and reasoning.close.text in prefix):
            return seq(lead, plain)
        return seq(lead, alt(*block, plain))

    def _inside(self, prefix: str) -> bool:
        """True: behind ``prefix`` the reasoning block is open."""
        reasoning = self.reasoning
        closed = prefix.rfind(reasoning.close.text)
        if reasoning.open.text:
            opened = prefix.rfind(reasoning.open.text)
            if opened >= 0:
                return opened > closed
        implicit = self.request.implicit_reasoning or not reasoning.open.text
        return closed < 0 and implicit and reasoning.mode is ReasoningMode.PREOPENED

    def _body(self, *, reasoned: bool) -> Node:
        """What may follow once reasoning is over."""
        answer = self._wrapped(Ref("write.answer"), reasoned=reasoned)
        if not self.may_call:
            return answer
        if self.profile.content.holds_calls:
            return self._opened_once()
        if self.request.choice in ("required", "named"):
            return Ref("write.calls")
        if self.request.answer is not None:
            return alt(answer, Ref("write.calls"))
        between = joint(self.profile)
        if between:
            calls = Ref("write.calls")
            said = alt(*(way for way in answer.items if way != EMPTY)) if isinstance(answer, Choice) else answer
            return alt(seq(said, opt(seq(marker(between, self.controls), calls))), calls, EMPTY)
        if self.profile.content.mode is ContentMode.WRAPPED_WITH_CALLS:
            return alt(answer, seq(opt(self._enclosed(answer)), Ref("write.calls")))
        return seq(answer, opt(Ref("write.calls")))

    def _opened_once(self) -> Node:
        """An answer and calls behind the one marker that opens both."""
        calls = Ref("write.calls")
        opened = self._written(self.profile.content.open)
        if self.request.choice in ("required", "named"):
            return seq(opened, calls)
        if self.request.answer is not None:
            return seq(opened, alt(Ref("write.answer"), calls))
        return alt(seq(opened, Ref("write.answer"), opt(calls)), EMPTY)

    def _wrapped(self, answer: Node, *, reasoned: bool) -> Node:
        content = self.profile.content
        always = content.mode is ContentMode.WRAPPED
        if not always and not (reasoned and content.mode is ContentMode.WRAPPED_WITH_REASONING):
            return answer
        wrapped = self._enclosed(answer)
        return wrapped if self.request.answer is not None else alt(wrapped, EMPTY)

    def _enclosed(self, answer: Node) -> Node:
        content = self.profile.content
        return seq(self._written(content.open), answer, self._written(content.close))

    def _answer(self) -> Node:
        answer = self.request.answer
        if isinstance(answer, GbnfAnswer):
            return Gbnf(answer.text)
        if isinstance(answer, JsonAnswer):
            wanted = {"type": "object"} if answer.schema is None else answer.schema
            return Without(schema(wanted, Ref("body")), self.forbidden)
        return self._text(self.profile.content.close)


def _forbidden(profile: Profile, request: DialectRequest) -> tuple[bytes, ...]:
    """The texts that free text may not hold: openers of calls and of reasoning, its close, wrappers, stops."""
    texts: list[str] = [*all_stops(profile), *inner_tags(profile)]
    reasoning = read_as_reasoning(profile, request)
    if request.read_reasoning or reasoning is profile.reasoning:
        opened = () if messages(profile) is not None else (reasoning.open,)
        texts += [words(part.text)[0] for part in (*opened, reasoning.close) if part.text]
        texts += filter(None, [short_opener(reasoning.open.text)])
        further = [part for block in further_blocks(profile, request) for part in (block.open, block.close)]
        texts += [words(part.text)[0] for part in further]
    if profile.content.mode is not ContentMode.PLAIN and messages(profile) is None:
        around = (profile.content.open, profile.content.close, *profile.content.further)
        texts += [words(part.text)[0] for part in around if part.text and part.text != opening_word(profile)]
    if profile.tools is not None and (request.tools or request.reads_calls):
        texts += openers(profile.tools) or _bare_names(profile.tools, request)
        for form in other_forms(profile.tools, request):
            texts += openers(form) or _bare_names(form, request)
        if call_shape(profile.tools).bare:
            texts += [text for text, _ in around_bare_calls(profile.tools, request) if distinctive(text)]
    texts += repeated_headers(profile)
    if opening_word(profile):
        texts.append(joint(profile) + opening_word(profile))
    if not request.reads_calls:
        texts += empty_blocks(profile)
    return tuple(dict.fromkeys(text.encode() for text in texts if text))


def _bare_names(tools: ToolProfile, request: DialectRequest) -> list[str]:
    """How a declared name stands in a call that nothing else tells from text."""
    if tools.format is ToolFormat.JSON_NATIVE:
        return [json_text(tool.name) for tool in request.tools]
    head = call_shape(tools).head
    after = head[head.index(Slot.NAME) + 1 :] if Slot.NAME in head else ()
    delimiter = after[0].text if after and isinstance(after[0], Marker) else ""
    return [tool.name + delimiter for tool in request.tools]
