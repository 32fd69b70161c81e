"""A file beside the database that says how far it ever came.

SQLite cannot know that its log was cut: it opens what is left and says nothing. The mark counts commits
outside the database, so that a start can tell the operator. It is written after each commit and never
synced, which costs a microsecond; after a power cut it may lag behind, never run ahead.
"""

import os
import struct
from pathlib import Path

from gateway.errors import StoreCorrupt

_MAGIC = b"HERMES-GATEWAY\0\0"
_COUNT = struct.Struct(">Q")


class Mark:
    def __init__(self, database: Path) -> None:
        self._path = database.with_suffix(".mark")
        self._file: int | None = None

    def read(self) -> int:
        """The number of commits ever seen; 0 when there is no mark."""
        try:
            stored = self._path.read_bytes()
        except FileNotFoundError:
            return 0
        if len(stored) < len(_MAGIC) + _COUNT.size or not stored.startswith(_MAGIC):
            return 0
        return int(_COUNT.unpack_from(stored, len(_MAGIC))[0])

    def write(self, commits: int) -> None:
        if self._file is None:
            self._file = os.open(self._path, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o600)
        os.pwrite(self._file, _MAGIC + _COUNT.pack(commits), 0)

    def close(self) -> None:
        if self._file is not None:
            os.close(self._file)
            self._file = None


def is_lost(database: Path) -> bool:
    """Whether there was a database, and its file is gone or empty now."""
    return Mark(database).read() > 0 and (not database.exists() or not database.stat().st_size)


def check_not_lost(database: Path) -> None:
    """Raises StoreCorrupt. Opening the file all the same would make an empty one, and no backup would be restored."""
    if is_lost(database):
        raise StoreCorrupt(f"{database.name} is gone. Start the gateway: it restores the newest backup.")
