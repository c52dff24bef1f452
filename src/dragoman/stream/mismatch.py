"""Which problems say that an output left the format of its template, and markup of the format that an answer holds.

An answer may speak of markers: what is quoted, or stands in a block of code, is no markup. Nor is an opener of calls
inside a line, or one that nothing of a call follows.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass

from dragoman.chat import Problem

# What a strict reading takes for an error. What schemas say, and which tools there are, is another matter.
MISMATCHES = frozenset(
    {
        "broken_call",
        "empty_call",
        "invalid_answer",
        "invalid_arguments",
        "missing_call",
        "nameless_call",
        "repaired_call",
        "stray_closer",
        "stray_text",
        "unclosed_reasoning",
        "unread_call",
        "unread_members",
    }
)
_QUOTES = "`'\""
_BEHIND_A_CALL = r"(?:^|[}}\])])[ \t]*{}"  # on a line of its own, or behind what may be a call
_FENCE = re.compile(r"^[ \t]*```.*?(?:^[ \t]*```|\Z)", re.MULTILINE | re.DOTALL)


@dataclass(frozen=True, slots=True)
class Marks:
    """What no answer holds unquoted: the closer of reasoning (empty: none), the openers of calls; closer: of a call."""

    reasoning_closer: str = ""
    openers: tuple[str, ...] = ()
    closer: str = ""

    def without(self, texts: Collection[str]) -> Marks:
        """The marks that are none of ``texts``."""
        openers = tuple(text for text in self.openers if text not in texts)
        reasoning, call = ("" if text in texts else text for text in (self.reasoning_closer, self.closer))
        return Marks(reasoning, openers, call)


def mismatch(problems: Sequence[Problem]) -> Problem | None:
    """The first problem that says so."""
    return next((problem for problem in problems if problem.code in MISMATCHES), None)


def markup_in(answer: str, behind: str, marks: Marks) -> Iterator[tuple[str, str]]:
    """(code, message) of what the answer holds, one of each kind at most. behind: its part behind calls."""
    if not any(text and text in answer for text in (marks.reasoning_closer, *marks.openers, marks.closer)):
        return
    answer = _FENCE.sub("", answer)
    closer = marks.reasoning_closer
    if closer and re.search(rf"(?<![{_QUOTES}]){re.escape(closer)}", answer):
        yield "stray_closer", f"the answer holds {closer!r}, which closes reasoning that is not open"
    for opener in marks.openers:
        more = rf"(?:[ \t\r\n]*[{{\[]|.*?{re.escape(marks.closer)})" if marks.closer else r"."
        if re.search(rf"^[ \t]*{re.escape(opener)}{more}", answer, re.MULTILINE | re.DOTALL):
            yield "unread_call", f"the answer holds {opener!r}, behind which stands no call of the format"
            return
    if marks.closer and re.search(_BEHIND_A_CALL.format(re.escape(marks.closer)), _FENCE.sub("", behind), re.MULTILINE):
        yield "unread_call", f"behind a call the answer holds {marks.closer!r}, which closes none that could be read"
