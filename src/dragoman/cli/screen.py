"""An answer on a terminal as it comes, as lines of JSON for a program, or as plain text in a pipe."""

from __future__ import annotations

import json
import sys
from typing import Any, Literal

from dragoman.chat import Delta
from dragoman.cli.output import harmless, print_json_line, print_styled, say
from dragoman.server.answers.jobs import Ended, Piece

_Part = Literal["", "reasoning", "content", "call"]


_CUT = {
    "length": "the answer was cut off: --max-tokens, or the engine's context",
    "content_filter": "the answer was cut off by the engine's content filter",
}


class Screen:
    """People see reasoning (dim), content and calls. A pipe gets the content alone, calls are told on stderr."""

    def __init__(self, *, as_json: bool) -> None:
        self.as_json = as_json
        self.people = sys.stdout.isatty() and not as_json
        self._part: _Part = ""
        self._call = ""

    def show(self, piece: Piece) -> None:
        if self.as_json:
            print_json_line(_told(piece))
        elif isinstance(piece, Ended):
            self._turn_to("")
            if self.people and piece.finish_reason in _CUT:
                self.note(_CUT[piece.finish_reason])
        elif piece.tool_calls:
            self._show_call(piece)
        elif piece.content:
            self._turn_to("content")
            self._write(piece.content)
        elif piece.reasoning_content and self.people:
            self._turn_to("reasoning")
            self._write(piece.reasoning_content, "dim italic")

    def _show_call(self, piece: Delta) -> None:
        for call in piece.tool_calls:
            if call.name is not None:
                self._turn_to("")
                self._turn_to("call")
                self._call = call.name
                if self.people:
                    self._write(f"→ {call.name} ", "bold cyan")
                else:
                    print(f"call {call.name} ", end="", file=sys.stderr)
            if self.people:
                self._write(call.arguments, "cyan")
            else:
                print(call.arguments, end="", file=sys.stderr, flush=True)

    def result(self, name: str, text: str, call_id: str) -> None:
        """What a tool gave."""
        if self.as_json:
            print_json_line({"tool_result": {"tool_call_id": call_id, "name": name, "content": text}})
        elif self.people:
            short = text if len(text) <= 2_000 else f"{text[:2_000]} ... ({len(text)} characters)"
            print_styled(f"← {harmless(short)}", "red" if text.startswith("error:") else "green")
        else:
            say(f"result {name} {json.dumps(text, ensure_ascii=False)}")

    def note(self, text: str) -> None:
        """What the model did not say, and is to be known; not where nobody but a program looks."""
        if self.people:
            self._turn_to("")
            print_styled(f"({text})", "yellow")
        elif not self.as_json:
            say(text)

    def stopped(self) -> None:
        """The user stopped the answer."""
        self._turn_to("")
        if self.people:
            print_styled("(stopped)", "yellow")

    def _turn_to(self, part: _Part) -> None:
        """The end of one part, and an empty line before the next one that people should tell apart."""
        if self._part == part:
            return
        if self._part == "call" and not self.people:
            print(file=sys.stderr, flush=True)
        elif self._part:
            print(flush=True)
            if self._part == "reasoning" and part == "content":
                print()
        elif not part:
            print(end="", flush=True)
        self._part = part

    def _write(self, text: str, style: str | None = None) -> None:
        if self.people and style is not None:
            print_styled(harmless(text), style, end="")
            sys.stdout.flush()
        else:
            print(harmless(text) if self.people else text, end="", flush=True)


def _told(piece: Piece) -> dict[str, Any]:
    if isinstance(piece, Ended):
        return {"finish_reason": piece.finish_reason, "usage": piece.usage.to_dict()}
    return piece.to_dict()
