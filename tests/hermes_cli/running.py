"""`hermes` as a person or a script runs it: a process of its own."""

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]


def hermes(*arguments: str, typed: str = "") -> "subprocess.CompletedProcess[str]":
    return subprocess.run(
        [sys.executable, "-W", "error", "-m", "hermes_cli", *arguments],
        input=typed,
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
        cwd=ROOT,
    )
