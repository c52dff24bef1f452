"""``/v1/responses``: how an answer is told, as events or whole.

An answer is a list of items: reasoning, a message, function calls. One item is over before the next begins, and
stands in the response as its last event shows it, so the whole answer is what the events add up to. A call whose
arguments are no JSON object is an incomplete item, however the response ends.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from dragoman.chat import ToolCallDelta
from dragoman.errors import LimitError, UsageError
from dragoman.server.answers.jobs import Ended, Said, Usage, is_cut
from dragoman.server.protocols.responses import Echo
from dragoman.server.wire import failures, heads, sse
from dragoman.server.wire.telling import Answer
from dragoman.stream.json_text import is_json_object


@dataclass(slots=True)
class _Item:
    """The item that is being told. kind: message, reasoning, function_call."""

    kind: str
    id: str
    index: int
    text: list[str] = field(default_factory=list)
    logprobs: list[dict[str, Any]] = field(default_factory=list)
    call: ToolCallDelta | None = None

    def to_dict(self, status: str) -> dict[str, Any]:
        """The item as it stands; a call's arguments are there at its end only, as its deltas add up to them."""
        text = "".join(self.text)
        begun = status == "in_progress"
        out: dict[str, Any] = {"id": self.id, "type": self.kind, "status": status}
        if self.call is not None:
            return out | {"call_id": self.call.id, "name": self.call.name, "arguments": text}
        content = [] if begun else [self.part(text)]
        if self.kind == "reasoning":
            return out | {"summary": [], "content": content}
        return out | {"role": "assistant", "content": content}

    def part(self, text: str) -> dict[str, Any]:
        if self.kind == "reasoning":
            return {"type": "reasoning_text", "text": text}
        return {"type": "output_text", "text": text, "annotations": [], "logprobs": self.logprobs}


class ResponsesTeller:
    """One response. Its events are numbered, and every one of them names the same ids."""

    def __init__(self, head: heads.Head, echo: Echo) -> None:
        self._head = head
        self._echo = echo
        self._number = -1
        self._output: list[dict[str, Any]] = []
        self._item: _Item | None = None
        self._ended: Ended | None = None

    def begin(self) -> Iterable[bytes]:
        yield self._event("response.created", response=self._response("in_progress"))
        yield self._event("response.in_progress", response=self._response("in_progress"))

    def said(self, index: int, said: Said) -> Iterable[bytes]:
        for data in self._pieces(said):
            yield sse.named(data)

    def ended(self, index: int, ended: Ended) -> Iterable[bytes]:
        self._ended = ended
        for data in self._over(_status(ended)):
            yield sse.named(data)

    def close(self, usage: Usage) -> Iterable[bytes]:
        assert self._ended is not None
        status = _status(self._ended)
        yield self._event(f"response.{status}", response=self._response(status, usage=usage))

    def failed(self, error: Exception) -> Iterable[bytes]:
        told = failures.error_body(error)["error"]
        caller = isinstance(error, (UsageError, LimitError))
        code = "invalid_prompt" if caller else "server_error"
        yield self._event("error", code=told["code"] or code, message=told["message"], param=told["param"])
        failure = {"code": code, "message": told["message"]}
        yield self._event("response.failed", response=self._response("failed", error=failure))

    def whole(self, answers: Sequence[Answer], usage: Usage) -> dict[str, Any]:
        [answer] = answers
        for piece in answer.pieces:
            list(self._pieces(piece))
        list(self.ended(0, answer.ended))
        return self._response(_status(answer.ended), usage=usage)

    # -- items -----------------------------------------------------------------------------------------------------

    def _pieces(self, said: Said) -> Iterable[dict[str, Any]]:
        delta = said.delta
        if delta.tool_calls:
            for call in delta.tool_calls:
                yield from self._call(call)
            return
        kind, text = ("message", delta.content) if delta.content else ("reasoning", delta.reasoning_content)
        if self._item is None or self._item.kind != kind:
            yield from self._over("completed")
            yield from self._open(kind)
        item = self._item
        assert item is not None
        item.text.append(text)
        if kind == "reasoning":
            yield self._data("response.reasoning_text.delta", item, content_index=0, delta=text)
            return
        logprobs = [token.to_dict() for token in said.logprobs] if self._echo.logprobs else []
        item.logprobs += logprobs
        yield self._data("response.output_text.delta", item, content_index=0, delta=text, logprobs=logprobs)

    def _call(self, call: ToolCallDelta) -> Iterable[dict[str, Any]]:
        if call.name is not None:
            yield from self._over("completed")
            yield from self._open("function_call", call)
        item = self._item
        assert item is not None
        if call.arguments:
            item.text.append(call.arguments)
            yield self._data("response.function_call_arguments.delta", item, delta=call.arguments)

    def _open(self, kind: str, call: ToolCallDelta | None = None) -> Iterable[dict[str, Any]]:
        index = len(self._output)
        prefix = {"message": "msg", "reasoning": "rs", "function_call": "fc"}[kind]
        item = _Item(kind, f"{prefix}_{self._head.id.removeprefix('resp_')}_{index}", index, call=call)
        self._item = item
        added = {"output_index": index, "item": item.to_dict("in_progress")}
        yield {"type": "response.output_item.added", "sequence_number": self._next(), **added}
        if call is None:
            yield self._data("response.content_part.added", item, content_index=0, part=item.part(""))

    def _over(self, status: str) -> Iterable[dict[str, Any]]:
        """The end of the item that is being told, if one is."""
        item, self._item = self._item, None
        if item is None:
            return
        text = "".join(item.text)
        if item.call is not None:
            status = status if is_json_object(text) else "incomplete"
            yield self._data("response.function_call_arguments.done", item, name=item.call.name, arguments=text)
        else:
            if item.kind == "reasoning":
                yield self._data("response.reasoning_text.done", item, content_index=0, text=text)
            else:
                told = {"text": text, "logprobs": item.logprobs}
                yield self._data("response.output_text.done", item, content_index=0, **told)
            yield self._data("response.content_part.done", item, content_index=0, part=item.part(text))
        done = item.to_dict(status)
        self._output.append(done)
        number = self._next()
        yield {
            "type": "response.output_item.done",
            "sequence_number": number,
            "output_index": item.index,
            "item": done,
        }

    # -- events ----------------------------------------------------------------------------------------------------

    def _next(self) -> int:
        self._number += 1
        return self._number

    def _data(self, kind: str, item: _Item, **fields: Any) -> dict[str, Any]:
        place = {"item_id": item.id, "output_index": item.index}
        return {"type": kind, "sequence_number": self._next(), **place, **fields}

    def _event(self, kind: str, **fields: Any) -> bytes:
        return sse.named({"type": kind, "sequence_number": self._next(), **fields})

    def _response(
        self, status: str, *, usage: Usage | None = None, error: Mapping[str, Any] | None = None
    ) -> dict[str, Any]:
        ended = self._ended
        notes = {} if ended is None else heads.notes(self._head, ended)
        return {
            "id": self._head.id,
            "object": "response",
            "created_at": self._head.created,
            "status": status,
            "error": error,
            "incomplete_details": {"reason": _cut_by(ended)} if status == "incomplete" else None,
            "model": self._head.model,
            "output": list(self._output),
            **self._echo.fields,
            "usage": None if usage is None else usage_fields(usage),
            **notes,
        }


def _status(ended: Ended) -> str:
    return "incomplete" if is_cut(ended) else "completed"


def _cut_by(ended: Ended | None) -> str:
    filtered = ended is not None and ended.finish_reason == "content_filter"
    return "content_filter" if filtered else "max_output_tokens"


def usage_fields(usage: Usage) -> dict[str, Any]:
    return {
        "input_tokens": usage.prompt_tokens,
        "input_tokens_details": {"cached_tokens": 0, "cache_write_tokens": 0},
        "output_tokens": usage.completion_tokens,
        "output_tokens_details": {"reasoning_tokens": usage.reasoning_tokens},
        "total_tokens": usage.prompt_tokens + usage.completion_tokens,
    }
