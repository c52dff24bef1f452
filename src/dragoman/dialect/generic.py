"""Tool calling for templates that know no tools: tools and the form of a call go into the system message.

Rules of this file: one call form for all models, told by signatures and one form per tool with placeholders; calls and
results of the history are rewritten the same way, since the template would drop them. How values are sampled (caps,
banned characters) is the caller's choice, in :class:`~dragoman.grammar.schema.SchemaOptions`.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from dragoman.chat_schema import declared_types, parameter_schema, resolve
from dragoman.dialect.request import Choice
from dragoman.template.history import with_results_told
from dragoman.template.profile import Evidence, JsonShape, Marker, Profile, Slot, ToolFormat, ToolProfile

Message = Mapping[str, Any]

GENERIC_TOOLS = ToolProfile(
    format=ToolFormat.JSON_NATIVE,
    call=(Marker("\n", "<tool_call>", "\n"), Slot.OBJECT, Marker("\n", "</tool_call>", "")),
    object=JsonShape(),
    parallel=True,
)
_RESULT = "<tool_response{}>\n{}\n</tool_response>"
_DEPTH = 6


def generic_profile(profile: Profile) -> Profile:
    """``profile`` with the generic call form; unchanged where its template writes calls itself."""
    if profile.tools is not None:
        return profile
    return replace(profile, tools=GENERIC_TOOLS, generic_tools=True)


def without_refuted_calls(profile: Profile, why: str) -> Profile:
    """``profile`` with no form of calls, as not one call in the form that was found came back."""
    failure = f"refuted: {why}"
    evidence = {**profile.evidence, "tools": (Evidence("probe", failure),)}
    return replace(profile, tools=None, failure=failure, evidence=evidence)


def with_tool_instructions(
    messages: Sequence[Message],
    tools: Sequence[Mapping[str, Any]] = (),
    answer_schema: Any = None,
    *,
    choice: Choice = "auto",
) -> list[Message]:
    """The messages as a template without tools takes them: instructions by the system, calls and results as text.

    tools: functions in the OpenAI shape. answer_schema: the JSON Schema of the answer, whose form is shown too.
    """
    out = _without_calls(messages)
    parts = []
    if tools and choice != "none":
        parts.append(tool_instructions(tools, choice=choice))
    if answer_schema is not None:
        parts.append("Reply with JSON in this form:\n" + form(answer_schema, answer_schema, "value"))
    if not parts:
        return out
    text = "\n\n".join(parts)
    if out and out[0].get("role") in ("system", "developer"):
        return [{**out[0], "content": _joined(out[0].get("content"), text)}, *out[1:]]
    return [{"role": "system", "content": text}, *out]


def tool_instructions(tools: Sequence[Mapping[str, Any]], *, choice: Choice = "auto") -> str:
    """What the system message says of the tools."""
    functions = [tool.get("function", tool) for tool in tools]
    must = choice in ("required", "named")
    first = "You answer by calling one of these functions:" if must else "You can call these functions:"
    last = (
        "Reply in one of these forms, with the values from the user's question:"
        if must
        else "If one of them helps, reply in one of these forms, with the values from the user's question. "
        "Otherwise answer in plain text."
    )
    lines = [first, *map(_signature, functions), "", last]
    return "\n".join(
        [*lines, *(_call_text(function.get("name", ""), _arguments_form(function)) for function in functions)]
    )


def form(wanted: Any, root: Any, name: str, depth: int = 0) -> str:
    """JSON text that shows what the schema asks for; values to fill in stand between ``<`` and ``>``."""
    wanted = resolve(wanted, root)
    if not isinstance(wanted, Mapping) or depth > _DEPTH:
        return f"<{name}>"
    listed = [wanted["const"]] if "const" in wanted else wanted.get("enum")
    if listed:
        if all(isinstance(value, str) for value in listed):
            return _json("|".join(listed))
        return "|".join(map(_json, listed))
    types = declared_types(wanted, root)
    if types == {"object"}:
        return _object_form(wanted, root, depth)
    if types == {"array"}:
        return "[" + form(wanted.get("items", {}), root, name, depth + 1) + "]"
    return f'"<{name}>"' if types == {"string"} else f"<{name}>"


def _object_form(wanted: Mapping[str, Any], root: Any, depth: int) -> str:
    properties = wanted.get("properties")
    keys = properties if isinstance(properties, Mapping) else {}
    return "{" + ", ".join(f"{_json(key)}: {form(keys[key], root, key, depth + 1)}" for key in keys) + "}"


def _arguments_form(function: Mapping[str, Any]) -> str:
    parameters = function.get("parameters")
    return "{}" if parameters is None else _object_form(resolve(parameters, parameters) or {}, parameters, 0)


def _call_text(name: str, arguments: str) -> str:
    return f'<tool_call>\n{{"name": {_json(name)}, "arguments": {arguments}}}\n</tool_call>'


def _signature(function: Mapping[str, Any]) -> str:
    root = function.get("parameters")
    declared = resolve(root, root)
    properties = declared.get("properties") if isinstance(declared, Mapping) else None
    required = declared.get("required", ()) if isinstance(declared, Mapping) else ()
    told = [
        f"{key}{'' if key in required else '?'}: {_type_text(parameter_schema(root, key, root), root)}"
        for key in (properties if isinstance(properties, Mapping) else ())
    ]
    description = str(function.get("description") or "").strip()
    return f"- {function.get('name', '')}({', '.join(told)})" + (f" - {description}" if description else "")


def _type_text(wanted: Any, root: Any) -> str:
    wanted = resolve(wanted, root)
    if isinstance(wanted, Mapping):
        listed = [wanted["const"]] if "const" in wanted else wanted.get("enum")
        if listed:
            return " or ".join(map(_json, listed))
        types = sorted(declared_types(wanted, root))
        if types == ["array"] and "items" in wanted:
            return "array of " + _type_text(wanted["items"], root)
        if types:
            return " or ".join(types)
    return "any"


def _without_calls(messages: Sequence[Message]) -> list[Message]:
    """Calls become text of the assistant, results messages of the user; several results in a row are one message.

    The text of a call has no id, so results stand in the order of the calls and say the name of theirs.
    """
    out: list[Message] = []
    results = False
    for message in with_results_told([dict(each) for each in messages], sort=True):
        if message["role"] == "tool":
            name = message.get("name")
            text = _RESULT.format(f" name={_json(name)}" if name else "", _text(message.get("content")))
            if results:
                out[-1] = {**out[-1], "content": out[-1]["content"] + "\n" + text}
            else:
                out.append({"role": "user", "content": text})
            results = True
            continue
        results = False
        calls = message.get("tool_calls")
        if not calls:
            out.append(message)
            continue
        written = [_call_of(call.get("function", call)) for call in calls]
        kept = {key: value for key, value in message.items() if key != "tool_calls"}
        out.append({**kept, "content": "\n".join(filter(None, [_text(message.get("content")), *written]))})
    return out


def _call_of(function: Mapping[str, Any]) -> str:
    arguments = function.get("arguments")
    text = arguments if isinstance(arguments, str) else _json(arguments or {})
    return _call_text(str(function.get("name", "")), text.strip() or "{}")


def _text(content: Any) -> str:
    if isinstance(content, str):
        return content
    if isinstance(content, Sequence):
        return "\n".join(str(part.get("text", "")) for part in content if isinstance(part, Mapping) and "text" in part)
    return ""


def _joined(content: Any, text: str) -> Any:
    """A message's content with ``text`` behind it, in the shape that it has."""
    if isinstance(content, Sequence) and not isinstance(content, str):
        return [*content, {"type": "text", "text": text}]
    return f"{content}\n\n{text}" if content else text


def _json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)
