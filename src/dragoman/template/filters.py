"""Jinja's filters with provenance and bounds.

Filters that hand objects on (``first``, ``items``, ``map``, ``sort``, ...) are Jinja's own. Those that make a string
out of strings are written here, where Jinja's would lose the marks. A filter without a rule gives all input as soon
as anything in its arguments is input.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping, Sized
from typing import TYPE_CHECKING, Any

from jinja2.filters import FILTERS as JINJA_FILTERS
from jinja2.filters import make_attrgetter
from jinja2.utils import _PassArg, pass_context

from dragoman.template.provenance import Marked, contains_input, escaped, joined, plain, safe
from dragoman.template.serialise import json_of, pprint_of, text_of

if TYPE_CHECKING:
    from dragoman.template.environment import RenderContext

Filter = Callable[..., Any]


def _soft(value: Any, context: RenderContext) -> str:
    """``value`` itself if it is a string (a safe one stays safe), else as it is printed."""
    return value if isinstance(value, str) else text_of(value, context.budget)


@pass_context
def _string(context: RenderContext, value: Any) -> str:
    return _soft(value, context)


def _method(name: str) -> Filter:
    """The filter that calls a method of ``str``."""

    @pass_context
    def call(context: RenderContext, value: Any, *args: Any, **kwargs: Any) -> Any:
        method = getattr(_soft(value, context), name)
        return method(*args, **kwargs)

    return call


@pass_context
def _trim(context: RenderContext, value: Any, chars: str | None = None) -> str:
    return _soft(value, context).strip(chars)


@pass_context
def _center(context: RenderContext, value: Any, width: int = 80) -> str:
    text = _soft(value, context)
    context.budget.method(text, "center", (width,), {})
    return text.center(width)


@pass_context
def _title(context: RenderContext, value: Any) -> str:
    # Words begin after white space, hyphens and opening brackets (Jinja's rule, not that of str.title).
    text, starts = _soft(value, context), True
    pieces: list[str] = []
    at = 0
    for end, char in enumerate(text):
        breaks = char.isspace() or char in "-({[<"
        if breaks != starts or end == 0:
            if end:
                pieces.append(_word(text[at:end]))
            at, starts = end, breaks
    pieces.append(_word(text[at:]))
    return joined(pieces)


def _word(text: str) -> str:
    return text[:1].upper() + text[1:].lower()


@pass_context
def _replace(context: RenderContext, value: Any, old: Any, new: Any, count: int | None = None) -> str:
    text, old, new = (text_of(item, context.budget) for item in (value, old, new))
    times = -1 if count is None else count
    context.budget.method(text, "replace", (old, new, times), {})
    return plain(text).replace(old, new, times)


@pass_context
def _join(context: RenderContext, value: Any, d: Any = "", attribute: str | int | None = None) -> str:
    if attribute is not None:
        value = map(make_attrgetter(context.environment, attribute), value)
    items = [text_of(item, context.budget) for item in value]
    separator = text_of(d, context.budget)
    context.budget.method(separator, "join", (items,), {})
    return plain(separator).join(items) if items else ""


@pass_context
def _format(context: RenderContext, value: Any, *args: Any, **kwargs: Any) -> str:
    if args and kwargs:
        raise TypeError("can't handle positional and keyword arguments at the same time")
    result: str = context.environment.call_binop(context, "%", _soft(value, context), kwargs or args)  # type: ignore[attr-defined]
    return result


@pass_context
def _indent(context: RenderContext, s: str, width: int | str = 4, first: bool = False, blank: bool = False) -> str:
    context.budget.operator("*", " ", width if isinstance(width, int) else 1)
    indention = width if isinstance(width, str) else " " * width
    lines = (s + "\n").splitlines()
    context.budget.grow(len(s) + len(lines) * len(indention))
    pieces: list[str] = []
    for at, line in enumerate(lines):
        indented = first if at == 0 else bool(line) or blank
        pieces += ("\n" if at else "", indention if indented else "", line)
    return joined(pieces)


@pass_context
def _wordwrap(context: RenderContext, s: str, *args: Any, **kwargs: Any) -> Any:
    inserted = kwargs.get("wrapstring", args[2] if len(args) > 2 else None)
    context.budget.grow(len(s) * len(inserted or "\n"))
    return JINJA_FILTERS["wordwrap"](context.environment, s, *args, **kwargs)


@pass_context
def _sum(context: RenderContext, iterable: Any, attribute: str | int | None = None, start: Any = 0) -> Any:
    if attribute is not None:
        iterable = map(make_attrgetter(context.environment, attribute), iterable)
    if isinstance(start, str):
        raise TypeError("sum() can't sum strings [use ''.join(seq) instead]")
    for item in iterable:
        start = context.environment.call_binop(context, "+", start, item)  # type: ignore[attr-defined]
    return start


@pass_context
def _tojson(
    context: RenderContext,
    value: Any,
    ensure_ascii: bool = False,
    indent: int | str | None = None,
    separators: Any = None,
    sort_keys: bool = False,
) -> str:
    return json_of(
        value, context.budget, ensure_ascii=ensure_ascii, indent=indent, separators=separators, sort_keys=sort_keys
    )


def _pprint(value: Any) -> str:
    return pprint_of(value)


@pass_context
def _safe(context: RenderContext, value: Any) -> str:
    return safe(_soft(value, context))


@pass_context
def _escape(context: RenderContext, value: Any) -> str:
    return escaped(_soft(value, context))


@pass_context
def _forceescape(context: RenderContext, value: Any) -> str:
    return escaped(text_of(value, context.budget))


@pass_context
def _random(context: RenderContext, seq: Any) -> Any:
    # A prompt depends on nothing but its request: the choice is the same every time.
    return random.Random(0).choice(seq) if seq else context.environment.undefined("No random item, sequence was empty.")


@pass_context
def _counted(context: RenderContext, value: Any) -> Any:
    """``value``, about to be gone through without any statement being run for its items."""
    if isinstance(value, Sized):
        context.budget.step(len(value))
    return value


_OWN: Mapping[str, Filter] = {
    "_counted": _counted,
    "capitalize": _method("capitalize"),
    "center": _center,
    "e": _escape,
    "escape": _escape,
    "forceescape": _forceescape,
    "format": _format,
    "indent": _indent,
    "join": _join,
    "lower": _method("lower"),
    "pprint": _pprint,
    "random": _random,
    "replace": _replace,
    "safe": _safe,
    "string": _string,
    "sum": _sum,
    "title": _title,
    "tojson": _tojson,
    "trim": _trim,
    "upper": _method("upper"),
    "wordwrap": _wordwrap,
}

# Jinja's filters that make an object for each item (or character) of their value.
_PER_ITEM = frozenset(("batch", "list", "map", "reject", "select", "slice", "sort", "unique"))
# Jinja's filters that run as long as a number in their arguments says.
_SIZED_BY = frozenset(("batch", "slice", "round"))


def _metered(name: str, function: Filter) -> Filter:
    """``function`` with its work counted, and its text all input where it may hold some."""
    passes = _PassArg.from_obj(function)

    @pass_context
    def call(context: RenderContext, value: Any = None, *args: Any, **kwargs: Any) -> Any:
        budget = context.budget
        budget.step()
        if isinstance(value, Sized):
            budget.items(len(value) // (1 if name in _PER_ITEM else 8))
        if name in _SIZED_BY:
            for size in (*args, *kwargs.values()):
                budget.step(abs(size) if isinstance(size, int) else 0)
        if passes is _PassArg.context:
            result = function(context, value, *args, **kwargs)
        elif passes is _PassArg.eval_context:
            result = function(context.eval_ctx, value, *args, **kwargs)
        elif passes is _PassArg.environment:
            result = function(context.environment, value, *args, **kwargs)
        else:
            result = function(value, *args, **kwargs)
        budget.made(result)
        if isinstance(result, str) and not isinstance(result, Marked):
            text = str(result)
            if contains_input([value, *args, *kwargs.values()]):
                return safe(Marked(text)) if hasattr(result, "__html__") else Marked(text)
            return safe(text) if hasattr(result, "__html__") else text
        return result

    return call


FILTERS: Mapping[str, Filter] = {
    **{name: _metered(name, function) for name, function in {**JINJA_FILTERS, **_OWN}.items()},
}
