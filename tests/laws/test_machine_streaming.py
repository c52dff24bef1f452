"""Laws: how the input is cut changes nothing; what was taken is never taken back; what nobody disputes is not withheld.

"Taken" is what ``Run.take`` gave so far; "every completion" is every accepted text with the same beginning, by brute
force over a tiny alphabet. Commits are held to their own oracle, since they silence parses that would be legal.
"""

from __future__ import annotations

import os
from itertools import takewhile

from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from dragoman.events import Closed, Event, Opened, Text
from dragoman.grammar.compile import compile_reader, compile_writer
from dragoman.grammar.nodes import EMPTY, Atomic, Choice, Class, Grammar, Literal, Ref, Sequence, Tag, chars
from dragoman.grammar.program import Program
from dragoman.grammar.run import Run
from tests import strategies
from tests.exhaustive import A, B, Family, all_texts, lazy_star, optional, star, tag
from tests.oracles.backtrack import OutOfFuel, accepts, completions, merged, parse, parses, starts_with, units
from tests.oracles.pike import Pike
from tests.oracles.wellformed import descendants, refused

EXAMPLES = int(os.environ.get("DRAGOMAN_EXAMPLES", "300"))  # more for a longer hunt
LETTERS = tuple(letter.encode() for letter in strategies.LETTERS)
FUEL = 100_000

law = settings(max_examples=EXAMPLES, deadline=None, suppress_health_check=list(HealthCheck))


def taken(program: Program, data: bytes) -> list[Event] | None:
    """What is settled after these bytes, merged; None where the machine is dead by then."""
    run = Run(program)
    return merged(run.take()) if run.feed(data) == len(data) else None


@law
@given(st.data())
def test_any_chunking_gives_the_same_events(data: st.DataObject) -> None:
    grammar = data.draw(strategies.grammars())
    program = compile_reader(grammar)
    text = data.draw(strategies.texts(grammar))
    whole = Run(program)
    consumed = whole.feed(text)
    settled = whole.take()
    accepted = whole.finish()
    rest = whole.take()
    for _ in range(3):
        run, events, fed = Run(program), [], 0
        for chunk in data.draw(strategies.chunkings(text)):
            fed += run.feed(chunk)
            events += run.take()
            if fed == consumed < len(text):
                break
        assert fed == consumed
        assert merged(events) == merged(settled)
        assert run.finish() == accepted
        assert merged(events + run.take()) == merged(settled + rest)


@law
@given(st.data())
def test_pieces_that_are_known_already_give_the_same_events(data: st.DataObject) -> None:
    grammar = data.draw(strategies.grammars())
    program = compile_reader(grammar)
    text = data.draw(strategies.texts(grammar))
    pieces = data.draw(strategies.chunkings(text))
    found = []
    for _ in range(3):  # the first reading remembers what the others meet again
        run = Run(program)
        events: list[Event] = []
        for piece in pieces:
            at = run.position
            if piece and run.feed_text(piece):
                events.append(Text(piece, at))
                assert (run.settled, run.withheld, run.take()) == (run.position, b"", [])
                continue
            if run.feed(piece) < len(piece):
                break
            events += run.take()
        ended = run.finish()
        found.append((run.position, run.state, run.label, run.label_position, ended, merged(events + run.take())))
    assert found[0] == found[1] == found[2]
    whole = Run(program)
    whole.feed(text)
    whole.finish()
    assert found[2][5] == merged(whole.take())


def test_pieces_of_text_are_known_the_second_time() -> None:
    program = compile_reader(Grammar({"root": Tag("content", lazy_star(chars("abcdé")))}, "root"))
    known = []
    for _ in range(2):
        run = Run(program)
        run.feed(b"a")
        run.take()
        for piece in ("ab", "é", "éa", "cé"):
            known.append(run.feed_text(piece.encode()))
            if not known[-1]:
                assert run.feed(piece.encode()) == len(piece.encode())
                assert run.take() == [Text(piece.encode(), run.position - len(piece.encode()))]
    assert known == [False] * 4 + [True] * 4


@law
@given(st.data())
def test_what_was_taken_holds_in_every_completion(data: st.DataObject) -> None:
    grammar = data.draw(strategies.grammars())
    program = compile_reader(grammar)
    text = data.draw(strategies.texts(grammar))
    prefix = text[: data.draw(st.integers(0, len(text)))]
    so_far = taken(program, prefix)
    try:
        for complete in (text, *completions(grammar, prefix, LETTERS, 3)):
            expected = parse(grammar, complete, fuel=FUEL)
            if expected is not None:
                assert so_far is not None, f"dead after {prefix!r}, which begins {complete!r}"
                assert starts_with(expected, so_far), complete
    except OutOfFuel:
        assume(False)


@law
@given(st.data())
def test_regions_nest_and_texts_are_the_input(data: st.DataObject) -> None:
    """At every byte the events taken are a well-nested beginning, in order, each text what stood in the input there."""
    grammar = data.draw(strategies.grammars())
    text = data.draw(strategies.texts(grammar))
    run, open_regions, position = Run(compile_reader(grammar)), [], 0
    for i in range(len(text)):
        if run.feed(text[i : i + 1]) == 0:
            break
        for event in run.take():
            assert position <= event.position <= i + 1
            position = event.position
            if isinstance(event, Opened):
                open_regions.append(event.tag)
            elif isinstance(event, Closed):
                assert open_regions.pop() == event.tag
            elif isinstance(event, Text):
                assert open_regions
                assert event.data == text[position : position + len(event.data)] != b""
                position += len(event.data)
        # The path is the machine's own view of the same nesting, held-back groups included.
        assert [name for name in run.path if name != "@atomic"][: len(open_regions)] == open_regions


@law
@given(st.data())
def test_an_atomic_group_comes_at_once(data: st.DataObject) -> None:
    """Nothing of the group is told before all of it is."""
    inner = data.draw(strategies.grammars(strategies.PLAIN))
    grammar = Grammar({**inner.rules, "all": Sequence((Tag("o", Atomic(Ref("root"))), Literal(b"!")))}, start="all")
    text = data.draw(strategies.texts(inner)) + b"!"
    run = Run(compile_reader(grammar))
    deliveries: list[list[Event]] = []
    for i in range(len(text)):
        if run.feed(text[i : i + 1]) == 0:
            return
        deliveries.append([event for event in run.take() if event not in (Opened("o", 0), Closed("o", len(text) - 1))])
    if run.finish():
        deliveries.append(run.take())
    assert sum(bool(events) for events in deliveries) <= 1


REGULAR = Family((A, B, EMPTY), (tag, star, lazy_star, optional), symmetric=True)
TWO_TAGS = Family((A, B), (tag, lambda item: Tag("u", item), star), symmetric=True)


def test_what_nobody_disputes_is_taken() -> None:
    """On all small grammars: what all parses of all completions share, up to the last byte read, has been delivered."""
    checked = 0
    for family, size in ((REGULAR, 6), (TWO_TAGS, 6)):
        for tree in family.up_to(size):
            grammar = Grammar({"root": tree})
            if not refused(grammar) and any(isinstance(node, Tag) for node in descendants(tree)):
                checked += check_promptness(grammar)
    assert checked > 4_000


def test_a_region_that_opens_early_in_one_way_and_late_in_another_is_one_region() -> None:
    """One way has no choice and opens at once, the other decides on the next byte: both open at byte 1."""
    early = Sequence((A, Tag("t", A), A))
    late = Sequence((A, Choice((Tag("t", A), B)), B))
    assert check_promptness(Grammar({"root": Choice((early, late))})) > 0


def check_promptness(grammar: Grammar) -> int:
    """The number of prefixes that were compared."""
    program = compile_reader(grammar)
    known = {text: [units(events) for events in parses(grammar, text)] for text in all_texts(5)}
    checked = 0
    for prefix in all_texts(3):
        ways = [way for text, found in known.items() if text.startswith(prefix) for way in found]
        if ways:
            shared = [event for event in common_prefix(ways) if event.position < len(prefix)]
            so_far = taken(program, prefix)
            assert so_far is not None
            assert starts_with(so_far, shared), f"{grammar.rules['root']} after {prefix!r}: {so_far}, not {shared}"
            checked += 1
    return checked


def common_prefix(lists: list[list[Event]]) -> list[Event]:
    first = lists[0]
    for other in lists[1:]:
        first = [event for event, _ in takewhile(lambda pair: pair[0] == pair[1], zip(first, other, strict=False))]
    return first


def test_a_writer_has_no_dead_ends() -> None:
    """On all small grammars without look-ahead: while the writer is alive, some text can still be completed."""
    checked = 0
    recursive = Family((A, B, Class(()), Ref("root")), (optional,), symmetric=True)
    for family, size in ((REGULAR, 5), (recursive, 5)):
        for tree in family.up_to(size):
            grammar = Grammar({"root": tree})
            texts = [] if refused(grammar) else [text for text in all_texts(7) if accepts(grammar, text)]
            if not texts:
                continue
            program = compile_writer(grammar)
            for prefix in all_texts(3):
                alive = Run(program).feed(prefix) == len(prefix)
                assert alive == any(text.startswith(prefix) for text in texts), f"{tree} after {prefix!r}"
                checked += 1
    assert checked > 7_000


@law
@given(st.data())
def test_commits_silence_what_their_definition_says(data: st.DataObject) -> None:
    grammar = data.draw(strategies.grammars(strategies.COMMITTING))
    program = compile_reader(grammar)
    for _ in range(4):
        text = data.draw(strategies.texts(grammar)).replace("é".encode(), b"a")
        try:
            oracle = Pike(grammar, text)
        except OutOfFuel:
            continue
        run, events = Run(program), []
        fed = 0
        while fed < len(text) and run.feed(text[fed : fed + 1]):
            fed += 1
            events += run.take()
        assert fed == oracle.consumed, text
        expected = oracle.finish()
        assert run.finish() == (expected is not None) if fed == len(text) else expected is None
        if expected is not None:
            assert merged(events + run.take()) == expected, text
