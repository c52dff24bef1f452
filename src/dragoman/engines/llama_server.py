"""llama.cpp's server over HTTP: prompts as token ids, GBNF grammars, streams that stop when they are closed.

Rules of this file: translate and map failures, no policy. Always stream, since only a streamed request stops when its
connection closes. Nothing is sent that the server would silently ignore or die of: an unknown trigger kind aborts it,
a lazy grammar without triggers and an empty grammar leave the output unconstrained.
"""

from __future__ import annotations

import math
from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import Any

from dragoman.engine import Chunk, EngineInfo, FinishReason, Generation, GrammarSpec, Sampling, TokenLogprob, Trigger
from dragoman.engines.http import HttpEngine, Timeouts, read_event
from dragoman.errors import EngineError, UsageError

__all__ = ["LlamaServer", "Timeouts", "completion_body"]

_TRIGGER_TOKEN = 0
_TRIGGER_WORD = 1
_OURS = frozenset(
    ("prompt", "stream", "return_tokens", "grammar", "grammar_lazy", "grammar_triggers", "preserved_tokens", "stop")
)


class LlamaServer(HttpEngine):
    """The Engine protocol over llama-server's HTTP interface."""

    async def info(self) -> EngineInfo:
        properties = await self.properties()
        settings = properties.get("default_generation_settings") or {}
        name = str(properties.get("model_alias") or properties.get("model_path") or "unknown")
        return EngineInfo(
            model=name.replace("\\", "/").rsplit("/", 1)[-1].removesuffix(".gguf"),
            context_tokens=settings.get("n_ctx"),
            template=properties.get("chat_template") or None,
            grammar_forms=("gbnf",),
            gives_logprobs=True,
        )

    async def properties(self) -> dict[str, Any]:
        """The server's ``/props``: settings, chat template, special tokens."""
        return await self.lookup("GET", "/props")

    async def health(self) -> bool:
        """True when the server answers and its model is loaded. Never raises EngineError."""
        try:
            return (await self.lookup("GET", "/health")).get("status") == "ok"
        except EngineError:
            return False

    async def tokenize(self, text: str, *, controls: bool = False) -> list[int]:
        """The server's own token ids of ``text``; with ``controls`` the texts of control tokens become their ids."""
        body = {"content": text, "add_special": False, "parse_special": controls}
        return [int(token) for token in (await self.lookup("POST", "/tokenize", body))["tokens"]]

    async def generate(self, request: Generation) -> AsyncGenerator[Chunk, None]:
        """Pieces of output as they come; text is authoritative, ids are given where they are complete.

        A character of several tokens arrives as one piece that names its last token only: such a piece has no ids.
        Closing the iterator closes the connection, and the server stops within a token.
        Raises EngineError when the server refuses, fails or goes away.
        """
        body = completion_body(request)
        if request.sampling.max_tokens == 0:  # the server would write one token all the same
            yield Chunk(finish="length", completion_tokens=0)
            return
        counted = 0
        async with aclosing(self.events("/completion", body)) as events:
            async for data in events:
                event = read_event(data)
                predicted = int(event.get("tokens_predicted", 0))
                yield _chunk(event, predicted - counted)
                counted = predicted
                if event.get("stop"):
                    return
        raise self.ended_early()


def completion_body(request: Generation) -> dict[str, Any]:
    """The JSON of ``POST /completion`` for ``request``. Raises UsageError for what the server would misunderstand."""
    clash = sorted(_OURS & request.sampling.extra.keys())
    if clash:
        raise UsageError(f"sampling.extra may not set {', '.join(clash)}: the request itself does", param="extra")
    body: dict[str, Any] = {"cache_prompt": True, **request.sampling.extra, **_sampling(request.sampling)}
    body |= {"prompt": list(request.prompt_ids), "stream": True, "return_tokens": True}
    preserved = list(request.preserved_tokens)
    if request.stops:
        body["stop"] = list(request.stops)
    if request.grammar is not None:
        body |= _grammar(request.grammar)
        # A trigger word that is one token is refused unless it is preserved; one of several tokens does no harm here.
        preserved += [trigger.word for trigger in request.grammar.triggers if trigger.word not in preserved]
    if preserved:
        body["preserved_tokens"] = preserved
    return body


def _sampling(sampling: Sampling) -> dict[str, Any]:
    named = {
        "n_predict": sampling.max_tokens,
        "temperature": sampling.temperature,
        "top_p": sampling.top_p,
        "top_k": sampling.top_k,
        "min_p": sampling.min_p,
        "seed": sampling.seed,
        "presence_penalty": sampling.presence_penalty,
        "frequency_penalty": sampling.frequency_penalty,
    }
    out: dict[str, Any] = {key: value for key, value in named.items() if value is not None}
    if sampling.logprobs is not None:
        out["n_probs"] = max(1, sampling.logprobs)  # 0 is the server's word for none at all
    if sampling.logit_bias:
        out["logit_bias"] = [_bias(token, added) for token, added in sampling.logit_bias.items()]
    return out


def _bias(token: int, added: float) -> list[Any]:
    """JSON has no infinity: the server writes a ban as false."""
    if math.isnan(added) or added == math.inf:
        raise UsageError(
            f"logit_bias of token {token} is {added}; a finite number or -inf is wanted", param="logit_bias"
        )
    return [token, False if added == -math.inf else added]


def _grammar(spec: GrammarSpec) -> dict[str, Any]:
    if not spec.text.strip():
        raise UsageError("the grammar is empty: the engine would write freely", param="grammar")
    if spec.form != "gbnf" or spec.text.lstrip().startswith("%llguidance"):
        raise UsageError("the grammar must be GBNF: a wrong one of another kind would be ignored", param="grammar")
    if not spec.lazy:
        return {"grammar": spec.text}
    if not spec.triggers:
        raise UsageError("a lazy grammar needs a trigger: it would never start", param="grammar")
    triggers = [_trigger(trigger) for trigger in spec.triggers]
    return {"grammar": spec.text, "grammar_lazy": True, "grammar_triggers": triggers}


def _trigger(trigger: Trigger) -> dict[str, Any]:
    if trigger.token_id is not None:
        return {"type": _TRIGGER_TOKEN, "value": trigger.word, "token": trigger.token_id}
    if not trigger.word:
        raise UsageError("a trigger needs a word or a token", param="grammar")
    return {"type": _TRIGGER_WORD, "value": trigger.word}


def _chunk(event: dict[str, Any], written: int) -> Chunk:
    """``written``: tokens since the last piece; ids that are fewer would be wrong as a record of the output."""
    text = event.get("content", "")
    tokens = tuple(event.get("tokens") or ())
    ids = tokens if len(tokens) == written else ()
    logprobs = tuple(_logprob(entry) for entry in event.get("completion_probabilities") or ())
    if not event.get("stop"):
        return Chunk(text, ids, logprobs=logprobs)
    finish: FinishReason = "length" if event.get("stop_type") == "limit" else "stop"
    return Chunk(
        text,
        ids,
        finish=finish,
        prompt_tokens=event.get("tokens_evaluated"),
        completion_tokens=event.get("tokens_predicted"),
        logprobs=logprobs,
    )


def _logprob(entry: dict[str, Any]) -> TokenLogprob:
    """The server writes an impossible token's logarithm as the lowest number it has."""
    data = entry.get("bytes")
    return TokenLogprob(
        float(entry["logprob"]),
        entry.get("id"),
        None if data is None else bytes(data),
        tuple(_logprob(each) for each in entry.get("top_logprobs") or ()),
    )
