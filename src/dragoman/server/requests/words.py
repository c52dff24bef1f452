"""Words of a conversation that a server takes: roles that somebody knows, names of tools that are names.

The library takes any: a fine-tuned model may have roles of its own. A client's misspelt one would be written into the
prompt as it is, by the many templates that write whatever role they get.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from dragoman.errors import UsageError
from dragoman.server.requests.kinds import shown
from dragoman.turn import Turn

ROLES = ("system", "developer", "user", "assistant", "tool", "function")
# Wider than the APIs' own rule, so that dotted names, paths and other scripts pass; still one word of some length.
_NAME = re.compile(r"[\w.:/@-]{1,128}")


def check_words(turn: Turn, messages: Sequence[Mapping[str, Any]]) -> None:
    """Raises UsageError for a role that neither the API nor the template knows, and for a tool's name that is none."""
    known = turn.format.template.keys
    for at, message in enumerate(messages):
        role = message["role"]
        if role not in ROLES and role not in known:
            param = f"messages[{at}].role"
            raise UsageError(f"{param} must be one of {', '.join(ROLES)}, not {shown(role)}", param=param)
    for at, tool in enumerate(turn.request.tools):
        if not _NAME.fullmatch(tool.name):
            param = f"tools[{at}].function.name"
            words = "must be letters, digits and _ . : / @ -, at most 128 of them"
            raise UsageError(f"{param} {words}, not {shown(tool.name)}", param=param)
