"""Which engine listens at an address, found by asking it, and what it tells of its model.

Rules of this file: only what a server says counts, no port and no name of a model. What was learned is a value; who
opens the engine decides what to do where something is missing.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, get_args

from dragoman.engine import Engine
from dragoman.engines.completions import (
    GENERIC,
    SGLANG,
    SGLANG_FREE,
    SGLANG_LLGUIDANCE,
    VLLM,
    Completions,
    Flavour,
    model_card,
)
from dragoman.engines.http import HttpEngine
from dragoman.engines.llama_server import LlamaServer
from dragoman.errors import EngineError, UsageError

if TYPE_CHECKING:
    import httpx

Kind = Literal["llama-server", "vllm", "sglang", "completions"]
KINDS: tuple[Kind, ...] = get_args(Kind)
# SGLang's grammar engines; one that is not listed takes none of our notations.
_SGLANG_GRAMMARS = {"xgrammar": SGLANG, "llguidance": SGLANG_LLGUIDANCE}


@dataclass(frozen=True, slots=True)
class Upstream:
    """A server that was recognised.

    template, bos, eos: as it tells them, else None.  folder: the model's folder, .gguf or tokenizer.json, if the server
    names one that lies on this machine.  flavour: of a completions server.  takes_token_ids: see EngineInfo.
    """

    url: str
    kind: Kind
    model: str
    version: str | None = None
    context_tokens: int | None = None
    template: str | None = None
    tool_template: str | None = None
    bos: str | None = None
    eos: str | None = None
    folder: Path | None = None
    flavour: Flavour = GENERIC
    takes_token_ids: bool = True

    def open(self, *, api_key: str | None = None, transport: httpx.AsyncBaseTransport | None = None) -> Engine:
        """The engine, for the event loop that will use it."""
        if self.kind == "llama-server":
            return LlamaServer(self.url, api_key=api_key, transport=transport)
        return Completions(
            self.url,
            self.flavour,
            model=self.model,
            context_tokens=self.context_tokens,
            takes_token_ids=self.takes_token_ids,
            api_key=api_key,
            transport=transport,
        )

    def describe(self) -> str:
        """One line for people: what it is and how it can be held to a grammar."""
        name = self.flavour.name if self.kind != "llama-server" else "llama-server"
        forms = tuple(self.flavour.grammars) if self.kind != "llama-server" else ("gbnf",)
        held = f"grammars as {', '.join(forms)}" if forms else "takes no grammar: tool calls are read, never enforced"
        prompts = "prompts as token ids" if self.takes_token_ids else "prompts as text"
        return f"{self.url} is {name}{' ' + self.version if self.version else ''} with {self.model}; {held}; {prompts}"


async def recognise(
    url: str,
    *,
    kind: Kind | None = None,
    model: str | None = None,
    api_key: str | None = None,
    transport: httpx.AsyncBaseTransport | None = None,
) -> Upstream:
    """What listens at ``url`` (with or without ``/v1``).

    kind: do not guess, take it for this.  model: which of several it is to serve.
    Raises EngineError where nothing answers or it is no engine, UsageError for what is no address.
    """
    address = url.rstrip("/").removesuffix("/v1")
    async with HttpEngine(address, api_key=api_key, transport=transport) as server:
        asked = _Asked(server)
        if kind in (None, "llama-server"):
            known = await asked.get("/props")
            if "proof" in known and "template_hash" in known:
                raise UsageError(f"{address} is a dragoman itself; name the engine behind it", param="--upstream")
            if "default_generation_settings" in known or "chat_template" in known:
                return _llama(address, known)
            if kind:
                raise EngineError(f"{address} is no llama-server: {asked.said()}")
        listed = await asked.get("/v1/models")
        if not listed:
            raise EngineError(f"{address} is no engine that dragoman knows: {asked.said()}")
        card = model_card(listed, model)
        plain = Upstream(address, "completions", str(card["id"]), context_tokens=_number(card.get("max_model_len")))
        if kind == "vllm" or (kind is None and card.get("owned_by") == "vllm"):
            return await _vllm(plain, card, asked)
        about = {} if kind in ("completions", "vllm") else await _sglang_info(asked)
        if kind == "sglang" or (kind is None and (about or card.get("owned_by") == "sglang")):
            return _sglang(plain, about)
        return replace(plain, takes_token_ids=await _takes_ids(plain, server))


class _Asked:
    """Look-ups whose failure says something too: there is no such route."""

    def __init__(self, server: HttpEngine) -> None:
        self._server = server
        self._answers: dict[str, str] = {}

    async def get(self, path: str) -> Mapping[str, Any]:
        """The JSON object at ``path``, empty where there is none. Raises EngineError where no server answers."""
        try:
            found = await self._server.lookup("GET", path)
        except EngineError as error:
            if error.status in (401, 403):
                raise EngineError(
                    f"{self._server.base_url} wants a key: give it with --upstream-key", status=error.status
                ) from error
            if error.status in (None, 503):  # no answer at all, or the model is still being loaded
                raise
            self._answers[path] = "no JSON" if error.status == 200 else str(error.status)
            return {}
        self._answers[path] = "200"
        return found

    def said(self) -> str:
        return ", ".join(f"GET {path} gave {answer}" for path, answer in self._answers.items())


def _llama(address: str, known: Mapping[str, Any]) -> Upstream:
    path = str(known.get("model_path") or "")
    name = str(known.get("model_alias") or path or "unknown").replace("\\", "/").rsplit("/", 1)[-1]
    settings = known.get("default_generation_settings") or {}
    return Upstream(
        address,
        "llama-server",
        name.removesuffix(".gguf"),
        version=_text(known.get("build_info")),
        context_tokens=_number(settings.get("n_ctx")) if isinstance(settings, Mapping) else None,
        template=_text(known.get("chat_template")),
        tool_template=_text(known.get("chat_template_tool_use")),
        bos=_text(known.get("bos_token")),
        eos=_text(known.get("eos_token")),
        folder=_here(path) if path.endswith(".gguf") else None,
    )


async def _vllm(plain: Upstream, card: Mapping[str, Any], asked: _Asked) -> Upstream:
    version = await asked.get("/version")
    tokenizer = await asked.get("/tokenizer_info")  # there with --enable-tokenizer-info-endpoint only
    return replace(
        plain,
        kind="vllm",
        flavour=VLLM,
        version=_text(version.get("version")),
        template=_text(tokenizer.get("chat_template")),
        bos=_token(tokenizer.get("bos_token")),
        eos=_token(tokenizer.get("eos_token")),
        folder=_here(card.get("root")),
    )


async def _sglang_info(asked: _Asked) -> Mapping[str, Any]:
    """What SGLang says of how it was started; its older versions call the route otherwise."""
    for path in ("/server_info", "/get_server_info"):
        about = await asked.get(path)
        if "tokenizer_path" in about:
            return about
    return {}


def _sglang(plain: Upstream, about: Mapping[str, Any]) -> Upstream:
    grammars = about.get("grammar_backend")
    flavour = SGLANG if grammars is None else _SGLANG_GRAMMARS.get(str(grammars), SGLANG_FREE)
    return replace(
        plain,
        kind="sglang",
        flavour=flavour,
        version=_text(about.get("version")),
        context_tokens=plain.context_tokens or _number(about.get("context_length")),
        folder=_here(about.get("tokenizer_path")) or _here(about.get("model_path")),
    )


async def _takes_ids(plain: Upstream, server: HttpEngine) -> bool:
    """Asks for one token behind three ids: a server that takes them counts three tokens of prompt.

    An error says that it takes none only where it takes the same request with text; else the error is raised.
    """
    body = {"model": plain.model, "prompt": [1, 2, 3], "max_tokens": 1}
    try:
        answer = await server.lookup("POST", "/v1/completions", body)
    except EngineError as error:
        if error.status not in (400, 415, 422, 500):
            raise
        try:
            await server.lookup("POST", "/v1/completions", {**body, "prompt": "1 2 3"})
        except EngineError:
            raise error from None
        return False
    usage = answer.get("usage")
    return isinstance(usage, Mapping) and usage.get("prompt_tokens") == 3


def _here(path: Any) -> Path | None:
    """The folder or file at ``path``, if it lies on this machine and not only on the server's."""
    if not isinstance(path, str) or not path.startswith(("/", "~")):
        return None
    found = Path(path).expanduser()
    return found if found.is_file() or (found / "tokenizer.json").is_file() else None


def _text(value: Any) -> str | None:
    return value if isinstance(value, str) and value else None


def _token(value: Any) -> str | None:
    """A special token's text, as itself or as the object that tokenizers write."""
    return _text(value.get("content")) if isinstance(value, Mapping) else _text(value)


def _number(value: Any) -> int | None:
    return value if type(value) is int and value > 0 else None
