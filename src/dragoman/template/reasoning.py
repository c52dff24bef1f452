"""How a template writes reasoning and content: rendered under each key, in each place, and opened by the prompt."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass, replace
from typing import Any

from dragoman.template.anchors import YES_NO, Anchors
from dragoman.template.atoms import closers, common_suffix, from_tags, openers, tags
from dragoman.template.levels import learn_levels, openness
from dragoman.template.probe import THINKING_PART, Prober, Rung, Said, Tail, conversation
from dragoman.template.profile import ContentMode, ContentProfile, Marker, ReasoningMode, ReasoningProfile, Word
from dragoman.template.scan import Scan
from dragoman.template.sentinels import FIRST

# Keys under which servers hand reasoning back, the usual one first. What a template reads beyond them is tried too.
_KNOWN_KEYS = ("reasoning_content", "reasoning", "thinking", "thought", "thoughts", "reasoning_text")
_HINTS = ("think", "thought", "reason")
# Variables of other switches, whose values are words.
_WORDS = ("reasoning_effort", "reasoning_strength", "thinking_effort")
# A number that no template writes by itself.
_QUANTITY = 740_193


@dataclass(frozen=True, slots=True)
class Place:
    """A place in a conversation where reasoning may be rendered, and the turn that came out of it."""

    name: str
    tail: Tail
    calls: bool
    text: str | None = None  # the turn, from its header on; None: reasoning was not rendered there


@dataclass(frozen=True, slots=True)
class Spoken:
    """What was learned of reasoning and content, with the words of the evidence."""

    reasoning: ReasoningProfile
    content: ContentProfile
    switches: tuple[str, ...]
    empty_block: str
    why: str
    words: tuple[tuple[str, tuple[Word, Word]], ...] = ()  # switch -> its words for on and off, where not True, False


_PLACES = (Place("last", "none", False), Place("with_calls", "none", True), Place("old", "user", False))


class ReasoningLearner:
    """Renders reasoning in every place it may stand."""

    def __init__(self, prober: Prober, plain: Rung | None, calls: Rung | None, anchors: Anchors, scan: Scan) -> None:
        self._prober = prober
        self._plain = plain
        self._calls = calls
        self._anchors = anchors
        self._scan = scan

    def learn(self) -> Spoken:
        spoken = self._learn()
        if spoken.reasoning.mode is ReasoningMode.NONE:
            return spoken
        facts = spoken.reasoning
        known = dict.fromkeys((*spoken.switches, *self._told_elsewhere()))
        shown = {name: self._openness(name, facts) for name in known}
        quantities = [name for name in shown if self._is_quantity(name)]
        flags = [name for name in shown if name not in quantities]
        default = openness(self._anchors.generation_prompt, facts.open.text, facts.close.text)
        budgets = [name for name in quantities if _is_hinted(name) and shown[name][1] == 0 < default]
        off = [name for name in flags if shown[name][0] < shown[name][1]]
        worded = tuple(self._worded(flags))
        words = (
            *worded,
            *self._levels((*known, *(name for name, _ in worded)), facts),
            *((name, (False, True)) for name in off),
            # A budget of nothing switches reasoning off; nobody but the caller knows one that is enough.
            *((name, (None, 0)) for name in budgets),
        )
        if not words and not flags:
            words = tuple(self._by_what_it_does(facts, quantities))
        names = dict.fromkeys((*(name for name in flags if name not in off), *(name for name, _ in words)))
        switch = next((name for name in names if name not in (*off, *quantities)), None)
        reasoning = replace(facts, switch=switch)
        return replace(spoken, reasoning=reasoning, switches=tuple(names), words=words)

    def _is_quantity(self, name: str) -> bool:
        """True: a number above zero and one below it give different prompts, so the variable is no flag."""
        rung = self._plain or self._calls
        if rung is None:
            return False
        above, below = (self._prompt(rung, name, value) for value in (_QUANTITY, -_QUANTITY))
        return above is not None and below is not None and above != below

    def _told_elsewhere(self) -> Iterator[str]:
        """Flags that speak of reasoning and change only what stands in front of the user's words: a system text."""
        rung = self._plain or self._calls
        if rung is None:
            return
        prompts = self._anchors.generations
        for name in self._scan.variables:
            if not _is_hinted(name) or name in _WORDS or any(key.startswith(name + "=") for key in prompts):
                continue
            on, off = (self._prompt(rung, name, value) for value in (True, False))
            if on is not None and off is not None and on != off:
                yield name

    def _prompt(self, rung: Rung, name: str, value: Any) -> str | None:
        """The whole prompt of a user's message with one variable set."""
        rung = replace(rung, variables=(*rung.variables, (name, value)))
        return self._prober.render(conversation(None, rung, FIRST, "none"), rung, generation=True)

    def _openness(self, name: str, facts: ReasoningProfile) -> tuple[int, int]:
        """How the prompt leaves reasoning with a flag set and with it unset; a flag may say no (``skip_reasoning``)."""
        prompts, default = self._anchors.generations, self._anchors.generation_prompt
        on, off = (
            openness(prompts.get(f"{name}={flag}", default), facts.open.text, facts.close.text)
            for flag in (True, False)
        )
        return on, off

    def _levels(self, known: Collection[str], facts: ReasoningProfile) -> Iterator[tuple[str, tuple[Word, Word]]]:
        """Variables with a word for no reasoning at all among others for more or less of it."""
        rung = self._plain or self._calls
        names = {n: texts for n, texts in self._scan.variables.items() if n not in known and _is_hinted(n) and texts}
        return iter(()) if rung is None else learn_levels(self._prober, rung, names, (facts.open, facts.close))

    def _worded(self, known: Collection[str]) -> Iterator[tuple[str, tuple[Word, Word]]]:
        """Variables that switch reasoning by a word for yes and one for no: the prompt differs between the two."""
        prompts, default = self._anchors.generations, self._anchors.generation_prompt
        for name, texts in self._scan.variables.items():
            if name in known or not _is_hinted(name):
                continue
            for yes, no in YES_NO:
                asked = [word for word in (yes, no) if word in texts]
                on, off = (prompts.get(f"{name}={word}", default) for word in (yes, no))
                if asked and on != off:
                    yield name, (yes, no)
                    break

    def _by_what_it_does(
        self, facts: ReasoningProfile, known: Collection[str]
    ) -> Iterator[tuple[str, tuple[Word, Word]]]:
        """Variables of any name, words of any kind: one opens or closes reasoning in the prompt where it is given."""
        prompts, default = self._anchors.generations, self._anchors.generation_prompt
        marks = facts.open.text, facts.close.text
        usual = openness(default, *marks)
        for name, texts in self._scan.variables.items():
            if name in known:
                continue
            shown = {word: openness(prompts.get(f"{name}={word}", default), *marks) for word in texts}
            on = next((word for word, how in shown.items() if how > usual and how == 2), None)
            off = next((word for word, how in shown.items() if how < usual and how == 0), None)
            if on is not None or off is not None:
                yield name, (on, off)

    def _learn(self) -> Spoken:
        before = self._text_before(None)
        for key, variables in self._attempts():
            places = [self._render(place, {key: FIRST.reasoning}, variables) for place in _PLACES]
            if any(place.text is not None for place in places):
                return self._rendered(key, places, before or "", variables)
        return self._inline(before or "")

    # What the template renders under a key of its own.

    def _attempts(self) -> Iterator[tuple[str, dict[str, Any]]]:
        read = [key for key in sorted(self._scan.keys) if _is_hinted(key)]
        keys = [key for key in dict.fromkeys((*_KNOWN_KEYS, *read)) if key in self._scan.keys]
        if "thinking" in self._scan.keys:
            keys.append(THINKING_PART)
        for variables in self._settings():
            for key in keys:
                yield key, variables

    def _settings(self) -> Iterator[dict[str, Any]]:
        """Template variables to try: none, then each switch that could let reasoning through."""
        yield {}
        for name in self._scan.variables:
            if _is_hinted(name):
                yield {name: True}

    def _turn(
        self, place: Place, reasoning: dict[str, str], variables: dict[str, Any], content: str | None
    ) -> str | None:
        rung = self._calls if place.calls else self._plain
        if rung is None:
            return None
        tail = place.tail if not place.calls or rung.tail == "none" else rung.tail
        calls = FIRST.calls[:1] if place.calls else ()
        said = Said(content, calls, tuple(reasoning.items()))
        rung = replace(rung, variables=(*rung.variables, *variables.items()))
        text = self._prober.after_user(said, rung, tail=tail)
        return None if text is None else self._anchors.body(text)

    def _render(self, place: Place, reasoning: dict[str, str], variables: dict[str, Any]) -> Place:
        content = None if place.calls else FIRST.content
        text = self._turn(place, reasoning, variables, content)
        return replace(place, text=text if text is not None and FIRST.reasoning in text else None)

    def _text_before(self, reasoning: dict[str, str] | None, tail: Tail = "none") -> str | None:
        text = self._turn(Place("last", tail, False), reasoning or {}, {}, FIRST.content)
        return text[: text.index(FIRST.content)] if text is not None and FIRST.content in text else None

    def _rendered(self, key: str, places: list[Place], before: str, variables: dict[str, Any]) -> Spoken:
        found = {place.name: place.text for place in places if place.text is not None}
        opened, between = self._borders(found, variables)
        # The answer's own opener stands before it with and without reasoning; what is left closes the reasoning.
        header = self._anchors.header
        own_message = bool(header.strip() and before.strip()) and between.endswith(header + before)
        wrapper = before if own_message else common_suffix([before, between])
        if not {"last", "old"} & found.keys() and set(tags(opened + between)).isdisjoint(tags(before)):
            between, wrapper = between + before, before  # reasoning and an answer were never seen together
        if not between[: len(between) - len(wrapper)].strip():
            # All of it stands before every answer: the answer's block begins with the tag that reasoning's begins with.
            first = tags(opened)[:1]
            at = between.rfind(first[0]) if first else -1
            wrapper = between[at:] if at > 0 else ""
        closed = between[: len(between) - len(wrapper)]
        empty = "" if wrapper.strip() or not before.strip() else before
        if wrapper.strip() and before != wrapper:
            empty = before[: len(before) - len(wrapper)]
        beyond_calls = {"last", "old"} & found.keys() or any(opened.strip() in rest for _, rest in self._openings())
        mode = ReasoningMode.TAGGED if beyond_calls else ReasoningMode.TOOLS_ONLY
        if not empty and "with_calls" in found:
            empty = self._empty_beside_calls(opened, closed, variables)
        if not opened.strip() and not closed.strip():
            mode = ReasoningMode.UNKNOWN
        elif not opened.strip() or self._preopened(opened, closed):
            mode = ReasoningMode.PREOPENED
        switches = self._switches(opened, closed, variables)
        profile = ReasoningProfile(
            mode=mode,
            open=Marker.of(opened),
            close=Marker.of(closed),
            message_key=key,
            rendered_last="last" in found,
            rendered_old="old" in found,
            rendered_with_calls="with_calls" in found,
            beside_calls=self._other_block(found, variables, opened),
            after_content=any(_behind(text) for text in found.values()),
            switch=switches[0] if switches else None,
            empty_block=empty,
        )
        why = f"{key!r} is rendered in: {', '.join(found)}" + (f", with {variables}" if variables else "")
        firsts = (*tags(opened)[:1], *tags(closed)[:1])
        # Of reasoning in a message of its own the closer ends a message: the answer's ends with the turn.
        mirror = (firsts[0], firsts[1]) if len(firsts) == 2 and not own_message else None
        return Spoken(profile, self._content(wrapper, bool(wrapper.strip()), mirror), switches, empty, why)

    def _borders(self, found: dict[str, str], variables: dict[str, Any]) -> tuple[str, str]:
        """(what stands before reasoning, what stands between it and the answer)."""
        for name in ("last", "old", "with_calls"):
            text = found.get(name)
            if text is None:
                continue
            at = text.index(FIRST.reasoning)
            rest = text[at + len(FIRST.reasoning) :]
            if FIRST.content in rest:
                return text[:at], rest[: rest.index(FIRST.content)]
            if name != "with_calls" and FIRST.content in text[:at]:
                return self._after_content(text[:at], rest)
            if name == "with_calls":
                for closer in closers(text[:at]):
                    if rest.lstrip().startswith(closer):
                        end = rest.index(closer) + len(closer)
                        return text[:at], rest[: end + len(rest[end:]) - len(rest[end:].lstrip())]
                bare = self._turn(Place(name, "none", True), {}, variables, None)
                shared = common_suffix([rest, bare]) if bare is not None else ""
                return text[:at], rest[: len(rest) - len(shared)]
        return "", ""

    def _other_block(
        self, found: dict[str, str], variables: dict[str, Any], opened: str
    ) -> tuple[Marker, Marker] | None:
        """What stands around reasoning in front of calls, where that is opened otherwise than in front of an answer."""
        if "with_calls" not in found or not {"last", "old"} & found.keys():
            return None
        other, closed = self._borders({"with_calls": found["with_calls"]}, variables)
        one, two = opened.strip(), other.strip()
        if not one or not two or not closed.strip() or one in two or two in one:
            return None
        return Marker.of(other), Marker.of(closed)

    def _empty_beside_calls(self, opened: str, closed: str, variables: dict[str, Any]) -> str:
        """The reasoning markers that a turn of calls starts with although there is no reasoning."""
        bare = self._turn(_PLACES[1], {}, variables, None)
        if bare is None or not closed.strip() or closed.strip() not in bare:
            return ""
        end = bare.index(closed.strip()) + len(closed.strip())
        inside = bare[:end].replace(opened.strip(), "", 1) if opened.strip() else bare[:end]
        return bare[:end] if inside.strip() == closed.strip() else ""

    def _after_content(self, before: str, rest: str) -> tuple[str, str]:
        """Reasoning that stands after the answer."""
        opened = before[before.rindex(FIRST.content) + len(FIRST.content) :]
        end = common_suffix([rest, self._anchors.text_end])
        return opened, rest[: len(rest) - len(end)]

    # What only the generation prompt or the template's own tests show.

    def _openings(self) -> Iterator[tuple[str, str]]:
        """(variable setting, what the generation prompt adds to the assistant's header)."""
        header = self._anchors.header.lstrip()
        if not header:
            return  # the generation prompt is the header
        prompts = {"": self._anchors.generation_prompt, **self._anchors.generations}
        for setting, text in prompts.items():
            core = text if text.startswith(self._anchors.header) else text.lstrip()
            size = len(self._anchors.header) if core is text else len(header)
            if core[:size].endswith(header) and core[size:].strip():
                yield setting, core[size:]
                continue
            # The prompt may leave away what the history begins a turn with.
            known = next((end for end in from_tags(header) if core.startswith(end)), "")
            if known and core[len(known) :].strip():
                yield setting, core[len(known) :]

    def _preopened(self, opened: str, closed: str) -> bool:
        """True: the generation prompt opens reasoning, as it stands or when a switch is turned on."""
        for setting, rest in self._openings():
            if setting and not setting.endswith("=True"):
                continue
            if opened.strip() and rest.strip() == opened.strip():
                return True
            if opened.strip() and rest.strip().endswith(opened.strip()) and closed.strip() not in rest:
                return True
        return False

    def _switches(self, opened: str, closed: str, variables: dict[str, Any]) -> tuple[str, ...]:
        """Variables that change whether the prompt opens or closes reasoning, or whether history keeps it."""
        marks = [mark for mark in (opened.strip(), closed.strip()) if mark]
        out = []
        default = self._anchors.generation_prompt
        for setting, text in self._anchors.generations.items():
            name, _, value = setting.partition("=")
            if value not in ("True", "False"):
                continue  # words: see _worded
            if self._anchors.generations.get(f"{name}=True") == self._anchors.generations.get(f"{name}=False"):
                continue  # on and off are the same to it, so it waits for a word
            if any(text.count(mark) != default.count(mark) for mark in marks) or (_is_hinted(name) and text != default):
                out.append(name)
        return tuple(dict.fromkeys((*variables, *out)))

    def _inline(self, before: str) -> Spoken:
        """Reasoning that has no key of its own: tagged text in the content, or only a prompt that opens it."""
        opened, closed, why = self._pair(before)
        if not closed:
            return Spoken(ReasoningProfile(), self._content(before, True), (), "", "no key for reasoning is rendered")
        shown = f"{opened}{FIRST.reasoning}{closed}{FIRST.content}"
        kept = {place.name for place in _PLACES if FIRST.reasoning in (self._turn(place, {}, {}, shown) or "")}
        preopened = next(
            (rest for setting, rest in self._openings() if self._opens(setting, rest, opened, closed)), None
        )
        empty = before if closed in before else ""
        wrapper = "" if empty or before.strip() == opened else before
        said = empty.rpartition(closed)[2]
        if tags(said):  # an answer's own block stands behind the empty one; what it keeps is the answer's
            wrapper, kept = said.lstrip(), set()
            empty = empty.removesuffix(wrapper)
        switches = self._switches(opened, closed, {})
        profile = ReasoningProfile(
            mode=ReasoningMode.PREOPENED if preopened is not None else ReasoningMode.TAGGED,
            open=Marker.of(preopened) if preopened is not None else Marker(text=opened),
            close=Marker(text=closed),
            rendered_last="last" in kept,
            rendered_old="old" in kept,
            rendered_with_calls="with_calls" in kept,
            inline=True,
            switch=switches[0] if switches else None,
            empty_block=empty,
        )
        return Spoken(profile, self._content(wrapper, True), switches, empty, why)

    def _opens(self, setting: str, rest: str, opened: str, closed: str) -> bool:
        return (not setting or setting.endswith("=True")) and rest.strip() == opened and closed not in rest

    def _pair(self, before: str) -> tuple[str, str, str]:
        """(opener, closer, why) of reasoning, from the generation prompt or the texts that the template looks for."""
        for setting, rest in self._openings():
            for opened in tags(rest)[:1]:
                for closed in closers(opened):
                    if rest.strip().startswith(opened) and (closed in rest or self._scan.writes(closed)):
                        how = f"with {setting}" if setting else "as it stands"
                        why = f"the generation prompt ({how}) opens {opened!r}, the template knows {closed!r}"
                        whole = rest.split(closed)[0].strip()  # <|channel>thought: a word behind the tag belongs to it
                        return whole if len(tags(whole)) == 1 and len(whole) < 60 else opened, closed, why
        for closed in self._scan.text_tests:
            for opened in openers(closed):
                if not self._holds_answers(opened, closed.strip()):
                    return opened, closed, f"the template looks for {closed!r} in texts"
        for _, rest in self._openings():
            core = rest.strip()
            # <|x|> names a token; what closes it can't be told from its spelling unless history writes it too.
            plain = "|" not in core or core == before.strip()
            if tags(core) == [core] and plain and (ends := closers(core)):
                return core, ends[0], f"the generation prompt opens {core!r}; its closer is only guessed"
        return "", "", ""

    def _holds_answers(self, opened: str, closed: str) -> bool:
        """True: of a text with such a block the history keeps the block alone, so the answer stands in it."""
        for layout in ("", "\n"):
            shown = f"{opened}{layout}{FIRST.reasoning}{layout}{closed}{FIRST.content}"
            kept = self._turn(_PLACES[2], {}, {}, shown) or ""
            if FIRST.reasoning in kept and FIRST.content not in kept:
                return True
        return False

    # Content.

    def _content(self, wrapper: str, always: bool, mirror: tuple[str, str] | None = None) -> ContentProfile:
        """Content between ``wrapper`` and what closes it; trimmed: the history drops outer white space.

        mirror: the first tag of what opens reasoning and of what closes it.
        """
        opened = Marker.of(wrapper)
        closed = ""
        if opened.text:
            closed = self._closer(wrapper, mirror)
        trimmed = False
        if self._plain is not None:
            padded = f" \n {FIRST.content} \n "
            text = self._prober.after_user(Said(padded), self._plain, tail="none")
            trimmed = text is not None and padded not in text
        mode = ContentMode.WRAPPED if opened.text and always else ContentMode.PLAIN
        return ContentProfile(mode=mode, open=opened, close=Marker.of(closed), trimmed=trimmed)

    def _closer(self, opened: str, mirror: tuple[str, str] | None) -> str:
        """What closes a wrapped answer: what ends a turn of text but not a turn of calls."""
        end = self._anchors.text_end
        closer = opened.replace(*mirror, 1) if mirror is not None else opened
        if closer != opened and end.startswith(closer):
            return closer  # closed as reasoning is
        if self._calls is not None:
            text = self._prober.after_user(Said(None, FIRST.calls[:1]), self._calls, tail="none")
            shared = common_suffix([end, text]) if text is not None else ""
            if shared.strip() and shared != end:
                return end[: len(end) - len(shared)]
        marks = tags(end)
        if marks and marks[0] in (own := closers((tags(opened) or [""])[-1])) and end.strip().startswith(tuple(own)):
            return end[: end.index(marks[0]) + len(marks[0])]
        return end[: end.index(marks[0]) + len(marks[0])] if len(marks) > 1 else ""


def _behind(text: str) -> bool:
    """True: reasoning stands behind the answer, or behind the calls."""
    before = text[: text.index(FIRST.reasoning)]
    return FIRST.content in before or FIRST.calls[0].name in before


def _is_hinted(name: str) -> bool:
    """True: a name that speaks of reasoning."""
    return any(hint in name.lower() for hint in _HINTS)
