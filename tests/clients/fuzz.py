"""schemathesis on the OpenAPI document of a running server: ``python -m tests.clients.fuzz [EXAMPLES]``.

The scripted engine writes text, calls, broken calls and JSON by turns. Exits 1 where any request is answered by 5xx.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from dragoman.engine import Generation
from dragoman.engines.scripted import Scripted
from tests.server.live import live
from tests.server.service import CALL, INFO, SECOND_CALL, Service

OUTPUTS = ("Hi.", f"<muse>\nhm\n</muse>\n\nSo.{CALL}{SECOND_CALL}", '{"a": 1}', CALL[:30], "é😀")


def _write(request: Generation) -> str:
    return OUTPUTS[len(request.prompt_text) % len(OUTPUTS)]


def main(examples: str = "60") -> int:
    beside = Path(sys.executable).with_name("schemathesis")
    program = str(beside) if beside.exists() else shutil.which("schemathesis")
    if program is None:
        print("schemathesis is not installed: pip install schemathesis", file=sys.stderr)
        return 2
    options = ["--checks", "not_a_server_error", "--continue-on-failure", "--seed", "5", "--no-color"]
    phases = ["--phases", "coverage,fuzzing", "--max-examples", examples, "--request-timeout", "30"]
    service = Service(engine=Scripted(_write, info=INFO, size=3))
    with live(service.app) as address, tempfile.TemporaryDirectory() as folder:  # it leaves files where it runs
        command = [program, "run", f"{address}/openapi.json", *options, *phases]
        return subprocess.run(command, check=False, cwd=folder).returncode


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:2]))
