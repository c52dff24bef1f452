"""vLLM's reasoning parser ``dragoman``: where reasoning ends, for the engine core too, by token ids."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from vllm.reasoning.abs_reasoning_parsers import ReasoningParser

from dragoman.chat import Delta
from dragoman.dialect.facts import thinking_tags
from dragoman.errors import UsageError
from dragoman.plugins.reading import Asked, Stream, decoder, prompt_end, turn_of
from dragoman.plugins.reasoning import Scan
from dragoman.plugins.tokenizer import proven_format
from dragoman.plugins.vllm_values import constrain, delta_message


class DragomanReasoningParser(ReasoningParser):
    """Tells reasoning apart as the tokenizer's chat template writes it. One instance for each request.

    Raises: UsageError, TemplateError for a template that did not prove its answers, or a tokenizer without a
    tokenizer.json.
    """

    is_dragoman = True
    engine_based_streaming = True

    def __init__(self, tokenizer: Any, *args: Any, **kwargs: Any) -> None:
        super().__init__(tokenizer, *args, **kwargs)
        self.format = proven_format(tokenizer, claim="content")
        if self.format.vocab is None:
            raise UsageError(
                "the reasoning parser dragoman reads token ids and needs a tokenizer with a tokenizer.json; "
                f"{type(tokenizer).__name__} has none",
                param="tokenizer",
            )
        self._variables = kwargs.get("chat_template_kwargs") or {}
        self._decode = decoder(self.format, tokenizer)
        self._tags = thinking_tags(self.format.profile)
        self._closer = self.format.vocab.controls.get(self._tags[1]) if self._tags else None
        self._end: str | None = None
        self._scan: Scan | None = None
        self._stream: Stream | None = None
        self._ids: list[int] = []  # of the stream so far
        self._handed = 0  # content ids that were given on
        self._counted: tuple[list[int], Scan] | None = None

    @property
    def reasoning_start_str(self) -> str | None:
        return (self._tags[0] or None) if self._tags else None

    @property
    def reasoning_end_str(self) -> str | None:
        return self._tags[1] if self._tags else None

    def adjust_request(self, request: Any) -> Any:
        """Markers have to stay in the text."""
        return constrain(request, None)

    def set_prompt_token_ids(self, prompt_token_ids: Sequence[int]) -> None:
        """What the prompt opened or closed decides how the output begins."""
        self._end = prompt_end(self.format, prompt_token_ids, self._decode)
        self._scan = self._stream = self._counted = None
        self._ids, self._handed = [], 0

    def adjust_initial_state_from_prompt(self, prompt_token_ids: Sequence[int]) -> None:
        self.set_prompt_token_ids(prompt_token_ids)

    # -- the places of reasoning, by ids ---------------------------------------------------------------------------

    def is_reasoning_end(self, input_ids: Sequence[int]) -> bool:
        """True: behind these ids (a prompt, or a prompt and its output) reasoning is over, or there can be none."""
        end = prompt_end(self.format, input_ids, self._decode)
        if end is not None:
            return self._new_scan(end).ended
        scan = self._new_scan(self._end)
        scan.feed(input_ids)
        return scan.ended

    def is_reasoning_end_streaming(self, input_ids: Sequence[int], delta_ids: Iterable[int]) -> bool:
        """True: reasoning ends within the last ids. Looks at those only: it is asked at every step."""
        new = list(delta_ids)
        if self._closer is not None:
            return self._closer in new
        if self._tags is None:
            return True
        closer = self._tags[1].encode()
        assert self.format.vocab is not None
        last = list(input_ids[-(len(new) + len(closer)) :])
        before = self.format.vocab.decode(last[: len(last) - len(new)])
        at = (before + self.format.vocab.decode(new)).rfind(closer)
        return at >= 0 and at + len(closer) > len(before)

    def extract_content_ids(self, input_ids: list[int]) -> list[int]:
        """The ids behind reasoning. In a stream: all that were not handed on yet."""
        if self._scan is not None and self._ids[-len(input_ids) :] == list(input_ids):
            return self._take_content()
        scan = self._new_scan(self._end)
        scan.feed(input_ids)
        return [] if scan.content_from is None else list(input_ids[scan.content_from :])

    def count_reasoning_tokens(self, token_ids: Sequence[int]) -> int:
        """How many of a generation's tokens are reasoning, its markers left out. Goes on where it stopped."""
        ids = list(token_ids)
        if self._counted is None or ids[: len(self._counted[0])] != self._counted[0]:
            self._counted = ([], self._new_scan(self._end))
        known, scan = self._counted
        scan.feed(ids[len(known) :])
        known += ids[len(known) :]
        return scan.count()

    # -- reading ---------------------------------------------------------------------------------------------------

    def extract_reasoning(self, model_output: str, request: Any) -> tuple[str | None, str | None]:
        """(reasoning, the rest with its call markup) of a whole output, by its text."""
        turn = turn_of(self.format, Asked(tool_choice="none", variables=self._variables, prompt_end=self._end))
        turn.feed(model_output)
        turn.finish()
        return turn.message.reasoning_content or None, turn.message.content or None

    def extract_reasoning_streaming(
        self,
        previous_text: str,
        current_text: str,
        delta_text: str,
        previous_token_ids: Sequence[int],
        current_token_ids: Sequence[int],
        delta_token_ids: Sequence[int],
    ) -> Any:
        """The reasoning in this piece and, once it is over, the raw text behind it; None where nothing is settled."""
        if self._stream is None:
            self._scan = self._new_scan(self._end)
            asked = Asked(variables=self._variables, prompt_end=self._end, undeclared_calls=bool(delta_token_ids))
            self._stream = Stream(turn_of(self.format, asked))
        assert self._scan is not None
        deltas = self._stream.feed(delta_text, delta_token_ids)
        if not delta_token_ids:
            return delta_message(deltas)
        message = delta_message([delta for delta in deltas if delta.reasoning_content])
        self._ids += delta_token_ids
        self._scan.feed(delta_token_ids)
        if self._scan.content_from is None:
            return message
        content = self._decode(self._ids[self._scan.content_from + self._handed :])
        if not content:
            return message
        if message is None:
            return delta_message([Delta(content=content)])
        message.content = content
        return message

    def has_engine_confirmed_reasoning_end(self) -> bool:
        """True: the stream's reasoning is over."""
        if self._scan is not None and self._scan.size:
            return self._scan.ended
        return self._stream is not None and bool(self._stream.turn.message.content)

    def finish_streaming(self) -> Any:
        """What was held back; at the end of reasoning that is nothing, for the rest goes on as ids."""
        if self._stream is None or self.has_engine_confirmed_reasoning_end():
            return None
        return delta_message(self._stream.finish())

    def _take_content(self) -> list[int]:
        assert self._scan is not None
        if self._scan.content_from is None:
            return []
        content = self._ids[self._scan.content_from + self._handed :]
        self._handed += len(content)
        return content

    def _new_scan(self, end: str | None) -> Scan:
        return Scan(self.format, Asked(variables=self._variables, prompt_end=end))
