"""``/v1/completions``: what follows a raw prompt. Nothing is rendered, read or constrained."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from dragoman.engine import NO_SETTINGS, ModelSettings
from dragoman.errors import UsageError
from dragoman.server.answers.jobs import Ended, Said, Usage, is_cut
from dragoman.server.answers.likelihood import Scored
from dragoman.server.protocols.chat import in_vain, stream_options
from dragoman.server.requests import harmless
from dragoman.server.requests.ask import RawAsk
from dragoman.server.requests.harmless import ignored
from dragoman.server.requests.kinds import (
    FLAG,
    INTEGER,
    OBJECT,
    TEXT_OR_LIST,
    TEXTS,
    Kind,
    given,
    integer,
    needed,
    shown,
    texts,
)
from dragoman.server.requests.refusals import FORM_REFUSALS, OPENAI_REFUSALS, SAMPLER_REFUSALS, Refusal, refuse
from dragoman.server.requests.sampling import CHOICES_MAX, SAMPLERS, sampling
from dragoman.server.wire import failures, heads, sse
from dragoman.server.wire.telling import Answer, usage_of

SAMPLING = ("max_tokens", *SAMPLERS)
FIELDS: Mapping[str, Kind] = {
    "prompt": TEXT_OR_LIST,
    "n": INTEGER,
    "stop": TEXTS,
    "stream": FLAG,
    "stream_options": OBJECT,
    "logprobs": INTEGER,
    "echo": FLAG,
    "logit_bias": OBJECT,
}
_CHAT = "only a chat is constrained: ask /v1/chat/completions"
REFUSED: Mapping[str, Refusal] = {
    **dict.fromkeys(FORM_REFUSALS, Refusal((), _CHAT)),
    **OPENAI_REFUSALS,
    "messages": Refusal((), _CHAT),
    "max_completion_tokens": Refusal((), "give max_tokens"),
    "suffix": Refusal(("",), "a model writes on at the end; leave it out"),
    "best_of": Refusal((1,), "give n, and choose among the answers"),
    "prompt_embeds": Refusal((), "give text or token ids"),
    "grammar": Refusal((), _CHAT),
    "json_schema": Refusal((), _CHAT),
    "response_format": Refusal(({"type": "text"},), _CHAT),
    "tools": Refusal(([],), _CHAT),
}
KNOWN = (FIELDS, SAMPLING, REFUSED, SAMPLER_REFUSALS)
_LOGPROBS_MAX = 20
_TOKENS = 16  # the API's own default of max_tokens


@dataclass(frozen=True, slots=True)
class Shape:
    """How a request wants its chunks. echo: the prompt stands in front of each text."""

    include_usage: bool = False
    continuous: bool = False
    logprobs: bool = False
    echo: bool = False


def read(body: Mapping[str, Any], settings: ModelSettings = NO_SETTINGS) -> tuple[RawAsk, Shape]:
    """The request, and the shape of its answer. Raises UsageError that names the field."""
    refuse(body, REFUSED)
    include_usage, continuous = stream_options(body)
    top = integer(body, "logprobs", 0, _LOGPROBS_MAX)
    prompts = _prompts(needed(body, "prompt", TEXT_OR_LIST))
    n = integer(body, "n", 1, CHOICES_MAX) or 1
    if n * len(prompts) > CHOICES_MAX:
        raise UsageError(f"{len(prompts)} prompts with n = {n} are over {CHOICES_MAX} answers", param="prompt")
    sampled = replace(sampling(body, settings, SAMPLING), logprobs=top)
    if sampled.max_tokens is None and body.get("max_tokens") is None:
        sampled = replace(sampled, max_tokens=_TOKENS)
    shape = Shape(include_usage, continuous, top is not None, bool(given(body, "echo", FLAG)))
    if shape.echo and shape.logprobs:  # the API's answer to both has the prompt's too, which programs read as scores
        message = "log probabilities of a prompt are not told: leave out echo, or logprobs"
        raise UsageError(message, param="echo")
    strange = (*ignored(body, harmless.COMPLETIONS, *KNOWN, settings.engine_fields), *in_vain(body))
    ask = RawAsk(prompts, sampled, texts(body, "stop"), bool(given(body, "stream", FLAG)), n, strange)
    return ask, shape


def _prompts(value: Any) -> tuple[str | tuple[int, ...], ...]:
    """A text, token ids, or a list of either."""
    if isinstance(value, str):
        return (value,)
    if _are_ids(value):
        return (tuple(value),)
    if value and all(isinstance(each, str) or _are_ids(each) for each in value):
        return tuple(each if isinstance(each, str) else tuple(each) for each in value)
    if value == []:
        raise UsageError("prompt is empty: give a text or token ids", param="prompt")
    raise UsageError(
        f"prompt must be a text, a list of texts, a list of token ids or a list of such lists, not {shown(value)}",
        param="prompt",
    )


def _are_ids(value: Any) -> bool:
    return isinstance(value, list) and bool(value) and all(type(token) is int and token >= 0 for token in value)


class CompletionsTeller:
    """One request's choices. prompts: the text in front of each, where the request wants it."""

    def __init__(self, head: heads.Head, shape: Shape, prompts: Sequence[str], prompt_tokens: int) -> None:
        self._head = head
        self._shape = shape
        self._prompts = prompts
        self._prompt_tokens = prompt_tokens
        self._used: dict[int, Usage] = {}
        self._offsets = [0] * len(prompts)

    def begin(self) -> Iterable[bytes]:
        if self._shape.echo:
            for index, prompt in enumerate(self._prompts):
                yield self._chunk(index, prompt)

    def said(self, index: int, said: Said) -> Iterable[bytes]:
        self._used[index] = said.usage
        logprobs = self._logprobs(index, said.logprobs) if said.logprobs else None
        yield self._chunk(index, said.delta.content, logprobs=logprobs)

    def ended(self, index: int, ended: Ended) -> Iterable[bytes]:
        self._used[index] = ended.usage
        yield self._chunk(index, "", finish_reason=_reason(ended), **heads.notes(self._head, ended))

    def close(self, usage: Usage) -> Iterable[bytes]:
        if self._shape.include_usage:
            yield sse.event({**self._body(), "choices": [], "usage": usage.to_dict()})
        yield sse.DONE

    def failed(self, error: Exception) -> Iterable[bytes]:
        yield sse.event(failures.error_body(error))

    def whole(self, answers: Sequence[Answer], usage: Usage) -> dict[str, Any]:
        choices = [
            {
                "index": index,
                "text": (self._prompts[index] if self._shape.echo else "") + answer.message.content,
                "logprobs": None if answer.ended.unscored else self._logprobs(index, answer.logprobs),
                "finish_reason": _reason(answer.ended),
            }
            for index, answer in enumerate(answers)
        ]
        problems = tuple(problem for answer in answers for problem in answer.ended.problems)
        notes = heads.notes(self._head, replace(answers[0].ended, problems=problems))
        return {**self._body(), "choices": choices, "usage": usage.to_dict(), **notes}

    def _chunk(
        self, index: int, text: str, *, finish_reason: str | None = None, logprobs: Any = None, **notes: Any
    ) -> bytes:
        choice = {"index": index, "text": text, "logprobs": logprobs, "finish_reason": finish_reason}
        body = {**self._body(), "choices": [choice]}
        if self._shape.continuous:
            body["usage"] = usage_of(self._used.values(), self._prompt_tokens).to_dict()
        elif self._shape.include_usage:
            body["usage"] = None
        return sse.event({**body, **notes})

    def _logprobs(self, index: int, tokens: Sequence[Scored]) -> dict[str, Any] | None:
        """In the older shape: four lists beside each other; offsets count characters of the text."""
        if not self._shape.logprobs:
            return None
        shown_tokens = [token.data.decode("utf-8", "replace") for token in tokens]
        offsets = []
        for text in shown_tokens:
            offsets.append(self._offsets[index])
            self._offsets[index] += len(text)
        return {
            "tokens": shown_tokens,
            "token_logprobs": [token.logprob for token in tokens],
            "top_logprobs": [
                {data.decode("utf-8", "replace"): logprob for data, logprob in token.top} for token in tokens
            ],
            "text_offset": offsets,
        }

    def _body(self) -> dict[str, Any]:
        head = self._head
        return {"id": head.id, "object": "text_completion", "created": head.created, "model": head.model}


def _reason(ended: Ended) -> str:
    """What a raw prompt is followed by is read as text, so there are no calls."""
    return ended.finish_reason if is_cut(ended) else "stop"
