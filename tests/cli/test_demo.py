"""The demo's own judgement: what it takes for a call that the tools allow, and what it shows."""

from __future__ import annotations

import subprocess
import sys

import pytest

from dragoman.cli import demo
from dragoman.cli.demo import Call, Screen
from dragoman.errors import EngineError

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
