"""Settings of ``dragoman serve``: where they come from, which wins, and what a wrong one is told."""

from __future__ import annotations

import argparse
import re
from pathlib import Path

import pytest

from dragoman.cli import serve
from dragoman.cli.configuration import ServeSettings, read_settings, tomllib
from dragoman.cli.engines import add_engine
from dragoman.errors import UsageError


def settings(*words: str, environment: dict[str, str] | None = None) -> ServeSettings:
    parser = argparse.ArgumentParser()
    serve.add_arguments(parser)
    return read_settings(parser.parse_args(words), environment or {})


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "dragoman.toml"


def test_the_first_that_says_so_wins(file: Path) -> None:
    file.write_text("port = 1\nqueue = 1\nhost = 'file'\n")
    environment = {"DRAGOMAN_PORT": "2", "DRAGOMAN_QUEUE": "2", "DRAGOMAN_CONFIG": str(file)}
    found = settings("--port", "3", environment=environment)
    assert (found.port, found.queue, found.host, found.queue_seconds) == (3, 2, "file", 60.0)
    named = settings("--config", str(file), environment={"DRAGOMAN_CONFIG": "no such file"})
    assert (named.port, named.queue) == (1, 1)
    assert settings(environment={"DRAGOMAN_PORT": ""}).port == 8000  # set to nothing: not set


def test_every_setting_can_come_from_every_side(file: Path) -> None:
    """The same value by option, variable and file; none is forgotten in any of the three."""
    samples: dict[str, tuple[str, object]] = {
        "engine": ("vllm", "vllm"),
        "log_format": ("json", "json"),
        "log_level": ("info", "info"),
        "api_keys": ("one", ("one",)),
        "cors_origins": ("http://a.test", ("http://a.test",)),
        "model": ("m.gguf", "m.gguf"),
        "api_key_file": ("/k", Path("/k")),
        "upstream_key": ("s", "s"),
    }
    for name, field in ServeSettings.model_fields.items():
        default = field.get_default()
        words, expected = samples.get(name, ("7", default))
        option = {"api_keys": "--api-key", "cors_origins": "--cors-origin"}.get(name, "--" + name.replace("_", "-"))
        if isinstance(default, bool):
            off = "--no-" if default else "--"
            given = [off + name.replace("_", "-")]
            words, expected = str(not default).lower(), not default
        else:
            given = [words] if name == "model" else [option, words]
            if name not in samples:
                expected = float(words) if isinstance(default, float) or "seconds" in name else words
                expected = int(words) if name in ("port", "queue", "concurrency", "threads", "context") else expected
                expected = int(words) if name == "body_bytes" else expected
        quoted = words if isinstance(default, bool) else repr(words)
        file.write_text(f"{name} = [{quoted}]" if name in ("api_keys", "cors_origins") else f"{name} = {quoted}")
        variable = {f"DRAGOMAN_{name.upper()}": words}
        sides = settings(*given), settings(environment=variable), settings("--config", str(file))
        for side in sides:
            value = getattr(side, name)
            shown = tuple(key.get_secret_value() for key in value) if name == "api_keys" else value
            shown = shown.get_secret_value() if name == "upstream_key" else shown
            assert shown == expected, name


def test_lists_and_keys(file: Path) -> None:
    keys = file.with_name("keys")
    keys.write_text("# ours\nsecond\n\nthird\n")
    found = settings("--api-key", "first", "--api-key-file", str(keys), "--cors-origin", "a", "--cors-origin", "b")
    assert found.operations().api_keys == ("first", "second", "third")
    assert found.cors_origins == ("a", "b")
    spread = settings(environment={"DRAGOMAN_API_KEYS": "x, y ,", "DRAGOMAN_CORS_ORIGINS": "*"})
    assert spread.all_keys() == ("x", "y")
    assert "first" not in repr(found)
    keys.write_text("# none\n")
    with pytest.raises(UsageError, match="holds no key"):
        settings("--api-key-file", str(keys)).all_keys()
    with pytest.raises(UsageError, match="No such file"):
        settings("--api-key-file", str(keys) + "x").all_keys()


@pytest.mark.parametrize(
    ("words", "environment", "text", "match"),
    [
        (("--port", "eighty"), {}, "", r"^--port: input should be a valid integer"),
        (("--port", "70000"), {}, "", r"^--port: .*65535"),
        (("--concurrency", "0"), {}, "", r"^--concurrency: .*greater than 0"),
        (("--log-level", "loud"), {}, "", r"^--log-level: .*'debug', 'info'"),
        ((), {"DRAGOMAN_QUEUE": "many"}, "", r"^DRAGOMAN_QUEUE: "),
        ((), {"DRAGOMAN_CONCURENCY": "4"}, "", r"DRAGOMAN_CONCURENCY is no setting .*is DRAGOMAN_CONCURRENCY meant"),
        ((), {}, "queue_second = 3", r"toml: queue_second is no setting .*is queue_seconds meant"),
        ((), {}, "nonsense = 3", r"toml: nonsense is no setting of dragoman serve$"),
        ((), {}, "queue = 'x'", r"toml: queue: input should be a valid integer"),
        ((), {}, "queue = [", r"is no TOML"),
        ((), {}, "[server]\nport = 1", r"toml: server is no setting"),
        ((), {"DRAGOMAN_CONFIG": "/no/such/file"}, "", r"--config /no/such/file: .*No such file"),
    ],
)
def test_a_wrong_setting_is_named_as_it_was_written(
    words: tuple[str, ...], environment: dict[str, str], text: str, match: str, file: Path
) -> None:
    file.write_text(text)
    with pytest.raises(UsageError, match=match) as caught:
        settings(*words, *(("--config", str(file)) if text else ()), environment=environment)
    assert "pydantic" not in str(caught.value)


def test_a_secret_is_not_told_in_an_error() -> None:
    with pytest.raises(UsageError) as caught:
        settings(environment={"DRAGOMAN_UPSTREAM_KEY": "hush", "DRAGOMAN_PORT": "hush"})
    assert "hush" not in str(caught.value)


def test_variables_of_others_are_left_alone() -> None:
    settings(environment={"DRAGOMAN_CACHE": "/c", "DRAGOMAN_PURE": "1", "DRAGOMAN_EXAMPLES": "3", "PORT": "x"})


def test_the_engines_options_have_their_place_in_the_table() -> None:
    """chat has them too, with defaults; every one of them is a setting of the server with the same default."""
    parser = argparse.ArgumentParser()
    add_engine(parser)
    for name, value in vars(parser.parse_args([])).items():
        assert ServeSettings.model_fields[name].get_default() == value, name
    known = settings().arguments()
    assert vars(parser.parse_args([])).items() <= vars(known).items()


def test_the_example_lists_every_setting_with_its_default() -> None:
    text = (Path(__file__).parents[2] / "deploy" / "dragoman.toml").read_text()
    lines = re.findall(r"^#(\w+) = (.*?)\s+# (.*)$", text, re.MULTILINE)
    assert [name for name, *_ in lines] == list(ServeSettings.model_fields)
    for name, value, note in lines:
        default = ServeSettings.model_fields[name].get_default()
        told = tomllib.loads(f"x = {value}")["x"]
        ServeSettings.model_validate({name: told})  # what the line says is taken
        assert ("not set" in note) == (default is None), name
        if default is not None:
            assert (tuple(told) if isinstance(told, list) else told) == default, name
