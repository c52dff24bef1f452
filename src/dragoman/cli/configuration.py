"""How ``dragoman serve`` is configured: command line before environment before file before default.

One table, :class:`ServeSettings`, has every setting with its default. ``queue_seconds`` is ``--queue-seconds`` on the
command line, ``DRAGOMAN_QUEUE_SECONDS`` in the environment and ``queue_seconds = 60`` in the file, a TOML file that
``--config`` or ``DRAGOMAN_CONFIG`` names. A name that is no setting is an error; in the environment, where others write
too, only one that looks like a setting.
"""

from __future__ import annotations

import argparse
import difflib
import os
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Annotated, Any, Literal, get_args, get_origin

from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    PositiveFloat,
    PositiveInt,
    SecretStr,
    ValidationError,
)

from dragoman.engines.recognise import Kind
from dragoman.errors import UsageError
from dragoman.server.operations.admission import BODY_BYTES_MAX, AdmissionSettings
from dragoman.server.operations.layers import OperationsSettings

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

PREFIX = "DRAGOMAN_"
FILE = "CONFIG"
# Environment variables with that prefix that are no settings of the server.
_OTHERS = frozenset((FILE, "CACHE"))
_ALIKE = 0.8  # of two names, from which on one is taken for the other misspelt
# Settings that hold several values, as the option that gives one of them.
_SEVERAL = {"api_keys": "--api-key", "cors_origins": "--cors-origin"}


def _words(value: Any) -> Any:
    """A list that an environment variable holds as one text."""
    return [word.strip() for word in value.split(",") if word.strip()] if isinstance(value, str) else value


Words = Annotated[tuple[str, ...], BeforeValidator(_words)]
Secrets = Annotated[tuple[SecretStr, ...], BeforeValidator(_words)]


class ServeSettings(BaseModel):
    """Every setting of the server. Times are seconds, sizes bytes."""

    model_config = ConfigDict(extra="forbid", frozen=True, hide_input_in_errors=True)

    # The engine.
    model: str | None = Field(None, description="a .gguf file or a model folder; default: the embedded model")
    upstream: str | None = Field(None, description="an engine that is running")
    engine: Kind | None = Field(None, description="what the upstream is, where it should not be asked")
    upstream_model: str | None = Field(None, description="which of the upstream's models")
    upstream_key: SecretStr | None = Field(None, description="the key that the upstream asks for")
    text_prompts: bool = Field(False, description="send the upstream text in place of token ids")
    template: str | None = Field(None, description="another chat template than the model's own")
    chat_template: str | None = Field(None, description="a built-in format in place of the model's template")
    no_jinja: bool = Field(False, description="do not use the model's template")
    chat_template_kwargs: str | None = Field(None, description="JSON of the template's variables")
    prefill_assistant: bool = Field(True, description="go on with a last message of the assistant")
    media_placeholder: str | None = Field(None, description="what stands for a picture or sound")
    vocab: str | None = Field(None, description="tokenizer.json, .gguf or folder of the upstream's model")
    context: PositiveInt | None = Field(None, description="tokens of context")
    masks: bool = Field(False, description="constrain llama.cpp by masks of our own, a token a request")
    threads: PositiveInt | None = Field(None, description="threads of the embedded engine")
    # The server.
    host: str = Field("127.0.0.1", description="where to listen")
    port: int = Field(8000, ge=0, le=65535, description="0 takes any free one")
    api_keys: Secrets = Field((), description="keys of which a client must send one; none: anybody may ask")
    api_key_file: Path | None = Field(None, description="a file with such keys, one a line")
    cors_origins: Words = Field((), description="origins of web pages that may ask; *: any")
    inspector: bool = Field(True, description="a page at / that shows prompts, templates and turns step by step")
    # Bounds.
    concurrency: PositiveInt | None = Field(None, description="requests that are worked on at once")
    queue: int = Field(64, ge=0, description="requests that wait behind them; the rest is told 429")
    queue_seconds: PositiveFloat = Field(60.0, description="the longest wait in the queue")
    body_bytes: int = Field(
        BODY_BYTES_MAX, gt=0, le=BODY_BYTES_MAX, description="the largest request; no more than this"
    )
    body_seconds: PositiveFloat = Field(60.0, description="how long a request may take to come in")
    deadline_seconds: PositiveFloat | None = Field(None, description="the longest answer, its waiting included")
    drain_seconds: float = Field(30.0, ge=0, description="how long the end waits for what was begun")
    # The log.
    log_format: Literal["text", "json"] = Field("text", description="lines for people or for machines")
    log_level: Literal["debug", "info", "warning", "error"] = Field("warning", description="info: every request")
    log_messages: bool = Field(False, description="tell the texts of errors too, which may hold what users wrote")

    def all_keys(self) -> tuple[str, ...]:
        """All API keys. Raises UsageError for a file that cannot be read or holds none."""
        keys = [key.get_secret_value() for key in self.api_keys]
        if self.api_key_file is not None:
            try:
                lines = self.api_key_file.expanduser().read_text(encoding="utf-8").splitlines()
            except (OSError, UnicodeDecodeError) as error:
                raise UsageError(f"api_key_file {self.api_key_file}: {error}", param="api_key_file") from error
            found = [line.strip() for line in lines if line.strip() and not line.startswith("#")]
            if not found:
                raise UsageError(f"api_key_file {self.api_key_file} holds no key", param="api_key_file")
            keys += found
        return tuple(keys)

    def operations(self) -> OperationsSettings:
        return OperationsSettings(
            api_keys=self.all_keys(),
            admission=AdmissionSettings(
                concurrency=self.concurrency,
                queue=self.queue,
                queue_seconds=self.queue_seconds,
                body_bytes=self.body_bytes,
                body_seconds=self.body_seconds,
            ),
            deadline_seconds=self.deadline_seconds,
            cors_origins=self.cors_origins,
        )

    def arguments(self) -> argparse.Namespace:
        """What :func:`dragoman.cli.engines.open_engine` reads."""
        key = self.upstream_key
        values = {name: getattr(self, name) for name in ServeSettings.model_fields}
        return argparse.Namespace(**{**values, "upstream_key": None if key is None else key.get_secret_value()})


def add_settings(parser: argparse.ArgumentParser) -> None:
    """An option for every setting of the table that ``parser`` does not have yet. None of them has a default there."""
    parser.add_argument("--config", metavar="FILE", help=f"a TOML file of settings (or {PREFIX}{FILE})")
    for name, field in ServeSettings.model_fields.items():
        if name in _ENGINE:
            continue
        default = field.get_default()
        shown = "" if default in (None, (), False) else f" (default {default})"
        text = f"{field.description}{shown}".replace("%", "%%")
        absent: dict[str, Any] = {"dest": name, "default": argparse.SUPPRESS}  # what is not given is not in the result
        if name in _SEVERAL:
            parser.add_argument(_SEVERAL[name], action="append", metavar="TEXT", help=f"{text}; repeatable", **absent)
        elif isinstance(default, bool):
            parser.add_argument(_option(name), action=argparse.BooleanOptionalAction, help=text, **absent)
        else:
            # Words are shown here, and checked with all other settings, wherever they come from.
            words = get_args(field.annotation) if get_origin(field.annotation) is Literal else ()
            parser.add_argument(
                _option(name), metavar=f"{{{','.join(words)}}}" if words else "VALUE", help=text, **absent
            )


def read_settings(arguments: argparse.Namespace, environment: Mapping[str, str] | None = None) -> ServeSettings:
    """The settings of a command line, the environment (of this process) and a file, the first that says so wins.

    Raises UsageError that names the setting as it was written, and where.
    """
    environ = os.environ if environment is None else environment
    file = getattr(arguments, "config", None) or environ.get(PREFIX + FILE)
    sources: dict[str, Mapping[str, Any]] = {
        "file": _from_file(Path(file).expanduser()) if file else {},
        "environment": _from_environment(environ),
        "command line": _from_command_line(arguments),
    }
    values: dict[str, Any] = {}
    origin: dict[str, str] = {}
    for source, found in sources.items():
        for name, value in found.items():
            values[name] = value
            origin[name] = {"file": f"{file}: {name}", "environment": PREFIX + name.upper()}.get(source, _option(name))
    try:
        return ServeSettings.model_validate(values)
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        name = str(first["loc"][0])
        message = first["msg"].removeprefix("Value error, ")
        raise UsageError(f"{origin.get(name, name)}: {message[:1].lower()}{message[1:]}", param=name) from None


def _from_file(path: Path) -> Mapping[str, Any]:
    try:
        known: dict[str, Any] = tomllib.loads(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"--config {path}: {error}", param="--config") from error
    except tomllib.TOMLDecodeError as error:
        raise UsageError(f"--config {path} is no TOML: {error}", param="--config") from error
    for name in known:
        if name not in ServeSettings.model_fields:
            raise _unknown(f"{path}: {name}", name, lambda near: near)
    return known


def _from_environment(environ: Mapping[str, str]) -> Mapping[str, Any]:
    found: dict[str, Any] = {}
    for variable, value in environ.items():
        name = variable.removeprefix(PREFIX)
        if name == variable or name in _OTHERS or not value:
            continue
        if name.lower() in ServeSettings.model_fields:
            found[name.lower()] = value
        elif difflib.get_close_matches(name.lower(), ServeSettings.model_fields, 1, _ALIKE):
            raise _unknown(variable, name.lower(), lambda near: PREFIX + near.upper())
    return found


def _from_command_line(arguments: argparse.Namespace) -> Mapping[str, Any]:
    return {name: value for name, value in vars(arguments).items() if name in ServeSettings.model_fields}


def _unknown(written: str, name: str, spell: Callable[[str], str]) -> UsageError:
    near = difflib.get_close_matches(name, ServeSettings.model_fields, 1, _ALIKE)
    hint = f"; is {spell(near[0])} meant?" if near else ""
    return UsageError(f"{written} is no setting of dragoman serve{hint}", param=written)


def _option(name: str) -> str:
    return _SEVERAL.get(name, "--" + name.replace("_", "-"))


# Settings whose options `add_engine` makes.
_ENGINE = frozenset(
    (
        *("model", "upstream", "engine", "upstream_model", "upstream_key", "text_prompts", "template"),
        *("chat_template", "no_jinja", "chat_template_kwargs", "prefill_assistant", "media_placeholder", "vocab"),
        *("context", "masks", "threads"),
    )
)
