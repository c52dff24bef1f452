"""A template, a prompt and a grammar as JSON-ready data: one function for the command line and for the page."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any

from dragoman.dialect.build import build
from dragoman.errors import DragomanError
from dragoman.format import ChatFormat
from dragoman.grammar import listing
from dragoman.grammar.nodes import Grammar
from dragoman.inspector.example import example_turn
from dragoman.server.props import props
from dragoman.turn import Turn
from dragoman.turn_grammar import TurnGrammar

# Facts that would only repeat what stands elsewhere, or fill the screen; they are in ``profile``.
_LEFT_OUT = ("literals", "baseline")
RESPONSE_TEMPLATE = "response-template"
NOTATIONS: Mapping[str, Callable[[TurnGrammar], Any]] = {
    "gbnf": TurnGrammar.to_gbnf,
    "lark": TurnGrammar.to_lark,
    "ebnf": TurnGrammar.to_ebnf,
    "structural-tag": TurnGrammar.to_structural_tag,
}


def template_shown(fmt: ChatFormat) -> dict[str, Any]:
    """All that ``/props`` tells, its facts as rows, and an example as it is rendered.

    facts: [{"name", "value", "why": [text]}]. example: a prompt as of :func:`prompt_shown` with its ``request``, or
    the ``error`` of a template that renders none. grammar: as of :func:`rules_shown`, for the example.
    """
    known = props(fmt)
    profile = known["profile"]
    out = {**known, "summary": summary(fmt), "facts": _facts(profile["facts"], profile["evidence"])}
    try:
        turn, request = example_turn(fmt)
    except DragomanError as error:
        return {**out, "example": {"error": str(error)}, "grammar": {"error": str(error)}}
    return {**out, "example": {"request": request, **prompt_shown(turn)}, "grammar": rules_shown(turn)}


def summary(fmt: ChatFormat) -> dict[str, Any]:
    """One line of a template: how calls are written, how reasoning is told, what is proven."""
    tools = fmt.profile.tools
    calls = "generic" if fmt.profile.generic_tools or tools is None else tools.format.value
    proven = [name for name, status in fmt.proof.items() if status == "proven"]
    return {"calls": calls, "reasoning": fmt.profile.reasoning.mode.value, "proven": proven}


def prompt_shown(turn: Turn) -> dict[str, Any]:
    """The prompt, its parts (``input``: it came with the request) and, with a vocabulary, its tokens.

    tokens: [{"id", "text", "input", "control"}]; ``input`` is null for a token of both sides.
    """
    shown: dict[str, Any] = {
        "prompt": turn.prompt.text,
        "parts": [{"text": text, "input": is_input} for text, is_input in turn.prompt.parts],
        "generation_prompt": turn.generation_prompt,
        "stops": list(turn.stops),
    }
    if turn.format.vocab is not None:
        shown["token_ids"] = list(turn.prompt.token_ids)
        shown["tokens"] = _tokens(turn)
    return shown


def _tokens(turn: Turn) -> list[dict[str, Any]]:
    vocab = turn.format.vocab
    assert vocab is not None
    owners = bytearray()  # of each byte of the prompt: 1 input, 0 template
    for text, is_input in turn.prompt.parts:
        owners += bytes([is_input]) * len(text.encode("utf-8", "replace"))
    whole = turn.prompt.text.encode("utf-8", "replace")
    out: list[dict[str, Any]] = []
    at: int | None = 0  # None: a tokenizer that changes the text, its tokens have no place in it any more
    for token in turn.prompt.token_ids:
        control = vocab.is_control(token)
        data = vocab.text_of(token).encode() if control else vocab.bytes_of(token) or b""
        owner: bool | None = None
        if at is not None and whole.startswith(data, at):
            found = set(owners[at : at + len(data)])
            owner = found.pop() == 1 if len(found) == 1 else None
            at += len(data)
        else:
            at = None
        out.append({"id": token, "text": data.decode("utf-8", "backslashreplace"), "input": owner, "control": control})
    return out


def rules_shown(turn: Turn) -> dict[str, Any]:
    """The grammar of a turn for people: ``write``, ``read``: [{"rule", "ways": [text]}], ``read`` best way first.

    Of ``write`` an ``error`` stands in its place where the format cannot carry the request's tools.
    """
    profile, request = turn.format.profile, turn.request
    out: dict[str, Any] = {"read": _rules(build(profile, request, write=False), "turn")}
    try:
        out["write"] = _rules(build(profile, request), "write")
    except DragomanError as error:
        out["error"] = str(error)
    return out


def _rules(grammar: Grammar, start: str) -> list[dict[str, Any]]:
    """The rules that are reached from ``start``, in the order in which they are, those of plain JSON last."""
    listed = dict(listing.rules(grammar))
    refs = listing.references(grammar)
    reached, todo = {start: None}, [start]
    while todo:
        for name in refs[todo.pop(0)]:
            if name not in reached and name in listed:
                reached[name] = None
                todo.append(name)
    ordered = sorted(reached, key=lambda name: name.startswith("json."))
    return [{"rule": name, "ways": listed[name]} for name in ordered]


def grammar_shown(turn: Turn, notation: str) -> dict[str, Any]:
    """The turn's grammar in one of NOTATIONS, and how an engine has to use it. Raises: SchemaError, UsageError."""
    if notation == RESPONSE_TEMPLATE:
        return {notation: turn.format.to_response_template()}
    grammar = turn.grammar
    # Only GBNF is used from a trigger on; the others begin with the first token.
    lazy = grammar.lazy and notation == "gbnf"
    return {
        notation: NOTATIONS[notation](grammar),
        "constrains": grammar.constrains,
        "lazy": lazy,
        "triggers": list(grammar.triggers) if lazy else [],
        "stops": list(turn.stops),
        "preserved_tokens": list(turn.preserved_tokens),
    }


def _facts(facts: Mapping[str, Any], evidence: Mapping[str, Any], prefix: str = "") -> list[dict[str, Any]]:
    """One row a fact: nested ones under dotted names, empty ones left out unless there is evidence for them."""
    rows: list[dict[str, Any]] = []
    for name, value in facts.items():
        dotted = prefix + name
        if dotted in _LEFT_OUT:
            continue
        why = [f"{item['source']}: {item['what']}" for item in evidence.get(dotted, ())]
        nested = isinstance(value, Mapping) and "slot" not in value
        if nested and value:
            if why:
                rows.append({"name": dotted, "value": "", "why": why})
            rows += _facts(value, evidence, f"{dotted}.")
        elif why or value not in (None, "", [], {}, False):
            rows.append({"name": dotted, "value": _value(value), "why": why})
    return rows


def _value(value: Any) -> str:
    """Markers as they are written, slots in capitals, a sequence of both with dots between them."""
    if isinstance(value, Mapping) and set(value) == {"slot"}:
        return str(value["slot"]).upper()
    if isinstance(value, list):
        return " · ".join(map(_value, value)) if value else "none"
    if isinstance(value, bool):
        return "yes" if value else "no"
    return json.dumps(value, ensure_ascii=False)
