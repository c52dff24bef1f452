"""The README's examples run as they stand there."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[2]
EXAMPLES = re.findall(
    r"^```python\n(.*?)^```", (ROOT / "README.md").read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL
)

TEMPLATE = """\
{%- for message in messages %}
{{- '<|im_start|>' + message.role + '\\n' + message.content + '<|im_end|>\\n' }}
{%- endfor %}
{%- if add_generation_prompt %}{{- '<|im_start|>assistant\\n' }}{%- endif %}
"""
TOOLS = [
    {
        "type": "function",
        "function": {
            "name": "get_weather",
            "parameters": {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]},
        },
    }
]


class Model:
    """What the example calls a model: any object that writes text in pieces."""

    prompt = ""

    def generate(self, prompt: str) -> list[str]:
        self.prompt = prompt
        text = '<tool_call>\n{"name": "get_weather", "arguments": {"city": "Lisbon"}}\n</tool_call><|im_end|>'
        return [text[at : at + 5] for at in range(0, len(text), 5)]


def test_there_are_two_examples() -> None:
    assert len(EXAMPLES) == 2


def test_the_first_example_reads_a_tool_call(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "chat_template.jinja").write_text(TEMPLATE, encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    model = Model()
    names: dict[str, Any] = {"tools": TOOLS, "model": model}
    exec(EXAMPLES[0], names)
    (call,) = names["turn"].message.tool_calls
    assert (call.name, call.arguments) == ("get_weather", '{"city": "Lisbon"}')
    assert "get_weather" in model.prompt
    assert "'name': 'get_weather'" in capsys.readouterr().out


def test_the_second_example_streams_its_script(capsys: pytest.CaptureFixture[str]) -> None:
    exec(EXAMPLES[1], {})
    lines = capsys.readouterr().out.splitlines()
    assert lines == ["'It i' None", "'s su' None", "'nny.' None", "'' stop"]
