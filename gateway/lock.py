"""One gateway per home: a lock that says who holds it and how it is doing.

The file is one block, allocated once and written in place, so that the state can be told even while the
disk is full. Whether the writer is alive is known by the lock itself, never by the pid alone.
"""

import fcntl
import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from gateway.errors import AlreadyRunning

_BLOCK_BYTES = 4096


class HomeLock:
    """Held from `hold_home` until the process ends, however it ends."""

    def __init__(self, handle: int) -> None:
        self._handle = handle

    def tell(self, state: dict[str, Any]) -> None:
        text = json.dumps({"pid": os.getpid()} | state, ensure_ascii=True)
        if len(text) > _BLOCK_BYTES:
            text = json.dumps({"pid": os.getpid(), "problem": "more to tell than fits"})
        os.pwrite(self._handle, text.ljust(_BLOCK_BYTES).encode(), 0)


@contextmanager
def hold_home(path: Path) -> Iterator[HomeLock]:
    """Raises AlreadyRunning when another gateway uses this home."""
    handle = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        if not _try_lock(handle):
            raise AlreadyRunning(
                f"Another gateway (pid {_read(handle).get('pid', 'unknown')}) is running in {path.parent}. "
                "Stop it first, or use another home: HERMES_HOME=… hermes gateway run"
            )
        lock = HomeLock(handle)
        lock.tell({"state": "starting"})
        yield lock
        os.ftruncate(handle, 0)
    finally:
        os.close(handle)


def read_state(path: Path) -> dict[str, Any] | None:
    """What the running gateway last told; None when none is running."""
    try:
        handle = os.open(path, os.O_RDWR | os.O_CLOEXEC)
    except FileNotFoundError:
        return None
    try:
        return None if _try_lock(handle) else _read(handle)
    finally:
        os.close(handle)


def _try_lock(handle: int) -> bool:
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _read(handle: int) -> dict[str, Any]:
    for _ in range(3):  # a read can meet a write half way
        try:
            state = json.loads(os.pread(handle, _BLOCK_BYTES, 0))
        except ValueError:
            continue
        if isinstance(state, dict):
            return state
    return {}
