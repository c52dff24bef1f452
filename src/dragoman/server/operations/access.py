"""Who may ask: API keys, compared in constant time."""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Collection, Iterable

from starlette.types import ASGIApp, Receive, Scope, Send

from dragoman.errors import UsageError
from dragoman.server.operations.context import CURRENT
from dragoman.server.operations.refusal import refuse

# Asked by those who watch a server, and by browsers for a page that holds nothing.
OPEN_PATHS = frozenset(("/health", "/ready", "/"))
OPEN_PREFIXES = ("/inspector/static/",)


class ApiKeys:
    """ASGI: requests without one of ``keys`` are refused with 401, but for the open paths."""

    def __init__(self, app: ASGIApp, keys: Iterable[str], *, open_paths: Collection[str] = OPEN_PATHS) -> None:
        """Raises UsageError for a key that no header can carry."""
        self._app = app
        self._open = frozenset(open_paths)
        self._digests: list[bytes] = []
        for key in keys:
            if not key or not key.isascii() or any(char.isspace() or not char.isprintable() for char in key):
                raise UsageError("an API key is printable ASCII without blanks, and not empty", param="--api-key")
            self._digests.append(_digest(key.encode()))

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or self._is_open(scope):
            await self._app(scope, receive, send)
            return
        known = [self._known(key) for key in _presented(scope)]
        client = next((key for key in known if key is not None), None)
        if client is None:
            await refuse(
                scope,
                receive,
                send,
                401,
                "this server wants an API key, as 'Authorization: Bearer KEY' or 'x-api-key: KEY'; "
                "none was sent, or one that it does not know",
                kind="authentication_error",
                code="invalid_api_key",
                headers={"www-authenticate": "Bearer"},
            )
            return
        context = CURRENT.get()
        if context is not None:
            context.client = client
        await self._app(scope, receive, send)

    def _is_open(self, scope: Scope) -> bool:
        path: str = scope["path"]
        return scope["method"] in ("GET", "HEAD") and (path in self._open or path.startswith(OPEN_PREFIXES))

    def _known(self, presented: bytes) -> str | None:
        """Which key was sent, as the start of its digest. Every key is compared: the time tells nothing of them."""
        digest = _digest(presented)
        found = None
        for known in self._digests:
            if hmac.compare_digest(digest, known):
                found = known
        return None if found is None else found.hex()[:8]


def _presented(scope: Scope) -> list[bytes]:
    """The keys that were sent: a client may have two, one for this server and one for what it asks otherwise."""
    headers: dict[bytes, bytes] = dict(scope["headers"])
    kind, _, key = headers.get(b"authorization", b"").partition(b" ")
    bearer = key.strip() if kind.lower() == b"bearer" else b""
    return [sent for sent in (bearer, headers.get(b"x-api-key", b"")) if sent]


def _digest(key: bytes) -> bytes:
    return hashlib.sha256(key).digest()
