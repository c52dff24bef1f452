"""vLLM's tool parser ``dragoman``, for a composed parser. :mod:`dragoman.plugins.vllm_parser` reads whole turns."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from vllm.tool_parsers.abstract_tool_parser import ToolParser

from dragoman.errors import DragomanError
from dragoman.plugins.reading import Asked, Stream, behind_reasoning, turn_of
from dragoman.plugins.tokenizer import proven_format
from dragoman.plugins.vllm_values import (
    asked_of,
    constrain,
    constrained,
    delta_message,
    enforces,
    extracted,
    holds_reasoning,
    reads_text,
    refusal,
)


class DragomanToolParser(ToolParser):
    """Reads calls as the tokenizer's chat template writes them. One instance for each request.

    It reads what a reasoning parser left; without one, markers of reasoning are the answer's text.
    Raises: UsageError, TemplateError where the template does not show how calls are written.
    """

    is_dragoman = True
    # Calls of a required or named choice come in the model's own form too, held there by a structural tag.
    supports_required_and_named = False
    engine_based_streaming = True

    def __init__(self, tokenizer: Any, tools: Any = None, **kwargs: Any) -> None:
        super().__init__(tokenizer, tools)
        self.format = proven_format(tokenizer, claim="tool_calls")
        self.skip_reasoning_parsing = False  # set by vLLM where no reasoning parser stands in front
        self._variables = kwargs.get("chat_template_kwargs") or {}
        self._stream: Stream | None = None

    # -- constraints -----------------------------------------------------------------------------------------------

    def adjust_request(self, request: Any) -> Any:
        """Hold the output to the request's tool choice, strict tools and response format, from its first token on."""
        asked = self._asked(request, prompt_end=None if holds_reasoning(request) else behind_reasoning(self.format))
        tag = constrained(self.format, asked, request, self.default_level) if enforces() else None
        return constrain(request, tag)

    @property
    def default_level(self) -> int:
        return int(self.default_tool_strict_level or 0)

    def get_structural_tag(self, request: Any, *, reasoning: bool = False, strict_level: Any = 0) -> Any:
        """The tag of a request: from the first token on with ``reasoning``, else from behind the reasoning."""
        if not enforces():
            return None
        asked = self._asked(request) if reasoning else self._asked(request, prompt_end=behind_reasoning(self.format))
        tag = constrained(self.format, asked, request, int(strict_level or 0))
        if tag is None:
            return None
        from xgrammar import StructuralTag

        return StructuralTag.model_validate(tag)

    # -- reading ---------------------------------------------------------------------------------------------------

    def extract_tool_calls(self, model_output: str, request: Any) -> Any:
        """The calls and the answer of a whole output, by its text."""
        stream = self._new_stream(request, by_text=True)
        stream.feed(model_output, ())
        stream.finish()
        return extracted(stream.turn.message)

    def extract_tool_calls_streaming(
        self,
        previous_text: str,
        current_text: str,
        delta_text: str,
        previous_token_ids: Sequence[int],
        current_token_ids: Sequence[int],
        delta_token_ids: Sequence[int],
        request: Any,
    ) -> Any:
        """What this piece settles; None where that is nothing."""
        if self._stream is None:
            self._stream = self._new_stream(request, by_text=reads_text(request))
        return self._said(self._stream, self._stream.feed(delta_text, delta_token_ids))

    def finish_streaming(self) -> Any:
        """The output is over: the last pieces."""
        return None if self._stream is None else self._said(self._stream, self._stream.finish())

    def _said(self, stream: Stream, deltas: Any) -> Any:
        if not deltas:
            return None
        # What vLLM compares when a stream ends: nothing is left to be sent.
        calls = stream.turn.message.tool_calls
        self.prev_tool_call_arr = [{"name": call.name, "arguments": call.arguments} for call in calls]
        self.streamed_args_for_tool = [call.arguments for call in calls]
        self.current_tool_id = len(calls) - 1
        self.current_tool_name_sent = bool(calls)
        return delta_message(deltas)

    def _new_stream(self, request: Any, *, by_text: bool) -> Stream:
        end = self._header() if self.skip_reasoning_parsing else behind_reasoning(self.format)
        asked = self._asked(request, prompt_end=end, read_reasoning=not self.skip_reasoning_parsing)
        try:
            return Stream(turn_of(self.format, asked), by_text=by_text)
        except DragomanError as error:
            raise refusal(error) from error

    def _asked(self, request: Any, *, prompt_end: str | None = None, read_reasoning: bool = True) -> Asked:
        variables = {**(getattr(request, "chat_template_kwargs", None) or {}), **self._variables}
        return asked_of(request, variables=variables, prompt_end=prompt_end, read_reasoning=read_reasoning)

    def _header(self) -> str:
        return self.format.profile.assistant_header
