"""Prompts with their provenance, and grammars, for people."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from dragoman.cli.output import CONTROL, INPUT, WHY, has_colours, print_heading, print_styled, print_text


def print_parts(parts: Sequence[Mapping[str, Any]]) -> None:
    """A prompt; what came with the request is told by its colour, or stands between « and »."""
    from rich.text import Text

    coloured = has_colours()
    line = Text()
    for part in parts:
        text = part["text"]
        if coloured:
            line.append(text, INPUT if part["input"] else CONTROL)
        else:
            line.append(f"«{text}»" if part["input"] else text)
    print_text(line)
    if coloured:
        print_styled("what came with the request", INPUT, end=" ")
        print_styled("what the template wrote", CONTROL)


def print_rules(shown: Mapping[str, Any]) -> None:
    """What :func:`dragoman.inspector.shown.rules_shown` tells, one rule a line and one way a line."""
    if "write" in shown:
        print_heading("What the model may write, under a constraint")
        _print_rules(shown["write"])
        print()
    else:
        print_heading("Nothing can be enforced")
        print_styled(f"  {shown['error']}\n")
    if "read" in shown:
        print_heading("How its output is read, the best way first")
        _print_rules(shown["read"])
        print_styled(
            "  'x' text  [a-z] characters  . any  / or  * + ? {n} repeats  *? as few as possible  <name: region of the "
            "message>\n  commit(label) no other reading is possible from here on  negate(x) x does not come next",
            WHY,
        )


def _print_rules(rules: Sequence[Mapping[str, Any]]) -> None:
    from rich.text import Text

    for rule in rules:
        line = Text(f"  {rule['rule']}", style="bold cyan")
        line.append(" = ", style="default not bold")
        between = "\n" + " " * (len(rule["rule"]) + 2) + " / "
        line.append(between.join(rule["ways"]) or "nothing", style="default not bold")
        print_text(line)
