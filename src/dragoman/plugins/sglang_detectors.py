"""SGLang's detectors ``dragoman``: calls and reasoning as the server's own chat template writes them.

SGLang hands text only, and from the reasoning detector to the tool detector. So the first gives on what stands behind
reasoning as it was written, and the second begins behind it.
"""

from __future__ import annotations

import codecs
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

from sglang.srt.function_call.base_format_detector import BaseFormatDetector
from sglang.srt.function_call.core_types import StreamingParseResult, StructureInfo, ToolCallItem
from sglang.srt.parser.reasoning_parser import BaseReasoningFormatDetector
from sglang.srt.parser.reasoning_parser import StreamingParseResult as ReasoningResult

from dragoman.chat import Delta
from dragoman.dialect.facts import thinking_tags, triggers
from dragoman.errors import DragomanError, SchemaError, UsageError
from dragoman.events import Closed, Event, Opened, Text
from dragoman.format import ChatFormat
from dragoman.plugins.reading import Asked, behind_reasoning, turn_of
from dragoman.plugins.tokenizer import proven_format
from dragoman.template.profile import ReasoningMode
from dragoman.turn import Turn

# What the grammar backend of the same name reads of a structural tag; other backends read the tag itself.
REQUEST = "dragoman"


class Tag:
    """A structural tag as SGLang passes it on: ``format`` may be changed in place, ``model_dump`` gives all of it."""

    def __init__(self, tag: Mapping[str, Any], request: Mapping[str, Any]) -> None:
        self.format = tag["format"]
        self.request = request

    def model_dump(self, **_: Any) -> dict[str, Any]:
        return {"type": "structural_tag", "format": self.format, REQUEST: self.request}


class DragomanDetector(BaseFormatDetector):  # type: ignore[misc, unused-ignore]
    """Reads calls. One instance for each output that is streamed.

    tokenizer: the server's; where SGLang gives none, the last one given in this process, for it serves one model.
    A call whose name was not declared is given on: whether it is run is not the parser's to decide.
    Raises: UsageError, TemplateError where the template does not show how calls are written.
    """

    _last: ClassVar[ChatFormat | None] = None

    def __init__(self, tokenizer: Any = None) -> None:
        super().__init__()
        self.format = self._format(tokenizer)
        turn = turn_of(self.format, Asked())
        tools = self.format.profile.tools
        self._openers = triggers(self.format.profile, turn.request)
        self.bot_token = tools.section_open.text or (self._openers[0] if self._openers else "") if tools else ""
        self.eot_token = tools.section_close.text if tools else ""
        self._turn: Turn | None = None

    @classmethod
    def _format(cls, tokenizer: Any) -> ChatFormat:
        if tokenizer is not None:
            cls._last = proven_format(tokenizer, claim="tool_calls")
        if cls._last is None:
            raise UsageError(
                "the tool-call parser dragoman learns from the tokenizer's chat template and was given no tokenizer",
                param="tokenizer",
            )
        return cls._last

    # -- reading ---------------------------------------------------------------------------------------------------

    def has_tool_call(self, text: str) -> bool:
        """True: the text holds a call, or the beginning of one whose name is known."""
        return bool(self._read(text, Asked(undeclared_calls=True)).message.tool_calls)

    def detect_and_parse(self, text: str, tools: Sequence[Any]) -> Any:
        """The calls and the other text of a whole output. tool_index: the tool's place in the request, or -1."""
        message = self._read(text, self._asked(tools)).message
        places = self._get_tool_indices(list(tools))
        calls = [
            ToolCallItem(tool_index=places.get(call.name, -1), name=call.name, parameters=call.arguments)
            for call in message.tool_calls
        ]
        return StreamingParseResult(normal_text=message.content, calls=calls)

    def parse_streaming_increment(self, new_text: str, tools: Sequence[Any]) -> Any:
        """What this piece settles. tool_index: the call's number in this output."""
        if self._turn is None:
            self._turn = turn_of(self.format, self._behind(self._asked(tools)))
        return self._result(self._turn, self._turn.feed(new_text) if new_text else [])

    def finish(self, tools: Sequence[Any]) -> Any:
        """The output is over: what was held back."""
        if self._turn is None:
            return StreamingParseResult()
        turn, self._turn = self._turn, None
        return self._result(turn, turn.finish())

    def _result(self, turn: Turn, deltas: Sequence[Delta]) -> Any:
        calls = turn.message.tool_calls
        # What SGLang compares when a stream ends: nothing is left to be sent.
        self.prev_tool_call_arr = [{"name": call.name, "arguments": call.arguments} for call in calls]
        self.streamed_args_for_tool = [call.arguments for call in calls]
        self.current_tool_id = len(calls) - 1
        self.current_tool_name_sent = bool(calls)
        return StreamingParseResult(
            normal_text="".join(delta.content for delta in deltas),
            calls=[
                ToolCallItem(tool_index=piece.index, name=piece.name, parameters=piece.arguments)
                for delta in deltas
                for piece in delta.tool_calls
            ],
        )

    def _read(self, text: str, asked: Asked) -> Turn:
        turn = turn_of(self.format, self._behind(asked))
        turn.feed(text)
        turn.finish()
        return turn

    def _behind(self, asked: Asked) -> Asked:
        """The prompt's end left out: reasoning was taken off before, or is to stay in the text."""
        header = self.format.profile.assistant_header
        return Asked(
            tools=asked.tools, undeclared_calls=asked.undeclared_calls, prompt_end=header, read_reasoning=False
        )

    def _asked(self, tools: Sequence[Any], **more: Any) -> Asked:
        return Asked(tools=tuple(map(_tool, tools)), **more)

    # -- constraints -----------------------------------------------------------------------------------------------

    def supports_structural_tag(self) -> bool:
        return True

    def get_structural_tag(
        self,
        tools: Sequence[Any] | None = None,
        tool_choice: Any = "auto",
        thinking_mode: bool = False,
        parallel_tool_calls: bool = True,
    ) -> Any:
        """The tag of a request: from its first token on with ``thinking_mode``, else from behind the reasoning.

        Schemas hold for strict tools, for the others as far as they can be enforced.
        Raises: UsageError, SchemaError for what cannot be enforced.
        """
        declared = tuple(map(_tool, tools or ()))
        if not declared:
            return None
        loose = tuple(tool if tool["function"].get("strict") else _without_schema(tool) for tool in declared)
        for tried in (declared, loose):
            asked = Asked(
                tools=tried,
                tool_choice=_choice(tool_choice),
                parallel=None if parallel_tool_calls else False,
                prompt_end=None if thinking_mode else behind_reasoning(self.format),
            )
            try:
                tag = turn_of(self.format, asked).grammar.to_structural_tag()
            except SchemaError as error:
                if tried is loose:
                    raise ValueError(str(error)) from error
                continue
            except DragomanError as error:
                raise ValueError(str(error)) from error
            return Tag(tag, {"tools": tried, "tool_choice": asked.tool_choice, "parallel": asked.parallel})
        return None

    def structure_info(self) -> Any:
        """Name -> the texts around a call's arguments. Raises: UsageError for a format that has no such texts."""

        def info(name: str) -> Any:
            tool = {"type": "function", "function": {"name": name}}
            asked = Asked(tools=(tool,), tool_choice="required", prompt_end=behind_reasoning(self.format))
            found = _first_tag(turn_of(self.format, asked).grammar.to_structural_tag())
            if found is None:
                raise UsageError("this format's calls are not a text, arguments and a text: use get_structural_tag")
            begin, end = found["begin"], found["end"]
            trigger = next((text for text in self._openers if text and begin.startswith(text)), begin)
            return StructureInfo(begin=begin, end=end, trigger=trigger)

        return info


class DragomanReasoningDetector(BaseReasoningFormatDetector):  # type: ignore[misc, unused-ignore]
    """Tells reasoning apart, from the prompt's end on. One instance for each output that is streamed.

    force_reasoning False: the request switched reasoning off, so the prompt did not open it though it usually does.
    tool_call_parser_active: what stands behind reasoning goes on as written, for the tool detector; else it is read to
    the end here, without wrappers and stops.
    """

    _last: ClassVar[ChatFormat | None] = None

    def __init__(
        self,
        stream_reasoning: bool = True,
        force_reasoning: bool | None = None,
        continue_final_message: bool = False,
        previous_content: Any = "",
        force_nonempty_content: bool = False,
        tokenizer: Any = None,
        tool_call_parser_active: bool = False,
    ) -> None:
        cls = type(self)
        if tokenizer is not None:
            cls._last = proven_format(tokenizer, claim="content")
        if cls._last is None:
            raise UsageError(
                "the reasoning parser dragoman learns from the tokenizer's chat template and was given no tokenizer",
                param="tokenizer",
            )
        self.format = cls._last
        opening, closing = thinking_tags(self.format.profile) or ("", "")
        own = turn_of(self.format, Asked())
        own.feed("x")  # the model may open the block once more, so a first word tells whether it is open
        opens = bool(own.prompt.written) and "reasoning" in own.reader.path
        super().__init__(
            opening,
            closing,
            force_reasoning=opens and force_reasoning is not False,
            stream_reasoning=stream_reasoning,
            reasoning_default=self._default(opens),
            force_nonempty_content=force_nonempty_content,
        )
        header = self.format.profile.assistant_header
        said = previous_content if continue_final_message and isinstance(previous_content, str) else ""
        self._end = (own.generation_prompt if opens and force_reasoning is not False else header) + said
        self._raw = tool_call_parser_active
        self._turn: Turn | None = None
        self._split: _Split | None = None
        self._held = ""

    def _default(self, opens: bool) -> str:
        """How SGLang finds out whether a request wants reasoning, where the template's switch is not known to it."""
        profile = self.format.profile
        if profile.reasoning.mode is ReasoningMode.NONE:
            return "explicit_enable_thinking"
        switch = profile.reasoning.switch
        if switch in ("thinking", "enable_thinking"):
            return switch if opens else f"explicit_{switch}"
        return "always" if opens else "explicit_enable_thinking"

    def detect_and_parse(self, text: str) -> Any:
        """(reasoning, the other text) of a whole output."""
        self._turn = self._split = None
        first, last = self.parse_streaming_increment(text), self.finish()
        both = ReasoningResult(
            normal_text=first.normal_text + last.normal_text, reasoning_text=first.reasoning_text + last.reasoning_text
        )
        return self._maybe_apply_force_nonempty_content(both)

    def parse_streaming_increment(self, new_text: str) -> Any:
        """What this piece settles."""
        if self._turn is None:
            self._turn = turn_of(self.format, Asked(prompt_end=self._end, undeclared_calls=self._raw))
            self._split = _Split(self._turn) if self._raw else None
        if self._split is not None:
            reasoning, normal = self._split.feed(new_text)
        else:
            reasoning, normal = _texts(self._turn.feed(new_text) if new_text else [])
        if not self.stream_reasoning:
            self._held += reasoning
            reasoning = ""
            if normal or self._is_over():
                reasoning, self._held = self._held, ""
        return ReasoningResult(normal_text=normal, reasoning_text=reasoning)

    def finish(self) -> Any:
        """The output is over: what was held back."""
        if self._turn is None:
            return ReasoningResult()
        reasoning, normal = self._split.finish() if self._split is not None else _texts(self._turn.finish())
        self._turn = self._split = None
        reasoning, self._held = self._held + reasoning, ""
        return ReasoningResult(normal_text=normal, reasoning_text=reasoning)

    def _is_over(self) -> bool:
        if self._split is not None:
            return self._split.over
        return self._turn is not None and bool(self._turn.message.content)


class _Split:
    """Text in two: reasoning as read, and all that stands behind it as written."""

    def __init__(self, turn: Turn) -> None:
        turn.feed("")  # from here on the reader reads text
        self._reader = turn.reader
        self._closer = (thinking_tags(turn.format.profile, turn.request) or ("", ""))[1].encode()
        self._layout = turn.format.profile.reasoning.close.after  # of the closer, as far as it is still to come
        self._inside = "reasoning" in self._reader.path
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self._text = b""
        self.over = False

    def feed(self, text: str) -> tuple[str, str]:
        """(reasoning, text behind it) that this piece settles."""
        if self.over:
            return "", self._without_layout(text)
        data = text.encode("utf-8", "replace")
        self._text += data
        return self._take(self._reader.feed(data))

    def finish(self) -> tuple[str, str]:
        """The same for what was held back."""
        if self.over:
            return "", ""
        inside = self._inside
        reasoning, normal = self._take(self._reader.finish("length"))
        if self.over or inside or reasoning:
            return reasoning, normal
        return "", self._rest(0)

    def _take(self, events: Sequence[Event]) -> tuple[str, str]:
        reasoning = ""
        for event in events:
            if isinstance(event, Text) and self._inside:
                reasoning += self._decoder.decode(event.data)
            elif isinstance(event, Opened) and event.tag == "reasoning":
                self._inside = True
            elif isinstance(event, Opened):
                return reasoning, self._rest(0)
            elif isinstance(event, Closed) and event.tag == "reasoning":
                return reasoning, self._behind(event.position)
        return reasoning, ""

    def _behind(self, position: int) -> str:
        """What was written behind reasoning that ended there: without its closer, but with a call that cut it off."""
        rest = self._text[max(position, 0) :]
        bare = rest.lstrip()
        if self._closer and bare.startswith(self._closer):
            rest = bare[len(self._closer) :]
        else:
            self._layout = ""
        self.over = True
        return self._without_layout(rest.decode("utf-8", "replace"))

    def _rest(self, position: int) -> str:
        self.over, self._layout = True, ""
        return self._text[position:].decode("utf-8", "replace")

    def _without_layout(self, text: str) -> str:
        """``text`` without what the template writes behind its closer; a model may leave it out."""
        size = 0
        while self._layout and size < len(text) and text[size] == self._layout[0]:
            size, self._layout = size + 1, self._layout[1:]
        if size < len(text):
            self._layout = ""
        return text[size:]


def _texts(deltas: Sequence[Delta]) -> tuple[str, str]:
    return "".join(d.reasoning_content for d in deltas), "".join(d.content for d in deltas)


def _tool(tool: Any) -> dict[str, Any]:
    value = dict(tool) if isinstance(tool, Mapping) else tool.model_dump(mode="json", exclude_none=True)
    return value if "function" in value else {"type": "function", "function": value}


def _without_schema(tool: Mapping[str, Any]) -> dict[str, Any]:
    return {**tool, "function": {**tool["function"], "parameters": None}}


def _choice(choice: Any) -> Any:
    if choice is None or isinstance(choice, str):
        return choice or "auto"
    value = choice if isinstance(choice, Mapping) else choice.model_dump(mode="json", exclude_none=True)
    function = value.get("function") or value
    return {"type": "function", "function": {"name": function.get("name")}}


def _first_tag(value: Any) -> Mapping[str, Any] | None:
    """The first tag in a structural tag."""
    if isinstance(value, Mapping):
        if value.get("type") == "tag":
            return value
        value = list(value.values())
    if isinstance(value, list):
        return next((found for item in value if (found := _first_tag(item)) is not None), None)
    return None
