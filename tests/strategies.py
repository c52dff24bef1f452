"""Hypothesis strategies for the laws: grammars, texts they are likely to accept, and ways to cut a text up.

Grammars are well-formed by construction: whatever stands in a repeat consumes, and a rule refers to itself or to an
earlier rule only behind a character. The alphabet is tiny (two letters and one character of two bytes), so that
delimiters, half delimiters and ambiguity are common.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import pairwise

from hypothesis import strategies as st

from dragoman.grammar.nodes import (
    EMPTY,
    NOTHING,
    AnyChar,
    Atomic,
    Choice,
    Class,
    Commit,
    Control,
    Grammar,
    Literal,
    Negate,
    Node,
    Peek,
    Permutation,
    Ref,
    Repeat,
    Sequence,
    Tag,
    Until,
    UntilConfirmed,
    Without,
    chars,
)
from tests.oracles.wellformed import nullable

LETTERS = ("a", "b", "é")
WORDS = ("a", "b", "é", "ab", "ba", "aa", "bb", "aab", "aé", "éb", "abab")


@dataclass(frozen=True, slots=True)
class Features:
    """What a drawn grammar may use."""

    rules: int = 3
    tags: bool = True
    until: bool = True
    without: bool = True
    looks: bool = True
    permutation: bool = True
    commits: bool = False


ALL = Features()
REGULAR = Features(rules=1, until=False, without=False, looks=False, permutation=False)
PLAIN = Features(until=False, without=False, looks=False)
COMMITTING = Features(until=False, without=False, looks=False, permutation=False, commits=True)


def literals() -> st.SearchStrategy[Literal]:
    return st.sampled_from([Literal(word.encode()) for word in WORDS])


def characters() -> st.SearchStrategy[Node]:
    """One character: a letter, a class, any."""
    few = [Literal(b"a"), Literal(b"b"), chars("ab"), chars("bé"), AnyChar(), Class(((0x61, 0x7FF),))]
    return st.sampled_from(few)


def delimiters() -> st.SearchStrategy[tuple[bytes, ...]]:
    words = st.sampled_from([word.encode() for word in WORDS])
    return st.lists(words, min_size=1, max_size=2, unique=True).map(tuple)


def bounded(depth: int = 2) -> st.SearchStrategy[Node]:
    """A regular, bounded expression, as look-ahead takes it."""
    leaf: st.SearchStrategy[Node] = st.one_of(literals(), characters())
    if depth == 0:
        return leaf
    item = bounded(depth - 1)
    return st.one_of(
        leaf,
        st.lists(item, min_size=1, max_size=2).map(lambda items: Sequence(tuple(items))),
        st.lists(item, min_size=1, max_size=3).map(lambda items: Choice(tuple(items))),
        st.tuples(characters(), st.integers(0, 2)).map(lambda pair: Repeat(pair[0], pair[1], 2)),
    )


@st.composite
def nodes(draw: st.DrawFn, features: Features, rules: Mapping[str, Node], behind: tuple[str, ...], depth: int) -> Node:
    """A node that may start with the rules already drawn, and refer to those of ``behind`` after a character."""
    kinds = ["literal", "character", "empty"] if depth < 2 else ["character"]
    if depth > 0:
        kinds += ["sequence", "sequence", "choice", "choice", "repeat", "behind"]
        kinds += ["tag", "tag"] * features.tags + ["atomic"] * features.tags
        kinds += ["ref"] * bool(rules) + ["permutation"] * features.permutation
        kinds += ["peek", "negate"] * features.looks
        kinds += ["commit"] * 3 * features.commits
        kinds += ["until", "confirmed"] * features.until + ["without"] * features.without
    below: st.SearchStrategy[Node] = nodes(features, rules, behind, depth - 1)
    match draw(st.sampled_from(kinds)):
        case "literal":
            return draw(literals())
        case "character":
            return draw(characters())
        case "sequence":
            return Sequence(tuple(draw(st.lists(below, min_size=2, max_size=3))))
        case "choice":
            return Choice(tuple(draw(st.lists(below, min_size=1, max_size=3))))
        case "repeat":
            low = draw(st.integers(0, 2))
            high = draw(st.sampled_from([None, low, low + 1, low + 3]))
            return Repeat(draw(consuming(features, rules, behind, depth - 1)), low, high, draw(st.booleans()))
        case "behind":
            return Sequence((draw(characters()), Ref(draw(st.sampled_from(behind)))))
        case "ref":
            return Ref(draw(st.sampled_from(sorted(rules))))
        case "tag":
            return Tag(draw(st.sampled_from("xyz")), draw(below))
        case "atomic":
            return Atomic(draw(below))
        case "permutation":
            item: st.SearchStrategy[Node] = consuming(features, rules, behind, depth - 1)
            items = draw(st.lists(item, min_size=1, max_size=3))
            flags = draw(st.lists(st.booleans(), min_size=len(items), max_size=len(items)))
            separators: list[Node] = [EMPTY, Literal(b"a"), chars("bé")]
            return Permutation(tuple(items), tuple(flags), draw(st.sampled_from(separators)))
        case "commit":
            # Where formats have it: behind something that consumes, or behind the delimiter that ends a text.
            if draw(st.booleans()):
                return Sequence((draw(characters()), Commit("c"), draw(below)))
            end = draw(st.sampled_from([b"b", b"ab"]))
            return Sequence((Until((end,)), Literal(end), Commit("c"), draw(below)))
        case "peek":
            return Peek(draw(bounded()))
        case "negate":
            return Negate(draw(bounded()))
        case "until":
            return Until(draw(delimiters()))
        case "confirmed":
            return UntilConfirmed(draw(literals()).data, draw(bounded()), draw(st.sampled_from([None, "v"])))
        case "without":
            return Without(draw(below), draw(delimiters()))
    rare: list[Node] = [EMPTY, EMPTY, EMPTY, NOTHING, Control("ab")]
    return draw(st.sampled_from(rare))


@st.composite
def consuming(
    draw: st.DrawFn, features: Features, rules: Mapping[str, Node], behind: tuple[str, ...], depth: int
) -> Node:
    """A node that can't match the empty string."""
    node: Node = draw(nodes(features, rules, behind, max(depth, 0)))
    grammar = Grammar({**dict.fromkeys(behind, EMPTY), **rules})
    return Sequence((draw(characters()), node)) if nullable(grammar, node) else node


@st.composite
def grammars(draw: st.DrawFn, features: Features = ALL, depth: int = 3) -> Grammar:
    """A grammar that must compile. Its start rule is ``root``."""
    names = ("root", *(f"r{i}" for i in range(1, draw(st.integers(1, features.rules)))))
    rules: dict[str, Node] = {}
    for name in reversed(names):
        rules[name] = draw(nodes(features, dict(rules), names, depth))
    return Grammar(rules)


@st.composite
def texts(draw: st.DrawFn, grammar: Grammar, size: int = 12) -> bytes:
    """A text that the grammar may well accept: a random derivation, sometimes with one edit; or any letters."""
    noise = st.text(st.sampled_from(LETTERS), max_size=size)
    if draw(st.integers(0, 3)) == 0:
        return draw(noise).encode()
    text = derive(draw, grammar.rules, Ref(grammar.start), 8)[:size]
    if draw(st.integers(0, 3)) == 0:
        at = draw(st.integers(0, len(text)))
        text = text[:at] + draw(noise)[:2] + text[at + draw(st.integers(0, 1)) :]
    return text.encode()


def derive(draw: st.DrawFn, rules: Mapping[str, Node], node: Node, depth: int) -> str:
    """A random derivation that ignores look-ahead and forbidden strings; past ``depth`` it leaves out what it can."""
    below = depth - 1
    match node:
        case Literal():
            return node.data.decode()
        case Control():
            return node.text
        case Class():
            fitting = [c for c in LETTERS if any(low <= ord(c) <= high for low, high in node.ranges)]
            return draw(st.sampled_from(fitting)) if fitting else ""
        case AnyChar():
            return draw(st.sampled_from(LETTERS))
        case Sequence():
            return "".join([derive(draw, rules, item, below) for item in node.items])
        case Choice():
            return derive(draw, rules, draw(st.sampled_from(node.items)), below) if node.items else ""
        case Repeat():
            most = node.min + 2 if node.max is None else node.max
            count = draw(st.integers(node.min, most)) if depth > 0 else node.min
            return "".join([derive(draw, rules, node.item, below) for _ in range(count)])
        case Until():
            return draw(st.text(st.sampled_from(LETTERS), max_size=3))
        case UntilConfirmed():
            value = draw(st.text(st.sampled_from(LETTERS), max_size=2))
            return value + node.closer.decode()
        case Without() | Atomic() | Tag():
            return derive(draw, rules, node.item, below)
        case Ref():
            return derive(draw, rules, rules[node.name], below) if depth > 0 else ""
        case Permutation():
            order = draw(st.permutations(range(len(node.items))))
            kept = [i for i in order if node.required[i] or draw(st.booleans())]
            parts = [derive(draw, rules, node.items[i], below) for i in kept]
            return derive(draw, rules, node.separator, below).join(parts)
    return ""


@st.composite
def chunkings(draw: st.DrawFn, data: bytes) -> list[bytes]:
    """The data cut anywhere, also inside characters; pieces may be empty."""
    cuts = sorted(draw(st.lists(st.integers(0, len(data)), max_size=len(data) + 1)))
    edges = [0, *cuts, len(data)]
    return [data[a:b] for a, b in pairwise(edges)]
