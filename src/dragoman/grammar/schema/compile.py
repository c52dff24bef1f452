"""JSON Schema to grammar rules: exact for the keywords of keywords.py, SchemaError with a pointer for all others."""

from __future__ import annotations

import json
from typing import Any

from ...errors import LimitError, SchemaError
from ...limits import DEFAULT, Limits
from ..json import json_rules, json_string, json_text
from ..nodes import NOTHING, Choice, Node, lit
from ..prune import prune
from .arrays import array
from .check import parts_hold
from .disjoint import check_one_of, listed_values
from .document import ROOT, Document
from .goals import Parts, alternatives, dicts, types_of
from .keywords import TYPES
from .numbers import decimals, integers
from .objects import object_
from .options import SchemaOptions
from .ranges import bounds, counts
from .rules import Rules
from .strings import one_of


def compile_schema(
    schema: Any,
    *,
    name: str,
    options: SchemaOptions | None = None,
    limits: Limits = DEFAULT,
    json_prefix: str | None = None,
) -> dict[str, Node]:
    """Rules for JSON texts that validate against ``schema``: rule ``name``, and others under ``name`` and a dot.

    The rules for any JSON are named after ``json_prefix`` where one is given, so that several schemas can share them.
    Every text that the rules produce validates. Not every valid text is produced: strings and numbers have one
    spelling, properties one order, unbounded ones a length (see :class:`SchemaOptions`).
    Raises SchemaError, with the JSON pointer, for what cannot be enforced and for a schema that no value satisfies;
    LimitError for one that is too large.
    """
    options = options or SchemaOptions()
    document = Document(schema, limits)
    rules = Rules(document, name, json_prefix or f"{name}.json", options, limits)
    rules.rules |= json_rules(prefix=rules.json, style=options.style)
    rules.queue.append((name, (ROOT,)))
    while rules.queue:
        rule, goal = rules.queue.popleft()
        rules.rules[rule] = _choice([_alternative(rules, parts) for parts in alternatives(document, goal, limits)])
    check_one_of(document, limits)
    kept = prune(rules.rules, name)
    if kept is None:
        raise SchemaError("no finite value validates against this schema")
    return kept


def _choice(options: list[Node]) -> Node:
    flat = [item for option in options for item in (option.items if isinstance(option, Choice) else (option,))]
    unique = list(dict.fromkeys(flat))
    return unique[0] if len(unique) == 1 else Choice(tuple(unique))


def _alternative(rules: Rules, parts: Parts) -> Node:
    """The values that satisfy the own keywords of all parts."""
    document = rules.document
    listed = listed_values(document, parts)
    if listed is not None:
        values = [value for value in listed if parts_hold(document, parts, value, rules.limits)]
        return one_of([_constant(rules, parts, value) for value in values], rules.rule)
    if not parts:
        return rules.any()
    types = types_of(document, parts)
    return _choice([node for kind in TYPES if kind in types for node in [_typed(rules, parts, kind, types)] if node])


def _typed(rules: Rules, parts: Parts, kind: str, types: frozenset[str]) -> Node | None:
    """The values of one type; None for whole numbers that ``number`` includes already."""
    if kind == "object":
        return object_(rules, parts)
    if kind == "array":
        return array(rules, parts)
    if kind == "null":
        return lit("null")
    if kind == "boolean":
        return Choice((lit("true"), lit("false")))
    schemas = dicts(rules.document, parts)
    if kind == "string":
        least, most = counts(schemas, "minLength", "maxLength")
        if least == 0 and most is None:
            return rules.any("string")
        return json_string(rules.style, minimum=least, maximum=most) if most is None or least <= most else NOTHING
    low, high = bounds(schemas)
    options = rules.options
    if kind == "integer":
        return None if "number" in types else integers(low, high, options.number_digits)
    if low is None and high is None:
        return rules.any("number")
    return decimals(low, high, options.number_digits, options.fraction_digits)


def _constant(rules: Rules, parts: Parts, value: Any) -> str:
    """A listed value as text, spelled as the options say."""
    comma, colon = (",", ":") if rules.options.whitespace == "compact" else (", ", ": ")
    try:
        return _written(value, comma, colon, rules.options.banned)
    except RecursionError:
        limit = rules.limits.schema_nodes
        raise LimitError("a listed value is nested too deep", bound="schema_nodes", limit=limit) from None
    except ValueError:
        raise rules.document.error(parts[0], f"{value!r:.60} is no JSON value") from None


def _written(value: Any, comma: str, colon: str, banned: tuple[bytes, ...]) -> str:
    if isinstance(value, str):
        return json_text(value, banned)
    if isinstance(value, list):
        return f"[{comma.join(_written(item, comma, colon, banned) for item in value)}]"
    if isinstance(value, dict):
        pairs = (json_text(key, banned) + colon + _written(item, comma, colon, banned) for key, item in value.items())
        return "{" + comma.join(pairs) + "}"
    return json.dumps(value, allow_nan=False)
