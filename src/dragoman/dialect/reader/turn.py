"""Reading a turn: reasoning, answer, calls, stop, as rules that continue one another.

Rules of this file: each rule ends the turn or names the rule that goes on (in tail position, so nothing nests); threads
that read the same markers meet in the same rule, where the better one wins. A commit stands right behind the text that
settles what came before; until then an opener is text. The layout in front of a marker may or may not be there.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace

from dragoman.dialect.channels import (
    Messages,
    bare_headers,
    call_forms,
    header_tags,
    messages,
    text_headers,
    tool_namespace,
)
from dragoman.dialect.facts import all_stops, begun_by, inner_markers
from dragoman.dialect.markers import (
    GAP,
    SOME_TEXT,
    SPACE,
    SPACES,
    TEXT,
    layout_after,
    layout_before,
    loose,
    marker,
    opening_words,
    words,
)
from dragoman.dialect.reader.calls import CallReader
from dragoman.dialect.request import DialectRequest, JsonAnswer
from dragoman.dialect.shape import call_shape, final_tag, is_tag, joint, opening_word
from dragoman.dialect.tolerances import REASONING, other_forms, short_opener
from dragoman.grammar.nodes import (
    EMPTY,
    NOTHING,
    Commit,
    Literal,
    Node,
    Recovery,
    Ref,
    Tag,
    alt,
    chars,
    complement,
    lit,
    opt,
    seq,
)
from dragoman.template.profile import ContentMode, Marker, Profile, ReasoningMode, ReasoningProfile

_BODY = Ref("body")
_TAG = re.compile(r"<[^<>\s]+>|\[[^\[\]\s]+\]")
_PLAIN_TAG = re.compile(r"<\w+>")


def reader_rules(
    profile: Profile, request: DialectRequest, controls: frozenset[str]
) -> tuple[dict[str, Node], dict[str, Recovery]]:
    """The rules of the reader (start rule ``turn``) and its recovery points."""
    recovery = {"body": Recovery("body")}
    rules: dict[str, Node] = {}
    calls: list[Node] = []
    reasoning = read_as_reasoning(profile, request)
    forced: list[Node] = []  # forms that nothing tells from text: only where a turn or an answer begins
    if profile.tools is not None and request.reads_calls:
        further = (*other_forms(profile.tools, request), *call_forms(profile))
        for i, tools in enumerate((profile.tools, *further)):
            prefix = f"form{i}." if i else ""
            tags, namespace = header_tags(profile), tool_namespace(profile)
            reader = CallReader(
                tools,
                request,
                controls,
                prefix=prefix,
                header_tags=tags,
                namespace=namespace,
                joint="" if i else joint(profile),
                ends=_ends_of_text(profile, controls),
                own=profile.tools.section_open.text,
                unopened=_closed(reasoning, controls) if request.read_reasoning and reasoning.close.text else None,
            )
            rules |= reader.rules()
            (forced if i and reader.shape.bare else calls).append(reader.openings())
            recovery |= reader.recovery()
    else:
        calls = [_silent(text, controls) for text in empty_blocks(profile)]
    rules["stop"] = alt(*_stops(profile, request, controls), EMPTY)
    rules["calls"] = alt(*calls) if calls else NOTHING
    rules["interrupt"] = alt(Ref("calls"), Ref("stop"))
    rules["unclosed"] = seq(Tag("unclosed", EMPTY), Ref("stop"))  # of reasoning, in which a call may stand
    spoken = request.read_reasoning and bool(profile.reasoning.close.text)
    wrappers = [*_wrappers(profile, controls, spoken=spoken), *_said_nothing(profile, request, controls)]
    wrappers += [*_later_reasoning(profile, request, controls), Ref("interrupt")]
    wrappers += text_headers(profile, controls, reasoning=spoken, calls=request.reads_calls)
    rules["body"] = seq(alt(EMPTY, Tag("content", SOME_TEXT)), alt(*wrappers))
    if isinstance(request.answer, JsonAnswer):
        rules["answer"] = _fenced(rules)
    if forced:
        rules["forced"] = alt(seq(GAP, alt(*forced)), Ref("answer") if "answer" in rules else _BODY)
    start = _start(profile, request, controls, rules)
    again = [
        seq(GAP, marker(text, controls), Commit("body"), layout_after("\n"), start)
        for text in (*repeated_headers(profile), *bare_headers(profile))
    ]
    if opening_word(profile):
        written = opening_word(profile) + profile.content.open.after
        again.append(seq(GAP, marker(written, controls), Commit("body"), start))
    rules["turn"] = seq(Commit("body"), alt(*again, start))
    return rules, recovery


def _ends_of_text(profile: Profile, controls: frozenset[str]) -> tuple[str, ...]:
    """The texts that end an answer or reasoning wherever they stand, those left out that no string can hold."""
    found = dict.fromkeys([*all_stops(profile), *inner_markers(profile, calls=False)])
    return tuple(text for text in found if isinstance(marker(text, controls), Literal))


def empty_blocks(profile: Profile) -> tuple[str, ...]:
    """Openers with their closer right behind: markup that says nothing, left out even where no calls are read."""
    if profile.tools is None:
        return ()
    shape = call_shape(profile.tools)
    pairs = [(words(shape.section), shape.section_end)]
    pairs += [(way[:1], shape.closing) for way in opening_words(shape.opening.text)[:1]]
    return tuple(
        dict.fromkeys(
            " ".join(opened).replace(" ", layout) + layout + final_tag(closed[-1])
            for opened, closed in pairs
            if len(opened) == 1 and closed and is_tag(opened[0]) and is_tag(final_tag(closed[-1]))
            for layout in ("", "\n")
        )
    )


def _silent(text: str, controls: frozenset[str]) -> Node:
    return seq(marker(text, controls), Commit("body"), _BODY)


def anywhere(opener_text: str) -> bool:
    """True: the opener of reasoning is no word that an answer holds by chance, so it opens in the middle of one too."""
    return bool(opener_text) and not _PLAIN_TAG.fullmatch(opener_text)


def _later_reasoning(profile: Profile, request: DialectRequest, controls: frozenset[str]) -> list[Node]:
    """Reasoning behind some of the answer, and closers that nothing opened."""
    reasoning = read_as_reasoning(profile, request)
    placed = reasoning.after_content or anywhere(reasoning.open.text)
    if not request.read_reasoning or not placed or not reasoning.close.text or messages(profile) is not None:
        return []
    return [seq(layout_before(reasoning.open.before), _opened(reasoning, controls), Ref("reasoning"))]


def _closed(reasoning: ReasoningProfile, controls: frozenset[str]) -> Node:
    """The closer of reasoning, read to its end."""
    return seq(loose(reasoning.close.text, controls), Commit("body"), layout_after(reasoning.close.after))


def _opened(reasoning: ReasoningProfile, controls: frozenset[str]) -> Node:
    """The opener of reasoning, read to its end."""
    text, after = reasoning.open.text, layout_after(reasoning.open.after)
    short = short_opener(text)
    if short is None:
        return seq(loose(text, controls), Commit("body"), after)
    label = opt(lit(text[len(short) :]))
    return seq(marker(short, controls), Commit("body"), label, after)


def repeated_headers(profile: Profile) -> tuple[str, ...]:
    """The header of the turn, from each of its tags on: some models write it again. None that means something else."""
    header = profile.assistant_header.strip()
    ends = [header[found.start() :] for found in _TAG.finditer(header)]
    inside = [*inner_markers(profile), *all_stops(profile)]
    return tuple(text for text in ends if not any(text in other for other in inside))


def _fenced(rules: dict[str, Node]) -> Node:
    """A JSON answer, out of the code fence that models put around it."""
    fence = seq(GAP, alt(lit("```json"), lit("```")), SPACE, Commit("body"), GAP)
    rules["fenced"] = seq(Tag("content", TEXT), alt(seq(GAP, lit("```"), GAP, Ref("stop")), Ref("interrupt")))
    return alt(seq(fence, Ref("fenced")), Ref("body"))


def _stops(profile: Profile, request: DialectRequest, controls: frozenset[str]) -> list[Node]:
    """The ends of a turn. One with which something inside a turn may begin is the end where nothing such follows."""
    return [
        seq(Tag("stop", marker(text, controls)), _unlike(begun_by(text, profile, request)) or Commit("body"))
        for text in all_stops(profile)
    ]


def _unlike(texts: Sequence[str]) -> Node | None:
    """The end of the output, or text that differs from all of ``texts``, white space before it; None without any."""
    if not texts:
        return None
    return seq(GAP, _otherwise(texts, SPACES)) if all(texts) else GAP


def _otherwise(texts: Sequence[str], excluded: str = "") -> Node:
    """Text up to the character that tells it from each of ``texts``, which settles it; the output may end before."""
    heads = sorted({text[0] for text in texts})
    ways: list[Node] = [seq(complement(chars("".join(heads) + excluded).ranges), Commit("body"))]
    for head in heads:
        below = [text[1:] for text in texts if text[0] == head]
        if all(below):
            ways.append(seq(lit(head), _otherwise(below)))
    return alt(*ways, EMPTY)


def read_as_reasoning(profile: Profile, request: DialectRequest) -> ReasoningProfile:
    """How reasoning is told: as the prompt opened it, as the template shows, else by tags that models use unasked."""
    if request.reasoning is not None:
        return request.reasoning
    shown = profile.reasoning
    return REASONING if shown.mode is ReasoningMode.NONE or not shown.close.text else shown


def further_blocks(profile: Profile, request: DialectRequest) -> list[ReasoningProfile]:
    """Other blocks of reasoning: what the template shows where the prompt opened another one in front of it, and what
    it shows in front of calls."""
    shown, opened = profile.reasoning, request.reasoning
    blocks = [] if opened is None else [shown]
    if shown.beside_calls is not None:
        blocks.append(replace(shown, open=shown.beside_calls[0], close=shown.beside_calls[1]))
    first = read_as_reasoning(profile, request).open.text
    return [block for block in blocks if block.open.text and block.close.text and block.open.text != first]


def _further_messages(profile: Profile, found: Messages, controls: frozenset[str], *, spoken: bool) -> list[Node]:
    """Another message of the turn behind an answer. spoken: reasoning is told apart from answers."""
    start = [seq(GAP, marker(text, controls)) for text in (found.end, found.header) if text]
    said = [_dropped(profile.content.open, controls)]
    if spoken:
        thought = profile.reasoning
        said.append(seq(layout_before(thought.open.before), _opened(thought, controls), Ref("reasoning")))
    return [seq(*start, alt(*said))]


def _wrappers(profile: Profile, controls: frozenset[str], *, spoken: bool) -> list[Node]:
    """The markers around an answer: they are dropped wherever they stand, an answer without them is one too."""
    if profile.content.mode is ContentMode.PLAIN:
        return []
    found = messages(profile)
    if found is not None:
        return _further_messages(profile, found, controls, spoken=spoken)
    around = [profile.content.open, profile.content.close, *profile.content.further]
    between = joint(profile)
    lead = opt(seq(GAP, marker(between, controls), GAP)) if between else EMPTY
    word = opening_word(profile)
    if word:
        behind = seq(GAP, marker(between, controls), GAP, lit(profile.content.open.text + profile.content.open.after))
        close = [_dropped(wrapper, controls) for wrapper in around[1:] if wrapper.text]
        return [seq(behind, Commit("body"), _BODY), *close]
    return [seq(lead, _dropped(wrapper, controls)) for wrapper in around if wrapper.text]


def _said_nothing(profile: Profile, request: DialectRequest, controls: frozenset[str]) -> list[Node]:
    """A reasoning block that the answer's own block follows at once: no text, where reasoning stays in the answer."""
    reasoning, answer = profile.reasoning, profile.content.open
    if request.read_reasoning or profile.content.mode is ContentMode.PLAIN or not (reasoning.open.text and answer.text):
        return []
    block = seq(marker(reasoning.open.text, controls), GAP, opt(seq(marker(reasoning.close.text, controls), GAP)))
    return [seq(block, loose(answer.text, controls), Commit("body"), layout_after(answer.after), _BODY)]


def _dropped(wrapper: Marker, controls: frozenset[str]) -> Node:
    text = loose(wrapper.text, controls)
    return seq(layout_before(wrapper.before), text, Commit("body"), layout_after(wrapper.after), _BODY)


def _start(profile: Profile, request: DialectRequest, controls: frozenset[str], rules: dict[str, Node]) -> Node:
    """Where a turn begins: a reasoning block, the close of one that the prompt left out, else the answer."""
    answer: Node = next((Ref(rule) for rule in ("forced", "answer") if rule in rules), _BODY)
    if messages(profile) is not None:  # elsewhere the opener of an answer is dropped wherever it stands
        said = profile.content.open
        shown = seq(layout_before(said.before), loose(said.text, controls), Commit("body"), layout_after(said.after))
        answer = alt(seq(shown, answer), answer)
    reasoning = read_as_reasoning(profile, request)
    if not request.read_reasoning or not reasoning.close.text:
        return answer
    closed = _closed(reasoning, controls)
    rules["reasoning"] = seq(
        Tag("reasoning", TEXT),
        alt(seq(layout_before(reasoning.close.before), closed, Ref("start")), Ref("calls"), Ref("unclosed")),
    )
    opened: Node | None = None
    if reasoning.open.text:
        opened = seq(GAP, _opened(reasoning, controls))
        if messages(profile) is None:
            # Models that were trained without a prompt that opens the block open it once more.
            opened = seq(opened, opt(opened))
    leftover = seq(GAP, closed, answer)
    rules["start"] = alt(leftover, answer) if opened is None else alt(seq(opened, Ref("reasoning")), leftover, answer)
    for number, second in enumerate(further_blocks(profile, request)):
        name = f"reasoning.{number}"
        ended = seq(loose(second.close.text, controls), Commit("body"), layout_after(second.close.after), Ref("start"))
        ways = alt(seq(layout_before(second.close.before), ended), Ref("calls"), Ref("unclosed"))
        rules[name] = seq(Tag("reasoning", TEXT), ways)
        rules["start"] = alt(seq(GAP, _opened(second, controls), Ref(name)), rules["start"])
    if opened is None or (request.implicit_reasoning and reasoning.mode is ReasoningMode.PREOPENED):
        return seq(lit("") if opened is None else opt(opened), Ref("reasoning"))
    return Ref("start")
