"""`hermes` as a person or a script runs it: a process of its own."""

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from gateway.store.db.connection import Transaction, connect
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


@contextmanager
def written(home: Path) -> Iterator[Transaction]:
    connection = connect(home / "state.db", busy_timeout_seconds=1)
    connection.execute("BEGIN")
    yield Transaction(connection)
    connection.execute("COMMIT")
    connection.close()
