"""Make standard output and error streams that neither block nor fail, whatever their reader does.

Without this, a stalled log reader stops every chat once the pipe is full, and a closed pipe or a full disk ends the
process. Lines that cannot be written are dropped and counted.
"""

import io
import os
import select
import sys
import threading
import time
from collections import deque
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING

import structlog

if TYPE_CHECKING:
    from _typeshed import ReadableBuffer

log = structlog.get_logger()

_FLUSH_SECONDS = 1.0
_MAX_WAITING_BYTES = 1_000_000


@contextmanager
def unblocked_output() -> Iterator[None]:
    """Make `sys.stdout` and `sys.stderr` streams that never block; at the end, flush them for up to a second."""
    with ExitStack() as stack:
        for name in ("stderr", "stdout"):  # stopped in reverse order: stderr reports the lines that stdout dropped
            if (stream := getattr(sys, name)) is not None:  # may have been closed by our parent
                stack.enter_context(_unblocked(name, stream))
        yield


@contextmanager
def _unblocked(name: str, stream: io.TextIOWrapper) -> Iterator[None]:
    output = UnblockedOutput(name, stream.fileno())
    # One write per line, so that only whole lines are dropped.
    text = io.TextIOWrapper(output, encoding=stream.encoding, errors="backslashreplace", write_through=True)
    setattr(sys, name, text)
    try:
        yield
    finally:
        setattr(sys, name, stream)
        output.stop()


class UnblockedOutput(io.RawIOBase):
    """A stream whose data is written to a file descriptor by a thread."""

    def __init__(self, name: str, descriptor: int, *, max_waiting_bytes: int = _MAX_WAITING_BYTES) -> None:
        self.name = name
        self._descriptor = descriptor
        self._max_waiting_bytes = max_waiting_bytes
        self._changed = threading.Condition()
        self._waiting: deque[bytes] = deque()
        self._waiting_bytes = 0
        self._dropped = 0
        self._stopped = False
        self._torn = False  # the last write stopped within a line
        # A daemon: a write that never returns must not keep the process from ending.
        self._thread = threading.Thread(target=self._run, name=f"write {name}", daemon=True)
        self._thread.start()

    def writable(self) -> bool:
        return True

    def fileno(self) -> int:
        return self._descriptor

    def isatty(self) -> bool:
        return os.isatty(self._descriptor)

    def write(self, data: "ReadableBuffer", /) -> int:
        written = bytes(data)
        with self._changed:
            if self._stopped or self._waiting_bytes + len(written) > self._max_waiting_bytes:
                self._dropped += 1
            else:
                self._waiting.append(written)
                self._waiting_bytes += len(written)
                self._changed.notify_all()
        return len(written)

    def stop(self, *, seconds: float = _FLUSH_SECONDS) -> None:
        """Accept nothing more, and write out the rest within that time."""
        deadline = time.monotonic() + seconds
        with self._changed:
            while self._waiting and (left := deadline - time.monotonic()) > 0:
                self._changed.wait(left)
            self._stopped = True
            self._changed.notify_all()
        self._thread.join(max(deadline - time.monotonic(), 0))

    def _run(self) -> None:
        while True:
            with self._changed:
                while not self._waiting:
                    if self._stopped:
                        return
                    self._changed.wait()
                line = self._waiting[0]  # stays there until it is written: `stop` waits for it
            is_written = self._write_out(line)
            with self._changed:
                self._dropped += not is_written
                dropped = self._dropped if is_written and len(self._waiting) == 1 else 0
                self._dropped -= dropped
            if dropped:  # the reader is back, and all waiting lines were written
                log.warning("lines of output were dropped", stream=self.name, lines=dropped)
            with self._changed:
                self._waiting.popleft()
                self._waiting_bytes -= len(line)
                self._changed.notify_all()

    def _write_out(self, line: bytes) -> bool:
        whole = b"\n" + line if self._torn else line
        rest = memoryview(whole)
        while rest:
            try:
                rest = rest[os.write(self._descriptor, rest) :]
            except BlockingIOError:  # another user of the terminal or pipe made it non-blocking
                select.select([], [self._descriptor], [])
            except OSError:
                self._torn = self._torn or len(rest) < len(whole)
                return False
        self._torn = False
        return True
