"""Reading arguments that are tagged one by one.

A value ends where its closer is followed by the next argument or the end of the call: until that is read the closer is
data. Without its closer it ends where the template's whole end of all calls follows, unless a closer comes all the
same. So the text goes on beside every attempt to leave it, and the commit behind the next opener ends the dispute. The
end of a call without the layout in front of it settles nothing: what follows does. An object or array is read as such
first, so that closers inside its strings are text; where it breaks it is text up to the closer.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from dragoman.chat_schema import declared_types, parameter_schema, resolve, value_kind
from dragoman.dialect.literals import COMMA, KEY_ENDS, literal_rules
from dragoman.dialect.markers import (
    END,
    GAP,
    SPACES,
    TEXT,
    closer,
    layout_after,
    layout_before,
    loose,
    marker,
    opener,
    other_than,
    run_of,
    words,
)
from dragoman.dialect.reader.containers import container, container_rules
from dragoman.dialect.reader.nested import UNCLOSED, NestedReader
from dragoman.dialect.reader.objects import syntax_key, syntax_rules
from dragoman.dialect.request import Tool
from dragoman.dialect.shape import (
    call_shape,
    closes_values,
    delimiter_after,
    distinctive,
    end_of_calls,
    quoted_values,
    string_word,
    type_marks,
    word_end,
)
from dragoman.dialect.tolerances import CDATA, wraps_values
from dragoman.grammar.nodes import (
    EMPTY,
    NOTHING,
    Commit,
    Literal,
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
from dragoman.template.profile import Marker, Slot, ToolProfile, ValueStyle

# Regions of values that may be objects or arrays.
_CONTAINERS = ("value.json", "value.typed")


class TaggedReader:
    """The arguments of each tool of one request, and the end of its call."""

    def __init__(
        self,
        profile: ToolProfile,
        tools: Iterable[Tool],
        controls: frozenset[str],
        *,
        prefix: str = "",
        tail: Node = EMPTY,
    ) -> None:
        self.profile = profile
        self.tail = tail  # what stands between the arguments and the words that end the call
        self.controls = controls
        self.prefix = prefix
        self.closing = call_shape(profile).closing
        self.tools = {tool.name: tool for tool in reversed(tuple(tools))}
        self.numbers: dict[str | None, str] = {name: str(at) for at, name in enumerate(self.tools)}
        self.made: dict[str, Node] = {}
        self.recovery: dict[str, Recovery] = {}
        self.styles = dict(profile.value_styles)
        self.string_word = string_word(profile)
        self.marks = type_marks(profile)
        self.quote = quoted_values(profile)
        pieces = profile.argument
        self.opening = pieces[0] if pieces and isinstance(pieces[0], Marker) else Marker()
        self.pieces = pieces[1:] if self.opening else pieces

    @property
    def literal(self) -> bool:
        """True: nothing closes a value, so it is a JSON or Python literal that ends by itself."""
        return not closes_values(self.profile)

    def rules(self) -> dict[str, Node]:
        """The rules that :meth:`rest` referred to so far, and their recovery points in ``recovery``."""
        if self.profile.syntax is not None:
            return self.made | syntax_rules(self.profile.syntax, self.controls)
        if self.profile.nested is not None:
            return self.made | NestedReader(self.profile.nested, self.controls).rules()
        if self.literal:
            return self.made | literal_rules()
        literals = literal_rules() if self.quote else {}
        return self.made | literals | container_rules(self.prefix, self._value_closer())

    def rest(self, tool: str | None) -> Node:
        """The arguments of ``tool`` (None: of a tool that nobody declared) and the end of the call."""
        number = self.numbers.get(tool, "other")
        rule = f"{self.prefix}tagged.{number}"
        if rule not in self.made:
            # A call that the output ends in is complete where its last argument is.
            end = seq(GAP, END)
            # Python allows a comma behind the last one.
            comma = opt(seq(GAP, marker(self._separator(), self.controls))) if self.literal else EMPTY
            arguments, ends = self._arguments(tool), alt(self._end(), end, *self._unclosed(tool))
            self.made[rule] = alt(arguments, ends) if self._open_ended() else seq(arguments, comma, ends)
            if self._reads_containers():
                self._recover(number, rule)
        return Ref(rule)

    def _reads_containers(self) -> bool:
        """True: values are text between markers, so one that is JSON may hold its closer."""
        if self.profile.escapes.json:
            return False  # its quotes are spelled otherwise
        return Slot.VALUE in self.pieces and not (self.profile.syntax or self.profile.nested or self.literal)

    def _recover(self, number: str, rule: str) -> None:
        """Where a value that began as an object or array and is none goes on: as text up to its closer."""
        at = self.pieces.index(Slot.VALUE)
        for region in _CONTAINERS:
            text = Tag(region, TEXT, resumed=True)
            argument = Tag("arg", seq(text, *self._behind_value(at)), resumed=True)
            broken = f"{self.prefix}broken.{region}.{number}"
            going_on = seq(argument, Ref(rule))
            if self._ending():
                unclosed = Tag("arg", seq(text, UNCLOSED), resumed=True)
                going_on = alt(going_on, seq(unclosed, self._end_without_closer()))
            call = Tag("call", going_on, resumed=True)
            self.made[broken] = seq(call, Ref(self.prefix + "after_call"))
            self.recovery[self._label(region, number)] = Recovery(broken, ("call", "arg", region), quiet=True)

    def _label(self, region: str, number: str) -> str:
        return f"{self.prefix}{region}.{number}"

    def _value_closer(self) -> str:
        """The text behind a value; empty where it holds a control token, which is no text."""
        text = delimiter_after(self.pieces, self.pieces.index(Slot.VALUE)).text if Slot.VALUE in self.pieces else ""
        return text if isinstance(marker(text, self.controls), Literal) else ""

    def _end(self) -> Node:
        """The words that end a call, behind what may stand between them and the arguments."""
        closing = self.closing
        plain = closer(closing, self.controls)
        if self.tail != EMPTY:
            return seq(self.tail, alt(plain, EMPTY))
        if self.profile.nested is not None and (section := self.profile.section_close.text):
            return alt(plain, seq(UNCLOSED, closer(words(section), self.controls)))
        layout = self._layout()
        if not layout or not closing or not self._value_closer():
            return plain
        blank = chars("".join(char for char in SPACES if char not in layout))
        written = seq(Repeat(blank), lit("\n") if "\n" in layout else chars(SPACES))
        return alt(seq(written, plain), self._unsettled_end(closing, single=True))

    def _layout(self) -> str:
        """The white space that the template writes between the last argument and the end of its call."""
        if not self._reads_containers():
            return ""
        last = self.pieces[-1]
        at = self.profile.call.index(Slot.ARGS) if Slot.ARGS in self.profile.call else len(self.profile.call)
        return (last.after if isinstance(last, Marker) else "") + delimiter_after(self.profile.call, at).before

    def _unsettled_end(self, closing: Sequence[str], *, single: bool) -> Node:
        """The end of a call where the layout in front of it is missing: its value may hold these very words. More than
        one of them settle it, and so does whatever commits behind it; until then both readings go on."""
        word = marker(closing[0], self.controls)
        if len(closing) == 1:
            return seq(GAP, word, EMPTY if single else Commit("body"))
        here = seq(GAP, word, opt(self._unsettled_end(closing[1:], single=False)))
        return alt(here, self._unsettled_end(closing[1:], single=single))

    def _arguments(self, tool: str | None) -> Node:
        """Any number of arguments of ``tool``; where values are open-ended one or more, and the end of the call."""
        if Slot.VALUE not in self.pieces:
            return EMPTY
        if self.profile.nested is not None:
            root = None if tool is None or tool not in self.tools else self.tools[tool].parameters
            return Repeat(seq(GAP, NestedReader(self.profile.nested, self.controls).members(root, root)))
        number = self.numbers.get(tool, "other")
        argument = Tag("arg", self._argument(self._kinds(tool), number))
        settles = Commit("body") if distinctive(self.opening.text) else EMPTY
        after = GAP if self.opening.after else EMPTY
        start = seq(GAP, opener(self.opening.text, self.controls), settles, after) if self.opening.text else GAP
        if self._ending():
            # Both ways read the same rule up to the end of the value.
            self.made[self._begun(number)] = self._argument(self._kinds(tool), number, closed=False)
            argument = Tag("arg", seq(Ref(self._begun(number)), *self._behind_value(self.pieces.index(Slot.VALUE))))
        separator = self._separator()
        lead = opt(seq(GAP, marker(separator, self.controls))) if separator else EMPTY
        if not self._open_ended():
            return Repeat(seq(lead, start, argument))
        behind = (layout_before(self._between()), opener(self.opening.text, self.controls), settles, after)
        first, *others = self.closing
        end = seq(layout_before(self._layout()), marker(first, self.controls), opt(closer(others, self.controls)))
        last = seq(GAP, END)
        return seq(start, argument, Repeat(seq(*behind, argument)), alt(end, last))

    def _begun(self, number: str) -> str:
        return f"{self.prefix}begun.{number}"

    def _ending(self) -> str:
        """The text that ends all calls, behind which a value ends that nothing closes."""
        plain = (
            self._reads_containers()
            and self.tail == EMPTY
            and not self.quote
            and not self._separator()
            and self.opening.text
        )
        return end_of_calls(self.profile) if plain and self._value_closer() else ""

    def _unclosed(self, tool: str | None) -> list[Node]:
        """A last argument without its closer, and the end of the calls. What follows tells it from a value that holds
        this text: the end of the output or of the turn, or another call."""
        ending = self._ending()
        if not ending:
            return []
        number = self.numbers.get(tool, "other")
        settles = Commit("body") if distinctive(self.opening.text) else EMPTY
        after = GAP if self.opening.after else EMPTY
        start = seq(GAP, opener(self.opening.text, self.controls), settles, after)
        return [seq(start, Tag("arg", seq(Ref(self._begun(number)), UNCLOSED)), self._end_without_closer())]

    def _end_without_closer(self) -> Node:
        closed = delimiter_after(self.pieces, self.pieces.index(Slot.VALUE))
        return seq(layout_before(closed.before or self._layout()), marker(self._ending(), self.controls))

    def _open_ended(self) -> bool:
        """True: a value is text up to whatever comes next, so all white space but the template's own is the value's."""
        told = self.opening.text and self.closing and not self._separator() and self.tail == EMPTY
        behind = self.pieces[self.pieces.index(Slot.VALUE) + 1 :] if Slot.VALUE in self.pieces else ()
        closed = any(not isinstance(piece, Marker) or piece.text for piece in behind)
        return bool(told) and self._reads_containers() and not closed

    def _between(self) -> str:
        """The white space that the template writes between a value and the next argument."""
        return self.profile.argument_separator.written + self.opening.before

    def _separator(self) -> str:
        """The text between two arguments."""
        return self.profile.argument_separator.text or (COMMA.text if self.literal else "")

    def value_tag(self, kind: str) -> str:
        """The region in which a value is read whose schema asks for this kind of reading."""
        if kind == "string":
            return "value.json" if self.styles.get("string") is ValueStyle.JSON else "value.string"
        written = {self.styles.get(name, ValueStyle.JSON) for name in ("object", "array")}
        return "value.json" if kind == "json" and ValueStyle.UNKNOWN not in written else "value.typed"

    def _kinds(self, name: str | None) -> dict[str, list[str]]:
        """Region -> the declared parameters that are read in it; the others are read as ``value.typed``.

        Where a word tells strings, ``value.typed`` has those that are none whatever the word says.
        """
        tool = None if name is None else self.tools.get(name)
        root = None if tool is None else tool.parameters
        kinds: dict[str, list[str]] = {}
        declared = resolve(root, root)
        properties = declared.get("properties") if isinstance(declared, dict) else None
        for key in properties if isinstance(properties, dict) else ():
            wanted = parameter_schema(root, key, root)
            region, types = self.value_tag(value_kind(wanted, root)), declared_types(wanted, root)
            never_string = self.string_word is not None and bool(types) and "string" not in types
            if key and (region != "value.typed" or never_string):
                kinds.setdefault(region, []).extend(spellings(key, self.profile.escapes.key))
        return kinds

    def _argument(self, kinds: dict[str, list[str]], number: str, *, closed: bool = True) -> Node:
        """An argument behind its opener; up to the end of its value, unless ``closed``."""
        ways: list[Node] = []
        if self.profile.syntax is not None:
            colon = marker(self.profile.syntax.colon.strip(), self.controls)
            return seq(syntax_key(self.profile.syntax, self.controls), GAP, colon, GAP, Ref("syntax.value"))
        if self.literal:
            return self._written(run_of(self._key_ends()), "value.json", number)
        for region, keys in kinds.items():
            key = alt(*(lit(key) for key in keys))
            ways.append(self._written(key, region, number, declared=True, closed=closed))
        known = [key for keys in kinds.values() for key in keys]
        excluded = self._key_ends()
        other = other_than(known, excluded, self._behind_key(), self.controls) if known else run_of(excluded)
        if self.string_word is not None:
            word = _mark(self.string_word)
            ways.append(self._written(other, "value.string", number, word=word, closed=closed))
        ways.append(self._written(other, "value.typed", number, word=self._other_word(), closed=closed))
        return alt(*ways, *self._unquoted(known))

    def _unquoted(self, declared: Sequence[str]) -> list[Node]:
        """Arguments as Python has them, where the template puts every value in the same quotes."""
        if not self.quote:
            return []
        value = Tag("value.json", Ref("literal.value"))
        equals = seq(GAP, lit("="), GAP, Negate(lit(self.quote)))
        known = [seq(Tag("key", alt(*map(lit, declared))), equals, Commit("body"), value)] if declared else []
        return [*known, seq(Tag("key", run_of(KEY_ENDS + "=")), equals, value)]

    def _other_word(self) -> Node | None:
        """A type word that says anything but that the value is a string; None: such words tell nothing."""
        if self.string_word is None:
            return None
        if self.marks:
            return alt(*(_mark(text) for text in self.marks if text != self.string_word))
        following = delimiter_after(self.pieces, self.pieces.index(Slot.TYPE))
        return other_than([self.string_word], SPACES + word_end(following), (following.text,), self.controls)

    def _key_ends(self) -> str:
        at = self.pieces.index(Slot.KEY) if Slot.KEY in self.pieces else None
        following = self.pieces[at + 1] if at is not None and at + 1 < len(self.pieces) else None
        text = following.text if isinstance(following, Marker) else ""
        if isinstance(following, Marker) and text and not word_end(following):
            text = SPACES[0]
        if self.literal:
            return KEY_ENDS + text[:1]
        # Where nothing opens an argument its key would begin with the separator in front of it.
        lead = "" if self.opening.text else self._separator()[:1]
        return "\n\r" + lead + (text[0] if text else SPACES)

    def _behind_key(self) -> tuple[str, ...]:
        """The text that follows a key."""
        at = self.pieces.index(Slot.KEY) if Slot.KEY in self.pieces else len(self.pieces)
        return tuple(piece.text for piece in self.pieces[at + 1 : at + 2] if isinstance(piece, Marker))

    def _written(
        self,
        key: Node,
        region: str,
        number: str,
        *,
        declared: bool = False,
        word: Node | None = None,
        closed: bool = True,
    ) -> Node:
        """One argument behind its opener, with this way to read the key and the type word, its value in this region."""
        settles = declared and not self.opening.text
        vague = bool(self.opening.text) and not distinctive(self.opening.text)
        out: list[Node] = []
        for at, piece in enumerate(self.pieces):
            if piece is Slot.VALUE:
                return seq(*out, self._value(at, region, number), *(self._behind_value(at) if closed else ()))
            if piece is Slot.KEY and vague and Slot.TYPE in self.pieces[:at]:
                out.append(Commit("body"))  # the type word and what follows it are as good as an opener
            out.append(word if piece is Slot.TYPE and word is not None else self._piece(at, key))
            if settles and isinstance(piece, Marker) and piece.text and Slot.KEY in self.pieces[:at]:
                out.append(Commit("body"))  # a declared key in its marker is as good as an opener
        return seq(*out) if out else NOTHING

    def _piece(self, at: int, key: Node | None = None) -> Node:
        """A piece of an argument beside its value."""
        piece = self.pieces[at]
        following = self.pieces[at + 1] if at + 1 < len(self.pieces) else None
        if piece is Slot.KEY and key is not None:
            return Tag("key", key)
        if isinstance(piece, Marker):
            behind = at > 0 and self.pieces[at - 1] is Slot.VALUE
            if not piece.text and not behind and following is Slot.KEY:
                return Repeat(chars(SPACES), min=1)  # nothing else parts a type word from the key
            lead = layout_before(piece.before) if behind else GAP
            # Behind an opener the text in front of the value is markers alone.
            settles = bool(self.opening.text) and Slot.VALUE not in self.pieces[:at]
            text = loose(piece.text, self.controls, settles=settles) if piece.text else EMPTY
            return seq(lead, text, GAP if piece.after and following not in (None, Slot.VALUE) else EMPTY)
        ends = SPACES + (word_end(following) if isinstance(following, Marker) else "")
        known = alt(*(lit(word) for word in dict.fromkeys(word for _, word in self.profile.type_words)))
        if piece is Slot.TYPE and Slot.VALUE in self.pieces[:at]:
            return known  # a closer: any other word is text of the value
        if piece is Slot.TYPE and self.marks:
            return alt(*map(_mark, self.marks))
        return run_of(ends if distinctive(self.opening.text) else ends + "</>\"'")

    def _behind_value(self, at: int) -> list[Node]:
        return [self._piece(behind) for behind in range(at + 1, len(self.pieces))]

    def _value(self, at: int, region: str, number: str) -> Node:
        if self.literal:
            return seq(GAP, Tag("value.json", Ref("literal.value")))
        before = self.pieces[at - 1] if at else self.opening
        text: Node = TEXT
        if region in _CONTAINERS and self._reads_containers():
            text = alt(seq(GAP, container(self.prefix, self._label(region, number)), TEXT), TEXT)
        value: Node = Tag(region, text)
        if wraps_values(delimiter_after(self.pieces, at).text):
            wrapped = seq(GAP, lit(CDATA[0]), Commit("body"), Tag(region, TEXT), lit(CDATA[1]), GAP)
            value = alt(wrapped, value)
        return seq(layout_after(before.after) if isinstance(before, Marker) else EMPTY, value)


def _mark(text: str) -> Node:
    """What beside a key tells the type of its value; white space in front of a mark is layout."""
    return lit(text) if text == text.strip() else seq(GAP, lit(text.strip()))
