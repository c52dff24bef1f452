"""Text with provenance to token ids: exact as the tokenizer's own, and no input can write a control token.

The whole text is encoded in one call, by a copy of the tokenizer in which every control token goes by a private name.
Where the *template* wrote a control token, its text is replaced by that name before; where an input spells the same
text, nothing is, and the copy knows no such token: it becomes ordinary ones. Encoding the parts one by one would be as
safe and wrong: merges, prefix spaces and the white space that some tokens swallow all cross the seams.

A private name is spelled with private-use characters that the text does not hold.
"""

from __future__ import annotations

import re
import threading
from collections import OrderedDict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import TYPE_CHECKING, Any

from dragoman.errors import UsageError, VocabularyError
from dragoman.vocab.backend import Base, base_tokenizer, tokenizers
from dragoman.vocab.blueprint import AddedToken, Blueprint
from dragoman.vocab.matcher import Match, Matcher, is_word

if TYPE_CHECKING:
    from tokenizers import Tokenizer

Part = tuple[str, bool]  # (text, is_input)

# Plane 16 is private use throughout: no text that means something to a model holds it. Its two last characters are not
# characters at all.
_FIRST_MARK, _LAST_MARK = 0x100000, 0x10FFFD
_PRIVATE = re.compile(f"[{chr(_FIRST_MARK)}-{chr(_LAST_MARK)}]")
_NAME_MARKS = 17  # one that begins a name and sixteen digits
# Copies of the tokenizer that are kept; a copy is a table of added tokens (5 ms for 1,300), the model is shared.
_COPIES_MAX = 16
_WORD_EDGE = "\u05d0"  # a letter that no normalizer changes (no case, no decomposition)


@dataclass(frozen=True, slots=True)
class _Copy:
    """The tokenizer with private names. names: control text -> private name; ids: of added tokens here -> real id."""

    tokenizer: Tokenizer
    names: dict[str, str]
    ids: dict[int, int]
    private: frozenset[int]


class Encoder:
    """Encodes for one vocabulary. Nothing is built before the first call; safe to share between threads.

    markers: the texts of added tokens that may act as control tokens; the others are ordinary text.
    missing: bytes that no token can spell.
    """

    def __init__(self, plan: Blueprint, markers: frozenset[str], missing: frozenset[int] = frozenset()) -> None:
        self._plan = plan
        self._markers = markers
        self._missing = missing
        self._matcher = Matcher(plan.added)
        self._marker_matcher = Matcher(token for token in plan.added if token.content in markers)
        self._specials = frozenset(token.content for token in plan.added if token.special and token.content in markers)
        self._private_in_added = {char for token in plan.added for char in _PRIVATE.findall(token.content)}
        self._lock = threading.Lock()
        self._base: Base | None = None
        self._copies: OrderedDict[tuple[str, frozenset[str]], _Copy] = OrderedDict()

    def encode(self, parts: Sequence[Part], controls: frozenset[str]) -> list[int]:
        """Token ids of the parts' joined text.

        Control tokens are the special ones, those among ``controls`` and those that the template wrote in these parts;
        they come out only where one lies wholly within text that is no input.

        Raises UsageError for text that is not Unicode (lone surrogates) or where the package tokenizers is missing.
        """
        runs = list(_runs(parts))
        text = "".join(run for run, _ in runs)
        _check_unicode(text)
        if not self._missing.isdisjoint(text.encode("utf-8")):
            runs = [(_without(run, self._missing), is_input) for run, is_input in runs]
            text = "".join(run for run, _ in runs)
        written = [match for start, end in _template_spans(runs) for match in self._matcher.find(text, start, end)]
        active = self._specials | (controls & self._markers)
        active |= {match.token.content for match in written} & self._markers
        copy = self._copy(self._marks(text), active)
        named = [match for match in written if match.token.content in copy.names]
        ids, found = _encoded(copy, text, named)
        if len(found) < len(named) and all(m.token.normalized for m in named if m not in found):
            # Some normalizers change such a token too, and it is met at few places only: elsewhere it is text.
            named = found
            ids, found = _encoded(copy, text, named)
        if sum(number in copy.private for number in ids) != len(named):
            raise VocabularyError(
                f"the tokenizer {self._plan.name} changes private-use characters: it cannot be used safely"
            )
        base = self._base.ids if self._base is not None else ()
        known = (copy.ids[number] if number in copy.ids else base[number] for number in ids)
        return [number for number in known if number is not None]

    def markers_in(self, texts: Iterable[str]) -> frozenset[str]:
        """The markers that occur in any of ``texts``, longest first where they overlap."""
        found = (match for text in texts for match in self._marker_matcher.find(text, 0, len(text)))
        return frozenset(match.token.content for match in found)

    def _marks(self, text: str) -> str:
        """Seventeen private-use characters that occur neither in ``text`` nor in an added token."""
        private = set(_PRIVATE.findall(text)) | self._private_in_added
        free = (mark for mark in map(chr, range(_FIRST_MARK, _LAST_MARK + 1)) if mark not in private)
        marks = "".join(islice(free, _NAME_MARKS))
        if len(marks) < _NAME_MARKS:
            raise UsageError(
                "the text uses all private-use characters of Unicode's plane 16: it cannot be encoded safely"
            )
        return marks

    def _copy(self, marks: str, active: frozenset[str]) -> _Copy:
        with self._lock:
            if self._base is None:
                self._base = base_tokenizer(self._plan, self._markers)
            copy = self._copies.pop((marks, active), None) or _make_copy(
                self._base.tokenizer, self._plan.added, active, marks
            )
            self._copies[marks, active] = copy
            if len(self._copies) > _COPIES_MAX:
                self._copies.popitem(last=False)
            return copy


def _encoded(copy: _Copy, text: str, named: Sequence[Match]) -> tuple[list[int], list[Match]]:
    """The copy's ids of ``text`` in which the ``named`` tokens go by their private names, and those that it met."""
    pieces: list[str] = []
    ends: list[int] = []
    at = length = 0
    for match in named:
        pieces += (text[at : match.start], copy.names[match.token.content])
        length += len(pieces[-2]) + len(pieces[-1])
        ends.append(length)
        at = match.end
    pieces.append(text[at:])
    encoding = copy.tokenizer.encode("".join(pieces), add_special_tokens=False)
    ids: list[int] = encoding.ids
    if sum(number in copy.private for number in ids) == len(named):
        return ids, list(named)
    # Offsets may take in white space around a token, never another token's last character.
    spans = [span for number, span in zip(ids, encoding.offsets, strict=True) if number in copy.private]
    met = [any(start < end <= stop for start, stop in spans) for end in ends]
    return ids, [match for match, yes in zip(named, met, strict=True) if yes]


def _runs(parts: Iterable[Part]) -> Iterator[Part]:
    """The parts with neighbours of one kind joined and empty ones dropped."""
    pending: list[str] = []
    kind = False
    for text, is_input in parts:
        if text and pending and is_input != kind:
            yield "".join(pending), kind
            pending = []
        if text:
            # str() sheds the subclass that carries provenance: its slices and joins would be slow here
            pending.append(str.__str__(text))
            kind = is_input
    if pending:
        yield "".join(pending), kind


def _template_spans(runs: Iterable[Part]) -> Iterator[tuple[int, int]]:
    at = 0
    for text, is_input in runs:
        if not is_input:
            yield at, at + len(text)
        at += len(text)


def _check_unicode(text: str) -> None:
    try:
        text.encode("utf-8")
    except UnicodeEncodeError as error:
        raise UsageError(
            f"the text holds a lone surrogate (U+{ord(text[error.start]):04X} at character {error.start}), "
            "which no tokenizer can encode: replace it"
        ) from error


def _without(text: str, missing: frozenset[int]) -> str:
    """``text`` without the characters that need a missing byte: half a character would be noise to the model."""
    return "".join(char for char in text if missing.isdisjoint(char.encode("utf-8")))


def _make_copy(base: Tokenizer, added: Iterable[AddedToken], active: frozenset[str], marks: str) -> _Copy:
    """A tokenizer that shares the model of ``base`` and knows the ``active`` tokens by private names only."""
    tokenizer: Tokenizer = tokenizers().Tokenizer(base.model)
    if base.pre_tokenizer is not None:
        tokenizer.pre_tokenizer = base.pre_tokenizer
    if base.normalizer is not None:
        tokenizer.normalizer = base.normalizer
    names = private_names((token.content for token in added if token.content in active), marks)
    entries = [(token, names.get(token.content, token.content)) for token in added]
    tokenizer.add_tokens([_added(token, name, private=name != token.content) for token, name in entries])
    numbers = tokenizer.get_added_tokens_decoder()
    by_name = {entry.content: number for number, entry in numbers.items()}
    ids = {by_name[name]: token.id for token, name in entries}
    private = frozenset(by_name[name] for name in names.values())
    return _Copy(tokenizer, names, ids, private)


def private_names(contents: Iterable[str], marks: str) -> dict[str, str]:
    """Text -> private name: the first of ``marks``, then a number in the other sixteen.

    All are of one length, so none begins another. The outer characters are of the text's own kind, for neighbours that
    look at them (lstrip, rstrip, single_word).
    """
    listed = list(contents)
    width = len(f"{len(listed):x}")
    digits = {ord(digit): mark for digit, mark in zip("0123456789abcdef", marks[1:], strict=True)}
    return {
        text: _edge(text[0]) + marks[0] + f"{number:0{width}x}".translate(digits) + _edge(text[-1])
        for number, text in enumerate(listed)
    }


def _edge(char: str) -> str:
    if char.isspace():
        return char
    return _WORD_EDGE if is_word(char) else ""


def _added(token: AddedToken, content: str, *, private: bool) -> Any:
    return tokenizers().AddedToken(
        content,
        # whether a private name stands alone was decided when it was written
        single_word=token.single_word and not private,
        lstrip=token.lstrip,
        rstrip=token.rstrip,
        normalized=token.normalized,
        special=token.special,
    )
