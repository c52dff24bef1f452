"""What ``TEMPLATE`` may name on a command line, and the chat format that it gives."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from dragoman.cli.files import read_text
from dragoman.errors import EngineError, TemplateError, UsageError
from dragoman.format import ChatFormat
from dragoman.inspector.sources import format_of_config, format_of_template, json_object
from dragoman.template.catalogue import NAMES

_KINDS = (
    "a .jinja file, a tokenizer_config.json, a model folder, a .gguf file, the URL of a running server "
    "or the name of a built-in format"
)


def add_template(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("template", metavar="TEMPLATE", help=_KINDS)
    parser.add_argument(
        "--bos", default=None, metavar="TEXT", help="the template's bos_token (a .jinja file names none)"
    )
    parser.add_argument("--eos", default=None, metavar="TEXT", help="the template's eos_token")


def load_format(arguments: argparse.Namespace) -> ChatFormat:
    """The format that the arguments of :func:`add_template` name."""
    return format_of(arguments.template, bos=arguments.bos, eos=arguments.eos)


def format_of(source: str, *, bos: str | None = None, eos: str | None = None) -> ChatFormat:
    """Raises UsageError where ``source`` is none of the kinds, TemplateError where there is no template in it."""
    if source.startswith(("http://", "https://")):
        return _from_server(source, bos, eos)
    path = Path(source).expanduser()
    if path.is_dir():
        return ChatFormat.from_pretrained(path)
    if not path.is_file():
        if source.lower() in NAMES:
            return ChatFormat.from_name(source, bos_token=bos, eos_token=eos)
        names = ", ".join(NAMES)
        raise UsageError(f"{source!r} is no file, folder or URL; wanted is {_KINDS} ({names})", param="TEMPLATE")
    if path.suffix == ".gguf":
        return ChatFormat.from_gguf(path)
    text = read_text(source, param="TEMPLATE", wanted=_KINDS)
    if path.suffix == ".json":
        return format_of_config(text, source, bos=bos, eos=eos)
    return format_of_template(text, bos=bos, eos=eos)


def _from_server(url: str, bos: str | None, eos: str | None) -> ChatFormat:
    """From ``/props``, which llama-server and this project's own server answer alike."""
    known = server_props(url)
    source = known.get("chat_template")
    if not isinstance(source, str) or not source:
        raise TemplateError(f"{url} tells no chat template in its /props")
    return ChatFormat.from_template(
        source,
        tool_use=known.get("chat_template_tool_use") or None,
        bos_token=str(known.get("bos_token") or "") if bos is None else bos,
        eos_token=str(known.get("eos_token") or "") if eos is None else eos,
    )


def server_props(url: str) -> dict[str, Any]:
    """The answer of ``/props``. Raises EngineError."""
    from urllib.error import URLError
    from urllib.parse import urlsplit
    from urllib.request import ProxyHandler, build_opener

    parts = urlsplit(url)
    address = (
        f"{parts.scheme}://{parts.netloc}{parts.path.rstrip('/').removesuffix('/v1').removesuffix('/props')}/props"
    )
    try:
        with build_opener(ProxyHandler({})).open(address, timeout=30.0) as answer:
            return json_object(answer.read().decode(), address)
    except (URLError, OSError, ValueError) as error:
        raise EngineError(f"{address} does not answer: {error}; is a server running there?") from error
