"""A profile as plain data, for people and for JSON: every fact, and why it is believed."""

from __future__ import annotations

from dataclasses import fields, is_dataclass
from enum import Enum
from typing import Any

from dragoman.template.profile import JsonShape, Marker, Profile, Slot, ToolProfile


def describe(profile: Profile) -> dict[str, Any]:
    """``profile`` as JSON-ready data. ``facts`` holds the values, ``evidence`` the reasons by the fact's name."""
    facts = {item.name: _plain(getattr(profile, item.name)) for item in fields(profile) if item.name != "evidence"}
    if profile.tools is not None:
        facts["tools"] = _tools(profile.tools)
    evidence = {name: [item.to_dict() for item in items] for name, items in sorted(profile.evidence.items())}
    return {"facts": facts, "evidence": evidence}


def _tools(tools: ToolProfile) -> dict[str, Any]:
    out: dict[str, Any] = {item.name: _plain(getattr(tools, item.name)) for item in fields(tools)}
    out["value_styles"] = {kind: style.value for kind, style in tools.value_styles}
    out["type_words"] = dict(tools.type_words)
    if tools.object is not None:
        out["object"] = _object(tools.object)
    return out


def _object(shape: JsonShape) -> dict[str, Any]:
    out: dict[str, Any] = {item.name: _plain(getattr(shape, item.name)) for item in fields(shape)}
    out["constants"] = {".".join(path): text for path, text in shape.constants}
    return out


def _plain(value: Any) -> Any:
    """Markers as their text, slots as {"slot": name}, the rest by its kind."""
    if isinstance(value, Marker):
        return value.written
    if isinstance(value, Slot):
        return {"slot": value.value}
    if isinstance(value, Enum):
        return value.value
    if is_dataclass(value) and not isinstance(value, type):
        return {item.name: _plain(getattr(value, item.name)) for item in fields(value)}
    if isinstance(value, dict):
        return {str(key): _plain(item) for key, item in value.items()}
    if isinstance(value, (set, frozenset)):
        return sorted(_plain(item) for item in value)
    if isinstance(value, (list, tuple)):
        return [_plain(item) for item in value]
    return value
