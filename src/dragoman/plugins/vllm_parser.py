"""vLLM's parser of a whole turn: reasoning, answer and calls by one reader, from the prompt's end on, by token ids."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from vllm.parser.abstract_parser import Parser

from dragoman.errors import DragomanError
from dragoman.plugins.reading import Asked, Stream, behind_reasoning, decoder, prompt_end, turn_of
from dragoman.plugins.reasoning import Scan
from dragoman.plugins.tokenizer import format_of
from dragoman.plugins.vllm_values import (
    asked_of,
    constrain,
    constrained,
    delta_message,
    enforces,
    holds_reasoning,
    protocol,
    reads_text,
    refusal,
)


def whole_turn(composed: type[Any]) -> type[DragomanParser]:
    """The parser that stands for a composed one."""
    fields = ("reasoning_parser_cls", "tool_parser_cls", "tool_strict_level")
    made = {name: getattr(composed, name, None) for name in fields}
    return type("DragomanParser", (DragomanParser,), made)


class DragomanParser(Parser):
    """One request's output. Streamed or whole, and however it is cut, the message is the same."""

    always_adjust_request = True

    def __init__(self, tokenizer: Any, tools: Any = None, *args: Any, **kwargs: Any) -> None:
        super().__init__(tokenizer, tools, *args, **kwargs)
        self.format = format_of(tokenizer)
        self._variables = kwargs.get("chat_template_kwargs") or {}
        self._decode = decoder(self.format, tokenizer)
        self._prompt: list[int] | None = None
        self._end: str | None = None
        self._stream: Stream | None = None
        self._by_text = False
        self._scan: Scan | None = None
        self._scanned: list[int] = []

    def set_prompt_token_ids(self, prompt_token_ids: Sequence[int]) -> None:
        """The rendered prompt: its end says what was opened for the turn."""
        ids = list(prompt_token_ids)
        if ids == self._prompt:
            return
        self._prompt, self._stream = ids, None
        self._end = prompt_end(self.format, ids, self._decode)
        if self._reasoning_parser is not None:
            self._reasoning_parser.set_prompt_token_ids(ids)

    def adjust_request(self, request: Any) -> Any:
        """Hold the output to the request's tool choice, strict tools and response format, from its first token on."""
        tag = None
        if enforces() and self._tool_parser is not None:
            level = self.tool_strict_level
            if level is None:
                level = self._tool_parser.default_tool_strict_level
            asked = self._asked(request)
            if self._reasoning_parser is not None and not holds_reasoning(request):
                asked = replace(asked, prompt_end=behind_reasoning(self.format))
            tag = constrained(self.format, asked, request, None if level is None else int(level))
        return constrain(request, tag)

    def is_reasoning_end(self, input_ids: list[int]) -> bool:
        return self._reasoning_parser is None or self._reasoning_parser.is_reasoning_end(input_ids)

    def count_reasoning_tokens(self, token_ids: Sequence[int]) -> int:
        """How many of a generation's tokens are reasoning, its markers left out. Goes on where it stopped."""
        if self._reasoning_parser is None or self.format.vocab is None:
            return 0
        ids = list(token_ids)
        if self._scan is None or ids[: len(self._scanned)] != self._scanned:
            asked = Asked(variables=self._variables, prompt_end=self._end)
            self._scan, self._scanned = Scan(self.format, asked, by_text=self._by_text), []
        self._scan.feed(ids[len(self._scanned) :])
        self._scanned = ids
        return self._scan.count()

    def parse(
        self,
        model_output: str,
        request: Any,
        enable_auto_tools: bool = False,
        model_output_token_ids: Sequence[int] = (),
    ) -> tuple[str | None, str | None, list[Any] | None]:
        """(reasoning, content, calls) of a whole output."""
        stream = self._new_stream(request)
        stream.feed(model_output, model_output_token_ids)
        stream.finish()
        message = stream.turn.message
        calls = [
            protocol.FunctionCall(id=call.id, name=call.name, arguments=call.arguments) for call in message.tool_calls
        ]
        return message.reasoning_content or None, message.content or None, calls or None

    def parse_delta(
        self,
        delta_text: str,
        delta_token_ids: list[int],
        request: Any,
        prompt_token_ids: list[int] | None = None,
        *,
        finished: bool,
    ) -> Any:
        """What this piece settles; None where that is nothing."""
        if self._prompt is None and prompt_token_ids is not None:
            self.set_prompt_token_ids(prompt_token_ids)
        if self._stream is None:
            self._stream = self._new_stream(request)
        deltas = self._stream.feed(delta_text, delta_token_ids)
        if finished:
            deltas += self._stream.finish()
        if not getattr(request, "include_reasoning", True):
            deltas = [delta for delta in deltas if not delta.reasoning_content]
        return delta_message(deltas)

    def _new_stream(self, request: Any) -> Stream:
        self._by_text, self._scan = reads_text(request), None
        asked = self._asked(request)
        if not asked.read_reasoning:
            # All that was generated is the answer, and nothing else: not what the prompt opened.
            asked = replace(asked, prompt_end=self.format.profile.assistant_header)
        try:
            turn = turn_of(self.format, asked)
        except DragomanError as error:
            raise refusal(error) from error
        return Stream(turn, by_text=self._by_text)

    def _asked(self, request: Any) -> Asked:
        variables = {**(getattr(request, "chat_template_kwargs", None) or {}), **self._variables}
        return asked_of(
            request,
            variables=variables,
            prompt_end=self._end,
            read_reasoning=self._reasoning_parser is not None,
            read_tools=self._tool_parser is not None,
        )
