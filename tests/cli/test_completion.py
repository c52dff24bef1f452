"""Completion scripts, tried in the shells that are there."""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path

import pytest

from dragoman.cli.main import VERBS, main


def script(shell: str, capsys: pytest.CaptureFixture[str]) -> str:
    assert main(["completion", shell]) == 0
    return capsys.readouterr().out


def completed(text: str, folder: Path, *words: str) -> list[str]:
    """What bash offers for the last of the words."""
    line = " ".join(words)
    program = (
        f"{text}\nCOMP_WORDS=({' '.join(repr(word) for word in words)}); COMP_CWORD={len(words) - 1}\n"
        f"COMP_LINE={line!r}; COMP_POINT={len(line)}\n"
        'f=$(complete -p dragoman | sed "s/.*-F \\([^ ]*\\).*/\\1/"); "$f"; printf "%s\\n" "${COMPREPLY[@]}"\n'
    )
    done = subprocess.run(["bash", "-c", program], capture_output=True, text=True, check=True, cwd=folder)
    return done.stdout.split()


@pytest.mark.skipif(shutil.which("bash") is None, reason="no bash")
def test_bash_completes_verbs_options_values_and_files(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    (tmp_path / "ours.jinja").touch()
    text = script("bash", capsys)
    assert set(completed(text, tmp_path, "dragoman", "")) >= set(VERBS)
    assert completed(text, tmp_path, "dragoman", "insp") == ["inspect"]
    assert "--grammar" in completed(text, tmp_path, "dragoman", "inspect", "--g")
    assert completed(text, tmp_path, "dragoman", "grammar", "x", "--to", "str") == ["structural-tag"]
    assert completed(text, tmp_path, "dragoman", "serve", "--log-format", "") == ["text", "json"]
    assert completed(text, tmp_path, "dragoman", "serve", "--log-level", "w") == ["warning"]
    assert "ours.jinja" in completed(text, tmp_path, "dragoman", "inspect", "ou")


@pytest.mark.parametrize(("shell", "check"), [("bash", "-n"), ("zsh", "-n"), ("fish", "--no-execute")])
def test_scripts_are_well_formed(shell: str, check: str, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    text = script(shell, capsys)
    assert all(verb in text for verb in VERBS)
    path = tmp_path / "script"
    path.write_text(text)
    if shutil.which(shell) is None:
        pytest.skip(f"no {shell} to try it")
    done = subprocess.run([shell, check, str(path)], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_as_json(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["completion", "fish", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["shell"] == "fish"
    assert main(["completion", "csh"]) == 2
