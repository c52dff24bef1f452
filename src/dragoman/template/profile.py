"""What was learned from a template: frozen facts, each with its evidence. Unknown is a value, never a guess.

Rules of this file: data only, no learning, no grammar. A *piece* is either a :class:`Marker` (text that the template
writes) or a :class:`Slot` (a place that the conversation fills). A call is a sequence of pieces, so every format is
told in one way:

    Qwen2.5      <tool_call>\\n · OBJECT · \\n</tool_call>
    Mistral 3.2  [TOOL_CALLS] · NAME · [CALL_ID] · ID · [ARGS] · ARGS
    Qwen3-Coder  <tool_call>\\n<function= · NAME · >\\n · ARGS · </function>\\n</tool_call>
                 each of ARGS: <parameter= · KEY · >\\n · VALUE · \\n</parameter>\\n
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import Any, TypeAlias


@dataclass(frozen=True, slots=True)
class Marker:
    """Text that a template writes: layout white space before, the marker proper, layout white space after."""

    before: str = ""
    text: str = ""
    after: str = ""

    @classmethod
    def of(cls, written: str) -> Marker:
        """Split ``written`` into leading white space, text, trailing white space. White space alone is ``before``."""
        core = written.strip()
        if not core:
            return cls(before=written)
        at = written.index(core)
        return cls(written[:at], core, written[at + len(core) :])

    @property
    def written(self) -> str:
        return self.before + self.text + self.after

    def __bool__(self) -> bool:
        return bool(self.written)


class Slot(Enum):
    """A place that the conversation fills."""

    NAME = "name"
    ID = "id"
    ARGS = "args"  # the arguments: JSON text (TAG_WITH_JSON) or the tagged arguments (TAG_WITH_TAGGED)
    OBJECT = "object"  # JSON_NATIVE: one JSON object that holds name, arguments and perhaps the id
    KEY = "key"  # inside one tagged argument
    VALUE = "value"
    TYPE = "type"  # a type word beside the key (typed tags)
    INDEX = "index"  # a running number
    HEADER = "header"  # further words of a block's header, up to the next marker


Piece: TypeAlias = Marker | Slot


class ReasoningMode(Enum):
    NONE = "none"
    TAGGED = "tagged"  # the model may open and close it itself, anywhere the markers say
    PREOPENED = "preopened"  # the generation prompt opens it; the model closes it
    TOOLS_ONLY = "tools_only"  # rendered beside calls only
    UNKNOWN = "unknown"


class ContentMode(Enum):
    PLAIN = "plain"
    WRAPPED = "wrapped"  # always between open and close
    WRAPPED_WITH_REASONING = "wrapped_with_reasoning"  # wrapped only when there is reasoning
    WRAPPED_WITH_CALLS = "wrapped_with_calls"  # wrapped only beside calls


class ToolFormat(Enum):
    JSON_NATIVE = "json_native"
    TAG_WITH_JSON = "tag_with_json"
    TAG_WITH_TAGGED = "tag_with_tagged"


class ValueStyle(Enum):
    """How a tagged argument's value of one JSON type is written in the history."""

    RAW = "raw"  # a string as it is; other types as JSON
    JSON = "json"  # json.dumps, strings with quotes
    PYTHON = "python"  # str(): True, False, None, {'a': 1}
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class Evidence:
    """Why a fact is believed. source: ``scan`` (the template's text), ``probe`` (a rendering), ``family``."""

    source: str
    what: str

    def to_dict(self) -> dict[str, str]:
        return {"source": self.source, "what": self.what}


@dataclass(frozen=True, slots=True)
class ReasoningProfile:
    mode: ReasoningMode = ReasoningMode.NONE
    open: Marker = Marker()
    close: Marker = Marker()
    message_key: str | None = None  # the key of an assistant message that the template renders, e.g. reasoning_content
    # ... or "content.thinking": a part of the content, {"type": "thinking", "thinking": text}
    rendered_last: bool = False  # in the last assistant message
    rendered_old: bool = False  # in assistant messages before the last user message
    rendered_with_calls: bool = False
    after_content: bool = False  # the history writes it behind the answer's text or behind calls
    inline: bool = False  # history keeps it only as tagged text inside content
    switch: str | None = None  # template variable that turns it on and off, e.g. enable_thinking
    beside_calls: tuple[Marker, Marker] | None = None  # opener and closer of that in front of calls where it has others
    empty_block: str = ""  # a turn without reasoning starts with it in history, e.g. "<think>\n\n</think>\n\n"


@dataclass(frozen=True, slots=True)
class ContentProfile:
    mode: ContentMode = ContentMode.PLAIN
    open: Marker = Marker()
    close: Marker = Marker()
    trimmed: bool = False  # the history drops white space at both ends
    kept_with_calls: bool = True  # the history keeps text beside calls
    holds_calls: bool = False  # WRAPPED: what opens an answer stands in front of its calls too, once
    further: tuple[Marker, ...] = ()  # what models put around an answer beside that; read, never written


@dataclass(frozen=True, slots=True)
class JsonShape:
    """The object of a JSON_NATIVE call. Paths are key chains from the object's root, e.g. ("function", "name")."""

    name_path: tuple[str, ...] = ("name",)
    args_path: tuple[str, ...] = ("arguments",)
    id_path: tuple[str, ...] | None = None
    order: tuple[tuple[str, ...], ...] = (("name",), ("arguments",))  # all leaf paths as written
    constants: tuple[tuple[tuple[str, ...], str], ...] = ()  # (path, JSON text) of fixed fields
    name_is_key: bool = False  # {"get_weather": {...}}
    args_as_text: bool = False  # the arguments are a JSON string that holds JSON
    colon: str = ": "  # layout between key and value, as written
    comma: str = ", "
    open_pad: str = ""  # layout between { and the first key
    close_pad: str = ""


@dataclass(frozen=True, slots=True)
class ObjectSyntax:
    """Values in an object notation that is not JSON: strings between quotes of its own, keys bare or in these quotes.

    Numbers, words, brackets and braces are as in JSON: ``{town:<|"|>Brest<|"|>,days:[1,2]}``. colon, comma: with the
    white space around them.
    """

    quote_open: str
    quote_close: str
    colon: str = ":"
    comma: str = ","
    quoted_keys: bool = False


@dataclass(frozen=True, slots=True)
class NestedTags:
    """Tagged arguments whose objects and arrays are tags again: members by their key, items by one tag.

    An argument is ``open KEY close VALUE end_open KEY end_close``, on every level. item: the whole tag that opens an
    item; empty where objects and arrays are written otherwise.
    """

    open: str
    close: str
    end_open: str
    end_close: str
    item: str = ""

    @property
    def item_key(self) -> str:
        """The word in an item's tags."""
        return self.item[len(self.open) : len(self.item) - len(self.close)]


Word: TypeAlias = str | int | None  # what a template's variable is set to
Pairs: TypeAlias = tuple[tuple[str, str], ...]  # (character, as it is written)


@dataclass(frozen=True, slots=True)
class Escapes:
    """Characters that are spelled otherwise where they stand raw in a call: ``&amp;`` for ``&``.

    name, key, value: of the tool's name, of tagged arguments' keys, of their strings. json: values of other types are
    spelled as strings are.
    """

    name: Pairs = ()
    key: Pairs = ()
    value: Pairs = ()
    json: bool = False

    def __bool__(self) -> bool:
        return bool(self.name or self.key or self.value)


# Forms of the content of a message that makes calls.
BESIDE_CALLS = ("text", "empty", "null", "absent")


@dataclass(frozen=True, slots=True)
class ToolProfile:
    """How calls are written. Text as written is section_open + call (separator call)* + section_close.

    ``section_open.before`` is the layout that parts the calls from content; where no content stands before them the
    history may leave it away. So a section_open without text is no section, only this layout.
    """

    format: ToolFormat
    section_open: Marker = Marker()
    section_count: Marker = Marker()  # where section_open ends in front of the number of calls: what stands behind that
    section_close: Marker = Marker()
    separator: Marker = Marker()  # between two calls, e.g. ", " inside an array, "\\n"
    call: tuple[Piece, ...] = ()
    object: JsonShape | None = None  # JSON_NATIVE
    argument: tuple[Piece, ...] = ()  # TAG_WITH_TAGGED: one argument
    argument_separator: Marker = Marker()  # between two arguments
    value_styles: tuple[tuple[str, ValueStyle], ...] = ()  # per JSON type (string, integer, ...)
    type_words: tuple[tuple[str, str], ...] = ()  # JSON type -> the word that fills the TYPE slot
    parallel: bool = False  # the history renders more than one call of a message
    array: bool = False  # the calls are items of one JSON array (its brackets belong to section_open / section_close)
    ids_in_history: bool = False
    id_length: int | None = None  # where the template demands one
    needs_object_arguments: bool = False
    per_message: bool = False  # each call is a message of its own
    syntax: ObjectSyntax | None = None  # TAG_WITH_TAGGED: how values are spelled where that is not JSON
    nested: NestedTags | None = None  # TAG_WITH_TAGGED: the key is the tag, values may hold tags again
    escapes: Escapes = Escapes()
    beside_calls: tuple[str, ...] = BESIDE_CALLS  # the forms of content with which the history writes the calls

    @property
    def ids_after_arguments(self) -> bool:
        """True: a call's id is written behind its arguments."""
        if Slot.ID in self.call and Slot.ARGS in self.call:
            return self.call.index(Slot.ID) > self.call.index(Slot.ARGS)
        shape = self.object
        if shape is None or shape.id_path not in shape.order or shape.args_path not in shape.order:
            return False
        assert shape.id_path is not None
        return shape.order.index(shape.id_path) > shape.order.index(shape.args_path)


@dataclass(frozen=True, slots=True)
class Profile:
    """All that was learned from one template. ``evidence`` maps the name of a fact (``tools.call``) to why."""

    generation_prompt: str = ""  # what add_generation_prompt appends, with the default variables
    assistant_header: str = ""  # how an assistant turn starts in the history
    reasoning: ReasoningProfile = ReasoningProfile()
    content: ContentProfile = ContentProfile()
    tools: ToolProfile | None = None
    generic_tools: bool = False  # the template knows no tools: the generic dialect is used
    end_of_turn: tuple[str, ...] = ()  # stop texts, the first is the one that the template writes
    role_starts: Mapping[str, str] = field(default_factory=dict)  # role -> text that starts a turn of that role
    trailer: str = ""  # what is appended to every conversation, whoever spoke last
    thinking_switches: tuple[str, ...] = ()  # template variables that switch reasoning
    # switch -> its words for on and off, where these are not True and False; None: it is left alone
    thinking_words: Mapping[str, tuple[Word, Word]] = field(default_factory=dict)
    losses: frozenset[str] = frozenset()  # what the template drops: trim, reasoning, null, repr, ...
    baseline: Mapping[str, Any] = field(default_factory=dict)  # the winning rung of the probe ladder
    literals: tuple[str, ...] = ()  # literals of the template that look like markers
    evidence: Mapping[str, tuple[Evidence, ...]] = field(default_factory=dict)
    failure: str | None = None  # why no calls were learned: "raises: ...", "knows no tools", ...


def piece_text(piece: Piece) -> str:
    """A piece for people: markers as Python strings, slots in capitals."""
    return repr(piece.written) if isinstance(piece, Marker) else piece.name
