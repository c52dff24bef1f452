"""Variables that say by a word how much to reason, of which one word says: not at all (``reasoning_effort='none'``)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace

from dragoman.template.probe import Prober, Rung, conversation
from dragoman.template.profile import Marker, Word
from dragoman.template.sentinels import FIRST

# Words for no reasoning at all, and those for some of it that are tried first.
_NOTHING = ("none", "off", "disabled", "no", "never", "zero")
_SOME = ("medium", "high", "low")


def learn_levels(
    prober: Prober, rung: Rung, names: Mapping[str, tuple[str, ...]], around: tuple[Marker, Marker]
) -> Iterator[tuple[str, tuple[Word, Word]]]:
    """(variable, its words for on and off; None: it is left alone). names: variable -> texts that it is compared with.

    around: what opens and closes reasoning. A word counts where the prompt leaves reasoning less open with it, or where
    the template asks for that very word and the prompt differs.
    """
    opens, closes = around

    def prompt(name: str, word: str | None) -> str:
        way = rung if word is None else replace(rung, variables=(*rung.variables, (name, word)))
        return prober.render(conversation(None, way, FIRST, "none"), way, generation=True) or ""

    def open_with(name: str, word: str | None) -> int:
        text = prompt(name, word)
        return openness(text or prompt(name, None), opens.text, closes.text)  # a refused word changes nothing

    for name, texts in names.items():
        if not set(texts) & {*_NOTHING, *_SOME}:
            continue  # these words say neither how much nor nothing
        asked = [word for word in _NOTHING if word in texts]
        default = open_with(name, None)
        off = next((word for word in (*asked, "none") if open_with(name, word) < default), None)
        if off is not None:
            yield name, (None, off)
            continue
        some = [word for word in (*_some(texts), *texts, _SOME[0]) if word not in _NOTHING]
        on = next((word for word in some if open_with(name, word) > default), None)
        if on is not None:
            yield name, (on, (*asked, "none")[0])
        elif asked and prompt(name, asked[0]) not in ("", prompt(name, None), prompt(name, some[0])):
            yield name, (None, asked[0])


def _some(texts: Iterable[str]) -> list[str]:
    known = set(texts)
    return [word for word in _SOME if word in known]


def openness(text: str, opens: str, closes: str) -> int:
    """How a prompt leaves reasoning: 2 opened, 1 not spoken of, 0 closed."""
    closed, opened = (text.rfind(mark.strip()) if mark.strip() else -1 for mark in (closes, opens))
    return 1 if closed == opened else 2 if opened > closed else 0
