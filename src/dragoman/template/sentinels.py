"""Words that no template writes: what a probe conversation is made of.

There are two disjoint sets. What differs between two renderings made with them is value, what stays is the template's.
The keys of a call are in alphabetical order because some templates sort them. Ids are nine letters and digits because
some templates refuse all others.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class ProbeCall:
    """One tool call of a probe."""

    id: str
    name: str
    arguments: tuple[tuple[str, Any], ...]

    @property
    def args(self) -> dict[str, Any]:
        return dict(self.arguments)


@dataclass(frozen=True, slots=True)
class Sentinels:
    """One set of words. ``calls`` have two arguments each."""

    system: str
    user: str
    follow_up: str
    content: str
    reasoning: str
    result: str
    calls: tuple[ProbeCall, ProbeCall]


FIRST = Sentinels(
    system="Gwendolith",
    user="Ubraxenor",
    follow_up="Vostrimalk",
    content="Xelmodurin",
    reasoning="Rufendakol",
    result="Tarvokemil",
    calls=(
        ProbeCall("Zk4Pw81Qd", "jorvex_lumat", (("kesprado", "wilmutrag"), ("kobtenil", "wuspadron"))),
        ProbeCall("Yh7Tm36Bf", "jambic_terox", (("kefgondu", "wanbolsk"), ("kruvasem", "wolqetrim"))),
    ),
)
SECOND = Sentinels(
    system="Pomdraseth",
    user="Quilbanox",
    follow_up="Sumtregal",
    content="Obvandrech",
    reasoning="Ifgalstrem",
    result="Ectombrawl",
    calls=(
        ProbeCall("a92VrN5sL", "zuntrag_polm", (("bisdrofek", "mopcranvil"), ("dulmeswit", "nagbrosteq"))),
        ProbeCall("c68XgJ0uD", "yelfim_brusk", (("fanqobrit", "pesglundar"), ("golhetwum", "rofdinquab"))),
    ),
)

# One value of each JSON type. Each differs in JSON, in Python's str() and in repr().
TYPED_VALUES: tuple[tuple[str, str, Any], ...] = (
    ("string", "hestrobal", "mulc\"trav'oz"),
    ("integer", "hintegrum", 740193),
    ("number", "hnumberak", 58213.625),
    ("boolean", "hboolidar", True),
    ("null", "hnulvetto", None),
    ("array", "harrastig", ["sobt'rav", True, None]),
    ("object", "hobjundel", {"vekt'omb": False, "zalp": None}),
)


def tool(name: str, parameters: dict[str, str]) -> dict[str, Any]:
    """A tool declaration; ``parameters`` maps a parameter to its JSON type."""
    properties = {key: {"type": kind, "description": f"the {kind}"} for key, kind in parameters.items()}
    schema = {"type": "object", "properties": properties, "required": list(properties)[:1]}
    function = {"name": name, "description": "a probe", "parameters": schema}
    return {"type": "function", "function": function}


def tools_of(words: Sentinels) -> list[dict[str, Any]]:
    """Declarations of the two tools of ``words``; both take the typed parameters too."""
    # No parameter is declared as null: templates that spell the types out (str, int, ...) know no such type.
    typed = {key: "string" if kind == "null" else kind for kind, key, _ in TYPED_VALUES}
    return [tool(call.name, {key: "string" for key, _ in call.arguments} | typed) for call in words.calls]
