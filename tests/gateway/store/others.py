"""Other processes, for what threads of ours cannot stand in for: locks, kills, two starts at once."""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager

HOLDS_THE_FILE = """
import sqlite3, sys

connection = sqlite3.connect(sys.argv[1], isolation_level=None)
connection.execute(sys.argv[2] if len(sys.argv) > 2 else "BEGIN IMMEDIATE")
print("ready", flush=True)
sys.stdin.readline()
connection.close()
"""


class Other:
    """A Python process that says `ready` and then waits for a line."""

    def __init__(self, script: str, *arguments: str) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-c", script, *arguments], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )

    def wait_for(self, line: str) -> None:
        assert self._process.stdout is not None
        said = self._process.stdout.readline().strip()
        assert said == line, f"said {said!r}, exit code {self._process.poll()}"

    def tell(self, line: str = "go on") -> None:
        assert self._process.stdin is not None
        self._process.stdin.write(f"{line}\n")
        self._process.stdin.flush()

    def kill(self) -> None:
        os.kill(self._process.pid, signal.SIGKILL)
        self._process.wait(10)

    def finish(self) -> int:
        """Lets it go on to its end; gives its exit code."""
        self._process.communicate("go on\n", timeout=30)
        return self._process.returncode

    def close(self) -> None:
        if self._process.poll() is None:
            self.kill()
        for stream in (self._process.stdin, self._process.stdout):
            assert stream is not None
            stream.close()


@contextmanager
def other(script: str, *arguments: str) -> Iterator[Other]:
    process = Other(script, *arguments)
    try:
        yield process
    finally:
        process.close()
