"""``/v1/chat/completions``: how answers are told, as chunks or whole."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from dragoman.chat import Delta, Message
from dragoman.server.answers.jobs import Ended, Said, Usage
from dragoman.server.answers.likelihood import Scored
from dragoman.server.protocols.chat import Shape
from dragoman.server.wire import failures, heads, sse
from dragoman.server.wire.telling import Answer, usage_of


@dataclass(slots=True)
class ChatTeller:
    """One request's choices. prompt_tokens: of its prompt, before the engine tells."""

    head: heads.Head
    shape: Shape
    choices: int
    prompt_tokens: int
    _used: dict[int, Usage] = field(default_factory=dict)

    def begin(self) -> Iterable[bytes]:
        """The role comes once for each choice, in order, with no text beside it."""
        return [self._chunk(index, {"role": "assistant", "content": None}) for index in range(self.choices)]

    def said(self, index: int, said: Said) -> Iterable[bytes]:
        self._used[index] = said.usage
        if self.shape.legacy and any(call.index for call in said.delta.tool_calls):
            return  # a message has one function_call
        yield self._chunk(index, self._fields(said.delta), logprobs=said.logprobs)

    def ended(self, index: int, ended: Ended) -> Iterable[bytes]:
        self._used[index] = ended.usage
        notes = heads.notes(self.head, ended)
        yield self._chunk(index, {}, finish_reason=self._reason(ended), **notes)

    def close(self, usage: Usage) -> Iterable[bytes]:
        if self.shape.include_usage:
            body = _body(self.head, "chat.completion.chunk")
            yield sse.event({**body, "choices": [], "usage": usage_fields(usage)})
        yield sse.DONE

    def failed(self, error: Exception) -> Iterable[bytes]:
        yield sse.event(failures.error_body(error))

    def whole(self, answers: Sequence[Answer], usage: Usage) -> dict[str, Any]:
        choices = []
        for index, answer in enumerate(answers):
            message = self._message(answer.message)
            notes = heads.notes(self.head, answer.ended)
            choices.append(
                {
                    "index": index,
                    "message": message,
                    "logprobs": None if answer.ended.unscored else self._logprobs(answer.logprobs),
                    "finish_reason": self._reason(answer.ended),
                    **(notes if len(answers) > 1 else {}),
                }
            )
        body = {**_body(self.head, "chat.completion"), "choices": choices, "usage": usage_fields(usage)}
        return body | (notes if len(answers) == 1 else {})

    def _chunk(
        self,
        index: int,
        delta: Mapping[str, Any],
        *,
        finish_reason: str | None = None,
        logprobs: Sequence[Scored] = (),
        **notes: Any,
    ) -> bytes:
        told = self._logprobs(logprobs) if logprobs else None
        choice = {"index": index, "delta": delta, "logprobs": told, "finish_reason": finish_reason}
        body = {**_body(self.head, "chat.completion.chunk"), "choices": [choice]}
        if self.shape.continuous:
            body["usage"] = usage_fields(usage_of(self._used.values(), self.prompt_tokens))
        elif self.shape.include_usage:
            body["usage"] = None  # a later chunk tells it
        return sse.event({**body, **notes})

    def _fields(self, delta: Delta) -> dict[str, Any]:
        if not (self.shape.legacy and delta.tool_calls):
            return delta.to_dict()
        [call] = delta.tool_calls
        name = {} if call.name is None else {"name": call.name}
        return {"function_call": {**name, "arguments": call.arguments}}

    def _message(self, message: Message) -> dict[str, Any]:
        fields = message.to_dict()
        calls = fields.pop("tool_calls", None) if self.shape.legacy else None
        return {**fields, "function_call": calls[0]["function"]} if calls else fields

    def _reason(self, ended: Ended) -> str:
        return "function_call" if self.shape.legacy and ended.finish_reason == "tool_calls" else ended.finish_reason

    def _logprobs(self, tokens: Sequence[Scored]) -> dict[str, Any] | None:
        if not self.shape.logprobs:
            return None
        return {"content": [token.to_dict() for token in tokens], "refusal": None}


def usage_fields(usage: Usage) -> dict[str, Any]:
    fields: dict[str, Any] = usage.to_dict()
    if usage.reasoning_tokens:
        fields["completion_tokens_details"] = {"reasoning_tokens": usage.reasoning_tokens}
    return fields


def _body(head: heads.Head, kind: str) -> dict[str, Any]:
    return {"id": head.id, "object": kind, "created": head.created, "model": head.model}
