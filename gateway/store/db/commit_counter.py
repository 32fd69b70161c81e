"""A file beside the database that counts its commits.

SQLite cannot know that its log was truncated: it opens what is left and says nothing. Counting commits outside the
database lets a start detect that and tell the operator. The file is written after each commit and never synced, which
costs a microsecond; after a power cut it may lag behind, never run ahead.

After the count comes the seal: size and time of the database at its last orderly close. Checking a large file in full
at each start would take seconds.
"""

import os
import struct
from contextlib import closing
from pathlib import Path

from gateway.errors import StoreCorrupt

_MAGIC = b"HERMES-GATEWAY\0\0"
_COUNT = struct.Struct(">Q")
_SEAL = struct.Struct(">QQ")  # size in bytes and time of the last change in nanoseconds


class CommitCounter:
    def __init__(self, database: Path) -> None:
        self._path = database.with_suffix(".mark")
        self._file: int | None = None

    def read(self) -> int:
        """Return the number of commits ever counted; 0 when there is no file."""
        stored = self._read()
        if len(stored) < len(_MAGIC) + _COUNT.size or not stored.startswith(_MAGIC):
            return 0
        return int(_COUNT.unpack_from(stored, len(_MAGIC))[0])

    def write(self, commits: int) -> None:
        os.pwrite(self._open(), _MAGIC + _COUNT.pack(commits), 0)

    def read_seal(self) -> bytes:
        """Return the seal as it was written; empty when there is none."""
        return self._read()[len(_MAGIC) + _COUNT.size :]

    def write_seal(self, seal: bytes) -> None:
        os.pwrite(self._open(), seal, len(_MAGIC) + _COUNT.size)

    def _read(self) -> bytes:
        return self._path.read_bytes() if self._path.exists() else b""

    def _open(self) -> int:
        if self._file is None:
            self._file = os.open(self._path, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o600)
        return self._file

    def close(self) -> None:
        if self._file is not None:
            os.close(self._file)
            self._file = None


def is_lost(database: Path) -> bool:
    """Return whether there was a database whose file is now gone or empty."""
    return CommitCounter(database).read() > 0 and (not database.exists() or not database.stat().st_size)


def check_not_lost(database: Path) -> None:
    """Raise StoreCorrupt if the file is lost: opening it would create an empty one, and no backup would be restored."""
    if is_lost(database):
        raise StoreCorrupt(f"{database.name} is gone. Start the gateway: it restores the newest backup.")


def seal(database: Path) -> None:
    """Record that the gateway closed the file in an orderly way and found no damage in it."""
    with closing(CommitCounter(database)) as counter:
        counter.write_seal(_compute_seal(database))


def break_seal(database: Path) -> bool:
    """Remove the seal and return whether there was one, so that the start after a failed one checks the file."""
    sealed = is_sealed(database)
    if sealed:
        with closing(CommitCounter(database)) as counter:
            counter.write_seal(bytes(_SEAL.size))
    return sealed


def is_sealed(database: Path) -> bool:
    """Return whether the file is as `seal` left it, with nothing in its log."""
    log = Path(f"{database}-wal")
    if log.exists() and log.stat().st_size:
        return False
    return CommitCounter(database).read_seal() == _compute_seal(database)


def _compute_seal(database: Path) -> bytes:
    found = database.stat()
    return _SEAL.pack(found.st_size, found.st_mtime_ns)
