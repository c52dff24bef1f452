"""Reading calls: the rules behind a call's opener, for the three tool formats.

Rules of this file: names are read whether declared or not, a missing closer is forgiven where nothing can be mistaken
for data, white space is free between tags. ``call`` is the rule of one call, ``after_call`` goes on behind it.
"""

from __future__ import annotations

from collections.abc import Iterable
from string import ascii_letters, digits

from dragoman.dialect.channels import SPEAKERS, header_text
from dragoman.dialect.markers import (
    END,
    GAP,
    SPACE,
    SPACES,
    TEXT,
    closer,
    layout_before,
    loose,
    marker,
    opener,
    opening_words,
    other_than,
    run_of,
    spaced,
    words,
)
from dragoman.dialect.reader.json import JsonReader
from dragoman.dialect.reader.tagged import TaggedReader
from dragoman.dialect.request import DialectRequest, declared_parameters
from dragoman.dialect.shape import (
    WireId,
    call_shape,
    delimiter_after,
    distinctive,
    final_tag,
    is_tag,
    name_ends,
    wire_id,
    word_end,
)
from dragoman.dialect.tolerances import around_bare_calls
from dragoman.grammar.json import DIGIT
from dragoman.grammar.nodes import (
    EMPTY,
    Commit,
    Negate,
    Node,
    Recovery,
    Ref,
    Repeat,
    Tag,
    alt,
    chars,
    lit,
    opt,
    seq,
)
from dragoman.template.escapes import spellings
from dragoman.template.profile import Marker, Piece, Slot, ToolFormat, ToolProfile

# What a name looks like where nothing but its own text tells that it is one.
_IDENTIFIER = Repeat(chars("._-:/" + ascii_letters + digits), min=1)


# Slots that are words: nothing but white space need part two of them.
_WORDS = frozenset((Slot.NAME, Slot.ID, Slot.INDEX))
# What an opener ends with behind which no name begins by itself: white space there is a tokenizer's, or layout.
_TAG_ENDS = (">", "]")


class CallReader:
    """The call rules of one request. ``openings`` is what the rules around it try wherever a call may begin."""

    def __init__(
        self,
        tools: ToolProfile,
        request: DialectRequest,
        controls: frozenset[str],
        *,
        prefix: str = "",
        header_tags: tuple[str, ...] = (),
        namespace: str = "",
        joint: str = "",
        ends: Iterable[str] = (),
        unopened: Node | None = None,
        own: str = "",
    ) -> None:
        self.own = own  # the opener of the template's own section: the way to its own form, and to no other
        self.unopened = unopened  # a closer of reasoning that a call stood in, read to its end
        self.joint = joint
        self.namespace = namespace
        self.tools = tools
        self.header_tags = header_tags
        self.request = request
        self.controls = controls
        self.shape = call_shape(tools)
        self.around = around_bare_calls(tools, request) if self.shape.bare else ()
        self.names = tuple(dict.fromkeys(tool.name for tool in request.tools))
        # The names as raw text: as the template spells them, and as they are where that is read as itself.
        escapes = tools.escapes.name
        self.spelled = [(text, name) for name in self.names for text in spellings(name, escapes)]
        any_name = not self.shape.bare or request.undeclared == "call"
        self.prefix = prefix
        self.json = JsonReader(
            tools.object,
            self.names,
            bare=self.shape.bare,
            any_name=any_name,
            prefix=prefix,
            ends=ends,
            parameters=declared_parameters(request),
        )
        self.tagged = TaggedReader(tools, request.tools, controls, prefix=prefix, tail=seq(*self._behind_body()))

    def openings(self) -> Node:
        """The ways into a call: through the section, or right away where a call can be told without it."""
        ways: list[Node] = []
        around = (
            [
                seq(self._around(text), GAP)
                for text, _ in around_bare_calls(self.tools, self.request)
                if text != self.own
            ]
            if self.shape.bare
            else []
        )
        if self.shape.section:
            opened = Tag("opening", seq(layout_before(self.tools.section_open.before), self._section()))
            section = seq(opened, self._ref("call"))
            ways.append(seq(opt(alt(*around)), section) if around else section)
        if self.shape.opening.text and (self.shape.bare or distinctive(self.shape.opening.text)):
            before = self.shape.opening.before
            ways.append(seq(Tag("opening", layout_before(before)) if before else EMPTY, self._ref("call")))
        if self._named_before():
            ways.insert(0, seq(Tag("opening", seq(GAP, self._name_before())), self._ref("call")))
        if self.shape.bare:
            bracket = opt(seq(lit("["), GAP)) if self.tools.array and not self.shape.section else EMPTY
            if self._may_be_listed():
                bracket = opt(seq(Tag("list.open", lit("[")), GAP))
            joint = opt(seq(GAP, marker(self.joint, self.controls), GAP)) if self.joint else EMPTY
            ways.append(seq(joint, opt(alt(*around)), bracket, self._ref("call")))
        return alt(*ways, *self._empty_blocks())

    def _may_be_listed(self) -> bool:
        """True: models put bare objects into a list though their template shows none. Its bracket may be the answer's
        own as well; the one behind the calls tells."""
        return self.shape.bare and self.tools.format is ToolFormat.JSON_NATIVE and not self.tools.array

    def _around(self, text: str) -> Node:
        """What may stand in front of bare calls; with a list's bracket in it the one behind them is no text."""
        opens = self._may_be_listed() and text.endswith("[")
        return seq(marker(text, self.controls), Tag("list.open", EMPTY) if opens else EMPTY)

    def _named_before(self) -> bool:
        """True: the name stands in front of the opener of a call that is one JSON object."""
        return Slot.OBJECT in self.tools.call and self.tools.call[0] is Slot.NAME

    def _name_before(self) -> Node:
        return _IDENTIFIER if self.request.undeclared == "call" else alt(*(lit(text) for text, _ in self.spelled))

    def _ref(self, rule: str) -> Ref:
        return Ref(self.prefix + rule)

    def _empty_blocks(self) -> list[Node]:
        """Opener and closer with nothing between: no call, no text, and told."""
        pairs = [(words(self.shape.section), self.shape.section_end)]
        pairs += [(way[:1], self.shape.closing) for way in opening_words(self.shape.opening.text)[:1]]
        return [
            seq(
                Tag("hollow", spaced([marker(word, self.controls) for word in (*opened, final_tag(closed[-1]))])),
                Commit("body"),
                Ref("body"),
            )
            for opened, closed in pairs
            if opened and closed and distinctive(opened[0]) and distinctive(closed[-1])
        ]

    def recovery(self) -> dict[str, Recovery]:
        """Where broken JSON is read on as text; of the rules made so far."""
        if self.tools.format is ToolFormat.TAG_WITH_TAGGED:
            return self.tagged.recovery
        label = self.prefix + "args"
        return {label: Recovery(self.prefix + "broken_args", ("call", "args"))}

    def rules(self) -> dict[str, Node]:
        """All rules of calls."""
        call, after = self.prefix + "call", self.prefix + "after_call"
        rules = {call: seq(Tag("call", self._call()), Ref(after)), after: self._after_call()}
        if self.tools.format is ToolFormat.TAG_WITH_TAGGED:
            return rules | self.tagged.rules()
        rules |= self.json.rules()
        rules[self.prefix + "broken_args"] = self._broken_args()
        return rules

    def _section(self) -> Node:
        bracket = seq(GAP, opt(seq(lit("["), GAP))) if self.tools.array else GAP
        first = words(self.shape.section)[:1]
        doubled = opt(seq(marker(first[0], self.controls), GAP)) if first and is_tag(first[0]) else EMPTY
        return seq(doubled, loose(self.shape.section, self.controls), self._count(), bracket)

    def _count(self) -> Node:
        """How many calls follow, where the section's opener tells: nobody asks."""
        text = self.tools.section_count.text
        if not text:
            return EMPTY
        text = text.removesuffix("[").rstrip() if self.tools.array else text
        return seq(GAP, Repeat(DIGIT, min=1), GAP, loose(text, self.controls))

    def _after_call(self) -> Node:
        """Another call, the end of the section, or whatever follows."""
        separator = self.tools.separator.text
        between = [marker(separator, self.controls)] if separator else []
        if self.tools.array or self.shape.bare:
            between += [lit(text) for text in (",", ";") if text != separator]
        named = opt(seq(self._name_before(), GAP)) if self._named_before() else EMPTY
        again = seq(GAP, opt(seq(alt(*between), GAP)) if between else EMPTY, named, self._ref("call"))
        ways = [again]
        if self.shape.section:
            ways.insert(0, seq(GAP, self._section(), self._ref("call")))
        end = (["]"] if self.tools.array else []) + list(self.shape.section_end)
        ends = (
            [[*end, text] for _, text in around_bare_calls(self.tools, self.request) if text]
            if self.shape.bare
            else [end]
        )
        if self._may_be_listed():
            ends = [one for one in ends if one != ["]"]]
            around = [seq(closer(one, self.controls), Commit("body"), self._behind()) for one in ends if one]
            ways.append(seq(GAP, Tag("list.close", lit("]")), Commit("body"), alt(*around, self._behind())))
        ways += [seq(closer(one, self.controls), self._behind()) for one in ends if one]
        # What closes a call closes it once more, and the brace of an object too many: neither is text. Where a value
        # may hold the word that closes a call, one right behind the value's own closer would settle too much.
        tagged = self.tools.format is ToolFormat.TAG_WITH_TAGGED and self.tools.syntax is None
        has_braces = self.tools.format is ToolFormat.JSON_NATIVE
        closing = self.shape.closing
        if not self.shape.opening.text or distinctive(self.shape.opening.text):
            closing = (*closing, *self.shape.section_end)
        lead = seq(SPACE if tagged else EMPTY, opt(seq(GAP, lit("}"))) if has_braces else EMPTY, GAP)
        doubled = dict.fromkeys(tag for word in closing if is_tag(tag := final_tag(word)))
        ways += [seq(lead, marker(word, self.controls), Commit("body"), self._ref("after_call")) for word in doubled]
        return alt(*ways, self._behind())

    def _behind(self) -> Node:
        """What goes on behind all calls."""
        return Ref("body") if self.unopened is None else alt(seq(GAP, self.unopened, Ref("body")), Ref("body"))

    def _call(self) -> Node:
        wired = wire_id(self.tools)
        if wired is not None:
            return self._wired(wired)
        opening = self.shape.opening.text
        head = [opener(opening, self.controls)] if opening else []
        first = words(opening)[:1] if opening else ()
        if first and is_tag(first[0]):
            head.insert(0, opt(seq(marker(first[0], self.controls), GAP)))  # doubled
        if Slot.HEADER in self.shape.head and self.namespace and opening.endswith(self.namespace):
            # A channel in front of a tool's namespace is no prose: else it would be text before a call without one.
            head += [] if opening[0].isalnum() else [Commit("body")]
        if self.tools.format is ToolFormat.JSON_NATIVE:
            return seq(*head, GAP, self.json.object(), self._tail())
        return seq(*head, self._headed())

    def _wired(self, wired: WireId) -> Node:
        """A call whose name is part of its id, as the model writes it: ``functions.f:0``, ``f:0``, ``f``."""
        head = self.shape.head
        rest = [self._piece(head, at) for at in range(3, len(head))]
        declared = [Tag("name", lit(text)) for text, _ in self.spelled if text]
        ends = SPACES + wired.tag[0]
        number = Repeat(DIGIT, min=1)
        stem = wired.word.rstrip("._:/")
        odd = seq(opt(lit(stem)), Repeat(chars("._:/-"), 0, 1))
        names = [
            seq(opt(lit(wired.word)), Tag("name", run_of(ends + wired.link[0])), lit(wired.link), number),
            *(seq(odd, name, Repeat(chars("._:/-"), 0, 1), opt(number)) for name in declared),
            seq(opt(lit(wired.word)), Tag("name", run_of(ends))),
        ]
        # All ways go on in the same place, so that the best one wins there and nothing behind it is disputed.
        read = seq(Tag("id", alt(*names)), *rest, Commit("body"), self._arguments(None))
        return seq(loose(wired.tag, self.controls), GAP, read)

    def _tail(self) -> Node:
        """What follows the body of a call: further slots, then the closer, which may be missing."""
        parts = self._behind_body()
        end = closer(self.shape.closing, self.controls)
        return seq(*parts, end if end == EMPTY else alt(end, EMPTY))

    def _behind_body(self) -> list[Node]:
        """The slots behind the body, which may hold the name that was not in front of it or say it again."""
        parts = [self._piece(self.shape.tail, at) for at in range(len(self.shape.tail))]
        if parts and isinstance(self.shape.tail[0], Marker) and distinctive(self.shape.tail[0].text):
            parts.insert(1, Commit("body"))
        return parts

    def _headed(self) -> Node:
        """Name, id and arguments of a call whose name is not in JSON."""
        head = self.shape.head
        at = max((i for i, piece in enumerate(head) if piece is Slot.NAME), default=None)
        if at is None:
            return seq(*(self._piece(head, i) for i in range(len(head))), self._arguments(None))
        before = [self._piece(head, i) for i in range(at)]
        tag = self.shape.opening.text[-1:] in _TAG_ENDS and Slot.HEADER not in head
        if tag or self.shape.opening.after or (before and not isinstance(head[0], Slot)):
            before.insert(0, GAP)
        delimiter = delimiter_after(head, at)
        rest = [self._piece(head, i) for i in range(at + 2 if delimiter else at + 1, len(head))]
        if Slot.HEADER in head:
            # The end of a header settles whose it is; until then a recipient may be prose ("from=1 to=5 and on").
            names = alt(*(name for name, _ in self._names(delimiter)))
            header = seq(*rest, Commit("body"))
            if not self.shape.opening.text[:1].isalnum():
                # Behind a channel it is none: else the channel would be text before a call without one, to the end.
                tags = [marker(tag, self.controls) for tag in self.header_tags]
                end = next((piece.text for piece in head[at + 1 :] if isinstance(piece, Marker)), "")
                ways = [seq(alt(SPACE, *tags), Commit("body"), header), header]
                if end and not any(end.startswith(name) for name in self.controls):
                    ways.insert(0, seq(lit(end[:-1]), Commit("body"), lit(end[-1])))
                header = alt(*ways)
            return seq(*before, Tag("name", names), header, self._arguments(None))
        ways = [
            seq(Tag("name", name), self._name_end(delimiter, seq(*rest, self._arguments(tool))))
            for name, tool in self._names(delimiter)
        ]
        return seq(*before, alt(*ways))

    def _names(self, delimiter: Marker) -> list[tuple[Node, str | None]]:
        """Ways to read a name, each with the tool it tells."""
        excluded = name_ends(self.tools, self.shape, delimiter)
        if Slot.HEADER in self.shape.head:
            behind = (*self.header_tags, *(piece.text for piece in self.shape.head if isinstance(piece, Marker)))
            name = other_than(SPEAKERS, SPACES + "<", behind, self.controls)
            # With its namespace a name belongs to the form that has it, or both would be read to the end of the call.
            if self.namespace and not self.shape.opening.text.endswith(self.namespace):
                name = seq(Negate(lit(self.namespace)), name)
            return [(name, None)]
        declared: list[tuple[Node, str | None]] = [(lit(text), name) for text, name in self.spelled]
        if self.shape.bare:
            return declared if self.request.undeclared != "call" else [(_IDENTIFIER, None)]
        if self.tools.format is ToolFormat.TAG_WITH_TAGGED:
            behind = (delimiter.text, self.tagged.opening.text, *self.shape.closing)
            return [*declared, (other_than([text for text, _ in self.spelled], excluded, behind, self.controls), None)]
        odd = [(lit(text), name) for text, name in self.spelled if set(text) & set(excluded)]
        return [*odd, (run_of(excluded), None)]

    def _name_end(self, delimiter: Marker, rest: Node) -> Node:
        """The end of the name, which settles that this is a call."""
        if delimiter.text and "\n" in delimiter.after and self.tools.format is ToolFormat.TAG_WITH_TAGGED:
            # Prose that names the opener goes on in its line, a call does not; some models drop the bracket instead.
            line = seq(chars("\r\n"), Commit("body"), rest)
            return alt(seq(GAP, loose(delimiter.text, self.controls), alt(line, rest)), line)
        if delimiter.text:
            return seq(GAP, loose(delimiter.text, self.controls), Commit("body"), rest)
        return alt(seq(SPACE, Commit("body"), rest), rest)

    def _piece(self, pieces: tuple[Piece, ...], at: int) -> Node:
        piece = pieces[at]
        if isinstance(piece, Marker):
            if piece.text:
                return seq(GAP, loose(piece.text, self.controls), GAP if piece.after else EMPTY)
            # White space alone parts two words; behind anything that ends by itself it is layout.
            apart = piece and 0 < at < len(pieces) - 1 and {pieces[at - 1], pieces[at + 1]} <= _WORDS
            return Repeat(SPACE, min=1) if apart else GAP
        if piece is Slot.INDEX:
            return Repeat(DIGIT, min=1)
        if piece is Slot.HEADER:
            return header_text(self.header_tags, self.controls)
        delimiter = delimiter_after(pieces, at)
        ends = SPACES + word_end(delimiter)
        if not delimiter.text:
            ends += "{" + "".join(word[0] for word in self.shape.closing[:1])
        word, known = run_of(ends), alt(*(lit(text) for text, _ in self.spelled))
        if piece is Slot.NAME and Slot.NAME not in self.shape.head:
            return seq(GAP, Tag("name", known if self.shape.bare and self.request.undeclared != "call" else word))
        if piece is Slot.NAME and self.tools.nested is not None and self.spelled:
            return seq(GAP, known)  # the keys of arguments are such words too
        return seq(GAP, Tag("id", word)) if piece is Slot.ID else word

    def _arguments(self, tool: str | None) -> Node:
        if self.tools.format is ToolFormat.TAG_WITH_TAGGED:
            return self.tagged.rest(tool)
        given = seq(self.json.arguments(committed=True), self._tail())
        if not self.shape.closing or not distinctive(self.shape.closing[0]):
            return seq(GAP, alt(given, self._tail()))
        # Without arguments the closer is due, or the end: other text says that this is no call.
        end = alt(closer(self.shape.closing, self.controls), seq(GAP, END))
        return seq(GAP, alt(given, seq(*self._behind_body(), end)))

    def _broken_args(self) -> Node:
        """Arguments that are no JSON: text up to the call's closer, the next call, the stop or the end."""
        text = Tag("args", TEXT, resumed=True)
        brace = opt(seq(GAP, lit("}"))) if self.tools.format is ToolFormat.JSON_NATIVE else EMPTY
        ways: list[Node] = []
        end = [*self.shape.closing] or [*(["]"] if self.tools.array else []), *self.shape.section_end]
        if end:
            behind = seq(brace, *self._behind_body())
            ended = Tag("call", seq(text, behind, closer(end, self.controls)), resumed=True)
            ways.append(seq(ended, self._ref("after_call")))
        ways.append(seq(Tag("call", text, resumed=True), Ref("interrupt")))
        return alt(*ways)
