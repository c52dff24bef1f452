"""Any server of OpenAI-style completions: vLLM, SGLang and the rest, told apart by small declared differences.

Rules of this file: one adapter; what a server takes that others do not stands in its :class:`Flavour`, and what it
does not take is refused by name, since such servers ignore fields they do not know. Prompts go out as token ids
wherever the server takes them, so no message can forge a control token.
"""

from __future__ import annotations

import math
from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import aclosing
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypeAlias

from dragoman.engine import Chunk, EngineInfo, FinishReason, Generation, GrammarForm, GrammarSpec, TokenLogprob
from dragoman.engines.http import DEFAULT_TIMEOUTS, HttpEngine, Timeouts, json_object, read_event
from dragoman.errors import EngineError, UsageError

if TYPE_CHECKING:
    import httpx

Fields: TypeAlias = dict[str, Any]

# What completions servers write without a bound where nothing is said: 16 tokens. So a bound is always sent.
UNKNOWN_CONTEXT_TOKENS = 4096
_STANDARD = frozenset(("temperature", "top_p", "seed", "presence_penalty", "frequency_penalty"))
# Words of such servers, and of services behind the same API, for how an answer ended.
_FINISHES: Mapping[str, FinishReason] = {
    **dict.fromkeys(("stop", "eos", "eos_token", "stop_sequence", "end_turn", "tool_calls", "function_call"), "stop"),
    **dict.fromkeys(("length", "max_tokens", "repetition"), "length"),
    **dict.fromkeys(("content_filter", "content_filtered", "refusal", "safety"), "content_filter"),
}
_GIVEN_UP = ("abort", "error", "cancelled")
_WORD_MAX = 60  # characters of a word that nobody knows
_OURS = frozenset(
    ("model", "prompt", "stream", "stream_options", "max_tokens", "stop", "n", "best_of", "echo", "logprobs")
)
_BAN = -100.0  # JSON has no infinity; these servers clamp a bias here


@dataclass(frozen=True, slots=True)
class Flavour:
    """How one kind of server differs from the plain API.

    grammars: notation -> the fields that carry a grammar in it, best notation first.
    sampling: fields of :class:`Sampling` that it takes.  extra: fields that every request has; text_extra: those
    beside it whose prompt is text, so that it is taken as it is.
    engine_fields: fields of its own that a request may carry through (see ModelSettings).
    tokens_named: asked to, it writes the tokens of log probabilities as ``token_id:7``.
    shows_controls: control tokens are in the text; without it a call whose markers are such tokens cannot be read.
    """

    name: str
    grammars: Mapping[GrammarForm, Callable[[str], Fields]] = field(default_factory=dict)
    sampling: frozenset[str] = _STANDARD
    extra: Mapping[str, Any] = field(default_factory=dict)
    text_extra: Mapping[str, Any] = field(default_factory=dict)
    engine_fields: frozenset[str] = frozenset()
    tokens_named: bool = False
    shows_controls: bool = False


_SAMPLERS = frozenset(("repetition_penalty", "min_tokens", "ignore_eos", "stop_token_ids"))

VLLM = Flavour(
    name="vLLM",
    grammars={
        # A structural tag may write control tokens, a plain grammar may not.
        "structural_tag": lambda text: {"structured_outputs": {"structural_tag": text}},
        "ebnf": lambda text: {"structured_outputs": {"grammar": text}},
    },
    sampling=_STANDARD | {"top_k", "min_p"},
    extra={"skip_special_tokens": False, "spaces_between_special_tokens": False, "return_token_ids": True},
    text_extra={"add_special_tokens": False},
    engine_fields=_SAMPLERS | {"length_penalty", "bad_words", "allowed_token_ids", "priority", "cache_salt"},
    tokens_named=True,
    shows_controls=True,
)
SGLANG = Flavour(
    name="SGLang",
    grammars={
        "structural_tag": lambda text: {"response_format": json_object(text)},
        "ebnf": lambda text: {"ebnf": text},
    },
    sampling=_STANDARD | {"top_k", "min_p"},
    extra={"skip_special_tokens": False, "return_token_ids": True},
    engine_fields=_SAMPLERS | {"stop_regex", "custom_params", "priority", "cache_salt"},
    shows_controls=True,
)
# Its other grammar engine reads Lark under the name of EBNF, and no structural tag that holds a grammar.
SGLANG_LLGUIDANCE = Flavour(
    name="SGLang (llguidance)",
    grammars={"lark": lambda text: {"ebnf": text}},
    sampling=SGLANG.sampling,
    extra=SGLANG.extra,
    engine_fields=SGLANG.engine_fields,
    shows_controls=True,
)
# Started with another grammar engine, or with none.
SGLANG_FREE = Flavour(
    name="SGLang (without grammars)",
    sampling=SGLANG.sampling,
    extra=SGLANG.extra,
    engine_fields=SGLANG.engine_fields,
    shows_controls=True,
)
GENERIC = Flavour(name="a completions server")


class Completions(HttpEngine):
    """The Engine protocol over ``POST /v1/completions``."""

    def __init__(
        self,
        base_url: str,
        flavour: Flavour = GENERIC,
        *,
        model: str | None = None,
        context_tokens: int | None = None,
        takes_token_ids: bool = True,
        api_key: str | None = None,
        timeouts: Timeouts = DEFAULT_TIMEOUTS,
        transport: httpx.AsyncBaseTransport | None = None,
    ) -> None:
        """model, context_tokens: where None, the first model of ``/v1/models`` and what is told of it there."""
        super().__init__(base_url, api_key=api_key, timeouts=timeouts, transport=transport)
        self.flavour = flavour
        self._model = model
        self._context_tokens = context_tokens
        self._takes_token_ids = takes_token_ids
        self._info: EngineInfo | None = None

    async def info(self) -> EngineInfo:
        """Asks the server each time, so that it also tells whether it is there. Raises EngineError."""
        card = model_card(await self.lookup("GET", "/v1/models"), self._model)
        told = card.get("max_model_len")
        self._info = EngineInfo(
            model=str(card["id"]),
            context_tokens=self._context_tokens or (told if isinstance(told, int) else None),
            grammar_forms=tuple(self.flavour.grammars),
            takes_token_ids=self._takes_token_ids,
            gives_logprobs=True,
        )
        return self._info

    async def generate(self, request: Generation) -> AsyncGenerator[Chunk, None]:
        """Pieces of output as they come; text is authoritative. Closing the iterator closes the connection.

        Raises EngineError when the server refuses, fails or goes away, UsageError for what it would not understand.
        """
        info = self._info or await self.info()
        body = completion_body(request, info, self.flavour)
        if request.sampling.max_tokens == 0:  # such servers refuse it or write one token all the same
            yield Chunk(finish="length", completion_tokens=0)
            return
        reader = _Reader(request.sampling.logprobs)
        async with aclosing(self.events("/v1/completions", body)) as events:
            async for data in events:
                if data == "[DONE]":
                    break
                event = read_event(data)
                try:
                    piece = reader.read(event)
                except (TypeError, ValueError, KeyError, AttributeError) as error:
                    raise EngineError(f"the engine sent a chunk that cannot be read: {data[:200]!r}") from error
                if piece is not None:
                    yield piece
        if reader.finish is None:
            raise self.ended_early()
        yield reader.last()


def model_card(listed: Mapping[str, Any], wanted: str | None = None) -> dict[str, Any]:
    """The entry of ``/v1/models`` for the model ``wanted``, else the first. Raises EngineError."""
    entries = listed.get("data")
    cards = [card for card in entries if isinstance(card, dict)] if isinstance(entries, list) else []
    known = [card for card in cards if isinstance(card.get("id"), str)]
    found = next((card for card in known if wanted in (None, card["id"])), None)
    if found is None:
        names = ", ".join(card["id"] for card in known) or "none"
        raise EngineError(f"the engine has no model {wanted or 'at all'}; it lists {names}")
    return found


def completion_body(request: Generation, info: EngineInfo, flavour: Flavour) -> Fields:
    """The JSON of ``POST /v1/completions``. Raises UsageError for what the server would misunderstand."""
    sampling = request.sampling
    clash = sorted((_OURS | flavour.extra.keys()) & sampling.extra.keys())
    if clash:
        raise UsageError(f"sampling.extra may not set {', '.join(clash)}: the request itself does", param="extra")
    body: Fields = {
        **sampling.extra,
        **_sampling(request, flavour),
        **flavour.extra,
        **({} if info.takes_token_ids else flavour.text_extra),
        "model": info.model,
        "prompt": list(request.prompt_ids) if info.takes_token_ids else request.prompt_text,
        "max_tokens": _bound(request, info),
        "stream": True,
        "stream_options": {"include_usage": True},
    }
    if request.stops:
        body["stop"] = list(request.stops)
    if sampling.logprobs is not None:
        body["logprobs"] = sampling.logprobs
        if flavour.tokens_named:
            body["return_tokens_as_token_ids"] = True
    if request.grammar is not None:
        body |= _grammar(request.grammar, flavour)
    return body


def _bound(request: Generation, info: EngineInfo) -> int:
    """No more than there is room for: an answer ends there all the same, and these servers refuse a larger number."""
    wanted = request.sampling.max_tokens
    if wanted is not None and info.context_tokens is None:
        return wanted
    room = max((info.context_tokens or UNKNOWN_CONTEXT_TOKENS) - len(request.prompt_ids), 1)
    return room if wanted is None else min(wanted, room)


def _sampling(request: Generation, flavour: Flavour) -> Fields:
    out: Fields = {}
    for name in ("temperature", "top_p", "top_k", "min_p", "seed", "presence_penalty", "frequency_penalty"):
        value = getattr(request.sampling, name)
        if value is None:
            continue
        if name not in flavour.sampling:
            raise UsageError(f"{flavour.name} takes no {name}; leave it out", param=name)
        out[name] = value
    seed = out.pop("seed", None)
    if seed is not None and seed != -1:  # which asks for any; theirs have 63 bits
        out["seed"] = seed % (1 << 63)
    bias = request.sampling.logit_bias
    for token, added in bias.items():
        if math.isnan(added) or added == math.inf:
            message = f"logit_bias of token {token} is {added}; a finite number or -inf is wanted"
            raise UsageError(message, param="logit_bias")
    if bias:
        out["logit_bias"] = {str(token): min(max(added, _BAN), -_BAN) for token, added in bias.items()}
    return out


def _grammar(spec: GrammarSpec, flavour: Flavour) -> Fields:
    carried = flavour.grammars.get(spec.form)
    if carried is None:
        takes = ", ".join(flavour.grammars) or "none"
        raise UsageError(f"{flavour.name} takes no grammar in {spec.form}; it takes {takes}", param="grammar")
    if not spec.text.strip():
        raise UsageError("the grammar is empty: the engine would write freely", param="grammar")
    if spec.lazy:
        raise UsageError(f"{flavour.name} knows no lazy grammars", param="grammar")
    return carried(spec.text)


class _Reader:
    """Chunks of a completion in, pieces out; the counts come behind the end, so the last piece waits for them."""

    def __init__(self, logprobs: int | None) -> None:
        self._tops = logprobs
        self._written = 0
        self._usage: Mapping[str, Any] = {}
        self.finish: FinishReason | None = None
        self._unknown_end: str | None = None
        self._half = ""  # the first half of a character that a server cuts in two, in JSON's escapes

    def read(self, event: Mapping[str, Any]) -> Chunk | None:
        usage = event.get("usage")
        if isinstance(usage, Mapping):
            self._usage = usage
        choices = event.get("choices")
        if not isinstance(choices, list) or not choices or not isinstance(choices[0], Mapping):
            return None
        choice = choices[0]
        if choice.get("finish_reason") is not None:
            self.finish, self._unknown_end = _finish(choice["finish_reason"])
        text, ids = choice.get("text") or "", tuple(choice.get("token_ids") or ())
        if not isinstance(text, str):
            raise EngineError(f"the engine sent {text!r:.200} where text belongs")
        self._written += len(ids) or bool(text)
        text, self._half = _whole(self._half + text)
        logprobs: tuple[TokenLogprob, ...] = ()
        if self._tops is not None:
            logprobs = _logprobs(choice.get("logprobs"), ids, self._tops)
        return Chunk(text, ids, logprobs=logprobs) if text or ids or logprobs else None

    def last(self) -> Chunk:
        prompt, written = (self._usage.get(name) for name in ("prompt_tokens", "completion_tokens"))
        return Chunk(
            "\ufffd" if self._half else "",
            finish=self.finish,
            prompt_tokens=prompt if isinstance(prompt, int) else None,
            completion_tokens=written if isinstance(written, int) else self._written,
            unknown_end=self._unknown_end,
        )


def _whole(text: str) -> tuple[str, str]:
    """The text with halves of characters put together, and a first half at its end that waits for the second."""
    if text.isascii() or not any("\ud800" <= char <= "\udfff" for char in text):
        return text, ""
    half = text[-1] if "\ud800" <= text[-1] <= "\udbff" else ""
    whole = text[: len(text) - len(half)].encode("utf-16-le", "surrogatepass")
    return whole.decode("utf-16-le", "replace"), half


def _finish(reason: Any) -> tuple[FinishReason, str | None]:
    """What the server's word for the end means, and the word itself where nobody knows it. Raises EngineError."""
    if reason in _GIVEN_UP:
        raise EngineError("the engine gave the answer up before it was complete (its own word: " + reason + ")")
    meant = _FINISHES.get(reason)
    return (meant, None) if meant is not None else ("stop", str(reason)[:_WORD_MAX])


def _logprobs(told: Any, ids: tuple[int, ...], tops: int) -> tuple[TokenLogprob, ...]:
    """Of a completion's ``logprobs``: parallel lists of tokens, numbers and likeliest tokens, or a chat's entries."""
    if not isinstance(told, Mapping):
        return ()
    entries = told.get("content")
    if isinstance(entries, list):
        return tuple(_entry(entry, tops) for entry in entries)
    tokens = told.get("tokens") or []
    values = told.get("token_logprobs") or []
    likeliest = told.get("top_logprobs") or []
    out = []
    for at, (token, value) in enumerate(zip(tokens, values, strict=False)):
        if value is None:
            continue
        best = likeliest[at] if at < len(likeliest) and isinstance(likeliest[at], Mapping) else {}
        ranked = sorted(best.items(), key=lambda entry: -entry[1])[:tops]
        top = tuple(_logprob(text, number) for text, number in ranked)
        one = _logprob(token, value, top)
        if one.token_id is None and len(ids) == len(tokens):
            one = TokenLogprob(one.logprob, ids[at], one.data, top)
        out.append(one)
    return tuple(out)


def _entry(told: Mapping[str, Any], tops: int) -> TokenLogprob:
    """As chats tell it, and as llama-server does in completions too."""
    data = told.get("bytes")
    top = tuple(_entry(other, 0) for other in (told.get("top_logprobs") or ())[:tops])
    known = bytes(data) if data is not None else str(told.get("token", "")).encode("utf-8", "replace")
    return TokenLogprob(float(told["logprob"]), told.get("id"), known, top)


def _logprob(token: str, value: float, top: tuple[TokenLogprob, ...] = ()) -> TokenLogprob:
    name, _, number = token.partition(":")
    if name == "token_id" and number.isdigit():
        return TokenLogprob(float(value), int(number), None, top)
    return TokenLogprob(float(value), None, token.encode("utf-8", "replace"), top)
