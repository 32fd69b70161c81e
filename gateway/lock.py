"""One gateway per home: a lock that says who holds it and how it is doing.

The file is one block, allocated once and written in place, so that the state can be told even while the
disk is full. Whether the writer is alive is known by the lock itself, never by the pid alone.
"""

import fcntl
import json
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from gateway.errors import AlreadyRunning, StoreUnavailable

_BLOCK_BYTES = 4096
_TRIES = 10
_GLANCE_SECONDS = 0.01  # longer than `read_state` holds the lock


class HomeLock:
    """Held from `hold_home` until the process ends, however it ends."""

    def __init__(self, handle: int) -> None:
        self._handle = handle

    def tell(self, state: dict[str, Any]) -> None:
        text = json.dumps({"pid": os.getpid()} | state, ensure_ascii=True)
        if len(text) > _BLOCK_BYTES:
            text = json.dumps({"pid": os.getpid(), "problem": "more to tell than fits"})
        with suppress(OSError):  # where even a block in place needs room on the disk, we go on untold
            os.pwrite(self._handle, text.ljust(_BLOCK_BYTES).encode(), 0)


@contextmanager
def hold_home(path: Path) -> Iterator[HomeLock]:
    """Raises AlreadyRunning when another gateway uses this home, StoreUnavailable when nothing can be written there."""
    try:
        handle = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    except OSError as error:
        raise StoreUnavailable(f"{path} cannot be written: {error.strerror}. Nothing was changed.") from error
    try:
        if not _lock_patiently(handle):
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
        # Shared: two who look at the same time must not take each other for a gateway.
        return None if _try_lock(handle, fcntl.LOCK_SH) else _read(handle)
    finally:
        os.close(handle)


def _lock_patiently(handle: int) -> bool:
    """Whoever looks at the state has the lock for a moment, and is no gateway."""
    for _ in range(_TRIES):
        if _try_lock(handle, fcntl.LOCK_EX):
            return True
        time.sleep(_GLANCE_SECONDS)
    return False


def _try_lock(handle: int, kind: int) -> bool:
    try:
        fcntl.flock(handle, kind | fcntl.LOCK_NB)
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
