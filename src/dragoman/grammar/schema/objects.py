"""Objects: properties in their declared order, then further ones. One rule for each place where the order may go on.

``rest[i]`` is what may follow once a property was written and those before ``i`` are past; ``first[i]`` the same with
nothing written yet. Optional properties make both choices of two, so the size is linear in their number. That a
further key is written twice is not excluded: no grammar remembers keys; each of its values validates.
"""

from __future__ import annotations

from ..nodes import NOTHING, Node, Repeat, alt, lit, seq
from .goals import Parts, dicts, extra_goal, member_goal
from .rules import Rules
from .strings import none_of


def object_(rules: Rules, parts: Parts) -> Node:
    """An object that satisfies all parts."""
    schemas = dicts(rules.document, parts)
    required = dict.fromkeys(name for schema in schemas for name in schema.get("required", ()))
    names = list(dict.fromkeys([name for schema in schemas for name in schema.get("properties", ())] + [*required]))
    if not names and not _says_additional(rules, parts) and not _closed(rules, parts):
        return rules.any("object")
    layout = rules.layout
    comma = seq(lit(","), layout.comma)
    further = _further(rules, parts, names)
    rest = lit("}") if further == NOTHING else seq(Repeat(seq(comma, further)), lit("}"))
    first = lit("}") if further == NOTHING else alt(lit("}"), seq(further, rules.rule(rest)))
    for name in reversed(names):
        value = rules.goal(member_goal(rules.document, parts, name))
        pair = seq(rules.text(name), layout.pad, lit(":"), layout.colon, value, layout.pad)
        if name in required:
            rest = rules.rule(rest)
            first, rest = seq(pair, rest), seq(comma, pair, rest)
        else:
            rest = rules.rule(rest)
            first = alt(seq(pair, rest), rules.rule(first))
            rest = alt(seq(comma, pair, rest), rest)
    return seq(lit("{"), layout.pad, first)


def _says_additional(rules: Rules, parts: Parts) -> bool:
    return any("additionalProperties" in schema for schema in dicts(rules.document, parts))


def _closed(rules: Rules, parts: Parts) -> bool:
    """Whether no property beside the declared ones may be written."""
    if any(rules.document.schema(place) is False for place in extra_goal(rules.document, parts)):
        return True
    declared = any("properties" in schema for schema in dicts(rules.document, parts))
    return rules.options.closed_objects and declared and not _says_additional(rules, parts)


def _further(rules: Rules, parts: Parts, names: list[str]) -> Node:
    """One property that is not declared; NOTHING if there can be none."""
    if _closed(rules, parts):
        return NOTHING
    layout = rules.layout
    key = none_of(names, rules.style, rules.rule) if names else rules.any("string")
    value = rules.goal(extra_goal(rules.document, parts))
    return rules.rule(seq(key, layout.pad, lit(":"), layout.colon, value, layout.pad))
