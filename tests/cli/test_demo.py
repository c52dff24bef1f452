"""The demo's own judgement: what it takes for a call that the tools allow, and what it shows."""

from __future__ import annotations

import json
import subprocess
import sys
from contextlib import nullcontext

import pytest

from dragoman.cli import demo
from dragoman.cli.demo import Call, Screen
from dragoman.cli.main import main
from dragoman.errors import EngineError
from tests.server.live import live
from tests.server.service import Service

GOOD = '{"city": "Lisbon", "unit": "celsius"}'


def call(arguments: str = GOOD, *, name: str = "get_weather", finish_reason: str | None = "tool_calls") -> Call:
    return Call(id="a", name=name, arguments=arguments, finish_reason=finish_reason)


def test_a_good_call_has_no_fault() -> None:
    assert demo.fault_of(call()) is None
    assert demo.fault_of(call('{"to": "Ann", "text": "hi"}', name="send_message")) is None


@pytest.mark.parametrize(
    ("bad", "reason"),
    [
        (call(finish_reason="length"), "finish_reason is length"),
        (call(finish_reason=None), "finish_reason is None"),
        (call(name="get_wether"), "no declared tool"),
        (call('{"city": "Lis'), "no JSON"),
        (call("[]"), "must be city, unit"),
        (call('{"city": "Lisbon"}'), "must be city, unit"),
        (call('{"city": "Lisbon", "unit": "celsius", "x": 1}'), "must be city, unit"),
        (call('{"city": 7, "unit": "celsius"}'), "city may not be 7"),
        (call('{"city": "Lisbon", "unit": "kelvin"}'), "unit may not be 'kelvin'"),
    ],
)
def test_a_bad_call_is_told(bad: Call, reason: str) -> None:
    fault = demo.fault_of(bad)
    assert fault is not None
    assert reason in fault


def test_input_is_told_apart_from_template_text(capsys: pytest.CaptureFixture[str]) -> None:
    demo.show_parts([("<|user|>\n", False), ("two\nlines", True), ("<|end|>\n", False)], Screen(colour=False))
    assert capsys.readouterr().out == "  <|user|>\n  «two»\n  «lines»<|end|>\n"


def test_a_server_that_does_not_start_is_told_with_its_last_words() -> None:
    command = [sys.executable, "-c", "print('no model here'); raise SystemExit(3)"]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    with pytest.raises(EngineError, match="no model here"):
        demo._address_of(process)
    assert process.wait() == 3


@pytest.mark.parametrize(("unit", "code"), [("celsius", 0), ("kelvin", 1)])
def test_as_json_the_steps_are_on_stderr(
    unit: str, code: int, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    arguments = f'{{"city": "Lisbon", "unit": "{unit}"}}'
    text = f'\n<do>\n{{"name": "get_weather", "arguments": {arguments}}}\n</do>'
    with live(Service([text]).app) as address:
        monkeypatch.setattr(demo, "serving", lambda: nullcontext(address))
        assert main(["demo", "--json"]) == code
    out, err = capsys.readouterr()
    told = json.loads(out)
    assert (told["name"], told["arguments"], told["finish_reason"]) == ("get_weather", arguments, "tool_calls")
    assert (told["fault"] is None) == (code == 0)
    assert "3. The prompt" in err
