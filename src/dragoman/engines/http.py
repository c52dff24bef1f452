"""What all engines behind HTTP share: one client, look-ups, event streams, and every failure as an EngineError.

Rules of this file: no engine's own words. A stream that is closed closes its connection, which is how these servers
are told to stop; so answers are always streamed.
"""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator
from contextlib import aclosing, contextmanager
from dataclasses import dataclass
from types import TracebackType
from typing import TYPE_CHECKING, Any

from dragoman.engines.event_stream import read_events
from dragoman.errors import EngineError, UsageError

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    import httpx
    from typing_extensions import Self


@dataclass(frozen=True, slots=True)
class Timeouts:
    """Bounds of one request, in seconds. ``idle``: between two pieces, so it must cover reading a long prompt."""

    connect: float = 5.0
    idle: float = 300.0
    lookup: float = 10.0  # health, properties, tokenising


DEFAULT_TIMEOUTS = Timeouts()
_SHOWN = 200  # bytes of an answer that an error quotes


class HttpEngine:
    """A connection to one server. One object serves many requests of one event loop."""

    def __init__(
        self,
        base_url: str,
        *,
        api_key: str | None = None,
        timeouts: Timeouts = DEFAULT_TIMEOUTS,
        transport: httpx.AsyncBaseTransport | None = None,
    ) -> None:
        """``transport`` replaces the network (tests, unix sockets). Raises UsageError for what is no address."""
        try:
            import httpx
        except ImportError as error:
            raise UsageError("an engine behind HTTP needs httpx: pip install 'dragoman[server]'") from error
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
            # No bound on connections: who may ask at once is the server's business, and a pool would make them wait.
            limits=httpx.Limits(max_keepalive_connections=0, max_connections=None),
            timeout=httpx.Timeout(timeouts.idle, connect=timeouts.connect),
            trust_env=False,  # a proxy of the environment is no business of an engine on loopback
            transport=transport,
        )

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.aclose()

    async def aclose(self) -> None:
        await self._client.aclose()

    async def lookup(self, method: str, path: str, body: dict[str, Any] | None = None) -> dict[str, Any]:
        """The JSON object of a short answer. Raises EngineError."""
        with self._mapped_failures():
            response = await self._client.request(method, path, json=body, timeout=self._timeouts.lookup)
        if response.status_code != 200:
            raise refusal(response.status_code, response.content, response.headers)
        return json_object(response.text, status=response.status_code)

    async def events(self, path: str, body: dict[str, Any]) -> AsyncGenerator[str, None]:
        """The data of each event that answers ``POST path``. Raises EngineError; one for an end is the caller's."""
        with self._mapped_failures():
            async with self._client.stream("POST", path, json=body) as response:
                if response.status_code != 200:
                    raise refusal(response.status_code, await response.aread(), response.headers)
                told = _Body(response)
                async with aclosing(read_events(told.pieces())) as events:
                    data = None
                    async for data in events:
                        yield data
                if data is None:
                    raise EngineError(
                        f"{self.base_url} answered {path} with {told.described}, and with no event: is this the "
                        "address of an engine's API, or that of something in front of it?",
                        address=self.base_url,
                    )

    @contextmanager
    def _mapped_failures(self) -> Iterator[None]:
        """httpx's exceptions as ours."""
        import httpx

        try:
            yield
        except (httpx.ConnectError, httpx.ConnectTimeout) as error:
            told = f"cannot reach an engine at {self.base_url}: {error}; is it running?"
            raise EngineError(told, address=self.base_url) from error
        except httpx.TimeoutException as error:
            told = f"{self.base_url} said nothing for too long and was given up"
            raise EngineError(told, address=self.base_url) from error
        except httpx.HTTPError as error:
            told = f"{self.base_url} went away: {error or type(error).__name__}"
            raise EngineError(told, address=self.base_url) from error

    def ended_early(self) -> EngineError:
        """The error of a stream that ended without the engine's word that it is complete."""
        told = f"{self.base_url} ended its answer before it was complete; did the server stop?"
        return EngineError(told, address=self.base_url)


class _Body:
    """A response's body as it comes, and what it is, for people."""

    def __init__(self, response: httpx.Response) -> None:
        self._response = response
        self._start = b""

    async def pieces(self) -> AsyncGenerator[bytes, None]:
        async for piece in self._response.aiter_bytes():
            if len(self._start) < _SHOWN:
                self._start = (self._start + piece)[:_SHOWN]
            yield piece

    @property
    def described(self) -> str:
        kind = self._response.headers.get("content-type", "no content type")
        return f"{kind}, {self._start!r}" if self._start else f"{kind} and no body"


def read_event(data: str) -> dict[str, Any]:
    """One event's JSON object. Raises EngineError where it is an error that the engine reports in its stream."""
    event = json_object(data)
    reported = event.get("error")
    if reported is None and "message" in event and "code" in event:  # the older, bare form
        reported = event
    if reported is not None:
        raise failure(reported, None)
    return event


def refusal(status: int, body: bytes, headers: Mapping[str, str]) -> EngineError:
    """The error of an answer that is not 200: ``{"error": ...}``, a bare error object, or ``{"detail": ...}``."""
    error = _refusal(status, body)
    error.retry_after = headers.get("retry-after")
    return error


def _refusal(status: int, body: bytes) -> EngineError:
    try:
        value = json.loads(body)
        if isinstance(value, dict):
            for name in ("error", "detail"):
                if name in value:
                    return failure(value[name], status)
            if "message" in value:
                return failure(value, status)
    except ValueError:
        pass
    return EngineError(f"the engine answered with HTTP {status}: {body[:_SHOWN]!r}", status=status)


def failure(reported: Any, status: int | None) -> EngineError:
    """What an engine reports, as an error of ours that keeps its reason."""
    if not isinstance(reported, dict):
        return EngineError(f"the engine failed: {_shown(reported)}", status=status)
    code = reported.get("code")
    seen = status if status is not None else code if isinstance(code, int) else None
    message = reported.get("message", "no reason given")
    if reported.get("type") == "exceed_context_size_error":
        message = (
            f"the prompt has {reported.get('n_prompt_tokens', '?')} tokens, more than the engine's context of "
            f"{reported.get('n_ctx', '?')}; shorten the conversation or start the engine with a larger context"
        )
    return EngineError(
        f"the engine refused: {message}" if seen and seen < 500 else f"the engine failed: {message}",
        status=seen,
        param=param if isinstance(param := reported.get("param"), str) else None,
    )


def json_object(text: str, *, status: int | None = None) -> dict[str, Any]:
    """A JSON object that an engine sent, under HTTP ``status``. Raises EngineError."""
    try:
        value = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise EngineError(f"the engine sent what is no JSON: {text[:200]!r}", status=status) from error
    if not isinstance(value, dict):
        raise EngineError(f"the engine sent {text[:200]!r} where a JSON object belongs", status=status)
    return value


def _shown(reported: Any) -> str:
    return reported if isinstance(reported, str) else json.dumps(reported)[:500]
