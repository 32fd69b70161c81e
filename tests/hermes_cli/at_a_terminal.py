"""`hermes` with somebody in front of it: a process whose terminal is real, and whose keys we press."""

import fcntl
import os
import pty
import select
import subprocess
import sys
import termios
import time
from pathlib import Path
from types import TracebackType
from typing import Self

ROOT = Path(__file__).parents[2]
_PATIENCE_SECONDS = 60


class AtATerminal:
    def __init__(self, *arguments: str, cwd: Path) -> None:
        self._ours, theirs = pty.openpty()
        self._seen = ""
        self.shown = ""  # all that was ever written there
        self.process = subprocess.Popen(
            [sys.executable, "-m", "hermes_cli", *arguments],
            stdin=theirs,
            stdout=theirs,
            stderr=theirs,
            cwd=cwd,
            env={**os.environ, "PYTHONPATH": f"{ROOT}:{os.environ.get('PYTHONPATH', '')}"},
            start_new_session=True,
            preexec_fn=lambda: fcntl.ioctl(0, termios.TIOCSCTTY, 0),  # so that Ctrl-C reaches it
        )
        os.close(theirs)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.process.kill()
        self.process.wait()
        os.close(self._ours)

    def press(self, keys: str) -> None:
        os.write(self._ours, keys.encode())

    def until(self, text: str) -> str:
        """What was written since the last time, up to and with this."""
        deadline = time.monotonic() + _PATIENCE_SECONDS
        while text not in self._seen:
            self._read(deadline, f"no {text!r} in {self._seen!r}")
        before, _, self._seen = self._seen.partition(text)
        return before + text

    def leave(self) -> int:
        """Its exit code, once all that it writes is read."""
        deadline = time.monotonic() + _PATIENCE_SECONDS
        try:
            while True:
                self._read(deadline, f"it goes on: {self._seen!r}")
        except EOFError:
            return self.process.wait(timeout=_PATIENCE_SECONDS)

    def _read(self, deadline: float, otherwise: str) -> None:
        ready, _, _ = select.select([self._ours], [], [], max(deadline - time.monotonic(), 0))
        assert ready, otherwise
        try:
            piece = os.read(self._ours, 65_536)
        except OSError:  # so Linux tells that nobody has the other end any more
            piece = b""
        if not piece:
            raise EOFError(otherwise)
        text = piece.decode(errors="replace").replace("\r\n", "\n")
        self._seen += text
        self.shown += text
