"""llama.cpp's server over HTTP: prompts as token ids, GBNF grammars, streams that stop when they are closed.

Rules of this file: translate and map failures, no policy. Always stream, since only a streamed request stops when its
connection closes. Nothing is sent that the server would silently ignore or die of: an unknown trigger kind aborts it,
a lazy grammar without triggers and an empty grammar leave the output unconstrained.
"""

from __future__ import annotations

import json
import math
from collections.abc import AsyncIterator
from contextlib import contextmanager
from dataclasses import dataclass
from types import TracebackType
from typing import TYPE_CHECKING, Any

from dragoman.engine import Chunk, EngineInfo, FinishReason, Generation, GrammarSpec, Sampling, TokenLogprob, Trigger
from dragoman.engines.event_stream import read_events
from dragoman.errors import EngineError, UsageError

if TYPE_CHECKING:
    from collections.abc import Iterator

    import httpx

_TRIGGER_TOKEN = 0
_TRIGGER_WORD = 1
_OURS = frozenset(
    ("prompt", "stream", "return_tokens", "grammar", "grammar_lazy", "grammar_triggers", "preserved_tokens", "stop")
)


@dataclass(frozen=True, slots=True)
class Timeouts:
    """Bounds of one request, in seconds. ``idle``: between two pieces, so it must cover reading a long prompt."""

    connect: float = 5.0
    idle: float = 300.0
    lookup: float = 10.0  # health, properties, tokenising


class LlamaServer:
    """The Engine protocol over llama-server's HTTP interface. One object serves many requests of one event loop."""

    def __init__(
        self,
        base_url: str,
        *,
        api_key: str | None = None,
        timeouts: Timeouts = Timeouts(),
        transport: httpx.AsyncBaseTransport | None = None,
    ) -> None:
        """``transport`` replaces the network (tests, unix sockets)."""
        try:
            import httpx
        except ImportError as error:
            raise UsageError("a llama-server needs httpx: pip install 'dragoman[server]'") from error
        self.base_url = base_url.rstrip("/")
        self._timeouts = timeouts
        headers = {"Authorization": f"Bearer {api_key}"} if api_key else {}
        try:
            address = httpx.URL(self.base_url)
        except httpx.InvalidURL as error:
            raise UsageError(f"{base_url!r} is no engine's address: {error}", param="base_url") from error
        if address.scheme not in ("http", "https") or not address.host:
            raise UsageError(
                f"{base_url!r} is no engine's address; one looks like http://127.0.0.1:8080", param="base_url"
            )
        self._client = httpx.AsyncClient(
            base_url=address,
            headers=headers,
            # Reusing a connection that an earlier, cancelled request left behind is not worth a failed request.
            limits=httpx.Limits(max_keepalive_connections=0),
            timeout=httpx.Timeout(timeouts.idle, connect=timeouts.connect),
            trust_env=False,  # a proxy of the environment is no business of an engine on loopback
            transport=transport,
        )

    async def __aenter__(self) -> LlamaServer:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.aclose()

    async def aclose(self) -> None:
        await self._client.aclose()

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
        return await self._lookup("GET", "/props")

    async def health(self) -> bool:
        """True when the server answers and its model is loaded. Never raises EngineError."""
        try:
            return (await self._lookup("GET", "/health")).get("status") == "ok"
        except EngineError:
            return False

    async def tokenize(self, text: str, *, controls: bool = False) -> list[int]:
        """The server's own token ids of ``text``; with ``controls`` the texts of control tokens become their ids."""
        body = {"content": text, "add_special": False, "parse_special": controls}
        return [int(token) for token in (await self._lookup("POST", "/tokenize", body))["tokens"]]

    async def generate(self, request: Generation) -> AsyncIterator[Chunk]:
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
        with self._mapped_failures():
            async with self._client.stream("POST", "/completion", json=body) as response:
                if response.status_code != 200:
                    raise _refusal(response.status_code, await response.aread())
                async for data in read_events(response.aiter_bytes()):
                    event = _event(data)
                    predicted = int(event.get("tokens_predicted", 0))
                    yield _chunk(event, predicted - counted)
                    counted = predicted
                    if event.get("stop"):
                        return
        raise EngineError(f"{self.base_url} ended its answer before it was complete; did the server stop?")

    async def _lookup(self, method: str, path: str, body: dict[str, Any] | None = None) -> dict[str, Any]:
        with self._mapped_failures():
            response = await self._client.request(method, path, json=body, timeout=self._timeouts.lookup)
        if response.status_code != 200:
            raise _refusal(response.status_code, response.content)
        return _object(response.text)

    @contextmanager
    def _mapped_failures(self) -> Iterator[None]:
        """httpx's exceptions as ours."""
        import httpx

        try:
            yield
        except (httpx.ConnectError, httpx.ConnectTimeout) as error:
            raise EngineError(f"cannot reach an engine at {self.base_url}: {error}; is it running?") from error
        except httpx.TimeoutException as error:
            raise EngineError(f"{self.base_url} said nothing for too long and was given up") from error
        except httpx.HTTPError as error:
            raise EngineError(f"{self.base_url} went away: {error or type(error).__name__}") from error


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
    if spec.text.lstrip().startswith("%llguidance"):
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


def _event(data: str) -> dict[str, Any]:
    event = _object(data)
    failure = event.get("error")
    if failure is None and "message" in event and "code" in event:  # the older, bare form
        failure = event
    if failure is not None:
        raise _failure(failure, None)
    return event


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


def _refusal(status: int, body: bytes) -> EngineError:
    """The error of an answer that is not 200."""
    try:
        return _failure(json.loads(body)["error"], status)
    except (ValueError, KeyError, TypeError):
        return EngineError(f"the engine answered with HTTP {status}: {body[:200]!r}", status=status)


def _failure(failure: Any, status: int | None) -> EngineError:
    if not isinstance(failure, dict):
        return EngineError(f"the engine failed: {failure}", status=status)
    code = failure.get("code")
    seen = status if status is not None else code if isinstance(code, int) else None
    message = failure.get("message", "no reason given")
    if failure.get("type") == "exceed_context_size_error":
        message = (
            f"the prompt has {failure.get('n_prompt_tokens', '?')} tokens, more than the engine's context of "
            f"{failure.get('n_ctx', '?')}; shorten the conversation or start the engine with a larger context"
        )
    return EngineError(
        f"the engine refused: {message}" if seen and seen < 500 else f"the engine failed: {message}", status=seen
    )


def _object(text: str) -> dict[str, Any]:
    try:
        value = json.loads(text)
    except ValueError as error:
        raise EngineError(f"the engine sent what is no JSON: {text[:200]!r}") from error
    if not isinstance(value, dict):
        raise EngineError(f"the engine sent {text[:200]!r} where a JSON object belongs")
    return value
