"""The engine that ``serve`` and ``chat`` talk to, with the chat format and the settings of its model."""

from __future__ import annotations

import argparse
import asyncio
import json
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dragoman.cli.output import say
from dragoman.cli.sources import format_of
from dragoman.engine import Engine, ModelSettings
from dragoman.errors import UsageError
from dragoman.format import ChatFormat
from dragoman.template.catalogue import NAMES
from dragoman.vocab import Vocabulary

if TYPE_CHECKING:
    from dragoman.engines.llama_server import LlamaServer


@dataclass(frozen=True, slots=True)
class Opened:
    format: ChatFormat
    engine: Engine
    model: str
    settings: ModelSettings


def add_engine(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("model", nargs="?", metavar="MODEL", help="a .gguf file (default: the embedded model)")
    parser.add_argument("--upstream", metavar="URL", help="a llama-server that is already running")
    parser.add_argument("--api-key", metavar="KEY", help="the key that the upstream server asks for")
    parser.add_argument("--template", metavar="TEMPLATE", help="another chat template than the model's own")
    parser.add_argument(
        "--chat-template",
        metavar="NAME",
        help=f"a built-in format in place of the model's template: {', '.join(NAMES)}",
    )
    parser.add_argument(
        "--no-jinja", action="store_true", help="do not use the model's template: --chat-template, or else chatml"
    )
    parser.add_argument(
        "--chat-template-kwargs", metavar="JSON", help="variables of the template for requests that do not set them"
    )
    parser.add_argument(
        "--no-prefill-assistant",
        dest="prefill_assistant",
        action="store_false",
        help="answer a last message of the assistant, in place of going on with it",
    )
    parser.add_argument(
        "--media-placeholder", metavar="TEXT", help="what stands for a picture or sound where the template has no word"
    )
    parser.add_argument("--vocab", metavar="PATH", help="tokenizer.json, model folder or .gguf of the upstream's model")
    parser.add_argument("--context", type=int, metavar="TOKENS", help="context of the embedded engine (default 4096)")
    parser.add_argument("--threads", type=int, metavar="N", help="threads of the embedded engine (default 1)")


def open_engine(arguments: argparse.Namespace) -> Opened:
    """Start or reach the engine that the arguments of :func:`add_engine` name. Raises UsageError, EngineError."""
    if arguments.upstream and arguments.model:
        raise UsageError("give a MODEL or --upstream, not both", param="MODEL")
    if arguments.upstream:
        return _upstream(arguments)
    if arguments.model and arguments.model.startswith(("http://", "https://")):
        raise UsageError(f"for a server that is running, write --upstream {arguments.model}", param="MODEL")
    return _embedded(arguments)


def _built_in(arguments: argparse.Namespace) -> str | None:
    """The built-in format that is wanted in place of the model's template."""
    name: str | None = arguments.chat_template or ("chatml" if arguments.no_jinja else None)
    if name is not None and arguments.template:
        raise UsageError("give --template or --chat-template, not both", param="--chat-template")
    return name


def _with_defaults(fmt: ChatFormat, arguments: argparse.Namespace) -> ChatFormat:
    """The format with what the command line says of requests that do not say it."""
    text = arguments.chat_template_kwargs
    try:
        variables = json.loads(text) if text else {}
    except ValueError as error:
        raise UsageError(f"--chat-template-kwargs is no JSON: {error}", param="--chat-template-kwargs") from error
    return fmt.with_defaults(
        variables=variables,
        prefill_assistant=arguments.prefill_assistant,
        media_placeholder=arguments.media_placeholder,
    )


def _embedded(arguments: argparse.Namespace) -> Opened:
    from dragoman.engines.embedded import Embedded, EmbeddedSettings
    from dragoman.engines.model_file import SMOLLM2
    from dragoman.engines.model_settings import LLAMA_SETTINGS, SMOLLM2_SETTINGS

    given = {"context_tokens": arguments.context, "threads": arguments.threads}
    settings = EmbeddedSettings(**{name: value for name, value in given.items() if value is not None})
    engine = Embedded.start(arguments.model, settings=settings)
    path = engine.model_path
    try:
        fmt = ChatFormat.from_gguf(path, name=_built_in(arguments))
        if arguments.template:
            fmt = _other_template(arguments, fmt.template.bos_token, fmt.template.eos_token, fmt.vocab)
        fmt = _with_defaults(fmt, arguments)
    except BaseException:
        engine.stop()
        raise
    ours = path.name == SMOLLM2.file_name
    name = SMOLLM2.name if ours else path.stem
    return Opened(fmt, engine, name, SMOLLM2_SETTINGS if ours else LLAMA_SETTINGS)


def _upstream(arguments: argparse.Namespace) -> Opened:
    from dragoman.engines.llama_server import LlamaServer
    from dragoman.engines.model_settings import LLAMA_SETTINGS

    def reach() -> LlamaServer:
        return LlamaServer(arguments.upstream, api_key=arguments.api_key)

    async def ask() -> tuple[dict[str, Any], str]:
        async with reach() as engine:
            return await engine.properties(), (await engine.info()).model

    known, model = _run(ask)
    vocab = _vocabulary(arguments.vocab or _model_path(known), arguments.upstream)
    source = known.get("chat_template")
    bos, eos = (str(known.get(name) or "") for name in ("bos_token", "eos_token"))
    built_in = _built_in(arguments)
    if built_in is not None:
        fmt = ChatFormat.from_name(built_in, bos_token=bos or None, eos_token=eos or None, vocab=vocab)
    elif arguments.template:
        fmt = _other_template(arguments, bos, eos, vocab)
    elif source:
        tool_use = known.get("chat_template_tool_use") or None
        fmt = ChatFormat.from_template(source, tool_use=tool_use, bos_token=bos, eos_token=eos, vocab=vocab)
    else:
        raise UsageError(
            f"{arguments.upstream} tells no chat template; name one with --template, or a built-in --chat-template",
            param="--template",
        )
    # A client of its own: the one that asked belonged to an event loop that is gone.
    return Opened(_with_defaults(fmt, arguments), reach(), model, LLAMA_SETTINGS)


def _model_path(known: dict[str, Any]) -> str | None:
    """The upstream's model file, if it lies on this machine."""
    path = known.get("model_path")
    return path if isinstance(path, str) and path.endswith(".gguf") and Path(path).is_file() else None


def _vocabulary(path: str | None, upstream: str) -> Vocabulary:
    """Prompts go out as token ids, so that no message can forge a control token; that needs the model's vocabulary."""
    if path is None:
        raise UsageError(
            f"the vocabulary of {upstream} is needed: --vocab with the tokenizer.json, the folder or the .gguf file "
            "of the model that it runs",
            param="--vocab",
        )
    file = Path(path).expanduser()
    if file.is_dir():
        return Vocabulary.from_folder(file)
    return Vocabulary.from_gguf(file) if file.suffix == ".gguf" else Vocabulary.from_tokenizer_json(file)


def _other_template(arguments: argparse.Namespace, bos: str, eos: str, vocab: Vocabulary | None) -> ChatFormat:
    """The template that ``--template`` names, with the model's own vocabulary and tokens."""
    fmt = format_of(arguments.template, bos=bos or None, eos=eos or None)
    say(f"Using the chat template of {arguments.template}")
    return fmt.with_vocab(vocab)


def _run(work: Callable[[], Awaitable[Any]]) -> Any:
    async def main() -> Any:
        return await work()

    return asyncio.run(main())
