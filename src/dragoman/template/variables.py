"""The variables that a template sees beside the conversation: the request's switches under all names in use.

Rules of this file: what a caller sets by name wins over a switch, a request over a server's defaults; nothing that
makes up the conversation can be set; a switch that no template knows does no harm.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from typing import Any

from dragoman.errors import UsageError
from dragoman.template.profile import Profile
from dragoman.template.render import RESERVED, Template
from dragoman.template.scan import scan

# Names that mean the template, the tokens or what a renderer does with them: none of it is a request's to replace.
_NOT_THE_REQUESTS = RESERVED | {"chat_template", "template", "tokenize", "tokenizer", "functions"}
# One switch, and the names under which templates keep (True) or drop (False) the reasoning of earlier turns.
PRESERVE = "preserve_reasoning"
KEEPS = (PRESERVE, "preserve_thinking", "keep_past_thinking")
DROPS = ("clear_thinking", "truncate_history_thinking", "drop_thinking")
EFFORT_NAMES = ("reasoning_effort", "reasoning_strength", "thinking_effort")
_FLAGS = ("enable_thinking", PRESERVE)
# The words of OpenAI's API; a template may compare with others.
EFFORTS = ("none", "minimal", "low", "medium", "high", "xhigh", "max")


def check_variables(given: Mapping[str, Any], param: str) -> None:
    """Raises UsageError where ``given`` sets what is not a request's to set, or a switch to no boolean."""
    if not isinstance(given, Mapping):
        raise UsageError(f"{param} must be an object of names and values, not {given!r}", param=param)
    for name, value in given.items():
        if name in _NOT_THE_REQUESTS or not isinstance(name, str) or name.startswith("_"):
            raise UsageError(f"{param} may not set {name!r} ({param}.{name})", param=f"{param}.{name}")
        if name in _FLAGS and not isinstance(value, bool):
            raise UsageError(f"{param}.{name} must be a boolean, not {value!r}", param=f"{param}.{name}")


def template_variables(
    template: Template,
    profile: Profile,
    *,
    enable_thinking: bool | None = None,
    reasoning_effort: str | None = None,
    response_format: Any = None,
    own: Mapping[str, Any] | None = None,
    defaults: Mapping[str, Any] | None = None,
) -> tuple[dict[str, Any], bool | None]:
    """(variables, is reasoning switched on or off: None where nobody said). Raises: UsageError."""
    if enable_thinking is not None and not isinstance(enable_thinking, bool):
        raise UsageError(f"enable_thinking must be a boolean, not {enable_thinking!r}", param="enable_thinking")
    check_variables({} if own is None else own, "chat_template_kwargs")
    _check_effort(reasoning_effort, template)
    named, base = own or {}, defaults or {}
    effort = _first(named.get(EFFORT_NAMES[0]), reasoning_effort, base.get(EFFORT_NAMES[0]))
    without = False if effort == "none" else None
    thinking = _first(named.get("enable_thinking"), enable_thinking, without, base.get("enable_thinking"))
    keep = _first(named.get(PRESERVE), base.get(PRESERVE))
    out = dict(base)
    out.pop(EFFORT_NAMES[0], None)
    said: dict[str, Any] = {}
    if thinking is not None:
        words = {name: pair[0 if thinking else 1] for name, pair in profile.thinking_words.items()}
        flags = [name for name in profile.thinking_switches if name not in words]
        out.update(dict.fromkeys(("enable_thinking", *flags), thinking))
        said = {name: word for name, word in words.items() if word is not None}
        out.update(said)
    # A template that has no such effort is switched off instead, and a switch that is off says more than any effort.
    if effort is not None and (effort != "none" or "none" in template.compared):
        out.update({name: effort for name in EFFORT_NAMES if name == EFFORT_NAMES[0] or name in template.undeclared})
    if thinking is False:
        out.update(said)
    if keep is not None:
        out.update({**dict.fromkeys(KEEPS, keep), **dict.fromkeys(DROPS, not keep)})
    if response_format is not None and "response_format" in template.undeclared:
        out["response_format"] = response_format
    return {**out, **named}, thinking


def unread_switches(
    template: Template,
    profile: Profile,
    *,
    enable_thinking: bool | None = None,
    reasoning_effort: str | None = None,
    own: Mapping[str, Any],
) -> list[tuple[str, Any]]:
    """(name, value) of each of these arguments of :func:`template_variables` that says nothing to the template."""
    given = {"enable_thinking": enable_thinking, EFFORT_NAMES[0]: reasoning_effort}
    named = {f"chat_template_kwargs.{name}": value for name, value in own.items()}
    every = [(name, value) for name, value in {**given, **named}.items() if value is not None]
    return [(name, value) for name, value in every if not _is_read(name.rpartition(".")[2], value, template, profile)]


def _is_read(name: str, value: Any, template: Template, profile: Profile) -> bool:
    if name in template.undeclared:
        return True
    switched = bool(profile.thinking_switches or profile.thinking_words)
    if name == "enable_thinking":
        return switched
    if name == EFFORT_NAMES[0]:
        return (value == "none" and switched) or any(each in template.undeclared for each in EFFORT_NAMES)
    return name == PRESERVE and any(each in template.undeclared for each in (*KEEPS, *DROPS))


def _check_effort(effort: str | None, template: Template) -> None:
    """Raises UsageError for a word that neither the API nor the template knows."""
    if effort is None or effort in EFFORTS:
        return
    words = (*EFFORTS, *(word for word in _own_efforts(template.source) if word not in EFFORTS))
    if effort not in words:
        message = f"reasoning_effort must be one of {', '.join(words)}, not {effort!r:.60}"
        raise UsageError(message, param="reasoning_effort")


@lru_cache(maxsize=64)
def _own_efforts(source: str) -> tuple[str, ...]:
    """The words that a template compares its effort with."""
    variables = scan(source).variables
    return tuple(dict.fromkeys(word for name in EFFORT_NAMES for word in variables.get(name, ())))


def _first(*values: Any) -> Any:
    """The first that is given."""
    return next((value for value in values if value is not None), None)
