"""What the page may ask for: a template, a request, an output; checked, within bounds of its own.

Templates that are pasted come from anywhere, so they are learned within tighter limits than a model's own.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from dragoman.errors import LimitError, UsageError
from dragoman.format import ChatFormat
from dragoman.inspector.sources import format_of_config, format_of_template
from dragoman.limits import DEFAULT
from dragoman.template import catalogue

BODY_BYTES_MAX = 4 << 20
TEMPLATE_CHARS_MAX = 400_000  # the largest public template has about 60,000
OUTPUT_BYTES_MAX = 200_000
STEPS_MAX = 5_000
# Public templates take under 3,000 steps for a short conversation; one that loops for ever is given up in 2 seconds.
PASTED = replace(DEFAULT, render_steps=200_000, render_chars=4_000_000, probe_renders=1_000)


def format_asked(body: Mapping[str, Any], served: ChatFormat) -> ChatFormat:
    """The format that ``template`` names: nothing or null is the served one.

    {"name": of a built-in format} | {"source": Jinja or the text of a tokenizer_config.json}, with "bos_token" and
    "eos_token". Raises: UsageError, TemplateError, LimitError.
    """
    asked = body.get("template")
    if asked is None:
        return served
    if not isinstance(asked, Mapping):
        raise UsageError("template must be an object with a name or a source", param="template")
    bos, eos = (_text(asked, name, "template") for name in ("bos_token", "eos_token"))
    name, source = (_text(asked, key, "template") for key in ("name", "source"))
    if name is not None:
        return ChatFormat.from_name(name, bos_token=bos, eos_token=eos, vocab=served.vocab)
    if source is None or not source.strip():
        raise UsageError("template is empty: paste a template or choose a file", param="template.source")
    if len(source) > TEMPLATE_CHARS_MAX:
        limit = TEMPLATE_CHARS_MAX
        raise LimitError("the template is too long", bound="template_chars", limit=limit, size=len(source))
    # A Jinja template may begin with a brace, but hardly with {" and never as a whole JSON object.
    if source.lstrip().startswith("{") and source.rstrip().endswith("}") and '"chat_template"' in source:
        return format_of_config(source, "the template", bos=bos, eos=eos, vocab=served.vocab, limits=PASTED)
    return format_of_template(source, bos=bos, eos=eos, vocab=served.vocab, limits=PASTED)


def request_asked(body: Mapping[str, Any]) -> dict[str, Any]:
    """The chat request. Raises UsageError."""
    request = body.get("request")
    if not isinstance(request, dict):
        raise UsageError("request must be a chat request, an object with messages", param="request")
    return request


def output_asked(body: Mapping[str, Any]) -> tuple[bytes, int]:
    """(what a model wrote, bytes of a piece). Raises UsageError, LimitError."""
    output = _text(body, "output", "") or ""
    data = output.encode("utf-8", "replace")
    if len(data) > OUTPUT_BYTES_MAX:
        limit = OUTPUT_BYTES_MAX
        raise LimitError("the output is too long to be watched", bound="output_bytes", limit=limit, size=len(data))
    size = body.get("chunk", 8)
    if type(size) is not int or size < 1:
        raise UsageError(f"chunk must be a whole number of bytes, 1 or more, not {size!r}", param="chunk")
    steps = -(-len(data) // size)
    if steps > STEPS_MAX:
        raise LimitError("too many pieces: give a larger chunk", bound="steps", limit=STEPS_MAX, size=steps)
    return data, size


def names() -> list[str]:
    """The built-in formats."""
    return list(catalogue.NAMES)


def _text(given: Mapping[str, Any], name: str, path: str) -> str | None:
    value = given.get(name)
    if value is not None and not isinstance(value, str):
        where = f"{path}.{name}" if path else name
        raise UsageError(f"{where} must be a text, not {type(value).__name__}", param=where)
    return value
