"""A chat format from the text of a template, or of the tokenizer_config.json that holds one."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from dragoman.errors import TemplateError, UsageError
from dragoman.format import ChatFormat
from dragoman.limits import DEFAULT, Limits
from dragoman.vocab import Vocabulary


def format_of_template(
    text: str,
    *,
    bos: str | None = None,
    eos: str | None = None,
    vocab: Vocabulary | None = None,
    limits: Limits = DEFAULT,
) -> ChatFormat:
    """From Jinja text. Raises: TemplateError, LimitError."""
    return ChatFormat.from_template(text, bos_token=bos or "", eos_token=eos or "", vocab=vocab, limits=limits)


def format_of_config(
    text: str,
    name: str,
    *,
    bos: str | None = None,
    eos: str | None = None,
    vocab: Vocabulary | None = None,
    limits: Limits = DEFAULT,
) -> ChatFormat:
    """From the text of a tokenizer_config.json; bos, eos: in place of its own. Raises: UsageError, TemplateError."""
    config = json_object(text, name)
    found = config.get("chat_template")
    named = {"default": found} if isinstance(found, str) else {}
    if isinstance(found, list):
        entries = [entry for entry in found if isinstance(entry, dict)]
        named = {str(entry.get("name")): str(entry["template"]) for entry in entries if entry.get("template")}
    if "default" not in named:
        raise TemplateError(f"{name} holds no chat_template; newer models keep it in chat_template.jinja beside it")
    return ChatFormat.from_template(
        named["default"],
        tool_use=named.get("tool_use"),
        bos_token=_token(config.get("bos_token")) if bos is None else bos,
        eos_token=_token(config.get("eos_token")) if eos is None else eos,
        vocab=vocab,
        limits=limits,
    )


def json_object(text: str, name: str) -> dict[str, Any]:
    """Raises UsageError that names ``name`` and the place."""
    try:
        value = json.loads(text)
    except json.JSONDecodeError as error:
        raise UsageError(f"{name} is no JSON ({error.msg}, line {error.lineno}, column {error.colno})") from error
    except RecursionError as error:
        raise UsageError(f"{name} is nested too deep") from error
    if not isinstance(value, dict):
        raise UsageError(f"{name} must hold a JSON object")
    return value


def _token(value: Any) -> str:
    if isinstance(value, Mapping):
        value = value.get("content")
    return value if isinstance(value, str) else ""
