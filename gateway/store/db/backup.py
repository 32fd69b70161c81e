"""Make, list and check copies of the database file."""

import os
import sqlite3
from contextlib import closing
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from gateway.clock import now_ms
from gateway.store.db.schema import find_schema_damage, migrations, schema_version
from hermes_config.places import APPLICATION_ID


@dataclass(frozen=True, slots=True, kw_only=True)
class BackupPolicy:
    backups: Path
    backups_kept: int = 7
    upgrade_backups_kept: int = 2
    full_check_max_mb: int = 256  # a larger file gets only the quick check
    busy_timeout_seconds: float = 5.0


_PATTERN = "state-*.db"
_BEFORE_CHANGES = "before-schema-*.db"
_REPLACED = "replaced-*.db"  # the database before a restore by hand; stays until somebody deletes it
_FORMAT_OFFSET = 18
_NEWEST_FORMAT = 2
_DAMAGE = {sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB, sqlite3.SQLITE_ERROR}  # the last: an unknown file format
_STALE_SECONDS = 86_400


@dataclass(frozen=True, slots=True, kw_only=True)
class Copy:
    name: str
    taken_ms: int
    size_bytes: int
    schema: int | None
    problem: str  # why it cannot be restored; empty when it can


def make_backup(database: Path, folder: Path, *, keep: int) -> Path:
    """Write a checked copy and remove the oldest beyond `keep`. Blocks: call it in a thread."""
    target = folder / f"state-{stamp()}.db"
    with closing(sqlite3.connect(database, isolation_level=None)) as source:
        write_copy(source, target)
    oldest = now_ms() / 1000 - _STALE_SECONDS  # a younger one may belong to a running process
    stale = [partial for partial in folder.glob("*.partial*") if partial.stat().st_mtime < oldest]
    for old in [*backups(folder)[keep:], *stale]:
        old.unlink(missing_ok=True)
    return target


def keep_before_change(source: sqlite3.Connection, folder: Path, *, to: int) -> Path:
    """Copy the database before a change of schema; one at a time. Older copies stay until `forget_old_changes`."""
    for left_by_a_kill in folder.glob("before-schema-*.partial*"):
        left_by_a_kill.unlink()
    target = folder / f"before-schema-{to:04}-{stamp()}.db"
    write_copy(source, target)
    return target


def forget_old_changes(folder: Path, *, keep: int) -> None:
    for old in before_changes(folder)[keep:]:
        old.unlink(missing_ok=True)


def write_copy(source: sqlite3.Connection, target: Path) -> None:
    """Write a compact, checked and synced copy, or none at all. Reads one snapshot, so writers are not blocked."""
    target.parent.mkdir(mode=0o700, exist_ok=True)
    partial = target.with_suffix(".partial")
    partial.unlink(missing_ok=True)
    try:
        vacuum_into(source, partial)
        if problem := find_damage(partial):
            raise sqlite3.DatabaseError(f"the copy is not sound: {problem}")
        sync(partial)
        partial.rename(target)
        sync(target.parent)
    finally:
        partial.unlink(missing_ok=True)


def vacuum_into(source: sqlite3.Connection, copy: Path) -> None:
    """Write a compact copy to a new file that nobody else may ever read, even if a kill leaves it behind."""
    copy.touch(mode=0o600)
    source.execute("VACUUM INTO ?", (str(copy),))


def stamp() -> str:
    return f"{datetime.now(UTC):%Y%m%dT%H%M%S_%f}"


def backups(folder: Path) -> list[Path]:
    """Return the periodic backups, newest first."""
    return sorted(_files(folder, _PATTERN), reverse=True)


def before_changes(folder: Path) -> list[Path]:
    """Return the copies made before a change of schema, newest first."""
    return sorted(_files(folder, _BEFORE_CHANGES), key=_stamp_of, reverse=True)


def newest_sound_backup(folder: Path) -> Path | None:
    """Return the newest copy that this version can open."""
    copies = sorted([*backups(folder), *before_changes(folder)], key=_stamp_of, reverse=True)
    return next((copy for copy in copies if not find_restore_problem(copy)), None)


def find_restore_problem(copy: Path) -> str:
    """Return why a copy cannot replace the database; empty when it can."""
    try:
        if not copy.stat().st_size:
            return "it is empty"
        if damage := find_damage(copy, thorough=True):
            return damage
        number = schema_of(copy)
    except (OSError, sqlite3.OperationalError) as error:  # such as a copy made by root: the others may be fine
        return f"it cannot be opened ({getattr(error, 'strerror', None) or error})"
    if not number:
        return "it is no database of Hermes"
    return f"a newer Hermes wrote it (schema {number})" if number > max(migrations()) else ""


def list_copies(folder: Path) -> list[Copy]:
    """Check every copy in full and list them, newest first."""
    copies = [*backups(folder), *before_changes(folder), *_files(folder, _REPLACED)]
    return [_inspect(copy) for copy in sorted(copies, key=_stamp_of, reverse=True)]


def schema_of(database: Path) -> int:
    """Return the schema of a database; 0 when it is not one of Hermes."""
    with closing(sqlite3.connect(database, isolation_level=None)) as connection:
        ours = connection.execute("PRAGMA application_id").fetchone()[0] == APPLICATION_ID
        return schema_version(connection) if ours else 0


def backup_is_due(folder: Path, every_hours: float) -> bool:
    copies = backups(folder)
    return not copies or now_ms() - copies[0].stat().st_mtime * 1000 >= every_hours * 3_600_000


def find_damage(database: Path, *, thorough: bool = False) -> str:
    """Return what is wrong with a database file; empty when it is sound.

    Never in a process that has the database open: closing the file drops all locks that SQLite has on it.
    """
    try:
        with closing(sqlite3.connect(database, isolation_level=None)) as connection:
            connection.text_factory = lambda raw: raw.decode("utf-8", "replace")
            check = "integrity_check" if thorough else "quick_check"
            verdict = str(connection.execute(f"PRAGMA {check}(1)").fetchone()[0])
            if verdict != "ok":
                return verdict.splitlines()[-1]  # the lines above only say where it was found
            with database.open("rb") as file:
                header = file.read(_FORMAT_OFFSET + 1)
            # SQLite reads a file of a newer format but refuses to write it, which would look like a missing permission.
            if header[_FORMAT_OFFSET:] > bytes([_NEWEST_FORMAT]):
                return "unknown file format"
            return find_schema_damage(connection)
    except sqlite3.DatabaseError as error:
        if getattr(error, "sqlite_errorcode", 0) & 0xFF not in _DAMAGE:
            raise
        return str(error)
    except UnicodeDecodeError:  # from SQLite's error message, which quotes the broken text
        return "malformed database schema"


def _files(folder: Path, pattern: str) -> list[Path]:
    """Return the matching files, without folders and broken links."""
    return [file for file in folder.glob(pattern) if file.is_file()]


def _inspect(copy: Path) -> Copy:
    problem, found = find_restore_problem(copy), copy.stat()
    return Copy(
        name=copy.name,
        taken_ms=int(found.st_mtime * 1000),
        size_bytes=found.st_size,
        schema=None if problem else schema_of(copy),
        problem=problem,
    )


def _stamp_of(copy: Path) -> str:
    return copy.stem.rpartition("-")[2]


def sync(path: Path) -> None:
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
