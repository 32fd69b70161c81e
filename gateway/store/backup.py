"""Copies of the database, taken while it is in use, and the newest of them that is sound."""

import os
import sqlite3
from datetime import UTC, datetime
from pathlib import Path

from gateway.clock import now_ms

_PATTERN = "state-*.db"


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
    for old in backups(folder)[keep:]:
        old.unlink(missing_ok=True)
    return target


def backups(folder: Path) -> list[Path]:
    """The newest first."""
    return sorted(folder.glob(_PATTERN), reverse=True)


def newest_sound_backup(folder: Path) -> Path | None:
    return next((copy for copy in backups(folder) if not find_damage(copy)), None)


def backup_is_due(folder: Path, every_hours: float) -> bool:
    copies = backups(folder)
    return not copies or now_ms() - copies[0].stat().st_mtime * 1000 >= every_hours * 3_600_000


def find_damage(database: Path, *, thorough: bool = False) -> str:
    """What is wrong with a database file; empty when it is sound."""
    try:
        connection = sqlite3.connect(database, isolation_level=None)
        try:
            check = "integrity_check" if thorough else "quick_check"
            verdict = str(connection.execute(f"PRAGMA {check}(1)").fetchone()[0])
            return "" if verdict == "ok" else verdict.splitlines()[0]
        finally:
            connection.close()
    except sqlite3.DatabaseError as error:
        if getattr(error, "sqlite_errorcode", 0) & 0xFF not in (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB):
            raise
        return str(error)


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
