"""Copies of the database, taken while it is in use, and the newest of them that is sound."""

import os
import sqlite3
from datetime import UTC, datetime
from pathlib import Path

from gateway.clock import now_ms
from gateway.store.migrate import find_schema_damage

_PATTERN = "state-*.db"
_FORMAT_OFFSET = 18
_NEWEST_FORMAT = 2
_DAMAGE = {sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB, sqlite3.SQLITE_ERROR}  # the last: an unknown file format
_STALE_SECONDS = 86_400


def make_backup(database: Path, folder: Path, *, keep: int) -> Path:
    """Writes a checked copy and removes the oldest beyond `keep`. Blocks: call it in a thread."""
    folder.mkdir(mode=0o700, exist_ok=True)
    target = folder / f"state-{datetime.now(UTC):%Y%m%dT%H%M%S_%f}.db"
    partial = target.with_suffix(".partial")
    partial.unlink(missing_ok=True)
    try:
        _copy(database, partial)
        if problem := find_damage(partial):
            raise sqlite3.DatabaseError(f"the copy is not sound: {problem}")
        os.chmod(partial, 0o600)
        _sync(partial)
        partial.rename(target)
        _sync(folder)
    finally:
        partial.unlink(missing_ok=True)
    for old in [*backups(folder)[keep:], *_left_by_a_kill(folder)]:
        old.unlink(missing_ok=True)
    return target


def backups(folder: Path) -> list[Path]:
    """The newest first."""
    return sorted(folder.glob(_PATTERN), reverse=True)


def newest_sound_backup(folder: Path) -> Path | None:
    sound = (copy for copy in backups(folder) if copy.stat().st_size and not find_damage(copy, thorough=True))
    return next(sound, None)


def backup_is_due(folder: Path, every_hours: float) -> bool:
    copies = backups(folder)
    return not copies or now_ms() - copies[0].stat().st_mtime * 1000 >= every_hours * 3_600_000


def find_damage(database: Path, *, thorough: bool = False) -> str:
    """What is wrong with a database file; empty when it is sound."""
    try:
        connection = sqlite3.connect(database, isolation_level=None)
        connection.text_factory = lambda raw: raw.decode("utf-8", "replace")
        try:
            check = "integrity_check" if thorough else "quick_check"
            verdict = str(connection.execute(f"PRAGMA {check}(1)").fetchone()[0])
            if verdict != "ok":
                return verdict.splitlines()[-1]  # above it stands only where it was found
            return _find_header_damage(database) or find_schema_damage(connection)
        finally:
            connection.close()
    except sqlite3.DatabaseError as error:
        if getattr(error, "sqlite_errorcode", 0) & 0xFF not in _DAMAGE:
            raise
        return str(error)
    except UnicodeDecodeError:  # SQLite's own words about it, with the broken text in them
        return "malformed database schema"


def _find_header_damage(database: Path) -> str:
    with database.open("rb") as file:
        header = file.read(_FORMAT_OFFSET + 1)
    # SQLite reads a file of a newer format and refuses to write it: that would look like a lack of permission.
    return "unknown file format" if header[_FORMAT_OFFSET:] > bytes([_NEWEST_FORMAT]) else ""


def _left_by_a_kill(folder: Path) -> list[Path]:
    oldest = now_ms() / 1000 - _STALE_SECONDS  # a younger one may be another process's, still at work
    return [partial for partial in folder.glob("state-*.partial") if partial.stat().st_mtime < oldest]


def _copy(database: Path, target: Path) -> None:
    source = sqlite3.connect(database, isolation_level=None)
    try:
        # Reads one snapshot: writers go on meanwhile, and the copy comes out compact.
        source.execute("VACUUM INTO ?", (str(target),))
    finally:
        source.close()


def _sync(path: Path) -> None:
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
