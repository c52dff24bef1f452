"""The engine that ``serve`` and ``chat`` talk to, with the chat format and the settings of its model."""

from __future__ import annotations

import argparse
import asyncio
import json
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from dragoman.cli.output import say
from dragoman.cli.sources import format_of
from dragoman.dialect.facts import all_stops, preserved_tokens
from dragoman.engine import Engine, ModelSettings
from dragoman.engines.recognise import KINDS, Upstream, recognise
from dragoman.errors import UsageError
from dragoman.format import ChatFormat
from dragoman.template.catalogue import NAMES
from dragoman.vocab import Vocabulary


@dataclass(frozen=True, slots=True)
class Opened:
    format: ChatFormat
    engine: Engine
    model: str
    settings: ModelSettings


def add_engine(parser: argparse.ArgumentParser, *, key: str | None = "--api-key", defaults: bool = True) -> None:
    """key: what the option for the upstream's key is also called.  defaults: what is not given has a value too."""

    absent: dict[str, Any] = {} if defaults else {"default": argparse.SUPPRESS}

    def add(*names: str, **options: Any) -> None:
        parser.add_argument(*names, **options, **absent)

    add(
        "model",
        nargs="?",
        metavar="MODEL",
        help="a .gguf file, or a model folder for transformers (default: the embedded model)",
    )
    add("--upstream", metavar="URL", help="a llama-server, vLLM, SGLang or completions server that is already running")
    add("--engine", choices=KINDS, help="what the upstream is, where it should not be found out by asking it")
    add("--upstream-model", metavar="NAME", help="which of the upstream's models (default: its first)")
    names = ["--upstream-key"] + ([key] if key else [])
    add(*names, dest="upstream_key", metavar="KEY", help="the key that the upstream asks for")
    add(
        "--text-prompts",
        action="store_true",
        help="send the upstream text in place of token ids; a message can then forge control tokens",
    )
    add("--template", metavar="TEMPLATE", help="another chat template than the model's own")
    add(
        "--chat-template",
        metavar="NAME",
        help=f"a built-in format in place of the model's template: {', '.join(NAMES)}",
    )
    add("--no-jinja", action="store_true", help="do not use the model's template: --chat-template, or else chatml")
    add("--chat-template-kwargs", metavar="JSON", help="variables of the template for requests that do not set them")
    add(
        "--no-prefill-assistant",
        dest="prefill_assistant",
        action="store_false",
        help="answer a last message of the assistant, in place of going on with it",
    )
    add("--media-placeholder", metavar="TEXT", help="what stands for a picture or sound where the template has no word")
    add(
        "--vocab",
        metavar="PATH",
        help="tokenizer.json, .gguf or folder of the upstream's model; a folder gives its template too",
    )
    add(
        "--context",
        type=int,
        metavar="TOKENS",
        help="context of the embedded engine (default 4096), or of an upstream that does not tell its own",
    )
    add(
        "--masks",
        action="store_true",
        help="constrain llama.cpp by masks of our own, a token a request, in place of its grammars",
    )
    add("--threads", type=int, metavar="N", help="threads of the embedded engine (default 1)")


def open_engine(arguments: argparse.Namespace) -> Opened:
    """Start or reach the engine that the arguments of :func:`add_engine` name. Raises UsageError, EngineError."""
    if arguments.upstream and arguments.model:
        raise UsageError("give a MODEL or --upstream, not both", param="MODEL")
    if arguments.upstream:
        return _upstream(arguments)
    if arguments.model and arguments.model.startswith(("http://", "https://")):
        raise UsageError(f"for a server that is running, write --upstream {arguments.model}", param="MODEL")
    if arguments.model and Path(arguments.model).expanduser().is_dir():
        return _folder(arguments)
    return _embedded(arguments)


def _folder(arguments: argparse.Namespace) -> Opened:
    """A model folder, run by transformers in this process. The template first: it fails sooner than the weights."""
    from dragoman.engines.sampling import EXTRA
    from dragoman.engines.torch_model import TorchModel

    place = Path(arguments.model).expanduser()
    vocab = Vocabulary.from_folder(place)
    built_in = _built_in(arguments)
    if built_in is not None:
        fmt = ChatFormat.from_name(built_in, vocab=vocab)
    elif arguments.template:
        fmt = _other_template(arguments, None, None, vocab)
    else:
        fmt = ChatFormat.from_pretrained(place)
    fmt = _with_defaults(fmt, arguments)
    engine = TorchModel.load(place, vocab)
    return Opened(fmt, engine, place.resolve().name, ModelSettings(engine_fields=EXTRA))


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
    running = _stepped(engine, fmt) if arguments.masks else engine
    return Opened(fmt, running, name, SMOLLM2_SETTINGS if ours else LLAMA_SETTINGS)


def _upstream(arguments: argparse.Namespace) -> Opened:
    from dragoman.engines.model_settings import LLAMA_SETTINGS

    key = arguments.upstream_key
    asked = recognise(arguments.upstream, kind=arguments.engine, model=arguments.upstream_model, api_key=key)
    found = asyncio.run(asked)
    if arguments.text_prompts:
        found = replace(found, takes_token_ids=False)
    elif not found.takes_token_ids:
        raise UsageError(
            f"{found.url} takes no prompts as token ids, and in text a message can forge control tokens; where every "
            "message is trusted, say --text-prompts",
            param="--upstream",
        )
    found = replace(found, context_tokens=found.context_tokens or arguments.context)
    say(found.describe())
    fmt = _with_defaults(_upstream_format(found, arguments), arguments)
    flavour = None if found.kind == "llama-server" else found.flavour
    if flavour is not None and not flavour.shows_controls:
        _warn_of_hidden(fmt)
    settings = LLAMA_SETTINGS if flavour is None else ModelSettings(engine_fields=flavour.engine_fields)
    engine = found.open(api_key=key)
    return Opened(fmt, _stepped(engine, fmt) if arguments.masks else engine, found.model, settings)


def _stepped(engine: Engine, fmt: ChatFormat) -> Engine:
    """The same llama.cpp, token by token under masks."""
    from dragoman.engines.embedded import Embedded
    from dragoman.engines.llama_server import LlamaServer
    from dragoman.engines.llama_stepping import SteppedLlamaServer

    if not isinstance(engine, (Embedded, LlamaServer)) or fmt.vocab is None:
        raise UsageError("--masks is for a llama-server whose vocabulary is known (--vocab)", param="--masks")
    return SteppedLlamaServer(engine, fmt.vocab)


def _upstream_format(found: Upstream, arguments: argparse.Namespace) -> ChatFormat:
    """The template that is named here, else the upstream's own, else that of the folder with its vocabulary."""
    place = Path(arguments.vocab).expanduser() if arguments.vocab else found.folder
    vocab = _vocabulary(place, found)
    bos, eos = found.bos, found.eos
    built_in = _built_in(arguments)
    if built_in is not None:
        return ChatFormat.from_name(built_in, bos_token=bos, eos_token=eos, vocab=vocab)
    if arguments.template:
        return _other_template(arguments, bos, eos, vocab)
    if found.template:
        return ChatFormat.from_template(
            found.template, tool_use=found.tool_template, bos_token=bos or "", eos_token=eos or "", vocab=vocab
        )
    if place is not None and place.is_dir():
        return ChatFormat.from_pretrained(place)
    if place is not None and place.suffix == ".gguf":
        return ChatFormat.from_gguf(place)
    raise UsageError(
        f"{found.url} tells no chat template; name one with --template (a .jinja file or the model's folder), "
        "the folder with --vocab, or a built-in --chat-template",
        param="--template",
    )


def _vocabulary(place: Path | None, found: Upstream) -> Vocabulary | None:
    """Prompts go out as token ids, so that no message can forge a control token; that needs the model's vocabulary."""
    if place is None:
        if not found.takes_token_ids:
            return None
        raise UsageError(
            f"the vocabulary of {found.model} is needed: --vocab with the tokenizer.json, the folder or the .gguf file "
            "of the model, or else --text-prompts",
            param="--vocab",
        )
    if not place.exists():
        raise UsageError(f"there is no file or folder {place}", param="--vocab")
    return Vocabulary.from_file(place)


def _warn_of_hidden(fmt: ChatFormat) -> None:
    controls = frozenset(fmt.profile.literals) if fmt.vocab is None else frozenset(fmt.vocab.controls)
    hidden = sorted({*preserved_tokens(fmt.profile, controls)} - {*all_stops(fmt.profile)})
    if hidden:
        say(f"Where it hides control tokens ({', '.join(hidden)}), what they mark cannot be told from the answer")


def _other_template(
    arguments: argparse.Namespace, bos: str | None, eos: str | None, vocab: Vocabulary | None
) -> ChatFormat:
    """The template that ``--template`` names, with the model's own vocabulary and tokens."""
    fmt = format_of(arguments.template, bos=bos or None, eos=eos or None)
    say(f"Using the chat template of {arguments.template}")
    return fmt.with_vocab(vocab)
