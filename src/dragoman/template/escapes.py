"""Characters that a template spells otherwise inside a call: ``&amp;`` for ``&`` in a name that stands between quotes.

What is written behind the tool's name and the arguments' keys decides; JSON escapes itself and is not looked at.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from dragoman.template.probe import Prober, Rung, Said
from dragoman.template.profile import Escapes, Pairs
from dragoman.template.sentinels import FIRST, ProbeCall

# What markup gives another spelling. Backslashes and line breaks are the business of quoted notations.
_ASKED = "&\"<>'"
# One word before, between and after the asked characters, none of which a probe says elsewhere.
_WORDS = ("qabzo", "qebzi", "qibzu", "qobza", "qubze", "qybzo")
_WORD = "".join(word + char for word, char in zip(_WORDS, (*_ASKED, ""), strict=True))
_LONGEST = 16  # characters of one spelling

_Place = Callable[[str], ProbeCall]


def learn_escapes(prober: Prober, rung: Rung, *, name: bool, tagged: bool) -> Escapes:
    """The spellings in a call. name: the name is raw text; tagged: so are keys and string values."""
    call, (first, second) = FIRST.calls[0], FIRST.calls[0].arguments
    named: _Place = lambda text: replace(call, name=text)  # noqa: E731
    keyed: _Place = lambda text: replace(call, arguments=((text, first[1]), second))  # noqa: E731
    valued: _Place = lambda text: replace(call, arguments=((first[0], text), second))  # noqa: E731
    value = _spellings(prober, rung, valued) if tagged else ()
    return Escapes(
        name=_spellings(prober, rung, named) if name else (),
        key=_spellings(prober, rung, keyed) if tagged else (),
        value=value,
        json=bool(value) and _json_too(prober, rung, value),
    )


def _spellings(prober: Prober, rung: Rung, place: _Place) -> Pairs:
    text = prober.after_user(Said(None, (place(_WORD),)), rung)
    if text is None:
        return ()
    found = []
    for before, char, after in zip(_WORDS, _ASKED, _WORDS[1:], strict=False):
        # Written more than once (a closer repeats it), it has to be spelled alike.
        spelled = set(re.findall(f"{before}(\\S{{1,{_LONGEST}}}?){after}", text))
        if len(spelled) == 1 and spelled != {char} and len(written := spelled.pop()) > 1:
            found.append((char, written))
    return tuple(found)


def _json_too(prober: Prober, rung: Rung, pairs: Pairs) -> bool:
    """True: objects are spelled so too, not only strings."""
    call = FIRST.calls[0]
    shown: dict[str, Any] = {_WORDS[0]: 1}
    text = prober.after_user(Said(None, (replace(call, arguments=(("qefzu", shown), *call.arguments[1:])),)), rung)
    quote = dict(pairs).get('"', '"')
    return text is not None and quote + _WORDS[0] + quote in text and quote != '"'


def escaped(text: str, pairs: Pairs) -> str:
    """``text`` as the template writes it."""
    spelled = dict(pairs)
    return "".join(spelled.get(char, char) for char in text) if pairs else text


def undone(text: str, pairs: Pairs) -> str:
    """What ``text``, as written, means."""
    meant = {written: char for char, written in pairs}
    longest = sorted(meant, key=len, reverse=True)
    return re.sub("|".join(map(re.escape, longest)), lambda found: meant[found[0]], text) if pairs else text


def spellings(text: str, pairs: Pairs) -> tuple[str, ...]:
    """The ways to write ``text`` that are read as itself: the template's, and bare as some models write it."""
    return tuple(way for way in dict.fromkeys((escaped(text, pairs), text)) if undone(way, pairs) == text)
