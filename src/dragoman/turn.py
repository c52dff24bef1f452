"""One request as a state machine: its prompt, the reader's position, what was already said. Single owner, no I/O."""

from __future__ import annotations

import hashlib
import json
import re
import secrets
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from operator import index
from typing import TYPE_CHECKING, Any, Literal, overload

from dragoman.chat import Delta, Message
from dragoman.constraint.constraint import Constraint
from dragoman.constraint.cursor import Cursor
from dragoman.constraint.positions import Position
from dragoman.dialect import facts
from dragoman.dialect.request import DialectRequest, JsonAnswer
from dragoman.dialect.shape import openers
from dragoman.engine import FinishReason
from dragoman.errors import StateError, UsageError
from dragoman.events import Event, Opened
from dragoman.prompt import Prompt
from dragoman.stream.message import MessageBuilder
from dragoman.stream.mismatch import Marks, mismatch
from dragoman.stream.reader import BrokenError, ControlToken, Item, Reader
from dragoman.stream.utf8 import Utf8Sanitizer
from dragoman.turn_grammar import TurnGrammar
from dragoman.vocab import Vocabulary

if TYPE_CHECKING:
    from dragoman.format import ChatFormat

_ID_ALPHABET = "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
_ID_LENGTH = 9
_TOKENS = "token ids"
_OUTSIDE = ((), ("content",))  # regions of an answer: no call, no reasoning
_BYTES = (bytes, bytearray, memoryview)

Chunk = str | bytes | Sequence[int]


class Turn:
    """One turn of the assistant. Made by :meth:`ChatFormat.turn`, which explains the arguments."""

    def __init__(
        self,
        fmt: ChatFormat,
        request: DialectRequest,
        prompt: Prompt,
        *,
        tools: Sequence[dict[str, object]],
        generation_prompt: str,
        echo: bool,
        strict: bool,
        id_seed: int | str | None,
        one_call: bool = False,
    ) -> None:
        self.format = fmt
        self.request = request
        self.prompt = prompt
        self.generation_prompt = generation_prompt
        self.grammar = TurnGrammar(fmt, request)
        controls = frozenset(fmt.profile.literals) if fmt.vocab is None else fmt.vocab.controls
        self.stops: tuple[str, ...] = facts.stops(fmt.profile, request)
        self.preserved_tokens: tuple[str, ...] = facts.preserved_tokens(fmt.profile, controls)
        self.thinking_tags: tuple[str, str] | None = facts.thinking_tags(fmt.profile, request)
        self._echo = echo
        self._strict = strict
        self._kind: str | None = None
        self._type: type | None = None  # of the last chunk, so that the next one's kind is known
        self._reader: Reader | None = None
        self._utf8 = Utf8Sanitizer()
        self._reason: FinishReason | None = None
        self._late = False
        self._ends = sorted(facts.all_stops(fmt.profile), key=len, reverse=True)
        self._opening: list[Delta] = []  # of what the prompt wrote, given with the first deltas
        calls = fmt.profile.tools
        self._builder = MessageBuilder(
            tools,
            id_source=_id_source(id_seed),
            ids_after_name=facts.ids_after_name(fmt.profile),
            ids_after_arguments=calls is not None and calls.ids_after_arguments,
            constants=facts.call_constants(fmt.profile),
            value_closer=facts.value_closer(fmt.profile),
            spellings=facts.spellings(fmt.profile),
            one_call=one_call,
            marks=Marks(
                facts.closer_of_reasoning(fmt.profile, request),
                facts.openers_of_calls(fmt.profile, request),
                facts.closer_of_calls(fmt.profile),
            ),
        )

    # -- reading ---------------------------------------------------------------------------------------------------

    def feed(self, chunk: Chunk) -> list[Delta]:
        """Read a piece of output; the deltas that it settles.

        str, bytes: markers are found by their text. Token ids: control markers by id only (needs a vocabulary). One
        kind per turn. Never raises for what the model wrote, unless ``on_mismatch="strict"``.
        Raises: StateError after finish, UsageError for a change of kind.
        """
        if self._reason is not None:
            raise StateError("the turn is finished; make a new turn for another output")
        reader = self._reader
        if reader is None or type(chunk) is not self._type:
            reader = self._reader_for(chunk)
        deltas: list[Delta] = []
        try:
            if isinstance(chunk, str):
                deltas = self._push(reader.feed(chunk.encode("utf-8", "replace")))
            elif isinstance(chunk, _BYTES):
                deltas = self._push(reader.feed(self._utf8.feed(bytes(chunk))))
            else:
                for item in self._tokens(chunk, reader):
                    deltas += self._push(reader.feed(item))
        except BrokenError as error:
            self._break(error, deltas)
        if self._opening:
            deltas, self._opening = [*self._opening, *deltas], []
        if reader.behind:
            self._note_behind(reader, final=False)
        self._refuse(deltas)
        return deltas

    def _refuse(self, deltas: list[Delta]) -> None:
        """Raise OutputError where reading is strict and a problem says that the output left its format."""
        problem = mismatch(self.message.problems) if self._strict else None
        if problem is not None:
            at = problem.position
            error = BrokenError(f"the output breaks its format at byte {at}: {problem.message}", at, ())
            error.deltas = tuple(deltas)
            raise error

    def _break(self, error: BrokenError, deltas: list[Delta]) -> None:
        """Add what was settled in front of the break, however the output was cut, to ``deltas``; then raise the error,
        unless the turn was over by then."""
        deltas += self._push([*error.events])
        self._refuse([*self._opening, *deltas])
        if not self._builder.full:
            error.deltas, self._opening = (*self._opening, *deltas), []
            raise error

    def _note_behind(self, reader: Reader, *, final: bool) -> None:
        """A problem where there is more behind the end of the turn than white space and further ends of it."""
        rest = reader.behind.decode("utf-8", "replace").strip()
        while not self._late and rest and not self._builder.full:
            end = next((stop for stop in self._ends if rest.startswith(stop)), None)
            if end is None:
                if final or not any(stop.startswith(rest) for stop in self._ends):
                    self._late = True
                    self._builder.note("after_end", "output after the end of the turn was not read", reader.position)
                return
            rest = rest[len(end) :].lstrip()

    def finish(self, reason: FinishReason = "stop") -> list[Delta]:
        """The output is over; the last deltas. Once. ``length``, ``content_filter``: it was cut off, nothing is closed.

        Raises: OutputError under ``on_mismatch="strict"``, where ``stop`` comes inside a call.
        """
        if self._reason is not None:
            raise StateError("the turn is finished already")
        if reason not in ("stop", "length", "content_filter"):
            raise UsageError(f"a turn finishes by stop, length or content_filter, not {reason!r}", param="reason")
        reader = self._reader or self._start(None)
        deltas, self._opening = self._opening, []
        filtered = reason == "content_filter"
        if reader.path in _OUTSIDE and reader.run.withheld.strip().decode("utf-8", "replace") in self._ends:
            reason = "stop"  # the end of the turn is read, and more might have made an opener of it
        try:
            rest = self._utf8.finish()
            if rest:
                deltas += self._push(reader.feed(rest))
            if not self._builder.full:
                deltas += self._push(self._end(reader, "stop" if reason == "stop" else "length"))
        except BrokenError as error:
            self._break(error, deltas)
        self._note_behind(reader, final=True)
        whole = reason == "stop" or self.ended  # its end was read, whatever ran out afterwards
        self._reason = "content_filter" if filtered else "stop" if whole else "length"
        deltas += _merged(self._builder.finish("stop" if whole else "length"))
        self._note_unmet(reader)
        self._refuse(deltas)
        return deltas

    def _note_unmet(self, reader: Reader) -> None:
        """A problem where the answer is not what was asked for: some engines take no grammar, or do not keep to it."""
        message = self.message
        if self._reason != "stop" or message.tool_calls or message.problems:
            return
        if self.request.choice in ("required", "named"):
            self._builder.note("missing_call", "a call was required, and the output holds none", reader.position)
        elif isinstance(self.request.answer, JsonAnswer) and not _is_json(message.content):
            self._builder.note("invalid_answer", "JSON was asked for, and the answer is none", reader.position)

    def _end(self, reader: Reader, reason: Literal["stop", "length"]) -> list[Event]:
        """The last events of the output."""
        if not self._begins_call(reader, reason):
            return reader.finish(reason)
        at, written = reader.position, reader.run.withheld
        if reason == "stop":
            events = reader.finish(reason)
            if any(isinstance(event, Opened) and event.tag == "call" for event in events):
                return events  # a call without arguments, which only its end tells from one that goes on
            if self._strict:
                raise BrokenError(f"the output ends at byte {at}, inside a call", at, ())
        self._builder.cut_before_name(written, at)
        return []

    def _begins_call(self, reader: Reader, reason: str) -> bool:
        """What is withheld can be nothing but a call: its opener is read whole, or nothing else may be written.

        A model that ended by itself may have written about an opener: it is a call's where a call would stand, on a
        line of its own. The end of the turn is no opener, though openers may begin with its text.
        """
        tools, text = self.format.profile.tools, reader.run.withheld.decode("utf-8", "replace")
        held = text.lstrip()
        if (
            not held
            or held.rstrip() in self._ends
            or reader.path not in _OUTSIDE
            or tools is None
            or not self.request.callable_tools
        ):
            return False
        if self.request.choice in ("required", "named"):
            return True
        if not held.startswith(openers(tools)):
            return False
        said = self.message.content if reason == "stop" else ""
        before = (said + text[: len(text) - len(held)]).rstrip(" \t")
        return not before.strip() or before.endswith("\n")

    @property
    def message(self) -> Message:
        """All that was read so far: the sum of the deltas."""
        return self._builder.message

    @property
    def ended(self) -> bool:
        """The model wrote its end of turn, or a call behind the one that it may make; what follows is not read."""
        return self._builder.full or (self._reader is not None and self._reader.ended)

    @property
    def finish_reason(self) -> FinishReason | Literal["tool_calls"]:
        """length where the output was cut off, be it by the model itself, that ended its turn inside a call; else
        tool_calls where there is a call, else stop. content_filter where the engine said so."""
        if self._reason == "content_filter":
            return self._reason
        if self._reason == "length" or self._builder.cut:
            return "length"
        return "tool_calls" if self._builder.has_calls else "stop"

    @property
    def reader(self) -> Reader:
        """The reader's cursor, for people who watch it."""
        return self._reader or self._start(None)

    def _push(self, events: list[Event]) -> list[Delta]:
        if not self._strict:
            return _merged(self._builder.push_all(events)) if events else []
        deltas: list[Delta] = []
        for event in events:
            if mismatch(self.message.problems):
                break  # what follows is not told, however it is cut
            deltas += self._builder.push(event)
        return _merged(deltas)

    def _reader_for(self, chunk: Chunk) -> Reader:
        kind = _kind(chunk)
        if self._kind not in (None, kind):
            raise UsageError(f"the turn reads {self._kind}, not {kind}: one kind per turn", param="chunk")
        if self._reader is None:
            self._start(self._vocab() if kind == _TOKENS else None)
            if kind == _TOKENS:  # what ordinary tokens spell is no control token, whatever it looks like
                self._builder.forget_marks(self._vocab().controls)
        assert self._reader is not None
        self._kind = kind  # not before: a chunk that is refused decides nothing
        self._type = type(chunk)
        return self._reader

    def _start(self, vocab: Vocabulary | None) -> Reader:
        program = self.format.reader(self.request, vocab)
        prefix: list[Item] = []
        for text, is_input in self._written():
            if vocab is None or is_input:
                prefix.append(text.encode())
            else:
                symbols = program.symbols
                prefix += [
                    piece.encode() if token is None else ControlToken(symbols.get(token), piece.encode())
                    for piece, token in _split(text, vocab)
                ]
        self._reader = Reader(program, prefix=prefix, echo=self._echo, strict=self._strict)
        # What the prompt wrote opens regions; its text counts as said only with echo.
        self._opening = self._push(self._reader.opening())
        return self._reader

    def _written(self) -> tuple[tuple[str, bool], ...]:
        return self.prompt.written

    def _vocab(self) -> Vocabulary:
        if self.format.vocab is None:
            raise UsageError("token ids can be read with a vocabulary only: give vocab= to ChatFormat", param="chunk")
        return self.format.vocab

    def _tokens(self, token_ids: Sequence[int], reader: Reader) -> list[Item]:
        vocab = self._vocab()
        symbols = reader.symbols
        items: list[Item] = []
        for token in _checked_ids(token_ids, vocab.size):
            if vocab.is_control(token):
                rest = self._utf8.finish()
                if rest:
                    items.append(rest)
                end = token in vocab.eos_ids
                items.append(ControlToken(symbols.get(token), vocab.text_of(token).encode(), ends_turn=end))
            else:
                data = self._utf8.feed(vocab.bytes_of(token) or b"")
                if data:
                    items.append(data)
        return items

    # -- writing ---------------------------------------------------------------------------------------------------

    @overload
    def constraint(self, vocab: Vocabulary | None = None, *, engine: Literal["own"] = "own") -> Constraint: ...
    @overload
    def constraint(self, vocab: Vocabulary | None = None, *, engine: str) -> Cursor: ...
    def constraint(self, vocab: Vocabulary | None = None, *, engine: str = "own") -> Cursor:
        """A fresh cursor over what may be written from here: after the generation prompt, before the first token.

        engine: who makes the masks: ``own``, ``llguidance`` or ``xgrammar`` (packages of the extra ``peers``), which
        take what :attr:`grammar` exports. Where an export is coarser than the grammar, so are their masks.
        Raises: SchemaError for what cannot be enforced, UsageError without a vocabulary or the engine's package,
        GrammarError where the engine refuses the grammar.
        """
        vocab = vocab or self.format.vocab
        if not isinstance(vocab, Vocabulary):
            raise UsageError("a constraint needs a Vocabulary: give one here or to ChatFormat", param="vocab")
        request = self.request
        if vocab is not self.format.vocab:
            request = replace(request, after_control=self.prompt.ends_in_control(vocab))
        if engine != "own":
            return self.format.borrowed_masks(engine, request, vocab)
        masks = self.format.masks(request, vocab)
        state: Position = masks.start()
        for text, is_input in self._written():
            pieces: list[tuple[str, int | None]] = [(text, None)] if is_input else _split(text, vocab)
            for piece, token in pieces:
                state = _advance(masks.after_text, state, piece.encode(), token)
        return Constraint(masks, state)


def _kind(chunk: Chunk) -> str:
    if isinstance(chunk, str):
        return "str"
    if isinstance(chunk, _BYTES):
        return "bytes"
    if isinstance(chunk, Mapping) or not isinstance(chunk, Iterable):
        raise UsageError(f"a chunk is text, bytes or token ids, not {type(chunk).__name__}", param="chunk")
    return _TOKENS


def _checked_ids(token_ids: Sequence[int], size: int) -> list[int]:
    """All of the ids, before any of them is read. Raises: UsageError."""
    wrong: Any = token_ids
    try:
        ids = []
        for wrong in token_ids:
            number = wrong if type(wrong) is int else index(wrong)
            if not 0 <= number < size:
                raise UsageError(f"token id {number} is outside of the vocabulary of {size}", param="chunk")
            ids.append(number)
    except TypeError:
        kind = type(wrong).__name__
        raise UsageError(f"a chunk is text, bytes or token ids, not {kind} {wrong!r:.40}", param="chunk") from None
    return ids


def _advance(
    after: Callable[[Position, bytes, int | None], Position | None], state: Position, data: bytes, token: int | None
) -> Position:
    found = after(state, data, token)
    if found is None:
        raise UsageError(
            f"the writer's grammar does not go on from what the prompt wrote ({data.decode()!r})",
            param="generation_prompt",
        )
    return found


def _split(text: str, vocab: Vocabulary) -> list[tuple[str, int | None]]:
    """``text`` of the template in pieces: control tokens with their id, what lies between with None."""
    known = sorted((name for name in vocab.controls if name in text), key=len, reverse=True)
    if not known:
        return [(text, None)]
    pieces = re.split(f"({'|'.join(map(re.escape, known))})", text)
    return [(piece, vocab.controls[piece] if at % 2 else None) for at, piece in enumerate(pieces) if piece]


def _merged(deltas: list[Delta]) -> list[Delta]:
    """Neighbouring pieces of the same text as one delta."""
    if len(deltas) < 2:
        return deltas
    out: list[Delta] = []
    for delta in deltas:
        last = out[-1] if out else None
        if last is not None and delta.content and last.content:
            out[-1] = Delta(content=last.content + delta.content)
        elif last is not None and delta.reasoning_content and last.reasoning_content:
            out[-1] = Delta(reasoning_content=last.reasoning_content + delta.reasoning_content)
        else:
            out.append(delta)
    return out


def _id_source(seed: int | str | None) -> Callable[[], str]:
    """Call ids of nine alphanumeric characters: from the seed the same every time, without one never twice."""
    key = secrets.token_bytes(16) if seed is None else repr(seed).encode()
    count = 0

    def make() -> str:
        nonlocal count
        number = int.from_bytes(hashlib.blake2b(b"%d" % count, key=key[:64]).digest(), "big")
        count += 1
        return "".join(_ID_ALPHABET[number // len(_ID_ALPHABET) ** i % len(_ID_ALPHABET)] for i in range(_ID_LENGTH))

    return make


def _is_json(text: str) -> bool:
    try:
        json.loads(text)
    except (ValueError, RecursionError):
        return False
    return True
