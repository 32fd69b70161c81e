"""Lock the home for one gateway; the lock file also holds the state of that gateway.

The file is one block, allocated once and written in place, so that the state can be written even while the disk is
full. Only the lock itself tells whether the writer is alive, never the pid alone.
"""

import errno
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
_RETRY_SECONDS = 0.01  # longer than `read_state` holds the lock


class HomeLock:
    """The lock on a home, held from `hold_home` until the process ends, however it ends."""

    def __init__(self, handle: int) -> None:
        self._handle = handle

    def tell(self, state: dict[str, Any]) -> None:
        text = json.dumps({"pid": os.getpid()} | state, ensure_ascii=True)
        if len(text) > _BLOCK_BYTES:
            text = json.dumps({"pid": os.getpid(), "problem": "the state is too long for the lock file"})
        with suppress(OSError):  # some file systems need free space even here; go on without
            os.pwrite(self._handle, text.ljust(_BLOCK_BYTES).encode(), 0)


@contextmanager
def hold_home(path: Path) -> Iterator[HomeLock]:
    """Lock a home. Raises AlreadyRunning if another gateway uses it, StoreUnavailable if it cannot be written to."""
    try:
        handle = _open(path, os.O_CREAT)
    except OSError as error:
        raise StoreUnavailable(f"{path} cannot be written: {error.strerror}. Nothing was changed.") from error
    try:
        if not _lock_with_retries(handle):
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
    """Return the last state of the running gateway; None when none is running."""
    try:
        handle = _open(path)
    except FileNotFoundError:
        return None
    try:
        # Shared: two readers at the same time must not take each other for a gateway.
        return None if _try_lock(handle, fcntl.LOCK_SH) else _read(handle)
    finally:
        os.close(handle)


def _open(path: Path, flags: int = 0) -> int:
    """Open the lock file. Raises OSError, or StoreUnavailable for a link: it would have us write anywhere."""
    try:
        return os.open(path, os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW | flags, 0o600)
    except OSError as error:
        if error.errno != errno.ELOOP:
            raise
        raise StoreUnavailable(f"{path} is a symbolic link, which Hermes did not create. Delete it.") from error


def _lock_with_retries(handle: int) -> bool:
    """Lock the file, with retries: a reader of the state holds the lock for a moment."""
    for _ in range(_TRIES):
        if _try_lock(handle, fcntl.LOCK_EX):
            return True
        time.sleep(_RETRY_SECONDS)
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
