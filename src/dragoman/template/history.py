"""What a conversation leaves unsaid and templates need: whose result a tool's message is, and second-best forms.

    with_content_beside_calls   a message of calls with content of a form beside which its template writes calls
    with_results_told   results know their call's id and name, and stand in the order of the calls
    with_role           messages under another role, for a template that has no place for them
    with_one_system     system messages as one at the start, or told by the user, for a template that writes no other
    with_broken_arguments_named   arguments that are no object as the text of one member
    second_forms        other ways to give the same messages, for a template that refuses the plain one

Rules of this file: nothing is invented and no text is lost but what a template cannot take beside other text; a
template is never named. Messages are normalised ones (:mod:`dragoman.template.adapt`) and are not changed.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from typing import Any

Message = dict[str, Any]
Rewrite = Callable[[Sequence[Message]], list[Message]]

# The keys of a message that hold its reasoning.
REASONING = ("reasoning_content", "reasoning", "thinking")
_SYSTEM = ("system", "developer")
# What ids are made of where a template is particular about them: nine characters satisfy every known one.
_ID_ALPHABET = "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
_ID_LENGTH = 9


def with_content_beside_calls(message: Message, forms: Collection[str]) -> list[Message]:
    """The message as its template writes the calls; text beside which it writes none is a message in front of them.

    forms: of content: ``text``, ``empty``, ``null``, ``absent``; calls are left out beside all others.
    """
    if "tool_calls" not in message:
        return [message]
    content = message.get("content")
    said = any(part.get("text", True) for part in content) if isinstance(content, list) else bool(content)
    if ("text" if said else "empty") in forms or not {"empty", "null", "absent"} & set(forms):
        return [message]
    calls = {key: value for key, value in message.items() if key != "content"}
    if "empty" in forms:
        calls["content"] = ""
    elif "null" in forms:
        calls["content"] = None
    if not said:
        return [calls]
    spoken = {key: value for key, value in message.items() if key != "tool_calls"}
    return [spoken, {key: value for key, value in calls.items() if key not in REASONING}]


def with_results_told(messages: Sequence[Message], *, sort: bool) -> list[Message]:
    """The messages, each tool result with the id and the name of its call as far as the history tells them.

    sort: results that answer one message's calls are put in the order of the calls, for templates that write no ids.
    """
    out: list[Message] = []
    calls: Sequence[Mapping[str, Any]] = ()
    results: list[Message] = []
    for message in messages:
        if message["role"] == "tool":
            results.append(message)
            continue
        out += _told(results, calls, sort)
        results = []
        calls = message.get("tool_calls") or ()
        out.append(message)
    return out + _told(results, calls, sort)


def _told(results: list[Message], calls: Sequence[Mapping[str, Any]], sort: bool) -> list[Message]:
    """The results behind one message's calls."""
    places = {call["id"]: at for at, call in enumerate(calls) if "id" in call}
    found = [places.get(str(result.get("tool_call_id"))) for result in results]
    if not any("tool_call_id" in result for result in results):
        # Results without ids answer the calls one by one.
        found = [at if at < len(calls) else None for at in range(len(results))]
    told = [result if at is None else _named(result, calls[at]) for result, at in zip(results, found, strict=True)]
    if not sort or None in found:
        return told
    order = sorted(range(len(told)), key=lambda at: found[at] or 0)
    return [told[at] for at in order]


def _named(result: Message, call: Mapping[str, Any]) -> Message:
    told = {"name": call["function"]["name"], **result}
    if "id" in call:
        told.setdefault("tool_call_id", call["id"])
    return told


def with_role(messages: Sequence[Message], role: str, other: str) -> list[Message]:
    """The messages, those of ``role`` under another one."""
    return [{**message, "role": other} if message["role"] == role else message for message in messages]


def with_one_system(messages: Sequence[Message]) -> list[Message]:
    """The messages with system messages at the start made one, and each later one put in front of the user's next.

    Where no user message follows, it becomes one.
    """
    start = 0
    while start < len(messages) and messages[start]["role"] in _SYSTEM:
        start += 1
    first = [{**messages[0], "content": together([each["content"] for each in messages[:start]])}] if start else []
    return first + merged_system(messages[start:])


def merged_system(messages: Sequence[Message]) -> list[Message]:
    """Each system message put in front of the next user message; at the end, or where none follows, made one."""
    out: list[Message] = []
    waiting: list[Any] = []
    for message in messages:
        if message["role"] in _SYSTEM:
            waiting.append(message["content"])
        elif message["role"] == "user" and waiting:
            out.append({**message, "content": together([*waiting, message["content"]])})
            waiting = []
        else:
            out.append(message)
    if waiting:
        out.append({"role": "user", "content": together(waiting)})
    return out


def together(contents: Sequence[Any]) -> Any:
    """Contents as one: a line each, or the parts of all where one has parts."""
    contents = [content or "" for content in contents]
    if all(isinstance(content, str) for content in contents):
        return "\n".join([content for content in contents if content])
    parts: list[Any] = []
    for content in contents:
        parts += [{"type": "text", "text": content}] if isinstance(content, str) else content
    return parts


def broken_arguments(messages: Sequence[Message]) -> list[str]:
    """The arguments of calls that are no JSON object: text, not empty."""
    every = [call["function"]["arguments"] for message in messages for call in message.get("tool_calls") or ()]
    return [text for text in every if isinstance(text, str) and text.strip() and not is_object(text)]


def is_object(text: str) -> bool:
    """True: the text is a JSON object."""
    try:
        return isinstance(json.loads(text), dict)
    except (ValueError, RecursionError):
        return False


def with_broken_arguments_named(messages: Sequence[Message]) -> list[Message]:
    """The messages, arguments that are no JSON object as the text of one member, for a template that writes members."""

    def change(value: Any) -> Any:
        broken = isinstance(value, str) and value.strip() and not is_object(value)
        return {"arguments": value} if broken else value

    return _with_arguments(messages, change)


def second_forms(messages: Sequence[Message]) -> Iterator[list[Message]]:
    """Other forms of the conversation, the closest first: each rewrite alone, then all up to each together.

    Only forms that differ from ``messages`` and from one another.
    """
    seen = [list(messages)]
    together = list(messages)
    for rewrite in _REWRITES:
        together = rewrite(together)
        for form in (rewrite(messages), together):
            if form not in seen:
                seen.append(form)
                yield form


def _each(messages: Sequence[Message], change: Callable[[Message], Message]) -> list[Message]:
    return [change(message) if message["role"] == "assistant" else message for message in messages]


def _without_text_beside_reasoning(messages: Sequence[Message]) -> list[Message]:
    """Beside calls reasoning alone: some templates have one place for both."""

    def change(message: Message) -> Message:
        return {**message, "content": ""} if "tool_calls" in message and _reasons(message) else message

    return _each(messages, change)


def _reasons(message: Message) -> bool:
    return any(message.get(key) for key in REASONING)


def _null_beside_calls(messages: Sequence[Message]) -> list[Message]:
    def change(message: Message) -> Message:
        return {**message, "content": None} if "tool_calls" in message and not message.get("content") else message

    return _each(messages, change)


def _absent_beside_calls(messages: Sequence[Message]) -> list[Message]:
    def change(message: Message) -> Message:
        if "tool_calls" not in message or message.get("content"):
            return message
        return {key: value for key, value in message.items() if key != "content"}

    return _each(messages, change)


def _with_short_ids(messages: Sequence[Message]) -> list[Message]:
    """Ids of nine letters and digits in place of all others, the same for a call and its result."""

    def change(message: Message) -> Message:
        changed = dict(message)
        if "tool_call_id" in message:
            changed["tool_call_id"] = _short(message["tool_call_id"])
        if "tool_calls" in message:
            changed["tool_calls"] = [
                {**call, "id": _short(call["id"])} if "id" in call else call for call in message["tool_calls"]
            ]
        return changed

    return [change(message) for message in messages]


def _short(id: str) -> str:
    if len(id) == _ID_LENGTH and id.isascii() and id.isalnum():
        return id
    number = int.from_bytes(hashlib.sha256(id.encode()).digest(), "big")
    return "".join(_ID_ALPHABET[number // len(_ID_ALPHABET) ** at % len(_ID_ALPHABET)] for at in range(_ID_LENGTH))


def _with_some_reasoning(messages: Sequence[Message]) -> list[Message]:
    """An empty reasoning where a message has none: some templates read the key unasked."""
    return _each(messages, lambda message: {"reasoning_content": "", **message})


def _with_arguments(messages: Sequence[Message], change: Callable[[Any], Any]) -> list[Message]:
    def changed(call: Mapping[str, Any]) -> dict[str, Any]:
        function = call["function"]
        return {**call, "function": {**function, "arguments": change(function["arguments"])}}

    def each(message: Message) -> Message:
        if "tool_calls" not in message:
            return message
        return {**message, "tool_calls": [changed(call) for call in message["tool_calls"]]}

    return _each(messages, each)


def _text_arguments(messages: Sequence[Message]) -> list[Message]:
    def change(value: Any) -> Any:
        return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)

    return _with_arguments(messages, change)


def _object_arguments(messages: Sequence[Message]) -> list[Message]:
    """Objects where templates go through the arguments; text that is none becomes the one member of one."""

    def change(value: Any) -> Any:
        if not isinstance(value, str):
            return value
        try:
            parsed = json.loads(value) if value.strip() else {}
        except (ValueError, RecursionError):
            parsed = value
        return parsed if isinstance(parsed, dict) else {"arguments": parsed}

    return _with_arguments(messages, change)


_REWRITES: tuple[Rewrite, ...] = (
    with_one_system,
    _without_text_beside_reasoning,
    _with_short_ids,
    _null_beside_calls,
    _absent_beside_calls,
    _with_some_reasoning,
    _text_arguments,
    _object_arguments,
)
