"""What a template can take, found by running it on small conversations and noting what it reads and writes.

A conversation that the template refuses tells nothing; each question is asked in several forms, and one that is
answered counts.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from itertools import product
from typing import Any

from dragoman.errors import LimitError, TemplateError
from dragoman.template.recording import BY_KEY, Path, recording
from dragoman.template.render import Template
from dragoman.template.variables import DROPS, EFFORT_NAMES, KEEPS


@dataclass(frozen=True, slots=True)
class Capabilities:
    """The nine flags that clients know from llama.cpp's ``chat_template_caps``."""

    supports_string_content: bool = True  # content as a string is written
    supports_typed_content: bool = False  # content as a list of parts is read part by part
    supports_system_role: bool = True  # the text of a system message is read
    supports_tools: bool = False  # the name of a tool is read
    supports_tool_calls: bool = False  # a call of an assistant message is read
    supports_object_arguments: bool = False  # arguments as an object are read key by key, or written as JSON
    supports_parallel_tool_calls: bool = False  # a second call of the same message is read
    supports_preserve_reasoning: bool = False  # the reasoning of an earlier turn can be kept
    supports_reasoning_effort: bool = False  # a variable for the effort of reasoning is read

    def to_dict(self) -> dict[str, bool]:
        return asdict(self)


@dataclass(frozen=True, slots=True)
class _Run:
    """One rendering that the template did not refuse."""

    text: str
    reads: frozenset[Path]


# Every other key whose value switches the history's reasoning on or off, set so that it is kept.
_KEEP_REASONING = {**dict.fromkeys(KEEPS, True), **dict.fromkeys(DROPS, False)}
_NEEDLE = "xqzneedle"
_TOOL: dict[str, Any] = {
    "type": "function",
    "function": {
        "name": "xqztool",
        "description": "d",
        "parameters": {
            "type": "object",
            "properties": {"xqzkey": {"type": "string", "description": "d"}},
            "required": [],
        },
    },
}


def find_capabilities(template: Template) -> Capabilities:
    """The capabilities of ``template``. Never raises: what cannot be found out is not supported."""
    string, typed = _content_forms(template)
    wrap = typed and not string
    tools = any(("tools", 0, "function", "name") in run.reads for run in _tool_runs(template, wrap))
    one = list(_call_runs(template, wrap, 1))
    read_call = _call_path(0, "name")
    return Capabilities(
        supports_string_content=string,
        supports_typed_content=typed,
        supports_system_role=_reads_system(template, wrap),
        supports_tools=tools,
        supports_tool_calls=any(read_call in run.reads for run in one),
        supports_object_arguments=any(_call_path(0, "arguments", "xqzkey") in run.reads for run in one),
        supports_parallel_tool_calls=any(_call_path(1, "name") in run.reads for run in _call_runs(template, wrap, 2)),
        supports_preserve_reasoning=_keeps_reasoning(template, wrap),
        supports_reasoning_effort=bool(template.undeclared & set(EFFORT_NAMES)),
    )


def _try(
    template: Template,
    messages: Sequence[Mapping[str, Any]],
    tools: Sequence[Mapping[str, Any]] = (),
    variables: Mapping[str, Any] | None = None,
) -> _Run | None:
    reads: set[Path] = set()
    values = recording({"messages": list(messages), "tools": list(tools)}, (), reads)
    reads.clear()
    try:
        pieces = template.run(
            dict.__getitem__(values, "messages"),
            tools=dict.__getitem__(values, "tools"),
            add_generation_prompt=True,
            variables=variables,
        )
    except (TemplateError, LimitError):
        return None
    return _Run("".join(pieces), frozenset(reads))


def _runs(
    template: Template, messages: Sequence[Mapping[str, Any]], variables: Mapping[str, Any] | None = None
) -> Iterator[_Run]:
    """Without tools and with one: some templates insist on the one or on the other."""
    for tools in ((), (_TOOL,)):
        run = _try(template, messages, tools, variables)
        if run is not None:
            yield run


def _content(text: str, wrap: bool) -> Any:
    return [{"type": "text", "text": text}] if wrap else text


def _user(wrap: bool) -> dict[str, Any]:
    return {"role": "user", "content": _content("xqzuser", wrap)}


def _content_forms(template: Template) -> tuple[bool, bool]:
    """(strings are written, parts are read). A template that shows neither is taken to want strings."""
    read = (BY_KEY, "messages", 0, "content", 0, "text")
    typed = any(read in run.reads and "xqzuser" in run.text for run in _runs(template, [_user(True)]))
    string = any("xqzuser" in run.text for run in _runs(template, [_user(False)]))
    return string or not typed, typed


def _reads_system(template: Template, wrap: bool) -> bool:
    runs = _runs(template, [{"role": "system", "content": _content("xqzsystem", wrap)}, _user(wrap)])
    return any(("messages", 0, "content") in run.reads for run in runs)


def _tool_runs(template: Template, wrap: bool) -> Iterator[_Run]:
    system = {"role": "system", "content": _content("xqzsystem", wrap)}
    for messages in ([_user(wrap)], [system, _user(wrap)]):
        run = _try(template, messages, [_TOOL])
        if run is not None:
            yield run


def _call_path(at: int, *rest: str) -> Path:
    return ("messages", 1, "tool_calls", at, "function", *rest)


def _call_runs(template: Template, wrap: bool, count: int) -> Iterator[_Run]:
    """Conversations with ``count`` calls in message 1, in the forms that one template or another insists on."""
    contents: tuple[Any, ...] = (_content("", wrap), _content("xqztext", wrap), None)
    for as_object, content, answered, tools in product((True, False), contents, (True, False), ((_TOOL,), ())):
        arguments: Any = {"xqzkey": "xqzvalue"} if as_object else '{"xqzkey": "xqzvalue"}'
        ids = [f"callid00{at}" for at in range(count)]
        calls = [{"id": id, "type": "function", "function": {"name": "xqztool", "arguments": arguments}} for id in ids]
        messages = [_user(wrap), {"role": "assistant", "content": content, "tool_calls": calls}]
        if answered:
            answer = {"role": "tool", "name": "xqztool", "content": _content("xqzresult", wrap)}
            messages += [{**answer, "tool_call_id": id} for id in ids]
        run = _try(template, messages, tools)
        if run is not None:
            yield run


def _keeps_reasoning(template: Template, wrap: bool) -> bool:
    for key in ("reasoning_content", "reasoning", "thinking"):
        assistant = {"role": "assistant", "content": _content("xqzanswer", wrap), key: _NEEDLE}
        if any(_NEEDLE in run.text for run in _runs(template, [_user(wrap), assistant, _user(wrap)], _KEEP_REASONING)):
            return True
    return False
