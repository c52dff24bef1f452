"""The round trip: assistant messages through the template into text, and back through the reader. Equal, or not proven.

Rules of this file: the template is the only source of text; what it loses by itself (recorded in ``Profile.losses``)
is allowed for, nothing else is; a claim that no rendering can show stays *inferred* or *not expressible*.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import Enum
from typing import Any

from dragoman.chat import Message
from dragoman.dialect.build import build
from dragoman.dialect.facts import call_constants, ids_after_name, spellings
from dragoman.dialect.families import Family
from dragoman.dialect.request import DialectRequest, Tool
from dragoman.dialect.shape import delimiter_after, literal_values
from dragoman.errors import DragomanError
from dragoman.grammar.compile import compile_reader
from dragoman.grammar.lower import lower
from dragoman.grammar.program import Program
from dragoman.limits import DEFAULT, Limits
from dragoman.stream.message import MessageBuilder
from dragoman.stream.reader import Reader
from dragoman.template.escapes import escaped, undone
from dragoman.template.probe import Prober, Renderable, Rung, Said, with_variables
from dragoman.template.profile import Escapes, Marker, Pairs, Profile, ReasoningMode, Slot, ToolProfile
from dragoman.template.sentinels import FIRST, ProbeCall


class Status(str, Enum):
    """How sure a claim is. Compares equal to its text."""

    PROVEN = "proven"  # rendered and read back equal
    INFERRED = "inferred"  # there is evidence, but the history renders nothing of it
    REFUTED = "refuted"  # rendered, and read back otherwise
    NOT_EXPRESSIBLE = "not expressible"  # the template has no form for it

    def __str__(self) -> str:
        return self.value


@dataclass(frozen=True, slots=True)
class Claim:
    """One line of the proof: its status, why, and how many messages went through."""

    status: Status
    why: str
    messages: int = 0

    def to_dict(self) -> dict[str, Any]:
        return {"status": self.status.value, "why": self.why, "messages": self.messages}


class Proof(Mapping[str, Status]):
    """Claim -> status; ``claims`` has the reasons."""

    def __init__(self, claims: Mapping[str, Claim]) -> None:
        self.claims = dict(claims)

    def __getitem__(self, name: str) -> Status:
        return self.claims[name].status

    def __iter__(self) -> Iterator[str]:
        return iter(self.claims)

    def __len__(self) -> int:
        return len(self.claims)

    def __repr__(self) -> str:
        return f"Proof({', '.join(f'{name}: {status}' for name, status in self.items())})"

    def to_dict(self) -> dict[str, Any]:
        return {name: claim.to_dict() for name, claim in self.claims.items()}


CLAIMS = (
    "content",
    "reasoning",
    "tool_calls",
    "parallel_tool_calls",
    "call_ids",
    "no_arguments",
    "nested",
    "typed",
    "whitespace",
    "content_beside_calls",
)

_OPEN: dict[str, Any] = {"type": "object", "properties": {}}
_TOOLS = (
    Tool(
        "find_harbour",
        {
            "type": "object",
            "properties": {
                "port": {"type": "string"},
                "note": {"type": "string"},
                "days": {"type": "integer"},
                "depth": {"type": "number"},
                "night": {"type": "boolean"},
                "pilot": {"type": "null"},
                "ship": _OPEN,
                "stops": {"type": "array"},
            },
        },
    ),
    Tool("ring-bell", {"type": "object", "properties": {"times": {"type": "integer"}}}),
)

_TEXTS = (
    "A plain answer.",
    "Two lines,\nthe second with a tab\tand an é, 漢字, 😀.",
    'Markup <b>bold</b>, {"json": [1, 2]}, `code` and "quotes" \\ stay text.',
)
_THOUGHTS = ("First the tide, then the sun.", 'Several\nlines, {"a": 1} and <i>markup</i>.')


def _call(arguments: Mapping[str, Any], name: str = "find_harbour", number: int = 0) -> ProbeCall:
    return ProbeCall(f"Pr0ofId{number:02d}", name, tuple(arguments.items()))


_CALLS: Mapping[str, Sequence[tuple[ProbeCall, ...]]] = {
    "tool_calls": (
        (_call({"port": "Brest", "days": 2}),),
        (_call({"port": 'a "quoted" {brace} \\ <b>x</b> é 漢字'}),),
        (_call({"times": 3}, "ring-bell"),),
    ),
    "parallel_tool_calls": (
        (_call({"port": "Brest"}), _call({"times": 2}, "ring-bell", 1)),
        (_call({"port": "Brest"}), _call({"port": "Sète"}, number=1)),
    ),
    "no_arguments": ((_call({}),),),
    "nested": (
        (_call({"ship": {"name": "Belle", "crew": [{"n": 1}, {"n": 2}], "flags": {"a": {"b": "c"}}}}),),
        (_call({"stops": ["Brest", "Sète", 3, [4.5]]}),),
    ),
    "typed": (
        (_call({"days": -7, "depth": 48.25, "night": True}),),
        (_call({"night": False, "port": "42"}),),
        (_call({"port": "true", "note": "null"}),),
    ),
    "whitespace": (
        (_call({"port": "  two before, two after  "}),),
        (_call({"note": "line one\n  line two\n\nline four"}),),
        (_call({"port": "\nnewlines around\n"}),),
        (_call({"port": ""}),),
    ),
}


def prove(
    template: Renderable, profile: Profile, families: Sequence[Family] = (), *, limits: Limits = DEFAULT
) -> Proof:
    """Try every claim on ``template``. Never raises for what a template does.

    families: the entries that declared what the template does not show; they are tried on their own samples.
    """
    prover = _Prover(template, profile, limits)
    claims = {"content": prover.content(), "reasoning": prover.reasoning()}
    for name in CLAIMS[2:]:
        own = {"call_ids": prover.call_ids, "content_beside_calls": prover.beside_calls}.get(name)
        claims[name] = prover.calls(name) if own is None else own()
    for family in families:
        claims |= prover.family(family)
    return Proof(claims)


# Openers that sentences and lists have as well: a number, a dot, a dash.
_PROSE = re.compile(r"\s*[\d.,:;*\u2022\u2013\u2014-][\s\d.,:;*\u2022\u2013\u2014-]*")


def flaw_of_calls(template: Renderable, profile: Profile, proof: Proof, *, limits: Limits = DEFAULT) -> str | None:
    """Why the form of calls had better not be read: no call in it came back, or answers are taken for calls."""
    calls, content = proof.claims["tool_calls"], proof.claims["content"]
    if profile.tools is None:
        return None
    if calls.status is Status.REFUTED and not calls.messages:
        return calls.why
    opener = profile.tools.section_open.text or next(
        (piece.text for piece in profile.tools.call[:1] if isinstance(piece, Marker)), ""
    )
    if _PROSE.fullmatch(opener):
        return f"answers are taken for calls: their opener {opener!r} may stand in any prose"
    if content.status is not Status.REFUTED:
        return None
    silent = _Prover(template, replace(profile, tools=None), limits).content()
    return f"answers are taken for calls: {content.why}" if silent.status is Status.PROVEN else None


def without_form(template: Renderable, profile: Profile, proof: Proof, flaw: str, *, limits: Limits = DEFAULT) -> Proof:
    """The proof of ``profile``, which is without the form of calls that had this flaw."""
    content = _Prover(template, profile, limits).content()
    return Proof({**proof.claims, "content": content, "tool_calls": Claim(Status.REFUTED, flaw)})


def _spelled_calls(escapes: Escapes) -> Iterator[tuple[ProbeCall, ...]]:
    """Calls with each character that the template spells otherwise, and with its spelling, where it stands raw."""

    def text(pairs: Pairs) -> str:
        own = "".join(f"{char}x" for char, _ in pairs)
        return own + "".join(written for _, written in pairs if undone(escaped(written, pairs), pairs) == written)

    if escapes.name:
        yield (_call({"port": "Brest"}, "find" + text(escapes.name)),)
    if escapes.key:
        yield (_call({"por" + text(escapes.key): "Brest", "days": 2}),)
    if escapes.value:
        yield (_call({"port": "a " + text(escapes.value), "ship": {"name": text(escapes.value)}}),)


class _Prover:
    def __init__(self, template: Renderable, profile: Profile, limits: Limits) -> None:
        self.prober = Prober(template, limits)
        self.profile = profile
        baseline = dict(profile.baseline)
        variables = tuple((baseline.pop("variables", None) or {}).items())
        self.rung = Rung(**baseline, variables=variables) if baseline else Rung(tools=False)
        self.plain = replace(self.rung, tail="none")
        self.program = self._program()
        self.refusal = ""

    def _program(self) -> Program | None:
        request = DialectRequest(tools=_TOOLS if self.profile.tools is not None else ())
        try:
            return compile_reader(lower(build(self.profile, request, write=False), "reader"))
        except DragomanError as error:
            self.refusal = str(error)
            return None

    def body(self, said: Said, rung: Rung) -> str | None:
        """What a model would have written to say ``said``, cut out of the history; None: the template refuses."""
        text = self.prober.after_user(said, rung)
        if text is None:
            return None
        text = text.removesuffix(self.profile.trailer)
        closed = (self.prober.after_user(None, rung) or "").removesuffix(self.profile.trailer)
        header = self.profile.assistant_header
        at = text.find(header) if header.strip() else -1
        if at >= 0:
            text = text[at + len(header) :]
        elif text.startswith(closed):
            text = text[len(closed) :]
        for word, role in ((FIRST.result, "tool"), (FIRST.follow_up, "user")):
            cut = text.find(word)
            if cut >= 0 and rung.tail != "none":
                return text[:cut].removesuffix(self.profile.role_starts.get(role, ""))
        return text

    def read(self, text: str) -> Message | None:
        if self.program is None:
            return None
        reader = Reader(self.program)
        tools = self.profile.tools
        late = tools is not None and tools.ids_after_arguments
        after_name = ids_after_name(self.profile)
        builder = MessageBuilder(
            _tool_dicts(),
            id_source=lambda: "",
            ids_after_name=after_name,
            ids_after_arguments=late,
            constants=call_constants(self.profile),
            spellings=spellings(self.profile),
        )
        builder.push_all(reader.feed(text.encode()))
        builder.push_all(reader.finish("stop"))
        builder.finish("stop")
        return builder.message

    def content(self) -> Claim:
        wanted = [(Said(text), Message(content=text)) for text in _TEXTS]
        claim = self._judge(wanted, self.plain, Status.REFUTED)
        shown, facts = self.body(Said(_TEXTS[0]), self.plain), self.profile.reasoning
        if claim.status is Status.PROVEN or shown is None or not facts.open.text or facts.close.text in shown:
            return claim
        if not shown.lstrip().startswith(facts.open.text):
            return claim
        # The last answer is written as the rest of the block that the prompt opens.
        earlier = self._judge(wanted, replace(self.plain, tail="user"), Status.REFUTED)
        told = (
            "of answers that a question follows; the last one is written as the rest of a block that the prompt opens"
        )
        return replace(earlier, why=told) if earlier.status is Status.PROVEN else claim

    def reasoning(self) -> Claim:
        facts = self.profile.reasoning
        if facts.mode is ReasoningMode.NONE:
            return Claim(Status.NOT_EXPRESSIBLE, "the template has no form for reasoning")
        if facts.mode is ReasoningMode.UNKNOWN:
            return Claim(Status.INFERRED, "the template reads reasoning, but no form of it was found")
        if facts.message_key is None and facts.inline and facts.rendered_last:
            inline = [
                (Said(facts.open.written + thought + facts.close.written + text), Message(text, thought))
                for text, thought in zip(_TEXTS, _THOUGHTS, strict=False)
            ]
            return self._judge(inline, self.plain, Status.INFERRED)
        if facts.message_key is None:
            return Claim(Status.INFERRED, "the history renders no reasoning")
        key = facts.message_key
        # Where a variable switches reasoning on, the history is rendered with it.
        shown = {} if facts.switch is None else {facts.switch: True}
        first = Said(_TEXTS[0], reasoning=((key, _THOUGHTS[0]),))
        if shown and _THOUGHTS[0] not in (self.body(first, with_variables(self.plain, **shown)) or ""):
            shown = {}  # the switch is a word, not a flag
        plain, beside = with_variables(self.plain, **shown), with_variables(self.rung, **shown)
        if facts.rendered_last:
            said = [
                (Said(text, reasoning=((key, thought),)), Message(content=text, reasoning_content=thought))
                for text, thought in zip(_TEXTS, _THOUGHTS, strict=False)
            ]
            claim = self._judge(said, plain, Status.INFERRED)
            if claim.status is not Status.PROVEN or not facts.rendered_with_calls or self.profile.tools is None:
                return claim
            other = self._reasoning_beside_calls(key, beside)
            return other if other.status is Status.REFUTED else claim
        if facts.rendered_with_calls and self.profile.tools is not None:
            return self._reasoning_beside_calls(key, beside)
        return Claim(Status.INFERRED, "the history renders no reasoning of the last message")

    def _reasoning_beside_calls(self, key: str, rung: Rung) -> Claim:
        call = _CALLS["tool_calls"][0]
        said = [
            (Said(calls=call, reasoning=((key, thought),)), Message(reasoning_content=thought)) for thought in _THOUGHTS
        ]
        return self._judge(said, rung, Status.INFERRED, calls=[call] * len(said))

    def calls(self, name: str) -> Claim:
        tools = self.profile.tools
        if tools is None:
            return Claim(Status.NOT_EXPRESSIBLE, self.profile.failure or "the template writes no calls")
        if name == "parallel_tool_calls" and not tools.parallel:
            return Claim(Status.NOT_EXPRESSIBLE, "the template renders one call of a message only")
        samples = [*_CALLS[name], *(_spelled_calls(tools.escapes) if name == "tool_calls" else ())]
        claim = self._judge([(Said(calls=c), Message()) for c in samples], self.rung, Status.REFUTED, calls=samples)
        if claim.status is Status.REFUTED and literal_values(tools) and self._read_as_literals(tools, samples):
            told = "of the history only: in literals, as models write values, the same calls are read back equal"
            return replace(claim, why=f"{told}; {claim.why}")
        return claim

    def beside_calls(self) -> Claim:
        """Text and calls of one message."""
        tools = self.profile.tools
        if tools is None:
            return Claim(Status.NOT_EXPRESSIBLE, self.profile.failure or "the template writes no calls")
        if not self.profile.content.kept_with_calls:
            return Claim(Status.NOT_EXPRESSIBLE, "the history leaves text beside calls out")
        made = [_CALLS["tool_calls"][0], *(_CALLS["parallel_tool_calls"][:1] if tools.parallel else ())]
        samples = [(text, calls) for calls in made for text in _TEXTS[:2]]
        shown = self.body(Said(*samples[0]), self.rung)
        if shown is not None:  # what the template itself does not write as text and calls
            first, read = made[0][0], self.read(shown)
            if first.name not in shown:
                return Claim(Status.NOT_EXPRESSIBLE, "the history leaves calls beside text out")
            if read is not None and not read.content and read.reasoning_content.strip() == samples[0][0]:
                return Claim(Status.NOT_EXPRESSIBLE, "the history writes text beside a call as reasoning")
        said = [(Said(text, calls), Message(content=text)) for text, calls in samples]
        return self._judge(said, self.rung, Status.REFUTED, calls=[calls for _, calls in samples])

    def _read_as_literals(self, tools: ToolProfile, samples: Sequence[tuple[ProbeCall, ...]]) -> bool:
        """True: where the history's strings are put right as literals, which models write, each sample comes back."""
        between = delimiter_after(tools.argument, tools.argument.index(Slot.KEY)).written
        for calls in samples:
            text = self.body(Said(calls=calls), self.rung) or ""
            for key, value in (argument for call in calls for argument in call.arguments):
                shown = [key + between + quote + value + quote for quote in "\"'"] if isinstance(value, str) else []
                shown += [key + between + value] if shown else []
                found = next((spelled for spelled in shown if spelled in text), "")
                text = text.replace(found, key + between + json.dumps(value), 1) if found else text
            message = self.read(text)
            if message is None or self._flaw(message, Message(), calls, Said(calls=calls)) is not None:
                return False
        return True

    def family(self, family: Family) -> dict[str, Claim]:
        """What the samples of a family show: no more than an inference, as no template rendered them."""
        claim = Claim(Status.INFERRED, f"declared for {family.name}, its samples are read back: {family.why}")
        for sample in family.samples:
            message = self.read(sample.text)
            calls = [ProbeCall("", name, tuple(arguments.items())) for name, arguments in sample.calls]
            wanted = Message(sample.content, sample.reasoning)
            flaw = self.refusal if message is None else self._flaw(message, wanted, calls, Said(sample.content))
            if flaw is not None:
                claim = Claim(Status.REFUTED, f"{flaw}, from the sample {sample.text!r} of {family.name}")
        if family.tools is None:
            return {"reasoning": claim}
        unseen = Claim(Status.NOT_EXPRESSIBLE, family.why)
        return {**dict.fromkeys(_CALLS, unseen), "tool_calls": claim}

    def call_ids(self) -> Claim:
        tools = self.profile.tools
        if tools is None or not tools.ids_in_history:
            return Claim(Status.NOT_EXPRESSIBLE, "the history writes no call ids")
        call = _CALLS["tool_calls"][0]
        text = self.body(Said(calls=call), self.rung)
        message = None if text is None else self.read(text)
        ids = [] if message is None else [found.id for found in message.tool_calls]
        if (
            ids
            and ids[0]
            and (ids[0] == call[0].id or (text is not None and ids[0] in text and call[0].id not in text))
        ):
            return Claim(Status.PROVEN, f"{ids[0]!r} was read back", 1)
        return Claim(Status.REFUTED, f"the id {call[0].id!r} was read as {ids}")

    def _judge(
        self,
        samples: Sequence[tuple[Said, Message]],
        rung: Rung,
        unseen: Status,
        calls: Sequence[tuple[ProbeCall, ...]] | None = None,
    ) -> Claim:
        """All samples rendered and read; the first that comes back otherwise decides."""
        if self.program is None:
            return Claim(Status.REFUTED, f"no grammar could be made: {self.refusal}")
        done = 0
        for at, (said, wanted) in enumerate(samples):
            text = self.body(said, rung)
            if text is None:
                if done:
                    continue
                refusal = self.prober.error
                why = (
                    f"the template refuses it: {refusal}"
                    if refusal
                    else "the template does not write what the user says"
                )
                return Claim(unseen, why)
            message = self.read(text)
            assert message is not None
            flaw = self._flaw(message, wanted, calls[at] if calls is not None else (), said)
            if flaw is not None:
                return Claim(Status.REFUTED, f"{flaw}, from {text[:200]!r}", done)
            done += 1
        return Claim(Status.PROVEN, "rendered and read back equal", done)

    def _flaw(self, got: Message, wanted: Message, calls: Sequence[ProbeCall], said: Said) -> str | None:
        # Beside calls there may be the rung's own filler, which some templates drop; nothing of the call may be left.
        own = said.content is None and calls and self.rung.content == "text"
        filler = {"", FIRST.content} if own else {wanted.content.strip()}
        if got.content.strip() not in filler:
            return f"content {wanted.content!r} came back as {got.content!r}"
        if got.reasoning_content.strip() != wanted.reasoning_content.strip():
            return f"reasoning {wanted.reasoning_content!r} came back as {got.reasoning_content!r}"
        if [call.name for call in got.tool_calls] != [call.name for call in calls]:
            return f"calls of {[call.name for call in calls]} came back as {[call.name for call in got.tool_calls]}"
        for read, call in zip(got.tool_calls, calls, strict=True):
            try:
                arguments = json.loads(read.arguments)
            except ValueError:
                return f"arguments came back as {read.arguments!r}, which is no JSON"
            if arguments != call.args or _types(arguments) != _types(call.args):
                return f"arguments {call.args} came back as {read.arguments}"
        return None


def _types(value: Any) -> Any:
    """The shape of a value by JSON type, so that 1, 1.0 and true are told apart."""
    if isinstance(value, dict):
        return {key: _types(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_types(item) for item in value]
    return type(value).__name__


def _tool_dicts() -> list[dict[str, Any]]:
    return [{"type": "function", "function": {"name": tool.name, "parameters": tool.parameters}} for tool in _TOOLS]
