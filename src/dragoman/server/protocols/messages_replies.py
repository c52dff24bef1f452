"""``/v1/messages``: how an answer is told, as named events or whole.

An answer is a list of blocks: thinking, text, tool_use. One is over before the next begins. A call's input is sent as
far as it is the beginning of a JSON object, since clients read it while it comes; what a model breaks off stays off.
The input of such a block is less than the call, so the message then ends as one that was cut off: clients run the
calls of a message that ends by ``tool_use``, and none of one that ends by ``max_tokens``.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any

from dragoman.chat import Delta, Problem, ToolCallDelta
from dragoman.server.answers.jobs import Ended, Said, Usage, is_cut
from dragoman.server.wire import failures, heads, sse
from dragoman.server.wire.partial_json import ObjectPrefix, is_object, read_object
from dragoman.server.wire.telling import Answer


class MessagesTeller:
    """One message. prompt_tokens: of its prompt, before the engine tells."""

    def __init__(self, head: heads.Head, prompt_tokens: int) -> None:
        self._head = head
        self._prompt_tokens = prompt_tokens
        self._blocks = 0
        self._kind: str | None = None  # of the block that is open
        self._input = ObjectPrefix()
        self._name = ""  # of the call that is open
        self._cut: list[str] = []  # names of calls whose input is not all of them
        self._ended: Ended | None = None

    def begin(self) -> Iterable[bytes]:
        usage = Usage(self._prompt_tokens, 0)
        yield sse.named({"type": "message_start", "message": self._message([], None, usage)})
        yield sse.named({"type": "ping"})

    def said(self, index: int, said: Said) -> Iterable[bytes]:
        delta = said.delta
        for call in delta.tool_calls:
            yield from self._call(call)
        if delta.content:
            yield from self._text("text", {"type": "text", "text": ""}, "text_delta", delta.content)
        if delta.reasoning_content:
            block = {"type": "thinking", "thinking": "", "signature": ""}
            yield from self._text("thinking", block, "thinking_delta", delta.reasoning_content)

    def ended(self, index: int, ended: Ended) -> Iterable[bytes]:
        self._ended = ended
        return self._over()

    def close(self, usage: Usage) -> Iterable[bytes]:
        assert self._ended is not None
        reason = {"stop_reason": _reason(self._ended, self._cut), "stop_sequence": self._ended.stop_text}
        notes = self._notes(self._ended)
        yield sse.named({"type": "message_delta", "delta": reason, "usage": _usage(usage), **notes})
        yield sse.named({"type": "message_stop"})

    def failed(self, error: Exception) -> Iterable[bytes]:
        yield sse.named(failures.anthropic_error(failures.status_of(error), failures.message_of(error)))

    def whole(self, answers: Sequence[Answer], usage: Usage) -> dict[str, Any]:
        [answer] = answers
        blocks: list[dict[str, Any]] = []
        for piece in answer.pieces:
            _add(blocks, piece.delta)
        content = [_finished(block) for block in blocks]
        calls = [block for block in blocks if block["type"] == "tool_use"]
        self._cut = [block["name"] for block in calls if not is_object("".join(block["input"]))]
        return {**self._message(content, answer.ended, usage), **self._notes(answer.ended)}

    def _notes(self, ended: Ended) -> dict[str, Any]:
        """What is said of every answer, and of calls that only this protocol cannot tell whole."""
        if not is_cut(ended):
            ended = replace(ended, problems=(*ended.problems, *map(_cut_input, self._cut)))
        return heads.notes(self._head, ended)

    # -- blocks ----------------------------------------------------------------------------------------------------

    def _text(self, key: str, block: dict[str, Any], kind: str, text: str) -> Iterable[bytes]:
        if self._kind != key:
            yield from self._over()
            yield self._start(key, block)
        yield self._delta({"type": kind, key: text})

    def _call(self, call: ToolCallDelta) -> Iterable[bytes]:
        if call.name is not None:
            yield from self._over()
            self._input, self._name = ObjectPrefix(), call.name
            yield self._start("tool_use", {"type": "tool_use", "id": call.id, "name": call.name, "input": {}})
        piece = self._input.push(call.arguments)
        if piece:
            yield self._delta({"type": "input_json_delta", "partial_json": piece})

    def _start(self, kind: str, block: dict[str, Any]) -> bytes:
        self._kind = kind
        self._blocks += 1
        return sse.named({"type": "content_block_start", "index": self._blocks - 1, "content_block": block})

    def _delta(self, delta: dict[str, Any]) -> bytes:
        return sse.named({"type": "content_block_delta", "index": self._blocks - 1, "delta": delta})

    def _over(self) -> Iterable[bytes]:
        if self._kind is not None:
            if self._kind == "tool_use" and not self._input.complete:
                self._cut.append(self._name)
            self._kind = None
            yield sse.named({"type": "content_block_stop", "index": self._blocks - 1})

    def _message(self, content: list[dict[str, Any]], ended: Ended | None, usage: Usage) -> dict[str, Any]:
        return {
            "id": self._head.id,
            "type": "message",
            "role": "assistant",
            "model": self._head.model,
            "content": content,
            "stop_reason": None if ended is None else _reason(ended, self._cut),
            "stop_sequence": None if ended is None else ended.stop_text,
            "usage": _usage(usage),
        }


def _add(blocks: list[dict[str, Any]], delta: Delta) -> None:
    """The delta at the end of the blocks; a block's pieces are kept apart until it is whole."""
    for call in delta.tool_calls:
        if call.name is not None:
            blocks.append({"type": "tool_use", "id": call.id, "name": call.name, "input": []})
        blocks[-1]["input"].append(call.arguments)
    for key, text in (("text", delta.content), ("thinking", delta.reasoning_content)):
        if text:
            if not blocks or blocks[-1]["type"] != key:
                blocks.append({"type": key, key: []})
            blocks[-1][key].append(text)


def _finished(block: dict[str, Any]) -> dict[str, Any]:
    kind = block["type"]
    if kind == "tool_use":
        return {**block, "input": read_object("".join(block["input"]))}
    signature = {"signature": ""} if kind == "thinking" else {}
    return {**block, kind: "".join(block[kind]), **signature}


def _cut_input(name: str) -> Problem:
    told = f"the arguments of {name!r} are no JSON that all readers take: its input ends in front of what is not"
    return Problem("cut_input", told, 0)


def _reason(ended: Ended, cut: Sequence[str]) -> str:
    if ended.finish_reason == "content_filter":
        return "refusal"
    if cut or ended.finish_reason == "length":
        return "max_tokens"
    if ended.finish_reason == "tool_calls":
        return "tool_use"
    return "end_turn" if ended.stop_text is None else "stop_sequence"


def _usage(usage: Usage) -> dict[str, Any]:
    return {
        "input_tokens": usage.prompt_tokens,
        "output_tokens": usage.completion_tokens,
        "cache_creation_input_tokens": 0,
        "cache_read_input_tokens": 0,
    }
