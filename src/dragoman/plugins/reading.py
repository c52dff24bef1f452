"""One turn read inside an engine: what its request asks, where its prompt ends, its output by token ids or by text.

An engine has rendered the prompt already, so nothing here writes one: of the prompt only its end matters, what it
opened for the turn that the model goes on with.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from dragoman.chat import Delta
from dragoman.dialect.facts import all_stops
from dragoman.errors import DragomanError, UsageError
from dragoman.format import ChatFormat
from dragoman.template.variables import check_variables
from dragoman.turn import Turn

# A prompt's end is looked for in its last tokens first: most prompts are long, and nearly all end in their header.
_NEAR_END = 256
_MESSAGES = ({"role": "user", "content": "."},)


@dataclass(frozen=True)
class Asked:
    """What a request asks of its turn, in the words of :meth:`ChatFormat.turn`.

    prompt_end: what the prompt wrote from the assistant's header on; None: unknown, so the template is asked.
    read_reasoning: reasoning is told apart; else its markers stay in the answer.
    """

    tools: tuple[Mapping[str, Any], ...] = ()
    tool_choice: Any = "auto"
    parallel: bool | None = None
    response_format: Mapping[str, Any] | None = None
    grammar: str | None = None
    variables: Mapping[str, Any] = field(default_factory=dict)
    prompt_end: str | None = None
    read_reasoning: bool = True
    undeclared_calls: bool = False


def turn_of(fmt: ChatFormat, asked: Asked) -> Turn:
    """The turn of a request. Raises: UsageError, SchemaError for what cannot be done."""
    return fmt.turn(
        _MESSAGES,
        asked.tools or None,
        tool_choice=asked.tool_choice,
        parallel_tool_calls=asked.parallel,
        response_format=asked.response_format,
        grammar=asked.grammar,
        chat_template_kwargs=_variables(asked.variables),
        reasoning_format="auto" if asked.read_reasoning else "none",
        undeclared_calls="call" if asked.undeclared_calls else "content",
        generation_prompt=asked.prompt_end,
    )


def prompt_end(fmt: ChatFormat, token_ids: Sequence[int], decode: Callable[[list[int]], str]) -> str | None:
    """What a prompt wrote from its last assistant header on; None where it has none, or where that turn is over."""
    for size in (_NEAR_END, len(token_ids)):
        found = end_of_text(fmt, decode(list(token_ids[-size:])))
        if found is not None or size >= len(token_ids):
            return found
    return None


def end_of_text(fmt: ChatFormat, text: str) -> str | None:
    """:func:`prompt_end` of a prompt's text."""
    profile = fmt.profile
    header, prompt = profile.assistant_header, profile.generation_prompt
    start = header[: next((i for i, (a, b) in enumerate(zip(header, prompt, strict=False)) if a != b), len(header))]
    if not start.strip():
        return None
    at = text.rfind(start)
    if at < 0:
        start = start.rstrip()
        at = text.rfind(start)
    if at < 0:
        return None
    rest = text[at + len(start) :]
    if any(stop in rest for stop in all_stops(profile) if stop not in prompt):
        return None
    return text[at:]


def behind_reasoning(fmt: ChatFormat) -> str:
    """A prompt's end as if the turn's reasoning were over."""
    reasoning = fmt.profile.reasoning
    block = reasoning.open.written + reasoning.close.before + reasoning.close.text if reasoning.close.text else ""
    return fmt.profile.assistant_header + block


def decoder(fmt: ChatFormat, tokenizer: Any) -> Callable[[list[int]], str]:
    """Token ids to text, control tokens as their text."""
    vocab = fmt.vocab
    if vocab is None:
        return lambda ids: str(tokenizer.decode(ids, skip_special_tokens=False))
    return lambda ids: vocab.decode(i for i in ids if 0 <= i < vocab.size).decode("utf-8", "replace")


class Stream:
    """One output, fed piece by piece as (text, token ids) of the same piece.

    The ids are read where there are any: they tell a marker from a text that looks like one, and do not depend on how
    an engine cuts its text. The text is read where there is no vocabulary, where an engine gives no ids, and with
    ``by_text``: where stop strings cut the text and not the ids, and where the engine held the output to a grammar of
    text, for which a marker is its text however it is spelled.
    """

    def __init__(self, turn: Turn, *, by_text: bool = False) -> None:
        self.turn = turn
        self._by_ids: bool | None = False if by_text or turn.format.vocab is None else None
        self._last: int | None = None
        self._over = False

    def feed(self, text: str, token_ids: Sequence[int]) -> list[Delta]:
        """The deltas that this piece settles."""
        if self._over:
            return []
        if token_ids:
            self._last = token_ids[-1]
        if self._by_ids is None and (text or token_ids):
            self._by_ids = bool(token_ids)
        if self._by_ids:
            return self.turn.feed(self._known(token_ids)) if token_ids else []
        return self.turn.feed(text) if text else []

    def finish(self) -> list[Delta]:
        """The last deltas; once, later calls give none. An output whose last token is an ordinary one was cut off."""
        if self._over:
            return []
        self._over = True
        vocab = self.turn.format.vocab
        cut = vocab is not None and self._last is not None and not vocab.is_control(self._last)
        return self.turn.finish("length" if cut else "stop")

    def _known(self, token_ids: Sequence[int]) -> list[int]:
        """The ids that the vocabulary has; an engine pads its logits, and random weights choose such ids too."""
        vocab = self.turn.format.vocab
        assert vocab is not None
        return [token for token in token_ids if 0 <= token < vocab.size]


def _variables(given: Mapping[str, Any]) -> dict[str, Any]:
    """What an engine passes to its template, without what is the engine's own business there."""
    out: dict[str, Any] = {}
    for name, value in given.items():
        if value is None:
            continue
        try:
            check_variables({name: value}, "chat_template_kwargs")
        except UsageError:
            continue
        out[name] = value
    return out


def summary(error: DragomanError) -> tuple[str, str | None]:
    """(what is wrong, the request's parameter at fault) of an error, for an engine's own exception."""
    return str(error), getattr(error, "param", None)
