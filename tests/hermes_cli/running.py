"""`hermes` as a person or a script runs it: a process of its own."""

import os
import subprocess
import sys
from pathlib import Path

from tests.warm.process import run_warm

ROOT = Path(__file__).parents[2]


def hermes(*arguments: str, typed: str = "") -> "subprocess.CompletedProcess[str]":
    return run_warm("hermes_cli", *arguments, typed=typed, warnings="error", environment=os.environ)


def cold_hermes(*arguments: str, typed: str = "") -> "subprocess.CompletedProcess[str]":
    """With all the loading that it does, which takes up to a second."""
    return subprocess.run(
        [sys.executable, "-W", "error", "-m", "hermes_cli", *arguments],
        input=typed,
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
        cwd=ROOT,
    )
