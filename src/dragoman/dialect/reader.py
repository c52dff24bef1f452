"""Reading a turn: reasoning, answer, calls, stop, as rules that continue one another.

Rules of this file: each rule ends the turn or names the rule that goes on (in tail position, so nothing nests); threads
that read the same markers meet in the same rule, where the better one wins. A commit stands right behind the text that
settles what came before; until then an opener is text. The layout in front of a marker may or may not be there.
"""

from __future__ import annotations

from dragoman.dialect.markers import (
    GAP,
    SOME_TEXT,
    TEXT,
    layout_after,
    layout_before,
    loose,
    marker,
)
from dragoman.dialect.read_calls import CallReader
from dragoman.dialect.request import DialectRequest
from dragoman.grammar.nodes import EMPTY, Commit, Node, Recovery, Ref, Tag, alt, lit, opt, seq
from dragoman.template.profile import ContentMode, Marker, Profile, ReasoningMode

_BODY = Ref("body")


def reader_rules(
    profile: Profile, request: DialectRequest, controls: frozenset[str]
) -> tuple[dict[str, Node], dict[str, Recovery]]:
    """The rules of the reader (start rule ``turn``) and its recovery points."""
    recovery = {"body": Recovery("body")}
    rules: dict[str, Node] = {}
    calls: Node | None = None
    if profile.tools is not None and request.reads_calls:
        reader = CallReader(profile.tools, request, controls)
        rules |= reader.rules()
        calls = reader.openings()
        recovery |= reader.recovery()
    stop = _stop(profile, controls)
    interrupt = alt(*(way for way in (calls, stop) if way is not None), EMPTY)
    rules["interrupt"] = interrupt
    rules["body"] = seq(opt_last(Tag("content", SOME_TEXT)), alt(*_wrappers(profile, controls), interrupt))
    rules["turn"] = seq(Commit("body"), _start(profile, request, controls, rules))
    return rules, recovery


def opt_last(item: Node) -> Node:
    """Nothing, else ``item``."""
    return alt(EMPTY, item)


def _stop(profile: Profile, controls: frozenset[str]) -> Node | None:
    texts = [text.strip() for text in profile.end_of_turn if text.strip()]
    if not texts:
        return None
    return alt(*(seq(Tag("stop", marker(text, controls)), Commit("body")) for text in dict.fromkeys(texts)))


def _wrappers(profile: Profile, controls: frozenset[str]) -> list[Node]:
    """The markers around an answer: they are dropped wherever they stand, an answer without them is one too."""
    if profile.content.mode is ContentMode.PLAIN:
        return []
    around = [profile.content.open, profile.content.close]
    return [_dropped(wrapper, controls) for wrapper in around if wrapper.text]


def _dropped(wrapper: Marker, controls: frozenset[str]) -> Node:
    text = loose(wrapper.text, controls)
    return seq(layout_before(wrapper.before), text, Commit("body"), layout_after(wrapper.after), _BODY)


def _start(profile: Profile, request: DialectRequest, controls: frozenset[str], rules: dict[str, Node]) -> Node:
    """Where a turn begins: a reasoning block, the close of one that the prompt left out, else the answer."""
    reasoning = profile.reasoning
    if reasoning.mode is ReasoningMode.NONE or not request.read_reasoning or not reasoning.close.text:
        return _BODY
    close = loose(reasoning.close.text, controls)
    closed = seq(close, Commit("body"), layout_after(reasoning.close.after))
    rules["reasoning"] = seq(
        Tag("reasoning", TEXT),
        alt(seq(layout_before(reasoning.close.before), closed, Ref("start")), Ref("interrupt")),
    )
    opened: Node | None = None
    if reasoning.open.text:
        text = loose(reasoning.open.text, controls)
        opened = seq(GAP, text, Commit("body"), layout_after(reasoning.open.after))
    leftover = seq(GAP, closed, _BODY)
    rules["start"] = alt(leftover, _BODY) if opened is None else alt(seq(opened, Ref("reasoning")), leftover, _BODY)
    if opened is None or (request.implicit_reasoning and reasoning.mode is ReasoningMode.PREOPENED):
        return seq(lit("") if opened is None else opt(opened), Ref("reasoning"))
    return Ref("start")
