"""A model's folder: its chat template, the template for requests with tools, and the tokens that templates print."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from dragoman.errors import TemplateError, UsageError


@dataclass(frozen=True, slots=True)
class Folder:
    """What a folder says of templates. tool_use: the template for requests with tools, if it is another one."""

    source: str
    tool_use: str | None
    bos_token: str
    eos_token: str


def read_folder(path: Path) -> Folder:
    """Read tokenizer_config.json and the .jinja files. Raises: UsageError, TemplateError where there is no template."""
    if not path.is_dir():
        raise UsageError(f"{path} is no folder", param="folder")
    config = _json_file(path / "tokenizer_config.json")
    source, tool_use = _templates(path, config)
    return Folder(source, tool_use, *(_token_text(config.get(key)) for key in ("bos_token", "eos_token")))


def _json_file(path: Path) -> dict[str, Any]:
    if not path.is_file():
        return {}
    try:
        value = json.loads(path.read_bytes())
    except ValueError as error:
        raise UsageError(f"{path} is not JSON: {error}", param="folder") from error
    return value if isinstance(value, dict) else {}


def _templates(folder: Path, config: Mapping[str, Any]) -> tuple[str, str | None]:
    """(template, tool template) of a model folder: files win over tokenizer_config.json, as in transformers."""
    found = config.get("chat_template")
    named: dict[str, str] = {}
    if isinstance(found, str):
        named["default"] = found
    elif isinstance(found, list):
        named = {entry["name"]: entry["template"] for entry in found if isinstance(entry, dict)}
    for file in sorted((folder / "additional_chat_templates").glob("*.jinja")):
        named[file.stem] = file.read_text("utf-8")
    if (folder / "chat_template.jinja").is_file():
        named["default"] = (folder / "chat_template.jinja").read_text("utf-8")
    if not named:
        raise TemplateError(f"{folder} holds no chat template (chat_template.jinja or tokenizer_config.json)")
    source = named.get("default") or next(iter(named.values()))
    return source, named.get("tool_use")


def _token_text(token: Any) -> str:
    if isinstance(token, Mapping):
        token = token.get("content")
    return token if isinstance(token, str) else ""
