"""`hermes` with somebody in front of it: a process whose terminal is real, and whose keys we press."""

import fcntl
import os
import pty
import select
import signal
import subprocess
import sys
import termios
import time
from collections.abc import Callable
from pathlib import Path
from types import TracebackType
from typing import Self

import pyte

ROOT = Path(__file__).parents[2]
_PATIENCE_SECONDS = 60


class _Screen(pyte.Screen):
    """Tells where its cursor is when it is asked, as a terminal does."""

    def __init__(self, columns: int, rows: int, answer: Callable[[str], None]) -> None:
        super().__init__(columns, rows)
        self._answer = answer

    def write_process_input(self, data: str) -> None:
        self._answer(data)


def _take_terminal() -> None:
    """Let Ctrl-C reach this process, also where the tests run in the background and ignore it themselves."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    fcntl.ioctl(0, termios.TIOCSCTTY, 0)


class AtATerminal:
    def __init__(self, *arguments: str, cwd: Path, columns: int = 80, rows: int = 24, term: str = "xterm") -> None:
        self._ours, theirs = pty.openpty()
        termios.tcsetwinsize(theirs, (rows, columns))
        self._screen = _Screen(columns, rows, self.press)
        self._stream = pyte.Stream(self._screen)
        self._seen = ""
        self.shown = ""  # all that was ever written there
        self.process = subprocess.Popen(
            [sys.executable, "-m", "hermes_cli", *arguments],
            stdin=theirs,
            stdout=theirs,
            stderr=theirs,
            cwd=cwd,
            env={**os.environ, "TERM": term, "PYTHONPATH": f"{ROOT}:{os.environ.get('PYTHONPATH', '')}"},
            start_new_session=True,
            preexec_fn=_take_terminal,
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

    @property
    def turns_enter_into_a_line_feed(self) -> bool:
        """Whether the terminal is in its usual mode now, in which Enter and Ctrl-J are the same."""
        return bool(termios.tcgetattr(self._ours)[0] & termios.ICRNL)

    def until(self, text: str) -> str:
        """What was written since the last time, up to and with this."""
        deadline = time.monotonic() + _PATIENCE_SECONDS
        while text not in self._seen:
            self._read(deadline, f"no {text!r} in {self._seen!r}")
        before, _, self._seen = self._seen.partition(text)
        return before + text

    @property
    def lines(self) -> list[str]:
        """Return the lines on the screen that are not blank."""
        return [line.rstrip() for line in self._screen.display if line.strip()]

    def until_screen(self, text: str, *, gone: bool = False) -> list[str]:
        """Wait until the text is on the screen, or is no longer; return the lines."""
        deadline = time.monotonic() + _PATIENCE_SECONDS
        while (text in "\n".join(self.lines)) == gone:
            self._read(deadline, f"{text!r} {'stays' if gone else 'is not'} in {self.lines!r}")
        return self.lines

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
        self._stream.feed(piece.decode(errors="replace"))
        text = piece.decode(errors="replace").replace("\r\n", "\n")
        self._seen += text
        self.shown += text
